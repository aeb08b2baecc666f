"""Settings, results, cache and registry of experiments."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from importlib import import_module
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from maxplus._files import write_whole
from maxplus.training.monitor import Callback

if TYPE_CHECKING:
    from matplotlib.figure import Figure

T = TypeVar("T")
Part = dict[str, NDArray]
Track = Callable[[Iterable[Any], str], Iterable[Any]]
# Opens the progress bar of a fit, given the name of the model.
Watch = Callable[[str], AbstractContextManager[Callback]]


def unwatched(name: str) -> AbstractContextManager[Callback]:
    """Return a callback context that shows no progress."""
    return nullcontext(lambda progress: None)


def _untracked(items: Iterable[T], text: str) -> Iterator[T]:
    yield from items


class Cache:
    """On-disk cache of intermediate results; without a folder, nothing is stored.

    Entries are identified by name only and remain valid when the code changes.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder

    def get(self, name: str, make: Callable[[], Part]) -> Part:
        """Return a cached entry, or compute and store it."""
        if self._folder is None:
            return make()
        path = self._folder / f"{name}.npz"
        stored = _read(path) if path.is_file() else None
        if stored is not None:
            return stored
        part = make()
        content = BytesIO()
        np.savez_compressed(content, **part)  # type: ignore[arg-type]
        self._folder.mkdir(parents=True, exist_ok=True)
        write_whole(path, content.getvalue())
        return part

    def get_json(self, name: str, make: Callable[[], Any]) -> Any:
        """Return a cached JSON document, or compute and store it."""
        part = self.get(name, lambda: {"json": np.array(json.dumps(make()))})
        return json.loads(str(part["json"]))

    def clear(self) -> None:
        """Remove all entries."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def _read(path: Path) -> Part | None:
    """Read a cache file; return None if it is damaged."""
    try:
        # np.load would not close a damaged file that is opened by its path.
        with np.load(BytesIO(path.read_bytes()), allow_pickle=False) as file:
            return dict(file)
    # Damaged files raise various types of errors.
    except Exception:
        return None


@dataclass(frozen=True)
class Settings:
    """Scale, progress display and cache of an experiment.

    Parameters
    ----------
    quick : bool
        Run at a reduced scale.
    seeds : int, optional
        Number of random repetitions; each experiment has its own default.
    track : callable
        Wraps an iterable, given a description, to show progress.
    watch : callable
        Opens the progress bar of a fit, given the name of the model.
    cache : Cache
        Cache of intermediate results.
    """

    quick: bool = False
    seeds: int | None = None
    track: Track = _untracked
    watch: Watch = unwatched
    cache: Cache = field(default_factory=Cache)

    def n_seeds(self, full: int, quick: int) -> int:
        """Return the number of seeds, or the default for this scale."""
        return self.seeds if self.seeds is not None else (quick if self.quick else full)


@dataclass(frozen=True)
class Table:
    """Table with a caption."""

    caption: str
    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]


@dataclass(frozen=True)
class Result:
    """Result of one experiment.

    Parameters
    ----------
    title : str
    text : str
        Description of the results, in Markdown.
    tables : list of Table
    values : dict
        All results, as JSON types.
    figures : dict of matplotlib Figures by name
    scale : str
        Description of the reduced scale, if any.
    seconds : float, optional
        Duration, set by `Experiment.run`.
    machine : dict
        Processor, load and versions, set by `Experiment.run`.
    """

    title: str
    text: str
    tables: list[Table]
    values: dict[str, Any]
    figures: dict[str, Figure] = field(default_factory=dict)
    scale: str = ""
    seconds: float | None = None
    machine: dict[str, Any] = field(default_factory=dict)


def mean_and_spread(values: Iterable[float], digits: int = 3, factor: float = 1.0) -> str:
    """Format the mean and, for several values, the standard deviation."""
    numbers = factor * np.array(list(values), float)
    if numbers.size == 1:
        return f"{numbers[0]:.{digits}f}"
    return f"{numbers.mean():.{digits}f} ± {numbers.std(ddof=1):.{digits}f}"


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

        self.require()
        module = import_module(f"experiments.{self.name.replace('-', '_')}")
        facts = machine_facts(*self.needs, *self.uses)
        with warnings.catch_warnings():
            # Experiments include fits that do not converge.
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.simplefilter("ignore", NoEffectWarning)
            seconds, result = timed(module.run, settings)
        return replace(result, seconds=seconds, machine=facts)


def _by_name(*experiments: Experiment) -> dict[str, Experiment]:
    return {experiment.name: experiment for experiment in experiments}


# Experiments of the paper, and this library's default methods on the same data.
EXPERIMENTS = _by_name(
    Experiment("iris", "MLP against LMM on Iris, two tables and training times"),
    Experiment("init", "structured against random initialisation on Iris"),
    Experiment("sparsity", "how many weights a subgradient touches, on MNIST"),
    Experiment("zero-hidden", "the plateau of the model without hidden layers"),
    Experiment("mnist", "MLP against LMM on MNIST, convergence and confusion"),
    Experiment("timing", "seconds per iteration and memory of all engines, and their growth"),
    Experiment("approximation", "the theorem's error bound 2Kδ"),
    Experiment("certificate", "when the maximum loss falls below log 2"),
    Experiment("noise", "wrong labels: the maximum, the trimmed maximum, top-k, the mean"),
    Experiment("quality", "accuracy and certificates of the library's own recipes on images"),
    Experiment("regression", "R² and intervals on noisy data, beside scikit-learn's models"),
)
BENCHMARKS = _by_name(
    Experiment("products", "min-plus and max-plus products against others", ("tropical-gemm",)),
    Experiment("long-run", "200,000 sparse iterations on MNIST, checked by dense ones"),
    Experiment("first-use", "CPU time of the first calls, when no compiled kernel is cached"),
    Experiment("million", "time and memory with a million images"),
    Experiment("mpi", "exact training over several processes: equality and speed", ("mpi4py",)),
    Experiment(
        "tables",
        "the default on a folder of tables against scikit-learn's and boosted models",
        uses=("xgboost", "xgboost-cpu", "lightgbm", "catboost", "interpret-core"),
    ),
    Experiment(
        "robust",
        "certified errors on tables and images, beside those of robust trees",
        uses=("groot-trees",),
    ),
)
