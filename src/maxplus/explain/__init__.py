"""Explanations: what decided each score, what would change it, and what each unit is."""

from maxplus.explain.committee import CommitteeExplanation, explain_committee
from maxplus.explain.explanation import Explanation
from maxplus.explain.flips import Flips, single_feature_flips
from maxplus.explain.paths import Paths, decisive_paths
from maxplus.explain.units import Boxes, unit_boxes

__all__ = [
    "Boxes",
    "CommitteeExplanation",
    "Explanation",
    "Flips",
    "Paths",
    "decisive_paths",
    "explain_committee",
    "single_feature_flips",
    "unit_boxes",
]
