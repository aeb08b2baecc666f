"""The sparse engine: the iterates of the dense engine, computed with bounds."""

from maxplus.training.engines.sparse.engine import SparseEngine

__all__ = ["SparseEngine"]
