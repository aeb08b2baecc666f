"""How kernels are compiled."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numba
from numpy.typing import NDArray

from maxplus._kernel_cache import KernelCache, say_uncached


def njit(function: Callable | None = None, *, cache: bool = False, **options: Any) -> Any:
    """`numba.njit`, with a cache whose failure costs a compilation and nothing else."""
    if function is None:
        return partial(njit, cache=cache, **options)
    kernel = numba.njit(**options)(function)
    # With Numba switched off (NUMBA_DISABLE_JIT), functions stay what they are.
    if cache and hasattr(kernel, "enable_caching"):
        try:
            kernel._cache = KernelCache(function)
        except RuntimeError:
            say_uncached()
    return kernel


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
