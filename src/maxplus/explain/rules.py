"""Rules: boxes in which one class provably wins, with their support and precision on a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from maxplus.explain._shared import Tabular, check_class_names, check_domain, check_model, records
from maxplus.explain.domain import Domain
from maxplus.explain.winning_boxes import Condition, rule_boxes
from maxplus.models._checks import as_labels, as_rows
from maxplus.models.lmm import TermSum


class Rule(NamedTuple):
    """A box in which one class wins, and its counts on the rows of a table.

    ``rows`` is the number of rows that meet all conditions, ``correct`` the number of these with
    the class of the rule, and ``decides`` the number of rows, inside or not, whose predicted class
    is determined by the unit of the rule. For a sum of terms, ``unit`` is the number of the box,
    and ``decides`` equals ``rows``.
    ``base_rate`` is the share of the class among all rows of the table.
    """

    unit: int
    label: str
    conditions: tuple[Condition, ...]
    rows: int
    correct: int
    decides: int
    base_rate: float

    @property
    def premise(self) -> str:
        """Conditions of the rule as text."""
        return " and ".join(condition.text for condition in self.conditions)

    def __str__(self) -> str:
        """Return the rule as one line."""
        return f"{self.premise} → {self.label}, {self.correct} of {self.rows} rows"


@dataclass(frozen=True)
class Rules(Tabular):
    """Rules, sorted by the number of rows that they decide; ``to_frame`` gives a data frame.

    Attributes
    ----------
    rules : tuple of Rule
    n_rows : number of rows of the table
    n_omitted : number of boxes omitted because they contain no rows, or because their precision
        does not exceed the frequency of their class
    """

    rules: tuple[Rule, ...]
    n_rows: int
    n_omitted: int = 0

    def __len__(self) -> int:
        """Return the number of rules."""
        return len(self.rules)

    def __iter__(self) -> Iterator[Rule]:
        """Iterate over the rules in the order of printing."""
        return iter(self.rules)

    def __getitem__(self, k: int) -> Rule:
        """Return rule k (zero-based)."""
        return self.rules[k]

    def __str__(self) -> str:
        """Return the rules, a line for each, followed by the number of boxes not shown."""
        lines = [str(rule) for rule in self.rules] or ["no rules"]
        if self.n_omitted:
            boxes = "1 box" if self.n_omitted == 1 else f"{self.n_omitted} boxes"
            lines.append(
                f"{boxes} not shown: no rows, or a precision not above the frequency of the class"
            )
        return "\n".join(lines)

    def to_records(self) -> np.recarray:
        """Return one record for each rule; ``to_frame`` has the same columns.

        ``rule`` is the text of the conditions, ``prediction`` the class, ``support`` the share of
        all rows that meet the conditions, ``precision`` the share of these with the class, and
        ``lift`` the precision divided by the share of the class among all rows.
        """
        precision = np.array([rule.correct / rule.rows for rule in self.rules], float)
        columns = {
            "rule": np.array([rule.premise for rule in self.rules], str),
            "prediction": np.array([rule.label for rule in self.rules], str),
            "support": np.array([rule.rows / self.n_rows for rule in self.rules], float),
            "precision": precision,
            "lift": precision / np.array([rule.base_rate for rule in self.rules], float),
        }
        return records(columns)


def strongest_rules(
    model: TermSum,
    X: ArrayLike,
    y: ArrayLike,
    domain: Domain,
    class_names: Sequence[str],
    n: int = 10,
) -> Rules:
    """Return the boxes of the units that decide the most rows, as rules.

    A unit h with the largest output for class d has the box {x: g_h(x) ≥ t}, with one limit for
    each row i of W0: W0[i]·x[i // 2] + W1[i, h] ≥ t. The rule is the largest such box in which no
    other class can win for any values in the domain:

        t + W2[h, d] > g_k(x) + W2[k, e]  for all units k, classes e ≠ d and x in the box.

    A limit is omitted if the domain has no values beyond it, or if W1[i, h] + W2[h, d] exceeds
    W1[i, k] + W2[k, e] for all k and e: unit h is then ahead wherever row i is its minimum. Limits
    are rounded inwards, by at most a hundredth of the column's unit. A rule depends only on the
    model and the domain. X and y are used to compute the counts ``rows``, ``correct`` (both for the
    rounded limits) and ``decides``.

    Units that decide no row of X have no rule. Boxes that contain no rows, or whose precision does
    not exceed the frequency of their class, are counted in ``n_omitted``. O(N·P·H), and O(P·H)
    for each rule.

    The rules of a sum of terms are boxes in which the smallest margin of the class over any other
    class, summed over all terms, is positive, with as few conditions as possible. They do not
    depend on X and y either.

    Parameters
    ----------
    model : LMM or AdditiveLMM
    X : array of shape (N, P), the rows for the counts
    y : array of shape (N,), classes 0..C−1
    domain : Domain, the columns and the values that they may take
    class_names : names of the C classes
    n : maximum number of rules

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
    rules: list[Rule] = []
    n_omitted = 0
    for unit, label, conditions, decides in rule_boxes(model, rows, domain):
        inside = np.full(len(rows), conditions is not None)
        for condition in conditions or ():
            inside &= condition.holds(rows)
        n_inside, correct = int(inside.sum()), int((inside & (labels == label)).sum())
        if conditions is not None and correct > share[label] * n_inside:
            n_decided = n_inside if decides is None else decides
            name, base_rate = str(class_names[label]), float(share[label])
            rules.append(Rule(unit, name, conditions, n_inside, correct, n_decided, base_rate))
        else:
            n_omitted += 1
        if decides is not None and len(rules) == n:
            break  # Boxes of units are in their final order.
    if model.is_sum:
        rules.sort(key=lambda rule: (-rule.rows, len(rule.conditions)))
    return Rules(tuple(rules[:n]), len(rows), n_omitted)
