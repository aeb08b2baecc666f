"""What LMM networks are compared with: a ReLU network, trained by Adam; scikit-learn's models."""

from maxplus.lab.rivals.adam import AdamEngine
from maxplus.lab.rivals.mlp import MLP
from maxplus.lab.rivals.peers import PEERS

__all__ = ["MLP", "PEERS", "AdamEngine"]
