"""A rank's rows of a Parquet file, or of a folder of them: only its row groups are read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from maxplus.tables.arrow_columns import cells_of
from maxplus.tables.parquet_files import ROWS_AT_ONCE, files_of, other_columns
from maxplus.tables.table import Cells, RawTable, TableError, check_different, join


def parquet_part(path: Path, rank: int, size: int) -> RawTable:
    """Rows [rank·N / size, (rank + 1)·N / size) of N, of all files together."""
    files = files_of(path)
    with ExitStack() as stack:
        # Python opens files, since its errors say which and why.
        opened = [stack.enter_context(open(file, "rb")) for file in files]
        return RawTable(str(path), join(_batches(path, files, opened, rank, size)))


def _batches(
    path: Path, files: Sequence[Path], opened: Sequence[BinaryIO], rank: int, size: int
) -> list[dict[str, Cells]]:
    import pyarrow
    from pyarrow import parquet

    try:
        contents = [parquet.ParquetFile(file) for file in opened]
        names = contents[0].schema_arrow.names
        check_different(str(path), names)
        for file, content in zip(files, contents, strict=True):
            if content.schema_arrow.names != names:
                raise other_columns(file, files[0])
        total = sum(content.metadata.num_rows for content in contents)
        begin, end = rank * total // size, (rank + 1) * total // size
        batches: list[dict[str, Cells]] = []
        first = 0
        for content in contents:
            for group in range(content.num_row_groups):
                n = content.metadata.row_group(group).num_rows
                lo, hi = max(begin - first, 0), min(end - first, n)
                if lo < hi:
                    batches += _rows(content, group, lo, hi)
                first += n
        if not batches:
            empty = contents[0].schema_arrow.empty_table().to_batches()
            batches = [_columns(batch) for batch in empty] or [
                {name: np.empty(0) for name in names}
            ]
    except (pyarrow.ArrowException, OSError) as error:
        raise TableError(f"{path} is not readable as Parquet: {error}") from None
    return batches


def _rows(content: Any, group: int, lo: int, hi: int) -> Iterator[dict[str, Cells]]:
    """Rows lo to hi of a row group, in batches."""
    first = 0
    for batch in content.iter_batches(ROWS_AT_ONCE, row_groups=[group]):
        begin, end = max(lo - first, 0), min(hi - first, batch.num_rows)
        if begin < end:
            yield _columns(batch.slice(begin, end - begin))
        first += batch.num_rows
        if first >= hi:
            return


def _columns(batch: Any) -> dict[str, Cells]:
    return {
        str(name): cells_of(cells)
        for name, cells in zip(batch.schema.names, batch.columns, strict=True)
    }
