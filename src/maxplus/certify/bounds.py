"""Bounds of the scores of an LMM over a box of inputs, and of the rounding of a forward pass."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
from numba import prange
from numpy.typing import ArrayLike, NDArray

from maxplus._compile.jit import frozen, njit
from maxplus.algebra._kernels import PARALLEL_FROM, ROWS_PER_TASK, maxplus_rows, minplus_rows
from maxplus.models import LMM, AdditiveLMM, Network
from maxplus.models._checks import as_rows
from maxplus.models._lmm_kernels import linear


class Bounds(NamedTuple):
    """Scores stay within [low, high], both of shape (N, C), wherever the input is in its box."""

    low: NDArray
    high: NDArray


def box_bounds(model: LMM, X: NDArray, eps: ArrayLike, scale: NDArray | None = None) -> Bounds:
    """Return bounds of all scores over the box |x'_p − x_p| ≤ eps·scale_p around each row of X.

    A hidden unit is separable, g_h(x) = min_p φ_ph(x_p), and its features move
    independently in a box. Hence max g_h = min_p max φ_ph and min g_h = min_p min φ_ph
    are exact, where φ_ph(t) = min(a·t + A, b·t + B) has the slopes (a, b) = slopes[p] and
    the offsets (A, B) = offsets[h, p] of the model.

    *Lowest.* A minimum of lines is lowest where one of them is: each row i is lowered by
    |W0[i]|·eps·scale_p on its own.

    *Highest.* Raising each row on its own, by as much, bounds φ_ph from above. It is
    exact unless the slopes have opposite signs and the lines cross inside the
    interval; then φ_ph is highest at the crossing, with the value
    (|b|·A + |a|·B) / (|a| + |b|), which is the highest φ_ph gets anywhere. Therefore
    the exact maximum of g_h is the raised minimum, but at most cap_h, the lowest of
    these peaks over the features with slopes of opposite signs.

    So max_h (max g_h + W2[h, d]) is the exact maximum of z_d, and
    max_h (min g_h + W2[h, d]) is at most its minimum. Two forward passes; O(N·P·H).

    Parameters
    ----------
    model : LMM
    X : array of shape (N, P)
    eps : float or array of shape (N,), >= 0
    scale : array of shape (P,), >= 0, optional
        How far each feature may move for eps = 1; all ones by default.

    Returns
    -------
    Bounds, in float64, of the exact scores and also of those computed in the model's type:
        the rounding of a forward pass is allowed for.

    Examples
    --------
    >>> from maxplus.certify import box_bounds
    >>> from sklearn.datasets import load_iris
    >>> from maxplus import LMMClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = LMMClassifier(6, slope=4.0, warmup_epochs=2, random_state=0).fit(X, y)
    >>> model = clf.model_
    >>> low, high = box_bounds(model, X, 0.1)
    >>> Z = model.scores(X + 0.1)
    >>> bool(((low <= Z) & (Z <= high)).all())
    True
    """
    X = as_rows(X, model.n_features, np.float64)
    box = check_box(model, len(X), eps, scale)
    return BoxBounds(model, box.scale)(X, box.eps)


class BoxBounds:
    """`box_bounds` of one model and one scale, for boxes of checked rows and sizes.

    Parameters
    ----------
    model : LMM
    scale : array of shape (P,), >= 0

    Attributes
    ----------
    slope : max_i |W0[i]|·scale_p; no score changes faster than that with eps
    """

    def __init__(self, model: LMM, scale: NDArray) -> None:
        self.model = model
        self._reach = (np.abs(model.slopes.astype(np.float64)) * scale[:, None]).ravel()
        self._magnitude = Magnitude(model)
        self.slope = float(self._reach.max())

    @cached_property
    def _exact(self) -> LMM:
        return self.model.astype(np.float64)

    @cached_property
    def _caps(self) -> NDArray:
        return caps(self._exact)

    def __call__(self, X: NDArray, eps: NDArray) -> Bounds:
        """Return the bounds of all scores for rows X (N, P) and sizes eps (N,)."""
        low, high = (np.empty((len(X), self.model.n_classes)) for _ in range(2))
        is_large = len(X) * self._exact.W1.size >= PARALLEL_FROM
        kernel = _bounds if is_large else _bounds.serial
        kernel(X, frozen(eps), self._exact.weights, self._reach, self._caps, low, high)
        slack = self.rounding(X, eps)[:, None]
        return Bounds(low - slack, high + slack)

    def rounding(self, X: NDArray, eps: NDArray) -> NDArray:
        """Return the most by which computed scores are off, for all inputs in each box; O(N·P).

        A score is a rounded product and two rounded sums; each rounding is at most half
        a unit in the last place of numbers that are no larger than what is added up here,
        or half the least number there is.
        """
        largest = self._magnitude(np.abs(X).max(axis=1, keepdims=True, initial=0.0))
        if self.slope > 0.0:
            largest += eps * self.slope
        info = np.finfo(self.model.dtype)
        return 4.0 * float(info.eps) * largest + 16.0 * float(info.smallest_subnormal)


@njit(cache=True)
def _bounds_rows(X, eps, weights, reach, cap, low, high):
    """`_bounds` for a few rows on one thread; O(n·P·H)."""
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
def _bounds(X, eps, weights, reach, cap, low, high):
    """Fill low and high (N, C) with bounds of z over |x'_p − x_p| ≤ eps·scale_p.

    ``reach[i]`` = |W0[i]|·scale_p(i) and ``cap[h]`` are explained in `box_bounds`.
    """
    n = X.shape[0]
    for task in prange((n + ROWS_PER_TASK - 1) // ROWS_PER_TASK):
        lo = task * ROWS_PER_TASK
        hi = min(lo + ROWS_PER_TASK, n)
        _bounds_rows(X[lo:hi], eps[lo:hi], weights, reach, cap, low[lo:hi], high[lo:hi])


class Box(NamedTuple):
    """Sizes of boxes, (N,), in units of each feature's scale, (P,)."""

    eps: NDArray
    scale: NDArray


