"""The soft model: minima and maxima that have gradients, and how they are followed."""

from maxplus.training.smooth.adam import Adam
from maxplus.training.smooth.rescaling import Rescaling
from maxplus.training.smooth.soft_lmm import SoftGradient, SoftLMM
from maxplus.training.smooth.soft_regression import CurveGradient, SoftRegression

__all__ = ["Adam", "CurveGradient", "Rescaling", "SoftGradient", "SoftLMM", "SoftRegression"]
