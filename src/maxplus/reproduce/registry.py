"""The experiments by name; each module is imported when it is run."""

from __future__ import annotations

import time
from dataclasses import replace
from importlib import import_module
from typing import NamedTuple

from maxplus.reproduce.finding import Finding, Settings


class Experiment(NamedTuple):
    """An experiment's name, its module in this package, and what it shows in a line."""

    name: str
    module: str
    summary: str

    def run(self, settings: Settings) -> Finding:
        """Carry it out, and note the seconds."""
        module = import_module(f"maxplus.reproduce.{self.module}")
        began = time.perf_counter()
        finding: Finding = module.run(settings)
        return replace(finding, seconds=time.perf_counter() - began)


EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        Experiment("iris", "iris", "MLP against LMM on Iris, two tables and training times"),
        Experiment("init", "init", "structured against random initialisation on Iris"),
        Experiment("sparsity", "sparsity", "how many weights a subgradient touches, on MNIST"),
        Experiment("zero-hidden", "zero_hidden", "the plateau of the model without hidden layers"),
        Experiment("mnist", "mnist", "MLP against LMM on MNIST, convergence and confusion"),
        Experiment("timing", "timing", "seconds per iteration and memory of all engines"),
        Experiment("approximation", "approximation", "the theorem's error bound 2Kδ"),
        Experiment("certificate", "certificate", "when the maximum loss falls below log 2"),
        Experiment("noise", "noise", "wrong labels: the maximum, the k worst, the mean"),
        Experiment("quality", "quality", "what the library's own recipes reach"),
    )
}
