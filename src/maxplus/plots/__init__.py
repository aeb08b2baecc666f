"""Figures, drawn from results; matplotlib is only imported when one is made."""

from maxplus.plots.comparison import plot_comparison
from maxplus.plots.convergence import plot_convergence

__all__ = ["plot_comparison", "plot_convergence"]
