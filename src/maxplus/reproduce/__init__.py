"""The paper's tables and figures, measured again: one experiment a file, one report for all."""

from maxplus.reproduce.finding import Finding, Settings, Table
from maxplus.reproduce.registry import EXPERIMENTS, Experiment

__all__ = ["EXPERIMENTS", "Experiment", "Finding", "Settings", "Table"]
