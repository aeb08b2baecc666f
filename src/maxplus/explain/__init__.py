"""Explanations: what decided each score, what would change it, and what each unit is."""

from maxplus.explain.changes import Change, smallest_change
from maxplus.explain.committee import CommitteeExplanation, explain_committee
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
    "Domain",
    "Explanation",
    "Flips",
    "Paths",
    "Rule",
    "Rules",
    "decisive_paths",
    "explain_committee",
    "feature_importances",
    "single_feature_flips",
    "single_flips",
    "smallest_change",
    "strongest_rules",
    "unit_boxes",
]
