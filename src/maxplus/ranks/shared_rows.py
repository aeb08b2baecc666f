"""The rows of all ranks as one array: rank 0 asks, the others hand over what is theirs.

What decides where a training begins looks at few rows, or at a column at a time. It is written for
an array, runs on rank 0, and takes no more memory there than on one machine: indexing asks
the ranks that have the rows. Everybody gets the result, or the error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from maxplus.ranks.current import using
from maxplus.ranks.team import ALONE, Team, agreed

T = TypeVar("T")
See = Callable[[NDArray], NDArray]

ROWS, COLUMNS, FACT, RESULT, ERROR = "rows", "columns", "fact", "result", "error"


class SharedRows:
    """Rows (N, P) of which each rank has some; what it gives are arrays.

    Rows are chosen by their numbers, by a mask or a slice, columns by ``[:, slice]``. ``see`` is
    applied to rows wherever they are: `seen` gives the same rows as somebody sees them.
    """

    def __init__(
        self, team: Team, own: NDArray, counts: list[int], see: See | None = None
    ) -> None:
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

    def _facts(self, what: Callable, axis: int | None) -> list[Any]:
        told = self._ask(FACT, (what, axis))
        return [fact for fact in told if fact is not None]

    def _ask(self, kind: str, what: Any) -> Any:
        self._team.first((kind, what, self._see))
        return _answer(self._team, self._own, kind, what, self._see)


def count_nonzero(X: NDArray | SharedRows) -> int:
    """How many numbers are not 0."""
    return X.count_nonzero() if isinstance(X, SharedRows) else int(np.count_nonzero(X))


def ask(team: Team, work: Callable[[Any], T], own: NDArray) -> T:
    """Rank 0's part of `Team.on_first`."""
    rows = SharedRows(team, own, team.every(len(own)))
    try:
        with using(ALONE):
            result = work(rows)
    except Exception as error:
        team.first((ERROR, agreed(error), None))
        raise
    team.first((RESULT, result, None))
    return result


def serve(team: Team, own: NDArray) -> Any:
    """The others' part: hand rows over until rank 0 has its result."""
    team.every(len(own))
    while True:
        kind, what, see = team.first(None)
        if kind == RESULT:
            return what
        if kind == ERROR:
            raise agreed(what)
        _answer(team, own, kind, what, see)


def _answer(team: Team, own: NDArray, kind: str, what: Any, see: See | None) -> Any:
    """Hand over this rank's part of what was asked for; rank 0 gets all of it."""
    seen = (lambda rows: rows) if see is None else see
    if kind == ROWS:
        begin = team.before(len(own))
        mine = what[(what >= begin) & (what < begin + len(own))] - begin
        return team.collect(seen(own[mine]))
    if kind == COLUMNS:
        return team.collect(np.ascontiguousarray(seen(own)[:, what]))
    reduce, axis = what
    return team.every(reduce(seen(own), axis) if own.size else None)
