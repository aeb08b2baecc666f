"""Lower bounds of the margins between classes over boxes of inputs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxplus._compile.intrinsics import fmax, fmin
from maxplus._compile.jit import njit
from maxplus.algebra import minplus
from maxplus.certify.bounds import BoxBounds, Magnitude, caps
from maxplus.models import LMM, AdditiveLMM
from maxplus.models.additive import breakpoints

# Terms with more entries of W1 are bounded without relating units to each other.
LARGE_TERM = 20_000


class Shape(NamedTuple):
    """The terms over one feature, where the slope of a score changes, and the scores there."""

    feature: int
    lmms: list[LMM]
    points: NDArray
    scores: NDArray


class LowestMargins(NamedTuple):
    """Lower bounds of the margins of exact scores, (N,), and what rounding can add, (N,)."""

    margin: NDArray
    rounding: NDArray

    @property
    def gap(self) -> NDArray:
        """Lower bound of the margins of exact scores and of computed ones; −inf if unknown."""
        with np.errstate(invalid="ignore"):
            gap = self.margin - self.rounding
        return np.where(np.isnan(gap), -np.inf, gap)


class AdditiveMargins:
    """Lower bounds of z_y − z_d, for all classes d ≠ y, over a box around each row of X.

    A box |x'_p − x_p| ≤ eps·scale_p has its ends rounded outwards. Feature maps do not decrease,
    neither exactly nor as computed, and neither does rounding to the model's float type; so a
    mapped feature lies between the mapped ends. A margin is a sum over terms, and features move
    independently: the sum of the lowest margins of its parts is at most the lowest margin.

    *Terms over one feature.* All terms over the same feature are one part. Its margin is a
    piecewise-linear function of the mapped feature u: lowest at an end of the interval, or where
    the slope of a score changes. This is **exact**. With the slopes a > b of a term and
    A_h = W1[0, h] + W2[h, d], B_h = W1[1, h] + W2[h, d], a score is

        z_d(u) = max_h min(a·u + A_h, b·u + B_h) = b·u + max_h min((a − b)·u + A_h, B_h).

    A unit with another one's A and B, or less, does not count. Those left, by falling A, have
    rising B: the maximum rises with unit j up to u = (B_j − A_j)/(a − b), and is constant up to
    u = (B_j − A_j+1)/(a − b), where unit j + 1 exceeds it. So there are at most 2H − 1 such points.
    Points and the scores there are computed once; O(C·H·(log H + H·C)) for a term.

    *Other terms.* Each is a part of its own, bounded by `term_margins`.

    Parameters
    ----------
    model : AdditiveLMM
    X : array of shape (N, P), float64
    y : array of shape (N,)
        The class of each row whose margin is bounded.
    scale : array of shape (P,), >= 0
        How far each feature may move for eps = 1.
    """

    def __init__(self, model: AdditiveLMM, X: NDArray, y: NDArray, scale: NDArray) -> None:
        self.model, self.X, self.y = model, X, y
        self.exact = model.astype(np.float64)
        self._magnitude = Magnitude(self.exact)
        influence = np.zeros(model.n_features)
        np.add.at(influence, self._magnitude.features, self._magnitude.steep)
        # A feature without influence stays where it is: 0·inf is not a number.
        self.scale = np.where(influence > 0.0, scale, 0.0)
        self._shapes = shapes_of(self.exact)
        self._others = [term for term in self.exact.terms if term.features.size > 1]
        self._caps = [caps(lmm) for _, lmm in self._others]
        U = self.exact.mapped(X)
        heights = ((lmm.hidden(U[:, features]), lmm.W2.T[y]) for features, lmm in self._others)
        self._units = [(g + own).argmax(axis=1) for g, own in heights]

    @property
    def slope(self) -> float:
        """No score changes faster than that with eps: Σ_t max_i |W0[i]|·rise_p·scale_p."""
        rise, feature_map = np.ones(self.model.n_features), self.model.feature_map
        if feature_map is not None:
            rise = np.maximum.reduceat(feature_map.rises, feature_map.starts[:-1])
        with np.errstate(over="ignore"):
            moved = np.minimum(rise * self.scale, np.finfo(np.float64).max)
            slopes = self._magnitude.of_terms(moved[None])[0]
        return min(sum(slopes.tolist()), float(np.finfo(np.float64).max))

    def lowest(self, rows: NDArray, eps: NDArray) -> LowestMargins:
        """Return the lowest margins of some rows over boxes of their own sizes.

        The margin does not rise with eps, up to rounding. O(n·Σ_t m_t·H_t), and O(C) for each
        point inside an interval at which the slope of a term over one feature changes.

        Parameters
        ----------
        rows : integer array of shape (n,)
        eps : array of shape (n,), >= 0, may be infinite
        """
        y = self.y[rows]
        with np.errstate(all="ignore"):
            low, high = self._mapped_box(self.X[rows], eps)
            # Without numbers for all features there is no bound.
            unknown = ~np.isfinite(low + high).all(axis=1)
            low[unknown] = high[unknown] = 0.0
            margins = self.exact.intercept[y][:, None] - self.exact.intercept
            for shape in self._shapes:
                self._add_shape(shape, low, high, y, margins)
            others = zip(self._others, self._caps, self._units, strict=True)
            for (features, lmm), cap, unit in others:
                ends = low[:, features], high[:, features]
                margins += term_margins(lmm, cap, *ends, y, unit[rows])
            margins[np.arange(len(y)), y] = np.inf
            margins[unknown] = -np.inf
            return LowestMargins(margins.min(axis=1), self.rounding(low, high))

    def gap(self, rows: NDArray, eps: NDArray) -> NDArray:
        """Return the lowest margins of some rows, less rounding; −inf if unknown."""
        return self.lowest(rows, eps).gap

    def sign(self, eps: NDArray, tolerance: float) -> NDArray:
        """Return the sign of each row's gap for eps·(1 + tolerance), 0 where it is too small."""
        rows = np.arange(len(self.X))
        at = self.lowest(rows, eps)
        with np.errstate(over="ignore"):
            beyond = self.lowest(rows, (1.0 + 2.0 * tolerance) * eps)
        return np.where(beyond.gap > beyond.rounding, 1, np.where(at.gap < -at.rounding, -1, 0))

    def is_bounded(self) -> NDArray:
        """Return whether the gap of each row is lost for some eps."""
        return ~(self.gap(np.arange(len(self.X)), np.full(len(self.X), np.inf)) > 0.0)

    def _mapped_box(self, X: NDArray, eps: NDArray) -> tuple[NDArray, NDArray]:
        """Return the least and the greatest mapped features in each box, exact or computed.

        A feature moves by a rounding error at least, so that the bounds are continuous at eps = 0.
        """
        moves = self.scale > 0.0
        reach = np.zeros(X.shape)
        np.multiply(eps[:, None], self.scale, out=reach, where=moves)
        reach = np.nextafter(reach, np.inf)
        low = np.where(moves, np.nextafter(X - reach, -np.inf), X)
        high = np.where(moves, np.nextafter(X + reach, np.inf), X)
        return (
            np.minimum(self.exact.mapped(low), self.model.mapped(low)),
            np.maximum(self.exact.mapped(high), self.model.mapped(high)),
        )

    def _add_shape(
        self, shape: Shape, low: NDArray, high: NDArray, y: NDArray, margins: NDArray
    ) -> None:
        low, high = (np.ascontiguousarray(ends[:, shape.feature]) for ends in (low, high))
        ends = sum_of_scores(shape.lmms, np.concatenate([low, high]))
        add_lowest_margins(low, high, ends, shape.points, shape.scores, y, margins)

    def rounding(self, low: NDArray, high: NDArray) -> NDArray:
        """Return the most by which margins can be off, for all inputs in each box; O(N·Σ_t m_t).

        Let L be the sum of all terms' largest |W0[i]·u| + |W1[i, h]| + |W2[h, d]|, and of the
        largest intercept. A score in the model's float type is, for each of the T terms, a rounded
        product and two rounded sums, and T more sums: it is off by at most (T + 3)·u·L, up to
        terms in u², where u = eps / 2; a margin by twice that. What is computed here, in float64,
        is off by as much; points where a slope changes, by a few roundings of the same numbers,
        each of which changes a margin by no more than that; caps, mapped features and differences
        of offsets, by less than 24·u·L. Where there are maps, u is at most their largest value.
        """
        feature_map = self.model.feature_map
        if feature_map is None:
            sizes = np.maximum(np.abs(low), np.abs(high))
        else:
            sizes = np.maximum.reduceat(np.abs(feature_map.u), feature_map.starts[:-1])[None]
        largest = np.broadcast_to(self._magnitude(sizes), len(low))
        T, info = len(self.exact.terms), np.finfo(self.model.dtype)
        shares = (2.0 * T + 8.0) * float(info.eps) + (2.0 * T + 64.0) * np.finfo(np.float64).eps
        return shares * largest + 32.0 * (T + 1.0) * float(info.smallest_subnormal)


