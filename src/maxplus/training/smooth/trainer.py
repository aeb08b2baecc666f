"""Annealed training of the soft model; the hard model is what comes out."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxplus.models import LMM
from maxplus.training._adam_kernels import adam_step, move_serial
from maxplus.training.smooth.soft_lmm import SoftLMM

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
    """The hard model, each epoch's mean soft loss, and the validation accuracy if asked for."""

    model: LMM
    losses: list[float]
    validation: list[float]
    coldest: float


def smooth_train(
    model: LMM,
    X: NDArray,
    y: NDArray,
    annealing: Annealing,
    rng: np.random.Generator,
    *,
    validation: tuple[NDArray, NDArray] | None = None,
    margin: NDArray | None = None,
    tell: Callable[[int, float], bool | None] | None = None,
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
    validation : (X, y), optional
    margin : see `SoftLMM.gradient`
    tell : called with epochs done and the epoch's loss; returning True ends training
    """
    X32 = np.ascontiguousarray(X, np.float32)
    soft = SoftLMM(model.W0, X32.min(axis=0), X32.max(axis=0))
    size = annealing.size
    cold = max(annealing.cold * size, soft.coldest)
    hot = max(annealing.hot * size, cold)
    W1, W2 = (np.ascontiguousarray(W, np.float32) for W in (model.W1, model.W2))
    adam = [_Adam(W1), _Adam(W2)]
    batch = min(annealing.batch, len(y))
    n_batches = max(1, len(y) // batch)
    total, done = annealing.epochs * n_batches, 0
    losses: list[float] = []
    scores: list[float] = []
    best: LMM | None = None
    for epoch in range(annealing.epochs):
        order, epoch_loss = rng.permutation(len(y)), 0.0
        for k in range(n_batches):
            share = done / total
            tau = hot * (cold / hot) ** min(1.0, share / COOLING)
            falling = 0.5 * (1 + math.cos(math.pi * share))
            rate = annealing.rate * size * (LAST_RATE + (1 - LAST_RATE) * falling)
            part = order[k * batch : (k + 1) * batch]
            gradient = soft.gradient(X32[part], y[part], W1, W2, tau, margin)
            adam[0].move(gradient.W1, rate)
            adam[1].move(gradient.W2, rate)
            epoch_loss += gradient.loss
            done += 1
        losses.append(epoch_loss / n_batches)
        stop = bool(tell(epoch + 1, losses[-1])) if tell is not None else False
        if validation is not None:
            hard = _hard(model, W1, W2)
            scores.append(_accuracy(hard, *validation))
            if scores[-1] >= max(scores):
                best = hard
            since = epoch - int(np.argmax(scores))
            stop |= annealing.patience is not None and since >= annealing.patience
        if stop:
            break
    return SmoothResult(best or _hard(model, W1, W2), losses, scores, cold)


def _hard(model: LMM, W1: NDArray, W2: NDArray) -> LMM:
    """The model with these offsets, in its own float type."""
    return LMM(model.W0.copy(), W1.astype(model.dtype), W2.astype(model.dtype))


def _accuracy(model: LMM, X: NDArray, y: NDArray) -> float:
    return float((model.scores(X).argmax(axis=1) == y).mean())


class _Adam:
    """Adam's memory for one array of weights, which it moves in place."""

    def __init__(self, weights: NDArray) -> None:
        self._theta = weights.reshape(-1)
        self._m, self._v = np.zeros_like(self._theta), np.zeros_like(self._theta)
        self._t = 0

    def move(self, gradient: NDArray, rate: float) -> None:
        self._t += 1
        step = adam_step(self._t, rate, self._theta.dtype, BETA2)
        move_serial(self._theta, self._m, self._v, gradient.reshape(-1), step)
