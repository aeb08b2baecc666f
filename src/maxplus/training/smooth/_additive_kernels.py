"""Jitted soft scores and gradient of a sum of LMM terms, in float64.

With soft minima and maxima of one temperature τ, a term's unit and score are

    S_h = Σ_i exp(−λ_i/τ)·exp(−W1[i, h]/τ),   g_h = −τ·log S_h,
    Q_d = Σ_h exp(g_h/τ)·exp(W2[h, d]/τ),     z_d = τ·log Q_d,

and exp(g_h/τ) is 1/S_h: there is one exponential for each row of the linear layer and one logarithm
for each class, whatever the number of units. All inner loops run over the samples of a batch, which
are contiguous, so that terms of one feature vectorise as well as terms of many.

Reductions may be reassociated: results depend on the processor in their last digits, but not on
the number of threads.
"""

import math
from typing import NamedTuple

import numpy as np

from maxplus._compile.jit import njit
from maxplus.training.smooth._adam_kernels import BETA1, EPSILON, NOTHING, AdamStep, move_serial
from maxplus.training.smooth.adam import BETA2

# Exponents are kept within ±LIMIT: products of two exponentials and sums of many stay finite.
LIMIT = 300.0
# The least value of Q, far below all that matters and far above the least normal number.
LEAST = 1e-280

FAST = {"reassoc", "contract", "arcp", "nsz"}

# The share of a training over which the temperature falls, and the rate at the end as a share of
# that at the beginning.
COOLING, LAST_RATE = 0.9, 0.02

# Losses of a training: of classes, or of the difference z_1 − z_0 from a target.
CROSS_ENTROPY, SQUARED, ABSOLUTE = 0, 1, 2


class Layout(NamedTuple):
    """Where the terms of a sum are in its flat arrays.

    Term t has the features ``features[feature_start[t]:feature_start[t + 1]]`` and the units
    ``unit_start[t]`` to ``unit_start[t + 1]``; the walls of unit k, two for each feature, begin at
    ``wall_start[k]``.
    """

    feature_start: np.ndarray  # (T + 1,)
    features: np.ndarray  # (F,)
    unit_start: np.ndarray  # (T + 1,)
    wall_start: np.ndarray  # (K,)


class FlatWeights(NamedTuple):
    """The weights of all terms, or as many derivatives."""

    W0: np.ndarray  # (2F,)
    W1: np.ndarray  # (walls,)
    W2: np.ndarray  # (K, C)


class Buffers(NamedTuple):
    """Arrays of a batch of B samples."""

    E: np.ndarray  # (2F, B): exp(−λ/τ)
    G: np.ndarray  # (K, B): 1/S
    Q: np.ndarray  # (T, C, B), then the derivatives by Q
    D: np.ndarray  # (largest 2m, B): derivatives by the rows of a term
    s: np.ndarray  # (B,)
    z: np.ndarray  # (C, B), then the derivatives by z
    V1: np.ndarray  # (walls,): exp(−W1/τ)
    V2: np.ndarray  # (K, C): exp(W2/τ)


def empty_buffers(layout: Layout, n_classes: int, batch: int) -> Buffers:
    """Return buffers for a sum of terms and a batch size."""
    widths = np.diff(layout.feature_start)
    n_walls = int(2 * widths @ np.diff(layout.unit_start))
    K = layout.wall_start.size
    return Buffers(
        E=np.empty((2 * layout.features.size, batch)),
        G=np.empty((K, batch)),
        Q=np.empty((widths.size, n_classes, batch)),
        D=np.empty((2 * int(widths.max()), batch)),
        s=np.empty(batch),
        z=np.empty((n_classes, batch)),
        V1=np.empty(n_walls),
        V2=np.empty((K, n_classes)),
    )


@njit(cache=True, nogil=True, fastmath=FAST)
def _clipped_exp(x):
    return math.exp(min(max(x, -LIMIT), LIMIT))


@njit(cache=True, nogil=True, fastmath=FAST)
def soft_scores(U, layout, weights, intercept, tau, buffers):
    """Leave soft scores in ``buffers.z`` and what the gradient needs beside them.

    U is (P, B), intercept (C,); O(B·Σ_t H_t·(m_t + C)).
    """
    E, G, Q, s, z, V1, V2 = (
        buffers.E, buffers.G, buffers.Q, buffers.s, buffers.z, buffers.V1, buffers.V2,
    )  # fmt: skip
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
        first_row = 2 * layout.feature_start[t]
        n_rows = 2 * (layout.feature_start[t + 1] - layout.feature_start[t])
        Q[t] = 0.0
        for k in range(layout.unit_start[t], layout.unit_start[t + 1]):
            s[:] = 0.0
            for r in range(n_rows):
                v = V1[layout.wall_start[k] + r]
                e = E[first_row + r]
                for b in range(B):
                    s[b] += e[b] * v
            g = G[k]
            for b in range(B):
                g[b] = 1.0 / s[b]
            for d in range(C):
                v = V2[k, d]
                q = Q[t, d]
                for b in range(B):
                    q[b] += g[b] * v
        for d in range(C):
            for b in range(B):
                Q[t, d, b] = max(Q[t, d, b], LEAST)
                z[d, b] += tau * math.log(Q[t, d, b])


