"""Parquet files, alone or together in a folder, in batches of rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from maxplus.tables.arrow_columns import cells_of
from maxplus.tables.table import Cells, TableError, check_different

ENDINGS = (".parquet", ".pq")
# Rows that are turned into arrays together.
ROWS_AT_ONCE = 1 << 16


def parquet_batches(path: Path, only: Sequence[str] | None = None) -> Iterator[dict[str, Cells]]:
    """The columns of some rows after the other, all or ``only`` some; a folder's file by file."""
    files, names = files_of(path), None
    for file in files:
        for batch in _batches(file, only):
            names = names or batch.keys()
            if batch.keys() != names:
                raise other_columns(file, files[0])
            yield batch


def parquet_bytes(path: Path) -> int:
    """Return the memory of all columns, as the files state it: 8 bytes for each value."""
    import pyarrow
    from pyarrow import parquet

    total = 0
    for file in files_of(path):
        with open(file, "rb") as stream:
            try:
                found = parquet.read_metadata(stream)
            except (pyarrow.ArrowException, OSError):
                # What is wrong with it is told when it is read.
                continue
            total += 8 * found.num_rows * found.num_columns
    return total


def files_of(path: Path) -> list[Path]:
    """A file, or those of a folder in the order of their names."""
    if not path.is_dir():
        return [path]
    found = sorted(file for file in path.iterdir() if file.suffix.lower() in ENDINGS)
    for file in found:
        if not file.is_file():
            raise TableError(f"{file} is no file; keep only Parquet files in {path}")
    if not found:
        raise TableError(f"{path} is a folder without Parquet files; name a file in it")
    return found


def other_columns(file: Path, first: Path) -> TableError:
    """The error for files of a folder that do not belong together."""
    return TableError(f"{file} has other columns than {first}; all must have the same")


def _batches(path: Path, only: Sequence[str] | None) -> Iterator[dict[str, Cells]]:
    import pyarrow
    from pyarrow import parquet

    with open(path, "rb") as file:
        try:
            content = parquet.ParquetFile(file)
            names = content.schema_arrow.names
            check_different(str(path), names)
            asked = set(only or ())
            wanted = None if only is None else [name for name in names if name in asked]
            for batch in content.iter_batches(ROWS_AT_ONCE, columns=wanted):
                if batch.num_rows and batch.num_columns:
                    yield {
                        str(name): cells_of(cells)
                        for name, cells in zip(batch.schema.names, batch.columns, strict=True)
                    }
        except MemoryError:
            raise
        except (pyarrow.ArrowException, OSError) as error:
            raise TableError(
                f"{path} is not a readable Parquet file: {error}; write it anew, or as CSV"
            ) from None
