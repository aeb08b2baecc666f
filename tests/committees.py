"""Small committees, and what the tests of committees share."""

import numpy as np
from hypothesis import strategies as st

from maxplus.models import LMM, Committee
from strategies import DTYPES, SEEDS, grid_array

QUICK = {"n_hidden": 9, "warmup_epochs": 3, "random_state": 0}
WORDS = np.array(["setosa", "versicolor", "virginica"])


def random_lmm(rng, P, H, C, M=None, dtype=np.float64, values=None):
    """Weights on a grid, so that sums are exact, or any; M directions, if a number is given."""
    draw = grid_array if values is None else values
    D = None if M is None else draw(rng, (M, P)).astype(dtype)
    rows = 2 * (P if M is None else M)
    W0, W1, W2 = (draw(rng, shape).astype(dtype) for shape in ((rows,), (rows, H), (H, C)))
    return LMM(W0, W1, W2, D)


@st.composite
def committees(draw, most=4):
    """Small committees whose members see features, or directions of their own, and some rows."""
    P, C, N, K = (draw(st.integers(low, most)) for low in (1, 2, 1, 1))
    rng = np.random.default_rng(draw(SEEDS))
    values = draw(st.sampled_from([grid_array, lambda rng, shape: rng.normal(size=shape)]))
    dtype = draw(DTYPES)
    members = [
        random_lmm(
            rng, P, draw(st.integers(1, 4)), C, draw(st.sampled_from([None, 1, 3])), dtype, values
        )
        for _ in range(K)
    ]  # fmt: skip
    return Committee(members), values(rng, (N, P)).astype(dtype)
