"""Plots of models, explanations and metrics; Matplotlib is imported on first use."""

from maxplus.plots.explanation import plot_explanation, plot_importances
from maxplus.plots.quality import plot_certified_accuracy, plot_reliability
from maxplus.plots.shapes import plot_shape_functions
from maxplus.plots.training import plot_convergence, plot_search, plot_stages

__all__ = [
    "plot_certified_accuracy",
    "plot_convergence",
    "plot_explanation",
    "plot_importances",
    "plot_reliability",
    "plot_search",
    "plot_shape_functions",
    "plot_stages",
]
