"""Explanations of a committee: the boxes that decided in each member, and what each counts for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxplus.explain._checks import check_class_names, check_domain
from maxplus.explain.domain import Domain
from maxplus.explain.explanation import as_table, cancelling, records, view_phrase
from maxplus.explain.flip_words import FlipWords
from maxplus.explain.flips import Flips, single_flips
from maxplus.explain.naming import view_names
from maxplus.explain.paths import Paths, decisive_paths
from maxplus.explain.units import unit_boxes
from maxplus.models import Committee
from maxplus.models._softmax import softmax


class MemberPaths(NamedTuple):
    """What decided one member's scores of N rows.

    Attributes
    ----------
    paths : Paths, its own scores; units are numbered through the committee
    slopes : array of shape (2M,), its W0
    views : array of shape (N, M), what it sees of the rows
    view_names : words for that
    directions : array of shape (M, P), or None
    centres : array of shape (H, M), where each of its units is highest along each view
    """

    paths: Paths
    slopes: NDArray
    views: NDArray
    view_names: list[str]
    directions: NDArray | None
    centres: NDArray


@dataclass(frozen=True)
class CommitteeExplanation:
    """What decided the scores of some rows, member by member.

    Each member's score of a class is one unit's and, in it, one view's; the committee's is the
    mean. The lead of the predicted class over the next is the sum of the members' *weights*,
    each the member's own lead divided by the number of members; a negative one speaks against.

    Attributes
    ----------
    X : array of shape (N, P), the rows
    members : what decided in each
    score, probability : arrays of shape (N, C), the committee's
    flips : Flips, the smallest change of one column that makes another class win
    class_names : words for the classes
    domain : Domain, what values columns can take, with words for them
    missing : array of shape (N, columns) of truth values: which values were missing, or None
    row_numbers : what people call the rows; from 1 on by default
    """

    X: NDArray
    members: Sequence[MemberPaths]
    score: NDArray
    probability: NDArray
    flips: Flips
    class_names: Sequence[str]
    domain: Domain
    missing: NDArray | None = None
    row_numbers: Sequence[int] | None = None

    def __len__(self) -> int:
        """Return the number of rows explained."""
        return len(self.X)

    @property
    def feature_names(self) -> Sequence[str]:
        """Words for the features."""
        return self.domain.names

    @cached_property
    def words(self) -> FlipWords:
        """The flips in words."""
        return FlipWords(self.X, self.flips, self.domain, self.class_names, self.missing)

    @cached_property
    def order(self) -> NDArray:
        """The classes of each row by falling score, (N, C)."""
        return np.argsort(-self.score, axis=1, kind="stable")

    @property
    def predicted(self) -> NDArray:
        """Each row's winning class, as a position among all."""
        return self.order[:, 0]

    @cached_property
    def weight(self) -> NDArray:
        """Each member's part in the lead of the predicted class over the next, (N, K)."""
        first, second = self.order[:, :1], self.order[:, 1:2]
        leads = [
            np.take_along_axis(member.paths.score, first, 1)
            - np.take_along_axis(member.paths.score, second, 1)
            for member in self.members
        ]
        return np.concatenate(leads, axis=1) / len(self.members)

    @cached_property
    def leader(self) -> NDArray:
        """The member that gives each class its highest score, (N, C)."""
        return np.argmax([member.paths.score for member in self.members], axis=0)

    @cached_property
    def paths(self) -> Paths:
        """The paths in each class's `leader`, with the committee's score."""
        _, *fields = (
            np.take_along_axis(np.stack(field), self.leader[None], axis=0)[0]
            for field in zip(*(member.paths for member in self.members), strict=True)
        )
        return Paths(self.score, *fields)

    @property
    def directions(self) -> NDArray | None:
        """Those of all members, one below another; None where all look at the features alone."""
        if all(member.directions is None for member in self.members):
            return None
        plain = np.eye(self.X.shape[1])
        return np.concatenate(
            [plain if member.directions is None else member.directions for member in self.members]
        )

    @property
    def centres(self) -> NDArray:
        """Where each unit of a committee without directions is highest along each feature."""
        return np.concatenate([member.centres for member in self.members])

    def to_records(self) -> np.recarray:
        """One record per row, class and member, rows first.

        ``feature`` names the view that set the member's score, and ``value`` is its value; where
        it ``cancels``, the member's lead does not depend on it (`Explanation.to_records`).

        Returns
        -------
        numpy.recarray
        """
        (N, C), K = self.score.shape, len(self.members)
        row, d, k = (axis.ravel() for axis in np.indices((N, C, K)))
        return records(
            {
                "row": row,
                "class": np.array([str(name) for name in self.class_names])[d],
                "predicted": self.predicted[row] == d,
                "score": self.score[row, d],
                "probability": self.probability[row, d],
                "member": k,
                "weight": self.weight[row, k],
                "member_score": self._of_members(lambda own: own.paths.score),
                "unit": self._of_members(lambda own: own.paths.unit),
                "feature": self._of_members(lambda own: np.array(own.view_names)[own.paths.view]),
                "value": self._of_members(
                    lambda own: np.take_along_axis(own.views, own.paths.view, axis=1)
                ),
                "slope": self._of_members(lambda own: own.slopes[own.paths.row]),
                "cancels": self._of_members(self._cancels),
                "runner_up": self._of_members(lambda own: own.paths.runner_up),
                "margin": self._of_members(lambda own: own.paths.margin),
                **{f"flip_{name}": column[row] for name, column in self.words.columns().items()},
            }
        )

    def _cancels(self, own: MemberPaths) -> NDArray:
        return cancelling(own.paths, own.slopes, self.order)

    def _of_members(self, column: Any) -> NDArray:
        """Arrays of shape (N, C), one for each member, as a column of the records."""
        return np.stack([column(member) for member in self.members], axis=-1).ravel()

    def to_table(self) -> Any:
        """`to_records` as a pandas DataFrame if pandas is installed.

        Returns
        -------
        pandas.DataFrame or numpy.recarray
        """
        return as_table(self.to_records())

    def __str__(self) -> str:
        """Return all rows in words."""
        return "\n\n".join(self.text(n) for n in range(len(self)))

    def text(self, n: int) -> str:
        """Row n in words: all scores, the members, those that count most first, and the flip.

        Parameters
        ----------
        n : int
            The row, from 0.

        Returns
        -------
        str
        """
        first, second = self.order[n, :2]
        lead = self.score[n, first] - self.score[n, second]
        names, probability = self.class_names, self.probability[n]
        number = n + 1 if self.row_numbers is None else self.row_numbers[n]
        lines = [f"Row {number}: {names[first]} (probability {probability[first]:.3f})"]
        lines += [
            f"  class {names[d]}: score {self.score[n, d]:.4g}, probability {probability[d]:.3f}"
            for d in self.order[n]
        ]
        lines.append(f"  {names[first]} is ahead of {names[second]} by {lead:.3g}, the sum of:")
        for k in np.argsort(-self.weight[n], kind="stable"):
            own = "; ".join(self._sentence(n, int(k), int(d)) for d in (first, second))
            lines.append(f"    {self.weight[n, k]:+.3g} by member {k}: {own}")
        return "\n".join(lines + ["  " + sentence for sentence in self.words.sentences(n)])

    def _sentence(self, n: int, k: int, d: int) -> str:
        own = self.members[k]
        view = int(own.paths.view[n, d])
        phrase = view_phrase(self.domain, own.directions, own.view_names, own.views[n], view)
        slope = f"(slope {own.slopes[own.paths.row[n, d]]:.3g})"
        return (
            f"{self.class_names[d]} {own.paths.score[n, d]:.4g}, unit {own.paths.unit[n, d]}, "
            + (
                f"{phrase} {slope} cancels"
                if self._cancels(own)[n, d]
                else f"decided by {phrase} {slope}"
            )
        )


