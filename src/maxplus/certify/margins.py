"""Lower bounds of the margins between classes over boxes of inputs."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
from numba import prange
from numpy.typing import NDArray

from maxplus._compile.intrinsics import fmax, fmin
from maxplus._compile.jit import njit
from maxplus.algebra._kernels import PARALLEL_FROM, ROWS_PER_TASK, minplus_cell
from maxplus.certify.bounds import Magnitude, caps, mapped_box
from maxplus.models import LMM
from maxplus.models.additive import breakpoints
from maxplus.models.lmm import TermSum


class ShapeTerms(NamedTuple):
    """Terms over one feature, the points at which slopes change, and the summed scores there."""

    feature: int
    lmms: list[LMM]
    points: NDArray
    scores: NDArray


class MarginBounds(NamedTuple):
    """Lower bounds of margins over boxes around N rows.

    Attributes
    ----------
    margin : array of shape (N,), lower bounds of the smallest margin of exact scores
    rounding : array of shape (N,), bounds on the rounding error of margins
    gap : array of shape (N,), margin − rounding, a lower bound for exact and computed scores; −inf
        if there is no bound
    """

    margin: NDArray
    rounding: NDArray
    gap: NDArray


class Margins:
    """Lower bounds of z_y − z_d, for all classes d ≠ y, over a box around each row of X.

    The ends of a box |x'_p − x_p| ≤ eps·scale_p are rounded outwards. Exact and computed feature
    maps are monotone, and so is rounding to the float type of the model. Therefore a mapped feature
    lies between the mapped ends. A margin is a sum over parts, which are groups of terms. The sum
    of the minima of the parts is a lower bound of its minimum.

    *Terms over one feature.* All terms over the same feature are one part. Its margin is a
    piecewise-linear function of the mapped feature u. The minimum is attained at an end of the
    interval, or where the slope of a score changes, and is therefore **exact**. With the slopes
    a > b of a term and A_h = W1[0, h] + W2[h, d], B_h = W1[1, h] + W2[h, d], a score is

        z_d(u) = max_h min(a·u + A_h, b·u + B_h) = b·u + max_h min((a − b)·u + A_h, B_h).

    A unit is dominated if neither its A nor its B is larger than that of another unit. Sorted by
    decreasing A, the remaining units have increasing B. The maximum in the last expression
    increases with unit j up to u = (B_j − A_j)/(a − b), and is constant up to
    u = (B_j − A_j+1)/(a − b), where unit j + 1 exceeds it. So there are at most 2H − 1 such points
    for each class. Points and the scores there are computed once; O(C·H·(log H + H·C)) for a term.

    *Other terms.* Each is a separate part, bounded by `term_margins`.

    Parameters
    ----------
    model : LMM or AdditiveLMM
    X : array of shape (N, P), float64
    y : array of shape (N,)
        The class of each row whose margin is bounded.
    scale : array of shape (P,), >= 0
        The largest change of each feature for eps = 1.
    """

    def __init__(self, model: TermSum, X: NDArray, y: NDArray, scale: NDArray) -> None:
        self.model, self.X, self.y = model, X, y
        self._magnitude = Magnitude(model)
        self.scale = self._magnitude.effective_scale(scale)
        b = model.intercept.astype(np.float64)
        self._intercepts = b[y][:, None] - b

    @cached_property
    def model64(self) -> TermSum:
        """The model in float64."""
        return self.model.astype(np.float64)

    @cached_property
    def _shapes(self) -> list[ShapeTerms]:
        return shape_terms(self.model64)

    @cached_property
    def _wide_terms(self) -> list[WideTerm]:
        """The terms over several features, evaluated at all rows."""
        U = self.model64.mapped(self.X)
        terms = []
        for features, lmm in self.model64.terms:
            if features.size > 1:
                term = WideTerm.at(lmm, caps(lmm), features, U)
                terms.append(term._replace(unit=(term.g + lmm.W2.T[self.y]).argmax(axis=1)))
        return terms

    @property
    def slope(self) -> float:
        """Lipschitz constant of scores with respect to eps, Σ_t max_i |W0[i]|·rise_p·scale_p.

        rise_p is the largest slope of the feature map, and 1 without a map.
        """
        rise, feature_map = np.ones(self.model.n_features), self.model.feature_map
        if feature_map is not None:
            rise = np.maximum.reduceat(feature_map.slopes, feature_map.starts[:-1])
        with np.errstate(over="ignore"):
            rates = np.minimum(rise * self.scale, np.finfo(np.float64).max)
            slopes = self._magnitude.products(rates)
        return min(sum(slopes.tolist()), float(np.finfo(np.float64).max))

    def lower_bounds(self, rows: NDArray, eps: NDArray) -> MarginBounds:
        """Return lower bounds of the margins of some rows over boxes of different sizes.

        Bounds do not increase with eps, up to rounding. O(n·Σ_t H_t·(m_t + C)), and O(C) for each
        point inside an interval at which the slope of a term over one feature changes.

        Parameters
        ----------
        rows : integer array of shape (n,)
            Indices of the rows of X.
        eps : array of shape (n,), >= 0
            Size of each box, which may be infinite.

        Returns
        -------
        MarginBounds
        """
        y, wide_terms = self.y[rows], self._wide_terms
        with np.errstate(all="ignore"):
            low, high = mapped_box(self.model, self.X[rows], eps, self.scale)
            sums = self._magnitude(low, high)
            # There is no bound if a mapped feature is not bounded.
            is_unknown = ~np.isfinite(sums)
            if is_unknown.any():
                low[is_unknown] = high[is_unknown] = sums[is_unknown] = 0.0
            margins = self._intercepts[rows]
            for shape in self._shapes:
                margins += shape_margins(shape, low, high, y)
            for term in wide_terms:
                only_lowest = term is wide_terms[-1]
                add_term_margins(term, rows, low, high, y, only_lowest, margins)
            margins[np.arange(len(y)), y] = np.inf
            margins[is_unknown] = -np.inf
            lowest, rounding = margins.min(axis=1), 2.0 * self._magnitude.rounding(sums)
            gap = lowest - rounding
            gap[np.isnan(gap)] = -np.inf
            return MarginBounds(lowest, rounding, gap)

    def exceeds_lipschitz_bound(self, difference: NDArray, eps: NDArray) -> NDArray:
        """Return whether the gap for eps is positive by the Lipschitz bound of the scores.

        ``difference`` is the score of class y minus the highest other score, (N,). The gap is at
        least this difference minus 2·slope·eps and minus the rounding errors of the scores and of
        the gap, which are bounded for the largest feature values of all rows. Always False with a
        feature map, because rounding can change mapped features by more. O(N·P).
        """
        if self.model.feature_map is not None:
            return np.zeros(len(difference), bool)
        X = self.X
        largest = np.maximum(X.max(axis=0, initial=0.0), -X.min(axis=0, initial=0.0))[None]
        with np.errstate(all="ignore"):
            # In a box, a product |W0[i]·x_p| of each term increases by at most slope·eps.
            increase = eps * self.slope
            sums = self._magnitude(largest, largest) + len(self.model.terms) * increase
            return difference > 2.0 * increase + 8.0 * self._magnitude.rounding(sums)

    def sign(self, rows: NDArray, eps: NDArray, tolerance: float) -> NDArray:
        """Return 1 if the gap is > 0 at eps·(1 + 2·tolerance), −1 if it is < 0 at eps, else 0.

        The result is also 0 if the gap differs from 0 by no more than its rounding error.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            beyond = self.lower_bounds(rows, (1.0 + 2.0 * tolerance) * eps)
            # The gap decreases by at most 2·slope per unit of eps.
            decrease = 4.0 * tolerance * eps * self.slope + 4.0 * beyond.rounding
            sign = np.where(beyond.gap > beyond.rounding, 1, -1)
            near = np.flatnonzero((sign < 0) & ~(beyond.gap < -decrease))
        at = self.lower_bounds(rows[near], eps[near])
        sign[near] = np.where(at.gap < -at.rounding, -1, 0)
        return sign

    def has_finite_radius(self) -> NDArray:
        """Return whether the gap of each row is ≤ 0 for an infinite eps; True without a map."""
        if self.model.feature_map is None:
            return np.ones(len(self.X), bool)
        rows = np.arange(len(self.X))
        return ~(self.lower_bounds(rows, np.full(rows.size, np.inf)).gap > 0.0)


