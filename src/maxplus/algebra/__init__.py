"""Products of max-plus and min-plus algebra, on which all models are based."""

from maxplus.algebra.products import maxplus, minplus, morphological_perceptron

__all__ = ["maxplus", "minplus", "morphological_perceptron"]
