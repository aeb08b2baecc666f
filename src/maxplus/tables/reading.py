"""Files as tables, by their endings; whole or in batches."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from maxplus.tables.bytes_of import PACKED, STDIN, Source
from maxplus.tables.choices import require
from maxplus.tables.csv_files import (
    READABLE,
    Batch,
    OtherKindsError,
    ReadAs,
    line_of,
    text_batches,
    typed_batches,
)
from maxplus.tables.excel_files import read_excel
from maxplus.tables.memory import COPIES, check_memory, collect
from maxplus.tables.npz_files import npz_batches
from maxplus.tables.parquet_files import ENDINGS as PARQUET
from maxplus.tables.parquet_files import parquet_batches, parquet_bytes
from maxplus.tables.table import NoRowsError, RawTable, TableError, join, row_in_words
from maxplus.tables.words import Words

CSV = (".csv", ".tsv", ".txt")
NUMPY = (".npz", ".npy")
EXCEL = (".xlsx", ".xlsm")


def read_table(path: str | Path, read_as: ReadAs | None = None) -> RawTable:
    """Read a file by its ending, or CSV text from standard input, which is "-".

    The endings are .csv, .tsv and .txt, maybe packed; .xlsx; .parquet, or a folder of such files;
    .npz with X, maybe y; .npy with a column for each feature and one for labels.
    A column of a CSV file is numbers if every value is one, or missing, else words;
    ``read_as`` tells for some whether they hold words (True) or must hold numbers (False).

    Parameters
    ----------
    path : str or path
    read_as : mapping from names of columns to bool, optional

    Returns
    -------
    RawTable

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
        return _read_table(path, _ending(path), read_as)
    except MemoryError as error:
        raise TableError(
            f"{path} does not fit into memory ({error}); use fewer rows or columns"
        ) from None


def _read_table(path: str | Path, ending: str, read_as: ReadAs | None) -> RawTable:
    if ending in EXCEL:
        return read_excel(Path(path))
    if ending not in CSV:
        if ending in PARQUET:
            check_memory(str(path), COPIES * parquet_bytes(Path(path)))
        batches = collect(str(path), _other_batches(Path(path), ending))
        if not batches:
            raise NoRowsError(path)
        return RawTable(str(path), join(batches))
    source = Source.of(path)
    kinds = read_as or {}
    try:
        batches = collect(source.name, typed_batches(source, kinds))
        late = []
    except OtherKindsError:
        words, numbers = _told(kinds)
        batches = collect(source.name, text_batches(source, words, None, numbers))
        # Numbers at first and words later: only these are read again, all at once.
        late = [n for n in words if any(not isinstance(part.get(n), Words) for part in batches)]
        late = [name for name in late if batches and name in batches[0]]
    if not batches:
        raise NoRowsError(source.name)
    columns = join(batches)
    if late:
        columns |= join(collect(source.name, text_batches(source, set(late), late)))
    return _csv_table(source, columns)


def read_batches(
    path: str | Path,
    read_as: ReadAs | None = None,
    *,
    also: Sequence[str] = (),
) -> Iterator[RawTable]:
    """The rows of `read_table` in parts, for tables that do not fit into memory.

    Parameters
    ----------
    path : str or path
    read_as : the columns to read, as far as they are there, and whether they hold words
        All columns by default, which takes a second pass over a CSV file: only the whole of it
        tells which columns hold words.
    also : further columns that must be there

    Yields
    ------
    RawTable
        A part of the rows.

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
    ending = _ending(path)
    n_parts = 0
    for part in _parts(path, ending, read_as, also):
        for name in also:
            require(part, name, "--keep-columns")
        yield part
        n_parts += 1
    if not n_parts:
        raise NoRowsError(path)


def _parts(
    path: str | Path, ending: str, read_as: ReadAs | None, also: Sequence[str]
) -> Iterator[RawTable]:
    if ending in EXCEL:
        yield read_excel(Path(path))
        return
    source = Source.of(path, once=read_as is not None) if ending in CSV else Source(Path(path))
    if read_as is None:
        kinds, only = _kinds(source) if ending in CSV else {}, None
    else:
        # What is only carried along is words, as it was written.
        kinds = {**dict.fromkeys(also, True), **read_as}
        only = list(kinds)
    batches = (
        _csv_batches(source, kinds, only)
        if ending in CSV
        else _other_batches(Path(path), ending, only)
    )
    first_row = 0
    for columns in batches:
        part = (
            _csv_table(source, columns, first_row)
            if ending in CSV
            else RawTable(source.name, columns, partial(_later_row, first_row))
        )
        yield part
        first_row += part.n_rows


def _csv_batches(source: Source, kinds: ReadAs, only: Sequence[str] | None) -> Iterator[Batch]:
    """Quickly, and from where that fails on more thoroughly."""
    n_given = 0
    if source.again:
        try:
            for columns in typed_batches(source, kinds, only):
                yield columns
                n_given += _n_rows(columns)
            return
        except OtherKindsError:
            pass
    words, numbers = _told(kinds)
    for columns in text_batches(source, words, only, numbers):
        skipped = min(n_given, _n_rows(columns))
        n_given -= skipped
        if skipped < _n_rows(columns):
            yield {name: cells[skipped:] for name, cells in columns.items()}


def _kinds(source: Source) -> dict[str, bool | None]:
    """Which columns of a CSV file hold words: all of it is read."""
    words: set[str] = set()
    names: list[str] = []
    for columns in text_batches(source, words):
        names = list(columns)
    return {name: name in words for name in names}


def _told(kinds: ReadAs) -> tuple[set[str], set[str]]:
    """Which columns hold words, and which must hold numbers."""
    return {n for n, is_words in kinds.items() if is_words}, {n for n in kinds if kinds[n] is False}


def _csv_table(source: Source, columns: Batch, first_row: int = 0) -> RawTable:
    return RawTable(
        source.name, columns, lambda row: line_of(source, first_row + row), source.notes,
        source.commas,
    )  # fmt: skip


def _later_row(first_row: int, row: int) -> str:
    return row_in_words(first_row + row)


def _other_batches(
    path: Path, ending: str, only: Sequence[str] | None = None
) -> Iterator[Batch]:  # fmt: skip
    return parquet_batches(path, only) if ending in PARQUET else npz_batches(path)


def _n_rows(columns: Batch) -> int:
    return len(next(iter(columns.values()), ()))


def _ending(path: str | Path) -> str:
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
    ending = path.suffix.lower()
    if ending in PACKED and path.with_suffix("").suffix.lower() in CSV:
        return path.with_suffix("").suffix.lower()
    if ending not in (*CSV, *PARQUET, *EXCEL, *NUMPY):
        raise TableError(f"{path} ends in {ending!r}; data is read from {READABLE}")
    return ending
