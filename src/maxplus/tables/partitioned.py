"""Tables distributed over ranks: each reads a part of the rows, and all infer the same schema.

Ranks have about as many rows each, in the order of the file, or of the files of a folder by name.
Column types are inferred by rank 0, which requests one whole column at a time: the same as in a
single process.
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
    """Raise TableError, on all ranks, for a file that ranks cannot read in parts."""
    path = Path(data)
    if not (path.is_dir() or path.suffix.lower() in (*PARQUET, *NUMPY)):
        raise mark_collective(
            TableError(
                f"{data} cannot be read by several ranks, each a part of it; convert it to "
                "Parquet, or to NPY or NPZ, or run the command without mpiexec"
            )
        )


def read_partition(data: str, comm: Communicator) -> RawTable:
    """Read a rank's part of the rows of a Parquet file, a folder of them, an NPZ or NPY file.

    Parts have about equally many rows, those of rank 0 come first; columns are the same on all
    ranks.
    """
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
    """The rows of all ranks, as rank 0 sees them: a column is requested when it is accessed."""

    n_all: int = 0

    def __post_init__(self) -> None:
        """Leave columns where they are."""

    @property
    def n_rows(self) -> int:
        """Number of rows of all ranks."""
        return self.n_all


class TableShare:
    """A rank's own columns, which it sends when they are requested."""

    def __init__(self, own: RawTable) -> None:
        self.own = own

    def whole(self, comm: Communicator) -> WholeTable:
        """Return the rows of all ranks, for rank 0."""
        n = comm.total(self.own.n_rows)
        if not n:
            raise NoRowsError(self.own.name)
        columns: Any = _Columns(self, comm)
        return WholeTable(self.own.name, columns, row_text, n_all=n)

    def answer(self, comm: Communicator, question: Any) -> Cells:
        """Return a column of all ranks."""
        cells = self.own.columns[question[1]]
        if not isinstance(cells, Categorical):
            return comm.gather(cells)
        place: dict[str, int] = {}
        parts = comm.allgather(cells.values)
        for values in parts:
            for value in values:
                place.setdefault(value, len(place))
        new = np.array([*(place[value] for value in cells.values), -1], np.int32)
        codes = comm.gather(new[cells.codes])
        ordered = cells.ordered and all(values == parts[0] for values in parts)
        return Categorical(codes, tuple(place), ordered)


class _Columns(Mapping[str, Cells]):
    """Columns by name; the last one that was accessed is kept."""

    def __init__(self, share: TableShare, comm: Communicator) -> None:
        self._share, self._comm = share, comm
        self._last: tuple[str, Cells] | None = None

    def __getitem__(self, name: str) -> Cells:
        if name not in self._share.own.columns:
            raise KeyError(name)
        if self._last is None or self._last[0] != name:
            question = "column", name
            self._comm.bcast(question)
            cells = self._share.answer(self._comm, question)
            self._last = name, cells
        return self._last[1]

    def __iter__(self) -> Iterator[str]:
        return iter(self._share.own.columns)

    def __len__(self) -> int:
        return len(self._share.own.columns)
