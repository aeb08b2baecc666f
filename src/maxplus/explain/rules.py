"""Boxes of a model as rules, counted on rows of a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxplus.explain._checks import check_class_names, check_domain, check_model
from maxplus.explain.additive_rules import winning_boxes
from maxplus.explain.conditions import Condition, box_conditions
from maxplus.explain.domain import Domain
from maxplus.explain.explanation import as_table, records
from maxplus.models import LMM, AdditiveLMM
from maxplus.models._checks import as_labels, as_rows

# Halvings of the interval that a box's level lies in.
BISECTIONS = 60
# Units in the last place of the weights by which a rule's class has to win.
ROUNDINGS = 8.0


class Rule(NamedTuple):
    """A box of the model in which one class wins, and how many rows of a table it holds.

    ``rows`` meet all conditions, ``right`` of these are of the class. ``decides`` rows, inside or
    not, have their predicted class from the unit that the rule is made of. A rule of a sum of
    terms is made of no single unit: ``unit`` is the number of its box, and ``decides`` is ``rows``.
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
    """Rules, those that decide most rows first; ``print``, or take ``to_table()``.

    Attributes
    ----------
    rules : tuple of Rule
    n_rows : how many rows they are counted on
    n_hidden : boxes left out because they hold no row, or no larger share of their class than
        all rows do
    """

    rules: tuple[Rule, ...]
    n_rows: int
    n_hidden: int = 0

    def __len__(self) -> int:
        """Return the number of rules."""
        return len(self.rules)

    def __iter__(self) -> Iterator[Rule]:
        """Iterate over the rules in the order of printing."""
        return iter(self.rules)

    def __getitem__(self, k: int) -> Rule:
        """Rule k, from 0."""
        return self.rules[k]

    def __str__(self) -> str:
        """Return all rules, a line for each, and below them how many boxes are not shown."""
        lines = [str(rule) for rule in self.rules] or ["no rules"]
        if self.n_hidden:
            boxes = "1 box" if self.n_hidden == 1 else f"{self.n_hidden} boxes"
            lines.append(f"{boxes} not shown: no row, or no larger share of the class than overall")
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
    """Limits of the features, (P,) each, infinite where there is none."""

    low: NDArray
    high: NDArray


