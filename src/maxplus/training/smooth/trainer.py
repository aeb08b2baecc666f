"""Annealed training of the soft model; the hard model is what comes out."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxplus.models import LMM
from maxplus.training._adam_kernels import adam_step, move_serial
from maxplus.training.interrupts import deferred_interrupt
from maxplus.training.loop import Callback, Progress
from maxplus.training.result import History, Signal, Status
from maxplus.training.smooth.soft_lmm import SoftGradient, SoftLMM
from maxplus.training.smooth.units import Units
from maxplus.training.state import WARM_UP, TrainingState
from maxplus.training.steps import NO_MEMORY

Augment = Callable[[NDArray, np.random.Generator], NDArray]

# A shorter memory of squares than usual: the temperature, and with it the gradient's size, changes.
BETA2 = 0.99
# The share of the run over which the temperature falls; it stays cold for the rest.
COOLING = 0.9
# The step's size at the end, as a share of its size at the beginning.
LAST_RATE = 0.02


class Annealing(NamedTuple):
    """How the soft model is trained; temperatures and rate are in units of ``size``.

    ``size`` is the score that a typical distance between classes is worth: the
    slope times the median L∞ distance of samples of different classes.
    """

    size: float
    epochs: int = 10
    batch: int = 200
    hot: float = 0.1
    cold: float = 0.03
    rate: float = 0.01
    patience: int | None = None


@dataclass(frozen=True)
class SmoothResult:
    """The hard model, each epoch's mean soft loss, the validation accuracies, and how it ended."""

    model: LMM
    losses: NDArray
    validation: NDArray
    status: Status


