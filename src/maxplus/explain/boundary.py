"""Decision boundary along one feature, for sums of LMM terms over mapped features.

Along one feature, a unit of a term is a minimum of three linear functions of φ(x): its two linear
functions of that feature, and a constant, the minimum over the other features. A score of a term is
a maximum of units, terms without the feature are constants, and φ is piecewise linear. The scores
are therefore piecewise linear in x, and their first crossing is found piece by piece.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import prange
from numpy.typing import NDArray

from maxplus._compile.jit import frozen, njit
from maxplus._compile.references import referenced
from maxplus.certify.bounds import Magnitude
from maxplus.models.lmm import TermSum

EPS = float(np.finfo(np.float64).eps)
# Minimum number of (sample, weight) pairs for parallel execution, about a tenth of a second.
PARALLEL_FROM = 2_000_000
# Upper bound on the rounding error of a forward pass, in ulps of the scores.
ERROR_ULPS = 16


class FeatureBounds(NamedTuple):
    """Limits of the features, their units of distance, and the mask of features that may change."""

    low: np.ndarray  # (P,)
    high: np.ndarray  # (P,)
    unit: np.ndarray  # (P,)
    may_change: np.ndarray  # (P,) of bool, or (N, P) for N samples


class FlatTerms(NamedTuple):
    """Concatenated weights of T terms in float64, and the feature map.

    The features of term t are ``features[first_position[t] : first_position[t + 1]]``. Its units
    have the indices ``first_unit[t]`` to ``first_unit[t + 1] - 1``. Its offsets start at index
    ``first_offset[t]`` and are ordered by unit, then by feature. For each k from ``first_use[p]``
    to ``first_use[p + 1] - 1``, term ``used_term[k]`` contains feature p, which is the entry
    ``used_position[k]`` of ``features``. A feature without knots is not mapped.
    """

    first_position: np.ndarray  # (T + 1,)
    first_unit: np.ndarray  # (T + 1,)
    first_offset: np.ndarray  # (T + 1,)
    features: np.ndarray  # (positions,)
    slopes: np.ndarray  # (positions, 2)
    offsets: np.ndarray  # (pairs of a unit and a feature, 2)
    W2T: np.ndarray  # (C, units)
    intercept: np.ndarray  # (C,)
    first_use: np.ndarray  # (P + 1,)
    used_term: np.ndarray  # (positions,)
    used_position: np.ndarray  # (positions,)
    first_knot: np.ndarray  # (P + 1,)
    knots: np.ndarray  # (knots,)
    values: np.ndarray  # (knots,)
    map_slopes: np.ndarray  # (knots,), the slope of the segment that starts at each knot


@njit(cache=True)
def _segment(terms, p, x, sign):
    """Return φ_p(x), its slope just beyond x in a direction, and the end of the segment (or ±inf).

    The sign of the direction is 1.0 or −1.0. Numba would compile the function twice for literal
    bools.
    """
    is_rising = sign > 0.0
    first, last = terms.first_knot[p], terms.first_knot[p + 1] - 1
    if last < first:
        return x, 1.0, np.inf if is_rising else -np.inf
    if x < terms.knots[first] or (x == terms.knots[first] and not is_rising):
        return terms.values[first], 0.0, terms.knots[first] if is_rising else -np.inf
    if x > terms.knots[last] or (x == terms.knots[last] and is_rising):
        return terms.values[last], 0.0, np.inf if is_rising else terms.knots[last]
    low, high = first, last
    while high - low > 1:
        middle = (low + high) // 2
        if terms.knots[middle] < x or (terms.knots[middle] == x and is_rising):
            low = middle
        else:
            high = middle
    u = min(terms.values[low] + terms.map_slopes[low] * (x - terms.knots[low]), terms.values[high])
    return u, terms.map_slopes[low], terms.knots[high if is_rising else low]


@njit(cache=True)
def _two_lowest(u, terms, lowest, second, feature, scores):
    """Compute the two lowest values over the features of each unit, and the scores of terms.

    ``lowest`` is the minimum over all features, ``feature`` the feature that attains it, and
    ``second`` the minimum over the other features; ``scores`` has shape (T, C).
    O(Σ_t H_t·(m_t + C)).
    """
    for t in range(scores.shape[0]):
        begin, end = terms.first_position[t], terms.first_position[t + 1]
        pair = terms.first_offset[t]
        for d in range(scores.shape[1]):
            scores[t, d] = -np.inf
        for h in range(terms.first_unit[t], terms.first_unit[t + 1]):
            m1, m2, f = np.inf, np.inf, -1
            for k in range(begin, end):
                at = u[terms.features[k]]
                v = min(
                    terms.slopes[k, 0] * at + terms.offsets[pair, 0],
                    terms.slopes[k, 1] * at + terms.offsets[pair, 1],
                )
                if v < m1:
                    m1, m2, f = v, m1, terms.features[k]
                elif v < m2:
                    m2 = v
                pair += 1
            lowest[h], second[h], feature[h] = m1, m2, f
            for d in range(scores.shape[1]):
                scores[t, d] = max(scores[t, d], m1 + terms.W2T[d, h])


@njit(cache=True)
def _lowest_line(at, slopes):
    """Return the slope, the value at 0 and the end of the lowest of three lines just beyond 0.

    Line j has the value at[j] at 0. Among lines with the same value at 0, the one with the
    smallest slope is the lowest beyond 0. A line ends where it meets one with a smaller slope.
    """
    k = 0
    for j in range(1, 3):
        if at[j] < at[k] or (at[j] == at[k] and slopes[j] < slopes[k]):
            k = j
    while True:
        end, following = np.inf, k
        for j in range(3):
            if slopes[j] < slopes[k] and at[j] < np.inf:
                crossing = (at[j] - at[k]) / (slopes[k] - slopes[j])
                if crossing < end:
                    end, following = crossing, j
        if end > 0.0:
            return slopes[k], at[k], end
        k = following


@njit(cache=True)
def _highest_unit(g, rate, heights):
    """Return the highest unit just beyond 0, and a distance up to which no other unit is higher.

    Among units with the same value at 0, the one with the largest slope is the highest beyond 0.
    Units are concave, so they are never above their current line. Another unit can therefore be
    higher only after its current line has crossed that of the highest unit.
    """
    best, top = 0, g[0] + heights[0]
    for h in range(1, g.size):
        v = g[h] + heights[h]
        if v > top or (v == top and rate[h] > rate[best]):
            best, top = h, v
    end = np.inf
    for h in range(g.size):
        if rate[h] > rate[best]:
            end = min(end, (top - g[h] - heights[h]) / (rate[h] - rate[best]))
    return best, end


@njit(cache=True)
def _scores_along(terms, p, u, speed, lowest, second, feature, Z, S, g, rate, ends):
    """Add to Z and S the values and slopes, at φ_p = u, of the terms with feature p.

    x moves with dφ_p/dt = speed. Return the distance up to which slopes are constant. O(H·C) per
    term. The last three arrays are buffers with at least as many entries as a term has units.
    """
    end = np.inf
    for use in range(terms.first_use[p], terms.first_use[p + 1]):
        t, position = terms.used_term[use], terms.used_position[use]
        begin = terms.first_unit[t]
        H = terms.first_unit[t + 1] - begin
        m = terms.first_position[t + 1] - terms.first_position[t]
        pair = terms.first_offset[t] + position - terms.first_position[t]
        a, b = terms.slopes[position, 0], terms.slopes[position, 1]
        slopes = (speed * a, speed * b, 0.0)
        for h in range(H):
            rest = second[begin + h] if feature[begin + h] == p else lowest[begin + h]
            A = a * u + terms.offsets[pair + h * m, 0]
            B = b * u + terms.offsets[pair + h * m, 1]
            rate[h], g[h], ends[h] = _lowest_line((A, B, rest), slopes)
        for d in range(Z.size):
            h, piece_end = _highest_unit(g[:H], rate[:H], terms.W2T[d, begin : begin + H])
            end = min(end, piece_end, ends[h])
            Z[d] += g[h] + terms.W2T[d, begin + h]
            S[d] += rate[h]
    return end


@njit(cache=True)
def _first_crossing(Z, S, y, lead):
    """Return the smallest distance at which the margin of another class over y reaches ``lead``.

    Also return the smallest difference between ``lead`` and such a margin at distance 0.
    """
    first, gap = np.inf, np.inf
    for d in range(Z.size):
        if d == y:
            continue
        difference, rate = Z[y] + lead - Z[d], S[d] - S[y]
        gap = min(gap, difference)
        if rate > 0.0:
            first = min(first, max(0.0, difference / rate))
        elif difference < 0.0:
            first = 0.0
    return first, gap


@njit(cache=True)
def _first_change(terms, p, x, side, begin, limit, lowest, second, feature, constant, y, lead):
    """Return the least change of x_p in [begin, limit] at which a class leads y by ``lead``.

    x_p increases for side 0 and decreases for side 1. The change is infinite if no class reaches
    the lead. ``constant`` (C,) is the sum of the terms without feature p. A step ends where the
    slope of a score changes or a segment of φ ends, but not before the margin of another class can
    reach the lead. O(H·C) per step and term with the feature.
    """
    sign = 1.0 if side == 0 else -1.0
    steepest = 0.0
    for use in range(terms.first_use[p], terms.first_use[p + 1]):
        a, b = terms.slopes[terms.used_position[use], 0], terms.slopes[terms.used_position[use], 1]
        steepest += max(a, b, 0.0) - min(a, b, 0.0)
    Z, S = np.empty(constant.size), np.empty(constant.size)
    g, rate, ends = np.empty(lowest.size), np.empty(lowest.size), np.empty(lowest.size)
    at = x + sign * begin
    change = begin
    while change <= limit and change < np.inf and steepest > 0.0:
        start, rise, segment_end = _segment(terms, p, at, sign)
        length = sign * (segment_end - at)
        delta = 0.0
        while delta < length and change + delta <= limit:
            for d in range(Z.size):
                Z[d], S[d] = constant[d], 0.0
            u, speed = start + sign * rise * delta, sign * rise
            end = _scores_along(terms, p, u, speed, lowest, second, feature, Z, S, g, rate, ends)
            first, gap = _first_crossing(Z, S, y, lead)
            if first <= end and delta + first <= length and first < np.inf:
                return change + delta + first
            if rise * steepest == 0.0:
                break
            # The last argument is the shortest step that float64 resolves.
            delta += max(end, gap / (rise * steepest), EPS * (abs(u) / rise + abs(at) + delta))
        at = segment_end
        change = sign * (at - x)
    return np.inf


@njit(cache=True)
def _sample_changes(x, y, flat, bounds, only_nearest, lead, change):
    """Compute the least increase and decrease of each feature at which a class leads y by ``lead``.

    ``change`` has shape (P, 2) and is infinite where no change suffices. With ``only_nearest``,
    changes larger than the nearest one found so far, in units, are not considered. O(H·C) per step,
    feature, and term that contains it.
    """
    terms = referenced(flat)
    T, C, H = terms.first_unit.size - 1, terms.intercept.size, terms.W2T.shape[1]
    lowest, second, feature = np.empty(H), np.empty(H), np.empty(H, np.int64)
    scores, u = np.empty((T, C)), np.empty(x.size)
    for p in range(x.size):
        u[p] = _segment(terms, p, x[p], 1.0)[0]
    _two_lowest(u, terms, lowest, second, feature, scores)
    constant = np.empty(C)
    nearest = np.inf
    for p in range(x.size):
        change[p, 0] = change[p, 1] = np.inf
        if not bounds.may_change[p] or terms.first_use[p] == terms.first_use[p + 1]:
            continue
        # Loops, because Numba takes a second to compile the assignment of an array to a slice.
        for d in range(C):
            constant[d] = terms.intercept[d]
        use = terms.first_use[p]
        for t in range(T):
            if use < terms.first_use[p + 1] and terms.used_term[use] == t:
                use += 1
            else:
                for d in range(C):
                    constant[d] += scores[t, d]
        for side in range(2):
            # The smallest change, which is > 0 if x is outside of its limits, and the largest.
            begin, end = max(0.0, bounds.low[p] - x[p]), bounds.high[p] - x[p]
            if side == 1:
                begin, end = max(0.0, x[p] - bounds.high[p]), x[p] - bounds.low[p]
            limit = min(end, nearest * bounds.unit[p]) if only_nearest else end
            delta = _first_change(
                terms, p, x[p], side, begin, limit, lowest, second, feature, constant, y, lead
            )
            if delta <= end:
                change[p, side] = delta
                nearest = min(nearest, delta / bounds.unit[p])


@njit(cache=True, parallel=True)
def _changes(X, y, terms, low, high, unit, may_change, only_nearest, lead, change):
    """Run `_sample_changes` for each sample.

    ``change`` has shape (N, P, 2), and ``may_change`` has shape (N, P).
    """
    for n in prange(X.shape[0]):
        bounds = FeatureBounds(low, high, unit, may_change[n])
        _sample_changes(X[n], y[n], terms, bounds, only_nearest, lead, change[n])


class DecisionBoundary:
    """The decision boundary of a model along single features, exact up to rounding in float64."""

    def __init__(self, model: TermSum) -> None:
        self.model = model
        self.terms = flat_terms(model)
        self._magnitude = Magnitude(model)

    def nearest(self, X: NDArray, y: NDArray, bounds: FeatureBounds) -> tuple[NDArray, NDArray]:
        """Return the change of one feature, smallest in units, that changes each prediction.

        The result is the feature and its signed change in raw units. The feature is −1 for samples
        without such a change. In sample n, only the features ``bounds.may_change[n]`` may change.
        """
        changes = self._changes(X, y, bounds, 0.0, True)
        distance = (changes / bounds.unit[:, None]).reshape(len(X), 2 * X.shape[1])
        p, side = np.divmod(distance.argmin(axis=1), 2)
        change = changes[np.arange(len(X)), p, side]
        return np.where(change < np.inf, p, -1), np.where(side == 0, change, -change)

    def along(
        self,
        x: NDArray,
        y: int,
        bounds: FeatureBounds,
        lead: float = 0.0,
        *,
        only_nearest: bool = False,
    ) -> NDArray:
        """Return the least increase and decrease of each feature at which a class leads y.

        The array has shape (P, 2) and is infinite where no class leads by ``lead`` within the
        bounds. With ``only_nearest``, entries above the smallest one, in units, may be infinite as
        well.
        """
        bounds = bounds._replace(may_change=bounds.may_change[None])
        return self._changes(x[None], np.array([y]), bounds, lead, only_nearest)[0]

    def _changes(
        self, X: NDArray, y: NDArray, bounds: FeatureBounds, lead: float, only_nearest: bool
    ) -> NDArray:
        change = np.empty((*X.shape, 2))
        is_large = len(X) * self.terms.offsets.size >= PARALLEL_FROM
        kernel = _changes if is_large and len(X) > 1 else _changes.serial
        # Read-only arrays only, because Numba compiles kernels again for writeable ones.
        kernel(frozen(X), frozen(y), self.terms, *map(frozen, bounds), only_nearest, lead, change)
        return change

    def score_ulp(self, x: NDArray) -> float:
        """Return an ulp of the scores at x: machine epsilon times the largest summed magnitude."""
        model, size = self.model, np.abs(x)
        if model.feature_map is not None:
            size = np.array([self._largest_value(p, size[p]) for p in range(x.size)])
        largest = float(self._magnitude(size[None], size[None])[0])
        # A score is a sum of T numbers, each of which may be rounded.
        return float(np.finfo(model.dtype).eps) * largest * (1.0 + len(model.terms) / ERROR_ULPS)

    def _largest_value(self, p: int, size: float) -> float:
        """Return the largest |φ_p|, plus its largest slope times |x_p|, for the rounding of x_p."""
        part = slice(*self.terms.first_knot[p : p + 2])
        inside = min(size, float(np.abs(self.terms.knots[part]).max()))
        return float(
            np.abs(self.terms.values[part]).max() + self.terms.map_slopes[part].max() * inside
        )

    def steepest(self, p: int, value: float) -> float:
        """Return a bound of the slopes of scores along feature p near a value; inf if all are 0."""
        rise = 1.0
        if self.model.feature_map is not None:
            part = slice(*self.terms.first_knot[p : p + 2])
            k = int(np.searchsorted(self.terms.knots[part], value))
            rise = float(self.terms.map_slopes[part][max(0, k - 1) : k + 1].max(initial=0.0))
        steepest = rise * float(self._magnitude.steep[self.terms.features == p].sum())
        return steepest if steepest > 0.0 else np.inf


def flat_terms(model: TermSum) -> FlatTerms:
    """Return the weights of all terms in the layout of the kernels."""
    lmms = [term.lmm.astype(np.float64) for term in model.terms]
    n_features = [term.features.size for term in model.terms]
    features = np.concatenate([term.features for term in model.terms])
    order = np.argsort(features, kind="stable")
    feature_map, empty = model.feature_map, np.empty(0)
    return FlatTerms(
        first_position=_starts(n_features),
        first_unit=_starts([lmm.n_hidden for lmm in lmms]),
        first_offset=_starts([lmm.n_hidden * lmm.n_features for lmm in lmms]),
        features=features,
        slopes=np.concatenate([lmm.slopes for lmm in lmms]),
        offsets=np.concatenate([lmm.offsets.reshape(-1, 2) for lmm in lmms]),
        W2T=np.ascontiguousarray(np.concatenate([lmm.W2 for lmm in lmms]).T),
        intercept=model.intercept.astype(np.float64),
        first_use=_starts(np.bincount(features, minlength=model.n_features)),
        used_term=np.repeat(np.arange(len(lmms)), n_features)[order],
        used_position=order,
        first_knot=_starts([0] * model.n_features) if feature_map is None else feature_map.starts,
        knots=empty if feature_map is None else feature_map.x,
        values=empty if feature_map is None else feature_map.u,
        map_slopes=empty if feature_map is None else feature_map.slopes,
    )


def _starts(sizes: list[int] | NDArray) -> NDArray:
    """Return the start of each group in an array of concatenated groups, and the total size."""
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