class NetworkMargins:
    """Lower bounds of z_y − z_d of a single LMM, with the interface of `AdditiveMargins`.

    The box is symmetric and features are not mapped, so that `maxplus.certify.box_bounds` bounds
    all scores in one compiled pass.

    Parameters
    ----------
    model : LMM
    X, y, scale
        As in `AdditiveMargins`.
    """

    def __init__(self, model: LMM, X: NDArray, y: NDArray, scale: NDArray) -> None:
        self.X, self.y = X, y
        self._bounds = BoxBounds(model, scale)

    @property
    def slope(self) -> float:
        """No score changes faster than that with eps."""
        return self._bounds.slope

    def gap(self, rows: NDArray, eps: NDArray) -> NDArray:
        """Return the lower bound of class y's score less the highest upper bound of all others."""
        low, high = self._bounds(self.X[rows], eps)
        own = np.arange(len(rows)), self.y[rows]
        high[own] = -np.inf
        with np.errstate(invalid="ignore"):
            return low[own] - high.max(axis=1)

    def sign(self, eps: NDArray, tolerance: float) -> NDArray:
        """Return the sign of each row's gap, 0 where it is too small."""
        gap = self.gap(np.arange(len(self.X)), eps)
        with np.errstate(invalid="ignore", over="ignore"):
            # The gap changes by at most 2·slope per eps.
            close = 4.0 * tolerance * eps * self.slope
            close = close + 8.0 * self._bounds.rounding(self.X, eps)
        return np.where(np.abs(gap) > close, np.sign(gap), 0)

    def is_bounded(self) -> NDArray:
        """Return True for each row: a box of any size needs no separate test here."""
        return np.ones(len(self.X), bool)


