"""Figures, drawn from results; matplotlib is only imported when one is made."""

from maxplus.plots.comparison import plot_comparison
from maxplus.plots.confusion import plot_confusion
from maxplus.plots.convergence import plot_convergence
from maxplus.plots.histogram import plot_probabilities

__all__ = ["plot_comparison", "plot_confusion", "plot_convergence", "plot_probabilities"]