@njit(cache=True, nogil=True, fastmath=FAST)
def soft_gradient(U, layout, buffers, gradient):
    """Fill ``gradient`` by the chain rule from derivatives by the scores, in ``buffers.z``.

    Follows `soft_scores` on the same batch; O(B·Σ_t H_t·(m_t + C)).
    """
    E, G, Q, D, s, z, V1, V2 = (
        buffers.E, buffers.G, buffers.Q, buffers.D, buffers.s, buffers.z, buffers.V1, buffers.V2,
    )  # fmt: skip
    B, C = U.shape[1], V2.shape[1]
    for t in range(Q.shape[0]):
        first_row = 2 * layout.feature_start[t]
        n_rows = 2 * (layout.feature_start[t + 1] - layout.feature_start[t])
        for d in range(C):
            for b in range(B):
                Q[t, d, b] = z[d, b] / Q[t, d, b]
        for r in range(n_rows):
            D[r] = 0.0
        for k in range(layout.unit_start[t], layout.unit_start[t + 1]):
            g = G[k]
            s[:] = 0.0
            for d in range(C):
                v, q, total = V2[k, d], Q[t, d], 0.0
                for b in range(B):
                    s[b] += q[b] * v
                    total += q[b] * g[b]
                gradient.W2[k, d] = total * v
            for b in range(B):
                s[b] *= g[b] * g[b]
            for r in range(n_rows):
                wall = layout.wall_start[k] + r
                v, e, d_row, total = V1[wall], E[first_row + r], D[r], 0.0
                for b in range(B):
                    total += s[b] * e[b]
                    d_row[b] += s[b] * v
                gradient.W1[wall] = total * v
        for r in range(n_rows):
            u = U[layout.features[layout.feature_start[t] + r // 2]]
            e, d_row, total = E[first_row + r], D[r], 0.0
            for b in range(B):
                total += d_row[b] * e[b] * u[b]
            gradient.W0[first_row + r] = total


@njit(cache=True, nogil=True)
def softmax_gradient(z, y, share):
    """Return Σ_b share_b·loss_b of scores z (C, B), which become its derivatives; O(B·C)."""
    C, B = z.shape
    loss = 0.0
    for b in range(B):
        top = z[0, b]
        for d in range(1, C):
            top = max(top, z[d, b])
        total = 0.0
        for d in range(C):
            total += math.exp(z[d, b] - top)
        own = int(y[b])
        loss += share[b] * (math.log(total) + top - z[own, b])
        for d in range(C):
            z[d, b] = share[b] * math.exp(z[d, b] - top) / total
        z[own, b] -= share[b]
    return loss


@njit(cache=True, nogil=True)
def regression_gradient(z, target, share, is_absolute, tau):
    """Return Σ_b share_b·loss(z_1 − z_0 − target) of scores z (2, B), which become derivatives.

    The loss of an error e is e²/2, or √(e² + τ²) − τ, which tends to |e|. O(B).
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


class Schedule(NamedTuple):
    """Temperature and rate of Adam's steps over a training of ``n_steps`` steps.

    The temperature falls geometrically over the first nine tenths; rates fall as half a cosine.
    """

    n_steps: int
    hot: float
    cold: float
    rate: float
    slope_rate: float  # that of W0, as a multiple


@njit(cache=True, nogil=True)
def train_epoch(
    X, y, weight, loss_kind, order, batch, step, schedule, layout, weights, intercept, moments,
    buffers,
):  # fmt: skip
    """Take Adam's steps of one epoch, from ``step`` on; return the mean loss.

    X is (N, P), y (N,) are classes or targets, as floats; ``loss_kind`` is CROSS_ENTROPY, SQUARED
    or ABSOLUTE; ``order`` holds the rows in the order of the batches; ``moments`` are Adam's two
    for each array of ``weights``. O(N·Σ_t H_t·(m_t + C)).
    """
    U = np.empty((X.shape[1], batch))
    targets, share = np.empty(batch), np.empty(batch)
    gradient = FlatWeights(
        np.empty(weights.W0.size), np.empty(weights.W1.size), np.empty(weights.W2.shape)
    )
    n_batches, loss = order.size // batch, 0.0
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
        done = step / schedule.n_steps
        tau = schedule.hot * (schedule.cold / schedule.hot) ** min(1.0, done / COOLING)
        rate = schedule.rate * (
            LAST_RATE + (1.0 - LAST_RATE) * 0.5 * (1.0 + math.cos(math.pi * done))
        )
        step += 1
        soft_scores(U, layout, weights, intercept, tau, buffers)
        if loss_kind == CROSS_ENTROPY:
            loss += softmax_gradient(buffers.z, targets, share) / n_batches
        else:
            is_absolute = loss_kind == ABSOLUTE
            loss += regression_gradient(buffers.z, targets, share, is_absolute, tau) / n_batches
        soft_gradient(U, layout, buffers, gradient)
        unbias = 1.0 - BETA1**step, 1.0 - BETA2**step
        adam = AdamStep(1.0 - BETA1, 1.0 - BETA2, *unbias, rate, EPSILON, NOTHING, 0.0)
        first, second = moments
        move_serial(weights.W1, first.W1, second.W1, gradient.W1, adam)
        move_serial(
            weights.W2.reshape(-1), first.W2.reshape(-1), second.W2.reshape(-1),
            gradient.W2.reshape(-1), adam,
        )  # fmt: skip
        rate *= schedule.slope_rate
        adam = AdamStep(1.0 - BETA1, 1.0 - BETA2, *unbias, rate, EPSILON, NOTHING, 0.0)
        move_serial(weights.W0, first.W0, second.W0, gradient.W0, adam)
        # A slope of the other sign would turn a wall around.
        for i in range(weights.W0.size):
            weights.W0[i] = max(weights.W0[i], 0.0) if i % 2 == 0 else min(weights.W0[i], 0.0)
    return loss
