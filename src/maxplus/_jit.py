"""How kernels are compiled."""

from typing import Any

from numba import njit

# For kernels that only other kernels call: without wrappers for Python, functions
# with dozens of arrays compile in half the time. Called from Python, they crash.
inner: Any = njit(cache=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)  # type: ignore[call-overload]
