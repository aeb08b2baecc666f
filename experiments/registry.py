"""The experiments by name; each module is imported when it is run."""

from __future__ import annotations

import warnings
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from typing import NamedTuple

from experiments.boosting_peers import DISTRIBUTIONS
from experiments.finding import Finding, Settings


class Experiment(NamedTuple):
    """An experiment's name, what it shows in a line, and the packages it requires or can use."""

    name: str
    summary: str
    needs: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()

    def require(self) -> None:
        """Raise `ImportError` where a package is missing."""
        missing = [name for name in self.needs if find_spec(name.replace("-", "_")) is None]
        if missing:
            raise ImportError(
                f"{self.name} needs {' and '.join(missing)}: pip install 'maxplus[bench]'"
            )

    def run(self, settings: Settings) -> Finding:
        """Carry it out; note the seconds, and the machine as it was before."""
        from sklearn.exceptions import ConvergenceWarning

        from experiments.measure import machine_facts, timed
        from maxplus.estimators import NoEffectWarning

        self.require()
        module = import_module(f"experiments.{self.name.replace('-', '_')}")
        facts = machine_facts(*self.needs, *self.uses)
        with warnings.catch_warnings():
            # What falls short, and what comes to nothing, is among what is measured.
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.simplefilter("ignore", NoEffectWarning)
            seconds, finding = timed(module.run, settings)
        return replace(finding, seconds=seconds, machine=facts)


def _by_name(*experiments: Experiment) -> dict[str, Experiment]:
    return {experiment.name: experiment for experiment in experiments}


# The paper's tables and figures, and what the library's own recipes do on the same data.
EXPERIMENTS = _by_name(
    Experiment("iris", "MLP against LMM on Iris, two tables and training times"),
    Experiment("init", "structured against random initialisation on Iris"),
    Experiment("sparsity", "how many weights a subgradient touches, on MNIST"),
    Experiment("zero-hidden", "the plateau of the model without hidden layers"),
    Experiment("mnist", "MLP against LMM on MNIST, convergence and confusion"),
    Experiment("timing", "seconds per iteration and memory of all engines, and their growth"),
    Experiment("approximation", "the theorem's error bound 2Kδ"),
    Experiment("certificate", "when the maximum loss falls below log 2"),
    Experiment("noise", "wrong labels: the maximum, the k worst, the mean"),
    Experiment("quality", "what the library's own recipes reach"),
    Experiment("regression", "R² and intervals on noisy data, with scikit-learn beside it"),
)
BENCHMARKS = _by_name(
    Experiment("products", "min-plus and max-plus products against others", ("tropical-gemm",)),
    Experiment("iris-torch", "training on Iris against PyTorch's MLP", ("torch",)),
    Experiment("long-run", "200,000 sparse iterations on MNIST, checked by dense ones"),
    Experiment("million", "time and memory with a million images"),
    Experiment(
        "mpi", "exact training over several processes: equality, speed, memory", ("mpi4py",)
    ),
    Experiment("answers", "predictions of a million rows beside the forward kernel"),
    Experiment("streams", "ten million rows of a CSV file predicted and certified"),
    Experiment(
        "tables",
        "the default on a folder of tables against scikit-learn's and boosted models",
        uses=DISTRIBUTIONS,
    ),
    Experiment("raw-tables", "the default on raw features of six tables, 70 % of rows to train"),
    Experiment("first-use", "processor time where no kernel has been compiled yet"),
)
