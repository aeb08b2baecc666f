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

and the margin is −τ·log Q_d with Q_d = Σ_h exp(W2[h, d]/τ)·R_h. This requires two matrix products
for each term, and two more for the gradient. The maximum of a unit over all inputs (its cap) is
used in certificates but not in training, which gives better results.

All arrays are in float32. Weights are limited so that exponents do not overflow. Clamping the
exponents instead would make the gradient inconsistent with the loss. Each term is trained by a
single thread.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numba import prange
from numpy.typing import NDArray

from maxplus._compile.elementary import exp32
from maxplus._compile.intrinsics import fmax
from maxplus._compile.jit import inner, njit
from maxplus.models import AdditiveLMM, FeatureMap, Term
from maxplus.models.initialization import box_lmm
from maxplus.training.result import TrainingOverflowError
from maxplus.training.smooth.annealing import (
    BETA2,
    AdamStep,
    Annealing,
    adam_move,
    adam_step,
    annealed,
)
from maxplus.training.smooth.soft_terms import (
    FAST,
    FlatWeights,
    OnEpoch,
    TermLayout,
    pack,
    softmax_gradient,
    unpack,
)
from maxplus.training.smooth.structures import DROP

# Largest exponents at the lowest temperature: of offsets and heights, and of slopes times mapped
# features. Products of two exponentials and sums of thousands stay within the range of float32.
LIMIT, INPUT_LIMIT = 40.0, 30.0
# Sums are at least LEAST. Ratios up to NOTHING and derivatives up to NEGLIGIBLE are replaced by 0,
# because they would lead to denormal numbers, which are slow.
LEAST, NOTHING, NEGLIGIBLE = np.float32(1e-36), np.float32(1e-30), np.float32(1e-12)
_ZERO, _ONE = np.float32(0.0), np.float32(1.0)
# Number of values that are mapped at once.
AT_ONCE = 4_000_000

# Settings for tables and for images.
TABLE_ANNEALING = Annealing(hot=0.15, cold=0.1, rate=0.05)
IMAGE_ANNEALING = Annealing(hot=0.1, cold=0.03, rate=0.02, slope_rate=0.0)

Augment = Callable[[NDArray, np.random.Generator], NDArray]


class IntervalBuffers(NamedTuple):
    """Arrays of a batch of B samples, in float32."""

    U_low: np.ndarray  # (P, B): mapped features at the lower ends
    U_high: np.ndarray  # (P, B)
    E_low: np.ndarray  # (2F, B): exp(−λ/τ) where λ is lowest
    E_high: np.ndarray  # (2F, B)
    L: np.ndarray  # (K, B)
    H: np.ndarray  # (K, B)
    R: np.ndarray  # (K, B), then derivatives by the sums behind H
    D: np.ndarray  # (K, B): derivatives by R, then by the sums behind L
    B: np.ndarray  # (T, B)
    Q: np.ndarray  # (T, C, B), then derivatives by Q
    V1: np.ndarray  # (walls,): exp(−W1/τ)
    V2: np.ndarray  # (K, C): exp(W2/τ)


class Limits(NamedTuple):
    """Largest absolute values of slopes, and of offsets and heights."""

    slope: np.float32
    offset: np.float32


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
    """Train all terms jointly on the worst case within boxes with Adam; O(epochs·N·Σ_t H_t·m_t).

    Parameters
    ----------
    model : AdditiveLMM with a feature map
        Initial weights. Slopes are alternately >= 0 and <= 0.
    X : array of shape (N, P), raw features
    y : array of shape (N,), classes 0..C−1
    reach : array of shape (P,), >= 0
        Largest change of each raw feature.
    annealing : Annealing
    rng : numpy.random.Generator
    weight : array of shape (N,), optional
    augment : callable(rows, generator), optional
        Returns augmented rows for a batch of raw rows.
    on_epoch : callable(epoch, mean loss, model), optional
        As in `train_terms`.
    is_parallel : bool
        Use several threads, each of which trains one term at a time.

    Returns
    -------
    AdditiveLMM
    """
    assert model.feature_map is not None
    layout, flat = pack(model)
    weights = FlatWeights(*(W.astype(np.float32) for W in flat))
    gradient, first, second = (FlatWeights(*map(np.zeros_like, weights)) for _ in range(3))
    batch, epochs = annealing.batch(len(y)), annealing.epochs(len(y))
    n_batches = len(y) // batch
    schedule = annealing.schedule(epochs * n_batches, scale=annealing.scale)
    largest = max(float(np.abs(model.feature_map.u).max()), np.finfo(np.float32).tiny)
    limits = Limits(
        np.float32(INPUT_LIMIT * schedule.cold / largest), np.float32(LIMIT * schedule.cold)
    )
    buffers = interval_buffers(layout, X.shape[1], model.n_classes, batch)
    labels = np.asarray(y, np.int64)
    weight = np.ones(len(y)) if weight is None else np.asarray(weight, np.float64)
    kernel = train_boxes if is_parallel else train_boxes.serial
    intercept, step = model.intercept.astype(np.float64), 0
    for epoch in range(epochs):
        loss = 0.0
        blocks = _boxes(model.feature_map, X, labels, reach, weight, batch, augment, rng)
        for low, high, own, share in blocks:
            mean = kernel(
                low,
                high,
                own,
                share,
                batch,
                step,
                schedule,
                limits,
                layout,
                weights,
                intercept,
                gradient,
                first,
                second,
                buffers,
            )
            loss += mean * len(own) / (n_batches * batch)
            step += len(own) // batch
        if on_epoch is not None and on_epoch(epoch, loss, lambda: unpack(model, layout, weights)):
            break
    if not all(np.isfinite(W).all() for W in weights):
        raise TrainingOverflowError("the interval training of terms overflowed: lower its rate")
    return unpack(model, layout, weights)


