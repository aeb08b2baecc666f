"""Column types: numbers, categories and ordinals as features; counts of unknown values."""

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
from maxplus.tables.scales import number_in
from maxplus.tables.table import RawTable, TableError, as_text

OTHER = "other"


class UnknownValues:
    """Counts of unknown categories and unexpected missing values, by column.

    One object may count over many parts of a table.

    Parameters
    ----------
    strict : bool, default=False
        Whether an unknown category is an error.
    """

    def __init__(self, *, strict: bool = False) -> None:
        self.strict = strict
        self.unseen: Counter[str] = Counter()
        self.missing: Counter[str] = Counter()
        self._examples: dict[str, str] = {}

    def count_unseen(
        self, table: RawTable, column: str, cells: Categorical, known: Container[str]
    ) -> None:
        """Count the rows whose values are not among the known ones."""
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
        """Count missing values in a column that had none in training."""
        self.missing[column] += int(np.count_nonzero(missing))

    def unite(self, comm: Communicator) -> None:
        """Add up the counts of all ranks."""
        parts = comm.allgather((self.unseen, self.missing, self._examples))
        self.unseen = sum((unseen for unseen, _, _ in parts), Counter())
        self.missing = sum((missing for _, missing, _ in parts), Counter())
        self._examples = {c: text for *_, found in reversed(parts) for c, text in found.items()}

    def warn(self, name: str, stacklevel: int = 2) -> None:
        """Give one warning about all counts, if there are any."""
        parts = []
        if self.unseen:
            listed = [
                f"{n:,} in {c!r} ({quoted(self._examples[c], 40)})" for c, n in self.unseen.items()
            ]
            parts.append(
                f"values that training never saw, taken as none of the known ones: {_some(listed)}"
            )
        if self.missing:
            listed = [f"{n:,} in {column!r}" for column, n in self.missing.items()]
            parts.append(f"missing values where training had none, filled in: {_some(listed)}")
        if parts:
            warnings.warn(f"{name} has {'; and '.join(parts)}", stacklevel=stacklevel + 1)


@dataclass(frozen=True)
class Column(ABC):
    """A column of a table, as some features.

    Parameters
    ----------
    name : the column's name
    fill : the value that replaces a missing one; None: missing values are refused
    indicator : whether a 0/1 feature indicates missing values
    had_missing : whether values were missing in training, if only a few
    """

    name: str
    fill: Any = None
    indicator: bool = False
    had_missing: bool = False

    kind: ClassVar[str]

    @property
    @abstractmethod
    def values(self) -> tuple[str, ...] | None:
        """The known categories; None for numbers."""

    @property
    @abstractmethod
    def is_text(self) -> bool:
        """Whether cells are read as text, whatever they look like."""

    @property
    @abstractmethod
    def _own(self) -> list[str]:
        """Names of the features without the indicator."""

    @abstractmethod
    def _encode(self, table: RawTable, out: NDArray, unknown: UnknownValues) -> NDArray:
        """Write features into ``out`` and return the mask of missing values."""

    @property
    def features(self) -> list[str]:
        """Names of the features."""
        return [*self._own, f"{self.name} is missing"] if self.indicator else self._own

    def encode(self, table: RawTable, out: NDArray, unknown: UnknownValues) -> NDArray:
        """Fill ``out``, of zeros, shape (N, features); return the mask of missing values."""
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
        """Return plain data for a model file."""
        record = {field.name: getattr(self, field.name) for field in fields(self)}
        lists = {name: list(v) for name, v in record.items() if isinstance(v, tuple)}
        return {"kind": self.kind, **record, **lists}


