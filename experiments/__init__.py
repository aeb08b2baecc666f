"""Experiments: the paper's tables and figures, and benchmarks.

``python -m experiments iris mnist`` runs experiments by name, from the root of the repository. Each
is a module with ``run(settings) -> Result``, listed in `experiments.harness`.
"""

from experiments.harness import BENCHMARKS, EXPERIMENTS, Experiment, Result, Settings, Table

__all__ = ["BENCHMARKS", "EXPERIMENTS", "Experiment", "Result", "Settings", "Table"]
