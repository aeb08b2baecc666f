"""The soft model: minima and maxima that have gradients, and how they are followed."""

from maxplus.training.smooth.adam import Adam
from maxplus.training.smooth.rescaling import Rescaling
from maxplus.training.smooth.soft_lmm import SoftLMM
from maxplus.training.smooth.soft_weights import SoftWeights

__all__ = ["Adam", "Rescaling", "SoftLMM", "SoftWeights"]
