"""One exponential in float32 for all kernels: the library's is exact, but does not vectorise."""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from maxplus._compile.jit import njit

_LOG2E = np.float32(1.44269504)
# log 2 in two parts: the first has so few digits that its multiples are exact.
_LN2_HIGH, _LN2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)
_C2, _C3, _C4, _C5, _C6 = (np.float32(1 / n) for n in (2, 6, 24, 120, 720))
_ONE, _HALF = np.float32(1.0), np.float32(0.5)
_BIAS, _MANTISSA_BITS = np.int32(127), np.int32(23)


@intrinsic
def _as_float(typingctx, bits):
    """The float32 with these 32 bits."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.FloatType())

    return types.float32(types.int32), codegen


@njit(cache=True, inline="always")
def exp32(x):
    """exp(x) for a float32 with |x| ≤ 87, with a relative error below 3e-7; vectorises.

    exp(x) = 2ⁿ·exp(r) with |r| ≤ log(2)/2, where six terms of the series are enough. Beyond 87
    the power of two does not fit: callers bound x.
    """
    n = np.floor(x * _LOG2E + _HALF)
    r = x - n * _LN2_HIGH - n * _LN2_LOW
    series = _ONE + r * (_ONE + r * (_C2 + r * (_C3 + r * (_C4 + r * (_C5 + r * _C6)))))
    return series * _as_float((np.int32(n) + _BIAS) << _MANTISSA_BITS)
