"""A table that no machine holds: each rank reads its part, and all decide about columns alike.

Ranks have about as many rows each, in the order of the file, or of the files of a folder by name.
What columns become is decided by rank 0, which asks for one whole column at a time: the same as on
one machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from maxplus.distributed import Communicator
from maxplus.distributed.communicator import mark_collective
from maxplus.tables.choices import ColumnChoices
from maxplus.tables.csv_parts import CsvPart
from maxplus.tables.deciding import decide
from maxplus.tables.encoding import Encoding, is_missing
from maxplus.tables.npz_parts import npz_part
from maxplus.tables.parquet_parts import parquet_part
from maxplus.tables.reading import CSV, NUMPY, PARQUET, read_table
from maxplus.tables.samples import Samples, left_out, no_labels, samples_of
from maxplus.tables.strangers import Strangers
from maxplus.tables.table import Cells, NoRowsError, RawTable, row_in_words
from maxplus.tables.words import Words

if TYPE_CHECKING:
    from maxplus.tables.preparation import Preparation


def open_share(data: str, choices: ColumnChoices, comm: Communicator) -> Samples:
    """A rank's part of a training table; what columns are is decided by all rows."""
    table = read_share(data, comm)
    found = comm.root_only(lambda whole: decide(whole, choices), TableShare(table))
    samples = _samples(table, found.encoding, comm, Strangers())
    return replace(samples, decisions=(*found.decisions, *samples.decisions))


def reopen_share(
    data: str, preparation: Preparation, comm: Communicator, *, strict: bool
) -> Samples:
    """A rank's part of a table whose columns were decided before."""
    encoding, strangers = preparation.encoding, Strangers(strict=strict)
    table = read_share(data, comm, dict(encoding.read_as))
    samples = _samples(table, encoding, comm, strangers, preparation.image_shape)
    strangers.unite(comm)
    if comm.is_first:
        strangers.warn(table.name)
    return samples


def _samples(
    table: RawTable, encoding: Encoding, comm: Communicator, strangers: Strangers,
    image_shape: tuple[int, int] | None = None,
) -> Samples:  # fmt: skip
    """Labelled rows of this rank; those without a label are left out, and counted by all."""
    before, unknown = comm.before(table.n_rows), np.zeros(table.n_rows, bool)
    with comm.raise_on_all_ranks():
        if encoding.has_labels(table):
            unknown = is_missing(encoding.label_cells(table))
    told = comm.allgather((table.n_rows, int(unknown.sum()), before + int(unknown.argmax())
                       if unknown.any() else None))  # fmt: skip
    n = sum(count for _, count, _ in told)
    if n and n == sum(rows for rows, _, _ in told):
        raise mark_collective(no_labels(table.name, encoding))
    known = np.flatnonzero(~unknown)
    with comm.raise_on_all_ranks():
        kept = table.take(known) if n else table
        samples = samples_of(kept, encoding, image_shape, labelled=True, strangers=strangers)
    first = next((row for _, _, row in told if row is not None), 0)
    lines = (left_out(n, row_in_words(first), encoding),) if n else ()
    return replace(samples, rows=known + before, decisions=lines)


def read_share(
    data: str, comm: Communicator, read_as: Mapping[str, bool | None] | None = None
) -> RawTable:
    """About as many rows as each rank has, those of rank 0 first; columns are alike on all."""
    kinds, part = dict(read_as or {}), None
    path = Path(data)
    if path.suffix.lower() in CSV:
        with comm.raise_on_all_ranks():
            part = CsvPart(path, comm.rank, comm.size)
            part = part if part.can_be_cut else None
    quotes = comm.allgather(0 if part is None else part.quotes)

    def read(kinds: Mapping[str, bool | None]) -> RawTable:
        return _part(data, comm, kinds) if part is None else part.table(quotes, kinds)

    with comm.raise_on_all_ranks():
        table = read(kinds)
    comm.agree({"columns": tuple(table.columns)})
    # A word anywhere makes words of a column everywhere, as they were written.
    n_rows = comm.allgather(table.n_rows)
    told = comm.allgather([isinstance(cells, Words) for cells in table.columns.values()])
    is_words = np.any([kinds for kinds, n in zip(told, n_rows, strict=True) if n], axis=0)
    words = {name for name, worded in zip(table.columns, is_words, strict=True) if worded}
    late = {n for n in words if not isinstance(table.columns[n], Words)} if table.n_rows else set()
    with comm.raise_on_all_ranks():
        if late and path.suffix.lower() in CSV:
            table = read({**kinds, **dict.fromkeys(words, True)})
        columns = {
            name: Words.of(map(str, cells)) if name in words and not isinstance(cells, Words)
            else cells
            for name, cells in table.columns.items()
        }  # fmt: skip
    first = comm.before(table.n_rows)
    return replace(table, columns=columns, where=lambda row: row_in_words(first + row))


def _part(data: str, comm: Communicator, read_as: Mapping[str, bool | None]) -> RawTable:
    path = Path(data)
    ending = path.suffix.lower()
    if path.is_dir() or ending in PARQUET:
        return parquet_part(path, comm.rank, comm.size)
    if ending in NUMPY:
        return npz_part(path, comm.rank, comm.size)
    # What cannot be cut, because it is packed for example, is read by everybody.
    table = read_table(data, read_as or None)
    cuts = [k * table.n_rows // comm.size for k in (comm.rank, comm.rank + 1)]
    return table.part(*cuts)


@dataclass(frozen=True)
class WholeTable(RawTable):
    """The rows of all ranks, as rank 0 sees them: a column is asked for when it is looked at."""

    n_all: int = 0

    def __post_init__(self) -> None:
        """Columns stay where they are."""

    @property
    def n_rows(self) -> int:
        """Those of all ranks."""
        return self.n_all


class TableShare:
    """A rank's own columns, which it hands over when it is asked."""

    def __init__(self, own: RawTable) -> None:
        self.own = own

    def whole(self, comm: Communicator) -> WholeTable:
        """All ranks' rows."""
        n = comm.total(self.own.n_rows)
        if not n:
            raise NoRowsError(self.own.name)
        columns: Any = _Columns(self, comm)
        own = self.own
        notes = tuple(dict.fromkeys(note for told in comm.allgather(own.notes) for note in told))
        return WholeTable(own.name, columns, row_in_words, notes, own.commas, own.choices, n)

    def answer(self, comm: Communicator, question: Any) -> Cells:
        """A column of all ranks."""
        cells = self.own.columns[question[1]]
        if not isinstance(cells, Words):
            return comm.gather(cells)
        place: dict[str, int] = {}
        parts = comm.allgather(cells.values)
        for values in parts:
            for value in values:
                place.setdefault(value, len(place))
        new = np.array([*(place[value] for value in cells.values), -1], np.int32)
        codes = comm.gather(new[cells.codes])
        ordered = cells.ordered and all(values == parts[0] for values in parts)
        return Words(codes, tuple(place), ordered)


class _Columns(Mapping[str, Cells]):
    """Columns by name; the last one that was looked at is at hand."""

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
