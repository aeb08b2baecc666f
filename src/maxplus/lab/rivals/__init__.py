"""What LMM networks are compared with: a ReLU network, trained by Adam; scikit-learn's models."""

from maxplus.evaluation.peers import PEERS
from maxplus.lab.rivals.adam import AdamEngine
from maxplus.lab.rivals.mlp import MLP

__all__ = ["MLP", "PEERS", "AdamEngine"]
