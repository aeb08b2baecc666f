"""Validation and comparison of models on held-out rows."""

from maxplus.evaluation.comparison import Comparison, compare, default_models
from maxplus.evaluation.splits import Splits, make_splits
from maxplus.evaluation.validation import Validation, validate

__all__ = [
    "Comparison",
    "Splits",
    "Validation",
    "compare",
    "default_models",
    "make_splits",
    "validate",
]
