"""Figures, drawn from results; matplotlib is only imported when one is made."""

from maxplus.plots.certified import plot_certified_accuracy
from maxplus.plots.comparison import plot_comparison
from maxplus.plots.confusion import plot_confusion
from maxplus.plots.convergence import plot_convergence
from maxplus.plots.explanation import plot_explanation
from maxplus.plots.histogram import plot_probabilities
from maxplus.plots.importances import plot_importances
from maxplus.plots.predictions import plot_predictions
from maxplus.plots.reliability import plot_reliability
from maxplus.plots.scaling import plot_scaling
from maxplus.plots.search import plot_search
from maxplus.plots.shapes import plot_shape_functions
from maxplus.plots.stages import plot_stages

__all__ = [
    "plot_certified_accuracy",
    "plot_comparison",
    "plot_confusion",
    "plot_convergence",
    "plot_explanation",
    "plot_importances",
    "plot_predictions",
    "plot_probabilities",
    "plot_reliability",
    "plot_scaling",
    "plot_search",
    "plot_shape_functions",
    "plot_stages",
]
