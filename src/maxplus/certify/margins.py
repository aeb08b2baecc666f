"""Lower bounds of the margins between classes over boxes of inputs."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
from numba import prange
from numpy.typing import NDArray

from maxplus._compile.intrinsics import fmax, fmin
from maxplus._compile.jit import frozen, njit
from maxplus.algebra._kernels import PARALLEL_FROM, ROWS_PER_TASK, minplus_rows
from maxplus.certify.bounds import Magnitude, caps, mapped_box
from maxplus.models import LMM
from maxplus.models.additive import breakpoints
from maxplus.models.lmm import TermSum

# Terms with more entries of W1 are bounded without relating units to each other.
LARGE_TERM = 20_000
# Numbers in the rows that are bounded together: 32 MB.
VALUES_AT_ONCE = 4_000_000


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


class Margins:
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
    model : LMM or AdditiveLMM
    X : array of shape (N, P), float64
    y : array of shape (N,)
        The class of each row whose margin is bounded.
    scale : array of shape (P,), >= 0
        How far each feature may move for eps = 1.
    """

    def __init__(self, model: TermSum, X: NDArray, y: NDArray, scale: NDArray) -> None:
        self.model, self.X, self.y = model, X, y
        self._magnitude = Magnitude(model)
        self.scale = self._magnitude.moving(scale)

    @cached_property
    def exact(self) -> TermSum:
        """The model in float64."""
        return self.model.astype(np.float64)

    @cached_property
    def _shapes(self) -> list[Shape]:
        return shapes_of(self.exact)

    @cached_property
    def _others(self) -> list[tuple[NDArray, LMM, NDArray, NDArray | None]]:
        """Features, network and caps of each other term, and the unit that gives a row its z_y."""
        U, own = self.exact.mapped(self.X), (np.arange(len(self.X)), self.y)
        found = []
        for features, lmm in self.exact.terms:
            if features.size > 1:
                is_large = lmm.W1.size > LARGE_TERM
                unit = None if is_large else lmm.active_path(U[:, features]).unit[own]
                found.append((features, lmm, caps(lmm), unit))
        return found

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
        step = max(1, VALUES_AT_ONCE // self.model.n_features)
        margin, rounding = np.empty(len(rows)), np.empty(len(rows))
        for lo in range(0, len(rows), step):
            some = slice(lo, lo + step)
            margin[some], rounding[some] = self._lowest(rows[some], eps[some])
        return LowestMargins(margin, rounding)

    def _lowest(self, rows: NDArray, eps: NDArray) -> tuple[NDArray, NDArray]:
        y, b = self.y[rows], self.exact.intercept
        with np.errstate(all="ignore"):
            low, high = mapped_box(self.model, self.X[rows], eps, self.scale)
            # Without numbers for all features there is no bound.
            unknown = ~np.isfinite(low + high).all(axis=1)
            low[unknown] = high[unknown] = 0.0
            margins = b[y][:, None] - b
            for shape in self._shapes:
                margins += shape_margins(shape, low, high, y)
            for features, lmm, cap, unit in self._others:
                own = slice(None) if features.size == low.shape[1] else features
                ends = low[:, own], high[:, own]
                margins += term_margins(lmm, cap, *ends, y, None if unit is None else unit[rows])
            margins[np.arange(len(y)), y] = np.inf
            margins[unknown] = -np.inf
            return margins.min(axis=1), self.rounding(low, high)

    def rounding(self, low: NDArray, high: NDArray) -> NDArray:
        """Return the most by which margins, the differences of two scores, can be off."""
        return 2.0 * self._magnitude.rounding(low, high)

    def gap(self, rows: NDArray, eps: NDArray) -> NDArray:
        """Return the lowest margins of some rows, less rounding; −inf if unknown."""
        return self.lowest(rows, eps).gap

    def is_far_ahead(self, lead: NDArray, eps: NDArray) -> NDArray:
        """Return whether leads of class y are so large that the gap for eps is certainly above 0.

        The gap is at least the lead, less 2·slope·eps and rounding: that of the scores that the
        lead was computed from, and that of the gap. Not of mapped features, which rounding can
        move by more. O(N·Σ_t m_t).
        """
        if self.model.feature_map is not None:
            return np.zeros(len(lead), bool)
        with np.errstate(all="ignore"):
            rounding = self.rounding(*mapped_box(self.model, self.X, eps, self.scale))
            return lead > 2.0 * eps * self.slope + 4.0 * rounding

    def sign(self, rows: NDArray, eps: NDArray, tolerance: float) -> NDArray:
        """Return the sign of the gaps of rows for eps·(1 + tolerance), 0 where it is too small."""
        at = self.lowest(rows, eps)
        with np.errstate(over="ignore"):
            beyond = self.lowest(rows, (1.0 + 2.0 * tolerance) * eps)
        return np.where(beyond.gap > beyond.rounding, 1, np.where(at.gap < -at.rounding, -1, 0))

    def is_bounded(self) -> NDArray:
        """Return whether the gap of each row is lost for some eps; always without a map."""
        every = np.arange(len(self.X))
        if self.model.feature_map is None:
            return np.ones(every.size, bool)
        return ~(self.gap(every, np.full(every.size, np.inf)) > 0.0)


def shapes_of(exact: TermSum) -> list[Shape]:
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


def shape_margins(shape: Shape, low: NDArray, high: NDArray, y: NDArray) -> NDArray:
    """Return the lowest margins z_y − z_d of the terms over one feature, (N, C); exact.

    ``low`` and ``high`` are the ends of all mapped features, (N, P).
    """
    ends = [np.ascontiguousarray(end[:, shape.feature]) for end in (low, high)]
    margins = np.zeros((len(y), shape.scores.shape[1]))
    scores = sum_of_scores(shape.lmms, np.concatenate(ends))
    add_lowest_margins(*ends, scores, shape.points, shape.scores, y, margins)
    return margins


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
    if unit is None:
        unit = np.empty(0, np.int64)
    margins = np.empty((len(y), lmm.n_classes))
    is_large = len(y) * lmm.W1.size >= PARALLEL_FROM
    kernel = _term_margins if is_large else _term_margins.serial
    # Read-only arrays, so that kernels compile once.
    arrays = map(frozen, (low, high, cap, y, unit))
    kernel(*arrays, lmm.weights, margins)
    return margins


@njit(cache=True, parallel=True)
def _term_margins(low, high, cap, y, unit, weights, margins):
    """Fill margins (N, C), see `term_margins`; no units are related if ``unit`` is empty."""
    N = low.shape[0]
    for task in prange((N + ROWS_PER_TASK - 1) // ROWS_PER_TASK):
        lo = task * ROWS_PER_TASK
        hi = min(lo + ROWS_PER_TASK, N)
        _term_margins_rows(low, high, cap, y, unit, weights, lo, hi, margins)


@njit(cache=True)
def _term_margins_rows(low, high, cap, y, unit, weights, lo, hi, margins):
    """`_term_margins` of the rows lo to hi on one thread; O((hi − lo)·(m + C)·H)."""
    W0, W1T, W2T = weights
    n, H, rows = hi - lo, cap.size, W0.size
    lowest, highest = np.empty((n, rows)), np.empty((n, rows))
    bottom, top = np.empty((n, H)), np.empty((n, H))
    for r in range(n):
        for i in range(rows):
            a, b = W0[i] * low[lo + r, i // 2], W0[i] * high[lo + r, i // 2]
            lowest[r, i], highest[r, i] = min(a, b), max(a, b)
    minplus_rows(lowest, W1T, bottom)
    minplus_rows(highest, W1T, top)
    for r in range(n):
        heights, least = W2T[y[lo + r]], margins[lo + r]
        own = -np.inf
        for h in range(H):
            own = max(own, bottom[r, h] + heights[h])
        for d in range(least.size):
            least[d] = np.inf
        for h in range(H):
            g = min(top[r, h], cap[h])
            ahead = max(own - g, heights[h])
            is_least = False
            for d in range(least.size):
                is_least |= ahead - W2T[d, h] < least[d]
            if not is_least:
                continue
            if unit.size > 0:
                k, lead = unit[lo + r], np.inf
                for i in range(rows):
                    lead = fmin(lead, W1T[k, i] + fmax(-W1T[h, i], lowest[r, i] - g))
                ahead = max(ahead, lead + heights[k])
            for d in range(least.size):
                least[d] = min(least[d], ahead - W2T[d, h])


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
