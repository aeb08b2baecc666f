"""Max-plus and min-plus algebra: the products every model is built from."""

from maxplus.algebra.perceptron import morphological_perceptron
from maxplus.algebra.products import maxplus, minplus

__all__ = ["maxplus", "minplus", "morphological_perceptron"]
