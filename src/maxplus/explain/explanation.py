"""Explanations as a table and as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxplus.explain.domain import Domain
from maxplus.explain.flip_words import FlipWords
from maxplus.explain.flips import Flips
from maxplus.explain.paths import Paths


@dataclass(frozen=True)
class Explanation:
    """What decided each class score of some rows, and what would change each prediction.

    Attributes
    ----------
    X : array of shape (N, P), the rows
    paths : Paths, each score's unit, feature and runner-up
    flips : Flips, the smallest change of one feature that makes another class win
    probability : array of shape (N, C)
    slopes : array of shape (2P,), the model's W0
    class_names, feature_names : words for both
    prototypes : index of the training sample that each unit started from, or None
    centres : array of shape (H, P), where each unit is highest along each feature
    domain : Domain that the flips were sought in; anything goes by default
    missing : array of shape (N, columns of the domain) of bool, or None
        Values that the rows lacked, and that were filled in.
    row_numbers : N whole numbers, what the text calls the rows; 1 to N by default

    Notes
    -----
    Text is for people, who count rows from 1, those of a file and those of the training;
    arrays and tables have Python's indices, from 0.
    """

    X: NDArray
    paths: Paths
    flips: Flips
    probability: NDArray
    slopes: NDArray
    class_names: Sequence[str]
    feature_names: Sequence[str]
    prototypes: NDArray | None
    centres: NDArray
    domain: Domain | None = None
    missing: NDArray | None = None
    row_numbers: Sequence[int] | None = None

    def __len__(self) -> int:
        """Return the number of rows explained."""
        return len(self.X)

    @property
    def predicted(self) -> NDArray:
        """Each row's winning class, as a position among all."""
        return self.paths.score.argmax(axis=1)

    @property
    def prototype(self) -> NDArray:
        """The deciding units' prototypes, (N, C); −1 where there are none."""
        units = self.paths.unit
        return np.full_like(units, -1) if self.prototypes is None else self.prototypes[units]

    @cached_property
    def cancels(self) -> NDArray:
        """Whether a score's deciding feature cancels in the lead over its rival, (N, C)."""
        return cancelling(self.paths, self.slopes, self._order)

    @cached_property
    def _order(self) -> NDArray:
        """The classes of each row by falling score, (N, C)."""
        return np.argsort(-self.paths.score, axis=1, kind="stable")

    def to_records(self) -> np.recarray:
        """One record per row and class, rows first.

        ``feature`` is the one that sets the score, and ``value`` is its value; where it
        ``cancels``, it moves the score of the rival class alike (the predicted class or, for
        that, the second), so that the lead does not depend on it. ``flip_feature`` is the
        column whose change flips the prediction, from ``flip_from`` to ``flip_to`` as they
        are printed, by ``flip_distance`` units; ``flip_value`` is the exact number, and 1 or 0
        for a category: a word, or none of them.

        Returns
        -------
        numpy.recarray
        """
        N, C = self.paths.unit.shape
        row, d = (axis.ravel() for axis in np.indices((N, C)))
        p = self.paths.feature.ravel()
        classes = np.array([str(name) for name in self.class_names])
        columns = {
            "row": row,
            "class": classes[d],
            "predicted": self.predicted[row] == d,
            "score": self.paths.score.ravel(),
            "probability": self.probability.ravel(),
            "unit": self.paths.unit.ravel(),
            "prototype": self.prototype.ravel(),
            "feature": np.array([str(name) for name in self.feature_names])[p],
            "value": self.X[row, p],
            "slope": self.slopes[self.paths.row.ravel()],
            "cancels": self.cancels.ravel(),
            "runner_up": self.paths.runner_up.ravel(),
            "margin": self.paths.margin.ravel(),
            **{f"flip_{name}": column[row] for name, column in self.words.columns().items()},
        }
        return records(columns)

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
        """Row n in words, the predicted class first; people count rows from 1.

        Parameters
        ----------
        n : int
            The row, from 0.

        Returns
        -------
        str
        """
        order = self._order[n]
        winner = order[0]
        number = n + 1 if self.row_numbers is None else self.row_numbers[n]
        lines = [
            f"Row {number}: {self.class_names[winner]} "
            f"(probability {self.probability[n, winner]:.3f})"
        ]
        lines += ["  " + self._sentence(n, int(d)) for d in order]
        if self.cancels[n, winner]:
            lines.append(
                f"  {self.class_names[winner]} rather than {self.class_names[order[1]]}: no single "
                "column decides, the units' offsets do"
            )
        return "\n".join(lines + ["  " + sentence for sentence in self.words.sentences(n)])

    def _sentence(self, n: int, d: int) -> str:
        path = self.paths
        unit, p = int(path.unit[n, d]), int(path.feature[n, d])
        like = ""
        if self.prototypes is not None:
            like = f", like training row {self.prototypes[unit] + 1}"
        phrase = self._domain.phrase(p, float(self.X[n, p]))
        slope = f"(slope {self.slopes[path.row[n, d]]:.3g})"
        first, second = self._order[n, 0], self._order[n, 1:2]
        rival = second[0] if d == first and second.size else first
        text = f"class {self.class_names[d]}: score {path.score[n, d]:.4g}, unit {unit}{like}; " + (
            f"{phrase} {slope} cancels against class {self.class_names[rival]}"
            if self.cancels[n, d]
            else f"decided by {phrase} {slope}"
        )
        if path.runner_up[n, d] >= 0:
            text += f"; ahead of unit {path.runner_up[n, d]} by {path.margin[n, d]:.3g}"
        return text

    @cached_property
    def words(self) -> FlipWords:
        """The flips in words."""
        return FlipWords(self.X, self.flips, self._domain, self.class_names, self.missing)

    @cached_property
    def _domain(self) -> Domain:
        if self.domain is not None:
            return self.domain
        return Domain.free(self.X.shape[1], names=self.feature_names)


def cancelling(paths: Paths, slopes: NDArray, order: NDArray) -> NDArray:
    """Return where a score rises and falls with its rival's, (N, C) of bool.

    The rival is the class of the highest score, and for that class the second. Both scores
    are set by one feature with one slope, so that their difference does not depend on it.
    """
    if order.shape[1] < 2:
        return np.zeros(order.shape, bool)
    rival = np.repeat(order[:, :1], order.shape[1], axis=1)
    np.put_along_axis(rival, order[:, :1], order[:, 1:2], axis=1)
    feature, slope = paths.feature, slopes[paths.row]
    is_same = feature == np.take_along_axis(feature, rival, axis=1)
    return is_same & (slope == np.take_along_axis(slope, rival, axis=1))


def records(columns: dict[str, NDArray]) -> np.recarray:
    """Columns of one length as a record array."""
    types = [(name, column.dtype) for name, column in columns.items()]
    out = np.recarray(len(next(iter(columns.values()))), dtype=types)
    for name, column in columns.items():
        out[name] = column
    return out


def as_table(records: np.recarray) -> Any:
    """A pandas DataFrame if pandas is installed, else the records."""
    try:
        import pandas
    except ImportError:
        return records
    return pandas.DataFrame.from_records(records)
