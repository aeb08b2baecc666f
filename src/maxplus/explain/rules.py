"""Rules: boxes in which one class provably has the highest score, with support and precision."""

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
    """A box in which one class has the highest score, and counts of samples.

    Attributes
    ----------
    unit : index of the unit or, for a sum of terms, of the box
    label : name of the class
    conditions : tuple of Condition, the limits of the box
    n_rows : number of samples that meet all conditions
    n_correct : number of these samples that belong to the class
    n_decided : number of samples, in the box or not, whose predicted class the unit determines
        For a sum of terms, it equals ``n_rows``.
    base_rate : fraction of all samples that belong to the class
    """

    unit: int
    label: str
    conditions: tuple[Condition, ...]
    n_rows: int
    n_correct: int
    n_decided: int
    base_rate: float

    @property
    def premise(self) -> str:
        """Conditions of the rule as text."""
        return " and ".join(condition.text for condition in self.conditions)

    def __str__(self) -> str:
        """Return the rule as one line."""
        return f"{self.premise} → {self.label}, {self.n_correct} of {self.n_rows} rows"


@dataclass(frozen=True)
class Rules(Tabular):
    """Rules in descending order of `Rule.n_decided`.

    Attributes
    ----------
    rules : tuple of Rule
    n_rows : number of samples
    n_omitted : number of omitted boxes
        A box is omitted if it contains no samples, or if its precision does not exceed the
        frequency of its class. Boxes after the last rule of a single network are not counted.
    """

    rules: tuple[Rule, ...]
    n_rows: int
    n_omitted: int = 0

    def __len__(self) -> int:
        """Return the number of rules."""
        return len(self.rules)

    def __iter__(self) -> Iterator[Rule]:
        """Iterate over the rules in their order."""
        return iter(self.rules)

    def __getitem__(self, k: int) -> Rule:
        """Return rule k (zero-based)."""
        return self.rules[k]

    def __str__(self) -> str:
        """Return the rules, one per line, followed by the number of omitted boxes, if any."""
        lines = [str(rule) for rule in self.rules] or ["no rules"]
        if self.n_omitted:
            boxes = "1 box" if self.n_omitted == 1 else f"{self.n_omitted} boxes"
            lines.append(
                f"{boxes} not shown: no rows, or a precision not above the frequency of the class"
            )
        return "\n".join(lines)

    def to_records(self) -> np.recarray:
        """Return a record for each rule; ``to_frame`` has the same columns.

        ``rule`` is the text of the conditions, ``prediction`` the class, ``support`` the fraction
        of samples that meet the conditions, ``precision`` the fraction of these that belong to the
        class, and ``lift`` the precision divided by the frequency of the class.
        """
        precision = np.array([rule.n_correct / rule.n_rows for rule in self.rules], float)
        columns = {
            "rule": np.array([rule.premise for rule in self.rules], str),
            "prediction": np.array([rule.label for rule in self.rules], str),
            "support": np.array([rule.n_rows / self.n_rows for rule in self.rules], float),
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
    """Return boxes in which one class has the highest score, as rules.

    *Single networks.* If the largest output weight of unit h is W2[h, d], the sets {x: g_h(x) ≥ t}
    are boxes of class d, with one limit for each row i of W0: W0[i]·x[i // 2] + W1[i, h] ≥ t.
    The rule is the largest such box in which no other class can have the highest score for any
    values in the domain:

        t + W2[h, d] > g_k(x) + W2[k, e]  for all units k, classes e ≠ d and x in the box.

    A limit is omitted if the domain has no values beyond it, or if W1[i, h] + W2[h, d] exceeds
    W1[i, k] + W2[k, e] for all units k and classes e ≠ d, because class d then has the highest
    score wherever row i is the minimum of unit h. Units that determine the predicted class of no
    sample have no rule. O(N·P·H), and O(P·H) for each step of a bisection for each rule.

    *Sums of terms.* Rules are boxes in which, for each other class, the smallest margins of all
    terms over this class have a positive sum. They have at most ten conditions.

    Limits of continuous features are rounded inwards by at most a hundredth of the unit of the
    column, limits of other features to allowed values. The conditions of a rule depend only on the
    model and the domain. X and y are used to compute the counts ``n_rows``, ``n_correct`` (both for
    the rounded limits) and ``n_decided``, by which rules are sorted. Boxes that contain no samples,
    or whose precision does not exceed the frequency of their class, are omitted.

    Parameters
    ----------
    model : LMM or AdditiveLMM
    X : array of shape (N, P), the samples for the counts
    y : array of shape (N,), classes 0..C−1
    domain : Domain, the columns and the values that they may take
    class_names : names of the C classes
    n : int, default=10
        Maximum number of rules.

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
    >>> found = strongest_rules(model, X, y, Domain.unrestricted(4), ["a", "b", "c"], n=3)
    >>> len(found)
    3
    """
    check_model(model)
    X = as_rows(X, model.n_features, np.float64)
    labels = as_labels(y, len(X), model.n_classes)
    check_domain(domain, model.n_features)
    check_class_names(class_names, model)
    frequency = np.bincount(labels, minlength=model.n_classes) / max(len(X), 1)
    rules: list[Rule] = []
    n_omitted = 0
    for unit, label, conditions, n_decided in rule_boxes(model, X, domain):
        inside = np.full(len(X), conditions is not None)
        for condition in conditions or ():
            inside &= condition.holds(X)
        n_inside, correct = int(inside.sum()), int((inside & (labels == label)).sum())
        if conditions is not None and correct > frequency[label] * n_inside:
            n_decided = n_inside if n_decided is None else n_decided
            name, base_rate = str(class_names[label]), float(frequency[label])
            rules.append(Rule(unit, name, conditions, n_inside, correct, n_decided, base_rate))
        else:
            n_omitted += 1
        if not model.is_sum and len(rules) == n:
            break  # Boxes of units are already sorted by ``n_decided``.
    if model.is_sum:
        rules.sort(key=lambda rule: (-rule.n_rows, len(rule.conditions)))
    return Rules(tuple(rules[:n]), len(X), n_omitted)
