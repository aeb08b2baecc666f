"""Explanations: what decided each score, what would change it, and what each unit is."""

from maxplus.explain.changes import Change, smallest_change
from maxplus.explain.committee import CommitteeExplanation, explain_committee
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
from maxplus.explain.rules import Rule, Rules, strongest_rules
from maxplus.explain.units import Boxes, unit_boxes

__all__ = [
    "Boxes",
    "Category",
    "Change",
    "CommitteeExplanation",
    "Contributions",
    "Domain",
    "Explanation",
    "Flips",
    "Paths",
    "Rule",
    "Rules",
    "ShapeFunction",
    "contributions",
    "decisive_paths",
    "explain_committee",
    "feature_importances",
    "shape_function",
    "single_feature_flips",
    "single_flips",
    "smallest_change",
    "strongest_rules",
    "term_means",
    "unit_boxes",
]
