"""Engines: ways to carry out the same iterations. All give the same iterates."""

from maxplus.training.engines.base import Engine
from maxplus.training.engines.dense import DenseEngine
from maxplus.training.engines.sgd import SGDEngine
from maxplus.training.engines.sparse import SparseEngine
from maxplus.training.engines.tree import TreeEngine

ENGINES: dict[str, type[Engine]] = {
    engine.name: engine for engine in (DenseEngine, TreeEngine, SparseEngine, SGDEngine)
}

__all__ = ["ENGINES", "DenseEngine", "Engine", "SGDEngine", "SparseEngine", "TreeEngine"]