def shape_terms(model64: TermSum) -> list[ShapeTerms]:
    """Return the terms over one feature, grouped by feature."""
    terms: dict[int, list[LMM]] = {}
    for features, lmm in model64.terms:
        if features.size == 1:
            terms.setdefault(int(features[0]), []).append(lmm)
    shapes = []
    for feature, lmms in terms.items():
        points = np.unique(np.concatenate([breakpoints(lmm) for lmm in lmms]))
        shapes.append(ShapeTerms(feature, lmms, points, sum_of_scores(lmms, points)))
    return shapes


def sum_of_scores(lmms: list[LMM], u: NDArray) -> NDArray:
    """Return the sum of the scores of LMMs of one feature, of shape (N, C)."""
    return np.sum([lmm.scores(u[:, None]) for lmm in lmms], axis=0)


def shape_margins(shape: ShapeTerms, low: NDArray, high: NDArray, y: NDArray) -> NDArray:
    """Return the exact minimum margins z_y − z_d of the terms over one feature, (N, C).

    ``low`` and ``high`` are the ends of all mapped features, (N, P).
    """
    ends = [np.ascontiguousarray(end[:, shape.feature]) for end in (low, high)]
    margins = np.zeros((len(y), shape.scores.shape[1]))
    scores = sum_of_scores(shape.lmms, np.concatenate(ends))
    add_lowest_margins(*ends, scores, shape.points, shape.scores, y, margins)
    return margins