@dataclass(frozen=True)
class Number(Column):
    """Numbers, which are one feature; with ``from_text``, the number in each text."""

    from_text: bool = False

    kind = "number"
    values = None

    @property
    def is_text(self) -> bool:
        return self.from_text

    @property
    def _own(self) -> list[str]:
        return [self.name]

    def _encode(self, table: RawTable, out: NDArray, unknown: UnknownValues) -> NDArray:
        numbers = self.numbers(table)
        missing = np.isnan(numbers)
        out[:, 0] = numbers
        if missing.any():
            out[missing, 0] = np.nan if self.fill is None else self.fill
        return missing

    def numbers(self, table: RawTable) -> NDArray:
        """Return the numbers, NaN where one is missing; TableError where a cell holds none."""
        cells = table.feature(self.name)
        if isinstance(cells, Categorical):
            read = number_in if self.from_text else _plain_number
            numbers = np.array([*map(read, cells.values), np.nan])
            bad = np.flatnonzero(np.isnan(numbers[:-1]))
            # A part of a larger table may have values that none of its rows holds.
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
    """Categories, each of which is a 0/1 feature; with ``other``, one more for all the rest.

    A column without any value in training has no categories: its indicator is its only feature.
    """

    categories: tuple[str, ...] = ()
    other: bool = False

    kind = "category"
    is_text = True

    @property
    def values(self) -> tuple[str, ...]:
        return (*self.categories, OTHER) if self.other else self.categories

    @property
    def _own(self) -> list[str]:
        return [f"{self.name} = {value}" for value in self.values]

    def _encode(self, table: RawTable, out: NDArray, unknown: UnknownValues) -> NDArray:
        cells = as_text(table.feature(self.name))
        rest = len(self.categories) if self.other else -1
        place = {value: k for k, value in enumerate(self.categories)}
        if not self.other:
            unknown.count_unseen(table, self.name, cells, place)
        filled = -1 if self.indicator or self.fill is None else place.get(self.fill, rest)
        places = np.array([*(place.get(v, rest) for v in cells.values), filled])[cells.codes]
        known = np.flatnonzero(places >= 0)
        out[known, places[known]] = 1.0
        return cells.missing


@dataclass(frozen=True)
class Ordinal(Column):
    """Ordered categories, low to high: the feature is the position, from 0."""

    categories: tuple[str, ...] = ()

    kind = "ordinal"
    is_text = True

    @property
    def values(self) -> tuple[str, ...]:
        return self.categories

    @property
    def _own(self) -> list[str]:
        return [self.name]

    def _encode(self, table: RawTable, out: NDArray, unknown: UnknownValues) -> NDArray:
        cells = as_text(table.feature(self.name))
        place = {value: float(k) for k, value in enumerate(self.categories)}
        unknown.count_unseen(table, self.name, cells, place)
        # No position is right for an unknown category: it is encoded as a missing value is.
        filled = place.get(self.fill, np.nan)
        positions = np.array([*(place.get(value, filled) for value in cells.values), filled])
        out[:, 0] = positions[cells.codes]
        return cells.missing


KINDS: dict[str, type[Column]] = {kind.kind: kind for kind in (Number, Category, Ordinal)}


def column_from_json(record: Any) -> Column:
    """Return the column that `Column.to_json` described; ValueError if it is not valid."""
    kind = KINDS.get(record["kind"])
    names = [] if kind is None else [field.name for field in fields(kind)]
    if kind is None or set(record) != {"kind", *names}:
        raise ValueError(f"{record!r:.60} is no column")
    facts = {name: record[name] for name in names}
    categories = facts.get("categories", [])
    if not (isinstance(categories, list) and all(type(value) is str for value in categories)):
        raise ValueError(f"{categories!r:.60} are no categories")
    values = [*categories, OTHER] if facts.get("other") is True else categories
    # A column without values in training has no categories, but an indicator.
    needs_some = "categories" in facts and not (kind is Category and facts["indicator"] is True)
    if len(set(values)) != len(values) or (needs_some and not categories):
        raise ValueError(f"{categories!r:.60} are not distinct categories")
    if "categories" in facts:
        facts["categories"] = tuple(categories)
    flags = ("indicator", "had_missing", "from_text", "other")
    column = kind(**facts)
    if type(column.name) is not str or not all(
        type(facts[name]) is bool for name in flags if name in facts
    ):
        raise ValueError(f"{record!r:.60} is no column")
    if not _can_fill(column):
        raise ValueError(f"{column.name!r:.40} cannot be filled with {column.fill!r:.40}")
    return column


def _can_fill(column: Column) -> bool:
    fill, known = column.fill, column.values
    if fill is None:
        # An unknown category has no position among ordinals, and needs a value in its place.
        return not (column.indicator or isinstance(column, Ordinal))
    if known is None:
        # Integers of JSON may be larger than any float.
        return type(fill) in (int, float) and abs(fill) <= sys.float_info.max
    return type(fill) is str and (fill in known if known else fill == "")


def _plain_number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return np.nan


def listed_names(names: Sequence[str]) -> str:
    """Return at most ten names for a message."""
    return _some([repr(name) for name in names])


def _some(listed: list[str]) -> str:
    return ", ".join(listed[:10]) + (", …" if len(listed) > 10 else "")
