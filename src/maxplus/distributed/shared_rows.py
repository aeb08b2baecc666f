"""Functions that run on rank 0 with access to the rows of all ranks.

Such a function runs once, before or after training, and is written for an array. Its argument on
rank 0 is a `SharedRows`, whose indexing requests rows from the ranks that have them, so that rank 0
needs no more memory than a single process. All ranks get its result, or its error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from maxplus.distributed.communicator import SERIAL, Communicator, mark_collective, using

T = TypeVar("T")
Transform = Callable[[NDArray], NDArray]

# Kinds of requests of rank 0; the last two are sent after the function has returned or failed.
ROWS, COLUMNS, REDUCTION, RESULT, ERROR = "rows", "columns", "reduction", "result", "error"
# Size of a block of columns, summed over all ranks.
BLOCK_SIZE = 4_000_000


class Share(Protocol):
    """The part of a distributed data set that one rank holds."""

    def whole(self, comm: Communicator) -> Any:
        """Return a view of all parts for rank 0, which requests data from all ranks."""

    def serve(self, comm: Communicator, request: Any) -> Any:
        """Serve a request on all ranks; rank 0 receives the data of all ranks."""


def run_root_only(comm: Communicator, work: Callable[[Any], T], share: Share) -> T:
    """Run ``work(all parts)`` on rank 0 and return its result, or raise its error, on all ranks."""
    whole = share.whole(comm)
    if not comm.is_root:
        return _serve(comm, share)
    try:
        # Other ranks do not take part in calls made by ``work``.
        with using(SERIAL):
            result = work(whole)
    except Exception as error:
        comm.bcast((ERROR, mark_collective(error)))
        raise
    comm.bcast((RESULT, result))
    return result


def _serve(comm: Communicator, share: Share) -> Any:
    """Serve the requests of rank 0 until its function ends."""
    while True:
        request = comm.bcast(None)
        assert request is not None
        if request[0] == RESULT:
            return request[1]
        if request[0] == ERROR:
            raise mark_collective(request[1])
        share.serve(comm, request)


class SharedRows:
    """Rows (N, P) of all ranks; indexing returns arrays.

    Rows are selected by non-negative indices, a mask or a slice, columns by ``[:, slice]``.
    ``transform`` is a picklable function that is applied to rows on the rank that has them.
    """

    def __init__(
        self,
        comm: Communicator,
        own: NDArray,
        counts: list[int],
        transform: Transform | None = None,
    ) -> None:
        self._comm, self._own, self._counts, self._transform = comm, own, counts, transform
        self._ends = np.cumsum(counts)
        like = own[:0] if transform is None else transform(own[:0])
        self.shape = (int(self._ends[-1]), *like.shape[1:])
        self.dtype = like.dtype

    def __len__(self) -> int:
        """Return the number of rows of all ranks."""
        return self.shape[0]

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape))

    def transformed(self, transform: Transform) -> SharedRows:
        """Return the rows with ``transform`` applied to them, instead of a previous transform."""
        return SharedRows(self._comm, self._own, self._counts, transform)

    def __getitem__(self, index: Any) -> NDArray:
        """Return some rows, or some columns of all rows."""
        if isinstance(index, tuple):
            everything, columns = index
            assert everything == slice(None)
            return self._request(COLUMNS, columns)
        if isinstance(index, slice):
            index = np.arange(len(self))[index]
        index = np.asarray(index)
        if index.dtype == bool:
            index = np.flatnonzero(index)
        flat = index.ravel()
        owner = np.searchsorted(self._ends, flat, side="right")
        order = np.argsort(owner, kind="stable")
        found = self._request(ROWS, flat[order])
        rows = np.empty_like(found)
        rows[order] = found
        return rows.reshape(*index.shape, *rows.shape[1:])

    def min(self, axis: int | None = None) -> Any:
        """Return the minimum of all elements or of each column."""
        return np.min(self._reductions(np.min, axis), axis=0)

    def max(self, axis: int | None = None) -> Any:
        """Return the maximum of all elements or of each column."""
        return np.max(self._reductions(np.max, axis), axis=0)

    def count_nonzero(self) -> int:
        """Return the number of elements that are not 0."""
        return int(np.sum(self._reductions(np.count_nonzero, None)))

    def blocks(self) -> Iterator[tuple[slice, NDArray]]:
        """Yield all columns in blocks of at least two columns.

        NumPy adds the elements of a single column in another order, which would change means.
        """
        P = self.shape[1]
        width = max(2, BLOCK_SIZE // max(len(self), 1))
        for part in np.array_split(np.arange(P), max(1, P // width)):
            columns = slice(int(part[0]), int(part[-1]) + 1)
            yield columns, self[:, columns]

    def mean(self, axis: int, dtype: Any = None) -> NDArray:
        """Return the mean of each column."""
        assert axis == 0
        return np.concatenate([block.mean(axis=0, dtype=dtype) for _, block in self.blocks()])

    def _reductions(self, reduce: Callable, axis: int | None) -> list[Any]:
        """Return the reduction of each rank that has rows."""
        found = self._request(REDUCTION, (reduce, axis))
        return [value for value in found if value is not None]

    def _request(self, kind: str, argument: Any) -> Any:
        request = kind, argument, self._transform
        self._comm.bcast(request)
        return RowsShare(self._own).serve(self._comm, request)


class RowsShare:
    """The `Share` of an array of rows."""

    def __init__(self, own: NDArray) -> None:
        self.own = own

    def whole(self, comm: Communicator) -> SharedRows:
        """Return the rows of all ranks, for rank 0."""
        return SharedRows(comm, self.own, comm.allgather(len(self.own)))

    def serve(self, comm: Communicator, request: Any) -> Any:
        """Send the requested rows, columns or reduction of this rank to rank 0."""
        (kind, argument, transform), own = request, self.own
        apply = (lambda rows: rows) if transform is None else transform
        if kind == ROWS:
            begin = comm.exscan(len(own))
            mine = argument[(argument >= begin) & (argument < begin + len(own))] - begin
            return comm.gather(apply(own[mine]))
        if kind == COLUMNS:
            return comm.gather(np.ascontiguousarray(apply(own)[:, argument]))
        reduce, axis = argument
        return comm.allgather(reduce(apply(own), axis) if own.size else None)


def count_nonzero(X: NDArray | SharedRows) -> int:
    """Return the number of elements that are not 0."""
    return X.count_nonzero() if isinstance(X, SharedRows) else int(np.count_nonzero(X))


def column_blocks(X: NDArray | SharedRows) -> Iterator[tuple[slice, NDArray]]:
    """Yield slices and blocks of columns; an array is one block."""
    return X.blocks() if isinstance(X, SharedRows) else iter([(slice(None), X)])
