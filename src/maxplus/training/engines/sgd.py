"""Stochastic subgradient descent on the mean loss: one random sample per step."""

from __future__ import annotations

import math

import numpy as np

from maxplus.models import LMM, Model
from maxplus.models._lmm_kernels import empty_gradient
from maxplus.models._softmax import sample_loss
from maxplus.training.engines import _sgd_kernels
from maxplus.training.engines._descent import empty_journal
from maxplus.training.engines.base import Best, Engine
from maxplus.training.problem import NO_SAMPLE, MeanLoss, TrainingProblem
from maxplus.training.result import Block, Signal
from maxplus.training.steps import step_size


class SGDEngine(Engine):
    """W ← W − α·Loss_n'(W) for samples n drawn with probability proportional to their weight.

    O(P·H) per step. The history's ``loss`` is the drawn sample's own, an unbiased
    estimate of the mean. The mean itself is computed once per epoch (N steps),
    which costs as much as the steps did; the best epoch is kept.

    Parameters
    ----------
    model : Model
        What steps move, in place.
    problem : TrainingProblem
    """

    name = "sgd"
    objectives = (MeanLoss,)

    def __init__(self, model: Model, problem: TrainingProblem) -> None:
        super().__init__(model, problem)
        self._rng = np.random.default_rng() if problem.rng is None else problem.rng
        weight = np.ones(len(problem.y)) if problem.weight is None else problem.weight
        self._cumulative = np.cumsum(weight / weight.sum())
        # The last iteration that was evaluated, and its mean loss.
        self._evaluated = -1, math.inf

    def advance(self, block: Block) -> None:
        """Do the iterations that ``block`` has room for, with an evaluation at each epoch."""
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
            # One uniform number per sample: how draws are cut into blocks makes no difference.
            draws = np.searchsorted(self._cumulative, self._rng.random(size), side="right")
            block.sample[part] = np.minimum(draws, epoch - 1)
            self._descend(block.loss[part], block.sample[part], block.step[part])
            block.n += size
            self.iteration += size
        return None

    @property
    def best(self) -> Model:
        """The weights with the lowest mean loss, of each epoch's start and the present ones."""
        self._evaluate()
        return self._kept.model

    def _evaluate(self) -> float:
        """The mean loss now; keeps the weights if they are the best so far; O(N·P·H)."""
        at, mean = self._evaluated
        if at != self.iteration:
            losses = self.model.losses(self.problem.X, self.problem.y)
            mean = self.problem.objective.value(losses, self.problem.weight).loss
            if mean < self.best_loss:
                self._kept = Best(mean, self.model.copy())
            self._evaluated = self.iteration, mean
        return mean

    def _descend(self, loss: np.ndarray, sample: np.ndarray, step: np.ndarray) -> None:
        problem, model = self.problem, self.model
        if isinstance(model, LMM):
            _sgd_kernels.sgd_block(
                problem.X, problem.y, model.weights, empty_gradient(model.n_classes, model.dtype),
                self.step, problem.linear_every, self.iteration,
                empty_journal(1, model.n_classes), loss, sample, step,
            )  # fmt: skip
            return
        for k, n in enumerate(sample):
            z = model.scores(problem.X[n : n + 1])[0]
            loss[k], step[k] = sample_loss(z, problem.y[n]), 0.0
            G = model.subgradient(problem.X[n], int(problem.y[n]))
            norm = G.squared_norm()
            if loss[k] > self.step.target and norm > 0.0:
                step[k] = step_size(self.step, self.iteration + k, loss[k], norm)
                model.move(G, step[k])
