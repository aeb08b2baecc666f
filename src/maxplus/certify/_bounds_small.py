"""`_bounds_kernels.bounds` in NumPy, for work that is done before it would be compiled."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from maxplus.models._lmm_kernels import LMMWeights
from maxplus.models._lmm_small import hidden_rows, linear_rows, outputs


def bounds_small(
    X: NDArray, eps: NDArray, weights: LMMWeights, reach: NDArray, cap: NDArray, low: NDArray,
    high: NDArray,
) -> None:  # fmt: skip
    """Fill low and high; O(N·P·H) time and memory."""
    lam = linear_rows(X, weights)
    change = np.zeros(lam.shape)
    with np.errstate(all="ignore"):
        # Nothing, not even an infinite eps, moves what has no reach.
        np.multiply(eps[:, None], reach, out=change, where=reach > 0.0)
        low[:] = outputs(hidden_rows(lam - change, weights), weights)
        high[:] = outputs(np.fmin(hidden_rows(lam + change, weights), cap), weights)
