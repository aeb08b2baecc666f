"""Experiments: the paper's tables and figures, and benchmarks.

``python -m experiments iris mnist`` runs experiments by name, from the root of the repository. Each
is a module with ``run(settings) -> Finding``, listed in `experiments.registry`.
"""

from experiments.finding import Finding, Settings, Table
from experiments.registry import BENCHMARKS, EXPERIMENTS, Experiment

__all__ = ["BENCHMARKS", "EXPERIMENTS", "Experiment", "Finding", "Settings", "Table"]
