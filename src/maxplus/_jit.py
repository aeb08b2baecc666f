"""How kernels are compiled."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial, wraps
from threading import Event, Lock
from typing import Any

import numba
from numpy.typing import NDArray

from maxplus._kernel_cache import KernelCache, say_uncached

# Numba's own threads, which it takes where it finds no OpenMP and no TBB, are one team for all: a
# second call at the same time ends the process.
_TEAM = Lock()
# Set in processes that were forked after OpenMP's threads had started: those threads are gone.
_FORKED = Event()


def njit(
    function: Callable | None = None, *, cache: bool = False, within: bool = False, **options: Any
) -> Any:
    """`numba.njit`, with a cache whose failure costs a compilation and nothing else.

    Calls of a parallel kernel wait for each other where they must, see `alone`; one that only
    other kernels call is ``within`` them, and those are to be called `alone`.
    """
    if function is None:
        return partial(njit, cache=cache, within=within, **options)
    kernel = numba.njit(**options)(function)
    # With Numba switched off (NUMBA_DISABLE_JIT), functions stay what they are.
    if cache and hasattr(kernel, "enable_caching"):
        try:
            kernel._cache = KernelCache(function)
        except RuntimeError:
            say_uncached()
    if not options.get("parallel") or within:
        return kernel
    # Not in the cache, which would take the two for one.
    return alone(kernel, numba.njit(**{**options, "parallel": False})(function))


def alone(kernel: Callable, serial: Callable | None = None) -> Callable:
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


# For kernels that only other kernels call: without wrappers for Python, functions
# with dozens of arrays compile in half the time. Called from Python, they crash.
# Division follows IEEE 754: Python's check for zero would keep loops from vectorising.
inner: Any = njit(
    cache=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True
)  # fmt: skip


def frozen(array: NDArray) -> NDArray:
    """A read-only view: kernels compile once, whether or not the user's array is writeable."""
    view = array.view()
    view.flags.writeable = False
    return view
