"""Reader for a Parquet file, or a folder of them, in batches of rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from maxplus.tables.frames import cells_of
from maxplus.tables.table import Cells, TableError, check_different

ENDINGS = (".parquet", ".pq")
# Number of rows in each batch.
ROWS_AT_ONCE = 1 << 16


def parquet_batches(
    path: Path, only: Sequence[str] | None = None, part: tuple[int, int] = (0, 1)
) -> Iterator[dict[str, Cells]]:
    """Yield batches of rows, file by file; all columns, or those in ``only``.

    ``part`` is (rank, size) and selects the rows [rank·N / size, (rank + 1)·N / size) of all N.
    A rank without rows gets one empty batch.
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
            wanted = None if only is None else [name for name in file_columns if name in set(only)]
            for group in range(content.num_row_groups):
                n_rows = content.metadata.row_group(group).num_rows
                if first < end and first + n_rows > begin:
                    batches = content.iter_batches(ROWS_AT_ONCE, row_groups=[group], columns=wanted)
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
            found = _metadata(file)
        except TableError:
            # The reader reports the error.
            continue
        total += 8 * found.num_rows * found.num_columns
    return total


def files_of(path: Path) -> list[Path]:
    """Return the file itself, or the Parquet files of a folder, sorted by name."""
    if not path.is_dir():
        return [path]
    found = sorted(file for file in path.iterdir() if file.suffix.lower() in ENDINGS)
    for file in found:
        if not file.is_file():
            raise TableError(f"{file} is no file; keep only Parquet files in {path}")
    if not found:
        raise TableError(f"{path} is a folder without Parquet files; name a file in it")
    return found


@contextmanager
def _open_parquet(path: Path) -> Iterator[Any]:
    """Open a Parquet file with Python's ``open``, whose errors give the file and the reason."""
    import pyarrow
    from pyarrow import parquet

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
