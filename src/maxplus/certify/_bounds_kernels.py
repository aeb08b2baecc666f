"""Forward passes with the inputs moved to where each row is lowest or highest."""

import numpy as np
from numba import prange

from maxplus._compile.jit import njit
from maxplus.algebra._kernels import ROWS_PER_TASK, maxplus_rows, minplus_rows
from maxplus.models._lmm_kernels import linear


@njit(cache=True)
def _bounds_rows(X, eps, weights, reach, cap, low, high):
    """`bounds` for a few rows on one thread; O(n·P·H)."""
    n, rows = X.shape[0], weights.W0.size
    lam = np.empty((n, rows), X.dtype)
    g = np.empty((n, cap.size), X.dtype)
    for r in range(n):
        linear(X[r], weights.W0, lam[r])
        for i in range(rows):
            # Nothing, not even an infinite eps, moves what has no reach.
            if reach[i] > 0.0:
                lam[r, i] -= eps[r] * reach[i]
    minplus_rows(lam, weights.W1T, g)
    maxplus_rows(g, weights.W2T, low)
    for r in range(n):
        linear(X[r], weights.W0, lam[r])
        for i in range(rows):
            if reach[i] > 0.0:
                lam[r, i] += eps[r] * reach[i]
    minplus_rows(lam, weights.W1T, g)
    for r in range(n):
        for h in range(cap.size):
            g[r, h] = min(g[r, h], cap[h])
    maxplus_rows(g, weights.W2T, high)


@njit(cache=True, parallel=True)
def bounds(X, eps, weights, reach, cap, low, high):
    """Fill low and high (N, C) with bounds of z over |x'_p − x_p| ≤ eps·scale_p.

    ``reach[i]`` = |W0[i]|·scale_p(i) and ``cap[h]`` are explained in `bounds.py`.
    """
    n = X.shape[0]
    for task in prange((n + ROWS_PER_TASK - 1) // ROWS_PER_TASK):
        lo = task * ROWS_PER_TASK
        hi = min(lo + ROWS_PER_TASK, n)
        _bounds_rows(X[lo:hi], eps[lo:hi], weights, reach, cap, low[lo:hi], high[lo:hi])
