"""Readers of table files, selected by the file suffix."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from maxplus.tables.categorical import MISSING, Categorical
from maxplus.tables.csv_files import (
    COMPRESSED,
    READABLE,
    STDIN,
    Batch,
    Source,
    csv_batches,
    line_of,
)
from maxplus.tables.npz_files import npz_batches
from maxplus.tables.parquet_files import SUFFIXES as PARQUET
from maxplus.tables.parquet_files import parquet_batches, parquet_bytes
from maxplus.tables.table import (
    Cells,
    NoRowsError,
    RawTable,
    TableError,
    check_different,
    join,
    require,
    row_text,
)

CSV = (".csv", ".tsv", ".txt")
NUMPY = (".npz", ".npy")
EXCEL = (".xlsx", ".xlsm")
# Size in bytes up to which tables are read without checking the available memory.
ALWAYS_READ = 1 << 27
# Number of copies in memory: batches, columns and features.
COPIES = 3
# Overhead in bytes of a distinct string in a `Categorical`.
BYTES_PER_VALUE = 128

# Type of each column: True for text, False for numbers, None if inferred.
ReadAs = Mapping[str, bool | None]


def read_table(path: str | Path, read_as: ReadAs | None = None) -> RawTable:
    """Read a table from a file or from standard input.

    Supported suffixes are .csv, .tsv and .txt (optionally compressed), .xlsx, .parquet (or a folder
    of Parquet files), .npz with arrays X and y, and .npy with an array of features and labels. A
    column of a CSV file is numeric if every value is a number or missing.

    Parameters
    ----------
    path : str or path
        Name of the file, or "-" for CSV text from standard input.
    read_as : mapping of str to bool, optional
        Types of columns that override inference: True for text, False for numbers.

    Returns
    -------
    RawTable
        Columns of the table.

    Examples
    --------
    >>> import os, tempfile
    >>> from maxplus.tables import read_table
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = os.path.join(folder.name, "apples.csv")
    >>> with open(path, "w") as file:
    ...     print("weight,goes to", "150,shop", "98,juice", "120,shop", sep=chr(10), file=file)
    >>> list(read_table(path).columns)
    ['weight', 'goes to']
    >>> folder.cleanup()
    """
    try:
        return _read_table(path, _table_suffix(path), read_as)
    except MemoryError as error:
        raise TableError(
            f"{path} does not fit into memory ({error}); use fewer rows or columns"
        ) from None


def _read_table(path: str | Path, suffix: str, read_as: ReadAs | None) -> RawTable:
    if suffix in EXCEL:
        return read_excel(Path(path))
    if suffix not in CSV:
        if suffix in PARQUET:
            check_memory(str(path), COPIES * parquet_bytes(Path(path)))
        batches = collect(str(path), _other_batches(Path(path), suffix))
        if not batches:
            raise NoRowsError(path)
        return RawTable(str(path), join(batches))
    source = Source.of(path)
    texts, numbers = _by_type(read_as or {})
    batches = collect(source.name, csv_batches(source, texts, None, numbers))
    if not batches:
        raise NoRowsError(source.name)
    columns = join(batches)
    # Columns with text after numbers are read again as text.
    mixed = [
        name
        for name in texts.intersection(columns)
        if not all(isinstance(part[name], Categorical) for part in batches)
    ]
    if mixed:
        columns |= join(collect(source.name, csv_batches(source, set(mixed), mixed)))
    return _csv_table(source, columns)


def read_batches(
    path: str | Path, read_as: ReadAs | None = None, *, also: Sequence[str] = ()
) -> Iterator[RawTable]:
    """Read a table in batches of rows, for tables that do not fit into memory.

    Parameters
    ----------
    path : str or path
        Name of the file, as in `read_table`.
    read_as : mapping of str to bool, optional
        Columns to read, if they exist, and their types as in `read_table`. By default, all columns
        are read, with an additional pass over CSV files to infer the types.
    also : sequence of str, default=()
        Additional columns to read, which must exist.

    Yields
    ------
    RawTable
        Batch of rows.

    Examples
    --------
    >>> import os, tempfile
    >>> from maxplus.tables import read_batches
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = os.path.join(folder.name, "apples.csv")
    >>> with open(path, "w") as file:
    ...     print("weight,goes to", "150,shop", "98,juice", "120,shop", sep=chr(10), file=file)
    >>> sum(part.n_rows for part in read_batches(path))
    3
    >>> folder.cleanup()
    """
    suffix = _table_suffix(path)
    n_parts = 0
    for part in _parts(path, suffix, read_as, also):
        for name in also:
            require(part, name, "--keep-columns")
        yield part
        n_parts += 1
    if not n_parts:
        raise NoRowsError(path)


def _parts(
    path: str | Path, suffix: str, read_as: ReadAs | None, also: Sequence[str]
) -> Iterator[RawTable]:
    if suffix in EXCEL:
        yield read_excel(Path(path))
        return
    # Columns that are copied to the output are read as text, to preserve their format.
    types = None if read_as is None else {**dict.fromkeys(also, True), **read_as}
    only, first_row = None if types is None else list(types), 0
    if suffix not in CSV:
        for columns in _other_batches(Path(path), suffix, only):
            part = RawTable(str(path), columns, partial(_row_text_from, first_row))
            yield part
            first_row += part.n_rows
        return
    source = Source.of(path, once=types is not None)
    texts, numbers = _by_type(types or {})
    if types is None:
        for _ in csv_batches(source, texts):
            pass  # Adds text columns to ``texts``.
    for columns in csv_batches(source, texts, only, numbers):
        part = _csv_table(source, columns, first_row)
        yield part
        first_row += part.n_rows


def _by_type(types: ReadAs) -> tuple[set[str], set[str]]:
    """Return the text columns and the numeric columns."""
    return {n for n, is_text in types.items() if is_text}, {n for n in types if types[n] is False}


def _csv_table(source: Source, columns: Batch, first_row: int = 0) -> RawTable:
    return RawTable(
        source.name,
        columns,
        lambda row: line_of(source, first_row + row),
        source.notes,
        source.commas,
    )


def _row_text_from(first_row: int, row: int) -> str:
    return row_text(first_row + row)


def _other_batches(path: Path, suffix: str, only: Sequence[str] | None = None) -> Iterator[Batch]:
    return parquet_batches(path, only) if suffix in PARQUET else npz_batches(path)


def _table_suffix(path: str | Path) -> str:
    if str(path) == STDIN:
        return CSV[0]
    path = Path(path)
    try:
        path.stat()
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise TableError(
                f"{path} is a symbolic link that leads back to itself; name the file"
            ) from None
    if path.is_dir():
        return PARQUET[0]
    suffix = path.suffix.lower()
    if suffix in COMPRESSED and path.with_suffix("").suffix.lower() in CSV:
        return path.with_suffix("").suffix.lower()
    if suffix not in (*CSV, *PARQUET, *EXCEL, *NUMPY):
        raise TableError(f"{path} ends in {suffix!r}; data is read from {READABLE}")
    return suffix


def check_memory(name: str, needed: int, taken: int = 0) -> None:
    """Raise TableError if a table of ``needed`` bytes does not fit into the available memory.

    ``taken`` bytes are already allocated by the table and count as available.
    """
    if needed < ALWAYS_READ:
        return
    from maxplus.training.memory import available_bytes, human_bytes

    available = available_bytes()
    if available is not None and needed > available + taken:
        raise TableError(
            f"{name} needs at least {human_bytes(needed)} of memory, but only "
            f"{human_bytes(available + taken)} are available; use fewer rows or columns (predict, "
            "evaluate and certify read a file in parts)"
        )


def collect(name: str, batches: Iterable[Mapping[str, Cells]]) -> list[Mapping[str, Cells]]:
    """Return all batches as a list; raise TableError if they exceed the available memory."""
    collected: list[Mapping[str, Cells]] = []
    n_bytes = checked = 0
    for batch in batches:
        collected.append(batch)
        n_bytes += sum(map(_n_bytes, batch.values()))
        if n_bytes - checked > ALWAYS_READ // COPIES:
            check_memory(name, COPIES * n_bytes, n_bytes)
            checked = n_bytes
    return collected


def _n_bytes(cells: Cells) -> int:
    if isinstance(cells, Categorical):
        n_characters = sum(map(len, cells.values))
        return int(cells.codes.nbytes) + n_characters + BYTES_PER_VALUE * len(cells.values)
    return int(cells.nbytes)


def read_excel(path: Path) -> RawTable:
    """Read the first sheet of a workbook; the first non-empty row is the header."""
    try:
        import openpyxl
    except ImportError:
        raise ImportError(
            f"{path} is read by openpyxl: pip install 'maxplus[excel]', or save it as CSV"
        ) from None
    with open(path, "rb") as file:
        # openpyxl raises various exceptions for damaged files.
        try:
            book = openpyxl.load_workbook(file, read_only=True, data_only=True)
            sheet = book.worksheets[0]
            rows = list(_filled_rows(sheet.iter_rows(values_only=True)))
            sheets = book.sheetnames
            book.close()
        except Exception as error:
            raise TableError(
                f"{path} is not a readable Excel workbook: {error}; save it anew, or as CSV"
            ) from None
    if len(rows) < 2:
        raise NoRowsError(path, " in its first sheet")
    (_, header), *body = rows
    width = max(k + 1 for _, row in rows for k, cell in enumerate(row) if cell is not None)
    names = ["" if cell is None else str(cell).strip() for cell in header]
    names += [""] * (width - len(names))
    if "" in names[:width]:
        raise TableError(f"{path}: column {names.index('') + 1} has no name; give it one")
    check_different(str(path), names[:width])
    columns = {
        name: _cells([row[k] if k < len(row) else None for _, row in body])
        for k, name in enumerate(names[:width])
    }
    numbers = [number for number, _ in body]
    notes = (
        (f"{path} has {len(sheets)} sheets: the first, {sheets[0]!r}, is read",)
        if len(sheets) > 1
        else ()
    )
    return RawTable(str(path), columns, lambda row: f"row {numbers[row]:,} of the sheet", notes)


def _filled_rows(rows: Iterator[tuple]) -> Iterator[tuple[int, tuple]]:
    """Return the non-empty rows and their row numbers in the sheet."""
    return ((k, row) for k, row in enumerate(rows, 1) if any(cell is not None for cell in row))


def _cells(cells: list[Any]) -> Cells:
    """Convert cells to numbers if possible, else to text."""
    numbers = [_number(cell) for cell in cells]
    if None in numbers:
        return Categorical.of(cells)
    return np.array(numbers, np.float64)


def _number(cell: Any) -> float | None:
    if isinstance(cell, (int, float)):
        return float(cell)
    missing = cell is None or (isinstance(cell, str) and cell.strip().lower() in MISSING)
    return np.nan if missing else None
