"""Compiled forward pass, active path and subgradient of the LMM.

Weights are passed as `LMMWeights`, with W1 and W2 transposed, so that reductions run along the
contiguous axis. Row i of the linear layer belongs to feature p(i) = i // 2; even rows have the +
slope, odd rows the − slope.
"""

from typing import NamedTuple

import numpy as np
from numba import prange

from maxplus._compile.jit import njit
from maxplus.algebra._kernels import (
    PARALLEL_FROM,
    ROWS_PER_TASK,
    first_index,
    maxplus_cell,
    minplus_cell,
    minplus_rows,
)
from maxplus.models._softmax import softmax_error

# Arguments of `forward` for results that are not needed.
NO_INDEX, NO_VALUE = np.empty((0, 0), np.int64), np.empty((0, 0))


class LMMWeights(NamedTuple):
    """Weights of an LMM, as an argument of kernels."""

    W0: np.ndarray  # (2P,)
    W1T: np.ndarray  # (H, 2P)
    W2T: np.ndarray  # (C, H)


class LMMGradient(NamedTuple):
    """Buffers for the path and the subgradient of one sample.

    Arrays have length C, except ``n``. Entries of W1 and W0 that several classes share are merged:
    only the first ``n[0]`` of (row1, unit1, value1) and ``n[1]`` of (row0, value0) are valid.
    """

    z: np.ndarray
    e: np.ndarray
    h_star: np.ndarray
    i_star: np.ndarray
    row1: np.ndarray
    unit1: np.ndarray
    value1: np.ndarray
    row0: np.ndarray
    value0: np.ndarray
    n: np.ndarray


def empty_gradient(n_classes: int, dtype: np.dtype) -> LMMGradient:
    """Return an `LMMGradient` of zeros."""

    def index() -> np.ndarray:
        return np.zeros(n_classes, np.int64)

    def value() -> np.ndarray:
        return np.zeros(n_classes)

    return LMMGradient(
        z=np.zeros(n_classes, dtype),
        e=value(),
        h_star=index(),
        i_star=index(),
        row1=index(),
        unit1=index(),
        value1=value(),
        row0=index(),
        value0=value(),
        n=np.zeros(2, np.int64),
    )


@njit(cache=True)
def linear(x, W0, lam):
    """Write λ_i = W0[i] · x[p(i)] to ``lam``; O(P)."""
    for p in range(x.size):
        lam[2 * p] = W0[2 * p] * x[p]
        lam[2 * p + 1] = W0[2 * p + 1] * x[p]


@njit(cache=True)
def _forward_rows(X, weights, g, Z, unit, row, runner_up, margin):
    """Compute `forward` on one thread; O(n·H·(P + C))."""
    n, H = X.shape[0], weights.W1T.shape[0]
    lam = np.empty((n, weights.W0.size), X.dtype)
    for r in range(n):
        linear(X[r], weights.W0, lam[r])
    if g.shape[0] == 0:
        g = np.empty((n, H), X.dtype)
    minplus_rows(lam, weights.W1T, g)
    for r in range(n):
        # For few classes, this is as fast as a tiled product, which takes longer to compile.
        for d in range(Z.shape[1]):
            heights = weights.W2T[d]
            top = maxplus_cell(g[r], heights)
            Z[r, d] = top
            if unit.shape[0] == 0:
                continue
            h = first_index(g[r], heights, top)
            unit[r, d] = h
            row[r, d] = first_index(lam[r], weights.W1T[h], g[r, h])
            if H > 1 and runner_up.shape[0] > 0:
                k = 1 if h == 0 else 0
                second = g[r, k] + heights[k]
                for j in range(k + 1, H):
                    if j != h and g[r, j] + heights[j] > second:
                        k, second = j, g[r, j] + heights[j]
                runner_up[r, d], margin[r, d] = k, top - second


