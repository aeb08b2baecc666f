"""What LMM networks are compared with in the paper: a ReLU network, trained by Adam."""

from maxplus.lab.rivals.adam import AdamEngine
from maxplus.lab.rivals.mlp import MLP

__all__ = ["MLP", "AdamEngine"]
