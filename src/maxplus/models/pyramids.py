"""The approximation theorem's network: pyramids under a Lipschitz function."""

from __future__ import annotations

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from maxplus.algebra._intrinsics import fmax
from maxplus.models.lmm import LMM


def pyramid_lmm(points: NDArray, heights: NDArray, slope: float) -> LMM:
    """LMM with z_d(x) = max_j (heights[j, d] − slope·‖x − points[j]‖∞).

    W0 = ±k and W1 = ∓k·x^j make unit j a pyramid, g_j(x) = −k·‖x − x^j‖∞. The
    paper's proof adds f(x^j) to W1; here heights are W2, so that a pyramid has
    its own height at its own point without a rounding error.
    """
    n_hidden, n_features = points.shape
    W0 = np.empty(2 * n_features, points.dtype)
    W0[0::2], W0[1::2] = slope, -slope
    W1T = np.empty((n_hidden, 2 * n_features), points.dtype)
    # The very products that the forward pass forms, hence g_j(x^j) is exactly 0.
    W1T[:, 0::2] = -(W0[0::2] * points)
    W1T[:, 1::2] = -(W0[1::2] * points)
    return LMM(W0, W1T.T, heights.astype(points.dtype))


def lipschitz_constant(X: NDArray, y: NDArray) -> float:
    """Max |y_i − y_j| / ‖x_i − x_j‖∞ over all pairs of different points; O(N²·P).

    0 for fewer than two points; inf where equal points have different values.
    """
    steepest = np.zeros(len(X))
    _steepest_slopes(np.ascontiguousarray(X, np.float64), y.astype(np.float64), steepest)
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
