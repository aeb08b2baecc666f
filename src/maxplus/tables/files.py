"""Reading of table files: delimited text, Parquet, NumPy arrays and Excel sheets."""

from __future__ import annotations

import errno
import math
import os
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxplus.tables.columns import Number
from maxplus.tables.csv_files import (
    COMPRESSED,
    READABLE,
    STDIN,
    Source,
    check_names,
    csv_batches,
)
from maxplus.tables.table import (
    MISSING,
    Categorical,
    Cells,
    NoRowsError,
    RawTable,
    TableError,
    check_unique,
    columns_from_arrow,
    join,
    require,
    row_text,
    rows_of_rank,
)

CSV, PARQUET = (".csv", ".tsv", ".txt"), (".parquet", ".pq")
NUMPY, EXCEL = (".npz", ".npy"), (".xlsx", ".xlsm")
# Number of rows per batch of Parquet files and arrays.
BATCH_ROWS = 1 << 16
# Size in bytes up to which tables are read without checking the available memory.
ALWAYS_READ = 1 << 27
# Number of copies in memory: batches, columns and features.
COPIES = 3
# Maximum size of the arrays in an NPZ file, absolute in bytes and relative to the size of the file,
# as a protection against zip bombs. The larger limit applies.
MAX_BYTES, MAX_RATIO = 100_000_000, 100
# Readers of the headers of NPY files by version.
HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}

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
        Types of columns of CSV files that override inference: True for text, False for numbers. The
        types in other files are not changed.

    Returns
    -------
    RawTable
        Columns of the table.

    Examples
    --------
    >>> import os, tempfile
    >>> import pandas as pd
    >>> from maxplus.tables import read_table
    >>> frame = pd.DataFrame({"weight": [150, 98, 120], "goes to": ["shop", "juice", "shop"]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "apples.csv")
    ...     frame.to_csv(path, index=False)
    ...     list(read_table(path).columns)
    ['weight', 'goes to']
    """
    try:
        suffix = _suffix(path)
        if suffix in EXCEL:
            table = _read_excel(Path(path))
        elif suffix in CSV:
            table = _read_csv(Source.from_path(path), read_as or {})
        else:
            if suffix in PARQUET:
                n_values = sum(m.num_rows * m.num_columns for m in _all_metadata(Path(path)))
                check_memory(str(path), COPIES * 8 * n_values)
            table = read_part(Path(path))
    except MemoryError as error:
        raise TableError(
            f"{path} does not fit into memory ({error}); use fewer rows or columns"
        ) from None
    if not table.n_rows:
        raise NoRowsError(table.name)
    return table


def read_batches(
    path: str | Path, read_as: ReadAs | None = None, *, extra_columns: Sequence[str] = ()
) -> Iterator[RawTable]:
    """Read a table in batches of rows, for tables that do not fit into memory.

    Parameters
    ----------
    path : str or path
        Name of the file, as in `read_table`.
    read_as : mapping of str to bool, optional
        Columns of CSV and Parquet files to read, if they exist, and their types as in `read_table`.
        Other files are read completely. By default, all columns are read, with an additional pass
        over CSV files to infer the types.
    extra_columns : sequence of str, default=()
        Additional columns to read, which must exist.

    Yields
    ------
    RawTable
        Batch of rows.

    Examples
    --------
    >>> import os, tempfile
    >>> import pandas as pd
    >>> from maxplus.tables import read_batches
    >>> frame = pd.DataFrame({"weight": [150, 98, 120], "goes to": ["shop", "juice", "shop"]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "apples.csv")
    ...     frame.to_csv(path, index=False)
    ...     sum(part.n_rows for part in read_batches(path))
    3
    """
    suffix, n_rows = _suffix(path), 0
    # Columns that are copied to the output are read as text, to preserve their format.
    types = None if read_as is None else {**dict.fromkeys(extra_columns, True), **read_as}
    for table in _tables(path, suffix, types):
        for name in extra_columns:
            require(table, name, "extra_columns")
        if table.n_rows:
            n_rows += table.n_rows
            yield table
    if not n_rows:
        raise NoRowsError(path)


def _tables(path: str | Path, suffix: str, types: ReadAs | None) -> Iterator[RawTable]:
    """Yield batches of rows of any file."""
    only, first_row = None if types is None else list(types), 0
    if suffix in EXCEL:
        yield _read_excel(Path(path))
    elif suffix in CSV:
        source, text_columns = (
            Source.from_path(path, once=types is not None),
            _text_columns(types or {}),
        )
        if types is None:
            for _ in csv_batches(source, text_columns):
                pass  # The generator adds the text columns to ``text_columns``.
        for columns in csv_batches(source, text_columns, only):
            table = _csv_table(source, columns, types or {}, first_row)
            yield table
            first_row += table.n_rows
    else:
        names = () if suffix in NUMPY else _parquet_names(Path(path))
        for columns in _batches(Path(path), suffix, only):
            locate = partial(row_text, first_row=first_row)
            table = RawTable(str(path), columns, locate, names=names)
            yield table
            first_row += table.n_rows


def read_part(path: Path, rank: int = 0, size: int = 1) -> RawTable:
    """Read the part of a Parquet, NPZ or NPY file that belongs to a rank (`rows_of_rank`)."""
    batches = _batches(path, _suffix(path), None, rank, size)
    return RawTable(str(path), join(_collect(str(path), batches)))


def _suffix(path: str | Path) -> str:
    """Return the suffix that selects the reader."""
    if str(path) == STDIN:
        return CSV[0]
    path = Path(path)
    try:
        path.stat()
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise TableError(
                f"{path} is a circular symbolic link; specify the file itself"
            ) from None
    if path.is_dir():
        return PARQUET[0]
    suffix = path.suffix.lower()
    if suffix in COMPRESSED and path.with_suffix("").suffix.lower() in CSV:
        return path.with_suffix("").suffix.lower()
    if suffix not in (*CSV, *PARQUET, *EXCEL, *NUMPY):
        raise TableError(f"{path} ends in {suffix!r}; supported files are {READABLE}")
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
            f"{human_bytes(available + taken)} is available; use fewer rows or columns (the "
            "commands predict, evaluate and certify read a file in parts)"
        )


def _collect(name: str, batches: Iterable[Mapping[str, Cells]]) -> list[Mapping[str, Cells]]:
    """Return all batches; raise TableError if they exceed the available memory."""
    collected, n_bytes = [], 0
    for batch in batches:
        collected.append(batch)
        n_bytes += sum(cells.nbytes for cells in batch.values())
        check_memory(name, COPIES * n_bytes, n_bytes)
    return collected


# -- delimited text -------------------------------------------------------------------------------


def _read_csv(source: Source, types: ReadAs) -> RawTable:
    text_columns = _text_columns(types)
    batches = _collect(source.name, csv_batches(source, text_columns))
    columns = join(batches)
    # Columns that are numeric in some batches and text in others are read again as text.
    mixed = [
        name
        for name in text_columns.intersection(columns)
        if not all(isinstance(batch[name], Categorical) for batch in batches)
    ]
    if mixed:
        columns |= join(_collect(source.name, csv_batches(source, set(mixed), mixed)))
    return _csv_table(source, columns, types)


def _text_columns(types: ReadAs) -> set[str]:
    return {name for name, is_text in types.items() if is_text}


def _csv_table(
    source: Source, columns: dict[str, Cells], types: ReadAs, first_row: int = 0
) -> RawTable:
    """Return a table; raise TableError if a numeric column contains text."""

    def locate(row: int) -> str:
        return source.line_of(first_row + row)

    names = source.names if len(columns) < len(source.names) else ()
    table = RawTable(source.name, columns, locate, source.notes, source.commas, names=names)
    for name in columns:
        if types.get(name) is False:
            columns[name] = Number(name).numbers(table)
    return table


# -- Parquet --------------------------------------------------------------------------------------


def _batches(
    path: Path, suffix: str, only: Sequence[str] | None = None, rank: int = 0, size: int = 1
) -> Iterator[dict[str, Cells]]:
    """Yield batches of the part of a Parquet, NPZ or NPY file that belongs to a rank."""
    if suffix in PARQUET:
        return _parquet_batches(path, only, rank, size)
    return _array_batches(path, rank, size)


def _parquet_batches(
    path: Path, only: Sequence[str] | None, rank: int, size: int
) -> Iterator[dict[str, Cells]]:
    rows = rows_of_rank(sum(m.num_rows for m in _all_metadata(path)), rank, size)
    files = _parquet_files(path)
    names, first = None, 0
    for file in files:
        with _open_parquet(file) as content:
            file_columns = content.schema_arrow.names
            check_unique(str(file), file_columns)
            names = names or file_columns
            if set(file_columns) != set(names):
                raise TableError(
                    f"{file} and {files[0]} have different columns; all files must have the same"
                )
            if not rows and file == files[0]:
                yield columns_from_arrow(content.schema_arrow.empty_table())
            # If none of the requested columns exists, all are read.
            columns = [name for name in file_columns if name in (only or ())] or None
            for group in range(content.num_row_groups):
                n = content.metadata.row_group(group).num_rows
                if first < rows.stop and first + n > rows.start:
                    begin = first
                    batches = content.iter_batches(BATCH_ROWS, row_groups=[group], columns=columns)
                    for batch in batches:
                        start, stop = max(rows.start - begin, 0), min(rows.stop - begin, len(batch))
                        begin += len(batch)
                        if start < stop and batch.num_columns:
                            yield columns_from_arrow(batch.slice(start, stop - start))
                first += n


def _parquet_names(path: Path) -> tuple[str, ...]:
    """Return the names of the columns of a file, or of the first file of a folder."""
    with _open_parquet(_parquet_files(path)[0]) as content:
        return tuple(content.schema_arrow.names)


def _parquet_files(path: Path) -> list[Path]:
    """Return the file, or the sorted Parquet files of a folder."""
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.iterdir() if file.suffix.lower() in PARQUET)
    for file in files:
        if not file.is_file():
            raise TableError(f"{file} is not a file; keep only Parquet files in {path}")
    if not files:
        raise TableError(
            f"{path} is a folder without Parquet files; specify another folder or a file"
        )
    return files


def _all_metadata(path: Path) -> list[Any]:
    """Return the metadata of all files."""
    metadata = []
    for file in _parquet_files(path):
        with _open_parquet(file) as content:
            metadata.append(content.metadata)
    return metadata


@contextmanager
def _open_parquet(path: Path) -> Iterator[Any]:
    """Open a Parquet file; raise TableError if it is invalid."""
    import pyarrow
    from pyarrow import parquet

    # The error messages of Python's open contain the file name and the reason.
    with open(path, "rb") as file:
        try:
            yield parquet.ParquetFile(file)
        except MemoryError:
            raise
        except (pyarrow.ArrowException, OSError) as error:
            raise TableError(
                f"{path} is not a readable Parquet file: {error}; write it again, or as CSV"
            ) from None


# -- NumPy arrays ---------------------------------------------------------------------------------


def _array_batches(path: Path, rank: int, size: int) -> Iterator[dict[str, Cells]]:
    """Yield the columns of an NPZ file with X, y and feature_names, or of an NPY file."""
    is_npy = path.suffix.lower() == ".npy"
    arrays = {"X": _load_npy(path)} if is_npy else _load_npz(path)
    X, y = arrays.get("X"), arrays.get("y")
    # An array without rows may declare a huge number of columns.
    if X is not None and X.ndim and not X.size:
        raise NoRowsError(path)
    if X is None or X.ndim != 2 or X.dtype.kind not in "biuf":
        raise TableError(
            f"{path} must contain an array X of numbers with a row for each sample, and an array y "
            f"with the labels; it contains {', '.join(sorted(arrays)) or 'no arrays'}"
        )
    n, n_features = X.shape
    names = [f"feature {p}" for p in range(n_features)]
    if "feature_names" in arrays:
        given = arrays["feature_names"]
        names = [str(name) for name in given] if given.shape == (n_features,) else []
    if len(set(names)) != n_features:
        raise TableError(f"{path}: feature_names must be {n_features} different names")
    if y is not None and y.shape != (n,):
        raise TableError(f"{path}: y must contain {n} labels, one for each row of X")
    if y is not None and "y" in names:
        raise TableError(f"{path}: a feature and the labels are both named 'y'; rename the feature")
    own = rows_of_rank(n, rank, size)
    for start in range(own.start, max(own.stop, own.start + 1), BATCH_ROWS):
        rows = slice(start, min(start + BATCH_ROWS, own.stop))
        columns: dict[str, Cells] = {
            name: X[rows, p].astype(np.float64) for p, name in enumerate(names)
        }
        if y is not None:
            is_numeric = y.dtype.kind in "biuf"
            columns["y"] = (
                y[rows].astype(np.float64)
                if is_numeric
                else Categorical.from_cells(map(str, y[rows]))
            )
        yield columns


def _load_npy(path: Path) -> NDArray:
    """Return the memory-mapped array of an NPY file."""
    try:
        X = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise
    except Exception:
        raise TableError(
            f"{path} is not a readable NPY file of numbers; write it again with "
            "np.save(path, np.column_stack([X, y]))"
        ) from None
    if X.ndim != 2 or X.dtype.kind not in "biuf":
        raise TableError(
            f"{path} must contain an array of numbers with a row for each sample and a column for "
            f"each feature and the labels; it has the shape {X.shape} and the type {X.dtype}"
        )
    return X


def _load_npz(path: Path) -> dict[str, NDArray]:
    """Return the arrays by name; raise TableError for an invalid file or a zip bomb."""
    with open(path, "rb") as file:
        try:
            with zipfile.ZipFile(file) as archive:
                members = [m for m in archive.infolist() if m.filename.endswith(".npy")]
                size = os.fstat(file.fileno()).st_size
                n_bytes = sum(member.file_size for member in members)
                if n_bytes > max(MAX_BYTES, MAX_RATIO * size):
                    raise TableError(
                        f"{path} has {size:,} bytes, and {n_bytes:,} after decompression, over "
                        f"{MAX_RATIO} times as many; if this is intended, write it uncompressed "
                        "with np.savez"
                    )
                return {
                    member.filename.removesuffix(".npy"): _read_array(path, archive, member)
                    for member in members
                }
        except TableError:
            raise
        # NumPy and zipfile raise various exceptions for damaged files.
        except Exception:
            raise TableError(
                f"{path} is not a readable NPZ file; write it again with np.savez(path, X=X, y=y)"
            ) from None


def _read_array(path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray:
    """Read an array; raise an error if its size differs from the size in the archive."""
    with archive.open(member) as stream:
        shape, is_fortran, dtype = HEADERS[np.lib.format.read_magic(stream)](stream)
        if dtype.hasobject:
            raise TableError(
                f"{path}: the array {member.filename.removesuffix('.npy')!r} contains Python "
                "objects, which cannot be loaded; save numbers, or text with astype(str)"
            )
        n_bytes = math.prod(shape) * dtype.itemsize
        if n_bytes != member.file_size - stream.tell():
            raise ValueError("the shape does not match the size in bytes")
        flat = np.frombuffer(stream.read(n_bytes), dtype, count=math.prod(shape))
        return flat.reshape(shape, order="F" if is_fortran else "C")


# -- Excel ----------------------------------------------------------------------------------------


def _read_excel(path: Path) -> RawTable:
    """Read the first sheet of a workbook; the first non-empty row is the header."""
    try:
        import openpyxl
    except ImportError:
        raise ImportError(
            f"{path} requires openpyxl: pip install 'maxplus[excel]', or save it as CSV"
        ) from None
    with open(path, "rb") as file:
        # openpyxl raises various exceptions for damaged files.
        try:
            book = openpyxl.load_workbook(file, read_only=True, data_only=True)
            sheets = book.sheetnames
            rows = [
                (number, cells)
                for number, cells in enumerate(book.worksheets[0].iter_rows(values_only=True), 1)
                if any(cell is not None for cell in cells)
            ]
            book.close()
        except Exception as error:
            raise TableError(
                f"{path} is not a readable Excel workbook: {error}; save it again, or as CSV"
            ) from None
    if len(rows) < 2:
        raise NoRowsError(path, " in its first sheet")
    (_, header), *body = rows
    width = max(k + 1 for _, cells in rows for k, cell in enumerate(cells) if cell is not None)
    names = ["" if cell is None else str(cell).strip() for cell in header[:width]]
    names += [""] * (width - len(names))
    check_names(str(path), names)
    columns = {
        name: _cells([cells[k] if k < len(cells) else None for _, cells in body])
        for k, name in enumerate(names)
    }
    notes = (f"{path} has {len(sheets)} sheets: the first, {sheets[0]!r}, is read",)
    return RawTable(
        str(path),
        columns,
        lambda row: f"row {body[row][0]:,} of the sheet",
        notes if len(sheets) > 1 else (),
    )


def _cells(cells: list[Any]) -> Cells:
    """Convert cells to numbers if possible, else to text."""
    numbers = []
    for cell in cells:
        if cell is None or (isinstance(cell, str) and cell.strip().lower() in MISSING):
            numbers.append(np.nan)
        elif isinstance(cell, (int, float)):
            numbers.append(float(cell))
        else:
            return Categorical.from_cells(cells)
    return np.array(numbers, np.float64)
