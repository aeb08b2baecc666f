"""Max-plus and min-plus algebra: the products every model is built from."""

from maxplus.algebra.products import maxplus, minplus, morphological_perceptron

__all__ = ["maxplus", "minplus", "morphological_perceptron"]