def strongest_rules(
    model: LMM | AdditiveLMM,
    X: ArrayLike,
    y: ArrayLike,
    domain: Domain,
    class_names: Sequence[str],
    n: int = 10,
) -> Rules:
    """Return the boxes of the units that decide most rows, as rules.

    A unit h with the largest output for class d has the box {x: g_h(x) ≥ t}, one limit for each
    row i of W0: W0[i]·x[i // 2] + W1[i, h] ≥ t. The rule is the largest such box in which no other
    class can win, among the values that the domain allows:

        t + W2[h, d] > g_k(x) + W2[k, e]  for all units k, classes e ≠ d and x in the box.

    A limit is left out where it is not needed for that: if W1[i, h] + W2[h, d] exceeds
    W1[i, k] + W2[k, e] for all k and e, unit h is ahead wherever row i is its minimum; or if the
    domain has no values beyond it. Limits are rounded inwards, to a hundredth of the column's
    unit. So a rule depends on the model and the domain alone. Neither X nor y changes it: they
    are what ``rows``, ``right`` and ``decides`` are counted on, by the conditions as printed.

    Units that decide no row of X have no rule. Boxes that hold no row, or of whose rows no
    larger share is of the class than of all rows, are counted in ``n_hidden``.
    O(N·P·H), and O(P·H) for each rule.

    A sum of terms has no units that decide alone. Its rules are boxes in which the least margin
    of the class over any other, summed over all terms, is above 0: each holds as few conditions as
    that needs, and no label or row changes it either (``explain/additive_rules.py``).

    Parameters
    ----------
    model : LMM or AdditiveLMM
    X : array of shape (N, P), the rows that rules are counted on
    y : classes 0..C−1 of shape (N,)
    domain : Domain, for names, words and the values that columns can take
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
    check_model(model)
    rows = as_rows(X, model.n_features, np.float64)
    labels = as_labels(y, len(rows), model.n_classes)
    check_domain(domain, model.n_features)
    check_class_names(class_names, model)
    share = np.bincount(labels, minlength=model.n_classes) / max(len(rows), 1)
    if isinstance(model, AdditiveLMM):
        return _rules_of_sums(model, rows, labels, domain, class_names, n, share)
    winners = model.scores(rows).argmax(axis=1)
    deciding = model.active_path(rows).unit[np.arange(len(rows)), winners]
    decides = np.bincount(deciding, minlength=model.n_hidden)
    exact = model.astype(np.float64)
    whole = _Box(domain.low.astype(np.float64), domain.high.astype(np.float64))
    margin = ROUNDINGS * float(np.finfo(model.dtype).eps)
    margin *= float(np.abs(exact.W1).max() + np.abs(exact.W2).max())
    rules: list[Rule] = []
    n_hidden = 0
    for unit in np.argsort(-decides, kind="stable")[: np.count_nonzero(decides)].tolist():
        if len(rules) == n:
            break
        box = _winning_box(exact, unit, whole, margin)
        conditions = () if box is None else box_conditions(domain, box.low, box.high)
        if box is not None and not conditions:
            continue  # The class wins everywhere.
        inside = np.full(len(rows), box is not None)
        for condition in conditions:
            inside &= condition.holds(rows)
        d = int(exact.W2[unit].argmax())
        n_inside, right = int(inside.sum()), int((inside & (labels == d)).sum())
        if right > share[d] * n_inside:
            name = str(class_names[d])
            rules.append(Rule(unit, name, conditions, n_inside, right, int(decides[unit])))
        else:
            n_hidden += 1
    return Rules(tuple(rules), len(rows), n_hidden)


def _rules_of_sums(
    model: AdditiveLMM, rows: NDArray, labels: NDArray, domain: Domain,
    class_names: Sequence[str], n: int, share: NDArray,
) -> Rules:  # fmt: skip
    """Return the boxes in which a class of a sum wins; those that hold most rows first."""
    rules, n_hidden = [], 0
    for k, box in enumerate(winning_boxes(model, domain)):
        inside = np.ones(len(rows), bool)
        for condition in box.conditions:
            inside &= condition.holds(rows)
        n_inside, right = int(inside.sum()), int((inside & (labels == box.label)).sum())
        if right > share[box.label] * n_inside:
            name = str(class_names[box.label])
            rules.append(Rule(k, name, box.conditions, n_inside, right, n_inside))
        else:
            n_hidden += 1
    rules.sort(key=lambda rule: (-rule.rows, len(rule.conditions)))
    return Rules(tuple(rules[:n]), len(rows), n_hidden)


def _winning_box(model: LMM, unit: int, whole: _Box, margin: float) -> _Box | None:
    """Return the largest box of a unit in which its class wins by a margin, None if there is none.

    The higher the level t, the smaller the box and the scores that other classes reach in it.
    So there is a least level, found by bisection; O(P·H) for each step. ``whole`` is the box of
    all values that the domain allows.
    """
    d = int(model.W2[unit].argmax())
    others = np.delete(model.W2, d, axis=1).max(axis=1, initial=-np.inf)
    own = model.W2[unit, d] - margin
    ahead = (model.W1 + others).max(axis=1) < model.W1[:, unit] + own
    needed = np.flatnonzero(~ahead)

    def wins(t: float) -> bool:
        box = _box_at(model, unit, t, needed, whole)
        if (box.low > box.high).any():
            return True
        return bool((_highest(model, box) + others).max() < t + own)

    # Any level to begin with, then steps that double in both directions.
    low = high = float(model.W1[needed, unit].min(initial=0.0))
    step = max(1.0, abs(low))
    while not wins(high):
        high, step = high + step, 2.0 * step
        if not np.isfinite(high):
            return None
    step = max(1.0, abs(high))
    while wins(low):
        low, step = low - step, 2.0 * step
        if not np.isfinite(low):
            return whole
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if wins(middle) else (middle, high)
    box = _box_at(model, unit, high, needed, whole)
    return None if (box.low > box.high).any() else box


def _box_at(model: LMM, unit: int, level: float, needed: NDArray, whole: _Box) -> _Box:
    """Return where the needed rows of a unit are at least a level, among possible values."""
    low, high = whole.low.copy(), whole.high.copy()
    feature, slope, above = needed // 2, model.W0[needed], level - model.W1[needed, unit]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        limit = above / slope
    # A row without a slope that is below the level leaves nothing inside.
    is_floor = (slope > 0.0) | ((slope == 0.0) & (above > 0.0))
    np.maximum.at(low, feature[is_floor], limit[is_floor])
    np.minimum.at(high, feature[slope < 0.0], limit[slope < 0.0])
    return _Box(low, high)


def _highest(model: LMM, box: _Box) -> NDArray:
    """Return the highest value of each unit in a box, (H,); exact: features are independent."""
    a, b = model.slopes.T
    A, B = np.moveaxis(model.offsets, -1, 0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        crossing = (B - A) / (a - b)
        ends = (box.low, box.high, np.clip(crossing, box.low, box.high))
        values = [np.fmin(_line(a, A, v), _line(b, B, v)) for v in ends]
    return np.fmax.reduce(values).min(axis=1)


def _line(slope: NDArray, offset: NDArray, v: NDArray) -> NDArray:
    """Return slope·v + offset, where v may be infinite."""
    return np.where(slope == 0.0, 0.0, slope * v) + offset
