"""Experiments: the paper's tables and figures, and benchmarks.

Run ``python -m experiments iris mnist`` from the root of the repository. Every experiment is a
module with a function ``run(settings) -> Result`` and is listed in `experiments.harness`.
"""

from experiments.harness import BENCHMARKS, EXPERIMENTS, Experiment, Result, Settings, Table

__all__ = ["BENCHMARKS", "EXPERIMENTS", "Experiment", "Result", "Settings", "Table"]
