"""Vectorisable exponentials and logarithm; those of the C library are not vectorised.

They are accurate within the ranges in their docstrings, and undefined outside.
"""

from math import factorial
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from maxplus._compile.intrinsics import generator
from maxplus._compile.jit import exact_inner, njit


def _bitcast(source: Any, target: Any, kind: Any) -> Any:
    """Return an intrinsic that interprets the bits of a number as another type."""

    def cast(typingctx, bits):
        return target(source), generator(lambda builder, bits: builder.bitcast(bits, kind))

    return intrinsic(cast)


# -- float32 -------------------------------------------------------------------------------------

_as_float32 = _bitcast(types.int32, types.float32, ir.FloatType())
_LOG2E_32 = np.float32(1.44269504)
# log 2 in two parts; the first has few digits, so that its multiples are exact.
_LN2_HIGH_32, _LN2_LOW_32 = np.float32(0.693359375), np.float32(-2.12194440e-4)
_C2, _C3, _C4, _C5, _C6 = (np.float32(1 / n) for n in (2, 6, 24, 120, 720))
_ONE, _HALF = np.float32(1.0), np.float32(0.5)
_BIAS_32, _MANTISSA_BITS_32 = np.int32(127), np.int32(23)


@njit(cache=True, inline="always")
def exp32(x):
    """Return exp(x) of a float32 with |x| ≤ 87, with a relative error below 3e-7.

    exp(x) = 2ⁿ·exp(r) with |r| ≤ log(2)/2, for which the series up to r⁶ is sufficient.
    """
    n = np.floor(x * _LOG2E_32 + _HALF)
    r = x - n * _LN2_HIGH_32 - n * _LN2_LOW_32
    series = _ONE + r * (_ONE + r * (_C2 + r * (_C3 + r * (_C4 + r * (_C5 + r * _C6)))))
    return series * _as_float32((np.int32(n) + _BIAS_32) << _MANTISSA_BITS_32)


# -- float64: a few units in the last place ------------------------------------------------------

_as_float = _bitcast(types.int64, types.float64, ir.DoubleType())
_as_bits = _bitcast(types.float64, types.int64, ir.IntType(64))
_LOG2E = 1.4426950408889634
# log 2 in two parts; the first has few digits, so that its multiples are exact.
_LN2_HIGH, _LN2_LOW = 0.693145751953125, 1.4286068203094173e-06
# 2⁵² + 2⁵¹: the low bits of its sum with a number are the nearest integer.
_ROUND = 6755399441055744.0
_MANTISSA_BITS, _BIAS = 52, 1023
# Bits of √½, the lower end of the range [√½, √2) of mantissas.
_SQRT_HALF = 0x3FE6A09E667F3BCD
# Coefficients of the series of exp(r) and of artanh(s) / s, from the highest power.
_EXP_FIRST, *_rest = (1.0 / factorial(n) for n in range(11, -1, -1))
_EXP = tuple(_rest)
_ARTANH_FIRST, *_rest = (1.0 / n for n in range(21, 1, -2))
_ARTANH = tuple(_rest)


@exact_inner
def exp64(x):
    """Return exp(x) for |x| ≤ 700.

    exp(x) = 2ⁿ·exp(r) with |r| ≤ log(2)/2, for which the series up to r¹¹ is sufficient.
    """
    shifted = x * _LOG2E + _ROUND
    n = shifted - _ROUND
    r = (x - n * _LN2_HIGH) - n * _LN2_LOW
    s = _EXP_FIRST
    for coefficient in _EXP:
        s = s * r + coefficient
    return s * _as_float((_as_bits(shifted) + _BIAS) << _MANTISSA_BITS)


@exact_inner
def log64(x):
    """Return log(x) of a normal number > 0.

    x = 2ⁿ·m with √½ ≤ m < √2, and log(m) = 2·artanh(s) with s = (m − 1)/(m + 1), for which the
    series up to s²¹ is sufficient.
    """
    bits = _as_bits(x)
    n = (bits - _SQRT_HALF) >> _MANTISSA_BITS
    m = _as_float(bits - (n << _MANTISSA_BITS))
    s = (m - 1.0) / (m + 1.0)
    q = s * s
    p = _ARTANH_FIRST
    for coefficient in _ARTANH:
        p = p * q + coefficient
    return n * 0.6931471805599453 + (2.0 * s + 2.0 * s * q * p)
