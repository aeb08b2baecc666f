"""The networks: what they compute, their active paths and their sparse subgradients."""

from maxplus.models._softmax import LOG2
from maxplus.models.additive import AdditiveLMM
from maxplus.models.base import Entries, Model, Network, Subgradient
from maxplus.models.feature_map import FeatureMap
from maxplus.models.linear_max_plus import LinearMaxPlus
from maxplus.models.lmm import LMM, Term
from maxplus.models.zero_hidden import ZeroHidden

__all__ = [
    "LMM",
    "LOG2",
    "AdditiveLMM",
    "Entries",
    "FeatureMap",
    "LinearMaxPlus",
    "Model",
    "Network",
    "Subgradient",
    "Term",
    "ZeroHidden",
]
