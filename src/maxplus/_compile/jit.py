"""The decorators of kernels, `njit` and `inner`."""

from __future__ import annotations

import gc
import logging
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cache as once
from functools import partial, wraps
from inspect import unwrap
from threading import Event, Lock
from types import FunctionType
from typing import Any

import numba
from numpy.typing import NDArray

# Options of kernels that only other kernels call: without wrappers for Python, they compile faster,
# and arguments need not be convertible from Python objects.
_LINK_ONLY: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}

try:
    from maxplus._compile.cache import KernelCache
    from maxplus._compile.linking import LinkOnlyCompiler

    _LINK_ONLY["pipeline_class"] = LinkOnlyCompiler
    HAS_NUMBA_INTERNALS = True
except (ImportError, AttributeError, TypeError) as error:
    HAS_NUMBA_INTERNALS = False
    logging.getLogger("maxplus").warning(
        "maxplus compiles its kernels with plain numba.njit, which takes longer: Numba %s differs "
        "from the versions that maxplus was written for (%s)",
        numba.__version__,
        error,
    )

# The workqueue threads of Numba, used without OpenMP and TBB, allow one call at a time: a second
# concurrent call terminates the process (numba #8563).
_WORKQUEUE = Lock()
# Set in processes that were forked after the start of OpenMP threads, which do not survive a fork.
_FORKED = Event()


def njit(function: Callable | None = None, *, cache: bool = False, **options: Any) -> Any:
    """Compile a function like `numba.njit`, with a more robust disk cache.

    The attribute ``serial`` of a parallel kernel is its single-threaded version, which compiles in
    a fraction of the time and is faster for small inputs. Several threads may call a parallel
    kernel at the same time.
    """
    if function is None:
        return partial(njit, cache=cache, **options)
    kernel = _dispatcher(function, cache, options)
    if not options.get("parallel"):
        return kernel
    serial = _dispatcher(function, cache, {**options, "parallel": False}, "-serial")
    return _thread_safe(kernel, serial)


def compile_variant(names: dict[str, Any], kernel: Callable, name: str, **options: Any) -> Any:
    """Return a kernel under another name, with other values of some global names.

    Unlike a parameter, this does not increase the compile time; unlike a closure, it can be cached.
    """
    source: Any = unwrap(kernel)
    function = FunctionType(source.__code__, {**source.__globals__, **names}, name)
    function.__qualname__, function.__module__ = name, source.__module__
    return njit(function, cache=True, **options)


def _dispatcher(function: Callable, cache: bool, options: dict[str, Any], variant: str = "") -> Any:
    """Return the Numba dispatcher of a function; variants are cached separately."""
    # Wrappers for C callbacks, a tenth of the compile time of a kernel, are not used.
    kernel = numba.njit(**{"no_cfunc_wrapper": True, **options})(function)
    # With NUMBA_DISABLE_JIT, njit returns the function itself.
    if not hasattr(kernel, "enable_caching"):
        return kernel
    if cache:
        try:
            if HAS_NUMBA_INTERNALS:
                kernel._cache = KernelCache(function, variant, warn_uncached)
            elif not variant:  # The cache of Numba does not distinguish variants of a function.
                kernel.enable_caching()
        except RuntimeError:
            warn_uncached()
    if HAS_NUMBA_INTERNALS and not options.get("parallel"):
        _link_into_callers(kernel, function, options)
    kernel.compile = _without_garbage_collection()(kernel.compile)
    return kernel


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Pause the garbage collector, which saves 10 % of the compile time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _link_into_callers(kernel: Any, function: Callable, options: dict[str, Any]) -> None:
    """Make other kernels link a version of this kernel without machine code."""

    @once
    def linked() -> Any:
        return numba.njit(**{**options, **_LINK_ONLY})(function)

    kernel.get_call_template = lambda *arguments: linked().get_call_template(*arguments)
    kernel.get_overload = lambda signature: linked().get_overload(signature)


# Decorator of kernels that only other kernels call; a call from Python crashes the process.
# Division follows IEEE 754, because a check for zero would prevent vectorisation.
inner: Any = numba.njit(error_model="numpy", **_LINK_ONLY)
# The same without the fast-math flags that Numba propagates from callers.
exact_inner: Any = numba.njit(error_model="numpy", fastmath=False, **_LINK_ONLY)


@once
def warn_uncached() -> None:
    """Warn once that compiled kernels are not cached."""
    warnings.warn(
        "compiled kernels cannot be cached on disk, so every process compiles its own; set the "
        "environment variable NUMBA_CACHE_DIR to a writable folder",
        RuntimeWarning,
        stacklevel=2,
    )


def _thread_safe(kernel: Callable, serial: Callable) -> Any:
    """Wrap a parallel kernel so that several threads may call it at the same time.

    A forked process calls ``serial`` instead, because OpenMP would terminate it.
    """

    @wraps(kernel)
    def call(*arguments: Any) -> Any:
        if _FORKED.is_set():
            return serial(*arguments)
        with nullcontext() if _threading_layer() in ("omp", "tbb") else _WORKQUEUE:
            return kernel(*arguments)

    call.serial = serial  # type: ignore[attr-defined]
    return call


def _threading_layer() -> str | None:
    """Return the threading layer of Numba; None before the first parallel kernel has run."""
    try:
        return numba.threading_layer()
    except ValueError:
        return None


def _after_fork() -> None:
    if _threading_layer() == "omp":
        _FORKED.set()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def frozen(array: NDArray) -> NDArray:
    """Return a read-only view, so that kernels are compiled for one type of array."""
    view = array.view()
    view.flags.writeable = False
    return view
