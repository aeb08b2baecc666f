"""The rows of all ranks as one array, for work that rank 0 does for all (`asking`).

What decides where a training begins looks at few rows, or at some columns at a time. It is written
for an array; indexing asks the ranks that have the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxplus.distributed.team import Team

See = Callable[[NDArray], NDArray]

ROWS, COLUMNS, FACT = "rows", "columns", "fact"
# Numbers of a block of columns, all ranks' together.
AT_ONCE = 4_000_000


class SharedRows:
    """Rows (N, P) of which each rank has some; what it gives are arrays.

    Rows are chosen by their numbers, by a mask or a slice, columns by ``[:, slice]``. ``see`` is
    applied to rows wherever they are: `seen` gives the same rows as somebody sees them.
    """

    def __init__(self, team: Team, own: NDArray, counts: list[int], see: See | None = None) -> None:
        self._team, self._own, self._counts, self._see = team, own, counts, see
        self._ends = np.cumsum(counts)
        like = own[:0] if see is None else see(own[:0])
        self.shape = (int(self._ends[-1]), *like.shape[1:])
        self.dtype = like.dtype

    def __len__(self) -> int:
        """How many rows all ranks have."""
        return self.shape[0]

    @property
    def size(self) -> int:
        """How many numbers."""
        return int(np.prod(self.shape))

    def seen(self, see: See) -> SharedRows:
        """These rows as ``see`` makes them, when they are asked for."""
        return SharedRows(self._team, self._own, self._counts, see)

    def __getitem__(self, which: Any) -> NDArray:
        """Some rows, or some columns of all rows."""
        if isinstance(which, tuple):
            everything, columns = which
            assert everything == slice(None)
            return self._ask(COLUMNS, columns)
        if isinstance(which, slice):
            which = np.arange(len(self))[which]
        which = np.asarray(which)
        if which.dtype == bool:
            which = np.flatnonzero(which)
        flat = which.ravel()
        owner = np.searchsorted(self._ends, flat, side="right")
        order = np.argsort(owner, kind="stable")
        found = self._ask(ROWS, flat[order])
        rows = np.empty_like(found)
        rows[order] = found
        return rows.reshape(*which.shape, *rows.shape[1:])

    def min(self, axis: int | None = None) -> Any:
        """The least number, or that of each column."""
        return np.min(self._facts(np.min, axis), axis=0)

    def max(self, axis: int | None = None) -> Any:
        """The largest number, or that of each column."""
        return np.max(self._facts(np.max, axis), axis=0)

    def count_nonzero(self) -> int:
        """How many numbers are not 0."""
        return int(np.sum(self._facts(np.count_nonzero, None)))

    def blocks(self) -> Iterator[tuple[slice, NDArray]]:
        """All columns, some at a time; no single one, which NumPy would add up in another order."""
        P = self.shape[1]
        width = max(2, AT_ONCE // max(len(self), 1))
        for part in np.array_split(np.arange(P), max(1, P // width)):
            columns = slice(int(part[0]), int(part[-1]) + 1)
            yield columns, self[:, columns]

    def mean(self, axis: int, dtype: Any = None) -> NDArray:
        """That of each column."""
        assert axis == 0
        return np.concatenate([block.mean(axis=0, dtype=dtype) for _, block in self.blocks()])

    def _facts(self, what: Callable, axis: int | None) -> list[Any]:
        told = self._ask(FACT, (what, axis))
        return [fact for fact in told if fact is not None]

    def _ask(self, kind: str, what: Any) -> Any:
        question = kind, what, self._see
        self._team.first(question)
        return RowsShare(self._own).answer(self._team, question)


def count_nonzero(X: NDArray | SharedRows) -> int:
    """How many numbers are not 0."""
    return X.count_nonzero() if isinstance(X, SharedRows) else int(np.count_nonzero(X))


def column_blocks(X: NDArray | SharedRows) -> Iterator[tuple[slice, NDArray]]:
    """Blocks of columns, and which they are; an array is one block."""
    return X.blocks() if isinstance(X, SharedRows) else iter([(slice(None), X)])


class RowsShare:
    """A rank's own rows, which it hands over when it is asked."""

    def __init__(self, own: NDArray) -> None:
        self.own = own

    def whole(self, team: Team) -> SharedRows:
        """The rows of all ranks, as rank 0 sees them."""
        return SharedRows(team, self.own, team.every(len(self.own)))

    def answer(self, team: Team, question: Any) -> Any:
        """Hand over this rank's part of what was asked for; rank 0 gets all of it."""
        (kind, what, see), own = question, self.own
        seen = (lambda rows: rows) if see is None else see
        if kind == ROWS:
            begin = team.before(len(own))
            mine = what[(what >= begin) & (what < begin + len(own))] - begin
            return team.collect(seen(own[mine]))
        if kind == COLUMNS:
            return team.collect(np.ascontiguousarray(seen(own)[:, what]))
        reduce, axis = what
        return team.every(reduce(seen(own), axis) if own.size else None)
