"""Explanations: what decided each score, what would change it, and what each unit is."""

from maxplus.explain.additive import AdditiveExplanation, explain_additive
from maxplus.explain.changes import Change, smallest_change
from maxplus.explain.contributions import (
    Contributions,
    ShapeFunction,
    contributions,
    shape_function,
    term_means,
)
from maxplus.explain.domain import Category, Domain
from maxplus.explain.explanation import Explanation
from maxplus.explain.flips import Flips, single_feature_flips, single_flips
from maxplus.explain.importances import feature_importances
from maxplus.explain.paths import Paths, decisive_paths
from maxplus.explain.regression import PredictionContributions, prediction_contributions
from maxplus.explain.rules import Rule, Rules, strongest_rules
from maxplus.explain.units import Boxes, term_boxes, unit_boxes

__all__ = [
    "AdditiveExplanation",
    "Boxes",
    "Category",
    "Change",
    "Contributions",
    "Domain",
    "Explanation",
    "Flips",
    "Paths",
    "PredictionContributions",
    "Rule",
    "Rules",
    "ShapeFunction",
    "contributions",
    "decisive_paths",
    "explain_additive",
    "feature_importances",
    "prediction_contributions",
    "shape_function",
    "single_feature_flips",
    "single_flips",
    "smallest_change",
    "strongest_rules",
    "term_boxes",
    "term_means",
    "unit_boxes",
]