def shapes_of(exact: AdditiveLMM) -> list[Shape]:
    """Return all terms over one feature, feature by feature."""
    terms: dict[int, list[LMM]] = {}
    for features, lmm in exact.terms:
        if features.size == 1:
            terms.setdefault(int(features[0]), []).append(lmm)
    shapes = []
    for feature, lmms in terms.items():
        points = np.unique(np.concatenate([breakpoints(lmm) for lmm in lmms]))
        shapes.append(Shape(feature, lmms, points, sum_of_scores(lmms, points)))
    return shapes


def sum_of_scores(lmms: list[LMM], u: NDArray) -> NDArray:
    """Return the sum of the scores of LMMs of one feature, of shape (N, C)."""
    return np.sum([lmm.scores(u[:, None]) for lmm in lmms], axis=0)


def term_margins(
    lmm: LMM, cap: NDArray, low: NDArray, high: NDArray, y: NDArray, unit: NDArray | None = None
) -> NDArray:
    """Return lower bounds of z_y − z_d of an LMM for inputs between low and high, shape (N, C).

    If unit h decides z_d, then z_d = g_h + W2[h, d], and z_y is at least each of

    - max_k (min g_k + W2[k, y]), where g_h ≤ max g_h,
    - g_h + W2[h, y],
    - g_k + W2[k, y] for the given unit k, where g_k − g_h ≥ D_h: if row i is the minimum of unit k,
      then g_k = λ_i + W1[i, k] ≥ min λ_i + W1[i, k], and g_h ≤ λ_i + W1[i, h], so that
      D_h = min_i (W1[i, k] + max(−W1[i, h], min λ_i − max g_h)).

    The bound is the minimum over h of the largest of the three. min g and max g are exact, as in
    `maxplus.certify.box_bounds`. All parts fall as the box grows, for a fixed unit k. Of large
    terms the third bound is left out: it takes several times as long as the others.
    O(N·(m + C)·H).

    Parameters
    ----------
    lmm : LMM with m features, float64
    cap : array of shape (H,), the largest value of each unit (`caps`)
    low, high : arrays of shape (N, m)
    y : array of shape (N,)
    unit : array of shape (N,), optional
        k for each row; without it, the third bound is left out.

    Returns
    -------
    array of shape (N, C)
    """
    ends = [np.repeat(end, 2, axis=1) * lmm.W0 for end in (low, high)]
    lowest = np.minimum(*ends)
    bottom = minplus(lowest, lmm.W1)
    top = np.minimum(minplus(np.maximum(*ends), lmm.W1), cap)
    heights = np.ascontiguousarray(lmm.W2.T[y])
    ahead = np.maximum((bottom + heights).max(axis=1, keepdims=True) - top, heights)
    if unit is not None and lmm.W1.size <= LARGE_TERM:
        raise_to_related_unit(lowest, top, lmm.W1.T, heights, unit, ahead)
    return minplus(ahead, -lmm.W2)


