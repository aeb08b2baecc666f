"""Encoding of numeric, categorical and ordinal columns."""

from __future__ import annotations

import sys
import warnings
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from maxplus.distributed import Communicator
from maxplus.tables.categorical import Categorical, quoted
from maxplus.tables.table import RawTable, TableError, as_text
from maxplus.tables.text_patterns import number_in

OTHER = "other"


class UnknownValues:
    """Counter of unknown categories and unexpected missing values.

    Parameters
    ----------
    strict : bool, default=False
        If True, raise an error for unknown categories.
    """

    def __init__(self, *, strict: bool = False) -> None:
        self.strict = strict
        self.unseen: Counter[str] = Counter()
        self.missing: Counter[str] = Counter()
        self._examples: dict[str, str] = {}

    def count_unseen(
        self, table: RawTable, column: str, cells: Categorical, known: Container[str]
    ) -> None:
        """Count the rows with a value that is not in ``known``."""
        new = [k for k, value in enumerate(cells.values) if value not in known]
        if not new:
            return
        counts = cells.counts[new]
        n = int(counts.sum())
        if not n:
            return
        k = new[int((counts > 0).argmax())]
        if self.strict:
            raise TableError(
                f"{table.name}, {table.where(cells.first(k))}: {column!r} holds "
                f"{quoted(cells.values[k])}, which the model has never seen; correct it, or "
                "leave out --strict"
            )
        self.unseen[column] += n
        self._examples.setdefault(column, cells.values[k])

    def count_missing(self, column: str, missing: NDArray) -> None:
        """Count missing values of a column that had no missing values in the training data."""
        self.missing[column] += int(np.count_nonzero(missing))

    def unite(self, comm: Communicator) -> None:
        """Add up the counts of all ranks."""
        parts = comm.allgather((self.unseen, self.missing, self._examples))
        self.unseen = sum((unseen for unseen, _, _ in parts), Counter())
        self.missing = sum((missing for _, missing, _ in parts), Counter())
        self._examples = {c: text for *_, texts in reversed(parts) for c, text in texts.items()}

    def warn(self, name: str, stacklevel: int = 2) -> None:
        """Issue a warning if any count is positive."""
        parts = []
        if self.unseen:
            texts = [
                f"{n:,} in {c!r} ({quoted(self._examples[c], 40)})" for c, n in self.unseen.items()
            ]
            parts.append(
                f"values that training never saw, taken as none of the known ones: {_listed(texts)}"
            )
        if self.missing:
            texts = [f"{n:,} in {column!r}" for column, n in self.missing.items()]
            parts.append(f"missing values where training had none, filled in: {_listed(texts)}")
        if parts:
            warnings.warn(f"{name} has {'; and '.join(parts)}", stacklevel=stacklevel + 1)


@dataclass(frozen=True)
class Column(ABC):
    """Column of a table that is encoded as one or more features.

    Parameters
    ----------
    name : str
        Name of the column.
    fill : float, str or None, default=None
        Imputed value. None raises an error for missing values.
    indicator : bool, default=False
        If True, a binary feature indicates missing values.
    had_missing : bool, default=False
        If True, the training data had missing values.
    """

    name: str
    fill: Any = None
    indicator: bool = False
    had_missing: bool = False

    kind: ClassVar[str]

    @property
    @abstractmethod
    def values(self) -> tuple[str, ...] | None:
        """Known categories, or None for numbers."""

    @property
    @abstractmethod
    def is_text(self) -> bool:
        """Whether to read cells as text even if they look like numbers."""

    @property
    @abstractmethod
    def _value_features(self) -> list[str]:
        """Names of the features without the indicator."""

    @abstractmethod
    def _encode(self, table: RawTable, out: NDArray, unknown: UnknownValues) -> NDArray:
        """Write the features into ``out``, and return the mask of missing values."""

    @property
    def features(self) -> list[str]:
        """Names of the features."""
        indicator = [f"{self.name} is missing"] if self.indicator else []
        return [*self._value_features, *indicator]

    def encode(self, table: RawTable, out: NDArray, unknown: UnknownValues) -> NDArray:
        """Write the features into an array of zeros, and return the mask of missing values."""
        missing = self._encode(table, out, unknown)
        if missing.any():
            if self.fill is None:
                raise TableError(
                    f"{table.name}, {table.where(int(missing.argmax()))}: {self.name!r} has no "
                    "value, and the model knows nothing to take its place; fill it in"
                )
            if self.indicator:
                out[missing, -1] = 1.0
            if not self.had_missing:
                unknown.count_missing(self.name, missing)
        return missing

    def to_json(self) -> dict[str, Any]:
        """Return the column as JSON data."""
        record = {field.name: getattr(self, field.name) for field in fields(self)}
        lists = {name: list(v) for name, v in record.items() if isinstance(v, tuple)}
        return {"kind": self.kind, **record, **lists}


