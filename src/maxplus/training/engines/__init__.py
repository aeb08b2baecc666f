"""Engines: implementations of the training iterations.

The dense, tree and sparse engines give bit-identical iterates for the objectives that they share.
The SGD engine minimises the mean loss.
"""

from maxplus.training.engines.base import Engine
from maxplus.training.engines.dense import DenseEngine
from maxplus.training.engines.sgd import SGDEngine
from maxplus.training.engines.sparse import SparseEngine
from maxplus.training.engines.tree import TreeEngine

ENGINES: dict[str, type[Engine]] = {
    engine.name: engine for engine in (DenseEngine, TreeEngine, SparseEngine, SGDEngine)
}

# Duration of a dense iteration on one core, in seconds: a constant, plus a cost per sum of its
# forward pass.
SECONDS_PER_ITERATION, SECONDS_PER_SUM = 1e-4, 2e-10
# Maximum estimated duration in seconds for which the dense engine is selected; the sparse engine
# takes longer to compile.
DENSE_SECONDS = 2.0


def select_engine(n_sums: int, iterations: int) -> type[Engine]:
    """Return the dense engine for small problems and the sparse engine for large ones.

    Both give bit-identical iterates. The choice depends on the problem size only, so that the same
    call selects the same engine on every machine.

    Parameters
    ----------
    n_sums : sums of a forward pass, N·2P·H
    iterations : planned number of iterations
    """
    seconds = iterations * (SECONDS_PER_ITERATION + SECONDS_PER_SUM * n_sums)
    return DenseEngine if seconds < DENSE_SECONDS else SparseEngine


__all__ = ["ENGINES", "DenseEngine", "Engine", "SGDEngine", "SparseEngine", "TreeEngine"]
