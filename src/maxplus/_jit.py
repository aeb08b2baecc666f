"""How kernels are compiled."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial, wraps
from threading import Lock
from typing import Any

import numba
from numpy.typing import NDArray

from maxplus._kernel_cache import KernelCache, say_uncached

# Numba's own threads, which it takes where it finds no OpenMP and no TBB, are one team for all: a
# second call at the same time ends the process.
_TEAM = Lock()


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
    return alone(kernel) if options.get("parallel") and not within else kernel


def alone(kernel: Callable) -> Callable:
    """A parallel kernel that threads of the user's may call at the same time."""

    @wraps(kernel)
    def call(*arguments: Any) -> Any:
        with nullcontext() if _has_safe_threads() else _TEAM:
            return kernel(*arguments)

    return call


def _has_safe_threads() -> bool:
    """Whether parallel kernels can be called at the same time; unknown before the first call."""
    try:
        return numba.threading_layer() != "workqueue"
    except ValueError:
        return False


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
