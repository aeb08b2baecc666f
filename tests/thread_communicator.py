"""A communicator whose ranks are threads, for tests without MPI."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from maxplus.distributed import Communicator, using

# Seconds after which a barrier fails, so that a deadlock is an error.
TIMEOUT = 60.0


class SharedState:
    """Shared state of a communicator's threads: a barrier, messages and arrays."""

    def __init__(self, size):
        self.size = size
        self.barrier = threading.Barrier(size, timeout=TIMEOUT)
        self.messages = [None] * size
        self.shared = {}


class ThreadCommunicator(Communicator):
    """One of several ranks that are threads of this process."""

    def __init__(self, common, rank):
        self._common, self.rank, self.size, self.local_rank = common, rank, common.size, rank
        self.cores = 1

    def allgather(self, obj):
        self._common.messages[self.rank] = obj
        self._common.barrier.wait()
        messages = list(self._common.messages)
        self._common.barrier.wait()
        return messages

    def bcast(self, obj):
        return self.allgather(obj)[0]

    def allgatherv(self, rows):
        return np.concatenate(self.allgather(rows.copy()))

    def gather(self, rows):
        whole = self.allgatherv(rows)
        return whole if self.is_root else whole[:0]

    def sum(self, array):
        total, *others = self.allgather(array.copy())
        total = total.copy()
        for other in others:
            total += other
        return total

    def allgather_into(self, own, received):
        received[:] = self.allgather(own.copy())

    def allreduce_or(self, values):
        parts = self.allgather(values.copy())
        values.view(np.int64)[:] = np.bitwise_or.reduce([part.view(np.int64) for part in parts])

    def allgather_local(self, n):
        return self.allgather(n)

    def shared_memory(self, shape):
        if self.is_root:
            self._common.shared.setdefault(shape, np.zeros(shape))
        self.allgather(None)
        return self._common.shared[shape]


def run_ranks(size, work):
    """Return the results of ``work(rank)`` on all ranks, or raise the first error."""
    common = SharedState(size)
    failures = []

    def one(rank):
        try:
            with using(ThreadCommunicator(common, rank)):
                return work(rank)
        except BaseException as error:
            failures.append(error)
            common.barrier.abort()
            raise

    with ThreadPoolExecutor(size) as pool:
        futures = [pool.submit(one, rank) for rank in range(size)]
    if failures:
        real = [error for error in failures if not isinstance(error, threading.BrokenBarrierError)]
        raise (real or failures)[0]
    return [future.result() for future in futures]


def split(n_rows, size, seed=0):
    """Return a random slice of ``n_rows`` rows for each rank; of three or more, rank 1 has none."""
    rng = np.random.default_rng(seed)
    cuts = np.sort(rng.integers(0, n_rows + 1, size - 1))
    if size > 2:
        cuts[1] = cuts[0]
    ends = [0, *cuts.tolist(), n_rows]
    return [slice(ends[k], ends[k + 1]) for k in range(size)]