def explain_committee(
    model: Committee, X: NDArray, class_names: Sequence[str], domain: Domain,
    scale: NDArray | None = None, missing: NDArray | None = None,
    row_numbers: Sequence[int] | None = None,
) -> CommitteeExplanation:  # fmt: skip
    """The deciding units and views of all members, and what flips their mean.

    As much work as `decisive_paths` of each member, and `single_flips`.

    Parameters
    ----------
    model : Committee
    X : array of shape (N, P)
    class_names : words for the classes
    domain : Domain, what values columns can take, with words for them
    scale : array of shape (P,), optional
        How much each feature varies: a sum's largest terms are the largest after it.
    missing, row_numbers : as in `CommitteeExplanation`

    Returns
    -------
    CommitteeExplanation

    Examples
    --------
    >>> from maxplus.explain import Domain, explain_committee
    >>> from maxplus.models import Committee
    >>> from sklearn.datasets import load_iris
    >>> from maxplus import LMMClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = LMMClassifier(6, slope=4.0, warmup_epochs=2, random_state=0).fit(X, y)
    >>> model = clf.model_
    >>> both = Committee([model, model])
    >>> len(explain_committee(both, X[:2], ["a", "b", "c"], Domain.free(4)))
    2
    """
    check_domain(domain, model.n_features)
    check_class_names(class_names, model)
    members = []
    for member, first in zip(model.members, model.first_units, strict=False):
        paths = decisive_paths(member, X)
        runner_up = np.where(paths.runner_up < 0, -1, first + paths.runner_up)
        members.append(
            MemberPaths(
                paths._replace(unit=first + paths.unit, runner_up=runner_up),
                member.W0, member.views(X),
                view_names(member.directions, domain.names, scale),
                member.directions, unit_boxes(member).centre,
            )
        )  # fmt: skip
    score = Committee.mean([member.paths.score for member in members])
    return CommitteeExplanation(
        X, members, score, softmax(score), single_flips(model, X, domain), list(class_names),
        domain, missing, row_numbers,
    )  # fmt: skip
