"""What a column can be, and how its cells become features: numbers, categories and ranks."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from maxplus.tables.scales import number_in
from maxplus.tables.strangers import Strangers
from maxplus.tables.table import Cells, RawTable, TableError
from maxplus.tables.words import Words, in_quotes

OTHER = "other"


@dataclass(frozen=True)
class Column(ABC):
    """A column of a table, as some features.

    Parameters
    ----------
    name : the column's
    fill : what a missing value is replaced by; None: missing values are refused
    flagged : whether a 0/1 feature of its own says that the value was missing
    holes : whether values were missing in training, if only a few
    """

    name: str
    fill: Any = None
    flagged: bool = False
    holes: bool = False

    kind: ClassVar[str]

    @property
    @abstractmethod
    def values(self) -> tuple[str, ...] | None:
        """The words it knows; None for numbers."""

    @property
    @abstractmethod
    def reads_words(self) -> bool:
        """Whether its cells are words, whatever they look like."""

    @property
    @abstractmethod
    def _own(self) -> list[str]:
        """Names of its features, but for the flag."""

    @abstractmethod
    def _encode(self, table: RawTable, out: NDArray, strangers: Strangers) -> NDArray:
        """Write features into ``out`` and tell where values were missing."""

    @property
    def features(self) -> list[str]:
        """The names of what it becomes."""
        return [*self._own, f"{self.name} is missing"] if self.flagged else self._own

    def encode(self, table: RawTable, out: NDArray, strangers: Strangers) -> NDArray:
        """Fill ``out``, of zeros, shape (N, features), and return which values were missing."""
        missing = self._encode(table, out, strangers)
        if missing.any():
            if self.fill is None:
                raise TableError(
                    f"{table.name}, {table.where(int(missing.argmax()))}: {self.name!r} has no "
                    "value, and the model knows nothing to take its place; fill it in"
                )
            if self.flagged:
                out[missing, -1] = 1.0
            if not self.holes:
                strangers.note_missing(self.name, missing)
        return missing

    def to_json(self) -> dict[str, Any]:
        """Plain data for a model file."""
        record = {field.name: getattr(self, field.name) for field in fields(self)}
        lists = {name: list(v) for name, v in record.items() if isinstance(v, tuple)}
        return {"kind": self.kind, **record, **lists}


@dataclass(frozen=True)
class Number(Column):
    """A number is a feature as it is; of words (``in_words``), the number in them."""

    in_words: bool = False

    kind = "number"
    values = None

    @property
    def reads_words(self) -> bool:
        return self.in_words

    @property
    def _own(self) -> list[str]:
        return [self.name]

    def _encode(self, table: RawTable, out: NDArray, strangers: Strangers) -> NDArray:
        numbers = self.numbers(table)
        missing = np.isnan(numbers)
        out[:, 0] = numbers
        if missing.any():
            out[missing, 0] = np.nan if self.fill is None else self.fill
        return missing

    def numbers(self, table: RawTable) -> NDArray:
        """The column's numbers, NaN where one is missing; TableError where a cell holds none."""
        cells = table.feature(self.name)
        if isinstance(cells, Words):
            read = number_in if self.in_words else _plain_number
            numbers = np.array([*map(read, cells.values), np.nan])
            bad = np.flatnonzero(np.isnan(numbers[:-1]))
            # A word that no row holds, as a part of a larger table has them, does no harm.
            bad = bad[cells.counts[bad] > 0]
            if bad.size:
                raise TableError(
                    f"{table.name}, {table.where(cells.first(bad[0]))}: {self.name!r} holds "
                    f"{in_quotes(cells.values[bad[0]])}, where numbers are expected; correct it, "
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
    """Words of which each is a 0/1 feature; with ``other``, one more for all the rest.

    A column without any value in training has no words: only its flag is a feature.
    """

    words: tuple[str, ...] = ()
    other: bool = False

    kind = "category"
    reads_words = True

    @property
    def values(self) -> tuple[str, ...]:
        return (*self.words, OTHER) if self.other else self.words

    @property
    def _own(self) -> list[str]:
        return [f"{self.name} = {value}" for value in self.values]

    def _encode(self, table: RawTable, out: NDArray, strangers: Strangers) -> NDArray:
        cells = as_words(table.feature(self.name))
        rest = len(self.words) if self.other else -1
        place = {word: k for k, word in enumerate(self.words)}
        if not self.other:
            strangers.note_unseen(table, self.name, cells, place)
        filled = -1 if self.flagged or self.fill is None else place.get(self.fill, rest)
        places = np.array([*(place.get(word, rest) for word in cells.values), filled])[cells.codes]
        known = np.flatnonzero(places >= 0)
        out[known, places[known]] = 1.0
        return cells.missing


@dataclass(frozen=True)
class Ranks(Column):
    """Words in order, low to high: the feature is a word's place, from 0."""

    words: tuple[str, ...] = ()

    kind = "ranks"
    reads_words = True

    @property
    def values(self) -> tuple[str, ...]:
        return self.words

    @property
    def _own(self) -> list[str]:
        return [self.name]

    def _encode(self, table: RawTable, out: NDArray, strangers: Strangers) -> NDArray:
        cells = as_words(table.feature(self.name))
        place = {word: float(k) for k, word in enumerate(self.words)}
        strangers.note_unseen(table, self.name, cells, place)
        # No place among the known ones is right for a new word: it counts as missing does.
        filled = place.get(self.fill, np.nan)
        ranks = np.array([*(place.get(word, filled) for word in cells.values), filled])
        out[:, 0] = ranks[cells.codes]
        return cells.missing


KINDS: dict[str, type[Column]] = {kind.kind: kind for kind in (Number, Category, Ranks)}


def column_from_json(record: Any) -> Column:
    """What `Column.to_json` gave; ValueError if it is something else."""
    kind = KINDS.get(record["kind"])
    names = [] if kind is None else [field.name for field in fields(kind)]
    if kind is None or set(record) != {"kind", *names}:
        raise ValueError(f"{record!r:.60} is no column")
    facts = {name: record[name] for name in names}
    words = facts.get("words", [])
    if not (isinstance(words, list) and all(type(word) is str for word in words)):
        raise ValueError(f"{words!r:.60} are no words")
    values = [*words, OTHER] if facts.get("other") is True else words
    # A column without values in training has no words, but a flag.
    needs_words = "words" in facts and not (kind is Category and facts["flagged"] is True)
    if len(set(values)) != len(values) or (needs_words and not words):
        raise ValueError(f"{words!r:.60} are not different words")
    if "words" in facts:
        facts["words"] = tuple(words)
    flags = [facts[name] for name in ("flagged", "holes", "in_words", "other") if name in facts]
    column = kind(**facts)
    if type(column.name) is not str or not all(type(flag) is bool for flag in flags):
        raise ValueError(f"{record!r:.60} is no column")
    if not _can_fill(column):
        raise ValueError(f"{column.name!r:.40} cannot be filled with {column.fill!r:.40}")
    return column


def as_words(cells: Cells) -> Words:
    """Cells as words; whole numbers without a decimal point, as a person would write them."""
    return cells if isinstance(cells, Words) else Words.of_numbers(cells)


def _can_fill(column: Column) -> bool:
    fill, known = column.fill, column.values
    if fill is None:
        # A new word has no place among ranks, and needs something to be taken for.
        return not (column.flagged or isinstance(column, Ranks))
    if known is None:
        # Whole numbers of JSON may be larger than any float.
        return type(fill) in (int, float) and abs(fill) <= sys.float_info.max
    return type(fill) is str and (fill in known if known else fill == "")


def _plain_number(word: str) -> float:
    try:
        return float(word)
    except ValueError:
        return np.nan


def quoted(names: Sequence[str]) -> str:
    """Names for a message, not too many."""
    return ", ".join(map(repr, names[:10])) + (", …" if len(names) > 10 else "")
