"""Parquet files in batches of rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from maxplus.tables.arrow_columns import cells_of
from maxplus.tables.table import Cells, TableError, check_different

# Rows that are turned into arrays together.
ROWS_AT_ONCE = 1 << 16


def parquet_batches(path: Path, only: Sequence[str] | None = None) -> Iterator[dict[str, Cells]]:
    """The columns of some rows after the other, all or ``only`` some."""
    import pyarrow
    from pyarrow import parquet

    with open(path, "rb") as file:
        try:
            content = parquet.ParquetFile(file)
            names = content.schema_arrow.names
            check_different(str(path), names)
            wanted = None if only is None else [name for name in names if name in set(only)]
            for batch in content.iter_batches(ROWS_AT_ONCE, columns=wanted):
                if batch.num_rows and batch.num_columns:
                    yield {
                        str(name): cells_of(cells)
                        for name, cells in zip(batch.schema.names, batch.columns, strict=True)
                    }
        except (pyarrow.ArrowException, OSError) as error:
            raise TableError(
                f"{path} is not a readable Parquet file: {error}; write it anew, or as CSV"
            ) from None
