"""Bounds on scores over boxes of inputs, and on the rounding error of a forward pass."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxplus._compile.jit import frozen, njit
from maxplus.algebra import maxplus, minplus
from maxplus.models import LMM, Network
from maxplus.models._checks import as_rows
from maxplus.models.lmm import TermSum

EPS = float(np.finfo(np.float64).eps)
SMALLEST = float(np.finfo(np.float64).smallest_subnormal)


class Bounds(NamedTuple):
    """Lower and upper bounds of scores, both of shape (N, C), for all inputs in a box."""

    low: NDArray
    high: NDArray


def box_bounds(model: TermSum, X: NDArray, eps: ArrayLike, scale: NDArray | None = None) -> Bounds:
    """Return bounds of all scores over the box |x'_p − x_p| ≤ eps·scale_p around each row of X.

    A hidden unit is separable, g_h(x) = min_p f_ph(x_p), and the features in a box are
    independent. Hence max g_h = min_p max f_ph and min g_h = min_p min f_ph are exact, where
    f_ph(t) = min(a·t + A, b·t + B) has the slopes (a, b) = slopes[p] and the offsets
    (A, B) = offsets[h, p] of an LMM.

    *Minimum.* f_ph attains its minimum at an end of the interval.

    *Maximum.* The smaller of the maxima of both lines bounds f_ph from above. It is exact unless
    the slopes have opposite signs and the lines intersect inside the interval. Then f_ph has its
    global maximum at the intersection, (|b|·A + |a|·B) / (|a| + |b|). Therefore the exact maximum
    of g_h is the minimum of these bounds over p, but at most the smallest of these global maxima
    over the features with slopes of opposite signs (``caps``).

    So max_h (max g_h + W2[h, d]) is the exact maximum of z_d, and max_h (min g_h + W2[h, d]) is at
    most its minimum. The bounds of a sum are the sums of the bounds of its terms, and in general
    not attained. Two forward passes; O(N·H·(P + C)).

    Parameters
    ----------
    model : LMM or AdditiveLMM
    X : array of shape (N, P)
    eps : float or array of shape (N,), >= 0
    scale : array of shape (P,), >= 0, optional
        The largest change of each feature for eps = 1; all ones by default.

    Returns
    -------
    Bounds
        Bounds in float64 of the exact scores and of the scores computed in the float type of the
        model.

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
    eps, factors = check_box(model, len(X), eps, scale)
    model64, magnitude = model.astype(np.float64), Magnitude(model)
    with np.errstate(all="ignore"):
        low, high = mapped_box(model, X, eps, magnitude.effective_scale(factors))
        slack = magnitude.rounding(magnitude(low, high))[:, None]
        below, above = (np.tile(model64.intercept, (len(X), 1)) for _ in range(2))
        for features, lmm in model64.terms:
            pairs = (np.repeat(end[:, features], 2, axis=1) for end in (low, high))
            # 0 · inf would be NaN.
            ends = [np.where(lmm.W0 == 0.0, 0.0, pair * lmm.W0) for pair in pairs]
            top = np.minimum(minplus(np.maximum(*ends), lmm.W1), caps(lmm))
            below += maxplus(minplus(np.minimum(*ends), lmm.W1), lmm.W2)
            above += maxplus(top, lmm.W2)
        return Bounds(below - slack, above + slack)


def check_box(
    model: Network, n_rows: int, eps: ArrayLike, scale: ArrayLike | None
) -> tuple[NDArray, NDArray]:
    """Validate eps and scale, and return them with shapes (N,) and (P,)."""
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
        try:
            factors = np.asarray(scale, np.float64)
        except (TypeError, ValueError):
            factors = np.array(np.nan)
        if factors.shape != (model.n_features,) or not (
            np.isfinite(factors).all() and (factors >= 0).all()
        ):
            raise ValueError(
                f"scale must hold {model.n_features} finite numbers >= 0, one for each feature; "
                f"got {scale!r:.80}"
            )
    return np.broadcast_to(widths, n_rows).copy(), factors


def mapped_box(model: TermSum, X: NDArray, eps: NDArray, scale: NDArray) -> tuple[NDArray, NDArray]:
    """Return bounds, (N, P) each, of the exact and of the computed mapped features in each box.

    The ends of a box are rounded outwards, also for eps = 0, so that bounds are continuous there.
    """
    low, high = np.empty(X.shape), np.empty(X.shape)
    _fill_box(frozen(X), eps, scale, low, high)
    phi = model.feature_map
    ends = (low, high) if phi is None else (phi(low), phi(high))
    if model.dtype == np.float64:
        return ends
    return np.minimum(ends[0], model.mapped(low)), np.maximum(ends[1], model.mapped(high))


@njit(cache=True, nogil=True)
def _fill_box(X, eps, scale, low, high):
    """Fill low and high (N, P) with x_p ∓ eps·scale_p, rounded outwards; O(N·P)."""
    for n in range(X.shape[0]):
        for p in range(X.shape[1]):
            low[n, p] = high[n, p] = X[n, p]
            # A feature with scale 0 is fixed even for an infinite eps.
            if scale[p] > 0.0:
                reach = eps[n] * scale[p]
                reach += reach * EPS + SMALLEST
                low[n, p] -= reach
                low[n, p] -= abs(low[n, p]) * EPS + SMALLEST
                high[n, p] += reach
                high[n, p] += abs(high[n, p]) * EPS + SMALLEST