def check_box(model: Network, n_rows: int, eps: ArrayLike, scale: ArrayLike | None) -> Box:
    """Return both as arrays; ValueError that names the invalid argument."""
    try:
        widths = np.asarray(eps, np.float64)
    except (TypeError, ValueError):
        widths = np.array(np.nan)
    if widths.shape not in ((), (n_rows,)) or not (widths >= 0).all():
        raise ValueError(
            f"eps must be a number >= 0, or one for each of the {n_rows} rows; got {eps!r:.80}"
        )
    factors = np.ones(model.n_features)
    if scale is not None:
        factors = np.asarray(scale, np.float64)
        if factors.shape != (model.n_features,) or not (
            np.isfinite(factors).all() and (factors >= 0).all()
        ):
            raise ValueError(
                f"scale must hold {model.n_features} finite numbers >= 0, one for each feature; "
                f"got {scale!r:.80}"
            )
    return Box(np.ascontiguousarray(np.broadcast_to(widths, n_rows)), factors)


def caps(model: LMM) -> NDArray:
    """Return the highest value of each unit over all inputs, infinite without a limit; O(P·H)."""
    opposite = model.slopes.prod(axis=1) < 0
    if not opposite.any():
        return np.full(model.n_hidden, np.inf)
    a, b = np.abs(model.slopes[opposite]).T
    A, B = np.moveaxis(model.offsets[:, opposite], -1, 0)
    return ((b * A + a * B) / (a + b)).min(axis=1)


class Magnitude:
    """Largest sum of absolute values that a score is computed from.

    A score with |φ(x)_p| ≤ sizes_p for all features p is computed from numbers whose absolute
    values sum to at most |b| + Σ_t (max_i |W0[i]|·sizes_p + max |W1| + max |W2|). The rounding
    error of a forward pass is at most a few times machine precision of that.

    Parameters
    ----------
    model : LMM or AdditiveLMM
    """

    def __init__(self, model: LMM | AdditiveLMM) -> None:
        self._intercept = float(np.abs(model.intercept).max())
        self.features = np.concatenate([term.features for term in model.terms])
        # The steepest slope of each feature of each term.
        slopes = np.concatenate([term.lmm.slopes for term in model.terms])
        self.steep = np.abs(slopes).max(axis=1).astype(np.float64)
        sizes = [term.features.size for term in model.terms]
        self._first = np.cumsum([0, *sizes[:-1]])
        # The largest offset of each term, and its largest height.
        self._constants = [
            float(np.abs(lmm.W1).max()) + float(np.abs(lmm.W2).max()) for _, lmm in model.terms
        ]

    def of_terms(self, sizes: NDArray) -> NDArray:
        """Return max_i |W0[i]|·sizes_p of each term for sizes (N, P), shape (N, T)."""
        return np.maximum.reduceat(self.steep * sizes[:, self.features], self._first, axis=1)

    def __call__(self, sizes: NDArray) -> NDArray:
        """Return the bound for each row of sizes, shape (N,); O(N·Σ_t m_t).

        Sizes have shape (N, P), or (N, 1) if those of all features are equal.
        """
        parts = np.empty((len(sizes), 2 * len(self._constants) + 1))
        parts[:, 0] = self._intercept
        if sizes.shape[1] == 1:
            parts[:, 1::2] = np.maximum.reduceat(self.steep, self._first) * sizes
        else:
            parts[:, 1::2] = self.of_terms(sizes)
        parts[:, 2::2] = self._constants
        # Added from left to right, as the scripts of reports do it.
        return np.add.accumulate(parts, axis=1)[:, -1]
