"""The strongest boxes of an LMM as rules, true of the rows that they are counted on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import rel_entr

from maxplus.explain._checks import EACH_MEMBER, check_class_names, check_domain, check_lmm
from maxplus.explain.conditions import Condition, Wall, conditions_of, needed_walls, shown_views
from maxplus.explain.domain import Domain
from maxplus.explain.explanation import as_table, records
from maxplus.models import LMM
from maxplus.models._checks import as_labels, as_rows

# Part of a box's strength that its rule keeps, with fewer walls.
KEPT = 0.9


class Rule(NamedTuple):
    """Rows that meet all conditions are mostly of one class.

    ``rows`` meet them, ``right`` of these are of the class. ``decides`` rows, inside or not, have
    their predicted class from the unit that the rule is made of.
    """

    unit: int
    label: str
    conditions: tuple[Condition, ...]
    rows: int
    right: int
    decides: int

    @property
    def premise(self) -> str:
        """The conditions in words."""
        return " and ".join(condition.text for condition in self.conditions)

    def __str__(self) -> str:
        """Return the rule as one line."""
        return f"{self.premise} → {self.label}, {self.right} of {self.rows} rows"


@dataclass(frozen=True)
class Rules:
    """Rules, strongest first; ``print`` them, or take ``to_table()``.

    Attributes
    ----------
    rules : tuple of Rule
    n_rows : how many rows they are counted on
    definitions : the weighted sums that rules speak of, by name, as printed
    """

    rules: tuple[Rule, ...]
    n_rows: int
    definitions: dict[str, str]

    def __len__(self) -> int:
        """Return the number of rules."""
        return len(self.rules)

    def __iter__(self) -> Iterator[Rule]:
        """Strongest first."""
        return iter(self.rules)

    def __getitem__(self, k: int) -> Rule:
        """Rule k, from 0."""
        return self.rules[k]

    def __str__(self) -> str:
        """Return all rules, a line for each, and below them what their sums are."""
        if not self.rules:
            return "no box holds more rows of its class than chance would put there"
        lines = [str(rule) for rule in self.rules]
        if self.definitions:
            lines += ["where", *(f"  {name} = {s}" for name, s in self.definitions.items())]
        return "\n".join(lines)

    def to_records(self) -> np.recarray:
        """One record per rule.

        Returns
        -------
        numpy.recarray
        """
        columns = {
            "unit": np.array([rule.unit for rule in self.rules], int),
            "class": np.array([rule.label for rule in self.rules], str),
            "rule": np.array([rule.premise for rule in self.rules], str),
            "rows": np.array([rule.rows for rule in self.rules], int),
            "right": np.array([rule.right for rule in self.rules], int),
            "decides": np.array([rule.decides for rule in self.rules], int),
        }
        return records(columns)

    def to_table(self) -> Any:
        """`to_records` as a pandas DataFrame if pandas is installed.

        Returns
        -------
        pandas.DataFrame or numpy.recarray
        """
        return as_table(self.to_records())


class _Box(NamedTuple):
    """A unit's box at the level where it is strongest, and how strong it is."""

    strength: float
    unit: int
    level: float


