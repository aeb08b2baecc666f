"""How steep a function through given points must be."""

from __future__ import annotations

import numpy as np
from numba import prange
from numpy.typing import NDArray

from maxplus._compile.intrinsics import fmax
from maxplus._compile.jit import frozen, njit


def lipschitz_constant(X: NDArray, y: NDArray) -> float:
    """Max |y_i − y_j| / ‖x_i − x_j‖∞ over all pairs of different points; O(N²·P).

    0 for fewer than two points; inf where equal points have different values.
    """
    points, values = np.ascontiguousarray(X, np.float64), np.ascontiguousarray(y, np.float64)
    if points.ndim != 2 or values.shape != (len(points),):
        raise ValueError(
            f"X must have shape (N, P) and y shape (N,); got shapes {points.shape} "
            f"and {values.shape}"
        )
    steepest = np.zeros(len(points))
    _steepest_slopes(frozen(points), frozen(values), steepest)
    return float(steepest.max(initial=0.0))


@njit(cache=True)
def _distance(a, b):
    m = 0.0
    for p in range(a.size):
        m = fmax(m, abs(a[p] - b[p]))
    return m


@njit(cache=True, parallel=True)
def _steepest_slopes(X, y, out):
    """out[i] = steepest slope between point i and an earlier one."""
    for i in prange(X.shape[0]):
        steepest = 0.0
        for j in range(i):
            rise = abs(y[i] - y[j])
            if rise > 0.0:
                run = _distance(X[i], X[j])
                steepest = max(steepest, rise / run if run > 0.0 else np.inf)
        out[i] = steepest
