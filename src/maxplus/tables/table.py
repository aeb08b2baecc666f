"""Tables in memory, with columns of numbers or text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from maxplus.tables.categorical import Categorical

if TYPE_CHECKING:
    from maxplus.tables.encoder import TableEncoder

# Column of numbers (float64, NaN if missing) or text.
Cells = NDArray | Categorical


class TableError(ValueError):
    """Error raised for invalid data."""

    def __init__(self, message: str) -> None:
        # Messages of other libraries may span several lines.
        super().__init__(" ".join(message.splitlines()).strip())


class NoRowsError(TableError):
    """Error raised for a file or sheet without data rows."""

    def __init__(self, name: object, place: str = "") -> None:
        super().__init__(
            f"{name} holds no rows of data{place}; it needs a row of names, and one for each sample"
        )


def row_text(row: int) -> str:
    """Return the location of a row in messages, if line numbers are not available."""
    return f"row {row + 1:,}"


@dataclass(frozen=True)
class RawTable:
    """Table before encoding.

    Parameters
    ----------
    name : str
        Name of the file, for messages.
    columns : dict of str to ndarray or Categorical
        Columns by name. Numbers are float64 with NaN for missing values. Other arrays are
        converted.
    where : callable
        Function that returns the location of a row in messages, such as "line 17".
    notes : tuple of str, default=()
        Assumptions that were made while reading.
    commas : frozenset of str, default=frozenset()
        Columns with decimal commas.
    encoder : TableEncoder, optional
        Encoder that is used by ``fit`` of an estimator.
    encoded : ndarray of shape (n_rows, n_features), optional
        Features computed by the encoder.
    """

    name: str
    columns: dict[str, Cells]
    where: Callable[[int], str] = row_text
    notes: tuple[str, ...] = ()
    commas: frozenset[str] = frozenset()
    encoder: TableEncoder | None = None
    encoded: NDArray | None = None

    def __post_init__(self) -> None:
        columns = {name: as_cells(cells) for name, cells in self.columns.items()}
        object.__setattr__(self, "columns", columns)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        if self.encoded is not None:
            return len(self.encoded)
        return len(next(iter(self.columns.values()))) if self.columns else 0

    def __len__(self) -> int:
        return self.n_rows

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return self.n_rows, len(self.columns)

    def feature(self, name: str) -> Cells:
        """Return a feature column, in which the text "none" is a missing value."""
        cells = self.columns[name]
        return cells.without_none() if isinstance(cells, Categorical) else cells

    def part(self, start: int, stop: int) -> RawTable:
        """Return the rows from ``start`` to ``stop``, with their original locations."""
        return self._rows(slice(start, stop), lambda row: self.where(row + start))

    def take(self, rows: NDArray) -> RawTable:
        """Return the given rows, with their original locations."""
        return self._rows(rows, lambda row: self.where(int(rows[row])))

    def _rows(self, rows: Any, where: Callable[[int], str]) -> RawTable:
        columns = {name: cells[rows] for name, cells in self.columns.items()}
        encoded = None if self.encoded is None else self.encoded[rows]
        return replace(self, columns=columns, where=where, encoded=encoded)

    def without(self, *names: str | None) -> RawTable:
        """Return the table without the given columns."""
        columns = {name: cells for name, cells in self.columns.items() if name not in names}
        return replace(self, columns=columns)


def join(batches: Sequence[Mapping[str, Cells]]) -> dict[str, Cells]:
    """Concatenate batches of rows."""
    return {name: _concatenate([part[name] for part in batches]) for name in batches[0]}


def check_different(name: str, names: Sequence[str]) -> None:
    """Raise TableError if two columns have the same name."""
    duplicates = sorted(name for name, n in Counter(names).items() if n > 1)
    if duplicates:
        raise TableError(
            f"{name} has several columns named {', '.join(map(repr, duplicates))}; "
            "rename them, so that each has a name of its own"
        )


def require(table: RawTable, name: str, option: str, *others: str) -> None:
    """Raise TableError if a column does not exist.

    The message lists the columns of the table and ``others``.
    """
    if name not in table.columns:
        names = [*table.columns, *others]
        raise TableError(
            f"{table.name} has no column {name!r} ({option}); it has "
            f"{', '.join(map(repr, names[:20]))}"
        )


def is_missing(cells: Cells) -> NDArray:
    """Return the mask of missing values of a column."""
    return cells.missing if isinstance(cells, Categorical) else np.isnan(cells)


def refuse_missing(table: RawTable, columns: Mapping[str, Cells]) -> None:
    """Raise TableError if values are missing."""
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


def _concatenate(parts: list[Cells]) -> Cells:
    if any(isinstance(part, Categorical) for part in parts):
        return Categorical.joined(
            [p if isinstance(p, Categorical) else Categorical.of_numbers(p) for p in parts]
        )
    return np.concatenate(parts)


def as_cells(cells: Any) -> Cells:
    """Convert numbers and booleans to float64, and other types to text."""
    if isinstance(cells, Categorical):
        return cells
    cells = np.asarray(cells)
    if cells.dtype.kind in "biuf":
        return cells.astype(np.float64, copy=False)
    return Categorical.of(cells)


def as_text(cells: Cells) -> Categorical:
    """Convert cells to text; integers have no decimal point."""
    return cells if isinstance(cells, Categorical) else Categorical.of_numbers(cells)
