"""How good models are on rows that they have not seen: one model, or several side by side."""

from maxplus.evaluation.comparison import Comparison, compare, usual_models
from maxplus.evaluation.plans import Plan, plan_for
from maxplus.evaluation.rows import ArrayRows, TableRows, as_rows
from maxplus.evaluation.validation import Validation, validate

__all__ = [
    "ArrayRows",
    "Comparison",
    "Plan",
    "TableRows",
    "Validation",
    "as_rows",
    "compare",
    "plan_for",
    "usual_models",
    "validate",
]
