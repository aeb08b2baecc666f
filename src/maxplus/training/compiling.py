"""Who is told that kernels are being compiled: once in a process, where it takes a while."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Lock, Timer

from numba.core import event

MESSAGE = "compiling kernels, once: later runs find them on the disk"
# Seconds of compilation, of all kernels together, that nobody needs to hear of.
PATIENCE = 1.0

_SAYING, _SAID = Lock(), Event()


class _Listener(event.Listener):
    """Counts the seconds while anything is being compiled; tells when they are too many."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._lock, self._depth = Lock(), 0
        self._left = PATIENCE

    def on_start(self, event: event.Event) -> None:
        """One kernel more; what a kernel calls is compiled within it."""
        with self._lock:
            self._depth += 1
            if self._depth == 1:
                self._began = time.monotonic()
                self._timer = Timer(self._left, self._say)
                self._timer.daemon = True
                self._timer.start()

    def on_end(self, event: event.Event) -> None:
        """One less."""
        with self._lock:
            self._depth -= 1
            if self._depth == 0:
                self._timer.cancel()
                self._left = max(0.0, self._left - (time.monotonic() - self._began))

    def _say(self) -> None:
        with _SAYING:
            said = _SAID.is_set()
            _SAID.set()
        if not said:
            self._tell(MESSAGE)


@contextmanager
def telling_of_compilation(tell: Callable[[str], None]) -> Iterator[None]:
    """Call ``tell(MESSAGE)`` once kernels have been compiled for longer than a second.

    Only the first time in a process, whoever listens. A kernel that comes from the disk cache
    compiles nothing. ``tell`` is called from a thread of its own.
    """
    listener = _Listener(tell)
    event.register("numba:compile", listener)
    try:
        yield
    finally:
        event.unregister("numba:compile", listener)
