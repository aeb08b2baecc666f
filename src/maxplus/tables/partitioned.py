"""Tables distributed over MPI ranks.

Each rank reads a contiguous part of the rows. Rank 0 infers the schema from complete columns,
which are gathered one at a time, so the result is the same as in a single process.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from maxplus.distributed import Communicator
from maxplus.distributed.communicator import mark_collective
from maxplus.tables.categorical import Categorical
from maxplus.tables.files import NUMPY, PARQUET
from maxplus.tables.npz_files import npz_rows
from maxplus.tables.parquet_files import parquet_batches
from maxplus.tables.table import Cells, NoRowsError, RawTable, TableError, join, row_text


def require_partitionable(data: str) -> None:
    """Raise TableError on all ranks if a file format cannot be read in parts."""
    path = Path(data)
    if not (path.is_dir() or path.suffix.lower() in (*PARQUET, *NUMPY)):
        raise mark_collective(
            TableError(
                f"{data} cannot be read by several ranks, each a part of it; convert it to "
                "Parquet, or to NPY or NPZ, or run the command without mpiexec"
            )
        )


def read_partition(data: str, comm: Communicator) -> RawTable:
    """Read the rows of this rank from Parquet, NPZ or NPY files."""
    require_partitionable(data)
    path = Path(data)
    with comm.raise_on_all_ranks():
        if path.suffix.lower() in NUMPY:
            columns = npz_rows(path, comm.rank, comm.size)
        else:
            columns = join(list(parquet_batches(path, part=(comm.rank, comm.size))))
        table = RawTable(str(path), columns)
    types = tuple(isinstance(cells, Categorical) for cells in table.columns.values())
    comm.agree({"columns": tuple(table.columns), "types of columns": types})
    first = comm.before(table.n_rows)
    return replace(table, where=lambda row: row_text(first + row))


@dataclass(frozen=True)
class WholeTable(RawTable):
    """Rows of all ranks, used on rank 0; columns are gathered on access."""

    n_all: int = 0

    def __post_init__(self) -> None:
        """Skip the conversion of columns, which would gather all columns."""

    @property
    def n_rows(self) -> int:
        """Number of rows of all ranks."""
        return self.n_all


class TableShare:
    """Rows of one rank; rank 0 gathers columns by broadcasting requests."""

    def __init__(self, own: RawTable) -> None:
        self.own = own

    def whole(self, comm: Communicator) -> WholeTable:
        """Return the table of the rows of all ranks, on rank 0."""
        n = comm.total(self.own.n_rows)
        if not n:
            raise NoRowsError(self.own.name)
        columns: Any = _Columns(self, comm)
        return WholeTable(self.own.name, columns, row_text, n_all=n)

    def answer(self, comm: Communicator, question: Any) -> Cells:
        """Gather a column from all ranks."""
        cells = self.own.columns[question[1]]
        if not isinstance(cells, Categorical):
            return comm.gather(cells)
        index: dict[str, int] = {}
        parts = comm.allgather(cells.values)
        for values in parts:
            for value in values:
                index.setdefault(value, len(index))
        new_codes = np.array([*(index[value] for value in cells.values), -1], np.int32)
        codes = comm.gather(new_codes[cells.codes])
        ordered = cells.ordered and all(values == parts[0] for values in parts)
        return Categorical(codes, tuple(index), ordered)


class _Columns(Mapping[str, Cells]):
    """Columns by name, gathered on access; the last column is cached."""

    def __init__(self, share: TableShare, comm: Communicator) -> None:
        self._share, self._comm = share, comm
        self._last: tuple[str, Cells] | None = None

    def __getitem__(self, name: str) -> Cells:
        if name not in self._share.own.columns:
            raise KeyError(name)
        if self._last is None or self._last[0] != name:
            request = "column", name
            self._comm.bcast(request)
            cells = self._share.answer(self._comm, request)
            self._last = name, cells
        return self._last[1]

    def __iter__(self) -> Iterator[str]:
        return iter(self._share.own.columns)

    def __len__(self) -> int:
        return len(self._share.own.columns)
