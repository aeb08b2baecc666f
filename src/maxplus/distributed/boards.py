"""Memory that all ranks of one machine see: who writes there has told everybody."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxplus._compile.aligned import LINE
from maxplus.distributed._stream import stream

# Less than this is told sooner by messages.
LEAST_BYTES = 1 << 15
# Where MPI keeps such memory on Linux; containers often have 64 MB of it.
PLACE = "/dev/shm"


class Boards:
    """What MPI's messages do with large parts, without copies in between.

    Only where all ranks share a machine. Parts are whole lines of memory, of one size for all
    ranks; boards of the last size are kept.

    Parameters
    ----------
    comm : the ranks
    near : those of this machine
    wait : returns when all ranks have called it
    """

    def __init__(self, comm: Any, near: Any, wait: Callable[[], None]) -> None:
        self._comm, self._near, self._wait = comm, near, wait
        self._part_bytes, self._is_there = 0, False
        self._shown: list[NDArray] = []
        self._brought: list[NDArray] = []
        self._turn = 0
        self._window: Any = None

    def suit(self, part_bytes: int) -> bool:
        """Whether parts of this size go by boards; all ranks ask together."""
        if self._near.size < self._comm.size or part_bytes < LEAST_BYTES or part_bytes % LINE:
            return False
        if part_bytes != self._part_bytes:
            has_room = self._comm.bcast(_has_room(self._needed(part_bytes)), root=0)
            self._is_there = has_room and self._allocate(part_bytes)
            self._part_bytes = part_bytes
        return self._is_there

    def spread(self, parts: NDArray) -> None:
        """Fill in the others' parts, of all ranks' (size, …).

        They are copied, because whoever reads them afterwards, in an order of its own, would wait
        for each line. Two rows take turns: a rank that writes for the next time, when others
        may still read, does not write there.
        """
        own = self._comm.rank
        self._turn = 1 - self._turn
        board = self._shown[self._turn]
        _write(parts[own], board[own])
        self._wait()
        for rank, part in enumerate(parts):
            if rank != own:
                part[:] = board[rank].view(part.dtype)

    def add_up(self, numbers: NDArray, total: NDArray) -> None:
        """The own part of the sum of all ranks' numbers (size, …), in their order."""
        own = self._comm.rank
        for rank, part in enumerate(numbers):
            if rank != own:
                _write(part, self._brought[own][rank])
        self._wait()
        add_in_order(
            [
                numbers[own] if rank == own else board[own].view(numbers.dtype)
                for rank, board in enumerate(self._brought)
            ],
            total,
        )
        # Nobody writes for the next sum before all have read.
        self._wait()

    def close(self) -> None:
        """Give the memory back; all ranks together."""
        if self._window is not None:
            self._shown, self._brought = [], []
            self._window.Free()
            self._window, self._part_bytes = None, 0

    def _needed(self, part_bytes: int) -> int:
        return (2 + self._comm.size) * self._comm.size * part_bytes

    def _allocate(self, part_bytes: int) -> bool:
        """Two rows to show, in the first rank's memory, and one of each to bring.

        Whether all of them begin with a line, on all ranks.
        """
        from mpi4py import MPI

        size, row = self._comm.size, self._comm.size * part_bytes
        own = 3 * row if self._near.rank == 0 else row
        self.close()
        self._window = MPI.Win.Allocate_shared(own, 1, comm=self._near)
        places: list[Any] = [self._window.Shared_query(rank)[0] for rank in range(size)]
        memory = [np.frombuffer(place, np.uint8) for place in places]
        self._shown = [memory[0][k * row : (k + 1) * row].reshape(size, -1) for k in (1, 2)]
        self._brought = [part[:row].reshape(size, -1) for part in memory]
        fits = all(part.ctypes.data % LINE == 0 for part in memory)
        return all(self._comm.allgather(fits))


def add_in_order(parts: Sequence[NDArray] | NDArray, total: NDArray) -> None:
    """The sum of two or more, from the first to the last."""
    np.add(parts[0], parts[1], out=total)
    for part in parts[2:]:
        total += part


def _write(numbers: NDArray, place: NDArray) -> None:
    stream(numbers.reshape(-1).view(np.float32), place.view(np.float32))


def _has_room(n_bytes: int) -> bool:
    """Whether the machine has twice as much of such memory: what is beyond ends the process."""
    try:
        place = os.statvfs(PLACE)
    except (OSError, AttributeError):
        return False  # Not Linux.
    return 2 * n_bytes <= place.f_bavail * place.f_frsize
