"""Explanations of sums of terms, as a table and as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxplus.explain.contributions import (
    Contributions,
    columns_of,
    contributions,
    groups_of,
    signed,
)
from maxplus.explain.domain import Domain
from maxplus.explain.explanation import as_table, records
from maxplus.explain.flip_words import FlipWords
from maxplus.explain.flips import Flips, single_flips
from maxplus.models import LMM, AdditiveLMM
from maxplus.models._checks import check_index
from maxplus.models._softmax import softmax
from maxplus.models.additive import breakpoints


@dataclass(frozen=True)
class AdditiveExplanation:
    """Reasons for the class of each row rather than the next, and the change that flips it.

    Attributes
    ----------
    contributions : Contributions, the margin over the next class as an exact sum over columns
    score, probability : arrays of shape (N, C)
    flips : Flips, the smallest change of one column that makes another class win
    walls : array of shape (N, G, 2), in raw units
        The interval around a row's value of a single number in which the terms of that number have
        the same slopes, for both classes; ±inf where there is no end, and for other groups.
    missing : array of shape (N, columns of the domain) of bool, or None
        Values that the rows lacked, and that were filled in.
    row_numbers : N whole numbers of the rows in the text; 1 to N by default
    """

    contributions: Contributions
    score: NDArray
    probability: NDArray
    flips: Flips
    walls: NDArray
    missing: NDArray | None = None
    row_numbers: Sequence[int] | None = None

    def __len__(self) -> int:
        """Return the number of rows explained."""
        return len(self.contributions)

    @property
    def X(self) -> NDArray:
        """The rows, (N, P)."""
        return self.contributions.X

    @property
    def predicted(self) -> NDArray:
        """Each row's winning class, as a position among all."""
        return self.contributions.predicted

    @property
    def domain(self) -> Domain:
        """The columns and the values that they may take."""
        return self.contributions.domain

    @property
    def class_names(self) -> Sequence[str]:
        """Names of the classes."""
        return self.contributions.class_names

    @property
    def feature_names(self) -> Sequence[str]:
        """Names of the features."""
        return self.domain.names

    @cached_property
    def words(self) -> FlipWords:
        """The flips in words."""
        return FlipWords(self.X, self.flips, self.domain, self.class_names, self.missing)

    def to_records(self) -> np.recarray:
        """Return a record per row and group of columns, the largest contributions of a row first.

        ``baseline`` plus the ``contribution`` of all records of a row is its ``margin``, the
        difference of the scores of ``class`` and ``rival``. ``low`` and ``high`` are the ``walls``.
        The fields ``flip_…`` are those of `Explanation.to_records`.

        Returns
        -------
        numpy.recarray
        """
        why = self.contributions
        lines = why.lines()
        row, g = lines["row"], lines["group"]
        classes = np.array([str(name) for name in self.class_names])
        return records(
            {
                "row": row,
                "class": classes[why.predicted][row],
                "rival": classes[why.rival][row],
                "probability": self.probability[row, why.predicted[row]],
                "margin": why.margin[row],
                "baseline": why.baseline[row],
                "columns": lines["columns"],
                "value": lines["value"],
                "contribution": lines["contribution"],
                "low": self.walls[row, g, 0],
                "high": self.walls[row, g, 1],
                **{f"flip_{name}": column[row] for name, column in self.words.columns().items()},
            }
        )

    def to_table(self) -> Any:
        """Return `to_records` as a pandas DataFrame if pandas is installed.

        Returns
        -------
        pandas.DataFrame or numpy.recarray
        """
        return as_table(self.to_records())

    def __str__(self) -> str:
        """Return all rows in words."""
        return "\n\n".join(self.text(n) for n in range(len(self)))

    def text(self, n: int) -> str:
        """Return row n in words: its class, the largest contributions, and its flip.

        Parameters
        ----------
        n : int
            The row, from 0.

        Returns
        -------
        str
        """
        n = check_index("n", n, len(self))
        why = self.contributions
        number = n + 1 if self.row_numbers is None else self.row_numbers[n]
        winner, rival = (str(self.class_names[d]) for d in (why.predicted[n], why.rival[n]))
        lines = [
            f"Row {number}: {winner} (probability {self.probability[n, why.predicted[n]]:.3f})",
            f"  {winner} rather than {rival}: margin {signed(why.margin[n], '')}, the sum of",
            f"    {signed(why.baseline[n], '')} on average",
        ]
        for g in why.named(n):
            phrase = why.phrase(n, g) + self._wall_text(n, g)
            lines.append(f"    {signed(why.contribution[n, g], '')} from {phrase}")
        value, what = why.remainder(n)
        lines += [f"    {signed(value, '')} from {what}"] if what else []
        return "\n".join(lines + ["  " + sentence for sentence in self.words.sentences(n)])

    def _wall_text(self, n: int, g: int) -> str:
        """Return the walls around the value of group g in words: " (between 54.5 and 68)"."""
        p = self.contributions.groups[g][0]
        decimals = 1 - int(np.floor(np.log10(self.domain.unit[p])))
        low, high = (self.domain.number(p, round(float(w), decimals)) if np.isfinite(w) else ""
                     for w in self.walls[n, g])  # fmt: skip
        if low and high:
            return f" (between {low} and {high})"
        return f" (above {low})" if low else f" (below {high})" if high else ""


