"""The LMM's formulas in NumPy, for work that is done before a kernel would be compiled.

Sums, minima and maxima are exact whatever their order, so these are the kernels' values to the last
bit; ties and numbers that are not finite are treated alike, too. All take O(N·P·H) time and memory.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from maxplus.models._lmm_kernels import LMMWeights

# Below this many additions a product takes less than a millisecond here, and little memory.
SMALL = 200_000


def linear_rows(X: NDArray, weights: LMMWeights) -> NDArray:
    """λ_i = W0[i]·x[p(i)] of each row, shape (N, 2P)."""
    with np.errstate(all="ignore"):
        return np.repeat(X, 2, axis=1) * weights.W0


def hidden_rows(lam: NDArray, weights: LMMWeights) -> NDArray:
    """g_h = min_i (λ_i + W1[i, h]) of each row, shape (N, H)."""
    return np.fmin.reduce(_sums(lam, weights.W1T), axis=2)


def scores(X: NDArray, weights: LMMWeights) -> NDArray:
    """z_d = max_h (g_h + W2[h, d]) of each row, shape (N, C)."""
    return outputs(hidden_rows(linear_rows(X, weights), weights), weights)


def outputs(g: NDArray, weights: LMMWeights) -> NDArray:
    """z_d = max_h (g_h + W2[h, d]) of each row's hidden units, shape (N, C)."""
    return np.fmax.reduce(_sums(g, weights.W2T), axis=2)


def active_path(X: NDArray, weights: LMMWeights) -> tuple[NDArray, NDArray]:
    """The unit that gives each score, and the row that gives its value, both (N, C).

    The lowest among equals.
    """
    lam = linear_rows(X, weights)
    _, unit, row = _winners(lam, hidden_rows(lam, weights), weights)
    return unit, row


def active_path_of_row(
    x: NDArray, weights: LMMWeights, lam: NDArray, g: NDArray, z: NDArray, unit: NDArray,
    row: NDArray,
) -> None:  # fmt: skip
    """`_lmm_kernels.active_path`: one sample, into room that the caller has."""
    lam[:] = linear_rows(x[None], weights)[0]
    g[:] = hidden_rows(lam[None], weights)[0]
    (z[:],), (unit[:],), (row[:],) = _winners(lam[None], g[None], weights)


def _winners(lam: NDArray, g: NDArray, weights: LMMWeights) -> tuple[NDArray, NDArray, NDArray]:
    """Each score, the unit that gives it, and the row that gives the unit's value."""
    sums = _sums(g, weights.W2T)
    z = np.fmax.reduce(sums, axis=2)
    unit = _first_index(sums, z)
    value = np.take_along_axis(g, unit, axis=1)
    with np.errstate(all="ignore"):
        row = _first_index(lam[:, None, :] + weights.W1T[unit], value)
    return z, unit, row


def _sums(A: NDArray, BT: NDArray) -> NDArray:
    """A[n, j] + BT[k, j], shape (n, k, j)."""
    with np.errstate(all="ignore"):
        return A[:, None, :] + BT


def _first_index(sums: NDArray, value: NDArray) -> NDArray:
    """The first place of the value along the last axis; the last place if it is nowhere (NaN)."""
    found = sums == value[..., None]
    return np.where(found.any(axis=2), found.argmax(axis=2), sums.shape[2] - 1)