def smooth_train(
    model: LMM,
    X: NDArray,
    y: NDArray,
    annealing: Annealing,
    rng: np.random.Generator,
    *,
    weight: NDArray | None = None,
    validation: tuple[NDArray, NDArray] | None = None,
    margin: float = 0.0,
    augment: Augment | None = None,
    callbacks: Iterable[Callback] = (),
    state: TrainingState | None = None,
    is_last: bool = False,
) -> SmoothResult:
    """Train W1 and W2 by Adam on the soft model's mean loss, from hot to cold.

    The temperature falls geometrically over 90 % of the run and stops where float32
    could no longer hold the exponentials. With a validation set, the hard model is
    evaluated after each epoch, the best one is kept, and training ends after
    ``patience`` epochs without a better one (if given). O(epochs·N·P·H).

    Parameters
    ----------
    model : LMM, where training starts; it is not changed
    X, y : samples and classes 0..C−1
    annealing : Annealing
    rng : shuffles the samples
    weight : of each sample in the mean, optional
    validation : (X, y), optional
    margin : by how much all scores but the true one are raised before the loss is taken
    augment : called with a batch's rows and ``rng``; the rows to train on instead, optional
    callbacks : told a `Progress` after each epoch; one that returns True ends training, as
        does Ctrl-C
    state : where an interrupted training was, optional
    is_last : whether nothing will follow, which callbacks are told
    """
    started = time.perf_counter()
    callbacks = list(callbacks)
    units = Units.of(model, X, annealing.size)
    X32 = units.rows(X)
    soft = SoftLMM(units.W0, annealing.size)
    cold = max(annealing.cold, units.coldest)
    hot = max(annealing.hot, cold)
    run = _Run.begin(units, model) if state is None else _Run.restore(units, state, rng)
    if weight is not None:
        weight = weight / weight.max()
    batch = min(annealing.batch, len(y))
    n_batches = max(1, len(y) // batch)
    total = annealing.epochs * n_batches
    status = Status.MAX_ITER if not run.is_over(annealing) else Status.VALIDATION
    settled = run.state(model, rng)
    with deferred_interrupt() as interrupt:
        while len(run.losses) < annealing.epochs and status is Status.MAX_ITER:
            epoch, order, epoch_loss = len(run.losses), rng.permutation(len(y)), 0.0
            for k in range(n_batches):
                share = (epoch * n_batches + k) / total
                tau = hot * (cold / hot) ** min(1.0, share / COOLING)
                falling = 0.5 * (1 + math.cos(math.pi * share))
                rate = annealing.rate * (LAST_RATE + (1 - LAST_RATE) * falling)
                part = order[k * batch : (k + 1) * batch]
                rows = X32[part] if augment is None else units.rows(_made(augment, X[part], rng))
                own = None if weight is None else weight[part]
                gradient = soft.gradient(
                    rows, y[part], run.W1, run.W2, tau, margin / annealing.size, own
                )
                run.move(gradient, rate)
                epoch_loss += gradient.loss
                if interrupt.requested:
                    break
            run.losses.append(epoch_loss / (k + 1))
            if validation is not None:
                run.judge(model, *validation)
            over = run.is_over(annealing)
            if not interrupt.requested:
                # A checkpoint goes on from the end of an epoch, so that no batch is done twice.
                settled = run.state(model, rng)
            ends = over or epoch + 1 == annealing.epochs
            progress = Progress(
                epoch + 1, annealing.epochs, run.losses[-1], min(run.losses),
                time.perf_counter() - started, run.hard(model),
                interrupt.requested or (ends and is_last), partial(_same, settled), WARM_UP,
            )  # fmt: skip
            answers = [callback(progress) for callback in callbacks]
            if interrupt.requested:
                status = Status.INTERRUPTED
            elif any(answers):
                status = Status.CALLBACK
            elif over:
                status = Status.VALIDATION
    kept = run.kept(model)
    return SmoothResult(kept, np.array(run.losses), np.array(run.scores), status)


class _Run:
    """Weights, Adam's memories and the course of a training, all that changes during it."""

    def __init__(
        self, units: Units, W1: NDArray, W2: NDArray, adam: list[Adam], losses: list[float],
        scores: list[float], best: tuple[NDArray, NDArray] | None,
    ) -> None:  # fmt: skip
        self.units, self.W1, self.W2, self.adam = units, W1, W2, adam
        self.losses, self.scores, self._best = losses, scores, best

    @classmethod
    def begin(cls, units: Units, model: LMM) -> _Run:
        W1, W2 = units.offsets(model)
        return cls(units, W1, W2, [Adam.begin(W1), Adam.begin(W2)], [], [], None)

    @classmethod
    def restore(cls, units: Units, state: TrainingState, rng: np.random.Generator) -> _Run:
        more = state.more
        W1, W2 = (np.array(more[name], np.float32, order="C") for name in ("W1", "W2"))
        steps = int(more["steps"][0])
        adam = [Adam(W1, more["m1"].copy(), more["v1"].copy(), steps)]
        adam.append(Adam(W2, more["m2"].copy(), more["v2"].copy(), steps))
        assert state.generator is not None
        rng.bit_generator.state = state.generator
        best = (more["best1"], more["best2"]) if "best1" in more else None
        return cls(units, W1, W2, adam, more["losses"].tolist(), more["scores"].tolist(), best)

    def state(self, model: LMM, rng: np.random.Generator) -> TrainingState:
        hard, kept = self.hard(model), self.kept(model)
        more = {
            "W1": self.W1.copy(), "W2": self.W2.copy(),
            "steps": np.array([self.adam[0].steps]),
            "losses": np.array(self.losses), "scores": np.array(self.scores),
        }  # fmt: skip
        for k, adam in enumerate(self.adam, 1):
            more |= {f"m{k}": adam.mean.copy(), f"v{k}": adam.square.copy()}
        if self._best is not None:
            more |= {"best1": self._best[0], "best2": self._best[1]}
        return TrainingState(
            len(self.losses), _weights(hard), _weights(kept), min(self.losses, default=math.inf),
            {name: History()[name] for name in History.columns}, Signal.GOES_ON, NO_MEMORY,
            rng.bit_generator.state, WARM_UP, more,
        )  # fmt: skip

    def move(self, gradient: SoftGradient, rate: float) -> None:
        self.adam[0].move(gradient.W1, rate)
        self.adam[1].move(gradient.W2, rate)

    def judge(self, model: LMM, X: NDArray, y: NDArray) -> None:
        """Note the hard model's accuracy, and the weights if it is the best so far."""
        right = self.hard(model).scores(X).argmax(axis=1) == y
        self.scores.append(float(right.mean()))
        if self.scores[-1] >= max(self.scores):
            self._best = self.W1.copy(), self.W2.copy()

    def is_over(self, annealing: Annealing) -> bool:
        """Whether the validation accuracy has not risen for too long."""
        if annealing.patience is None or not self.scores:
            return False
        return len(self.scores) - 1 - int(np.argmax(self.scores)) >= annealing.patience

    def hard(self, model: LMM) -> LMM:
        """The model with the present offsets."""
        return self.units.hard(model, self.W1, self.W2)

    def kept(self, model: LMM) -> LMM:
        """The one to keep: with validation, the best."""
        return self.hard(model) if self._best is None else self.units.hard(model, *self._best)


class Adam:
    """Adam's memory for one array of weights, which it moves in place."""

    def __init__(self, weights: NDArray, mean: NDArray, square: NDArray, steps: int) -> None:
        self._theta = weights.reshape(-1)
        self.mean, self.square, self.steps = mean, square, steps

    @classmethod
    def begin(cls, weights: NDArray) -> Adam:
        return cls(
            weights, np.zeros(weights.size, np.float32), np.zeros(weights.size, np.float32), 0
        )

    def move(self, gradient: NDArray, rate: float) -> None:
        self.steps += 1
        step = adam_step(self.steps, rate, self._theta.dtype, BETA2)
        move_serial(self._theta, self.mean, self.square, gradient.reshape(-1), step)


def _same(state: TrainingState) -> TrainingState:
    return state


def _weights(model: LMM) -> dict[str, NDArray]:
    return {name: getattr(model, name) for name in model.layers}


def _made(augment: Augment, rows: NDArray, rng: np.random.Generator) -> NDArray:
    """What ``augment`` makes of a batch, checked: it is the user's."""
    made = np.asarray(augment(rows, rng), rows.dtype)
    if made.shape != rows.shape or not np.isfinite(made).all():
        raise ValueError(
            f"augment must return finite numbers of the shape it was given, {rows.shape}; "
            f"got shape {made.shape}"
        )
    return made
