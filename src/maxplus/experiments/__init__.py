"""The paper's experiments, as functions that return plain data."""

from maxplus.experiments.iris import IrisComparison, compare_on_iris

__all__ = ["IrisComparison", "compare_on_iris"]
