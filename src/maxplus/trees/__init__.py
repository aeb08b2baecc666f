"""Short Computational Trees: maxima and minima that are cheap to keep up to date."""

from maxplus.trees.forest import ShortComputationalForest
from maxplus.trees.tree import ShortComputationalTree

__all__ = ["ShortComputationalForest", "ShortComputationalTree"]
