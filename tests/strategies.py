"""Shared hypothesis strategies and settings.

Hypothesis draws the shape and a seed of an array, which is faster than drawing its elements.
Values are on a coarse grid, so that ties are frequent, and sums and products exact in float32.
"""

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

GRID = np.arange(-4, 5) / 2
# Below, at and above the 4 × 4 tiles of the products and their tasks of 32 rows.
SIZES = st.sampled_from([1, 2, 3, 4, 5, 7, 8, 9, 33])
SIZES_OR_ZERO = st.sampled_from([0, 1, 2, 3, 4, 5, 8, 33])
SEEDS = st.integers(0, 2**32 - 1)
DTYPES = st.sampled_from([np.float32, np.float64])
INFINITIES = st.sampled_from([(), (np.inf,), (-np.inf,), (np.inf, -np.inf)])


def quick(max_examples):
    """Return settings of a property test, without a deadline because kernels may be compiled."""
    return settings(max_examples=max_examples, deadline=None)


def grid_array(rng, shape, dtype=np.float64, infinities=()):
    """Return an array of grid values, about a tenth of which is replaced by each infinity."""
    array = rng.choice(GRID, size=shape)
    for infinity in infinities:
        array[rng.random(shape) < 0.1] = infinity
    return array.astype(dtype)


@st.composite
def operands(draw):
    """Draw operands A and B of a product: any shape, infinities or not, each dtype."""
    n, m, k = (draw(SIZES_OR_ZERO) for _ in range(3))
    rng = np.random.default_rng(draw(SEEDS))
    infinities = draw(INFINITIES)
    A = grid_array(rng, (n, m), draw(DTYPES), infinities)
    B = grid_array(rng, (m, k), draw(DTYPES), infinities)
    return A, B