class WideTerm(NamedTuple):
    """Term over several features, with the values of its units at N rows.

    Attributes
    ----------
    lmm : LMM with m features, float64
    caps : array of shape (H,), upper bounds of the units for all inputs
    features : array of shape (m,), the indices of the features
    u : array of shape (N, m), the features of the term
    g : array of shape (N, H), min_i (W0[i]·u_p + W1[i, h])
    unit : array of shape (N,), the unit k of `term_margins`; empty if it is not used
    """

    lmm: LMM
    caps: NDArray
    features: NDArray
    u: NDArray
    g: NDArray
    unit: NDArray

    @classmethod
    def at(cls, lmm: LMM, caps: NDArray, features: NDArray, U: NDArray) -> WideTerm:
        """Return the term at mapped features U (N, P), with an empty ``unit``."""
        u = U.take(features, axis=1)
        return cls(lmm, caps, features, u, lmm.hidden(u), np.empty(0, np.int64))


def term_margins(
    lmm: LMM, caps: NDArray, low: NDArray, high: NDArray, y: NDArray, unit: NDArray | None = None
) -> NDArray:
    """Return lower bounds of z_y − z_d of an LMM for inputs between low and high, shape (N, C).

    If unit h determines z_d, then z_d = g_h + W2[h, d], and z_y is at least each of

    - max_k (min g_k + W2[k, y]), where g_h ≤ max g_h,
    - g_h + W2[h, y],
    - g_k + W2[k, y] for the given unit k, where g_k − g_h ≥ D_h: if row i attains the minimum of
      unit k, then g_k = λ_i + W1[i, k] ≥ min λ_i + W1[i, k], and g_h ≤ λ_i + W1[i, h], so that
      D_h = min_i (W1[i, k] + max(−W1[i, h], min λ_i − max g_h)).

    The bound is the minimum over h of the largest of the three. min g and max g are exact, as in
    `maxplus.certify.box_bounds`. For a fixed unit k, no bound increases with the box.
    ``unit`` (N,) is the unit k of each row; without it, the third bound is not used. The LMM is in
    float64, and ``caps`` (H,) are the `maxplus.certify.bounds.caps` of its units. O(N·(m + C)·H).
    """
    margins = np.zeros((len(y), lmm.n_classes))
    features = np.arange(lmm.n_features)
    low, high = low.take(features, axis=1), high.take(features, axis=1)
    term = WideTerm.at(lmm, caps, features, low)
    if unit is not None:
        term = term._replace(unit=unit)
    add_term_margins(term, np.arange(len(y)), low, high, y, False, margins)
    return margins


def add_term_margins(
    term: WideTerm,
    rows: NDArray,
    low: NDArray,
    high: NDArray,
    y: NDArray,
    only_lowest: bool,
    margins: NDArray,
) -> None:
    """Add `term_margins` of some rows of a term to margins (n, C).

    The boxes ``low`` to ``high``, of all mapped features (n, P), contain ``term.u[rows]``. In a
    box, the value of a unit exceeds that at ``term.u`` by at most max_i (max λ_i − W0[i]·u_p).
    Therefore most units can attain neither the maximum of class y nor the minimum of the margins,
    and are skipped. Margins of d = y do not change. With ``only_lowest``, all other margins of a
    row are set to their minimum.
    """
    if term.features.size < low.shape[1]:
        low, high = low.take(term.features, axis=1), high.take(term.features, axis=1)
    lmm, caps, _, *values = term
    arguments = (caps, *values, *lmm.weights, rows, low, high, y, only_lowest, margins)
    if len(y) * lmm.W1.size >= PARALLEL_FROM:
        _add_blocks(*arguments)
    else:
        _add_rows(*arguments, 0, len(y))


