"""Vectorisable exponential and logarithm of float64; those of the C library are not vectorised.

Both are accurate to a few units in the last place within the range in their docstrings, and
undefined outside.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from maxplus._compile.jit import exact_inner

_LOG2E = 1.4426950408889634
# log 2 in two parts; the first has few digits, so that its multiples are exact.
_LN2_HIGH, _LN2_LOW = 0.693145751953125, 1.4286068203094173e-06
# 2⁵² + 2⁵¹: the low bits of its sum with a number are the nearest integer.
_ROUND = 6755399441055744.0
_MANTISSA_BITS, _BIAS = 52, 1023
_MANTISSA = (1 << _MANTISSA_BITS) - 1
# Bits of √½, the lower end of the range [√½, √2) of mantissas.
_SQRT_HALF = 0x3FE6A09E667F3BCD


@intrinsic
def _as_float(typingctx, bits):
    """Return the float64 with these 64 bits."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.int64), codegen


@intrinsic
def _as_bits(typingctx, x):
    """Return the 64 bits of a float64."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.IntType(64))

    return types.int64(types.float64), codegen


@exact_inner
def exp64(x):
    """Return exp(x) for |x| ≤ 700.

    exp(x) = 2ⁿ·exp(r) with |r| ≤ log(2)/2, for which eleven terms of the series are sufficient.
    """
    shifted = x * _LOG2E + _ROUND
    n = shifted - _ROUND
    r = (x - n * _LN2_HIGH) - n * _LN2_LOW
    s = 1.0 / 39916800.0
    s = s * r + 1.0 / 3628800.0
    s = s * r + 1.0 / 362880.0
    s = s * r + 1.0 / 40320.0
    s = s * r + 1.0 / 5040.0
    s = s * r + 1.0 / 720.0
    s = s * r + 1.0 / 120.0
    s = s * r + 1.0 / 24.0
    s = s * r + 1.0 / 6.0
    s = s * r + 0.5
    s = s * r + 1.0
    s = s * r + 1.0
    return s * _as_float((_as_bits(shifted) + _BIAS) << _MANTISSA_BITS)


@exact_inner
def log64(x):
    """Return log(x) of a normal number > 0.

    x = 2ⁿ·m with √½ ≤ m < √2, and log(m) = 2·artanh((m − 1)/(m + 1)), for which ten terms of the
    series are sufficient.
    """
    bits = _as_bits(x)
    n = (bits - _SQRT_HALF) >> _MANTISSA_BITS
    m = _as_float(bits - (n << _MANTISSA_BITS))
    s = (m - 1.0) / (m + 1.0)
    q = s * s
    p = 1.0 / 21.0
    p = p * q + 1.0 / 19.0
    p = p * q + 1.0 / 17.0
    p = p * q + 1.0 / 15.0
    p = p * q + 1.0 / 13.0
    p = p * q + 1.0 / 11.0
    p = p * q + 1.0 / 9.0
    p = p * q + 1.0 / 7.0
    p = p * q + 1.0 / 5.0
    p = p * q + 1.0 / 3.0
    return n * 0.6931471805599453 + (2.0 * s + 2.0 * s * q * p)
