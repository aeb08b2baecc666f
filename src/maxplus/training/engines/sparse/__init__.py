"""The sparse engine: the dense engine's iterates at the cost of what changed."""

from maxplus.training.engines.sparse.engine import SparseEngine

__all__ = ["SparseEngine"]
