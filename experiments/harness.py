"""Settings, results, cache and registry of experiments."""

from __future__ import annotations

import os
import pickle
import shutil
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from maxplus import datasets
from maxplus._files import write_atomically
from maxplus.datasets import DataNotFoundError
from maxplus.plots._style import new_figure, style_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
else:
    # Matplotlib is imported when a figure is drawn.
    Axes = Figure = Any

T = TypeVar("T")
Track = Callable[[Iterable[Any], str], Iterable[Any]]


class Cache:
    """On-disk cache of intermediate results; without a folder, nothing is stored.

    Entries are identified by name only and remain valid when the code changes.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder

    def get(self, name: str, make: Callable[[], T]) -> T:
        """Return a cached entry, or compute and store it."""
        if self._folder is None:
            return make()
        path = self._folder / f"{name}.pickle"
        try:
            return pickle.loads(path.read_bytes())
        # The file is missing, or damaged, which raises various types of errors.
        except Exception:
            value = make()
        self._folder.mkdir(parents=True, exist_ok=True)
        write_atomically(path, pickle.dumps(value))
        return value

    def clear(self) -> None:
        """Remove all entries."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


@dataclass(frozen=True)
class Settings:
    """Scale, progress display and cache of an experiment.

    ``track`` wraps an iterable, given a description, to show progress.
    """

    quick: bool = False
    track: Track = lambda items, text: items
    cache: Cache = field(default_factory=Cache)

    def pick(self, full: T, quick: T) -> T:
        """Return the value for the scale of the run."""
        return quick if self.quick else full

    def runs(
        self, make: Callable[[str, int], T], seeds: Mapping[str, int], text: str
    ) -> dict[str, list[T]]:
        """Return cached results of ``make(name, seed)``, given the number of seeds of each name."""
        results: dict[str, list[T]] = {name: [] for name in seeds}
        pairs = [(name, seed) for name, n in seeds.items() for seed in range(n)]
        for name, seed in self.track(pairs, text):
            results[name].append(self.cache.get(f"{name} {seed}", partial(make, name, seed)))
        return results


@dataclass(frozen=True)
class Table:
    """Table with a caption."""

    caption: str
    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]

    @classmethod
    def from_records(
        cls, caption: str, records: Iterable[Mapping[str, Any]], columns: Mapping[str, str]
    ) -> Table:
        """Return a table of records, given the name of a field or a format of each column."""
        forms = list(columns.values())
        rows = [
            tuple(record[form] if form in record else form.format(**record) for form in forms)
            for record in records
        ]
        return cls(caption, tuple(columns), rows)


@dataclass(frozen=True)
class Result:
    """Markdown text, tables, values as JSON types, and figures by name, of one experiment.

    ``scale`` describes the reduced scale. `Experiment.run` sets the duration and the machine.
    """

    title: str
    text: str
    tables: list[Table]
    values: dict[str, Any]
    figures: dict[str, Figure] = field(default_factory=dict)
    scale: str = ""
    seconds: float | None = None
    machine: dict[str, Any] = field(default_factory=dict)


class Split(NamedTuple):
    """Training and test samples, with classes 0..C−1."""

    X_train: NDArray
    y_train: NDArray
    X_test: NDArray
    y_test: NDArray


def load_images(name: str, n: int | None = None) -> Split:
    """Return the training and the test images of a data set, by default all of them."""
    return Split(*(part[:n] for part in getattr(datasets, f"load_{name}")()))


def data_folder(variable: str, name: str, content: str) -> Path:
    """Return the folder in an environment variable, or the folder ``name`` in MAXPLUS_DATA."""
    chosen, data = os.environ.get(variable), os.environ.get("MAXPLUS_DATA")
    if not (chosen or data):
        raise DataNotFoundError(
            f"this experiment needs a folder of {content}: name it in the environment variable "
            f"{variable}, or put it into the folder of MAXPLUS_DATA under the name {name!r}"
        )
    folder = Path(chosen) if chosen else Path(str(data), name)
    if not folder.is_dir():
        source = f"{variable}={chosen}" if chosen else f"MAXPLUS_DATA={data}"
        raise DataNotFoundError(f"{source}: {folder} is not a folder; name a folder of {content}")
    return folder