@njit(cache=True, nogil=True)
def raise_to_related_unit(lowest, top, W1T, heights, unit, ahead):
    """ahead[n, h] = max(ahead[n, h], D_h + heights[n, k]), k = unit[n]; see `term_margins`.

    ``lowest`` are the smallest λ, (N, 2m), ``top`` the largest g, (N, H). O(N·m·H).
    """
    for n in range(ahead.shape[0]):
        own = W1T[unit[n]]
        for h in range(ahead.shape[1]):
            lead = np.inf
            for i in range(own.size):
                lead = fmin(lead, own[i] + fmax(-W1T[h, i], lowest[n, i] - top[n, h]))
            ahead[n, h] = max(ahead[n, h], lead + heights[n, unit[n]])


@njit(cache=True, nogil=True)
def add_lowest_margins(low, high, ends, points, scores, y, margins):
    """margins[n, d] += min over u in [low[n], high[n]] of z_y(u) − z_d(u), piecewise linear in u.

    ``ends`` are the scores at all low and then at all high, (2N, C); ``scores`` are those at the
    increasing ``points`` between which they are linear. O(N·(log points + C)), and O(C) for each
    point inside the interval.
    """
    N, C = margins.shape
    lowest = np.empty(C)
    for n in range(N):
        own = y[n]
        for d in range(C):
            at_low, at_high = ends[n, own] - ends[n, d], ends[N + n, own] - ends[N + n, d]
            lowest[d] = min(at_low, at_high)
        # The first point above low[n]; Numba compiles np.searchsorted for a third of a second.
        k, end = 0, points.size
        while k < end:
            middle = (k + end) // 2
            if points[middle] <= low[n]:
                k = middle + 1
            else:
                end = middle
        while k < points.size and points[k] < high[n]:
            for d in range(C):
                lowest[d] = min(lowest[d], scores[k, own] - scores[k, d])
            k += 1
        for d in range(C):
            margins[n, d] += lowest[d]
