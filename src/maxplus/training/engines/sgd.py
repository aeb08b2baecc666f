"""Stochastic subgradient descent on the mean loss: one random sample per step."""

from __future__ import annotations

import math

import numpy as np

from maxplus._compile.jit import njit
from maxplus._compile.references import referenced
from maxplus.models import LMM, Model
from maxplus.models._lmm_kernels import active_path, empty_gradient
from maxplus.models._softmax import sample_loss
from maxplus.training.engines.base import Best, Engine
from maxplus.training.engines.step import descend
from maxplus.training.problem import NO_SAMPLE, MeanLoss, TrainingProblem
from maxplus.training.result import Block, Signal
from maxplus.training.steps import step_size


class SGDEngine(Engine):
    """Engine that takes a step on one random sample per iteration, W ← W − α·Loss_n'(W).

    Samples n are drawn with probability proportional to their weight. O(P·H) per step. The history
    contains the loss of the drawn sample, an unbiased estimate of the mean loss. The mean loss is
    computed before each epoch of N steps, in about the time of an epoch, and the weights with the
    lowest mean loss are kept. No step is taken if the loss of the sample is at most the target.

    Parameters
    ----------
    model : Model
        The model to train, in place.
    problem : TrainingProblem
    """

    name = "sgd"
    objectives = (MeanLoss,)

    def __init__(self, model: Model, problem: TrainingProblem) -> None:
        super().__init__(model, problem)
        self._rng = np.random.default_rng() if problem.rng is None else problem.rng
        weight = np.ones(len(problem.y)) if problem.weight is None else problem.weight
        self._cumulative = np.cumsum(weight / weight.sum())
        # The iteration of the last evaluation, and the mean loss before it.
        self._evaluated = -1, math.inf

    def advance(self, block: Block) -> None:
        """Run the remaining iterations of ``block``, with an evaluation before each epoch."""
        epoch = len(self.problem.y)
        while block.n < block.loss.size:
            done = self.iteration - self.problem.start
            if done % epoch == 0:
                mean = self._evaluate()
                if mean <= self.step.target:
                    return block.end(mean, NO_SAMPLE, Signal.TARGET)
                if not math.isfinite(mean):
                    return block.end(mean, NO_SAMPLE, Signal.OVERFLOW)
            size = min(block.loss.size - block.n, epoch - done % epoch)
            part = slice(block.n, block.n + size)
            # One random number per step, so that results do not depend on the block size.
            draws = np.searchsorted(self._cumulative, self._rng.random(size), side="right")
            block.sample[part] = np.minimum(draws, epoch - 1)
            self._descend(block.loss[part], block.sample[part], block.step[part])
            block.n += size
            self.iteration += size
        return None

    @property
    def best(self) -> Model:
        """The best of the weights at the beginning of each epoch and the current weights."""
        self._evaluate()
        return self._kept.model

    def _evaluate(self) -> float:
        """Return the current mean loss; keep the weights if they are the best so far; O(N·P·H)."""
        at, mean = self._evaluated
        if at != self.iteration:
            losses = self.model.losses(self.problem.X, self.problem.y)
            mean = self.problem.objective.value(losses, self.problem.weight).loss
            if mean < self.best_loss:
                self._kept = Best(mean, self.model.copy())
            self._evaluated = self.iteration, mean
        return mean

    def _descend(self, loss: np.ndarray, sample: np.ndarray, step: np.ndarray) -> None:
        """Take a step on each drawn sample; fill ``loss`` and ``step``."""
        problem, model = self.problem, self.model
        if isinstance(model, LMM):
            grad = empty_gradient(model.n_classes, model.dtype)
            _descend_lmm(
                problem.X,
                problem.y,
                model.weights,
                grad,
                self.step,
                problem.w0_update_interval,
                self.iteration,
                loss,
                sample,
                step,
            )
            return
        for k, n in enumerate(sample):
            z = model.scores(problem.X[n : n + 1])[0]
            loss[k], step[k] = sample_loss(z, problem.y[n]), 0.0
            if loss[k] > self.step.target:
                G = model.subgradient(problem.X[n], int(problem.y[n]))
                step[k] = step_size(self.step, self.iteration + k, loss[k], G.squared_norm())
                if step[k] != 0.0:
                    model.move(G, step[k])


@njit(cache=True)
def _descend_lmm(X, y, weights, grad, rule, w0_update_interval, t, loss, sample, step):
    """Take a step on each drawn sample; fill ``loss`` and ``step``; O(P·H) per step."""
    grad, rule = referenced(grad), referenced(rule)
    lam = np.empty(weights.W0.size, X.dtype)
    g = np.empty(weights.W1T.shape[0], X.dtype)
    for k in range(loss.size):
        n = sample[k]
        active_path(X[n], weights, lam, g, grad.z, grad.h_star, grad.i_star)
        loss[k] = sample_loss(grad.z, y[n])
        step[k] = 0.0
        # Below the target, a Polyak step would have a negative size.
        if loss[k] > rule.target:
            step[k] = descend(
                weights, grad, X[n], y[n], loss[k], t + k, rule, w0_update_interval, None, 0
            )
