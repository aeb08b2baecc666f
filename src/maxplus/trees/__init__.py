"""Short Computational Trees: maxima and minima that are updated in O(log n)."""

from maxplus.trees.short_trees import ShortComputationalForest, ShortComputationalTree

__all__ = ["ShortComputationalForest", "ShortComputationalTree"]
