"""Networks with soft minima and maxima, and their annealed training."""

from maxplus.training.smooth.annealing import Adam, Annealing, AnnealingSchedule
from maxplus.training.smooth.soft_lmm import Rescaling, SoftLMM, SoftWeights

__all__ = ["Adam", "Annealing", "AnnealingSchedule", "Rescaling", "SoftLMM", "SoftWeights"]
