"""Jitted element-wise work of the soft model, in float32.

One thread each: they take a fraction of the time of the matrix products around them, whose own
threads would be in the way of others.

Numbers that float32 can only hold as denormals are as good as zero here but cost a hundred
times as much, so every product is kept from producing one.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from maxplus.algebra._intrinsics import fmax, fmin, use_widest_vectors

# exp(±LIMIT) squared times a few thousand terms stays within float32's range.
LIMIT = 40.0
# Factors below this are left out, so that a product with exp(−LIMIT) is an ordinary number.
TINY = 1e-19
# Derivatives below this would square to next to nothing in Adam's memory.
ROOT = 1e-15

_LIMIT, _TINY, _ROOT = np.float32(LIMIT), np.float32(TINY), np.float32(ROOT)
_LOG2E = np.float32(1.44269504)
# log 2 in two parts: the first has so few digits that its multiples are exact.
_LN2_HIGH, _LN2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)
_C2, _C3, _C4, _C5, _C6 = (np.float32(1 / n) for n in (2, 6, 24, 120, 720))
_ONE, _HALF, _ZERO = np.float32(1.0), np.float32(0.5), np.float32(0.0)
_BIAS, _MANTISSA_BITS = np.int32(127), np.int32(23)


@intrinsic
def _as_float(typingctx, bits):
    """The float32 with these 32 bits."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.FloatType())

    return types.float32(types.int32), codegen


@njit(cache=True, inline="always")
def _exp(x):
    """exp(x) for |x| ≤ LIMIT, to a few units in the last place; the library's is not vectorised.

    exp(x) = 2ⁿ·exp(r) with |r| ≤ log(2)/2, where six terms of the series are enough.
    """
    n = np.floor(x * _LOG2E + _HALF)
    r = x - n * _LN2_HIGH - n * _LN2_LOW
    series = _ONE + r * (_ONE + r * (_C2 + r * (_C3 + r * (_C4 + r * (_C5 + r * _C6)))))
    return series * _as_float((np.int32(n) + _BIAS) << _MANTISSA_BITS)


@njit(cache=True)
def _exp_row(x, factor, out):
    use_widest_vectors()
    for i in range(x.size):
        out[i] = _exp(fmax(fmin(x[i] * factor, _LIMIT), -_LIMIT))


@njit(cache=True)
def exp_weights(W1, factor, out):
    """out[i, h] = exp(factor·W1[i, h]), exponents within ±LIMIT; O(P·H)."""
    for i in range(W1.shape[0]):
        _exp_row(W1[i], factor, out[i])


@njit(cache=True)
def _exp_inputs_row(x, W0, factor, out):
    use_widest_vectors()
    for p in range(x.size):
        scaled = x[p] * factor
        for i in (2 * p, 2 * p + 1):
            out[i] = _exp(fmax(fmin(W0[i] * scaled, _LIMIT), -_LIMIT))


@njit(cache=True)
def exp_inputs(X, W0, factor, out):
    """out[n, i] = exp(factor·W0[i]·x[i // 2]), exponents within ±LIMIT; O(n·P)."""
    for n in range(X.shape[0]):
        _exp_inputs_row(X[n], W0, factor, out[n])


@njit(cache=True)
def _scale_row(x, factor, least):
    use_widest_vectors()
    low = least / factor
    for i in range(x.size):
        x[i] = x[i] * factor if x[i] > low else _ZERO


@njit(cache=True)
def scale_rows(A, factor, least):
    """A[n] ← factor[n]·A[n], products below ``least`` becoming 0; A ≥ 0; O(n·P)."""
    for n in range(A.shape[0]):
        _scale_row(A[n], factor[n], least)


@njit(cache=True)
def _times_row(a, b):
    use_widest_vectors()
    for i in range(a.size):
        product = a[i] * (b[i] if abs(b[i]) > _TINY else _ZERO)
        b[i] = product if abs(product) > _ROOT else _ZERO


@njit(cache=True)
def times(A, B):
    """B ← A·B element by element; what is too small to be squared becomes 0; O(size)."""
    for i in range(A.shape[0]):
        _times_row(A[i], B[i])