@njit(cache=True, parallel=True)
def _forward(X, weights, g, Z, unit, row, runner_up, margin):
    """Compute `forward` in parallel on blocks of rows whose λ fits into the cache."""
    n = X.shape[0]
    for task in prange((n + ROWS_PER_TASK - 1) // ROWS_PER_TASK):
        lo = task * ROWS_PER_TASK
        hi = min(lo + ROWS_PER_TASK, n)
        _forward_rows(
            X[lo:hi],
            weights,
            g[lo:hi],
            Z[lo:hi],
            unit[lo:hi],
            row[lo:hi],
            runner_up[lo:hi],
            margin[lo:hi],
        )


def forward(
    X, weights, Z, unit=NO_INDEX, row=NO_INDEX, runner_up=NO_INDEX, margin=NO_VALUE, *, g=None
):
    """Fill the results of a forward pass of n samples; arrays without rows are not filled.

    ``g`` (n, H) are the hidden units. For each sample and class, (n, C), ``Z`` is the score,
    ``unit`` the unit that attains it, ``row`` the row that attains the minimum of this unit,
    ``runner_up`` the second-best unit, and ``margin`` the score minus the value of the second-best
    unit. The last two are not filled if there is only one unit. Ties are broken by the lowest
    index. One kernel computes all results, because several kernels take longer to compile.
    """
    g = np.empty((0, 0), X.dtype) if g is None else g
    kernel = _forward if len(X) * weights.W1T.size >= PARALLEL_FROM else _forward.serial
    kernel(X, weights, g, Z, unit, row, runner_up, margin)


@njit(cache=True)
def active_path(x, weights, lam, g, z, h_star, i_star):
    """Compute the scores of a sample, and the unit and row that determine each; O(H·(P + C)).

    Fills lam (2P,), g (H,), z, h_star and i_star (C,).
    """
    linear(x, weights.W0, lam)
    for h in range(g.size):
        g[h] = minplus_cell(lam, weights.W1T[h])
    for d in range(z.size):
        z[d] = maxplus_cell(g, weights.W2T[d])
        h_star[d] = first_index(g, weights.W2T[d], z[d])
        i_star[d] = first_index(lam, weights.W1T[h_star[d]], g[h_star[d]])


@njit(cache=True)
def subgradient_entries(x, y, with_w0, grad):
    """Write the subgradient to ``grad``, given its z, h_star and i_star; O(C²).

    ∂/∂W2[h*_d, d] = e_d; ∂/∂W1[i*_d, h*_d] = Σ e_d and ∂/∂W0[i*_d] = Σ e_d · x[p(i*_d)], summed
    over the classes that share the entry (as in the appendix of the paper). Entries of W0 are
    computed only if ``with_w0``.
    """
    softmax_error(grad.z, y, grad.e)
    n1 = n0 = 0
    for d in range(grad.e.size):
        h, i, e = grad.h_star[d], grad.i_star[d], grad.e[d]
        j = 0
        while j < n1 and (grad.unit1[j] != h or grad.row1[j] != i):
            j += 1
        if j == n1:
            grad.row1[j], grad.unit1[j], grad.value1[j] = i, h, 0.0
            n1 += 1
        grad.value1[j] += e
        if with_w0:
            j = 0
            while j < n0 and grad.row0[j] != i:
                j += 1
            if j == n0:
                grad.row0[j], grad.value0[j] = i, 0.0
                n0 += 1
            grad.value0[j] += e * np.float64(x[i // 2])
    grad.n[0], grad.n[1] = n1, n0


@njit(cache=True)
def sum_of_squares(values, n):
    """Return Σ_{j<n} values_j², added from left to right."""
    total = 0.0
    for j in range(n):
        total += values[j] * values[j]
    return total


@njit(cache=True)
def squared_norm(grad):
    """Return the squared norm, summed in the order of `Subgradient.squared_norm`."""
    return (
        sum_of_squares(grad.e, grad.e.size)
        + sum_of_squares(grad.value1, grad.n[0])
        + sum_of_squares(grad.value0, grad.n[1])
    )
