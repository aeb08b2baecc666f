"""What every file and every data frame becomes: named columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from maxplus.tables.words import Words

if TYPE_CHECKING:
    from maxplus.tables.choices import ColumnChoices

# A column: float64 with NaN for missing values, or words.
Cells = NDArray | Words


class TableError(ValueError):
    """Data that cannot be used; one line names the file, the column and the remedy."""

    def __init__(self, message: str) -> None:
        # What others say of a file may have several.
        super().__init__(" ".join(message.splitlines()).strip())


class NoRowsError(TableError):
    """A file, or a sheet of it, without a row of data."""

    def __init__(self, name: object, place: str = "") -> None:
        super().__init__(
            f"{name} holds no rows of data{place}; it needs a row of names, and one for each sample"
        )


def row_in_words(row: int) -> str:
    """A row as people count where lines of a file are unknown: from 1."""
    return f"row {row + 1:,}"


@dataclass(frozen=True)
class RawTable:
    """Columns by name, as they were found.

    Parameters
    ----------
    name : the file's name, for messages
    columns : float64 with NaN for missing values, or `Words`; other arrays are turned into them
    where : names a row of the table as the user counts, for example "line 17"
    notes : what was assumed to read it, in words
    commas : the columns whose numbers were written with decimal commas
    choices : what the user says about the columns, for whoever is to learn from them
    """

    name: str
    columns: dict[str, Cells]
    where: Callable[[int], str] = row_in_words
    notes: tuple[str, ...] = ()
    commas: frozenset[str] = frozenset()
    choices: ColumnChoices | None = None

    def __post_init__(self) -> None:
        columns = {name: _as_cells(cells) for name, cells in self.columns.items()}
        object.__setattr__(self, "columns", columns)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(next(iter(self.columns.values()))) if self.columns else 0

    def feature(self, name: str) -> Cells:
        """Return a column that is no target: the word none is a missing value there."""
        cells = self.columns[name]
        return cells.without_none() if isinstance(cells, Words) else cells

    def part(self, start: int, stop: int) -> RawTable:
        """Consecutive rows, which keep their place in the file."""
        columns = {name: cells[start:stop] for name, cells in self.columns.items()}
        return replace(self, columns=columns, where=lambda row: self.where(row + start))

    def take(self, rows: NDArray) -> RawTable:
        """Some of the rows, which keep their place in the file."""
        columns = {name: cells[rows] for name, cells in self.columns.items()}
        return replace(self, columns=columns, where=lambda row: self.where(int(rows[row])))


def join(batches: Sequence[Mapping[str, Cells]]) -> dict[str, Cells]:
    """Parts of the same columns as one."""
    return {name: _joined([part[name] for part in batches]) for name in batches[0]}


def check_different(name: str, names: Sequence[str]) -> None:
    """TableError if a name comes twice."""
    twice = sorted(name for name, n in Counter(names).items() if n > 1)
    if twice:
        raise TableError(
            f"{name} has several columns named {', '.join(map(repr, twice))}; "
            "rename them, so that each has a name of its own"
        )


def _joined(parts: list[Cells]) -> Cells:
    if any(isinstance(part, Words) for part in parts):
        return Words.joined([p if isinstance(p, Words) else Words.of_numbers(p) for p in parts])
    return np.concatenate(parts)


def _as_cells(cells: Cells) -> Cells:
    if isinstance(cells, Words):
        return cells
    cells = np.asarray(cells)
    return cells.astype(np.float64, copy=False) if cells.dtype.kind in "biuf" else Words.of(cells)