def strongest_rules(
    model: LMM,
    X: ArrayLike,
    y: ArrayLike,
    domain: Domain,
    class_names: Sequence[str],
    n: int = 10,
) -> Rules:
    """The n strongest boxes as rules.

    A unit's box {x: g_h(x) ≥ level} speaks for the class that its output is largest for. The
    level is one of the unit's values on the rows: the one at which the box tells most of its
    rows, by how much likelier their classes are with the share right / rows of the class inside
    than with its share q among all rows,

        right·log((right / rows) / q) + wrong·log((wrong / rows) / (1 − q)).

    Boxes are strongest by that number; of rules with the same rows, the strongest box's is
    shown. All rows inside a box count, whichever unit decides them; ``decides`` counts those
    that the unit decides.

    Walls that keep no row out, or hardly any that matter, are left out, one after the other, as
    long as nine tenths of that number are left. Limits are printed as the shortest number
    between the last row outside and the first inside, sums of features with as many digits as
    keep all rows on their sides, and rows are counted by the rule as printed. O(N·P·H).

    Parameters
    ----------
    model : LMM
    X : array of shape (N, P), the rows that rules are counted on
    y : classes 0..C−1 of shape (N,)
    domain : Domain, for names and words
    class_names : C words
    n : how many rules at most

    Returns
    -------
    Rules

    Examples
    --------
    >>> from maxplus.explain import Domain, strongest_rules
    >>> from sklearn.datasets import load_iris
    >>> from maxplus import LMMClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = LMMClassifier(6, slope=4.0, warmup_epochs=2, random_state=0).fit(X, y)
    >>> model = clf.model_
    >>> found = strongest_rules(model, X, y, Domain.free(4), ["a", "b", "c"], n=3)
    >>> len(found)
    3
    """
    check_lmm(model, "rules are those of", EACH_MEMBER)
    rows = as_rows(X, model.n_features, np.float64)
    labels = as_labels(y, len(rows), model.n_classes)
    check_domain(domain, model.n_features)
    check_class_names(class_names, model)
    favourite, V = model.W2.argmax(axis=1), model.views(rows)
    share = np.bincount(labels, minlength=model.n_classes) / max(len(rows), 1)
    G = model.hidden(rows)
    boxes = [_box(h, G[:, h], labels == d, share[d]) for h, d in enumerate(favourite)]
    strong: dict[bytes, tuple[int, tuple[Wall, ...]]] = {}
    for box in sorted((box for box in boxes if box.strength > 0.0), key=lambda box: -box.strength):
        if len(strong) == n:
            break
        d = favourite[box.unit]

        def is_enough(inside: NDArray, box: _Box = box, d: int = d) -> bool:
            right = (inside & (labels == d)).sum()
            return bool(_strength(inside.sum(), right, share[d]) >= KEPT * box.strength)

        walls = needed_walls(_walls(model, box, V), is_enough)
        if walls:
            inside = np.all([wall.inside for wall in walls], axis=0)
            strong.setdefault(inside.tobytes(), (box.unit, walls))
    every = [wall for _, walls in strong.values() for wall in walls]
    shown = shown_views(model.directions, rows, domain, every)
    values = {view.name: view.values for view in shown.values()}
    winners = model.scores(rows).argmax(axis=1)
    deciding = model.active_path(rows).unit[np.arange(len(rows)), winners]
    rules = []
    for unit, walls in strong.values():
        d = int(favourite[unit])
        conditions = conditions_of(walls, shown, domain)
        inside = np.all([c.holds(values[c.name]) for c in conditions], axis=0)
        rules.append(
            Rule(
                unit, str(class_names[d]), conditions, int(inside.sum()),
                int((inside & (labels == d)).sum()), int((deciding == unit).sum()),
            )
        )  # fmt: skip
    return Rules(
        tuple(rules),
        len(rows),
        {view.name: view.definition for view in shown.values() if view.feature < 0},
    )


def _strength(rows: ArrayLike, right: ArrayLike, share: float) -> NDArray:
    """How much likelier ``right`` of ``rows`` are with a share of their own; 0 if that is lower."""
    n, r = np.asarray(rows, float), np.asarray(right, float)
    likelier = rel_entr(r, n * share) + rel_entr(n - r, n * (1.0 - share))
    return np.where(r > n * share, likelier, 0.0)


def _box(h: int, g: NDArray, is_own: NDArray, share: float) -> _Box:
    """The strongest box of unit h, of values g on the rows; O(N·log N)."""
    order = np.argsort(-g, kind="stable")
    strength = _strength(np.arange(1, g.size + 1), np.cumsum(is_own[order]), share)
    # A level takes all rows of equal value, so that only the last of them is one.
    is_last = np.append(g[order][1:] != g[order][:-1], True)
    best = np.where(is_last, strength, -1.0).argmax()
    return _Box(float(strength[best]), h, float(g[order[best]]))


def _walls(model: LMM, box: _Box, V: NDArray) -> list[Wall]:
    """The walls of a box that keep any row out, at most two for each view; O(N·P)."""
    walls: dict[tuple[int, bool], Wall] = {}
    for i in np.flatnonzero(model.W0).tolist():
        inside = model.W0[i] * V[:, i // 2] + model.W1[i, box.unit] >= box.level
        key = i // 2, bool(model.W0[i] < 0)
        # Two rows of one sign make one wall.
        if key in walls:
            inside = inside & walls[key].inside
        if not inside.all():
            walls[key] = Wall(*key, inside)
    return list(walls.values())
