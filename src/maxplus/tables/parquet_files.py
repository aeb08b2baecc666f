"""Parquet files in batches of rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from maxplus.tables.table import TableError, check_different

if TYPE_CHECKING:
    import pyarrow

# Rows that are turned into arrays together.
ROWS_AT_ONCE = 1 << 16


def parquet_batches(path: Path) -> Iterator[dict[str, NDArray]]:
    """The columns of some rows after the other: numbers and truth values are numbers."""
    import pyarrow
    from pyarrow import parquet

    with open(path, "rb") as file:
        try:
            content = parquet.ParquetFile(file)
            check_different(path, content.schema_arrow.names)
            for batch in content.iter_batches(ROWS_AT_ONCE):
                if batch.num_rows and batch.num_columns:
                    yield {
                        str(name): _of_parquet(cells)
                        for name, cells in zip(batch.schema.names, batch.columns, strict=True)
                    }
        except (pyarrow.ArrowException, OSError) as error:
            raise TableError(f"{path} is not a readable Parquet file: {error}") from None


def _of_parquet(cells: pyarrow.Array) -> NDArray:
    import pyarrow
    from pyarrow import types

    kind = cells.type
    numbers = (types.is_boolean, types.is_integer, types.is_floating, types.is_null)
    if any(is_kind(kind) for is_kind in numbers):
        return cells.cast(pyarrow.float64(), safe=False).to_numpy(zero_copy_only=False)
    return np.array(["" if value is None else str(value) for value in cells.to_pylist()], object)
