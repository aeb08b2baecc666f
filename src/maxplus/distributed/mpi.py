"""MPI communicator; the only module that imports mpi4py."""

from __future__ import annotations

import math
import os
import platform
import sys
import time
from hashlib import sha256
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

import maxplus
from maxplus.distributed.communicator import Communicator, is_launched, mark_collective

T = TypeVar("T")

# Seconds by which each rank delays its error message after the previous rank: the first rank that
# prints aborts all others.
MESSAGE_DELAY = 0.05
# Seconds that a failing rank waits for the other ranks to fail with the same error.
FAILURE_TIMEOUT = 1.0


class MPICommunicator(Communicator):
    """Communicator that uses an mpi4py communicator."""

    def __init__(self, comm: Any) -> None:
        # Duplicates separate these messages from those of the calling program.
        self._comm, self._failures = comm.Dup(), comm.Dup()
        self.rank, self.size = comm.rank, comm.size
        self._windows: dict[tuple[int, ...], Any] = {}
        self._is_oversubscribed = False
        from mpi4py import MPI

        self._machine = self._comm.Split_type(MPI.COMM_TYPE_SHARED)
        self.local_rank = self._machine.rank
        if self.size > 1:
            # Launchers may have bound each rank to some of the processors of the machine.
            processors = set().union(*self._machine.allgather(_processors()))
            self.cores = max(1, len(processors) // self._machine.size)
            # Blocking and non-blocking collectives do not match: all ranks must use the same kind.
            oversubscribed = self._machine.size > len(processors)
            self._is_oversubscribed = any(self._comm.allgather(oversubscribed))

    @classmethod
    def from_comm(cls, comm: Any = None) -> MPICommunicator:
        """Wrap an mpi4py communicator, by default ``MPI.COMM_WORLD``."""
        try:
            from mpi4py import MPI
        except ImportError:
            raise ImportError(
                "training over MPI requires mpi4py, which is not installed; "
                'pip install "maxplus[mpi]"'
            ) from None
        if comm is None and MPI.COMM_WORLD.size == 1 and is_launched():
            raise ImportError(
                "a launcher has started several processes, but mpi4py finds only one: it was built "
                "for another MPI; reinstall it for this one: MPICC=mpicc pip install "
                "--no-binary mpi4py mpi4py"
            )
        return cls(MPI.COMM_WORLD if comm is None else comm)

    def check_software(self) -> None:
        """Raise DifferentRanksError unless all ranks run the same versions."""
        import numba

        self.require_equal(
            {
                "version of maxplus": maxplus.__version__,
                "version of Python": platform.python_version_tuple()[:2],
                "version of NumPy": np.__version__,
                "version of Numba": numba.__version__,
                "byte order": sys.byteorder,
            }
        )

    def allgather(self, obj: T) -> list[T]:
        """Return the objects of all ranks, in their order."""
        return self._comm.allgather(obj)

    def bcast(self, obj: T) -> T:
        """Return the object of rank 0."""
        return self._comm.bcast(obj, root=0)

    def allgatherv(self, rows: NDArray) -> NDArray:
        """Return the rows of all ranks, concatenated in their order."""
        return self._concatenate(rows, self._comm.Allgatherv, is_receiver=True)

    def gather(self, rows: NDArray) -> NDArray:
        """Return the rows of all ranks on rank 0, and an empty array on other ranks."""
        return self._concatenate(rows, self._comm.Gatherv, is_receiver=self.is_root)

    def _concatenate(self, rows: NDArray, collective: Any, *, is_receiver: bool) -> NDArray:
        """Concatenate the rows of all ranks by an MPI collective.

        MPI may count in 32 bits, so rows are counted instead of bytes.
        """
        from mpi4py import MPI

        rows = np.ascontiguousarray(rows)
        counts = self.allgather(len(rows))
        whole = np.empty((sum(counts) if is_receiver else 0, *rows.shape[1:]), rows.dtype)
        row = MPI.BYTE.Create_contiguous(rows.dtype.itemsize * math.prod(rows.shape[1:])).Commit()
        received = [whole.reshape(-1).view(np.uint8), counts, row] if is_receiver else None
        collective([rows.reshape(-1).view(np.uint8), len(rows), row], received)
        row.Free()
        return whole

    def sum(self, array: NDArray) -> NDArray:
        """Return the sum over all ranks, added in their order, which MPI reductions do not specify.

        Each rank adds one part of the array, and all ranks receive the sums of all parts.
        """
        if self.is_serial:
            return array
        from mpi4py import MPI

        parts = np.zeros((self.size, -(-array.size // self.size)), array.dtype)
        parts.reshape(-1)[: array.size] = array.ravel()
        received = np.empty_like(parts)
        self._comm.Alltoall(parts, received)
        own = parts[self.rank]
        np.add(received[0], received[1], out=own)
        for part in received[2:]:
            own += part
        self._comm.Allgather(MPI.IN_PLACE, parts)
        return parts.reshape(-1)[: array.size].reshape(array.shape)

    def allgather_into(self, own: NDArray, received: NDArray) -> None:
        """Fill ``received`` (size, …) with ``own`` of each rank; fast for short messages."""
        if self._is_oversubscribed:
            # A blocking call would occupy a processor that another rank needs.
            request = self._comm.Iallgather(own, received)
            while not request.Test():
                _yield_processor()
        else:
            self._comm.Allgather(own, received)

    def allreduce_or(self, values: NDArray) -> None:
        """Set ``values`` to the bitwise OR over all ranks; each is 0 on all ranks except one."""
        from mpi4py import MPI

        self._comm.Allreduce(MPI.IN_PLACE, values.reshape(-1).view(np.int64), op=MPI.BOR)

    def allgather_local(self, n: int) -> list[int]:
        """Return ``n`` of each rank on this machine."""
        return self._machine.allgather(n)

    def shared_memory(self, shape: tuple[int, ...]) -> NDArray:
        """Return a float64 array in a shared-memory window of this machine; one per shape."""
        from mpi4py import MPI

        n = math.prod(shape)
        if shape not in self._windows:
            own = 0 if self.local_rank else 8 * n
            self._windows[shape] = MPI.Win.Allocate_shared(own, 8, comm=self._machine)
        memory, _ = self._windows[shape].Shared_query(0)
        return np.frombuffer(memory, np.float64, n).reshape(shape)

    def is_collective_error(self, error: BaseException) -> bool:
        """Return whether all ranks raise the same error within `FAILURE_TIMEOUT`."""
        if self.is_serial or getattr(error, "is_collective", False):
            return True
        own = np.frombuffer(sha256(f"{type(error)} {error}".encode()).digest()[:8], np.int64)
        errors = np.empty(self.size, np.int64)
        request = self._failures.Iallgather(own, errors)
        began = time.monotonic()
        while not request.Test():
            if time.monotonic() - began > FAILURE_TIMEOUT:
                return False
            time.sleep(0.001)
        if (errors != own[0]).any():
            return False
        mark_collective(error)
        return True

    def abort(self, error: BaseException) -> None:
        """Print the error of this rank and abort all ranks."""
        if self.is_serial:
            return
        time.sleep(MESSAGE_DELAY * self.rank)
        print(
            f"rank {self.rank} of {self.size} failed, and with it all ranks: "
            f"{type(error).__name__}: {error}{_remedy(error)}",
            file=sys.stderr,
            flush=True,
        )
        self._comm.Abort(1)

    def close(self) -> None:
        """Free the windows and communicators; called by all ranks.

        An engine that is used afterwards fails at its first message, before it reads a window.
        """
        for window in self._windows.values():
            window.Free()
        self._windows.clear()
        for comm in (self._machine, self._failures, self._comm):
            comm.Free()


def _yield_processor() -> None:
    if hasattr(os, "sched_yield"):
        os.sched_yield()
    else:
        time.sleep(0)


def _processors() -> set[int]:
    """Return the processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def _remedy(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return "; use more machines or fewer ranks on each, or fewer hidden units"
    return "; if a checkpoint was written, continue from it with resume"
