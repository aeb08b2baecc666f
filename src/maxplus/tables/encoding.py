"""How a table becomes features and labels: the columns, one after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxplus.tables.choices import IMPUTE, REFUSE, TASKS, require
from maxplus.tables.kinds import Category, Column, Number, as_words, column_from_json, quoted
from maxplus.tables.memory import check_memory
from maxplus.tables.strangers import Strangers
from maxplus.tables.table import Cells, RawTable, TableError
from maxplus.tables.words import Words

CLASSIFICATION, REGRESSION = TASKS[1:]
# Floats hold all whole numbers up to here, and not all beyond.
LARGEST_LABEL = 2**53
# Rows that are encoded together.
ROWS_AT_ONCE = 1 << 15


class Encoded(NamedTuple):
    """X, shape (N, P), and which values of which columns were missing, shape (N, columns)."""

    X: NDArray
    missing: NDArray


@dataclass(frozen=True)
class Encoding:
    """Which columns are what, decided once and kept with a model.

    Parameters
    ----------
    target : the column with the labels
    columns : all others that are used
    task : "classification" or "regression"
    missing : "impute", or "error" to refuse missing values
    labels_in_words : whether labels are words, also where they look like numbers
    """

    target: str
    columns: tuple[Column, ...]
    task: str = CLASSIFICATION
    missing: str = IMPUTE
    labels_in_words: bool = False

    @property
    def feature_names(self) -> list[str]:
        """Names of X's columns."""
        return [feature for column in self.columns for feature in column.features]

    @property
    def n_features(self) -> int:
        """P."""
        return sum(len(column.features) for column in self.columns)

    @property
    def places(self) -> list[slice]:
        """Which features each column has become."""
        ends = np.cumsum([len(column.features) for column in self.columns]).tolist()
        return [slice(a, b) for a, b in zip([0, *ends[:-1]], ends, strict=True)]

    @property
    def feature_range(self) -> tuple[NDArray, NDArray]:
        """The least and largest value each feature may take: 0 and 1 for a category's."""
        low, high = np.full(self.n_features, -np.inf), np.full(self.n_features, np.inf)
        for column, place in zip(self.columns, self.places, strict=True):
            own = slice(place.start, place.stop - column.flagged)
            if column.values is not None:
                low[own] = 0.0
                high[own] = 1.0 if isinstance(column, Category) else len(column.values) - 1
            if column.flagged:
                low[place.stop - 1], high[place.stop - 1] = 0.0, 1.0
        return low, high

    @property
    def read_as(self) -> dict[str, bool | None]:
        """The columns to be read and whether they hold words; None: as they look."""
        columns: dict[str, bool | None] = {c.name: c.reads_words for c in self.columns}
        return {**columns, self.target: True if self.labels_in_words else None}

    def features(self, table: RawTable, strict: bool = False) -> NDArray:
        """X of shape (N, P), float64; the table's columns may come in any order.

        Words that training never saw are none of the known ones, and missing values are
        filled in: one warning counts them. With ``strict``, a new word is an error.
        """
        strangers = Strangers(strict=strict)
        X = self.encode(table, strangers).X
        strangers.warn(table.name)
        return X

    def encode(self, table: RawTable, strangers: Strangers | None = None) -> Encoded:
        """The same, with what was missing; what is unexpected is counted in ``strangers`` only."""
        strangers = Strangers() if strangers is None else strangers
        names = [column.name for column in self.columns]
        absent = [name for name in names if name not in table.columns]
        if absent:
            raise TableError(
                f"{table.name} lacks column{'s' * (len(absent) > 1)} {quoted(absent)}, which the "
                f"model needs; it has {quoted(list(table.columns))}"
            )
        if self.missing == REFUSE:
            check_missing(table, names)
        check_memory(table.name, 8 * table.n_rows * self.n_features)
        X = np.zeros((table.n_rows, self.n_features))
        missing = np.zeros((table.n_rows, len(self.columns)), bool, order="F")
        places = list(enumerate(zip(self.columns, self.places, strict=True)))
        # Some rows after the other: a column is written across rows, which should stay in cache.
        for start in range(0, table.n_rows, ROWS_AT_ONCE):
            rows = slice(start, start + ROWS_AT_ONCE)
            part = table.part(rows.start, rows.stop)
            for k, (column, place) in places:
                missing[rows, k] = column.encode(part, X[rows, place], strangers)
        return Encoded(X, missing)

    def labels(self, table: RawTable) -> NDArray:
        """Y of shape (N,): numbers for a regression; else integers or strings."""
        require(table, self.target, "--target")
        cells = self.label_cells(table)
        _refuse_missing(table, {self.target: cells})
        if self.task == REGRESSION:
            X = np.zeros((table.n_rows, 1))
            Number(self.target).encode(table, X, Strangers())
            return X[:, 0]
        if isinstance(cells, Words) or self.labels_in_words or not _are_whole(cells):
            return as_words(cells).strings()
        if np.abs(cells).max(initial=0.0) > LARGEST_LABEL:
            raise TableError(
                f"{table.name}: the target {self.target!r} holds numbers beyond 2^53, too "
                "large for labels; write them as words"
            )
        return cells.astype(np.int64)

    def label_cells(self, table: RawTable) -> Cells:
        """Return the target's cells: of classes, the word none is one."""
        if self.task == REGRESSION:
            return table.feature(self.target)
        return table.columns[self.target]

    def has_labels(self, table: RawTable) -> bool:
        """Whether the target column is there."""
        return self.target in table.columns

    def to_json(self) -> dict[str, Any]:
        """Plain data for a model file."""
        return {
            "target": self.target,
            "columns": [column.to_json() for column in self.columns],
            "task": self.task,
            "missing": self.missing,
            "labels_in_words": self.labels_in_words,
        }

    @classmethod
    def from_json(cls, record: Any) -> Encoding:
        """What `to_json` gave; ValueError if it is something else."""
        try:
            columns = tuple(column_from_json(column) for column in record["columns"])
            target, task, missing = (record[name] for name in ("target", "task", "missing"))
            in_words = record["labels_in_words"]
        except (TypeError, KeyError, ValueError, AttributeError) as error:
            raise ValueError(f"the model's columns cannot be read: {error!r:.120}") from None
        names = [*(column.name for column in columns), str(target)]
        for what, value, good in (
            ("columns", record["columns"], isinstance(record["columns"], list)),
            ("target", target, isinstance(target, str)),
            ("names", names, len(set(names)) == len(names)),
            ("task", task, task in (CLASSIFICATION, REGRESSION)),
            ("missing", missing, missing in (IMPUTE, REFUSE)),
            ("labels_in_words", in_words, isinstance(in_words, bool)),
        ):
            if not good:
                raise ValueError(f"the model's columns cannot be read: {what} {value!r:.40}")
        return cls(target, columns, task, missing, in_words)


def _are_whole(cells: NDArray) -> bool:
    return bool(np.isfinite(cells).all() and np.array_equal(cells, np.round(cells)))


def check_missing(table: RawTable, names: list[str]) -> None:
    """TableError that counts what is missing in these columns and says where it begins."""
    _refuse_missing(table, {name: table.feature(name) for name in names})


def _refuse_missing(table: RawTable, columns: dict[str, Cells]) -> None:
    listed = []
    for name, cells in columns.items():
        missing = is_missing(cells)
        if missing.any():
            first = table.where(int(missing.argmax()))
            listed.append(f"{np.count_nonzero(missing):,} in {name!r} (first in {first})")
    if listed:
        raise TableError(
            f"{table.name} has missing values: {', '.join(listed[:10])}; fill them in or remove "
            "such rows"
        )


def is_missing(cells: Cells) -> NDArray:
    """Which values of a column are missing, shape (N,)."""
    return cells.missing if isinstance(cells, Words) else np.isnan(cells)
