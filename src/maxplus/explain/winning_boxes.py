"""Boxes in raw units in which a class provably wins, and their conditions as text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from maxplus.certify.bounds import Magnitude, caps
from maxplus.certify.margins import Shape, shape_margins, shapes_of, sum_of_scores, term_margins
from maxplus.explain.domain import Domain, OneHotGroup, roundings
from maxplus.explain.units import unit_boxes
from maxplus.models import LMM
from maxplus.models.feature_map import DEVIATION
from maxplus.models.lmm import TermSum

# Share of a column's unit by which the limit of a condition may be rounded.
RESOLUTION = 0.01
# Function of the mapped limits and the raw limits of boxes, (n, P) each, and of their classes (n,),
# which returns lower bounds of the margins of these classes, (n, C).
_LowestMargins = Callable[[NDArray, NDArray, NDArray, NDArray, NDArray], NDArray]
# Number of bisections of the interval of a unit's level.
BISECTIONS = 60
# Margin, in ulps of the weights, by which the class of a unit's box has to win.
ROUNDINGS = 8.0
# Maximum number of conditions of a rule, and the cost of a condition. The cost of a cut is −log of
# the fraction of rows that remain.
MAX_CONDITIONS, CONDITION_COST = 10, 0.1
# Numbers of further boxes of each class: boxes without conditions on one of the columns of the
# first box, and boxes around centres of units.
N_VARIANTS, N_CENTRES = 2, 2
# Maximum number of columns that are cut, the size of their grids, and the grid steps of a cut.
MAX_COLUMNS, N_GRID, CUTS = 40, 13, (1, 2, 4)
# Maximum number of columns that are cut in one step, and the minimum ratio of gain to cost of a
# cut, relative to the best cut.
MAX_CUTS, MIN_RATE = 3, 0.6
# Number of ends of an interval that are tried in a round, and number of rounds of refinement.
N_STEPS, N_ROUNDS = 17, 3
# Range of the grid of a number without limits, in standard deviations.
REACH = 4.0


class Condition(NamedTuple):
    """The condition low ≤ value ≤ high of a feature, and its text."""

    feature: int
    low: float
    high: float
    text: str

    def holds(self, X: NDArray) -> NDArray:
        """Return the mask of rows of X that meet the condition."""
        values = X[:, self.feature]
        return (self.low <= values) & (values <= self.high)


def box_conditions(domain: Domain, low: NDArray, high: NDArray) -> tuple[Condition, ...]:
    """Return a condition for each feature with limits inside the domain, in order."""
    conditions = []
    for p in range(domain.n_features):
        floor = low[p] if low[p] > domain.low[p] else -np.inf
        ceiling = high[p] if high[p] < domain.high[p] else np.inf
        if floor > -np.inf or ceiling < np.inf:
            floor, ceiling = _inwards(domain, p, floor, False), _inwards(domain, p, ceiling, True)
            conditions.append(
                Condition(p, floor, ceiling, _condition_text(domain, p, floor, ceiling))
            )
    # "colour is 'red'" implies "colour is not 'blue'".
    chosen = {domain.category_of[c.feature] for c in conditions if c.low > -np.inf} - {-1}
    return tuple(
        c for c in conditions if c.low > -np.inf or domain.category_of[c.feature] not in chosen
    )


def _inwards(domain: Domain, p: int, limit: float, is_ceiling: bool) -> float:
    """Round a limit inwards to fewer digits, within RESOLUTION."""
    if np.isinf(limit):
        return limit
    sign = -1.0 if is_ceiling else 1.0
    possible = domain.values.get(p, (0.0, 1.0) if domain.category_of[p] >= 0 else ())
    inside = [sign * v for v in possible if sign * v >= sign * limit]
    if inside:
        return sign * float(min(inside))
    if domain.whole[p]:
        limit = sign * float(np.ceil(sign * limit))
    most = RESOLUTION * float(domain.unit[p])
    return next(v for v in roundings(limit, not is_ceiling) if abs(v - limit) <= most)


def _condition_text(domain: Domain, p: int, low: float, high: float) -> str:
    name = domain.names[p]
    if domain.category_of[p] >= 0:
        category = domain.categories[domain.category_of[p]]
        word = str(category.values[category.features.index(p)])
        return f"{category.name} is {'not ' if low == -np.inf else ''}{word!r}"
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


class RuleBox(NamedTuple):
    """A box in which a class wins: its number or unit, the class, and the conditions of the box.

    For a unit of a single network, ``conditions`` is None if there is no box in which its class
    wins, and ``decides`` is the number of rows whose predicted class the unit determines.
    """

    unit: int
    label: int
    conditions: tuple[Condition, ...] | None
    decides: int | None


def rule_boxes(model: TermSum, X: NDArray, domain: Domain) -> Iterator[RuleBox]:
    """Yield boxes in which a class has the highest score, for all values in the domain.

    *Single networks.* The result is the largest such box of each unit, sorted by the number of rows
    of X that the unit decides. Units that decide no row, or whose class wins everywhere, have no
    box. O(N·P·H), and O(P·H) for each step of a bisection.

    *Sums of terms.* A box starts as the whole domain. It is cut, column by column, where a cut
    raises the smallest margins of the class most in relation to the share of rows that it loses,
    until the smallest margin over the box, which `maxplus.certify.margins` bounds from below, is
    positive. Then unnecessary limits are dropped, and the others are widened until the margin is
    used up, in equal parts for all columns. The distribution of a feature is taken from its map.
    Limits are rounded inwards, and the bound is verified for the printed box. Boxes with more than
    ten conditions and subsets of other boxes are left out. X is not used. O(P·Σ_t m_t·H_t) for each
    cut.

    Parameters
    ----------
    model : LMM or AdditiveLMM
    X : array of shape (N, P)
    domain : Domain

    Yields
    ------
    RuleBox
    """
    if not model.is_sum:
        yield from _unit_rule_boxes(model.terms[0].lmm, X, domain)
        return
    search = _BoxSearch(model, domain)
    found: list[_PrintedBox] = []
    for label in range(model.n_classes):
        for box in search.boxes(label):
            new = search.printed(box)
            if new is None or any(old.label == label and old.contains(new) for old in found):
                continue
            found = [old for old in found if not (old.label == label and new.contains(old))]
            found.append(new)
    for k, printed in enumerate(found):
        yield RuleBox(k, printed.label, printed.conditions, None)


def _unit_rule_boxes(model: LMM, X: NDArray, domain: Domain) -> Iterator[RuleBox]:
    winners = model.scores(X).argmax(axis=1)
    deciding = model.active_path(X).unit[np.arange(len(X)), winners]
    decides = np.bincount(deciding, minlength=model.n_hidden)
    exact = model.astype(np.float64)
    margin = ROUNDINGS * float(np.finfo(model.dtype).eps)
    margin *= float(np.abs(exact.W1).max() + np.abs(exact.W2).max())
    for unit in np.argsort(-decides, kind="stable")[: np.count_nonzero(decides)].tolist():
        box = _unit_box(exact, unit, domain, margin)
        conditions = None if box is None else box_conditions(domain, *box)
        if conditions != ():
            label = int(exact.W2[unit].argmax())
            yield RuleBox(unit, label, conditions, int(decides[unit]))


def _unit_box(
    model: LMM, unit: int, domain: Domain, margin: float
) -> tuple[NDArray, NDArray] | None:
    """Return the limits of the largest box of a unit in which its class wins by a margin, or None.

    The higher the level t, the smaller are the box and the scores of other classes in it. The
    smallest sufficient level is found by bisection; O(P·H) for each step.
    """
    d = int(model.W2[unit].argmax())
    others = np.delete(model.W2, d, axis=1).max(axis=1, initial=-np.inf)
    own = model.W2[unit, d] - margin
    ahead = (model.W1 + others).max(axis=1) < model.W1[:, unit] + own
    needed, cap = np.flatnonzero(~ahead), caps(model)
    feature, slope, offset = needed // 2, model.W0[needed], model.W1[needed, unit]

    def box_at(t: float) -> tuple[NDArray, NDArray]:
        """Return the part of the domain in which the needed rows of the unit are at least t."""
        low, high = domain.low.astype(np.float64), domain.high.astype(np.float64)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            limit = (t - offset) / slope
        # A row with slope 0 that is below the level makes the box empty.
        is_floor = (slope > 0.0) | ((slope == 0.0) & (t > offset))
        np.maximum.at(low, feature[is_floor], limit[is_floor])
        np.minimum.at(high, feature[slope < 0.0], limit[slope < 0.0])
        return low, high

    def wins(t: float) -> bool:
        box = box_at(t)
        if (box[0] > box[1]).any():
            return True
        with np.errstate(invalid="ignore", over="ignore"):
            # 0 · inf would be NaN.
            ends = [np.where(model.slopes == 0.0, 0.0, model.slopes * end[:, None]) for end in box]
        highest = (model.offsets + np.maximum(*ends)).min(axis=(1, 2))
        return bool((np.minimum(highest, cap) + others).max() < t + own)

    # Bracket the level by doubling steps in both directions.
    low = high = float(offset.min(initial=0.0))
    step = max(1.0, abs(low))
    while not wins(high):
        high, step = high + step, 2.0 * step
        if not np.isfinite(high):
            return None
    step = max(1.0, abs(high))
    while wins(low):
        low, step = low - step, 2.0 * step
        if not np.isfinite(low):
            return domain.low, domain.high
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if wins(middle) else (middle, high)
    box = box_at(high)
    return None if (box[0] > box[1]).any() else box


class _PrintedBox(NamedTuple):
    """A box in which no other class can win, and its conditions as printed."""

    label: int
    conditions: tuple[Condition, ...]
    low: NDArray
    high: NDArray

    def contains(self, other: _PrintedBox) -> bool:
        """Return whether another box is a subset of this one."""
        return bool((self.low <= other.low).all() and (self.high >= other.high).all())


class _Grid(NamedTuple):
    """Values at which a number may be cut, and the shares of rows below and up to each.

    For a category, ``upto`` are the shares of its values.
    """

    x: NDArray
    below: NDArray
    upto: NDArray


class _Boxes(NamedTuple):
    """Raw limits (n, P), the class, and its lowest margins over all others, (n, C)."""

    low: NDArray
    high: NDArray
    label: int
    margins: NDArray

    def select(self, n: int) -> _Boxes:
        """Return box n."""
        return _Boxes(self.low[[n]], self.high[[n]], self.label, self.margins[[n]])

    @property
    def gaps(self) -> NDArray:
        """Lower bounds of the margin of the class over all others, (n,)."""
        return self.margins.min(axis=1)

    @property
    def gap(self) -> float:
        """Lower bound of the margin of a single box."""
        return float(self.gaps[0])

    @property
    def shortfall(self) -> NDArray:
        """Sum of the magnitudes of negative margins, (n,)."""
        return -np.minimum(self.margins, 0.0).sum(axis=1)


class _BoxSearch:
    """The search for boxes of one model in one domain."""

    def __init__(self, model: TermSum, domain: Domain) -> None:
        self.model, self.domain = model, domain
        self.exact = model.astype(np.float64)
        self.column_of = np.arange(domain.n_features)
        self.low, self.high = domain.low.astype(np.float64), domain.high.astype(np.float64)
        for category in domain.categories:
            features = list(category.features)
            self.column_of[features] = min(features)
            self.low[features], self.high[features] = 0.0, (self.high[features] >= 1.0) * 1.0
        self.members = {c: np.flatnonzero(self.column_of == c) for c in self.column_of.tolist()}
        self.category = {min(group.features): group for group in domain.categories}
        self.parts = self._parts()
        in_terms = np.concatenate([term.features for term in model.terms])
        self.used = np.unique(self.column_of[in_terms]).tolist()
        self._in_terms = np.concatenate([self.members[c] for c in self.used])
        self._magnitude = Magnitude(model)
        self.grids = {c: self._grid(c) for c in self.used}

    def _parts(self) -> list[_LowestMargins]:
        """Return functions for the lowest margins of terms over one column and of other terms."""
        shapes = {shape.feature: shape for shape in shapes_of(self.exact)}
        parts = [_shape_margins(s) for p, s in shapes.items() if self.domain.category_of[p] < 0]
        for category in self.domain.categories:
            own = [shapes[p] for p in category.features if p in shapes]
            if own:
                # The scores of each category and, in the last row, of no category.
                rows = np.zeros((len(category.values) + 1, self.domain.n_features))
                rows[np.arange(len(category.values)), list(category.features)] = 1.0
                U = self.model.mapped(rows).astype(np.float64)
                table = np.sum([sum_of_scores(s.lmms, U[:, s.feature]) for s in own], axis=0)
                parts.append(_category_margins(table, category))
        terms = (term for term in self.exact.terms if term.features.size > 1)
        return parts + [_term_margins(features, lmm) for features, lmm in terms]

    def _boxes(self, low: NDArray, high: NDArray, label: int) -> _Boxes:
        """Return boxes with limits (n, P) and the lowest margins of a class."""
        y, b = np.full(len(low), label), self.exact.intercept
        with np.errstate(all="ignore"):
            bottom = np.minimum(self.exact.mapped(low), self.model.mapped(low))
            top = np.maximum(self.exact.mapped(high), self.model.mapped(high))
            is_known = np.isfinite(bottom + top)[:, self._in_terms].all(axis=1)
            bottom, top = (np.where(np.isfinite(end), end, 0.0) for end in (bottom, top))
            total = np.zeros((len(low), self.model.n_classes))
            for lowest_margins in self.parts if len(low) else ():
                total += lowest_margins(bottom, top, low, high, y)
            rounding = 2.0 * self._magnitude.rounding(self._magnitude(bottom, top))
            margins = b[label] - b + total - rounding[:, None]
        margins[:, label] = np.inf
        margins = np.where(is_known[:, None] & ~np.isnan(margins), margins, -np.inf)
        return _Boxes(low, high, label, margins)

    def _moved(self, box: _Boxes, column: int, low: NDArray, high: NDArray) -> _Boxes:
        """Return the box with other limits (n, features) of one column."""
        lows, highs = (np.repeat(side, len(low), axis=0) for side in box[:2])
        lows[:, self.members[column]], highs[:, self.members[column]] = low, high
        return self._boxes(lows, highs, box.label)

    def _grid(self, column: int) -> _Grid:
        """Return the limits at which a column may be cut, and the shares of rows below them."""
        domain, feature_map = self.domain, self.model.feature_map
        if column in self.category:
            features = self.members[column]
            share = np.full(len(features), 1.0 / len(features))
            if feature_map is not None:
                # Mapped features have the mean 0.
                zero, one = (feature_map(np.full((1, len(self.low)), v))[0] for v in (0.0, 1.0))
                rise = (one - zero)[features]
                share = np.where(rise > 0.0, -zero[features] / np.maximum(rise, 1e-300), 0.0)
            share = np.clip(share, 1e-3, 1.0) * (self.high[features] > 0.0)
            return _Grid(np.empty(0), np.empty(0), share)
        low, high = self.low[column], self.high[column]
        if column in domain.values:
            x = np.asarray(domain.values[column], np.float64)
            return _Grid(x, np.arange(x.size) / x.size, np.arange(1.0, x.size + 1.0) / x.size)
        if feature_map is not None:
            knots, values = feature_map.knots(column)
            share = np.linspace(0.0, 1.0, N_GRID)
            inside = np.clip(DEVIATION * ndtri(share[1:-1]), values[0], values[-1])
            x = np.concatenate([[low], feature_map.inverse(column, inside), [high]])
            x = np.unique(np.clip(np.nan_to_num(x, neginf=knots[0], posinf=knots[-1]), low, high))
            every = np.zeros((x.size, domain.n_features))
            every[:, column] = x
            share = ndtr(feature_map(every)[:, column] / DEVIATION)
        else:
            reach = REACH * float(domain.unit[column])
            centre = float(np.clip(0.0, low, high))
            x = np.linspace(max(low, centre - reach), min(high, centre + reach), N_GRID)
            share = np.linspace(0.0, 1.0, N_GRID)
        x[0], x[-1] = low, high
        share[0], share[-1] = 0.0, 1.0
        return _Grid(x, share, share)

    def boxes(self, label: int) -> Iterator[_Boxes]:
        """Yield a first box of a class, variants without one of its columns, and boxes at centres.

        Variants have no conditions on a column of the first box; centres are those of units.
        """
        everything = self._boxes(self.low[None], self.high[None], label)
        columns = self._strongest(everything)
        first = self._cut(everything, columns)
        if first is not None:
            yield first[0]
            for column in first[1][:N_VARIANTS]:
                other = self._cut(everything, [c for c in columns if c != column])
                if other is not None:
                    yield other[0]
        for point in self._centres(label):
            other = self._cut(everything, columns, point)
            if other is not None:
                yield other[0]

    def _strongest(self, box: _Boxes) -> list[int]:
        """Return the columns whose cuts raise margins most, at most MAX_COLUMNS."""
        boxes, columns, _ = self._cuts(box, self.used)
        gains = np.zeros(len(self.low))
        np.maximum.at(gains, columns, box.shortfall - boxes.shortfall)
        return sorted(self.used, key=lambda c: -gains[c])[:MAX_COLUMNS]

    def _centres(self, label: int) -> list[NDArray]:
        """Return centres of units that favour a class, by decreasing lead.

        Only terms over more than two features are considered. Values are NaN for categories,
        and where a unit has no centre.
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
                points += list(centre[units.favourite == label])
        if not points:
            return []
        filled = np.where(np.isfinite(points), points, middle)
        gaps = self._boxes(filled, filled, label).gaps
        return [points[k] for k in np.argsort(-gaps, kind="stable")[:N_CENTRES]]

    def _cut(
        self, box: _Boxes, columns: list[int], point: NDArray | None = None
    ) -> tuple[_Boxes, list[int]] | None:
        """Cut a box until its class wins; return it with its limited columns, or None."""
        limited: list[int] = []
        while not box.gap > 0.0:
            allowed = columns if len(limited) < MAX_CONDITIONS else limited
            boxes, which, lost = self._cuts(box, allowed, point)
            gain = box.shortfall - boxes.shortfall
            rates = gain / (lost + 1e-3 + CONDITION_COST * ~np.isin(which, limited))
            if not (rates > 0.0).any():
                return None
            # Apply the best cut, and those of other columns that are nearly as good.
            low, high = box.low.copy(), box.high.copy()
            changed: list[int] = []
            for k in np.argsort(-rates, kind="stable"):
                column = int(which[k])
                if len(changed) == MAX_CUTS or rates[k] < MIN_RATE * rates.max():
                    break
                if column not in changed:
                    own = self.members[column]
                    low[0, own], high[0, own] = boxes.low[k, own], boxes.high[k, own]
                    changed.append(column)
            box = self._boxes(low, high, box.label)
            limited += [column for column in changed if column not in limited]
        box, limited = self._released(box, limited)
        return self._widened(box, limited), limited

    def _cuts(
        self, box: _Boxes, columns: list[int], point: NDArray | None = None
    ) -> tuple[_Boxes, NDArray, NDArray]:
        """Return all boxes with one limit of one column moved inwards.

        Also return their columns, and −log of the fractions of rows that remain.
        """
        cuts = []
        for column in columns:
            own = self.members[column]
            for low, high, lost in self._narrower(column, box.low[0, own], box.high[0, own]):
                if point is None or not ((point[own] < low) | (point[own] > high)).any():
                    cuts.append((column, own, low, high, lost))
        lows, highs = (np.repeat(side, len(cuts), axis=0) for side in box[:2])
        for n, (_, own, low, high, _) in enumerate(cuts):
            lows[n, own], highs[n, own] = low, high
        which = np.array([cut[0] for cut in cuts], int)
        return self._boxes(lows, highs, box.label), which, np.array([cut[-1] for cut in cuts])

    def _narrower(
        self, column: int, low: NDArray, high: NDArray
    ) -> Iterator[tuple[NDArray, NDArray, float]]:
        """Yield narrower limits of a column: fewer categories, one category, shorter intervals."""
        x, below, upto = self.grids[column]
        if column in self.category:
            on = np.flatnonzero(high > 0.0)
            total = upto[on].sum()
            for k in on if on.size > 1 else ():
                yield low, high * (np.arange(high.size) != k), -np.log1p(-upto[k] / total)
                only = high * (np.arange(high.size) == k)
                yield only, only, -np.log(upto[k] / total)
            return
        first, last = np.searchsorted(x, low[0]), np.searchsorted(x, high[0], side="right") - 1
        for step in CUTS:
            if first + step <= last:
                for i, j in ((first + step, last), (first, last - step)):
                    if x[i] == np.inf or x[j] == -np.inf:
                        continue
                    left = max(upto[j] - below[i], 1e-6) / max(upto[last] - below[first], 1e-6)
                    yield x[i, None], x[j, None], -float(np.log(left))

    def _released(self, box: _Boxes, columns: list[int]) -> tuple[_Boxes, list[int]]:
        """Drop limits as long as the class wins; also return the columns that remain limited."""
        limited = []
        for column in columns[::-1]:
            own = self.members[column]
            other = self._moved(box, column, self.low[None, own], self.high[None, own])
            if other.gap > 0.0:
                box = other
            else:
                limited.append(column)
        return box, limited[::-1]

    def _widened(self, box: _Boxes, columns: list[int]) -> _Boxes:
        """Move the limits of columns outwards; each column may use an equal part of the margin."""
        for k, column in enumerate(columns):
            target = box.gap - box.gap / (len(columns) - k)
            if column not in self.category:
                box = self._with_end(box, column, self.low, 0.5 * (box.gap + target))
                box = self._with_end(box, column, self.high, target)
                box = self._with_end(box, column, self.low, target)
        return box

    def _with_end(self, box: _Boxes, p: int, ends: NDArray, target: float) -> _Boxes:
        """Move one end of feature p outwards as far as the gap stays above a target."""
        is_low = ends is self.low
        inner, outer = float((box.low if is_low else box.high)[0, p]), float(ends[p])

        def moved(places: NDArray) -> _Boxes:
            low, high = (np.full((len(places), 1), side[0, p]) for side in box[:2])
            (low if is_low else high)[:, 0] = places
            return self._moved(box, p, low, high)

        if np.isinf(outer):
            everywhere = moved(np.array([outer]))
            if everywhere.gap > max(target, 0.0):
                return everywhere
            outer = inner + np.sign(outer) * REACH * float(self.domain.unit[p])
        best = box
        for _ in range(N_ROUNDS):
            places = np.linspace(inner, outer, N_STEPS)
            boxes = moved(places)
            k = int(np.append(~(boxes.gaps > max(target, 0.0)), True).argmax())
            if k > 0:
                best, inner = boxes.select(k - 1), float(places[k - 1])
            if k in (0, N_STEPS):
                break
            outer = float(places[k])
        return best

    def printed(self, box: _Boxes) -> _PrintedBox | None:
        """Return the box as printed.

        None if it has too many conditions, or if it is empty or no longer certified after rounding.
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
        if not self._boxes(low[None], high[None], box.label).gap > 0.0:
            return None
        return _PrintedBox(box.label, conditions, low, high)


def _shape_margins(shape: Shape) -> _LowestMargins:
    return lambda low, high, _, __, y: shape_margins(shape, low, high, y)


def _term_margins(features: NDArray, lmm: LMM) -> _LowestMargins:
    cap = caps(lmm)
    return lambda low, high, _, __, y: term_margins(
        lmm, cap, low[:, features], high[:, features], y
    )


def _category_margins(table: NDArray, category: OneHotGroup) -> _LowestMargins:
    """Return a function that computes the lowest margins over the allowed categories."""

    def lowest(_: NDArray, __: NDArray, low: NDArray, high: NDArray, y: NDArray) -> NDArray:
        features = list(category.features)
        is_one = low[:, features] > 0.0
        allowed = (high[:, features] > 0.0) & (is_one.sum(axis=1, keepdims=True) == is_one)
        is_none = ~is_one.any(axis=1) & (category.none | ~allowed.any(axis=1))
        allowed = np.column_stack([allowed, is_none])
        margins = table[:, y].T[:, :, None] - table[None]
        return np.where(allowed[:, :, None], margins, np.inf).min(axis=1)

    return lowest
