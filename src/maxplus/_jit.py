"""How kernels are compiled."""

from typing import Any

from numba import njit
from numpy.typing import NDArray

# For kernels that only other kernels call: without wrappers for Python, functions
# with dozens of arrays compile in half the time. Called from Python, they crash.
# Division follows IEEE 754: Python's check for zero would keep loops from vectorising.
inner: Any = njit(  # type: ignore[call-overload]
    cache=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True
)


def frozen(array: NDArray) -> NDArray:
    """A read-only view: kernels compile once, whether or not the user's array is writeable."""
    view = array.view()
    view.flags.writeable = False
    return view