def caps(model: LMM) -> NDArray:
    """Return an upper bound of each unit for all inputs, shape (H,); O(P·H).

    The function min(a·t + A, b·t + B) of a feature has a maximum if a and b have opposite signs.
    The bound is the smallest of these maxima, or inf without such features.
    """
    opposite = model.slopes.prod(axis=1) < 0
    if not opposite.any():
        return np.full(model.n_hidden, np.inf)
    a, b = np.abs(model.slopes[opposite]).T
    A, B = np.moveaxis(model.offsets[:, opposite], -1, 0)
    return ((b * A + a * B) / (a + b)).min(axis=1)


class Magnitude:
    """Bounds on the magnitude of the summands of a score, and on its rounding error.

    If |φ(x)_p| ≤ sizes_p for all features p, the absolute values of the summands of a score add up
    to at most |b| + Σ_t (max_i |W0[i]|·sizes_p + max |W1| + max |W2|). The rounding error of a
    forward pass is at most a small multiple of machine epsilon times this sum.

    Parameters
    ----------
    model : LMM or AdditiveLMM
    """

    def __init__(self, model: TermSum) -> None:
        self._intercept = float(np.abs(model.intercept).max())
        self.features = np.concatenate([term.features for term in model.terms])
        # Largest absolute slope of each feature of each term.
        slopes = np.concatenate([term.lmm.slopes for term in model.terms])
        self.steep = np.abs(slopes).max(axis=1).astype(np.float64)
        self._starts = np.cumsum([0, *(term.features.size for term in model.terms)])
        # Largest |W1| plus largest |W2| of each term.
        self._constants = np.array(
            [float(np.abs(lmm.W1).max()) + float(np.abs(lmm.W2).max()) for _, lmm in model.terms]
        )
        T, info = len(model.terms), np.finfo(model.dtype)
        self._factor = (T + 3.0) * float(info.eps) + (T + 32.0) * EPS
        self._smallest = 16.0 * (T + 1.0) * float(info.smallest_subnormal)
        self._mapped_sum = None
        if model.feature_map is not None:
            starts = model.feature_map.starts[:-1]
            sizes = np.maximum.reduceat(np.abs(model.feature_map.u), starts)[None]
            self._mapped_sum = self(sizes, sizes)

    def effective_scale(self, scale: NDArray) -> NDArray:
        """Return the scale with 0 for features whose slopes are all 0, because 0·inf is NaN."""
        total = np.zeros(scale.size)
        np.add.at(total, self.features, self.steep)
        return np.where(total > 0.0, scale, 0.0)

    def products(self, sizes: NDArray) -> NDArray:
        """Return max_i |W0[i]|·sizes_p of each term, shape (T,), for sizes (P,)."""
        return np.maximum.reduceat(self.steep * sizes[self.features], self._starts[:-1])

    def __call__(self, low: NDArray, high: NDArray) -> NDArray:
        """Return the bound of the sum, (N,), for low ≤ φ(x) ≤ high, (N, P); O(N·Σ_t m_t).

        It is not finite if ``low`` or ``high`` is not finite.
        """
        sums = np.empty(len(low))
        _fill_sums(
            low,
            high,
            self.features,
            self.steep,
            self._starts,
            self._constants,
            self._intercept,
            sums,
        )
        return sums

    def rounding(self, sums: NDArray) -> NDArray:
        """Return a bound on the rounding error of a score, (N,), for sums (N,) returned by a call.

        Let L be the largest absolute intercept plus the largest |W0[i]·u_p| + |W1[i, h]| +
        |W2[h, d]| of each term. The computation of a score in the float type of the model has one
        rounded product and two rounded sums for each of the T terms, and T more sums. Its error is
        at most (T + 3)·δ·L, up to terms in δ², where δ is half the machine epsilon. Bounds are
        computed in float64 with the same error. The points at which a slope changes are computed
        with a few rounding errors, each of which changes a score by at most δ·L. Caps, mapped
        features and differences of offsets have errors below 12·δ·L. With a feature map, |u_p| is
        at most the largest absolute value of a knot.
        """
        if self._mapped_sum is not None:
            sums = np.broadcast_to(self._mapped_sum, sums.shape)
        return self._factor * sums + self._smallest


@njit(cache=True, nogil=True)
def _fill_sums(low, high, features, steep, starts, constants, intercept, sums):
    """Write the result of `Magnitude.__call__` to ``sums``; NaN propagates."""
    for n in range(low.shape[0]):
        # The JavaScript code of HTML reports adds in the same order.
        total = intercept
        for t in range(constants.size):
            largest = 0.0
            for j in range(starts[t], starts[t + 1]):
                p = features[j]
                product = steep[j] * max(abs(low[n, p]), abs(high[n, p]))
                if product > largest or product != product:
                    largest = product
            total += largest
            total += constants[t]
        sums[n] = total
