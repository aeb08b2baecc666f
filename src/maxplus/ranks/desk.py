"""Where ranks of one machine lay messages down for each other: memory that all of them see.

MPI waits without giving way, and its messages that can be waited for otherwise take twice as long.
"""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Bytes that processors fetch together: counters in one line would be fetched anew by everybody.
LINE = 64


class Desk:
    """Rounds in which each rank lays down so many bytes, and reads everybody's.

    There are two places for each rank, used in turns. A rank that lays down its next message has
    seen all others begin the round between: nobody reads any more what it writes over.

    Parameters
    ----------
    near : mpi4py communicator of the machine's ranks, all of which make a desk
    n_bytes : of a message
    """

    def __init__(self, near: Any, n_bytes: int) -> None:
        from mpi4py import MPI

        size, self._rank, self._round = near.size, near.rank, 0
        total = size * (LINE + 2 * n_bytes)
        self._window = MPI.Win.Allocate_shared(0 if near.rank else total, 1, comm=near)
        memory: Any = self._window.Shared_query(0)[0]
        whole = np.frombuffer(memory, np.uint8, total)
        # The last round that each rank has laid down a message for.
        self._rounds = whole[: size * LINE].view(np.int64).reshape(size, -1)[:, 0]
        self._messages = whole[size * LINE :].reshape(2, size, n_bytes)
        self._rounds[self._rank] = 0
        self._window.Lock_all()
        self._window.Sync()
        near.Barrier()

    def meet(self, own: NDArray, everybody: NDArray) -> None:
        """Fill ``everybody`` (size, …) with what each rank has in ``own``."""
        self._round += 1
        messages = self._messages[self._round % 2]
        messages[self._rank] = own.reshape(-1).view(np.uint8)
        # The message is there before the number of its round is.
        self._window.Sync()
        self._rounds[self._rank] = self._round
        while self._rounds.min() < self._round:
            give_way()
        self._window.Sync()
        everybody.reshape(len(messages), -1).view(np.uint8)[...] = messages

    def close(self) -> None:
        """No more rounds."""
        self._window.Unlock_all()


def give_way() -> None:
    """Offer the processor to others."""
    if hasattr(os, "sched_yield"):
        os.sched_yield()
    else:
        time.sleep(0)
