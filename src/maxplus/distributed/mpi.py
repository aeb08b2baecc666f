"""Ranks that an MPI launcher has started; mpi4py is only needed here."""

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
from maxplus._compile.aligned import empty
from maxplus.distributed.boards import Boards, add_in_order
from maxplus.distributed.launched import is_launched
from maxplus.distributed.team import Team, agreed
from maxplus.distributed.witness import TOLD, Line

T = TypeVar("T")

# MPI counts in 32 bits: larger arrays go in parts of so many bytes.
MOST_BYTES = 1 << 30
# Ranks with the same trouble say so once: each waits a little for those before it.
GRACE = 0.05
# How long a rank that fails waits for the others to fail alike, in seconds.
PATIENCE = 1.0


class MPITeam(Team):
    """A team by the messages of an mpi4py communicator."""

    def __init__(self, comm: Any) -> None:
        # Messages of our own, whatever else the program sends.
        self._comm, self._trouble = comm.Dup(), comm.Dup()
        self.rank, self.size = comm.rank, comm.size
        self._windows: dict[tuple[int, ...], Any] = {}
        self._rooms: dict[str, NDArray] = {}
        self._is_crowded = False
        from mpi4py import MPI

        self._near = self._comm.Split_type(MPI.COMM_TYPE_SHARED)
        self.place = self._near.rank
        if self.size > 1:
            # Launchers may have tied each rank to some of the machine's processors, or to none.
            processors = set().union(*self._near.allgather(_processors()))
            self.cores = max(1, len(processors) // self._near.size)
            # All wait in the same way: MPI's two kinds of messages do not meet.
            crowded = self._near.size > len(processors)
            self._is_crowded = any(self._comm.allgather(crowded))
        self._boards = Boards(self._comm, self._near, self._wait)
        self._line = Line(self._near, self.rank, self.size)

    @classmethod
    def of(cls, comm: Any = None) -> MPITeam:
        """That of a communicator, or of all ranks there are."""
        try:
            from mpi4py import MPI
        except ImportError:
            raise ImportError(
                "more than one process needs mpi4py, which is not installed; "
                'pip install "maxplus[mpi]"'
            ) from None
        if comm is None and MPI.COMM_WORLD.size == 1 and is_launched():
            raise ImportError(
                "a launcher has started several processes, but mpi4py sees one alone: it was made "
                "for another MPI; reinstall it for this one: MPICC=mpicc pip install "
                "--no-binary mpi4py mpi4py"
            )
        return cls(MPI.COMM_WORLD if comm is None else comm)

    def check_software(self) -> None:
        """DifferentRanksError unless all ranks run the same versions."""
        import numba

        self.agree({
            "version of maxplus": maxplus.__version__,
            "version of Python": platform.python_version_tuple()[:2],
            "version of NumPy": np.__version__,
            "version of Numba": numba.__version__,
            "byte order": sys.byteorder,
        })  # fmt: skip

    def every(self, thing: T) -> list[T]:
        """What each rank has, in order."""
        return self._comm.allgather(thing)

    def first(self, thing: T) -> T:
        """What rank 0 has."""
        return self._comm.bcast(thing, root=0)

    def gather(self, rows: NDArray) -> NDArray:
        """The rows of all ranks, one rank's after the other's."""
        return self._in_parts(rows, everywhere=True)

    def collect(self, rows: NDArray) -> NDArray:
        """`gather` for rank 0 alone."""
        return self._in_parts(rows, everywhere=False)

    def _in_parts(self, rows: NDArray, *, everywhere: bool) -> NDArray:
        """All ranks' rows, rank by rank: broadcast, or sent to rank 0, in parts MPI can count."""
        rows = np.ascontiguousarray(rows)
        counts = self.every(len(rows))
        wanted = everywhere or self.is_first
        whole = np.empty((sum(counts) if wanted else 0, *rows.shape[1:]), rows.dtype)
        width = max(1, rows.dtype.itemsize * int(np.prod(rows.shape[1:], dtype=np.int64)))
        step = max(1, MOST_BYTES // width)
        begin = 0
        for owner, count in enumerate(counts):
            own = whole[begin : begin + count] if wanted else rows
            if owner == self.rank and wanted:
                own[...] = rows
            for lo in range(0, count, step):
                self._carry(own[lo : lo + step], owner, everywhere)
            begin += count
        return whole

    def _carry(self, part: NDArray, owner: int, everywhere: bool) -> None:
        data = part.reshape(-1).view(np.uint8)
        if everywhere:
            self._comm.Bcast(data, root=owner)
        elif owner == self.rank and not self.is_first:
            self._comm.Send(data, dest=0)
        elif self.is_first and owner != 0:
            self._comm.Recv(data, source=owner)

    def add_up(self, numbers: NDArray) -> NDArray:
        """The part of this rank in the sum over all, added in their order.

        MPI's own sum may add in another order on every rank.
        """
        if self.is_alone:
            return numbers
        parts = numbers.reshape(self.size, -1)
        own = self._room("sum", parts[0].shape, numbers.dtype)
        if self._boards.suit(parts[0].nbytes):
            self._boards.add_up(parts, own)
        else:
            brought = self._room("brought", parts.shape, numbers.dtype)
            self._comm.Alltoall(parts, brought)
            add_in_order(brought, own)
        return own

    def spread(self, numbers: NDArray) -> None:
        """Fill in the parts of the others, each as its rank has it; in place."""
        from mpi4py import MPI

        parts = numbers.reshape(self.size, -1)
        if self._boards.suit(parts[0].nbytes):
            self._boards.spread(parts)
        else:
            self._comm.Allgather(MPI.IN_PLACE, parts)

    def _room(self, name: str, shape: tuple[int, ...], dtype: np.dtype) -> NDArray:
        """Kept for the next call: memory that is new costs more than what happens in it."""
        room = self._rooms.get(name)
        if room is None or room.shape != shape or room.dtype != dtype:
            room = self._rooms[name] = empty(shape, dtype)
        return room

    def meet(self, own: NDArray, everybody: NDArray) -> None:
        """Fill ``everybody`` with what each rank has: a few numbers, as soon as can be."""
        if self._is_crowded:
            _yield_until(self._comm.Iallgather(own, everybody))
        else:
            self._comm.Allgather(own, everybody)

    def _wait(self) -> None:
        """Until all ranks are here."""
        if self._is_crowded:
            _yield_until(self._comm.Ibarrier())
        else:
            self._comm.Barrier()

    def unite(self, numbers: NDArray) -> None:
        """By bits: those of 0 are none."""
        from mpi4py import MPI

        self._comm.Allreduce(MPI.IN_PLACE, numbers.reshape(-1).view(np.int64), op=MPI.BOR)

    def nearby(self, n: int) -> list[int]:
        """What each rank of this machine has."""
        return self._near.allgather(n)

    def shared(self, shape: tuple[int, ...]) -> NDArray:
        """Numbers in memory of the machine's first rank that all its ranks see."""
        from mpi4py import MPI

        n = math.prod(shape)
        if shape not in self._windows:
            own = 0 if self.place else 8 * n
            self._windows[shape] = MPI.Win.Allocate_shared(own, 8, comm=self._near)
        memory, _ = self._windows[shape].Shared_query(0)
        return np.frombuffer(memory, np.float64, n).reshape(shape)

    def fails_alike(self, error: BaseException) -> bool:
        """Whether all ranks come to the same error soon: not, if some wait for messages."""
        if self.is_alone or getattr(error, "agreed", False):
            return True
        own = np.frombuffer(sha256(f"{type(error)} {error}".encode()).digest()[:8], np.int64)
        told = np.empty(self.size, np.int64)
        request = self._trouble.Iallgather(own, told)
        began = time.monotonic()
        while not request.Test():
            if time.monotonic() - began > PATIENCE:
                return False
            time.sleep(0.001)
        if (told != own[0]).any():
            return False
        agreed(error)
        return True

    def end(self, error: BaseException) -> None:
        """Say what happened here, once, and end all ranks."""
        if self.is_alone:
            return
        time.sleep(GRACE * self.rank)
        print(
            f"rank {self.rank} of {self.size} failed, and with it all ranks: "
            f"{type(error).__name__}: {error}{_remedy(error)}",
            file=sys.stderr, flush=True,
        )  # fmt: skip
        self._line.hang_up(TOLD)
        self._comm.Abort(1)

    def close(self) -> None:
        """Free the windows and communicators; all ranks together.

        An engine that is used afterwards fails at its first message, before it reads a window.
        """
        self._line.hang_up()
        self._boards.close()
        for window in self._windows.values():
            window.Free()
        self._windows.clear()
        for comm in (self._near, self._trouble, self._comm):
            comm.Free()


def _yield_until(request: Any) -> None:
    """MPI waits without giving way: somebody we wait for may need this processor."""
    while not request.Test():
        if hasattr(os, "sched_yield"):
            os.sched_yield()
        else:
            time.sleep(0)


def _processors() -> set[int]:
    """Those that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def _remedy(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return "; use more machines or fewer ranks on each, or fewer hidden units"
    return "; a training with a checkpoint goes on from it with resume"
