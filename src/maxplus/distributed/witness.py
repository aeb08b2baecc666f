"""A process beside the ranks of a machine, which says so when one of them is killed.

A rank that is killed, by the system when memory is full for example, says nothing any more, and the
launcher kills all others at once. Each rank therefore holds a line to a witness of its machine: one
that breaks without a last word is that of a rank that was killed. The first one to break is told.

This file is a program as well, which needs nothing but Python's own library.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import subprocess
import sys
import tempfile
import time
from threading import Thread
from typing import Any

# Last words of a rank: it has done its work, or it has told its trouble itself.
DONE, TOLD = b"d", b"t"
# Seconds until a witness must listen, and until all ranks must have called it.
PATIENCE = 10.0


class Line:
    """A rank's line to the witness of its machine; silent where there is none."""

    def __init__(self, near: Any, rank: int, size: int) -> None:
        self._line: socket.socket | None = None
        if size == 1 or not hasattr(socket, "AF_UNIX") or not hasattr(select, "epoll"):
            return
        # Where no witness can be started, ranks work without one.
        with contextlib.suppress(OSError):
            folder = near.bcast(_start(near.size, size) if near.rank == 0 else None)
            if folder is not None:
                self._line = _call(folder)
                self._line.sendall(b"%d\n" % rank)
        near.Barrier()
        if near.rank == 0 and folder is not None:
            with contextlib.suppress(OSError):
                os.remove(os.path.join(folder, "line"))
                os.rmdir(folder)

    def hang_up(self, last: bytes = DONE) -> None:
        """Say a last word."""
        if self._line is not None:
            # A witness that has gone needs no word.
            with self._line, contextlib.suppress(OSError):
                self._line.sendall(last)
            self._line = None


def _start(n: int, size: int) -> str | None:
    """Start a witness of n ranks out of so many; the folder where it listens."""
    try:
        folder = tempfile.mkdtemp(prefix="ranks-")
        # In a session of its own: the launcher kills those of the ranks.
        witness = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__, folder, str(n), str(size)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
    except OSError:
        return None
    # Somebody has to wait for a process, so that nothing is left of it.
    Thread(target=witness.wait, daemon=True).start()
    return folder


def _call(folder: str) -> socket.socket:
    """A line to the witness, as soon as it listens."""
    line = socket.socket(socket.AF_UNIX)
    address, began = os.path.join(folder, "line"), time.monotonic()
    while problem := line.connect_ex(address):
        if time.monotonic() - began > PATIENCE:
            line.close()
            raise OSError(problem, os.strerror(problem))
        time.sleep(0.002)
    return line


def watch(folder: str, n: int, size: int) -> None:
    """Listen to n ranks until all are done or one has told its trouble; tell of a broken line."""
    with socket.socket(socket.AF_UNIX) as door, select.epoll() as events:
        door.settimeout(PATIENCE)
        door.bind(os.path.join(folder, "line"))
        door.listen(n)
        ranks: dict[int, int] = {}
        lines = []
        for _ in range(n):
            line, _address = door.accept()
            lines.append(line)
            ranks[line.fileno()] = int(line.makefile("rb", buffering=0).readline())
        for line in lines:
            events.register(line.fileno(), select.EPOLLIN)
        while ranks:
            # One at a time, in the order in which they came: the first to die is no other's victim.
            [(number, _what)] = events.poll(maxevents=1)
            word = os.read(number, 1)
            if word == DONE:
                events.unregister(number)
                del ranks[number]
                continue
            if word != TOLD:
                print(message(ranks[number], size), file=sys.stderr, flush=True)
            return


def message(rank: int, size: int) -> str:
    """What is said of a rank that was killed."""
    return (
        f"rank {rank} of {size} was killed or crashed, and with it all ranks; if its memory was "
        "full, use more machines or fewer ranks on each, or fewer hidden units; a training with a "
        "checkpoint goes on from it with resume"
    )


if __name__ == "__main__":
    with contextlib.suppress(OSError):
        watch(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
