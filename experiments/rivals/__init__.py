"""What LMM networks are compared with in the paper: a ReLU network, trained by Adam."""

from experiments.rivals.adam import AdamEngine
from experiments.rivals.mlp import MLP

__all__ = ["MLP", "AdamEngine"]
