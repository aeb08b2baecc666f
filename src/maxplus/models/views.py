"""What an LMM sees of a row: the features themselves, or weighted sums of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxplus._compile.jit import frozen
from maxplus.models._lmm_kernels import add_views
from maxplus.models._lmm_small import SMALL


def check_directions(directions: ArrayLike, n_views: int, dtype: Any) -> NDArray:
    """Directions D as a model holds them, (M, P), finite, contiguous and in its float type."""
    array = np.asarray(directions)
    if array.ndim != 2 or array.shape[0] != n_views or array.shape[1] == 0:
        raise ValueError(
            f"directions must have shape ({n_views}, P), a row of weights for each of the "
            f"{n_views} views that W0 has slopes for; got shape {array.shape}"
        )
    if array.dtype.kind != "f":
        raise ValueError(
            f"directions must hold floats; got dtype {array.dtype}; convert them with astype"
        )
    with np.errstate(over="ignore"):
        D = np.ascontiguousarray(array, dtype)
    if not np.isfinite(D).all():
        raise ValueError(f"directions must be finite numbers of {np.dtype(dtype)}")
    return D


def views_of(X: NDArray, directions: NDArray) -> NDArray:
    """V = X·Dᵀ, shape (N, M), of rows that have been checked; O(N·P·M).

    Sums run from the first feature to the last, whatever the rows beside: a row has the same
    views, to the last bit, alone and among others. A matrix product would not promise that.
    """
    V, DT = np.zeros((len(X), len(directions)), X.dtype), np.ascontiguousarray(directions.T)
    if X.size * len(directions) < SMALL:
        with np.errstate(all="ignore"):
            for x, d in zip(X.T, DT, strict=True):
                V += x[:, None] * d
    else:
        add_views(frozen(X), frozen(DT), V)
    return frozen(V)
