"""Boxes in raw units in which a class provably has the highest score, and their conditions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from maxplus.certify.bounds import Magnitude, caps
from maxplus.certify.margins import shape_margins, shape_terms, sum_of_scores, term_margins
from maxplus.explain.domain import Domain, OneHotGroup, roundings
from maxplus.explain.units import unit_boxes
from maxplus.models import LMM
from maxplus.models.feature_map import DEVIATION
from maxplus.models.lmm import TermSum

# Maximum rounding of the limit of a condition, relative to the unit of the column.
RESOLUTION = 0.01
# Number of bisection steps for the level of a unit's box.
BISECTIONS = 60
# Minimum margin of the class of a unit's box, in ulps of the weights.
MARGIN_ULPS = 8.0
# Maximum number of conditions of a rule, and the cost of a condition. The other cost of a cut is
# −log of the fraction of samples that remain.
MAX_CONDITIONS, CONDITION_COST = 10, 0.1
# Numbers of further boxes of each class: boxes without conditions on one of the columns of the
# first box, and boxes around centres of units.
N_VARIANTS, N_CENTRES = 2, 2
# Maximum number of columns that are cut, size of their grids, and numbers of grid steps of a cut.
MAX_COLUMNS, N_GRID, CUTS = 40, 13, (1, 2, 4)
# Maximum number of columns that are cut in one step, and minimum ratio of gain to cost of a cut,
# relative to that of the best cut.
MAX_CUTS, MIN_RATE = 3, 0.6
# Number of values that are tried in each refinement of a limit, and number of refinements.
N_STEPS, N_ROUNDS = 17, 3
# Range of the tried limits of a feature without limits in the domain, on each side, in its units.
REACH = 4.0


class Condition(NamedTuple):
    """The condition low ≤ value ≤ high of a feature, and its text."""

    feature: int
    low: float
    high: float
    text: str

    def holds(self, X: NDArray) -> NDArray:
        """Return the mask of samples that meet the condition, (N,)."""
        values = X[:, self.feature]
        return (self.low <= values) & (values <= self.high)


def box_conditions(domain: Domain, low: NDArray, high: NDArray) -> tuple[Condition, ...]:
    """Return a condition for each feature with limits inside the domain, in order.

    Limits are rounded inwards. Conditions that are implied by others are omitted.
    """
    conditions = []
    for p in range(domain.n_features):
        floor = low[p] if low[p] > domain.low[p] else -np.inf
        ceiling = high[p] if high[p] < domain.high[p] else np.inf
        if floor > -np.inf or ceiling < np.inf:
            floor = _round_inwards(domain, p, floor, False)
            ceiling = _round_inwards(domain, p, ceiling, True)
            text = _condition_text(domain, p, floor, ceiling)
            conditions.append(Condition(p, floor, ceiling, text))
    # "colour is 'red'" implies "colour is not 'blue'".
    chosen = {domain.category_of[c.feature] for c in conditions if c.low > -np.inf} - {-1}
    return tuple(
        c for c in conditions if c.low > -np.inf or domain.category_of[c.feature] not in chosen
    )


def _round_inwards(domain: Domain, p: int, limit: float, is_ceiling: bool) -> float:
    """Round a limit inwards, to an allowed value or to fewer digits within RESOLUTION."""
    if np.isinf(limit):
        return limit
    sign = -1.0 if is_ceiling else 1.0
    possible = domain.values.get(p, (0.0, 1.0) if domain.category_of[p] >= 0 else ())
    inside = [sign * v for v in possible if sign * v >= sign * limit]
    if inside:
        return sign * float(min(inside))
    if domain.is_integer[p]:
        limit = sign * float(np.ceil(sign * limit))
    most = RESOLUTION * float(domain.unit[p])
    return next(v for v in roundings(limit, not is_ceiling) if abs(v - limit) <= most)


def _condition_text(domain: Domain, p: int, low: float, high: float) -> str:
    name = domain.names[p]
    if domain.category_of[p] >= 0:
        category = domain.categories[domain.category_of[p]]
        value = str(category.values[category.features.index(p)])
        return f"{category.name} is {'not ' if low == -np.inf else ''}{value!r}"
    if p in domain.indicators.values():
        return f"{domain.column_names[p]} is {'not ' if low == -np.inf else ''}missing"
    possible = [v for v in domain.values.get(p, (low, high)) if low <= v <= high]
    if len(set(possible)) == 1:
        return f"{name} = {domain.number(p, possible[0])}"
    if high == np.inf:
        return f"{name} ≥ {domain.number(p, low)}"
    if low == -np.inf:
        return f"{name} ≤ {domain.number(p, high)}"
    return f"{domain.number(p, low)} ≤ {name} ≤ {domain.number(p, high)}"


# A box in which a class has the highest score: the index of its unit or of the box, the class, its
# conditions, and the number of samples whose predicted class the unit determines. The conditions
# are None if there is no such box. The number of samples is None for sums of terms.
RuleBox: TypeAlias = tuple[int, int, tuple[Condition, ...] | None, int | None]


def rule_boxes(model: TermSum, X: NDArray, domain: Domain) -> Iterator[RuleBox]:
    """Yield boxes in which a class has the highest score, for all values in the domain.

    *Single networks.* The result is the largest such box of each unit, sorted by the number of
    samples whose predicted class the unit determines. Units without such samples, and units whose
    class has the highest score everywhere, have no box. O(N·P·H), and O(P·H) for each step of a
    bisection.

    *Sums of terms.* A box starts as the whole domain. It is cut along the columns where a cut
    raises the smallest margins of the class most in relation to the fraction of samples that it
    removes, until the smallest margin over the box, which `maxplus.certify.margins` bounds from
    below, is positive. Then unnecessary limits are dropped, and the others are moved outwards as
    long as the margin is positive, such that each column uses an equal part of it. The distribution
    of a feature is derived from the feature map. Without a map, it is assumed to be uniform. Limits
    are rounded inwards, and the bound is verified for the rounded box. Boxes with more than ten
    conditions and subsets of other boxes are omitted. X is not used. O(P·Σ_t m_t·H_t) for each cut.
    """
    if not model.is_sum:
        yield from _unit_rule_boxes(model.terms[0].lmm, X, domain)
        return
    search, k = _BoxSearch(model, domain), 0
    for label in range(model.n_classes):
        # Conditions and limits of boxes of this class that are not subsets of others.
        kept: list[tuple[tuple[Condition, ...], NDArray, NDArray]] = []
        for box in search.boxes(label):
            new = search.round_box(box)
            if new is not None and not any(_contains(old, new) for old in kept):
                kept = [old for old in kept if not _contains(new, old)] + [new]
        for conditions, *_ in kept:
            yield k, label, conditions, None
            k += 1


def _contains(box: tuple, other: tuple) -> bool:
    """Return whether a box (conditions, low, high) contains another one."""
    return bool((box[1] <= other[1]).all() and (box[2] >= other[2]).all())


def _unit_rule_boxes(model: LMM, X: NDArray, domain: Domain) -> Iterator[RuleBox]:
    """Yield the boxes of a single network."""
    predicted = model.scores(X).argmax(axis=1)
    active = model.active_path(X).unit[np.arange(len(X)), predicted]
    n_decided = np.bincount(active, minlength=model.n_hidden)
    exact = model.astype(np.float64)
    margin = MARGIN_ULPS * float(np.finfo(model.dtype).eps)
    margin *= float(np.abs(exact.W1).max() + np.abs(exact.W2).max())
    for unit in np.argsort(-n_decided, kind="stable")[: np.count_nonzero(n_decided)].tolist():
        box = _unit_box(exact, unit, domain, margin)
        conditions = None if box is None else box_conditions(domain, *box)
        if conditions != ():
            label = int(exact.W2[unit].argmax())
            yield unit, label, conditions, int(n_decided[unit])


def _unit_box(
    model: LMM, unit: int, domain: Domain, margin: float
) -> tuple[NDArray, NDArray] | None:
    """Return the limits of the largest box of a unit in which its class leads by a margin, or None.

    The box {g_h(x) ≥ t} shrinks with the level t, and the highest scores of other classes in it
    decrease. The smallest level at which the class leads is found by bisection; O(P·H) per step.
    """
    d = int(model.W2[unit].argmax())
    others = np.delete(model.W2, d, axis=1).max(axis=1, initial=-np.inf)
    own = model.W2[unit, d] - margin
    # Rows of W0 that need no limit, because the class leads wherever one of them is the minimum.
    is_ahead = (model.W1 + others).max(axis=1) < model.W1[:, unit] + own
    cap = caps(model)
    offsets = np.where(is_ahead, np.inf, model.W1[:, unit])
    limited = LMM(model.W0, offsets[:, None], model.W2[[unit]])

    def box_at(t: float) -> tuple[NDArray, NDArray]:
        """Return the part of the domain in which the rows of W0 with limits are at least t."""
        with np.errstate(over="ignore"):
            low, high, *_ = unit_boxes(limited, t)
        return np.maximum(domain.low, low[0]), np.minimum(domain.high, high[0])

    def is_leading(t: float) -> bool:
        """Return whether the class leads in the box of level t, or the box is empty."""
        box = box_at(t)
        if (box[0] > box[1]).any():
            return True
        with np.errstate(invalid="ignore", over="ignore"):
            # 0 · inf would be NaN.
            ends = [np.where(model.slopes == 0.0, 0.0, model.slopes * end[:, None]) for end in box]
        highest = (model.offsets + np.maximum(*ends)).min(axis=(1, 2))
        return bool((np.minimum(highest, cap) + others).max() < t + own)

    # Bracket the level by doubling steps in both directions.
    low = high = float(model.W1[~is_ahead, unit].min(initial=0.0))
    step = max(1.0, abs(low))
    while not is_leading(high):
        high, step = high + step, 2.0 * step
        if not np.isfinite(high):
            return None
    step = max(1.0, abs(high))
    while is_leading(low):
        low, step = low - step, 2.0 * step
        if not np.isfinite(low):
            return domain.low, domain.high
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if is_leading(middle) else (middle, high)
    box = box_at(high)
    return None if (box[0] > box[1]).any() else box


class _Boxes(NamedTuple):
    """Limits (n, P) in raw units, the class, and lower bounds of its margins, (n, C)."""

    low: NDArray
    high: NDArray
    label: int
    margins: NDArray

    @property
    def gaps(self) -> NDArray:
        """Lower bounds of the smallest margin over any other class, (n,)."""
        return self.margins.min(axis=1)

    @property
    def gap(self) -> float:
        """Lower bound of the smallest margin over any other class, for a single box."""
        return float(self.gaps[0])

    @property
    def shortfall(self) -> NDArray:
        """Sum of the magnitudes of negative margins, (n,)."""
        return -np.minimum(self.margins, 0.0).sum(axis=1)


class _BoxSearch:
    """Search for boxes in which a class has the highest score, for a sum of terms.

    Columns are identified by their first features; an indicator is a separate column.
    """

    def __init__(self, model: TermSum, domain: Domain) -> None:
        self.model, self.domain = model, domain
        self.exact = model.astype(np.float64)
        self.low, self.high = domain.low.astype(np.float64), domain.high.astype(np.float64)
        self.features_of = {
            p: np.array([p]) for p in np.flatnonzero(domain.category_of < 0).tolist()
        }
        column_of = np.arange(domain.n_features)
        for category in domain.categories:
            features = np.sort(category.features)
            self.features_of[int(features[0])], column_of[features] = features, features[0]
            self.low[features], self.high[features] = 0.0, (self.high[features] >= 1.0) * 1.0
        in_terms = np.concatenate([term.features for term in model.terms])
        self.used = np.unique(column_of[in_terms]).tolist()
        self._in_terms = np.concatenate([self.features_of[c] for c in self.used])
        self._magnitude = Magnitude(model)
        self.grids = {c: self._grid(c) for c in self.used}
        # Terms over one numeric feature, over one category, and over several features.
        shapes = {shape.feature: shape for shape in shape_terms(self.exact)}
        self._shapes = [s for p, s in shapes.items() if domain.category_of[p] < 0]
        self._tables = []
        for category in domain.categories:
            own = [shapes[p] for p in category.features if p in shapes]
            if own:
                # The scores of each category and, in the last row, of no category.
                rows = np.zeros((len(category.values) + 1, domain.n_features))
                rows[np.arange(len(category.values)), list(category.features)] = 1.0
                U = model.mapped(rows).astype(np.float64)
                table = np.sum([sum_of_scores(s.lmms, U[:, s.feature]) for s in own], axis=0)
                self._tables.append((category, table))
        self._joint_terms = [
            (features, lmm, caps(lmm)) for features, lmm in self.exact.terms if features.size > 1
        ]

    def _boxes(self, low: NDArray, high: NDArray, label: int) -> _Boxes:
        """Return boxes with limits (n, P) and lower bounds of the margins of a class."""
        y, b = np.full(len(low), label), self.exact.intercept
        with np.errstate(all="ignore"):
            bottom = np.minimum(self.exact.mapped(low), self.model.mapped(low))
            top = np.maximum(self.exact.mapped(high), self.model.mapped(high))
            is_known = np.isfinite(bottom + top)[:, self._in_terms].all(axis=1)
            bottom, top = (np.where(np.isfinite(end), end, 0.0) for end in (bottom, top))
            total = np.zeros((len(low), self.model.n_classes))
            for shape in self._shapes:
                total += shape_margins(shape, bottom, top, y)
            for category, table in self._tables:
                total += _category_margins(category, table, low, high, y)
            for features, lmm, cap in self._joint_terms:
                total += term_margins(lmm, cap, bottom[:, features], top[:, features], y)
            rounding = 2.0 * self._magnitude.rounding(self._magnitude(bottom, top))
            margins = b[label] - b + total - rounding[:, None]
        margins[:, label] = np.inf
        margins = np.where(is_known[:, None] & ~np.isnan(margins), margins, -np.inf)
        return _Boxes(low, high, label, margins)

    def _grid(self, column: int) -> tuple[NDArray, NDArray, NDArray]:
        """Return values for cuts of a column, and fractions of samples below and up to each.

        The fractions are estimates, as in `rule_boxes`. For a categorical column, the last array
        contains the fractions of its values, and the others are empty.
        """
        domain, feature_map = self.domain, self.model.feature_map
        if domain.category_of[column] >= 0:
            features = self.features_of[column]
            share = np.full(len(features), 1.0 / len(features))
            if feature_map is not None:
                # Mapped features have mean 0: share·one + (1 − share)·zero = 0.
                zero, one = (feature_map(np.full((1, len(self.low)), v))[0] for v in (0.0, 1.0))
                rise = (one - zero)[features]
                share = np.where(rise > 0.0, -zero[features] / np.maximum(rise, 1e-300), 0.0)
            share = np.clip(share, 1e-3, 1.0) * (self.high[features] > 0.0)
            return np.empty(0), np.empty(0), share
        low, high = self.low[column], self.high[column]
        if column in domain.values:
            x = np.asarray(domain.values[column], np.float64)
            return x, np.arange(x.size) / x.size, np.arange(1.0, x.size + 1.0) / x.size
        if feature_map is not None:
            knots, values = feature_map.knots(column)
            share = np.linspace(0.0, 1.0, N_GRID)
            inside = np.clip(DEVIATION * ndtri(share[1:-1]), values[0], values[-1])
            x = np.concatenate([[low], feature_map.inverse(column, inside), [high]])
            x = np.unique(np.clip(np.nan_to_num(x, neginf=knots[0], posinf=knots[-1]), low, high))
            samples = np.zeros((x.size, domain.n_features))
            samples[:, column] = x
            share = ndtr(feature_map(samples)[:, column] / DEVIATION)
        else:
            reach = REACH * float(domain.unit[column])
            centre = float(np.clip(0.0, low, high))
            x = np.linspace(max(low, centre - reach), min(high, centre + reach), N_GRID)
            share = np.linspace(0.0, 1.0, N_GRID)
        x[0], x[-1] = low, high
        share[0], share[-1] = 0.0, 1.0
        return x, share, share

    def boxes(self, label: int) -> Iterator[_Boxes]:
        """Yield boxes of a class.

        After the first box, these are boxes without conditions on one of its columns, and boxes
        around centres of units.
        """
        domain = self._boxes(self.low[None], self.high[None], label)
        columns = self._columns_by_gain(domain)
        first, limited = self._cut(domain, columns)
        others = [
            self._cut(domain, [c for c in columns if c != column])[0]
            for column in limited[:N_VARIANTS]
        ]
        centred = [self._cut(domain, columns, point)[0] for point in self._unit_centres(label)]
        yield from (box for box in (first, *others, *centred) if box is not None)

    def _columns_by_gain(self, box: _Boxes) -> list[int]:
        """Return the columns whose cuts raise margins most, at most MAX_COLUMNS."""
        boxes, columns, _ = self._possible_cuts(box, self.used)
        gains = np.zeros(len(self.low))
        np.maximum.at(gains, columns, box.shortfall - boxes.shortfall)
        return sorted(self.used, key=lambda c: -gains[c])[:MAX_COLUMNS]

    def _unit_centres(self, label: int) -> list[NDArray]:
        """Return centres of units whose largest output weight is that of a class.

        At most N_CENTRES units of terms over more than two features are returned, by decreasing
        margin. Values are NaN for categories, and for features without a wall on both sides.
        """
        middle = np.clip(np.zeros(len(self.low)), self.low, self.high)
        feature_map = self.model.feature_map
        points = []
        for features, lmm in self.exact.terms:
            if features.size > 2:
                units = unit_boxes(lmm)
                centre = np.full((lmm.n_hidden, len(middle)), np.nan)
                for k, p in enumerate(features.tolist()):
                    if self.domain.category_of[p] < 0:
                        u = units.centre[:, k]
                        x = u if feature_map is None else feature_map.inverse(p, u)
                        centre[:, p] = np.clip(x, self.low[p], self.high[p])
                points += list(centre[units.label == label])
        if not points:
            return []
        filled = np.where(np.isfinite(points), points, middle)
        gaps = self._boxes(filled, filled, label).gaps
        return [points[k] for k in np.argsort(-gaps, kind="stable")[:N_CENTRES]]

    def _cut(
        self, box: _Boxes, columns: list[int], point: NDArray | None = None
    ) -> tuple[_Boxes | None, list[int]]:
        """Cut a box until its class has the highest score; also return its limited columns.

        With ``point``, the box contains this point. The result is (None, []) if no box is found.
        """
        limited: list[int] = []
        while not box.gap > 0.0:
            allowed = columns if len(limited) < MAX_CONDITIONS else limited
            boxes, which, costs = self._possible_cuts(box, allowed, point)
            gain = box.shortfall - boxes.shortfall
            rates = gain / (costs + 1e-3 + CONDITION_COST * ~np.isin(which, limited))
            if not (rates > 0.0).any():
                return None, []
            # Apply the best cut, and cuts of other columns whose rates are close to the best.
            low, high = box.low.copy(), box.high.copy()
            changed: list[int] = []
            for k in np.argsort(-rates, kind="stable"):
                column = int(which[k])
                if len(changed) == MAX_CUTS or rates[k] < MIN_RATE * rates.max():
                    break
                if column not in changed:
                    own = self.features_of[column]
                    low[0, own], high[0, own] = boxes.low[k, own], boxes.high[k, own]
                    changed.append(column)
            box = self._boxes(low, high, box.label)
            limited += [column for column in changed if column not in limited]
        box, limited = self._drop_limits(box, limited)
        return self._widen(box, limited), limited

    def _possible_cuts(
        self, box: _Boxes, columns: list[int], point: NDArray | None = None
    ) -> tuple[_Boxes, NDArray, NDArray]:
        """Return all boxes with narrower limits of one column.

        Also return their columns, and −log of the fractions of samples that remain.
        """
        cuts = []
        for column in columns:
            own = self.features_of[column]
            for low, high, cost in self._narrow(column, box.low[0, own], box.high[0, own]):
                if point is None or not ((point[own] < low) | (point[own] > high)).any():
                    cuts.append((column, own, low, high, cost))
        lows, highs = (np.repeat(side, len(cuts), axis=0) for side in box[:2])
        for n, (_, own, low, high, _) in enumerate(cuts):
            lows[n, own], highs[n, own] = low, high
        which = np.array([cut[0] for cut in cuts], int)
        return self._boxes(lows, highs, box.label), which, np.array([cut[-1] for cut in cuts])

    def _narrow(
        self, column: int, low: NDArray, high: NDArray
    ) -> Iterator[tuple[NDArray, NDArray, float]]:
        """Yield narrower limits of a column, and −log of the fraction of samples that remains.

        A category is excluded, or all others are. An interval becomes shorter at one end.
        """
        x, below, up_to = self.grids[column]
        if self.domain.category_of[column] >= 0:
            allowed = np.flatnonzero(high > 0.0)
            total = up_to[allowed].sum()
            for k in allowed if allowed.size > 1 else ():
                yield low, high * (np.arange(high.size) != k), -np.log1p(-up_to[k] / total)
                only = high * (np.arange(high.size) == k)
                yield only, only, -np.log(up_to[k] / total)
            return
        first, last = np.searchsorted(x, low[0]), np.searchsorted(x, high[0], side="right") - 1
        for step in CUTS:
            if first + step <= last:
                for i, j in ((first + step, last), (first, last - step)):
                    if x[i] == np.inf or x[j] == -np.inf:
                        continue
                    total = max(up_to[last] - below[first], 1e-6)
                    rest = max(up_to[j] - below[i], 1e-6) / total
                    yield x[i, None], x[j, None], -float(np.log(rest))

    def _drop_limits(self, box: _Boxes, columns: list[int]) -> tuple[_Boxes, list[int]]:
        """Drop unnecessary limits; also return the columns that remain limited."""
        limited = []
        for column in columns[::-1]:
            own, low, high = self.features_of[column], box.low.copy(), box.high.copy()
            low[:, own], high[:, own] = self.low[own], self.high[own]
            other = self._boxes(low, high, box.label)
            if other.gap > 0.0:
                box = other
            else:
                limited.append(column)
        return box, limited[::-1]

    def _widen(self, box: _Boxes, columns: list[int]) -> _Boxes:
        """Move limits outwards; each of the columns may use an equal part of the margin."""
        for k, column in enumerate(columns):
            target = box.gap - box.gap / (len(columns) - k)
            if self.domain.category_of[column] < 0:
                box = self._move_limit(box, column, False, 0.5 * (box.gap + target))
                box = self._move_limit(box, column, True, target)
                box = self._move_limit(box, column, False, target)
        return box

    def _move_limit(self, box: _Boxes, p: int, is_high: bool, target: float) -> _Boxes:
        """Move a limit of feature p outwards as far as possible with a gap above a target."""
        inner = float((box.high if is_high else box.low)[0, p])
        outer = float((self.high if is_high else self.low)[p])
        target = max(target, 0.0)

        def boxes_at(values: NDArray) -> _Boxes:
            """Return the box with each of these values as the limit."""
            low, high = (np.repeat(limit, len(values), axis=0) for limit in (box.low, box.high))
            (high if is_high else low)[:, p] = values
            return self._boxes(low, high, box.label)

        if np.isinf(outer):
            unlimited = boxes_at(np.array([outer]))
            if unlimited.gap > target:
                return unlimited
            outer = inner + np.sign(outer) * REACH * float(self.domain.unit[p])
        best = box
        for _ in range(N_ROUNDS):
            values = np.linspace(inner, outer, N_STEPS)
            boxes = boxes_at(values)
            k = int(np.append(~(boxes.gaps > target), True).argmax())
            if k > 0:
                inner = float(values[k - 1])
                low, high, label, margins = boxes
                best = _Boxes(low[[k - 1]], high[[k - 1]], label, margins[[k - 1]])
            if k in (0, N_STEPS):
                break
            outer = float(values[k])
        return best

    def round_box(self, box: _Boxes) -> tuple[tuple[Condition, ...], NDArray, NDArray] | None:
        """Return the rounded conditions of a box, and its limits with these conditions.

        The result is None if there are no conditions or more than MAX_CONDITIONS, or if the rounded
        box is empty or its smallest margin is not provably positive.
        """
        conditions = box_conditions(self.domain, box.low[0], box.high[0])
        if not 0 < len(conditions) <= MAX_CONDITIONS:
            return None
        low, high = self.low.copy(), self.high.copy()
        for p, floor, ceiling, _ in conditions:
            low[p], high[p] = max(low[p], floor), min(high[p], ceiling)
            if low[p] > high[p]:
                return None
        for category in self.domain.categories:
            features = np.array(category.features)
            if (low[features] > 0.0).any():
                high[features] = low[features]
        is_certified = self._boxes(low[None], high[None], box.label).gap > 0.0
        return (conditions, low, high) if is_certified else None


def _category_margins(
    category: OneHotGroup, table: NDArray, low: NDArray, high: NDArray, y: NDArray
) -> NDArray:
    """Return the lowest margins of classes y over the allowed categories of each box, (n, C).

    ``table`` contains the scores of each category and, in the last row, of no category.
    """
    features = list(category.features)
    is_one = low[:, features] > 0.0
    allowed = (high[:, features] > 0.0) & (is_one.sum(axis=1, keepdims=True) == is_one)
    is_none = ~is_one.any(axis=1) & (category.allows_none | ~allowed.any(axis=1))
    allowed = np.column_stack([allowed, is_none])
    margins = table[:, y].T[:, :, None] - table[None]
    return np.where(allowed[:, :, None], margins, np.inf).min(axis=1)
