"""Jitted element-wise work of the soft model, in float32.

One thread each: they take a fraction of the time of the matrix products around them, whose own
threads would be in the way of others.

Numbers that float32 can only hold as denormals are as good as zero here but cost a hundred
times as much, so every product is kept from producing one.
"""

import numpy as np

from maxplus._compile.intrinsics import exp32, fmax, fmin, use_widest_vectors
from maxplus._compile.jit import njit

# exp(±LIMIT) squared times a few thousand terms stays within float32's range.
LIMIT = 40.0
# Factors below this are left out, so that a product with exp(−LIMIT) is an ordinary number.
TINY = 1e-19
# Derivatives below this would square to next to nothing in Adam's memory.
ROOT = 1e-15

_LIMIT, _TINY, _ROOT = np.float32(LIMIT), np.float32(TINY), np.float32(ROOT)
_ZERO = np.float32(0.0)


@njit(cache=True)
def exp_all(x, factor, out):
    """out_i = exp(factor·x_i), exponents within ±LIMIT; O(size)."""
    use_widest_vectors()
    for i in range(x.size):
        out[i] = exp32(fmax(fmin(x[i] * factor, _LIMIT), -_LIMIT))


@njit(cache=True)
def _exp_inputs_row(x, W0, factor, out):
    use_widest_vectors()
    for p in range(x.size):
        scaled = x[p] * factor
        for i in (2 * p, 2 * p + 1):
            out[i] = exp32(fmax(fmin(W0[i] * scaled, _LIMIT), -_LIMIT))


@njit(cache=True)
def exp_inputs(X, W0, factor, out):
    """out[n, i] = exp(factor·W0[i]·x[i // 2]), exponents within ±LIMIT; O(n·P)."""
    for n in range(X.shape[0]):
        _exp_inputs_row(X[n], W0, factor, out[n])


@njit(cache=True)
def times(a, b):
    """Element by element b ← a·b; what is too small to be squared becomes 0; O(size)."""
    use_widest_vectors()
    for i in range(a.size):
        product = a[i] * (b[i] if abs(b[i]) > _TINY else _ZERO)
        b[i] = product if abs(product) > _ROOT else _ZERO