@njit(cache=True, parallel=True)
def _add_blocks(caps, u, g, unit, W0, W1T, W2T, rows, low, high, y, only_lowest, margins):
    """Run `_add_rows` in parallel on blocks of rows."""
    N = low.shape[0]
    for task in prange((N + ROWS_PER_TASK - 1) // ROWS_PER_TASK):
        first, end = task * ROWS_PER_TASK, min((task + 1) * ROWS_PER_TASK, N)
        _add_rows(
            caps, u, g, unit, W0, W1T, W2T, rows, low, high, y, only_lowest, margins, first, end
        )


@njit(cache=True)
def _add_rows(caps, u, g, unit, W0, W1T, W2T, rows, low, high, y, only_lowest, margins, begin, end):
    """Run `add_term_margins` on one thread; O((m + C)·H) for a row, often O(m + C·H)."""
    (C, H), size = W2T.shape, W0.size
    lowest, highest = np.empty(size), np.empty(size)
    top, difference, bound = np.empty(H), np.empty(H), np.empty(H)
    # For unit h, top is an upper bound of g_h, difference is a lower bound of z_y − g_h, and bound
    # is a lower bound of the margins if unit h determines z_d. Stage 0: top is the value at u plus
    # `rise`; 1: top is the exact maximum; 2: difference includes the comparison with `unit`.
    # lowest_y is a lower bound of z_y.
    stage = np.empty(H, np.int8)
    for n in range(begin, end):
        row, label, rise = rows[n], y[n], -np.inf
        heights = W2T[label]
        for i in range(size):
            a, b = W0[i] * low[n, i // 2], W0[i] * high[n, i // 2]
            lowest[i], highest[i] = min(a, b), max(a, b)
            rise = max(rise, highest[i] - W0[i] * u[row, i // 2])
        start = 0
        for h in range(H):
            if g[row, h] + heights[h] > g[row, start] + heights[start]:
                start = h
        lowest_y = minplus_cell(lowest, W1T[start]) + heights[start]
        for h in range(H):
            if g[row, h] + heights[h] > lowest_y and h != start:
                lowest_y = max(lowest_y, minplus_cell(lowest, W1T[h]) + heights[h])
        for h in range(H):
            top[h], stage[h] = min(g[row, h] + rise, caps[h]), 0
            difference[h] = max(lowest_y - top[h], heights[h])
        width = C if only_lowest else 1
        for first in range(0, C, width):
            for h in range(H):
                bound[h] = np.inf
            for d in range(first, first + width):
                if d != label:
                    for h in range(H):
                        bound[h] = fmin(bound[h], margins[n, d] + (difference[h] - W2T[d, h]))
            start, least = 0, np.inf
            for h in range(1, H):
                if bound[h] < bound[start]:
                    start = h
            for j in range(-1, H):
                h = start if j < 0 else j
                while bound[h] < least and stage[h] < 2:
                    if stage[h] == 0:
                        top[h] = min(minplus_cell(highest, W1T[h]), caps[h])
                        difference[h] = max(lowest_y - top[h], heights[h])
                    elif unit.size > 0:
                        k, lead = unit[row], np.inf
                        for i in range(size):
                            lead = fmin(lead, W1T[k, i] + fmax(-W1T[h, i], lowest[i] - top[h]))
                        difference[h] = max(difference[h], lead + heights[k])
                    stage[h] += 1
                    bound[h] = np.inf
                    for d in range(first, first + width):
                        if d != label:
                            bound[h] = min(bound[h], margins[n, d] + (difference[h] - W2T[d, h]))
                least = min(least, bound[h])
            for d in range(first, first + width):
                if d != label:
                    margins[n, d] = least


@njit(cache=True, nogil=True)
def add_lowest_margins(low, high, end_scores, points, scores, y, margins):
    """Add the minimum of z_y(u) − z_d(u) for low[n] ≤ u ≤ high[n] to each margins[n, d].

    ``end_scores`` are the scores at all low and then at all high, (2N, C); ``scores`` are those at
    the increasing ``points``, between which scores are linear in u. O(N·(log K + C)) for K points,
    and O(C) for each point inside an interval.
    """
    N, C = margins.shape
    for n in range(N):
        label = y[n]
        # Binary search for the first point above low[n]; np.searchsorted would take a third of a
        # second to compile.
        first, end = 0, points.size
        while first < end:
            middle = (first + end) // 2
            if points[middle] <= low[n]:
                first = middle + 1
            else:
                end = middle
        while end < points.size and points[end] < high[n]:
            end += 1
        for d in range(C):
            lowest = min(
                end_scores[n, label] - end_scores[n, d],
                end_scores[N + n, label] - end_scores[N + n, d],
            )
            for k in range(first, end):
                lowest = min(lowest, scores[k, label] - scores[k, d])
            margins[n, d] += lowest
