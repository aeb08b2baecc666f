"""Which engine is done first, if kernels have yet to be compiled."""

from __future__ import annotations

from maxplus._compile.jit import is_compiled
from maxplus.training.engines.base import Engine
from maxplus.training.engines.dense import DenseEngine
from maxplus.training.engines.sparse import SparseEngine
from maxplus.training.engines.sparse._block import sparse_block

# Of a dense iteration on one core: calls from Python, and each sum of its forward pass.
SECONDS_PER_ITERATION, SECONDS_PER_SUM = 1e-4, 2e-10
# The sparse engine takes many times as long to compile.
SOON = 2.0


def sparse_unless_dense_is_sooner(n_sums: int, iterations: int) -> type[Engine]:
    """The sparse engine; a small training is dense as long as nobody has compiled that one.

    Both give the same iterates, to the last bit.

    Parameters
    ----------
    n_sums : of a forward pass, N·2P·H
    iterations : how many there will be
    """
    seconds = iterations * (SECONDS_PER_ITERATION + SECONDS_PER_SUM * n_sums)
    return DenseEngine if seconds < SOON and not is_compiled(sparse_block) else SparseEngine
