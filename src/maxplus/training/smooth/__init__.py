"""A smoothed warm start: soft minima and maxima, annealed towards the hard ones."""

from maxplus.training.smooth.trainer import Annealing, SmoothResult, smooth_train

__all__ = ["Annealing", "SmoothResult", "smooth_train"]
