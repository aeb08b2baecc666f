"""Limits of boxes as conditions in words, with numbers of few digits."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxplus.explain.digits import number_text, roundings
from maxplus.explain.domain import Domain
from maxplus.explain.naming import in_product, view_features
from maxplus.models.views import views_of

# Part of a column's unit that printing may move a limit by.
RESOLUTION = 0.01
# Digits of a sum's weights: as few as the resolution allows, and at most all there are.
FEWEST_DIGITS, ALL_DIGITS = 2, 17
# Units from 0 that a column without limits is taken to reach, where a sum's weights are rounded.
REACH = 100.0


class Ranges(NamedTuple):
    """The least and largest value that each view can have, (M,) each; infinite without a limit."""

    low: NDArray
    high: NDArray


class Condition(NamedTuple):
    """low ≤ value ≤ high of a view, and the same in words."""

    view: int
    low: float
    high: float
    text: str

    def holds(self, values: NDArray) -> NDArray:
        """Return whether it does, for each value."""
        return (self.low <= values) & (values <= self.high)


class _PrintedSum(NamedTuple):
    """A sum's weights as printed, how far off its values can be, and its unit."""

    weights: NDArray
    error: float
    unit: float


def view_ranges(directions: NDArray | None, domain: Domain) -> Ranges:
    """Return the values that views can have where features have those of the domain."""
    low, high = (np.asarray(end, np.float64) for end in (domain.low, domain.high))
    if directions is None:
        return Ranges(low.copy(), high.copy())
    with np.errstate(invalid="ignore"):
        ends = np.where(directions == 0.0, 0.0, np.stack([directions * low, directions * high]))
    return Ranges(ends.min(axis=0).sum(axis=1), ends.max(axis=0).sum(axis=1))


class PrintedViews:
    """Views as they are printed: features by name, and sums of features with rounded weights.

    Parameters
    ----------
    directions : array of shape (M, P), or None where the views are the features
    domain : Domain
    ranges : Ranges, the values that views can have
    """

    def __init__(self, directions: NDArray | None, domain: Domain, ranges: Ranges) -> None:
        self.directions, self.domain, self.ranges = directions, domain, ranges
        self.features = view_features(directions, domain.n_features)
        is_sum = self.features < 0
        self._sum_number = np.where(is_sum, np.cumsum(is_sum), 0)
        self._sums: dict[int, _PrintedSum] = {}

    def values(self, view: int, X: NDArray) -> NDArray:
        """Return the view's values as printed of some rows, (N,)."""
        p = int(self.features[view])
        return X[:, p] if p >= 0 else views_of(X, self._sum(view).weights[None])[:, 0]

    def definitions(self, views: Iterable[int]) -> dict[str, str]:
        """Return the sums among some views, by name."""
        sums = [m for m in views if self.features[m] < 0]
        return {self._name(m): _sum_text(self._sum(m).weights, self.domain) for m in sums}

    def conditions(self, low: NDArray, high: NDArray) -> tuple[Condition, ...]:
        """Return a condition for each view with limits inside its range, by the order of views."""
        conditions = []
        for m in range(len(self.features)):
            floor = low[m] if low[m] > self.ranges.low[m] else -np.inf
            ceiling = high[m] if high[m] < self.ranges.high[m] else np.inf
            if floor > -np.inf or ceiling < np.inf:
                floor, ceiling = self._inwards(m, floor, False), self._inwards(m, ceiling, True)
                conditions.append(Condition(m, floor, ceiling, self._text(m, floor, ceiling)))
        return tuple(c for c in conditions if not self._is_implied(c, conditions))

    def _is_implied(self, condition: Condition, conditions: list[Condition]) -> bool:
        """Return whether a category is not a word because it is another one."""
        category = self._category(condition)
        return (
            condition.low == -np.inf
            and category >= 0
            and any(
                other.low > -np.inf and self._category(other) == category for other in conditions
            )
        )

    def _category(self, condition: Condition) -> int:
        p = int(self.features[condition.view])
        return int(self.domain.category_of[p]) if p >= 0 else -1

    def _inwards(self, m: int, limit: float, is_ceiling: bool) -> float:
        """Return the limit, or a number of fewer digits a little further inside."""
        if np.isinf(limit):
            return limit
        p, domain, sign = int(self.features[m]), self.domain, -1.0 if is_ceiling else 1.0
        if p < 0:
            limit, unit = limit + sign * self._sum(m).error, self._sum(m).unit
        else:
            unit = float(domain.unit[p])
            possible = domain.values.get(p, (0.0, 1.0) if domain.category_of[p] >= 0 else ())
            inside = [sign * v for v in possible if sign * v >= sign * limit]
            if inside:
                return sign * float(min(inside))
            if domain.whole[p]:
                limit = sign * float(np.ceil(sign * limit))
        shorter = [
            v for v in roundings(limit, not is_ceiling) if abs(v - limit) <= RESOLUTION * unit
        ]
        return shorter[0]

    def _sum(self, m: int) -> _PrintedSum:
        """Round a sum's weights so that its values stay within the resolution."""
        if m not in self._sums:
            assert self.directions is not None
            weights, domain = self.directions[m], self.domain
            sizes = np.maximum(np.abs(domain.low), np.abs(domain.high))
            sizes = np.where(np.isfinite(sizes), sizes, REACH * domain.unit)
            unit = float(np.abs(weights * domain.unit).max())
            for digits in range(FEWEST_DIGITS, ALL_DIGITS + 1):
                rounded = np.array([float(f"{w:.{digits}g}") for w in weights])
                error = float(np.abs(rounded - weights) @ sizes)
                if error <= RESOLUTION * unit:
                    break
            self._sums[m] = _PrintedSum(rounded, error, unit)
        return self._sums[m]

    def _name(self, m: int) -> str:
        p = int(self.features[m])
        return self.domain.names[p] if p >= 0 else f"sum {self._sum_number[m]}"

    def _text(self, m: int, low: float, high: float) -> str:
        p, domain, name = int(self.features[m]), self.domain, self._name(m)
        if p >= 0 and domain.category_of[p] >= 0:
            category = domain.categories[domain.category_of[p]]
            word = str(category.words[category.features.index(p)])
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


def _sum_text(weights: NDArray, domain: Domain) -> str:
    """Return a sum as text, its terms by how much they usually move it."""
    text = ""
    terms = np.flatnonzero(weights)
    for p in terms[np.argsort(-np.abs(weights * domain.unit)[terms], kind="stable")].tolist():
        sign = "−" if weights[p] < 0 else "+"
        text += f" {sign} " if text else sign.replace("+", "")
        text += f"{number_text(abs(weights[p]))}·{in_product(domain.names[p])}"
    return text or "0"