def explain_additive(
    model: AdditiveLMM,
    X: ArrayLike,
    baseline: ArrayLike,
    class_names: Sequence[str],
    domain: Domain,
    *,
    missing: NDArray | None = None,
    row_numbers: Sequence[int] | None = None,
) -> AdditiveExplanation:
    """Explain the predictions of a sum of terms.

    Parameters
    ----------
    model : AdditiveLMM with at least two classes
    X : array of shape (N, P), in raw units
    baseline : array of shape (T, C)
        Mean scores of each term over the training rows: `term_means`.
    class_names : C words
    domain : Domain
        The columns, their names, and the values that they may take.
    missing : array of shape (N, columns of the domain) of bool, optional
        Values that the rows lacked, and that were filled in.
    row_numbers : N whole numbers, optional
        Numbers of the rows in the text; 1 to N by default.

    Returns
    -------
    AdditiveExplanation

    Examples
    --------
    >>> import numpy as np
    >>> from maxplus.explain import Domain, explain_additive, term_means
    >>> from maxplus.models import LMM, AdditiveLMM, Term
    >>> steps = LMM.of_boxes([[0.0], [1.0]], 0.5, np.eye(2), slope=1.0)
    >>> model = AdditiveLMM([Term([0], steps), Term([1], steps)], n_features=2)
    >>> means = term_means(model, np.array([[0.0, 0.0], [1.0, 0.0]]))
    >>> domain = Domain.free(2, names=["age", "mg"]).within(0, 1)
    >>> print(explain_additive(model, [[1.0, 0.25]], means, ["ill", "well"], domain))
    Row 1: well (probability 0.622)
      well rather than ill: margin +0.50, the sum of
        −1.00 on average
        +1.00 from age = 1 (above 1)
        +0.50 from mg = 0.25 (between 0 and 1)
      flips to ill if age goes from 1 to 0.7: no other single feature needs less
    """
    why = contributions(model, X, baseline, class_names=class_names, domain=domain)
    score = model.scores(why.X)
    return AdditiveExplanation(
        why, score, softmax(score), single_flips(model, why.X, domain), _walls(model, why),
        missing, row_numbers,
    )  # fmt: skip


def _walls(model: AdditiveLMM, why: Contributions) -> NDArray:
    """Return the interval around each value of a single number in which slopes are the same.

    O(N·log H) for each number, and O(C·H·log H) for its terms.
    """
    domain, U = why.domain, model.mapped(why.X).astype(np.float64)
    walls = np.tile([-np.inf, np.inf], (*why.contribution.shape, 1))
    _, group_of = groups_of(model, columns_of(domain))
    is_rank = {p for p, values in domain.values.items() if len(values) <= 2} | set(domain.ranks)
    for g, group in enumerate(why.groups):
        p = group[0]
        terms = [model.terms[t] for t in np.flatnonzero(group_of == g)]
        lmms = [lmm.astype(np.float64) for features, lmm in terms if features.tolist() == [p]]
        is_joint = any(features.size > 1 for features, _ in terms)
        if is_joint or not lmms or p in is_rank or domain.category_of[p] >= 0:
            continue
        for classes in (why.predicted, why.rival):
            for d in np.unique(classes):
                own = np.flatnonzero((classes == d) & ~why.is_missing[:, p])
                ends = _around(lmms, d, U[own, p])
                if model.feature_map is not None:
                    ends = model.feature_map.inverse(p, ends)
                walls[own, g, 0] = np.maximum(walls[own, g, 0], ends[:, 0])
                walls[own, g, 1] = np.minimum(walls[own, g, 1], ends[:, 1])
    return walls


def _around(lmms: Sequence[LMM], d: int, u: NDArray) -> NDArray:
    """Return the breakpoints of class d next to each mapped value, (N, 2), or ±inf."""
    points = [breakpoints(LMM(lmm.W0, lmm.W1, lmm.W2[:, [d]])) for lmm in lmms]
    ends = np.concatenate([[-np.inf], np.sort(np.concatenate(points)), [np.inf]])
    k = np.clip(np.searchsorted(ends, u, side="right"), 1, ends.size - 1)
    return np.stack([ends[k - 1], ends[k]], axis=1)
