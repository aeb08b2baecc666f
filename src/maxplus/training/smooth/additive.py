"""Joint training of the terms of an `AdditiveLMM` by annealed soft minima and maxima."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxplus.models import LMM, AdditiveLMM, Term
from maxplus.training.result import TrainingOverflowError
from maxplus.training.smooth._additive_kernels import (
    ABSOLUTE,
    CROSS_ENTROPY,
    SQUARED,
    FlatWeights,
    Layout,
    Schedule,
    empty_buffers,
    train_epoch,
)

# Samples in a step of Adam, and the least; epochs, and the fewest steps of a training.
BATCH, LEAST_BATCH = 200, 8
EPOCHS, LEAST_STEPS = 10, 500
LOSSES = {"log_loss": CROSS_ENTROPY, "squared": SQUARED, "absolute": ABSOLUTE}

OnEpoch = Callable[[int, float, Callable[[], AdditiveLMM]], bool]


class Annealing(NamedTuple):
    """How terms are trained: temperatures and rates in units of ``scale``.

    ``scale`` is what a distance of 1 between mapped features is worth in a term's score;
    ``length`` multiplies the number of epochs; ``n_epochs`` and ``batch_size`` are a user's own.
    """

    scale: float = 1.0
    hot: float = 0.15
    cold: float = 0.05
    rate: float = 0.02
    slope_rate: float = 0.5
    length: float = 1.0
    n_epochs: int | None = None
    batch_size: int | None = None

    def batch(self, n_rows: int) -> int:
        """Return the number of samples in a step."""
        if self.batch_size is not None:
            return min(n_rows, self.batch_size)
        return min(n_rows, BATCH, max(LEAST_BATCH, n_rows // 8))

    def epochs(self, n_rows: int) -> int:
        """Return the number of passes over so many samples."""
        n_batches = n_rows // self.batch(n_rows)
        usual = self.n_epochs or max(EPOCHS, math.ceil(LEAST_STEPS / n_batches))
        return max(1, round(self.length * usual))


def train_terms(
    model: AdditiveLMM, U: NDArray, y: NDArray, annealing: Annealing, rng: np.random.Generator,
    weight: NDArray | None = None, on_epoch: OnEpoch | None = None, loss: str = "log_loss",
) -> AdditiveLMM:  # fmt: skip
    """Train all weights of all terms jointly, by Adam on the mean loss of the sum.

    Scores of the soft model are those of the sum with soft minima and maxima, whose temperature
    falls during training; the hard model is returned. O(epochs·N·Σ_t H_t·(m_t + C)).

    Parameters
    ----------
    model : AdditiveLMM whose slopes are >= 0 and <= 0, in turns
        Where training starts.
    U : array of shape (N, P), mapped features: ``model.mapped(X)``
    y : array of shape (N,), classes 0..C−1, or the targets of a regression
    annealing : Annealing
    rng : numpy.random.Generator
        Shuffles the samples.
    weight : array of shape (N,), optional
    on_epoch : callable(epoch, mean loss, model), optional
        Called after each epoch, ``model`` being a function that returns the model as it is now;
        training ends where it returns True.
    loss : "log_loss", or "squared" or "absolute"
        That of classes, or that of the difference z_1 − z_0 of a model with two outputs from its
        target, halved if it is squared.

    Returns
    -------
    AdditiveLMM
    """
    rows = np.ascontiguousarray(U, np.float64)
    shares = np.ones(len(y)) if weight is None else np.asarray(weight, np.float64)
    layout, weights = pack(model)
    moments = tuple(FlatWeights(*(np.zeros_like(W) for W in weights)) for _ in range(2))
    batch, epochs = annealing.batch(len(y)), annealing.epochs(len(y))
    n_batches = len(y) // batch
    hot, cold, rate = (
        annealing.scale * value for value in (annealing.hot, annealing.cold, annealing.rate)
    )
    schedule = Schedule(epochs * n_batches, hot, cold, rate, annealing.slope_rate)
    intercept = model.intercept.astype(np.float64)
    buffers = empty_buffers(layout, model.n_classes, batch)
    targets = np.asarray(y, np.float64)
    for epoch in range(epochs):
        mean = train_epoch(
            rows, targets, shares, LOSSES[loss], rng.permutation(len(y)), batch, epoch * n_batches,
            schedule, layout, weights, intercept, moments, buffers,
        )  # fmt: skip
        if on_epoch is not None and on_epoch(epoch, mean, lambda: unpack(model, layout, weights)):
            break
    if not all(np.isfinite(W).all() for W in weights):
        raise TrainingOverflowError("the joint training of terms overflowed: lower its rate")
    return unpack(model, layout, weights)


def pack(model: AdditiveLMM) -> tuple[Layout, FlatWeights]:
    """Return the weights of all terms in flat arrays of float64, copied, and where terms are."""
    lmms = [term.lmm for term in model.terms]
    units = np.repeat([2 * lmm.n_features for lmm in lmms], [lmm.n_hidden for lmm in lmms])
    layout = Layout(
        np.cumsum([0, *(lmm.n_features for lmm in lmms)]),
        np.concatenate([term.features for term in model.terms]),
        np.cumsum([0, *(lmm.n_hidden for lmm in lmms)]),
        np.cumsum(units) - units,
    )
    arrays = (
        [lmm.W0 for lmm in lmms], [lmm.W1.T.ravel() for lmm in lmms], [lmm.W2 for lmm in lmms],
    )  # fmt: skip
    flat = (np.concatenate(parts).astype(np.float64, order="C") for parts in arrays)
    return layout, FlatWeights(*flat)


def unpack(model: AdditiveLMM, layout: Layout, weights: FlatWeights) -> AdditiveLMM:
    """Return the model with these weights in place of its own, in its float type."""
    lmms = zip(model.terms, _lmms(layout, weights), strict=True)
    terms = [Term(term.features, lmm) for term, lmm in lmms]
    trained = AdditiveLMM(terms, model.n_features, model.feature_map, model.intercept)
    return trained.astype(model.dtype)


def _lmms(layout: Layout, weights: FlatWeights) -> Iterator[LMM]:
    walls = 0
    for t in range(layout.feature_start.size - 1):
        rows = slice(2 * layout.feature_start[t], 2 * layout.feature_start[t + 1])
        units = slice(layout.unit_start[t], layout.unit_start[t + 1])
        shape = (units.stop - units.start, rows.stop - rows.start)
        W1T = weights.W1[walls : walls + math.prod(shape)].reshape(shape)
        walls += W1T.size
        yield LMM(weights.W0[rows].copy(), W1T.T, weights.W2[units].copy())