def _boxes(
    feature_map: FeatureMap,
    X: NDArray,
    y: NDArray,
    reach: NDArray,
    weight: NDArray,
    batch: int,
    augment: Augment | None,
    rng: np.random.Generator,
) -> Iterator[tuple[NDArray, NDArray, NDArray, NDArray]]:
    """Yield the mapped ends of boxes, classes and weights of shuffled rows, in whole batches."""
    order = rng.permutation(len(y))[: len(y) // batch * batch]
    size = batch * max(1, AT_ONCE // (batch * X.shape[1]))
    for first in range(0, order.size, size):
        rows = order[first : first + size]
        centres = X[rows] if augment is None else augment(X[rows], rng)
        low, high = (
            feature_map(ends).astype(np.float32) for ends in (centres - reach, centres + reach)
        )
        yield low, high, y[rows], weight[rows]


def interval_buffers(
    layout: TermLayout, n_features: int, n_classes: int, batch: int
) -> IntervalBuffers:
    """Return buffers for a sum of terms and a batch size."""
    F, K, T = layout.features.size, layout.wall_start.size, layout.feature_start.size - 1
    n_walls = int(2 * np.diff(layout.feature_start) @ np.diff(layout.unit_start))
    shapes = (
        (n_features, batch),
        (n_features, batch),
        (2 * F, batch),
        (2 * F, batch),
        (K, batch),
        (K, batch),
        (K, batch),
        (K, batch),
        (T, batch),
        (T, n_classes, batch),
        (n_walls,),
        (K, n_classes),
    )
    return IntervalBuffers(*(np.empty(shape, np.float32) for shape in shapes))


@njit(cache=True, nogil=True, parallel=True, error_model="numpy", fastmath=FAST)
def train_boxes(
    low,
    high,
    y,
    weight,
    batch,
    step,
    schedule,
    limits,
    layout,
    weights,
    intercept,
    gradient,
    first,
    second,
    buffers,
):
    """Take a step of Adam for each batch; return the mean loss.

    ``low`` and ``high`` are (n, P), n a multiple of ``batch``; ``first`` and ``second`` are Adam's
    averages of gradients and of their squares.
    O(n·Σ_t H_t·(m_t + C)).
    """
    U_low, U_high, Q = buffers.U_low, buffers.U_high, buffers.Q
    T, C = Q.shape[0], Q.shape[1]
    z, share = np.empty((C, batch)), np.empty(batch)
    n_batches, loss = y.size // batch, 0.0
    most_slope, most_offset = limits.slope, limits.offset
    for k in range(n_batches):
        rows = slice(k * batch, (k + 1) * batch)
        own = y[rows]
        share[:] = weight[rows] / weight[rows].sum()
        tau, rate = annealed(schedule, step)
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
            _move(layout, weights, first, second, gradient, step, rate, most_offset, t)
            if slope_rate > 0.0:
                _move_slopes(
                    layout, weights, first, second, gradient, step, slope_rate, most_slope, t
                )
    return loss


@inner
def _parts(layout, t):
    """Return the ranges (start, stop) of the rows, units and walls of a term."""
    rows = 2 * layout.feature_start[t], 2 * layout.feature_start[t + 1]
    units = layout.unit_start[t], layout.unit_start[t + 1]
    first = layout.wall_start[units[0]]
    return rows, units, (first, first + (units[1] - units[0]) * (rows[1] - rows[0]))


@njit(cache=True, nogil=True, error_model="numpy", fastmath=FAST)
def _lowest_margins(y, layout, weights, factor, buffers, t):
    """Compute Q of a term and the other buffers of its gradient; ``factor`` is 1/τ."""
    rows, units, walls = _parts(layout, t)
    W0, W1, W2 = weights.W0, weights.W1, weights.W2
    n_units, B, C = units[1] - units[0], y.size, W2.shape[1]
    for f in range(rows[0] // 2, rows[1] // 2):
        u_low, u_high = buffers.U_low[layout.features[f]], buffers.U_high[layout.features[f]]
        a, b = -W0[2 * f] * factor, -W0[2 * f + 1] * factor
        for n in range(B):
            buffers.E_low[2 * f, n] = exp32(a * u_low[n])
            buffers.E_low[2 * f + 1, n] = exp32(b * u_high[n])
            buffers.E_high[2 * f, n] = exp32(a * u_high[n])
            buffers.E_high[2 * f + 1, n] = exp32(b * u_low[n])
    for i in range(walls[0], walls[1]):
        buffers.V1[i] = exp32(-W1[i] * factor)
    for h in range(units[0], units[1]):
        for d in range(C):
            buffers.V2[h, d] = exp32(W2[h, d] * factor)
    V1 = buffers.V1[walls[0] : walls[1]].reshape(n_units, rows[1] - rows[0])
    V2 = buffers.V2[units[0] : units[1]]
    L, H, R = (
        buffers.L[units[0] : units[1]],
        buffers.H[units[0] : units[1]],
        buffers.R[units[0] : units[1]],
    )
    np.dot(V1, buffers.E_low[rows[0] : rows[1]], L)
    np.dot(V1, buffers.E_high[rows[0] : rows[1]], H)
    best = buffers.B[t]
    best[:] = LEAST
    for h in range(n_units):
        for n in range(B):
            L[h, n] = _ONE / L[h, n]
            best[n] += L[h, n] * V2[h, y[n]]
    for h in range(n_units):
        for n in range(B):
            H[h, n] = _ONE / H[h, n]
            ratio = H[h, n] / fmax(best[n], H[h, n] * V2[h, y[n]])
            R[h, n] = ratio if ratio > NOTHING else _ZERO
    Q = buffers.Q[t]
    np.dot(V2.T, R, Q)
    for d in range(C):
        for n in range(B):
            Q[d, n] = fmax(Q[d, n], LEAST)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=FAST)
def _margin_gradient(y, p, layout, buffers, has_slopes, gradient, t):
    """Compute the gradient of a term from the derivatives p (C, B) of the loss by −margins."""
    rows, units, walls = _parts(layout, t)
    n_units, B = units[1] - units[0], y.size
    E_low, E_high = buffers.E_low[rows[0] : rows[1]], buffers.E_high[rows[0] : rows[1]]
    V1 = buffers.V1[walls[0] : walls[1]].reshape(n_units, rows[1] - rows[0])
    V2 = buffers.V2[units[0] : units[1]]
    L, H, R, D = (
        buffers.L[units[0] : units[1]],
        buffers.H[units[0] : units[1]],
        buffers.R[units[0] : units[1]],
        buffers.D[units[0] : units[1]],
    )
    Q, best = buffers.Q[t], buffers.B[t]
    for d in range(Q.shape[0]):
        for n in range(B):
            Q[d, n] = np.float32(p[d, n]) / Q[d, n]
    d_W2 = gradient.W2[units[0] : units[1]]
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
            w = w if w > NEGLIGIBLE else _ZERO
            if H[h, n] * V2[h, y[n]] > best[n]:
                # The bound g_h + W2[h, y] is tighter: it does not depend on the other units.
                d_W2[h, y[n]] -= w
                w = _ZERO
            lost[n] += w
            R[h, n] = -w * H[h, n]
    for h in range(n_units):
        for n in range(B):
            w = lost[n] * (L[h, n] * V2[h, y[n]] / best[n])
            w = w if w > NEGLIGIBLE else _ZERO
            d_W2[h, y[n]] -= w
            D[h, n] = w * L[h, n]
    d_W1 = gradient.W1[walls[0] : walls[1]].reshape(n_units, rows[1] - rows[0])
    np.dot(R, E_high.T, d_W1)
    from_low = np.dot(D, E_low.T)
    for h in range(n_units):
        for i in range(V1.shape[1]):
            d_W1[h, i] = -V1[h, i] * (d_W1[h, i] + from_low[h, i])
    if has_slopes:
        at_high, at_low = np.dot(V1.T, R), np.dot(V1.T, D)
        for i in range(V1.shape[1]):
            p_i, is_plus = layout.features[(rows[0] + i) // 2], i % 2 == 0
            lowest = buffers.U_low[p_i] if is_plus else buffers.U_high[p_i]
            highest = buffers.U_high[p_i] if is_plus else buffers.U_low[p_i]
            total = _ZERO
            for n in range(B):
                total -= at_low[i, n] * E_low[i, n] * lowest[n]
                total -= at_high[i, n] * E_high[i, n] * highest[n]
            gradient.W0[rows[0] + i] = total


@inner
def _adam_step(number, rate):
    """Return the constants of a step of Adam in float32."""
    step = adam_step(number, rate, BETA2)
    return AdamStep(
        np.float32(step.new_m),
        np.float32(step.new_v),
        np.float32(step.unbias_m),
        np.float32(step.unbias_v),
        np.float32(step.rate),
        np.float32(step.epsilon),
        np.float32(step.nothing),
        np.float32(step.zero),
    )


@inner
def _move(layout, weights, first, second, gradient, step, rate, limit, t):
    """Take a step of Adam with the offsets and heights of a term, limited to ±limit."""
    _, units, walls = _parts(layout, t)
    adam = _adam_step(step, rate)
    part = slice(walls[0], walls[1])
    W1 = weights.W1[part]
    adam_move(W1, first.W1[part], second.W1[part], gradient.W1[part], adam)
    _keep_within(W1, -limit, limit)
    part = slice(units[0], units[1])
    W2 = weights.W2[part].reshape(-1)
    adam_move(
        W2,
        first.W2[part].reshape(-1),
        second.W2[part].reshape(-1),
        gradient.W2[part].reshape(-1),
        adam,
    )
    _keep_within(W2, -limit, limit)


@inner
def _move_slopes(layout, weights, first, second, gradient, step, rate, limit, t):
    """Take a step of Adam with the slopes of a term, which keep their signs (`train_terms`)."""
    rows, _, _ = _parts(layout, t)
    adam = _adam_step(step, rate)
    part = slice(rows[0], rows[1])
    W0 = weights.W0[part]
    adam_move(W0, first.W0[part], second.W0[part], gradient.W0[part], adam)
    _keep_within(W0[::2], _ZERO, limit)
    _keep_within(W0[1::2], -limit, _ZERO)


@inner
def _keep_within(W, low, high):
    for i in range(W.size):
        W[i] = min(max(W[i], low), high)


def image_windows(shape: tuple[int, int], size: int, stride: int) -> list[NDArray]:
    """Return the pixels of square windows that cover an image, as feature indices.

    Parameters
    ----------
    shape : (height, width) of the images
    size : side of a window, limited to that of the image
    stride : distance between windows; the last window ends at the border of the image
    """
    pixels = np.arange(math.prod(shape)).reshape(shape)
    corners = [
        sorted({*range(0, max(side - size, 0) + 1, stride), max(side - size, 0)}) for side in shape
    ]
    return [
        pixels[row : row + size, column : column + size].ravel()
        for row in corners[0]
        for column in corners[1]
    ]


def window_terms(
    windows: Sequence[NDArray],
    U: NDArray,
    y: NDArray,
    n_classes: int,
    n_units: int,
    size: float,
    rng: np.random.Generator,
) -> tuple[AdditiveLMM, float]:
    """Return a term for each window, with units at clusters of each class, and its scale.

    Parameters
    ----------
    windows : features of each term
    U : array of shape (N, P), mapped features
    y : array of shape (N,), classes 0..C−1
    n_classes : int
    n_units : number of units per class of a term
    size : change of a score over a distance of 1 in a typical sum; the scale of each of T terms is
        size / √T
    rng : numpy.random.Generator
    """
    scale = size / math.sqrt(len(windows))
    terms = [
        Term(
            own, box_lmm(U[:, own], y, n_units * n_classes, n_classes, 1.0, DROP, rng).scaled(scale)
        )
        for own in windows
    ]
    return AdditiveLMM(terms, U.shape[1]), scale
