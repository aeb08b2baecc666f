"""Reader for Parquet files and folders of Parquet files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from maxplus.tables.frames import cells_of
from maxplus.tables.table import Cells, TableError, check_different

SUFFIXES = (".parquet", ".pq")
# Number of rows per batch.
BATCH_ROWS = 1 << 16


def parquet_batches(
    path: Path, only: Sequence[str] | None = None, part: tuple[int, int] = (0, 1)
) -> Iterator[dict[str, Cells]]:
    """Yield batches of rows.

    Parameters
    ----------
    path : Path
        File or folder.
    only : sequence of str, optional
        Columns to read. By default, all columns.
    part : (rank, size), default=(0, 1)
        Selects the rows [rank·N / size, (rank + 1)·N / size). A rank without rows gets an empty
        batch.
    """
    files, (rank, size), names, first = files_of(path), part, None, 0
    n = 0 if size == 1 else sum(_metadata(file).num_rows for file in files)
    begin, end = (rank * n // size, (rank + 1) * n // size) if size > 1 else (0, np.inf)
    is_empty = True
    for file in files:
        with _open_parquet(file) as content:
            file_columns = content.schema_arrow.names
            check_different(str(file), file_columns)
            names = names or file_columns
            if set(file_columns) != set(names):
                raise TableError(
                    f"{file} has other columns than {files[0]}; all must have the same"
                )
            selected = (
                None if only is None else [name for name in file_columns if name in set(only)]
            )
            for group in range(content.num_row_groups):
                n_rows = content.metadata.row_group(group).num_rows
                if first < end and first + n_rows > begin:
                    batches = content.iter_batches(BATCH_ROWS, row_groups=[group], columns=selected)
                    for batch in batches:
                        rows = slice(int(max(begin - first, 0)), int(min(end - first, len(batch))))
                        first += len(batch)
                        if rows.start < rows.stop and batch.num_columns:
                            is_empty = False
                            yield _columns(batch.slice(rows.start, rows.stop - rows.start))
                else:
                    first += n_rows
    if is_empty and size > 1:
        with _open_parquet(files[0]) as content:
            table = content.schema_arrow.empty_table()
            yield dict(zip(table.column_names, map(cells_of, table.columns), strict=True))


def parquet_bytes(path: Path) -> int:
    """Estimate the memory of all columns from the metadata, at 8 bytes per value."""
    total = 0
    for file in files_of(path):
        try:
            metadata = _metadata(file)
        except TableError:
            # The reader reports the error.
            continue
        total += 8 * metadata.num_rows * metadata.num_columns
    return total


def files_of(path: Path) -> list[Path]:
    """Return the file, or the sorted Parquet files of a folder."""
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.iterdir() if file.suffix.lower() in SUFFIXES)
    for file in files:
        if not file.is_file():
            raise TableError(f"{file} is no file; keep only Parquet files in {path}")
    if not files:
        raise TableError(f"{path} is a folder without Parquet files; name a file in it")
    return files


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
                f"{path} is not a readable Parquet file: {error}; write it anew, or as CSV"
            ) from None


def _metadata(path: Path) -> Any:
    with _open_parquet(path) as content:
        return content.metadata


def _columns(batch: Any) -> dict[str, Cells]:
    return {
        str(name): cells_of(cells)
        for name, cells in zip(batch.schema.names, batch.columns, strict=True)
    }
