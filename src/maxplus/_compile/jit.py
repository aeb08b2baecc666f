"""How kernels are compiled."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import nullcontext
from functools import cache as once
from functools import partial, wraps
from threading import Event, Lock
from typing import Any

import numba
from numpy.typing import NDArray

from maxplus._compile.cache import KernelCache, say_uncached
from maxplus._compile.linking import AS_PART

# Numba's own threads, which it takes where it finds no OpenMP and no TBB, are one team for all: a
# second call at the same time ends the process.
_TEAM = Lock()
# Set in processes that were forked after OpenMP's threads had started: those threads are gone.
_FORKED = Event()


def njit(
    function: Callable | None = None, *, cache: bool = False, within: bool = False, **options: Any
) -> Any:
    """`numba.njit`, with a cache whose failure costs a compilation and nothing else.

    A parallel kernel has its twin on one thread as ``serial``: it takes a fraction of the time to
    compile, and work that is done before a second thread has woken up is done by it. Calls of the
    kernel itself wait for each other where they must, see `alone`; one that only other kernels
    call is ``within`` them, and those are to be called `alone`.
    """
    if function is None:
        return partial(njit, cache=cache, within=within, **options)
    kernel = _compiled(function, cache, options)
    if not options.get("parallel") or within:
        return kernel
    return alone(kernel, _compiled(function, cache, {**options, "parallel": False}, "-serial"))


def _compiled(function: Callable, cache: bool, options: dict[str, Any], variant: str = "") -> Any:
    """Numba's dispatcher; what the variants of a function compile to is kept apart."""
    kernel = numba.njit(**options)(function)
    # With Numba switched off (NUMBA_DISABLE_JIT), functions stay what they are.
    if not hasattr(kernel, "enable_caching"):
        return kernel
    if cache:
        try:
            kernel._cache = KernelCache(function, variant)
        except RuntimeError:
            say_uncached()
    if not options.get("parallel"):
        _link_part(kernel, function, options)
    return kernel


def is_compiled(kernel: Any) -> bool:
    """Whether this process has compiled a kernel, or finds it on the disk, for any arguments."""
    if not hasattr(kernel, "signatures"):
        return True  # Numba is switched off.
    kept = kernel._cache
    return bool(kernel.signatures) or (isinstance(kept, KernelCache) and kept.has_entries)


def _link_part(kernel: Any, function: Callable, options: dict[str, Any]) -> None:
    """Other kernels take in a part instead, which has no machine code of its own."""

    @once
    def part() -> Any:
        return numba.njit(**{**options, **AS_PART})(function)

    kernel.get_call_template = lambda *arguments: part().get_call_template(*arguments)
    kernel.get_overload = lambda signature: part().get_overload(signature)


def alone(kernel: Callable, serial: Callable | None = None) -> Any:
    """A parallel kernel that threads of the user's may call at the same time.

    A forked process has ``serial`` instead, the same on one thread: OpenMP would end it.
    """

    @wraps(kernel)
    def call(*arguments: Any) -> Any:
        if _FORKED.is_set():
            if serial is None:
                raise RuntimeError(
                    "this process was forked after kernels had run in parallel, which OpenMP does "
                    "not survive; start processes by 'spawn' or 'forkserver', or use engine='dense'"
                )
            return serial(*arguments)
        with nullcontext() if _threads() in ("omp", "tbb") else _TEAM:
            return kernel(*arguments)

    call.serial = serial  # type: ignore[attr-defined]
    return call


def _threads() -> str | None:
    """Whose threads run parallel kernels; None before the first has run."""
    try:
        return numba.threading_layer()
    except ValueError:
        return None


def _after_fork() -> None:
    if _threads() == "omp":
        _FORKED.set()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


# For kernels that only other kernels call: called from Python, they crash.
# Division follows IEEE 754: Python's check for zero would keep loops from vectorising.
inner: Any = numba.njit(error_model="numpy", **AS_PART)


def frozen(array: NDArray) -> NDArray:
    """A read-only view: kernels compile once, whether or not the user's array is writeable."""
    view = array.view()
    view.flags.writeable = False
    return view
