"""Validation and comparison of models on held-out rows."""

from maxplus.evaluation.comparison import Comparison, compare, usual_models
from maxplus.evaluation.splits import Splits, make_splits
from maxplus.evaluation.validation import Validation, validate

__all__ = [
    "Comparison",
    "Splits",
    "Validation",
    "compare",
    "make_splits",
    "usual_models",
    "validate",
]
