"""Teams of threads: ranks without MPI, that meet at a barrier."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from maxplus.distributed import Communicator, using

# Nobody waits longer than this for the others: a deadlock is a failure.
PATIENCE = 60.0


class Hall:
    """Where the threads of a team meet."""

    def __init__(self, size):
        self.size = size
        self.barrier = threading.Barrier(size, timeout=PATIENCE)
        self.brought = [None] * size
        self.shared = {}


class ThreadCommunicator(Communicator):
    """One rank of a team of threads."""

    def __init__(self, hall, rank):
        self.hall, self.rank, self.size, self.place = hall, rank, hall.size, rank
        self.cores = 1

    def allgather(self, thing):
        self.hall.brought[self.rank] = thing
        self.hall.barrier.wait()
        brought = list(self.hall.brought)
        self.hall.barrier.wait()
        return brought

    def bcast(self, thing):
        return self.allgather(thing)[0]

    def allgatherv(self, rows):
        return np.concatenate(self.allgather(rows.copy()))

    def gather(self, rows):
        whole = self.allgatherv(rows)
        return whole if self.is_first else whole[:0]

    def reduce_scatter(self, numbers):
        total, *others = [self.part(told) for told in self.allgather(numbers.copy())]
        total = total.copy()
        for other in others:
            total += other
        return total

    def allgather_inplace(self, numbers):
        numbers[:] = np.concatenate(self.allgather(self.part(numbers).copy()))

    def meet(self, own, everybody):
        everybody[:] = self.allgather(own.copy())

    def allreduce_or(self, numbers):
        told = self.allgather(numbers.copy())
        numbers.view(np.int64)[:] = np.bitwise_or.reduce([part.view(np.int64) for part in told])

    def nearby(self, n):
        return self.allgather(n)

    def shared(self, shape):
        if self.is_first:
            self.hall.shared.setdefault(shape, np.zeros(shape))
        self.allgather(None)
        return self.hall.shared[shape]


def run_ranks(size, work):
    """What ``work(rank)`` returns on each rank of a team; the first error there is, if any."""
    hall = Hall(size)
    failures = []

    def one(rank):
        try:
            with using(ThreadCommunicator(hall, rank)):
                return work(rank)
        except BaseException as error:
            failures.append(error)
            hall.barrier.abort()
            raise

    with ThreadPoolExecutor(size) as pool:
        futures = [pool.submit(one, rank) for rank in range(size)]
    if failures:
        real = [error for error in failures if not isinstance(error, threading.BrokenBarrierError)]
        raise (real or failures)[0]
    return [future.result() for future in futures]


def split(n_rows, size, seed=0):
    """Slices of so many rows for ranks, of any sizes; rank 1 of three or more has none."""
    rng = np.random.default_rng(seed)
    cuts = np.sort(rng.integers(0, n_rows + 1, size - 1))
    if size > 2:
        cuts[1] = cuts[0]
    ends = [0, *cuts.tolist(), n_rows]
    return [slice(ends[k], ends[k + 1]) for k in range(size)]
