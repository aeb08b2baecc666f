"""Explanations of predictions: contributions, active units, counterfactuals and rules.

In shapes and costs, N is the number of samples, P of features, C of classes, H of hidden units, T
of terms and G of groups of columns. Term t has m_t features and H_t units.
"""

from maxplus.explain.changes import Change, smallest_change
from maxplus.explain.contributions import (
    Contributions,
    PredictionContributions,
    ShapeFunction,
    contributions,
    prediction_contributions,
    shape_function,
    term_means,
)
from maxplus.explain.counterfactuals import Counterfactuals, nearest_counterfactuals
from maxplus.explain.domain import Domain, OneHotGroup
from maxplus.explain.explanation import Explanation, explain_predictions
from maxplus.explain.importances import feature_importances
from maxplus.explain.rules import Rule, Rules, strongest_rules
from maxplus.explain.units import Boxes, Paths, active_paths, term_boxes, unit_boxes

__all__ = [
    "Boxes",
    "Change",
    "Contributions",
    "Counterfactuals",
    "Domain",
    "Explanation",
    "OneHotGroup",
    "Paths",
    "PredictionContributions",
    "Rule",
    "Rules",
    "ShapeFunction",
    "active_paths",
    "contributions",
    "explain_predictions",
    "feature_importances",
    "nearest_counterfactuals",
    "prediction_contributions",
    "shape_function",
    "smallest_change",
    "strongest_rules",
    "term_boxes",
    "term_means",
    "unit_boxes",
]
