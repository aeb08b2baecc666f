"""What an engine's kernels need of the other ranks: messages, and thresholds in shared memory."""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxplus.distributed import Team
from maxplus.training.engines.sparse._meeting import TELL_FOUND
from maxplus.training.engines.sparse._team import LINE


class Messenger:
    """Carries messages for a compiled block of iterations, which calls it by its ``address``.

    The address is 0 where nobody else is there. What goes wrong ends the block, and is raised by
    `check` after it: an exception cannot pass through compiled code.
    """

    def __init__(self, team: Team) -> None:
        self._team = team
        self._failure: BaseException | None = None
        # Kept, because the address is good as long as it is.
        self._function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(self._carry)
        self.address = 0
        if not team.is_alone:
            self.address = ctypes.cast(self._function, ctypes.c_void_p).value or 0

    def serve(self, meeting: Any) -> None:
        """From now on, messages are in these arrays."""
        self._told, self._heard, self._path = meeting.told, meeting.heard, meeting.path

    def _carry(self, what: int) -> int:
        try:
            if what == TELL_FOUND:
                self._team.meet(self._told, self._heard)
            else:
                self._team.unite(self._path)
        except BaseException as failure:
            self._failure = failure
            return 1
        return 0

    def check(self) -> None:
        """Raise what has ended a block."""
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure


class Thresholds(NamedTuple):
    """Losses that workers have found, in memory that the ranks of a machine share: (2, lines).

    Engines of the same ranks and size use the same memory, one block of iterations at a time.
    """

    shared: NDArray
    first_seat: int
    n_seats: int

    @classmethod
    def of(cls, team: Team, n_workers: int) -> Thresholds:
        """A line for each worker and parity of the iteration, ours and those of ranks nearby."""
        counts = team.nearby(n_workers)
        first = sum(counts[: team.place])
        shared = team.shared((2, LINE * sum(counts)))
        return cls(shared, first, sum(counts))

    @staticmethod
    def reset(worst: Any, n_workers: int, team: Team) -> None:
        """Remove all losses from an engine's memory; return when every rank has removed its own."""
        lines = slice(LINE * worst.first_seat, LINE * (worst.first_seat + n_workers))
        worst.threshold[:, lines] = -np.inf
        team.any(False)

    @staticmethod
    def bytes_needed(n_workers: int) -> int:
        """What a rank's own lines take."""
        return 2 * LINE * n_workers * np.dtype(np.float64).itemsize
