"""Walls of boxes as conditions that people can check, with limits of few digits."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxplus.explain.digits import number_text, simplest_between
from maxplus.explain.domain import Domain
from maxplus.explain.naming import in_product, view_features
from maxplus.models.views import views_of

# Digits of a sum's weights: as few as keep every row on its side, and at most all there are.
FEWEST_DIGITS, ALL_DIGITS = 2, 17


class Wall(NamedTuple):
    """One side of a box: a limit of a view, from above if it is a ceiling, and who is inside."""

    view: int
    is_ceiling: bool
    inside: NDArray


class Shown(NamedTuple):
    """A view as it is printed: its name, its values on the rows, and what it is if it is a sum."""

    name: str
    values: NDArray
    feature: int
    definition: str = ""


class Condition(NamedTuple):
    """low ≤ value ≤ high of something that has a name, and the same in words."""

    name: str
    low: float
    high: float
    text: str

    def holds(self, values: NDArray) -> NDArray:
        """Whether it does, for each value."""
        return (self.low <= values) & (values <= self.high)


def needed_walls(walls: Iterable[Wall], is_enough: Callable[[NDArray], bool]) -> tuple[Wall, ...]:
    """The walls that are left when others are left out as long as the rows inside are enough.

    Those that keep the fewest rows out are tried first. ``is_enough`` is asked of the rows that
    would be inside, (N,) of bool. O(walls·N).
    """
    left = sorted(walls, key=lambda wall: int((~wall.inside).sum()))
    outside = np.sum([~wall.inside for wall in left], axis=0)
    needed = []
    for wall in left:
        without = outside - ~wall.inside
        if is_enough(without == 0):
            outside = without
        else:
            needed.append(wall)
    return tuple(sorted(needed, key=lambda wall: (wall.view, wall.is_ceiling)))


def shown_views(
    directions: NDArray | None, X: NDArray, domain: Domain, walls: Iterable[Wall]
) -> dict[int, Shown]:
    """How the views that have walls are printed.

    The weights of a sum are rounded to as few digits as leave all rows on their sides of its
    walls; the values are those of the sum as printed.
    """
    features = view_features(directions, X.shape[1])
    shown: dict[int, Shown] = {}
    by_view: dict[int, list[Wall]] = {}
    for wall in walls:
        by_view.setdefault(wall.view, []).append(wall)
    for m in sorted(by_view):
        p = int(features[m])
        if p >= 0:
            shown[m] = Shown(domain.names[p], X[:, p], p)
            continue
        assert directions is not None
        name = f"sum {1 + sum(view.feature < 0 for view in shown.values())}"
        for digits in range(FEWEST_DIGITS, ALL_DIGITS + 1):
            weights = np.array([float(f"{w:.{digits}g}") for w in directions[m]])
            values = views_of(X, weights[None])[:, 0]
            if all(_parts(values, wall) for wall in by_view[m]):
                break
        shown[m] = Shown(name, values, -1, _sum_text(weights, domain))
    return shown


def conditions_of(
    walls: Iterable[Wall], shown: dict[int, Shown], domain: Domain
) -> tuple[Condition, ...]:
    """A condition for each view that has walls, by the order of views."""
    limits: dict[int, list[float]] = {}
    for wall in walls:
        limits.setdefault(wall.view, [-np.inf, np.inf])[wall.is_ceiling] = _limit(
            shown[wall.view].values, wall
        )
    return tuple(
        Condition(shown[m].name, low, high, _text(shown[m], low, high, domain))
        for m, (low, high) in limits.items()
    )


def _parts(values: NDArray, wall: Wall) -> bool:
    """Whether one limit of the values keeps the same rows inside."""
    signed = -values if wall.is_ceiling else values
    inside, outside = signed[wall.inside], signed[~wall.inside]
    return not (inside.size and outside.size) or bool(outside.max() < inside.min())


def _limit(values: NDArray, wall: Wall) -> float:
    """The shortest number between the rows outside and those inside."""
    sign = -1.0 if wall.is_ceiling else 1.0
    signed = sign * values
    first = float(signed[wall.inside].min())
    last = float(signed[~wall.inside].max())
    # Rounding upwards of the negative is downwards of a ceiling.
    return sign * simplest_between(last, first) if last < first else sign * first


def _text(view: Shown, low: float, high: float, domain: Domain) -> str:
    p = view.feature
    if p >= 0 and domain.category_of[p] >= 0:
        category = domain.categories[domain.category_of[p]]
        word = str(category.words[category.features.index(p)])
        return f"{category.name} is {'not ' if low == -np.inf else ''}{word!r}"
    possible = [v for v in domain.values.get(p, ()) if low <= v <= high]
    if len(possible) == 1:
        return f"{view.name} = {domain.number(p, possible[0])}"
    if high == np.inf:
        return f"{view.name} ≥ {domain.number(p, low)}"
    if low == -np.inf:
        return f"{view.name} ≤ {domain.number(p, high)}"
    return f"{domain.number(p, low)} ≤ {view.name} ≤ {domain.number(p, high)}"


def _sum_text(weights: NDArray, domain: Domain) -> str:
    """A sum, its terms by how much they usually move it."""
    text = ""
    terms = np.flatnonzero(weights)
    for p in terms[np.argsort(-np.abs(weights * domain.unit)[terms], kind="stable")].tolist():
        sign = "−" if weights[p] < 0 else "+"
        text += f" {sign} " if text else sign.replace("+", "")
        text += f"{number_text(abs(weights[p]))}·{in_product(domain.names[p])}"
    return text or "0"
