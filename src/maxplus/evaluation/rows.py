"""Rows to learn from and rows to judge by, without a leak from these to those."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from maxplus.explain import Domain
from maxplus.tables import (
    EVERYTHING,
    ColumnChoices,
    Preparation,
    RawTable,
    Samples,
    Words,
    decide,
    is_frame,
    label_name,
    samples_of,
    table_of,
)
from maxplus.tables.encoding import is_missing
from maxplus.tables.strangers import Strangers


class Features(NamedTuple):
    """Both parts as arrays, and how far each feature moves for a change of 1."""

    training: NDArray
    held_out: NDArray
    scale: NDArray


class Rows(Protocol):
    """Rows with their labels or numbers ``y``; ``names`` is what users call them, from 1."""

    @property
    def y(self) -> NDArray:
        """What is to be predicted."""

    @property
    def names(self) -> NDArray:
        """What users call the rows."""

    @property
    def regression(self) -> bool:
        """Whether what is to be predicted is a number."""

    @property
    def groups(self) -> NDArray | None:
        """What each row belongs to; None where rows are on their own."""

    def features(self, training: NDArray, held_out: NDArray) -> Features:
        """Prepared by the training rows alone."""


class _Numbered:
    """Rows whose names are numbers: those of the file that they come from, or 1, 2, …"""

    y: NDArray
    numbers: NDArray | None

    @property
    def groups(self) -> NDArray | None:
        """What each row belongs to."""
        return None

    @property
    def names(self) -> NDArray:
        """What users call the rows."""
        return np.arange(1, len(self.y) + 1) if self.numbers is None else self.numbers


@dataclass(frozen=True)
class ArrayRows(_Numbered):
    """Features that need no preparation."""

    X: NDArray
    y: NDArray
    numbers: NDArray | None = None

    @property
    def regression(self) -> bool:
        """Whether the labels are numbers that are not all whole."""
        return bool(self.y.dtype.kind == "f" and (self.y != np.round(self.y)).any())

    def features(self, training: NDArray, held_out: NDArray) -> Features:
        """Rows of the array; their scale is the training rows' deviation, 1 where there is none."""
        X = self.X[training]
        deviation = X.std(axis=0, dtype=np.float64)
        constant = (X.min(axis=0) == X.max(axis=0)) | (deviation == 0.0)
        return Features(X, self.X[held_out], np.where(constant, 1.0, deviation))


@dataclass(frozen=True)
class TableRows(_Numbered):
    """A table, whose whole preparation is decided anew by each part that is trained on.

    Attributes
    ----------
    table : with all columns
    y : its labels or numbers
    choices : what the user overrules, with the target and the task
    numbers : what users call the rows; 1, 2, … by default
    """

    table: RawTable
    y: NDArray
    choices: ColumnChoices
    numbers: NDArray | None = None

    @property
    def regression(self) -> bool:
        """As the table's task says."""
        return self.choices.task == "regression"

    @property
    def groups(self) -> NDArray | None:
        """The column that the choices name."""
        name = self.choices.groups
        if name is None:
            return None
        cells = self.table.columns[name]
        n_missing = int(np.count_nonzero(is_missing(cells)))
        if n_missing:
            raise ValueError(
                f"{self.table.name}: {name!r} (--groups) has {n_missing:,} missing "
                f"value{'s' * (n_missing > 1)}; fill them in"
            )
        return cells.codes if isinstance(cells, Words) else cells

    def features(self, training: NDArray, held_out: NDArray) -> Features:
        """Columns, categories and fill-ins are those that the training rows tell.

        A word that they do not have is none of the known ones, which needs no warning here.
        """
        own, others = self.table.take(training), self.table.take(held_out)
        preparation = Preparation.of(own, self.choices, scale=False)
        X, X_others = (preparation.encoding.encode(t, Strangers()).X for t in (own, others))
        return Features(X, X_others, Domain.of(preparation.domain()).certificate_scale())


def as_rows(data: Any, y: Any = None, choices: ColumnChoices | None = None) -> Rows:
    """Rows of a data frame, a table, samples or an array; ValueError without labels.

    Parameters
    ----------
    data : a data frame (pandas, polars, pyarrow), a `maxplus.tables.RawTable`, ``Samples``, or
        an array of features
    y : labels or numbers of shape (N,); None if they are a column
    choices : what is to be overruled about columns; with ``y``, only about the others. Those that
        a table takes along, by default.

    Returns
    -------
    ArrayRows or TableRows

    Examples
    --------
    >>> from maxplus.evaluation import as_rows
    >>> as_rows([[1.0], [2.0]], ["a", "b"]).regression
    False
    """
    if isinstance(data, ArrayRows | TableRows):
        return data
    if choices is None:
        own = data.choices if isinstance(data, RawTable) else None
        choices = ColumnChoices() if own is None else own
    if isinstance(data, Samples):
        return _rows_of_samples(data, choices)
    if is_frame(data):
        data = table_of(data)
    if not isinstance(data, RawTable):
        if y is None:
            raise ValueError("an array needs its labels: y is None")
        return ArrayRows(np.asarray(data), np.asarray(y))
    if y is not None:
        name = label_name(y, data)
        data = RawTable(data.name, {**data.columns, name: np.asarray(y)})
        choices = choices._replace(target=name)
    # As in `fit`, no column is left out but by name.
    choices = choices._replace(keep=(EVERYTHING,))
    encoding, decisions = decide(data, choices)
    return _rows_of_samples(
        samples_of(data, encoding, labelled=True, decisions=decisions, strangers=Strangers()),
        choices,
    )


def _rows_of_samples(samples: Samples, choices: ColumnChoices) -> Rows:
    if samples.y is None:
        raise ValueError(f"{samples.name} has no labels in {samples.encoding.target!r}")
    numbers = samples.rows + 1
    if not samples.table.columns:
        return ArrayRows(samples.X, samples.y, numbers)
    # What is to be predicted, and whether that is a class, is no matter of the fold.
    settled = choices._replace(target=samples.encoding.target, task=samples.encoding.task)
    return TableRows(samples.table, samples.y, settled, numbers)
