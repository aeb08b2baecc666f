"""The exchange of the worst samples between ranks, once per iteration.

Every rank searches its own samples. First all ranks receive the k worst samples of each rank;
all order them alike, ties by the samples' numbers in the whole training set. Then the ranks that
own one of the k worst of all send its path, and every rank takes the same step on the same
weights. With k = 1 each rank sends the path of its own worst sample at once, which takes one
message instead of two. A single process exchanges nothing.
"""

from __future__ import annotations

import ctypes
import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxplus._compile.intrinsics import call_python
from maxplus._compile.jit import inner
from maxplus.distributed import Communicator
from maxplus.training.engines.sparse._state import NONE, PATH, SENTINEL
from maxplus.training.engines.sparse._threads import LINE
from maxplus.training.engines.sparse._worst import merge_sorted

# Messages that kernels ask the callback for.
_WORST, _PATHS = 0, 1


class ExchangeCallback:
    """The Python function that a compiled block calls, by its ``address``, to exchange messages.

    The address is 0 for a single process. An exception cannot pass through compiled code: it
    ends the block, and `check` raises it afterwards.
    """

    def __init__(self, comm: Communicator) -> None:
        self._comm = comm
        self._failure: BaseException | None = None
        # The address is valid as long as this object exists.
        self._function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(self._exchange)
        self.address = 0
        if not comm.is_alone:
            self.address = ctypes.cast(self._function, ctypes.c_void_p).value or 0

    def bind(self, exchange: Any) -> None:
        """Use the arrays of a `RankExchange` as message buffers."""
        self._sent, self._received = exchange.sent, exchange.received
        self._path = exchange.path

    def _exchange(self, message: int) -> int:
        try:
            if message == _WORST:
                self._comm.meet(self._sent, self._received)
            else:
                self._comm.allreduce_or(self._path)
        except BaseException as failure:
            self._failure = failure
            return 1
        return 0

    def check(self) -> None:
        """Raise the exception that ended a block, if there is one."""
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure


class Thresholds(NamedTuple):
    """Losses that workers have found, in memory that the ranks of a machine share: (2, lines).

    Engines of the same ranks and size use the same memory, one block of iterations at a time.
    """

    shared: NDArray
    first_slot: int
    n_slots: int

    @classmethod
    def of(cls, comm: Communicator, n_workers: int) -> Thresholds:
        """Return a cache line per worker and parity of the iteration, for all ranks nearby."""
        counts = comm.nearby(n_workers)
        first = sum(counts[: comm.place])
        shared = comm.shared((2, LINE * sum(counts)))
        return cls(shared, first, sum(counts))

    @staticmethod
    def reset(worst: Any, n_workers: int, comm: Communicator) -> None:
        """Remove all losses from an engine's memory; return when every rank has removed its own."""
        lines = slice(LINE * worst.first_slot, LINE * (worst.first_slot + n_workers))
        worst.threshold[:, lines] = -np.inf
        comm.any(False)

    @staticmethod
    def bytes_needed(n_workers: int) -> int:
        """Return the size of one rank's own lines."""
        return 2 * LINE * n_workers * np.dtype(np.float64).itemsize


@inner
def write_path(x, label, grad, path):
    """Write the path of a sample whose scores and winners are in ``grad``; O(C)."""
    path[0] = label
    for d in range(grad.z.size):
        at = 1 + PATH * d
        path[at], path[at + 1], path[at + 2] = grad.z[d], grad.h_star[d], grad.i_star[d]
        path[at + 3] = x[grad.i_star[d] // 2]


@inner
def read_path(path, grad, x):
    """Read a path into ``grad`` and the features of ``x`` that it uses; return the label; O(C)."""
    for d in range(grad.z.size):
        at = 1 + PATH * d
        grad.z[d], grad.h_star[d] = path[at], np.int64(path[at + 1])
        i = np.int64(path[at + 2])
        grad.i_star[d] = i
        x[i // 2] = path[at + 3]
    return np.int64(path[0])


@inner
def exchange_worst(exchange, worst):
    """Exchange the k worst samples of each rank; return False if messages fail."""
    k = worst.order.shape[0]
    for j in range(k):
        finder, place = worst.order[j, 0], worst.order[j, 1]
        n = worst.sample[finder, place]
        exchange.sent[j] = worst.loss[finder, place]
        exchange.sent[k + j] = np.float64(SENTINEL if n == SENTINEL else exchange.first_sample + n)
    return call_python(exchange.address, _WORST) == 0


@inner
def exchange_paths(exchange):
    """Exchange the paths of the k worst samples of all ranks; return False if messages fail."""
    return call_python(exchange.address, _PATHS) == 0


@inner
def send_overflow(exchange):
    """Inform the other ranks that this one cannot search any more."""
    exchange.sent[0] = np.nan
    return call_python(exchange.address, _WORST) == 0


@inner
def order_received(exchange):
    """Order the k worst samples of all ranks; (their mean loss, the worst one); O(k·T).

    The loss is NaN if a rank could not search.
    """
    k = exchange.order.shape[0]
    for r in range(exchange.taken.size):
        if math.isnan(exchange.received[r, 0]):
            return np.nan, np.int64(NONE)
    loss, sample = exchange.received[:, :k], exchange.received[:, k : 2 * k]
    return merge_sorted(loss, sample, exchange.place, exchange.taken, exchange.order)
