"""Joint training of the terms of an `AdditiveLMM` with soft minima and maxima, in float64.

With the temperature τ of all soft minima and maxima, the units and scores of a term are

    S_h = Σ_i exp(−λ_i/τ)·exp(−W1[i, h]/τ),   g_h = −τ·log S_h,
    Q_d = Σ_h exp(g_h/τ)·exp(W2[h, d]/τ),     z_d = τ·log Q_d,

and exp(g_h/τ) is 1/S_h: the number of exponentials and logarithms per sample does not depend on the
number of units. All inner loops run over the samples of a batch, which are contiguous, so that
terms of one feature vectorise as well as terms of many. An epoch is one kernel, so that several
fits can run in threads.

Reductions may be reassociated: the last digits of results depend on the processor, but not on the
number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxplus._compile.elementary import exp64, log64
from maxplus._compile.jit import inner, njit
from maxplus.models import LMM, AdditiveLMM
from maxplus.training.result import TrainingOverflowError
from maxplus.training.smooth.annealing import BETA2, Annealing, adam_move, temperature_and_rate
from maxplus.training.smooth.monotone import (
    MonotonicConstraints,
    constrain,
    deactivate_absent_weights,
    with_lmms,
)

# Exponents are clipped to ±LIMIT: products of two exponentials and sums of many stay finite.
LIMIT = 300.0
# Lower bound of Q, far below relevant values and far above the smallest normal float64.
MIN_Q = 1e-280

# Products with a matrix of at least this size use BLAS.
BLAS_SIZE = 128

# Flags of the option ``fastmath``; they do not allow the compiler to ignore NaN and infinity.
FAST = {"reassoc", "contract", "arcp", "nsz"}

# Losses: the log loss of a class, and losses of the error z_1 − z_0 − target.
CROSS_ENTROPY, SQUARED, ABSOLUTE = 0, 1, 2
LOSSES = {"log_loss": CROSS_ENTROPY, "squared": SQUARED, "absolute": ABSOLUTE}

# Default settings for sums of terms.
TERM_ANNEALING = Annealing(hot=0.15, cold=0.03, rate=0.02, slope_rate=1.0)

# Function of the epoch, the mean loss and a function that returns the current model. Training ends
# if it returns True.
OnEpoch = Callable[[int, float, Callable[[], AdditiveLMM]], bool]


class TermLayout(NamedTuple):
    """Positions of the terms of a sum in its flat arrays.

    Term t has the features ``features[feature_start[t]:feature_start[t + 1]]`` and the units
    ``unit_start[t]`` to ``unit_start[t + 1]``; the walls of unit k, two for each feature, begin at
    ``wall_start[k]``.
    """

    feature_start: np.ndarray  # (T + 1,)
    features: np.ndarray  # (F,)
    unit_start: np.ndarray  # (T + 1,)
    wall_start: np.ndarray  # (K,)


class FlatWeights(NamedTuple):
    """The weights of all terms, or their derivatives."""

    W0: np.ndarray  # (2F,)
    W1: np.ndarray  # (walls,)
    W2: np.ndarray  # (K, C)


class TermState(NamedTuple):
    """A sum of terms in training: its weights, their derivatives, and the averages of Adam."""

    layout: TermLayout
    intercept: np.ndarray  # (C,), which is not trained
    weights: FlatWeights
    gradient: FlatWeights
    first: FlatWeights  # moving averages of the derivatives
    second: FlatWeights  # moving averages of their squares

    @classmethod
    def from_model(cls, model: AdditiveLMM, dtype: type = np.float64) -> TermState:
        """Return the initial state, with the weights of ``model`` in a float type."""
        layout, flat = pack(model)
        weights = FlatWeights(*(W.astype(dtype) for W in flat))
        zeros = (FlatWeights(*map(np.zeros_like, weights)) for _ in range(3))
        return cls(layout, model.intercept.astype(np.float64), weights, *zeros)

    @property
    def is_finite(self) -> bool:
        """True if all weights are finite."""
        return all(np.isfinite(W).all() for W in self.weights)


class Buffers(NamedTuple):
    """Arrays of a batch of B samples; derivatives omit factors that cancel."""

    E: np.ndarray  # (2F, B): exp(−λ/τ)
    G: np.ndarray  # (K, B): 1/S
    Q: np.ndarray  # (T, C, B), then the derivatives with respect to Q
    D: np.ndarray  # (largest 2m, B): derivatives with respect to E, for one term
    S: np.ndarray  # (largest H, B): derivatives with respect to S, for one term
    z: np.ndarray  # (C, B), then the derivatives with respect to z
    V1: np.ndarray  # (walls,): exp(−W1/τ)
    V2: np.ndarray  # (K, C): exp(W2/τ)


def train_terms(
    model: AdditiveLMM,
    U: NDArray,
    y: NDArray,
    annealing: Annealing,
    rng: np.random.Generator,
    weight: NDArray | None = None,
    on_epoch: OnEpoch | None = None,
    loss: str = "log_loss",
    monotonic: MonotonicConstraints | None = None,
) -> AdditiveLMM:
    """Train all weights of all terms jointly, by Adam on the mean loss of the sum.

    Minima and maxima are soft during training, with a decreasing temperature, and exact in the
    returned model. O(epochs·N·Σ_t H_t·(m_t + C)).

    Parameters
    ----------
    model : initial model, whose slopes are alternately >= 0 and <= 0
    U : mapped features (N, P): ``model.mapped(X)``
    y : classes 0..C−1, or the targets of a regression, (N,)
    annealing : Annealing
    rng : generator that shuffles the samples
    weight : weights of the samples (N,), optional
    on_epoch : function of the epoch, counted from 0, the mean loss and a function that returns the
        current model, called after each epoch; training ends if it returns True
    loss : "log_loss", the log loss of classes, or "squared" or "absolute", half the squared or the
        absolute error of z_1 − z_0, for a model with two outputs
    monotonic : constraints of z_1 − z_0, for a model with two outputs
    """
    if monotonic is not None:
        model = constrain(model, monotonic.signs)
    rows, targets = np.ascontiguousarray(U, np.float64), np.asarray(y, np.float64)
    shares = np.ones(len(y)) if weight is None else np.asarray(weight, np.float64)
    state = TermState.from_model(model)
    # An initial slope of 0 makes a wall a constant bound (see `constrain`), and is not trained.
    is_flat = state.weights.W0 == 0.0
    schedule = annealing.schedule(len(y), scale=annealing.scale)
    buffers = empty_buffers(state.layout, model.n_classes, schedule.batch)

    def trained() -> AdditiveLMM:
        current = unpack(model, state.layout, state.weights)
        return current if monotonic is None else deactivate_absent_weights(current, monotonic)

    for epoch in range(schedule.n_epochs):
        step, order = epoch * schedule.n_batches, rng.permutation(len(y))
        mean = train_epoch(
            rows, targets, shares, LOSSES[loss], order, step, schedule, state, is_flat, buffers
        )
        if on_epoch is not None and on_epoch(epoch, mean, trained):
            break
    if not state.is_finite:
        raise TrainingOverflowError("the joint training of terms overflowed: use a smaller rate")
    return trained()


def pack(model: AdditiveLMM) -> tuple[TermLayout, FlatWeights]:
    """Return copies of the weights of all terms in flat float64 arrays, and their layout."""
    lmms = [term.lmm for term in model.terms]
    n_walls = np.repeat([2 * lmm.n_features for lmm in lmms], [lmm.n_hidden for lmm in lmms])
    layout = TermLayout(
        np.cumsum([0, *(lmm.n_features for lmm in lmms)]),
        np.concatenate([term.features for term in model.terms]),
        np.cumsum([0, *(lmm.n_hidden for lmm in lmms)]),
        np.cumsum(n_walls) - n_walls,
    )
    arrays = (
        [lmm.W0 for lmm in lmms],
        [lmm.W1.T.ravel() for lmm in lmms],
        [lmm.W2 for lmm in lmms],
    )
    flat = (np.concatenate(parts).astype(np.float64, order="C") for parts in arrays)
    return layout, FlatWeights(*flat)


def unpack(model: AdditiveLMM, layout: TermLayout, weights: FlatWeights) -> AdditiveLMM:
    """Return the model with these weights, in its float type."""
    return with_lmms(model, _lmms(layout, weights)).astype(model.dtype)


def _lmms(layout: TermLayout, weights: FlatWeights) -> Iterator[LMM]:
    """Yield the LMM of each term."""
    first_wall = 0
    for t in range(layout.feature_start.size - 1):
        rows = slice(2 * layout.feature_start[t], 2 * layout.feature_start[t + 1])
        units = slice(layout.unit_start[t], layout.unit_start[t + 1])
        shape = (units.stop - units.start, rows.stop - rows.start)
        W1T = weights.W1[first_wall : first_wall + math.prod(shape)].reshape(shape)
        first_wall += W1T.size
        yield LMM(weights.W0[rows].copy(), W1T.T, weights.W2[units].copy())


@njit(cache=True, nogil=True)
def train_epoch(X, y, weight, loss_kind, order, step, schedule, state, is_flat, buffers):
    """Take the steps of one epoch, the first of which is ``step``; return the mean loss.

    X is (N, P), y (N,) are classes or targets, as floats; ``loss_kind`` is CROSS_ENTROPY, SQUARED
    or ABSOLUTE; ``order`` contains the row indices of the samples, batch by batch; ``is_flat`` is
    True for slopes that remain 0. O(N·Σ_t H_t·(m_t + C)).
    """
    layout, weights, gradient = state.layout, state.weights, state.gradient
    first, second = state.first, state.second
    batch, n_batches, loss = schedule.batch, schedule.n_batches, 0.0
    U = np.empty((X.shape[1], batch))
    targets, share = np.empty(batch), np.empty(batch)
    for k in range(n_batches):
        total = 0.0
        for b in range(batch):
            n = order[k * batch + b]
            for p in range(X.shape[1]):
                U[p, b] = X[n, p]
            targets[b], share[b] = y[n], weight[n]
            total += weight[n]
        for b in range(batch):
            share[b] /= total
        tau, rate = temperature_and_rate(schedule, step)
        step += 1
        soft_scores(U, layout, weights, state.intercept, tau, buffers)
        if loss_kind == CROSS_ENTROPY:
            loss += softmax_gradient(buffers.z, targets, share) / n_batches
        else:
            is_absolute = loss_kind == ABSOLUTE
            loss += regression_gradient(buffers.z, targets, share, is_absolute, tau) / n_batches
        soft_gradient(U, layout, buffers, gradient)
        adam_move(weights.W1, first.W1, second.W1, gradient.W1, step, rate, BETA2)
        adam_move(weights.W2, first.W2, second.W2, gradient.W2, step, rate, BETA2)
        slope_rate = rate * schedule.slope_rate
        adam_move(weights.W0, first.W0, second.W0, gradient.W0, step, slope_rate, BETA2)
        # A slope of the opposite sign would reverse a wall.
        for i in range(weights.W0.size):
            weights.W0[i] = max(weights.W0[i], 0.0) if i % 2 == 0 else min(weights.W0[i], 0.0)
            if is_flat[i]:
                weights.W0[i] = 0.0
    return loss


def empty_buffers(layout: TermLayout, n_classes: int, batch: int) -> Buffers:
    """Return buffers for a sum of terms and a batch size."""
    widths = np.diff(layout.feature_start)
    n_walls = int(2 * widths @ np.diff(layout.unit_start))
    K = layout.wall_start.size
    return Buffers(
        E=np.empty((2 * layout.features.size, batch)),
        G=np.empty((K, batch)),
        Q=np.empty((widths.size, n_classes, batch)),
        D=np.empty((2 * int(widths.max()), batch)),
        S=np.empty((int(np.diff(layout.unit_start).max()), batch)),
        z=np.empty((n_classes, batch)),
        V1=np.empty(n_walls),
        V2=np.empty((K, n_classes)),
    )


@njit(cache=True, nogil=True, error_model="numpy", fastmath=FAST)
def soft_scores(U, layout, weights, intercept, tau, buffers):
    """Compute soft scores in ``buffers.z``, and the other buffers for `soft_gradient`.

    U is (P, B), intercept (C,); O(B·Σ_t H_t·(m_t + C)).
    """
    E, G, Q, z, V1, V2 = buffers.E, buffers.G, buffers.Q, buffers.z, buffers.V1, buffers.V2
    B, C = U.shape[1], V2.shape[1]
    factor = 1.0 / tau
    for i in range(V1.size):
        V1[i] = _clipped_exp(-weights.W1[i] * factor)
    for k in range(V2.shape[0]):
        for d in range(C):
            V2[k, d] = _clipped_exp(weights.W2[k, d] * factor)
    for f in range(layout.features.size):
        u = U[layout.features[f]]
        for side in range(2):
            a = -weights.W0[2 * f + side] * factor
            for b in range(B):
                E[2 * f + side, b] = _clipped_exp(a * u[b])
    for d in range(C):
        z[d] = intercept[d]
    for t in range(Q.shape[0]):
        rows, units, walls = term_parts(layout, t)
        e, g = E[rows], G[units]
        _product(V1[walls].reshape(g.shape[0], e.shape[0]), e, g)
        for k in range(g.shape[0]):
            for b in range(B):
                g[k, b] = 1.0 / g[k, b]
        _product(V2[units].T, g, Q[t])
        for d in range(C):
            for b in range(B):
                Q[t, d, b] = max(Q[t, d, b], MIN_Q)
                z[d, b] += tau * log64(Q[t, d, b])


@njit(cache=True, nogil=True, error_model="numpy", fastmath=FAST)
def soft_gradient(U, layout, buffers, gradient):
    """Compute the gradient from the derivatives with respect to the scores, in ``buffers.z``.

    Call it after `soft_scores` for the same batch; O(B·Σ_t H_t·(m_t + C)).
    """
    E, G, Q, z, V1, V2 = buffers.E, buffers.G, buffers.Q, buffers.z, buffers.V1, buffers.V2
    B, C = U.shape[1], V2.shape[1]
    for t in range(Q.shape[0]):
        rows, units, walls = term_parts(layout, t)
        g, q, e, V2_t = G[units], Q[t], E[rows], V2[units]
        n_rows, n_units = e.shape[0], g.shape[0]
        V1_t = V1[walls].reshape(n_units, n_rows)
        for d in range(C):
            for b in range(B):
                q[d, b] = z[d, b] / q[d, b]
        d_W2 = gradient.W2[units]
        _inner_products(g, q, d_W2)
        s = buffers.S[:n_units]
        _product(V2_t, q, s)
        for k in range(n_units):
            for d in range(C):
                d_W2[k, d] *= V2_t[k, d]
            for b in range(B):
                s[k, b] *= g[k, b] * g[k, b]
        d_W1 = gradient.W1[walls].reshape(n_units, n_rows)
        _inner_products(s, e, d_W1)
        for k in range(n_units):
            for r in range(n_rows):
                d_W1[k, r] *= V1_t[k, r]
        d_rows = buffers.D[:n_rows]
        _product(V1_t.T, s, d_rows)
        for r in range(n_rows):
            u = U[layout.features[layout.feature_start[t] + r // 2]]
            total = 0.0
            for b in range(B):
                total += d_rows[r, b] * e[r, b] * u[b]
            gradient.W0[rows.start + r] = total


@inner
def _clipped_exp(x):
    return exp64(min(max(x, -LIMIT), LIMIT))


@inner
def term_parts(layout, t):
    """Return the rows of W0, the units and the walls of a term, as slices."""
    rows = slice(2 * layout.feature_start[t], 2 * layout.feature_start[t + 1])
    units = slice(layout.unit_start[t], layout.unit_start[t + 1])
    first = layout.wall_start[units.start]
    last = first + (units.stop - units.start) * (rows.stop - rows.start)
    return rows, units, slice(first, last)


@njit(cache=True, nogil=True, fastmath=FAST)
def _product(A, X, out):
    """Compute A @ X in ``out``; for a small A, loops over samples are faster than BLAS."""
    if A.size >= BLAS_SIZE:
        np.dot(A, X, out)
        return
    for i in range(A.shape[0]):
        for b in range(X.shape[1]):
            out[i, b] = A[i, 0] * X[0, b]
        for j in range(1, A.shape[1]):
            a = A[i, j]
            for b in range(X.shape[1]):
                out[i, b] += a * X[j, b]


@njit(cache=True, nogil=True, fastmath=FAST)
def _inner_products(X, Y, out):
    """Compute X @ Y.T in ``out``; for a small result, loops over samples are faster than BLAS."""
    if out.size >= BLAS_SIZE:
        np.dot(X, Y.T, out)
        return
    for i in range(X.shape[0]):
        for j in range(Y.shape[0]):
            total = 0.0
            for b in range(X.shape[1]):
                total += X[i, b] * Y[j, b]
            out[i, j] = total


@njit(cache=True, nogil=True, error_model="numpy", fastmath=FAST)
def softmax_gradient(z, y, share):
    """Return Σ_b share_b·loss_b, and replace the scores z (C, B) by its derivatives; O(B·C)."""
    C, B = z.shape
    top, total, own = np.empty(B), np.empty(B), np.empty(B)
    for b in range(B):
        top[b], total[b], own[b] = z[0, b], 0.0, z[int(y[b]), b]
    for d in range(1, C):
        for b in range(B):
            top[b] = max(top[b], z[d, b])
    for d in range(C):
        for b in range(B):
            z[d, b] = exp64(max(z[d, b] - top[b], -LIMIT))
            total[b] += z[d, b]
    loss = 0.0
    for b in range(B):
        loss += share[b] * (log64(total[b]) + top[b] - own[b])
        total[b] = share[b] / total[b]
    for d in range(C):
        for b in range(B):
            z[d, b] *= total[b]
    for b in range(B):
        z[int(y[b]), b] -= share[b]
    return loss


@njit(cache=True, nogil=True)
def regression_gradient(z, target, share, is_absolute, tau):
    """Return Σ_b share_b·loss(z_1 − z_0 − target), and replace z (2, B) by its derivatives.

    The loss of an error e is e²/2, or √(e² + τ²) − τ, which converges to |e| as τ → 0. O(B).
    """
    loss = 0.0
    for b in range(z.shape[1]):
        error = z[1, b] - z[0, b] - target[b]
        if is_absolute:
            size = math.sqrt(error * error + tau * tau)
            loss += share[b] * (size - tau)
            error /= size
        else:
            loss += share[b] * 0.5 * error * error
        z[1, b] = share[b] * error
        z[0, b] = -z[1, b]
    return loss
