"""Networks: scores, active paths and sparse subgradients."""

from maxplus.models._softmax import LOG2
from maxplus.models.additive import AdditiveLMM
from maxplus.models.base import Model, Network, SparseUpdate, Subgradient
from maxplus.models.feature_map import FeatureMap
from maxplus.models.lmm import LMM, Term
from maxplus.models.max_plus import LinearMaxPlus, ZeroHidden

__all__ = [
    "LMM",
    "LOG2",
    "AdditiveLMM",
    "FeatureMap",
    "LinearMaxPlus",
    "Model",
    "Network",
    "SparseUpdate",
    "Subgradient",
    "Term",
    "ZeroHidden",
]