def axes(width: float, height: float, title: str, **properties: Any) -> tuple[Figure, Axes]:
    """Return a figure with one panel, and the panel with a title and further properties."""
    figure, (ax,) = panels(width, height, [title])
    ax.set(**properties)
    return figure, ax


def panels(
    width: float, height: float, titles: Sequence[str], **options: Any
) -> tuple[Figure, Sequence[Axes]]:
    """Return a figure with a row of panels, and the panels with their titles."""
    figure = new_figure(width, height)
    row = figure.subplots(1, len(titles), squeeze=False, **options)[0]
    for ax, title in zip(row, titles, strict=True):
        style_axes(ax, title)
    return figure, row


def mean_and_spread(values: Iterable[float], digits: int = 3) -> str:
    """Format the mean and, for several values, the standard deviation."""
    array = np.array(list(values), float)
    spread = f" ± {array.std(ddof=1):.{digits}f}" if array.size > 1 else ""
    return f"{array.mean():.{digits}f}{spread}"


class Experiment(NamedTuple):
    """Name, summary, and required and optional packages of an experiment."""

    name: str
    summary: str
    needs: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()

    def require(self) -> None:
        """Raise `ImportError` if a package is missing."""
        missing = [name for name in self.needs if find_spec(name.replace("-", "_")) is None]
        if missing:
            raise ImportError(
                f"{self.name} needs {' and '.join(missing)}: pip install 'maxplus[bench]'"
            )

    def run(self, settings: Settings) -> Result:
        """Run the experiment and record its duration and environment."""
        from sklearn.exceptions import ConvergenceWarning

        from experiments.measure import machine_facts, timed
        from maxplus.estimators import NoEffectWarning

        module = import_module(f"experiments.{self.name.replace('-', '_')}")
        facts = machine_facts(*self.needs, *self.uses)
        with warnings.catch_warnings():
            # Experiments include fits that do not converge.
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.simplefilter("ignore", NoEffectWarning)
            seconds, result = timed(module.run, settings)
        scale = result.scale if settings.quick else ""
        return replace(result, scale=scale, seconds=seconds, machine=facts)


def _by_name(*experiments: Experiment) -> dict[str, Experiment]:
    return {experiment.name: experiment for experiment in experiments}


# Experiments of the paper, and the default estimators on images, noisy labels and regression.
EXPERIMENTS = _by_name(
    Experiment("iris", "MLP and LMM on Iris: losses, accuracies and training times"),
    Experiment("init", "structured and random initialisation on Iris"),
    Experiment("sparsity", "fraction of nonzero entries of subgradients on MNIST"),
    Experiment("zero-hidden", "maximum loss of the model without hidden layers on MNIST"),
    Experiment("mnist", "MLP and LMM on MNIST: convergence and confusion matrix"),
    Experiment("timing", "time per iteration and memory of all engines by problem size"),
    Experiment("approximation", "error of the approximation theorem and its bound 2Kδ"),
    Experiment("certificate", "first iteration with a maximum loss below log 2"),
    Experiment("noise", "objectives and estimators with wrong labels"),
    Experiment("quality", "accuracy and certificates on images"),
    Experiment("regression", "R² and prediction intervals, compared with scikit-learn"),
)
BENCHMARKS = _by_name(
    Experiment("products", "speed of min-plus and max-plus products", ("tropical-gemm",)),
    Experiment("long-run", "200,000 sparse iterations on MNIST, verified by dense ones"),
    Experiment("first-use", "CPU time of the first calls without cached kernels"),
    Experiment("million", "time and memory of training on a million images"),
    Experiment("mpi", "training on several MPI ranks: equality and speed", ("mpi4py",)),
    Experiment(
        "tables",
        "classifiers with default parameters on a folder of tables",
        uses=("xgboost", "xgboost-cpu", "lightgbm", "catboost", "interpret-core"),
    ),
    Experiment("robust", "certified errors on tables and images, compared with robust trees"),
)
