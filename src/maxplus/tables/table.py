"""Tables in memory, with columns of numbers or text, and their conversion from data frames."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from maxplus.distributed import Communicator, current

# pyarrow is imported lazily, because its import is slow.
if TYPE_CHECKING:
    import pyarrow

    from maxplus.tables.encoder import TableEncoder

# Lower-case strings that are read as missing values.
ALWAYS_MISSING = frozenset(
    ("", "na", "n/a", "n.a.", "<na>", "#n/a", "nan", "nat", "null", "<null>", "missing")
) | frozenset("?-.")
# The text "none" is a missing value in a feature, and a class in the target.
NONE = "none"
MISSING = ALWAYS_MISSING | {NONE}

T = TypeVar("T")


class TableError(ValueError):
    """Error raised for invalid data."""

    def __init__(self, message: str) -> None:
        # Messages of other libraries may span several lines.
        super().__init__(" ".join(message.splitlines()).strip())


class NoRowsError(TableError):
    """Error raised for a file or sheet without rows."""

    def __init__(self, name: object, place: str = "") -> None:
        super().__init__(
            f"{name} contains no rows{place}; it needs a header, and a row for each sample"
        )


@dataclass(frozen=True, eq=False)
class Categorical:
    """Text column stored as integer codes and distinct strings.

    Parameters
    ----------
    codes : ndarray of int32 of shape (n_rows,)
        Indices into ``values``, −1 for missing values.
    values : tuple of str
        Distinct strings without surrounding whitespace.
    ordered : bool, default=False
        If True, ``values`` are in ascending order.
    """

    codes: NDArray
    values: tuple[str, ...]
    ordered: bool = False

    # Default dtype of `__array__`.
    dtype = np.dtype(object)

    @classmethod
    def from_cells(cls, cells: Iterable[Any]) -> Categorical:
        """Convert cells of any type to text; None and NaN are missing values."""
        index: dict[str, int] = {}
        texts = (cell if type(cell) is str else cell_text(cell) for cell in cells)
        codes = np.array([index.setdefault(text, len(index)) for text in texts], np.int32)
        return cls.from_codes(codes, list(index))

    @classmethod
    def from_codes(
        cls, codes: NDArray, values: Sequence[str], ordered: bool = False
    ) -> Categorical:
        """Return a column with stripped, distinct values; missing-value strings have code −1."""
        index: dict[str, int] = {}
        # The last entry is the new code of −1.
        new_codes = np.full(len(values) + 1, -1, np.int32)
        for k, value in enumerate(values):
            text = value.strip()
            if text.lower() not in ALWAYS_MISSING:
                new_codes[k] = index.setdefault(text, len(index))
        if not np.array_equal(new_codes[:-1], np.arange(len(values))):
            codes = new_codes[codes]
        return cls(codes.astype(np.int32, copy=False), tuple(index), ordered)

    @classmethod
    def concatenate(cls, parts: Sequence[Categorical]) -> Categorical:
        """Concatenate parts of a column."""
        index: dict[str, int] = {}
        codes = []
        for part in parts:
            new_codes = [index.setdefault(value, len(index)) for value in part.values]
            codes.append(np.array([*new_codes, -1], np.int32)[part.codes])
        ordered = all(part.ordered and part.values == parts[0].values for part in parts)
        return cls(np.concatenate(codes), tuple(index), ordered)

    def without_none(self) -> Categorical:
        """Return the column with the text "none" as a missing value."""
        values = ["" if value.lower() == NONE else value for value in self.values]
        return Categorical.from_codes(self.codes, values, self.ordered) if "" in values else self

    @property
    def missing(self) -> NDArray:
        """Mask of missing values."""
        return self.codes < 0

    @property
    def counts(self) -> NDArray:
        """Number of rows with each value."""
        return np.bincount(self.codes[self.codes >= 0], minlength=len(self.values))

    @property
    def nbytes(self) -> int:
        """Approximate size in bytes, with an overhead of 128 bytes for each distinct string."""
        return int(self.codes.nbytes) + sum(len(value) + 128 for value in self.values)

    def first(self, code: int) -> int:
        """Return the index of the first row with the given code."""
        return int((self.codes == code).argmax())

    def tolist(self) -> list[str]:
        """Return the column as a list of strings, with "" for missing values."""
        texts = (*self.values, "")
        return [texts[code] for code in self.codes.tolist()]

    def strings(self) -> NDArray:
        """Return the column as an array of strings, with "" for missing values."""
        return np.array([*self.values, ""])[self.codes]

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: Any) -> Any:
        codes = self.codes[rows]
        if np.ndim(codes) == 0:
            return self.values[codes] if codes >= 0 else ""
        return Categorical(codes, self.values, self.ordered)

    def __iter__(self) -> Iterator[str]:
        return iter(self.tolist())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray:
        return np.array([*self.values, ""], object)[self.codes].astype(dtype or object)


# Column of numbers (float64, NaN if missing) or text.
Cells = NDArray | Categorical


def row_text(row: int, first_row: int = 0) -> str:
    """Return the location of a row for messages, if line numbers are not available."""
    return f"row {first_row + row + 1:,}"


@dataclass(frozen=True)
class RawTable:
    """Table before encoding.

    Parameters
    ----------
    name : str
        Name of the file, for messages.
    columns : mapping of str to ndarray or Categorical
        Columns by name. Numbers are float64 with NaN for missing values. Other arrays are converted
        if the mapping is a dict.
    locate : callable
        Function that returns the location of a row for messages, such as "line 17". By default,
        "row 1" is the first row.
    notes : tuple of str, default=()
        Assumptions that were made while reading.
    commas : frozenset of str, default=frozenset()
        Columns with decimal commas.
    encoder : TableEncoder, optional
        Encoder that is used by ``fit`` of an estimator.
    encoded : ndarray of shape (n_rows, n_features), optional
        Features computed by the encoder.
    names : tuple of str, default=()
        Names of all columns of the file if only some of them were read, for messages.
    """

    name: str
    columns: Mapping[str, Cells]
    locate: Callable[[int], str] = row_text
    notes: tuple[str, ...] = ()
    commas: frozenset[str] = frozenset()
    encoder: TableEncoder | None = None
    encoded: NDArray | None = None
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.columns, dict):
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

    @property
    def is_numeric_and_complete(self) -> bool:
        """True if all columns are numbers without missing values."""
        return not any(
            isinstance(cells, Categorical) or np.isnan(cells).any()
            for cells in self.columns.values()
        )

    def feature(self, name: str) -> Cells:
        """Return a feature column, in which the text "none" is a missing value."""
        cells = self.columns[name]
        return cells.without_none() if isinstance(cells, Categorical) else cells

    def part(self, start: int, stop: int) -> RawTable:
        """Return the rows from ``start`` to ``stop``, with their original locations."""
        return self._rows(slice(start, stop), lambda row: self.locate(row + start))

    def take(self, rows: NDArray) -> RawTable:
        """Return the given rows, with their original locations."""
        return self._rows(rows, lambda row: self.locate(int(rows[row])))

    def _rows(self, rows: Any, locate: Callable[[int], str]) -> RawTable:
        columns = {name: cells[rows] for name, cells in self.columns.items()}
        encoded = None if self.encoded is None else self.encoded[rows]
        return replace(self, columns=columns, locate=locate, encoded=encoded)

    def without(self, *names: str | None) -> RawTable:
        """Return the table without the given columns."""
        columns = {name: cells for name, cells in self.columns.items() if name not in names}
        return replace(self, columns=columns)


def cell_text(cell: Any) -> str:
    """Convert a cell to text; integers have no decimal point, and None is ""."""
    if cell is None:
        return ""
    if isinstance(cell, (float, np.floating)) and np.isfinite(cell) and cell == round(cell):
        return str(int(cell))
    return str(cell)


def quoted(text: str, max_length: int = 60) -> str:
    """Return quoted text for messages, truncated with an ellipsis."""
    return repr(text if len(text) <= max_length else text[: max_length - 1] + "…")


def as_cells(cells: Any) -> Cells:
    """Convert numbers and booleans to float64, and other types to text."""
    if isinstance(cells, Categorical):
        return cells
    cells = np.asarray(cells)
    if cells.dtype.kind in "biuf":
        return cells.astype(np.float64, copy=False)
    return Categorical.from_cells(cells)


def as_text(cells: Cells) -> Categorical:
    """Convert cells to text; integers have no decimal point."""
    if isinstance(cells, Categorical):
        return cells
    distinct, codes = np.unique(cells, return_inverse=True)
    return Categorical.from_codes(codes, [cell_text(cell) for cell in distinct.tolist()])


def is_missing(cells: Cells) -> NDArray:
    """Return the mask of missing values of a column."""
    return cells.missing if isinstance(cells, Categorical) else np.isnan(cells)


def join(batches: Sequence[Mapping[str, Cells]]) -> dict[str, Cells]:
    """Concatenate batches of rows; a column is text if it is text in any batch."""
    columns: dict[str, Cells] = {}
    for name in batches[0] if batches else ():
        parts = [batch[name] for batch in batches]
        if any(isinstance(part, Categorical) for part in parts):
            columns[name] = Categorical.concatenate([as_text(part) for part in parts])
        else:
            columns[name] = np.concatenate(parts)
    return columns


def check_unique(name: str, names: Sequence[str]) -> None:
    """Raise TableError if two columns have the same name."""
    duplicates = sorted(name for name, n in Counter(names).items() if n > 1)
    if duplicates:
        raise TableError(
            f"{name} has several columns named {', '.join(map(repr, duplicates))}; "
            "rename them, so that all names are unique"
        )


def require(table: RawTable, name: str, parameter: str, *others: str) -> None:
    """Raise TableError if the column that is given by a parameter does not exist.

    The message lists the columns of the table and ``others``.
    """
    if name not in table.columns:
        names = [*(table.names or table.columns), *others]
        raise TableError(
            f"{table.name} has no column {name!r} (`{parameter}`); it has "
            f"{', '.join(map(repr, names[:20]))}"
        )


def check_not_missing(table: RawTable, columns: Iterable[tuple[str, Cells]]) -> None:
    """Raise TableError if values are missing in columns of the table."""
    listed = []
    for name, cells in columns:
        missing = is_missing(cells)
        if missing.any():
            first = table.locate(int(missing.argmax()))
            listed.append(f"{np.count_nonzero(missing):,} in {name!r} (first: {first})")
    if listed:
        raise TableError(
            f"{table.name} has missing values: {', '.join(listed[:10])}; fill them in or remove "
            "these rows"
        )


# -- data frames ----------------------------------------------------------------------------------


def is_frame(data: Any) -> bool:
    """Return whether an object is a data frame from any library.

    Parameters
    ----------
    data : object
        Object to check.

    Returns
    -------
    bool
        True for objects with named columns.

    Examples
    --------
    >>> import pandas as pd
    >>> from maxplus.tables import is_frame
    >>> is_frame(pd.DataFrame({"a": [1]})), is_frame([[1.0]])
    (True, False)
    """
    if isinstance(data, RawTable):
        return True
    has_names = hasattr(data, "columns") or hasattr(data, "column_names")
    return has_names and any(
        hasattr(data, name) for name in ("__arrow_c_stream__", "__dataframe__", "dtypes")
    )


def table_of(frame: Any, name: str = "the data frame") -> RawTable:
    """Convert a data frame to a table.

    Parameters
    ----------
    frame : pandas or polars data frame, or pyarrow table
        Data frame to convert.
    name : str, default="the data frame"
        Name for messages.

    Returns
    -------
    RawTable
        Columns of the data frame.

    Examples
    --------
    >>> import pandas as pd
    >>> from maxplus.tables import table_of
    >>> table_of(pd.DataFrame({"a": [1.0, 2.0]})).n_rows
    2
    """
    if isinstance(frame, RawTable):
        return frame
    import pyarrow

    if hasattr(frame, "iloc"):
        # The index of a pandas data frame is ignored.
        names = [str(key) for key in frame.columns]
        check_unique(name, names)
        cells = [_cells_from_pandas(frame.iloc[:, k]) for k in range(len(names))]
        return RawTable(name, dict(zip(names, cells, strict=True)))
    try:
        table = frame if isinstance(frame, pyarrow.Table) else pyarrow.table(frame)
    except (TypeError, pyarrow.ArrowException) as error:
        raise TableError(
            f"{name}, of type {type(frame).__name__}, cannot be converted by pyarrow: {error}"
        ) from None
    check_unique(name, table.column_names)
    return RawTable(name, columns_from_arrow(table))


def columns_from_arrow(table: pyarrow.Table | pyarrow.RecordBatch) -> dict[str, Cells]:
    """Convert columns of numbers or booleans to floats, and others to text; dates in ISO format."""
    return dict(zip(table.schema.names, map(_cells_from_arrow, table.columns), strict=True))


def _cells_from_arrow(column: pyarrow.Array | pyarrow.ChunkedArray) -> Cells:
    import pyarrow
    from pyarrow import types

    kind = column.type
    if isinstance(column, pyarrow.ChunkedArray):
        if types.is_dictionary(kind):
            column = column.unify_dictionaries()
        # Combining copies the column.
        column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    numeric = (types.is_boolean, types.is_integer, types.is_floating, types.is_null)
    if types.is_decimal(kind) or any(is_type(kind) for is_type in numeric):
        return column.cast(pyarrow.float64(), safe=False).to_numpy(zero_copy_only=False)
    if not types.is_dictionary(kind):
        if types.is_nested(kind) or types.is_binary(kind) or types.is_large_binary(kind):
            return Categorical.from_cells(column.to_pylist())
        column = column.cast(pyarrow.string()).dictionary_encode()
    codes = column.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    values = ["" if value is None else str(value) for value in column.dictionary.to_pylist()]
    return Categorical.from_codes(codes, values, bool(column.type.ordered))


def _cells_from_pandas(column: Any) -> Cells:
    import pyarrow

    try:
        return _cells_from_arrow(pyarrow.Array.from_pandas(column))
    except (TypeError, ValueError, pyarrow.ArrowException):
        # Columns of objects may have mixed types.
        return Categorical.from_cells(column.tolist())


# -- tables distributed over MPI ranks ------------------------------------------------------------


def rows_of_rank(n: int, rank: int, size: int) -> range:
    """Return the part [rank·n / size, (rank + 1)·n / size) of n rows."""
    return range(rank * n // size, (rank + 1) * n // size)


def on_all_rows(work: Callable[[RawTable], T], table: RawTable) -> T:
    """Apply ``work`` to the rows of all ranks on rank 0, and return the result on all ranks.

    Rank 0 gathers complete columns one at a time, so the result is the same as in a single process.
    """
    comm = current()
    return comm.root_only(work, table if comm.is_serial else _SharedColumns(table, comm))


class _SharedColumns(Mapping[str, Cells]):
    """Columns of all ranks for `Communicator.root_only`, gathered on access; the last is cached."""

    def __init__(self, own: RawTable, comm: Communicator) -> None:
        self._own, self._comm = own, comm
        self._last: tuple[str, Cells] | None = None

    def whole(self, comm: Communicator) -> RawTable:
        """Return the table of the rows of all ranks, on rank 0."""
        return RawTable(self._own.name, self)

    def serve(self, comm: Communicator, request: Any) -> Cells:
        """Gather a column from all ranks."""
        cells = self._own.columns[request[1]]
        if not isinstance(cells, Categorical):
            return comm.gather(cells)
        whole = Categorical.concatenate(comm.allgather(cells[:0]))
        index = {value: k for k, value in enumerate(whole.values)}
        new_codes = np.array([*(index[value] for value in cells.values), -1], np.int32)
        return replace(whole, codes=comm.gather(new_codes[cells.codes]))

    def __getitem__(self, name: str) -> Cells:
        if self._last is None or self._last[0] != name:
            request = "column", name
            self._comm.bcast(request)
            self._last = name, self.serve(self._comm, request)
        return self._last[1]

    def __contains__(self, name: object) -> bool:
        return name in self._own.columns

    def __iter__(self) -> Iterator[str]:
        return iter(self._own.columns)

    def __len__(self) -> int:
        return len(self._own.columns)
