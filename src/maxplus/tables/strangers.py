"""What prediction met that training had not: counted over a whole table, told in one warning."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Container

import numpy as np
from numpy.typing import NDArray

from maxplus.distributed import Communicator
from maxplus.tables.table import RawTable, TableError
from maxplus.tables.words import Words, in_quotes


class Strangers:
    """Counts of unseen words and of unexpected holes, by column; with ``strict``, both are errors.

    One may be filled by many parts of a table, one after the other.
    """

    def __init__(self, *, strict: bool = False) -> None:
        self.strict = strict
        self.unseen: Counter[str] = Counter()
        self.missing: Counter[str] = Counter()
        self._examples: dict[str, str] = {}

    def note_unseen(
        self, table: RawTable, column: str, cells: Words, known: Container[str]
    ) -> None:
        """Count the rows whose words are not among the known ones."""
        new = [k for k, word in enumerate(cells.values) if word not in known]
        if not new:
            return
        counts = cells.counts[new]
        n = int(counts.sum())
        if not n:
            return
        k = new[int((counts > 0).argmax())]
        if self.strict:
            raise TableError(
                f"{table.name}, {table.where(cells.first(k))}: {column!r} holds "
                f"{in_quotes(cells.values[k])}, which the model has never seen; correct it, or "
                "leave out --strict"
            )
        self.unseen[column] += n
        self._examples.setdefault(column, cells.values[k])

    def note_missing(self, column: str, missing: NDArray) -> None:
        """Count holes in a column that had none."""
        self.missing[column] += int(np.count_nonzero(missing))

    def unite(self, comm: Communicator) -> None:
        """Count what all ranks have met."""
        if comm.is_alone:
            return
        told = comm.allgather((self.unseen, self.missing, self._examples))
        self.unseen, self.missing, self._examples = Counter(), Counter(), {}
        for unseen, missing, examples in told:
            self.unseen += unseen
            self.missing += missing
            self._examples = {**examples, **self._examples}

    def warn(self, name: str, stacklevel: int = 2) -> None:
        """One warning about everything, if there is anything."""
        parts = []
        if self.unseen:
            listed = [
                f"{n:,} in {c!r} ({in_quotes(self._examples[c], 40)})"
                for c, n in self.unseen.items()
            ]
            parts.append(
                f"values that training never saw, taken as none of the known ones: {_some(listed)}"
            )
        if self.missing:
            listed = [f"{n:,} in {column!r}" for column, n in self.missing.items()]
            parts.append(f"missing values where training had none, filled in: {_some(listed)}")
        if parts:
            warnings.warn(f"{name} has {'; and '.join(parts)}", stacklevel=stacklevel + 1)


def _some(listed: list[str]) -> str:
    return ", ".join(listed[:10]) + (", …" if len(listed) > 10 else "")
