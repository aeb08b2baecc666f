"""The LMM's formulas in NumPy, for work that is done before a kernel would be compiled.

Who scores a few rows once should not wait for a compiler; who does so for ever should not do
without. So NumPy does what is small, as long as all that it has done costs less than a compilation.
Sums, minima and maxima are exact whatever their order, so these are the kernels' values to the last
bit; ties and numbers that are not finite are treated alike, too. All take O(N·P·H) time and memory.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxplus._jit import is_compiled
from maxplus.models._lmm_kernels import LMMWeights

# Below this many additions a product takes less than a millisecond here.
SMALL = 200_000
# So many take as long as a compilation.
PATIENCE = 100_000_000


class _Tally:
    """Additions that NumPy has done in this process, more or less: threads may count at once."""

    additions = 0


def is_sooner(X: NDArray, weights: LMMWeights, kernel: Any) -> bool:
    """Whether NumPy is done before a kernel would be, which nobody has compiled yet."""
    additions = len(X) * weights.W1T.size
    if additions >= SMALL or _Tally.additions > PATIENCE or _is_at_hand(kernel):
        return False
    _Tally.additions += additions
    return True


def _is_at_hand(kernel: Any) -> bool:
    return bool(getattr(kernel, "signatures", True)) or _is_on_disk(kernel)


@cache
def _is_on_disk(kernel: Any) -> bool:
    return is_compiled(kernel)


def linear_rows(X: NDArray, weights: LMMWeights) -> NDArray:
    """λ_i = W0[i]·x[p(i)] of each row, shape (N, 2P)."""
    with np.errstate(all="ignore"):
        return np.repeat(X, 2, axis=1) * weights.W0


def hidden_rows(lam: NDArray, weights: LMMWeights) -> NDArray:
    """g_h = min_i (λ_i + W1[i, h]) of each row, shape (N, H)."""
    return np.fmin.reduce(_sums(lam, weights.W1T), axis=2)


def scores(X: NDArray, weights: LMMWeights) -> NDArray:
    """z_d = max_h (g_h + W2[h, d]) of each row, shape (N, C)."""
    g = hidden_rows(linear_rows(X, weights), weights)
    return np.fmax.reduce(_sums(g, weights.W2T), axis=2)


def active_path(X: NDArray, weights: LMMWeights) -> tuple[NDArray, NDArray]:
    """The unit that gives each score, and the row that gives its value, both (N, C).

    The lowest among equals.
    """
    lam = linear_rows(X, weights)
    g = hidden_rows(lam, weights)
    sums = _sums(g, weights.W2T)
    unit = _first_index(sums, np.fmax.reduce(sums, axis=2))
    value = np.take_along_axis(g, unit, axis=1)
    with np.errstate(all="ignore"):
        row = _first_index(lam[:, None, :] + weights.W1T[unit], value)
    return unit, row


def _sums(A: NDArray, BT: NDArray) -> NDArray:
    """A[n, j] + BT[k, j], shape (n, k, j)."""
    with np.errstate(all="ignore"):
        return A[:, None, :] + BT


def _first_index(sums: NDArray, value: NDArray) -> NDArray:
    """The first place of the value along the last axis; the last place if it is nowhere (NaN)."""
    found = sums == value[..., None]
    return np.where(found.any(axis=2), found.argmax(axis=2), sums.shape[2] - 1)
