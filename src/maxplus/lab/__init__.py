"""The laboratory: the paper's tables and figures, and benchmarks, measured in one way."""

from maxplus.lab.finding import Finding, Settings, Table
from maxplus.lab.registry import BENCHMARKS, EXPERIMENTS, Experiment

__all__ = ["BENCHMARKS", "EXPERIMENTS", "Experiment", "Finding", "Settings", "Table"]
