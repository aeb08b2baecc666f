"""Limits of boxes as conditions in words, with numbers of few digits."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxplus.explain.digits import roundings
from maxplus.explain.domain import Domain

# Part of a column's unit that printing may move a limit by.
RESOLUTION = 0.01


class Condition(NamedTuple):
    """low ≤ value ≤ high of a feature, and the same in words."""

    feature: int
    low: float
    high: float
    text: str

    def holds(self, X: NDArray) -> NDArray:
        """Return whether it does, for each row of X."""
        values = X[:, self.feature]
        return (self.low <= values) & (values <= self.high)


def box_conditions(domain: Domain, low: NDArray, high: NDArray) -> tuple[Condition, ...]:
    """Return a condition for each feature with limits inside the domain, in their order."""
    conditions = []
    for p in range(domain.n_features):
        floor = low[p] if low[p] > domain.low[p] else -np.inf
        ceiling = high[p] if high[p] < domain.high[p] else np.inf
        if floor > -np.inf or ceiling < np.inf:
            floor, ceiling = _inwards(domain, p, floor, False), _inwards(domain, p, ceiling, True)
            conditions.append(Condition(p, floor, ceiling, _text(domain, p, floor, ceiling)))
    return tuple(c for c in conditions if not _is_implied(domain, c, conditions))


def _is_implied(domain: Domain, condition: Condition, conditions: list[Condition]) -> bool:
    """Return whether a category is not a word because it is another one."""
    category = domain.category_of[condition.feature]
    return (
        condition.low == -np.inf
        and category >= 0
        and any(
            other.low > -np.inf and domain.category_of[other.feature] == category
            for other in conditions
        )
    )


def _inwards(domain: Domain, p: int, limit: float, is_ceiling: bool) -> float:
    """Return the limit, or a number of fewer digits a little further inside."""
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


def _text(domain: Domain, p: int, low: float, high: float) -> str:
    name = domain.names[p]
    if domain.category_of[p] >= 0:
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