@dataclass(frozen=True)
class Number(Column):
    """Numeric column; ``from_text`` extracts the numbers from text."""

    from_text: bool = False

    kind = "number"
    values = None

    @property
    def is_text(self) -> bool:
        return self.from_text

    @property
    def _value_features(self) -> list[str]:
        return [self.name]

    def _encode(self, table: RawTable, out: NDArray, unknown: UnknownValues) -> NDArray:
        numbers = self.numbers(table)
        missing = np.isnan(numbers)
        out[:, 0] = numbers
        if missing.any():
            out[missing, 0] = np.nan if self.fill is None else self.fill
        return missing

    def numbers(self, table: RawTable) -> NDArray:
        """Return the numbers, NaN if missing; raise TableError if a cell is not a number."""
        cells = table.feature(self.name)
        if isinstance(cells, Categorical):
            read = number_in if self.from_text else _plain_number
            numbers = np.array([*map(read, cells.values), np.nan])
            bad = np.flatnonzero(np.isnan(numbers[:-1]))
            # A value may occur in other parts of the table only.
            bad = bad[cells.counts[bad] > 0]
            if bad.size:
                raise TableError(
                    f"{table.name}, {table.where(cells.first(bad[0]))}: {self.name!r} holds "
                    f"{quoted(cells.values[bad[0]])}, where numbers are expected; correct it, "
                    "or leave it empty"
                )
            cells = numbers[cells.codes]
        if np.isinf(cells).any():
            row = int(np.isinf(cells).argmax())
            raise TableError(
                f"{table.name}, {table.where(row)}: {self.name!r} holds infinite values "
                f"({cells[row]:g}); leave such cells empty"
            )
        return cells


@dataclass(frozen=True)
class Category(Column):
    """One-hot encoded column; ``other`` adds a feature for all remaining values.

    The only feature of a column without values in the training data is the missing-value indicator.
    """

    categories: tuple[str, ...] = ()
    other: bool = False

    kind = "category"
    is_text = True

    @property
    def values(self) -> tuple[str, ...]:
        return (*self.categories, OTHER) if self.other else self.categories

    @property
    def _value_features(self) -> list[str]:
        return [f"{self.name} = {value}" for value in self.values]

    def _encode(self, table: RawTable, out: NDArray, unknown: UnknownValues) -> NDArray:
        cells = as_text(table.feature(self.name))
        other_index = len(self.categories) if self.other else -1
        index = {value: k for k, value in enumerate(self.categories)}
        if not self.other:
            unknown.count_unseen(table, self.name, cells, index)
        fill_code = -1 if self.indicator or self.fill is None else index.get(self.fill, other_index)
        new_codes = [*(index.get(v, other_index) for v in cells.values), fill_code]
        indices = np.array(new_codes)[cells.codes]
        known = np.flatnonzero(indices >= 0)
        out[known, indices[known]] = 1.0
        return cells.missing


@dataclass(frozen=True)
class Ordinal(Column):
    """Column of ordered categories, encoded as 0, 1, … in ascending order."""

    categories: tuple[str, ...] = ()

    kind = "ordinal"
    is_text = True

    @property
    def values(self) -> tuple[str, ...]:
        return self.categories

    @property
    def _value_features(self) -> list[str]:
        return [self.name]

    def _encode(self, table: RawTable, out: NDArray, unknown: UnknownValues) -> NDArray:
        cells = as_text(table.feature(self.name))
        index = {value: float(k) for k, value in enumerate(self.categories)}
        unknown.count_unseen(table, self.name, cells, index)
        # Unknown categories are encoded as missing values.
        fill_position = index.get(self.fill, np.nan)
        positions = np.array(
            [*(index.get(value, fill_position) for value in cells.values), fill_position]
        )
        out[:, 0] = positions[cells.codes]
        return cells.missing


KINDS: dict[str, type[Column]] = {kind.kind: kind for kind in (Number, Category, Ordinal)}


def column_from_json(record: Any) -> Column:
    """Return the column of a `Column.to_json` record; raise ValueError if it is invalid."""
    kind = KINDS.get(record["kind"])
    names = [] if kind is None else [field.name for field in fields(kind)]
    if kind is None or set(record) != {"kind", *names}:
        raise ValueError(f"{record!r:.60} is no column")
    params = {name: record[name] for name in names}
    categories = params.get("categories", [])
    if not (isinstance(categories, list) and all(type(value) is str for value in categories)):
        raise ValueError(f"{categories!r:.60} are no categories")
    values = [*categories, OTHER] if params.get("other") is True else categories
    # Only a column with an indicator may have no categories.
    may_be_empty = kind is Category and params["indicator"] is True
    is_empty = "categories" in params and not categories
    if len(set(values)) != len(values) or (is_empty and not may_be_empty):
        raise ValueError(f"{categories!r:.60} are not distinct categories")
    if "categories" in params:
        params["categories"] = tuple(categories)
    flags = ("indicator", "had_missing", "from_text", "other")
    column = kind(**params)
    if type(column.name) is not str or not all(
        type(params[name]) is bool for name in flags if name in params
    ):
        raise ValueError(f"{record!r:.60} is no column")
    if not _can_fill(column):
        raise ValueError(f"{column.name!r:.40} cannot be filled with {column.fill!r:.40}")
    return column


def _can_fill(column: Column) -> bool:
    fill, known = column.fill, column.values
    if fill is None:
        # The fill value of ordinal columns also replaces unknown categories.
        return not (column.indicator or isinstance(column, Ordinal))
    if known is None:
        # Integers in JSON may exceed the range of floats.
        return type(fill) in (int, float) and abs(fill) <= sys.float_info.max
    return type(fill) is str and (fill in known if known else fill == "")


def _plain_number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return np.nan


def listed_names(names: Sequence[str]) -> str:
    """Return at most ten quoted names, separated by commas."""
    return _listed([repr(name) for name in names])


def _listed(texts: list[str]) -> str:
    return ", ".join(texts[:10]) + (", …" if len(texts) > 10 else "")
