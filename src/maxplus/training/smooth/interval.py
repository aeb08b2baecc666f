"""Interval training of a sum of terms on the worst case within a box around each row.

Over a box |x' − x| ≤ reach, each mapped feature lies between two ends, and so do the units of a
term: min g_h and max g_h are exact (`maxplus.certify.box_bounds`). If unit h attains the score z_d
of a term, then z_y is at least b = max_k (min g_k + W2[k, y]), and at least g_h + W2[h, y]. Hence

    z_y − z_d ≥ min_h (max(b − max g_h, W2[h, y]) − W2[h, d]),

which are the first two bounds of `maxplus.certify.margins.term_margins`. The loss is the
cross-entropy of the sum of these margins over the terms. A term reduces a margin by at most
max_h (W2[h, d] − W2[h, y]).

With soft minima and maxima of temperature τ, and E the exponentials exp(−λ/τ) at the lower or the
upper end of each row of the linear layer,

    L_h = 1 / Σ_i E_low[i]·exp(−W1[i, h]/τ),    B = Σ_k L_k·exp(W2[k, y]/τ),
    H_h = 1 / Σ_i E_high[i]·exp(−W1[i, h]/τ),   R_h = H_h / max(B, H_h·exp(W2[h, y]/τ)),

and the margin is −τ·log Q_d with Q_d = Σ_h exp(W2[h, d]/τ)·R_h. Each term requires two products
with matrices of the shape of W1, two more for the gradient with respect to W1, and two for that
with respect to W0. Certificates also use the maximum of a unit over all inputs (its cap); training
gives better results without it.

The arrays of terms are in float32. Weights are limited so that exponents do not overflow. Clipping
the exponents instead would make the gradient inconsistent with the loss. Each term is trained by a
single thread.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import prange
from numpy.typing import NDArray

from maxplus._compile.elementary import exp32
from maxplus._compile.intrinsics import fmax
from maxplus._compile.jit import inner, njit
from maxplus.models import AdditiveLMM
from maxplus.training.result import TrainingOverflowError
from maxplus.training.smooth.annealing import (
    BETA2,
    Annealing,
    Augment,
    adam_move,
    temperature_and_rate,
)
from maxplus.training.smooth.soft_terms import (
    FAST,
    OnEpoch,
    TermLayout,
    TermState,
    softmax_gradient,
    term_parts,
    unpack,
)

# Largest exponents at the lowest temperature: of offsets and heights, and of slopes times mapped
# features. Sums of thousands of products of two exponentials stay within the range of float32.
LIMIT, INPUT_LIMIT = 40.0, 30.0
# Lower bounds of sums, ratios and derivatives. Smaller ratios and derivatives are replaced by 0,
# because they would lead to denormal numbers, which are slow.
MIN_SUM, MIN_RATIO, MIN_DERIVATIVE = np.float32(1e-36), np.float32(1e-30), np.float32(1e-12)
_ZERO, _ONE = np.float32(0.0), np.float32(1.0)
# Maximum number of values to which the feature map is applied at once.
MAX_MAPPED = 4_000_000

# Settings for tables and for images.
TABLE_ANNEALING = Annealing(hot=0.15, cold=0.1, rate=0.05)
IMAGE_ANNEALING = Annealing(hot=0.1, cold=0.03, rate=0.02, slope_rate=0.0)


class IntervalBuffers(NamedTuple):
    """Arrays of a batch of B samples, in float32; see the formulas of this module."""

    U_low: np.ndarray  # (P, B): mapped features at the lower ends
    U_high: np.ndarray  # (P, B)
    E_low: np.ndarray  # (2F, B): exp(−λ/τ) where λ is lowest
    E_high: np.ndarray  # (2F, B)
    L: np.ndarray  # (K, B)
    H: np.ndarray  # (K, B)
    R: np.ndarray  # (K, B), then derivatives with respect to the sums 1/H
    D: np.ndarray  # (K, B): derivatives with respect to R, then to the sums 1/L
    B: np.ndarray  # (T, B)
    Q: np.ndarray  # (T, C, B), then derivatives with respect to Q
    V1: np.ndarray  # (walls,): exp(−W1/τ)
    V2: np.ndarray  # (K, C): exp(W2/τ)


def train_interval(
    model: AdditiveLMM,
    X: NDArray,
    y: NDArray,
    reach: NDArray,
    annealing: Annealing,
    rng: np.random.Generator,
    weight: NDArray | None = None,
    augment: Augment | None = None,
    on_epoch: OnEpoch | None = None,
    is_parallel: bool = True,
) -> AdditiveLMM:
    """Train all terms jointly, by Adam on the worst case within a box around each sample.

    O(epochs·N·Σ_t H_t·(m_t + C)).

    Parameters
    ----------
    model : initial model with a feature map, whose slopes are alternately >= 0 and <= 0
    X : raw features (N, P)
    y : classes 0..C−1, (N,)
    reach : largest change of each raw feature (P,), >= 0
    annealing : Annealing
    rng : generator that shuffles the samples
    weight : weights of the samples (N,), optional
    augment : function that returns augmented samples, given raw samples and a generator, optional
    on_epoch : as in `train_terms`
    is_parallel : whether to use several threads, each of which trains one term at a time
    """
    assert model.feature_map is not None
    state = TermState.from_model(model, np.float32)
    schedule = annealing.schedule(len(y), scale=annealing.scale)
    batch = schedule.batch
    largest = max(float(np.abs(model.feature_map.u).max()), np.finfo(np.float32).tiny)
    max_slope, max_offset = INPUT_LIMIT * schedule.cold / largest, LIMIT * schedule.cold
    limits = np.float32(max_slope), np.float32(max_offset)
    buffers = interval_buffers(state.layout, X.shape[1], model.n_classes, batch)
    labels = np.asarray(y, np.int64)
    weight = np.ones(len(y)) if weight is None else np.asarray(weight, np.float64)
    kernel = train_batches if is_parallel else train_batches.serial
    n_mapped, step = batch * max(1, MAX_MAPPED // (batch * X.shape[1])), 0

    def trained() -> AdditiveLMM:
        return unpack(model, state.layout, state.weights)

    for epoch in range(schedule.n_epochs):
        order, loss = rng.permutation(len(y))[: schedule.n_batches * batch], 0.0
        for first in range(0, order.size, n_mapped):
            part = order[first : first + n_mapped]
            centres = X[part] if augment is None else augment(X[part], rng)
            low, high = (
                model.feature_map(ends).astype(np.float32)
                for ends in (centres - reach, centres + reach)
            )
            samples = low, high, labels[part], weight[part]
            mean = kernel(*samples, step, schedule, limits, buffers, *state)
            loss += mean * part.size / order.size
            step += part.size // batch
        if on_epoch is not None and on_epoch(epoch, loss, trained):
            break
    if not state.is_finite:
        raise TrainingOverflowError("the interval training of terms overflowed: use a smaller rate")
    return trained()


def interval_buffers(
    layout: TermLayout, n_features: int, n_classes: int, batch: int
) -> IntervalBuffers:
    """Return buffers for a sum of terms and a batch size."""
    F, K, T = layout.features.size, layout.wall_start.size, layout.feature_start.size - 1
    n_walls = int(2 * np.diff(layout.feature_start) @ np.diff(layout.unit_start))
    inputs, rows, units = [(n_features, batch)] * 2, [(2 * F, batch)] * 2, [(K, batch)] * 4
    others = (T, batch), (T, n_classes, batch), (n_walls,), (K, n_classes)
    shapes = *inputs, *rows, *units, *others
    return IntervalBuffers(*(np.empty(shape, np.float32) for shape in shapes))


@njit(cache=True, nogil=True, parallel=True, error_model="numpy", fastmath=FAST)
def train_batches(
    low,
    high,
    y,
    weight,
    step,
    schedule,
    limits,
    buffers,
    layout,
    intercept,
    weights,
    gradient,
    first,
    second,
):
    """Take a step of Adam for each batch; return the mean loss.

    ``low`` and ``high`` are (n, P), and n is a multiple of the batch size; ``limits`` are the
    largest absolute values of slopes, and of offsets and heights. The last six arguments are those
    of `TermState`, which Numba cannot pass to threads as a whole. O(n·Σ_t H_t·(m_t + C)).
    """
    U_low, U_high, Q = buffers.U_low, buffers.U_high, buffers.Q
    T, C, batch = Q.shape[0], Q.shape[1], schedule.batch
    max_slope, max_offset = limits
    z, share = np.empty((C, batch)), np.empty(batch)
    n_batches, loss = y.size // batch, 0.0
    for k in range(n_batches):
        rows = slice(k * batch, (k + 1) * batch)
        own = y[rows]
        share[:] = weight[rows] / weight[rows].sum()
        tau, rate = temperature_and_rate(schedule, step)
        step += 1
        for p in range(U_low.shape[0]):
            for b in range(batch):
                U_low[p, b] = low[k * batch + b, p]
                U_high[p, b] = high[k * batch + b, p]
        for t in prange(T):
            _lowest_margins(own, layout, weights, np.float32(1.0 / tau), buffers, t)
        for d in range(C):
            for b in range(batch):
                z[d, b] = intercept[d] - intercept[own[b]]
            for t in range(T):
                for b in range(batch):
                    z[d, b] += tau * math.log(Q[t, d, b])
        for b in range(batch):
            z[own[b], b] = 0.0
        loss += softmax_gradient(z, own, share) / n_batches
        for b in range(batch):
            z[own[b], b] = 0.0
        slope_rate = rate * schedule.slope_rate
        for t in prange(T):
            _margin_gradient(own, z, layout, buffers, slope_rate > 0.0, gradient, t)
            parts = term_parts(layout, t)
            _move(parts, weights, first, second, gradient, step, rate, max_offset)
            if slope_rate > 0.0:
                _move_slopes(parts, weights, first, second, gradient, step, slope_rate, max_slope)
    return loss


@njit(cache=True, nogil=True, error_model="numpy", fastmath=FAST)
def _lowest_margins(y, layout, weights, factor, buffers, t):
    """Compute Q of a term, and the buffers for `_margin_gradient`; ``factor`` is 1/τ."""
    rows, units, walls = term_parts(layout, t)
    W0, W1, W2 = weights.W0, weights.W1, weights.W2
    B, C = y.size, W2.shape[1]
    for f in range(layout.feature_start[t], layout.feature_start[t + 1]):
        u_low, u_high = buffers.U_low[layout.features[f]], buffers.U_high[layout.features[f]]
        a, b = -W0[2 * f] * factor, -W0[2 * f + 1] * factor
        for n in range(B):
            buffers.E_low[2 * f, n] = exp32(a * u_low[n])
            buffers.E_low[2 * f + 1, n] = exp32(b * u_high[n])
            buffers.E_high[2 * f, n] = exp32(a * u_high[n])
            buffers.E_high[2 * f + 1, n] = exp32(b * u_low[n])
    for i in range(walls.start, walls.stop):
        buffers.V1[i] = exp32(-W1[i] * factor)
    for h in range(units.start, units.stop):
        for d in range(C):
            buffers.V2[h, d] = exp32(W2[h, d] * factor)
    V2, L, H, R = buffers.V2[units], buffers.L[units], buffers.H[units], buffers.R[units]
    n_units = V2.shape[0]
    V1 = buffers.V1[walls].reshape(n_units, rows.stop - rows.start)
    np.dot(V1, buffers.E_low[rows], L)
    np.dot(V1, buffers.E_high[rows], H)
    best = buffers.B[t]
    best[:] = MIN_SUM
    for h in range(n_units):
        for n in range(B):
            L[h, n] = _ONE / L[h, n]
            best[n] += L[h, n] * V2[h, y[n]]
    for h in range(n_units):
        for n in range(B):
            H[h, n] = _ONE / H[h, n]
            ratio = H[h, n] / fmax(best[n], H[h, n] * V2[h, y[n]])
            R[h, n] = ratio if ratio > MIN_RATIO else _ZERO
    Q = buffers.Q[t]
    np.dot(V2.T, R, Q)
    for d in range(C):
        for n in range(B):
            Q[d, n] = fmax(Q[d, n], MIN_SUM)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=FAST)
def _margin_gradient(y, p, layout, buffers, has_slopes, gradient, t):
    """Compute the gradient of a term from p (C, B), derivatives with respect to −margins."""
    rows, units, walls = term_parts(layout, t)
    E_low, E_high, V2 = buffers.E_low[rows], buffers.E_high[rows], buffers.V2[units]
    L, H, R, D = buffers.L[units], buffers.H[units], buffers.R[units], buffers.D[units]
    Q, best = buffers.Q[t], buffers.B[t]
    n_units, B = V2.shape[0], y.size
    V1 = buffers.V1[walls].reshape(n_units, rows.stop - rows.start)
    for d in range(Q.shape[0]):
        for n in range(B):
            Q[d, n] = np.float32(p[d, n]) / Q[d, n]
    d_W2 = gradient.W2[units]
    np.dot(R, Q.T, d_W2)
    np.dot(V2, Q, D)
    for h in range(n_units):
        for d in range(Q.shape[0]):
            d_W2[h, d] *= V2[h, d]
    lost = np.zeros(B, np.float32)
    for h in range(n_units):
        for n in range(B):
            # D may be infinite where R is 0.
            w = D[h, n] * R[h, n] if R[h, n] > _ZERO else _ZERO
            w = w if w > MIN_DERIVATIVE else _ZERO
            if H[h, n] * V2[h, y[n]] > best[n]:
                # The bound g_h + W2[h, y] is tighter: it does not depend on the other units.
                d_W2[h, y[n]] -= w
                w = _ZERO
            lost[n] += w
            R[h, n] = -w * H[h, n]
    for h in range(n_units):
        for n in range(B):
            w = lost[n] * (L[h, n] * V2[h, y[n]] / best[n])
            w = w if w > MIN_DERIVATIVE else _ZERO
            d_W2[h, y[n]] -= w
            D[h, n] = w * L[h, n]
    d_W1 = gradient.W1[walls].reshape(V1.shape)
    np.dot(R, E_high.T, d_W1)
    from_low = np.dot(D, E_low.T)
    for h in range(n_units):
        for i in range(V1.shape[1]):
            d_W1[h, i] = -V1[h, i] * (d_W1[h, i] + from_low[h, i])
    if has_slopes:
        at_high, at_low = np.dot(V1.T, R), np.dot(V1.T, D)
        for i in range(V1.shape[1]):
            p_i, is_plus = layout.features[(rows.start + i) // 2], i % 2 == 0
            lowest = buffers.U_low[p_i] if is_plus else buffers.U_high[p_i]
            highest = buffers.U_high[p_i] if is_plus else buffers.U_low[p_i]
            total = _ZERO
            for n in range(B):
                total -= at_low[i, n] * E_low[i, n] * lowest[n]
                total -= at_high[i, n] * E_high[i, n] * highest[n]
            gradient.W0[rows.start + i] = total


@inner
def _move(parts, weights, first, second, gradient, step, rate, limit):
    """Take a step of Adam on the offsets and heights of a term, and clip them to ±limit."""
    _, units, walls = parts
    W1, W2 = weights.W1[walls], weights.W2[units]
    adam_move(W1, first.W1[walls], second.W1[walls], gradient.W1[walls], step, rate, BETA2)
    adam_move(W2, first.W2[units], second.W2[units], gradient.W2[units], step, rate, BETA2)
    _clip(W1, -limit, limit)
    _clip(W2.reshape(-1), -limit, limit)


@inner
def _move_slopes(parts, weights, first, second, gradient, step, rate, limit):
    """Take a step of Adam on the slopes of a term; clip them to ±limit and to their signs."""
    rows, _, _ = parts
    W0 = weights.W0[rows]
    adam_move(W0, first.W0[rows], second.W0[rows], gradient.W0[rows], step, rate, BETA2)
    _clip(W0[::2], _ZERO, limit)
    _clip(W0[1::2], -limit, _ZERO)


@inner
def _clip(W, low, high):
    for i in range(W.size):
        W[i] = min(max(W[i], low), high)
