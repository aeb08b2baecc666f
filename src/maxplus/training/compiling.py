"""Who wants to know when Numba compiles."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock

from numba.core import event

# What the kernels of one training take from scratch, on the machine of the benchmarks.
MESSAGE = "compiling, once: about 20 s"


class _Listener(event.Listener):
    """Tells when the first of nested compilations begins, and when the last has ended."""

    def __init__(self, tell: Callable[[bool], None]) -> None:
        self._tell = tell
        self._lock, self._depth = Lock(), 0

    def on_start(self, event: event.Event) -> None:
        self._move(1)

    def on_end(self, event: event.Event) -> None:
        self._move(-1)

    def _move(self, by: int) -> None:
        with self._lock:
            self._depth += by
            changed = self._depth == max(by, 0)
        if changed:
            self._tell(self._depth > 0)


@contextmanager
def when_compiling(tell: Callable[[bool], None]) -> Iterator[None]:
    """Call ``tell(True)`` when a kernel is being compiled and ``tell(False)`` when that is over.

    A kernel that comes from the disk cache compiles nothing, and nothing is told. Trainings
    compile in their own threads, from which ``tell`` is then called.
    """
    listener = _Listener(tell)
    event.register("numba:compile", listener)
    try:
        yield
    finally:
        event.unregister("numba:compile", listener)
