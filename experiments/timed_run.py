"""What is timed: engines at sizes, each by its seconds per iteration and its peak memory."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from experiments import limits, measure, paper
from maxplus.algebra import minplus
from maxplus.models import LMM
from maxplus.training import MaxLoss, MeanLoss, TrainingProblem, polyak
from maxplus.training.engines import SGDEngine, TreeEngine

# Features and classes of MNIST; how often W⁰ moves.
N_FEATURES, N_CLASSES, ALWAYS, SELDOM = 784, 10, 1, paper.LINEAR_EVERY
TREE_LIMIT = 8_000_000_000


@dataclass(frozen=True)
class TimedRun:
    """What is timed: ``iterations`` Polyak steps, then as many constant ones."""

    engine: str
    samples: int
    hidden: int
    w0_update_interval: int
    iterations: int

    def measure(self, X: NDArray, y: NDArray) -> dict[str, Any]:
        """Seconds per iteration of both phases, of setting up, and the peak memory in bytes."""
        steps = paper.two_phases(y, 1 + self.iterations)
        set_up, engine = measure.timed(
            paper.engine_on, X, y, steps, self.engine, self.hidden, self.w0_update_interval
        )
        measure.warm_up(engine)
        seconds = {
            phase: measure.seconds_per_iteration(engine, self.iterations)
            for phase in ("polyak", "constant")
        }
        return asdict(self) | seconds | {"set_up": set_up, "peak": measure.peak_bytes()}


class Variant(NamedTuple):
    """An engine, how often W⁰ moves, and what to time and draw it with."""

    engine: str
    w0_update_interval: int
    iterations: int
    colour: str
    line: str

    @property
    def name(self) -> str:
        """As the paper's table calls it."""
        return self.engine + (", W⁰ every 100" if self.w0_update_interval == SELDOM else "")


class Sizes(NamedTuple):
    """What is measured: growth with the images at ``n_hidden`` units, and with the units."""

    samples: tuple[int, ...]
    hidden: tuple[int, ...]
    n_hidden: int

    @property
    def full(self) -> int:
        """All images."""
        return self.samples[-1]

    @property
    def together(self) -> int:
        """The most images whose trees fit: all engines can be compared there."""
        return bisect_right(
            range(1, self.full + 1), TREE_LIMIT, key=lambda n: tree_bytes(n, self.n_hidden)
        )

    def growth_in_units_at(self, engine: str) -> int:
        """How many images growth with the units is measured at."""
        return self.together if engine == "tree" else self.full

    def runs_of(self, variant: Variant) -> list[TimedRun]:
        """All that fit, each once."""
        at = self.growth_in_units_at(variant.engine)
        pairs = [(n, self.n_hidden) for n in (*self.samples, self.together)]
        pairs += [(at, h) for h in self.hidden]
        return [
            TimedRun(variant.engine, n, h, variant.w0_update_interval, variant.iterations)
            for n, h in dict.fromkeys(pairs)
            if variant.engine != "tree" or tree_bytes(n, h) <= TREE_LIMIT
        ]


def tree_bytes(n: int, n_hidden: int) -> int:
    """What the tree engine needs for n images."""
    rows, dtype = 2 * N_FEATURES, np.float32
    shapes: tuple[tuple[int, ...], ...] = ((rows,), (rows, n_hidden), (n_hidden, N_CLASSES))
    model = LMM(*(np.empty(shape, dtype) for shape in shapes))
    images = np.empty((0, N_FEATURES), dtype)
    return TreeEngine.bytes_needed(
        model, TrainingProblem(images, np.empty(n, int), MaxLoss(), polyak())
    )


def measure_first_samples(folder: str, run: dict[str, Any]) -> dict[str, Any]:
    """A `TimedRun`, given as its fields, on the first samples of the folder's X.npy and y.npy."""
    wanted = TimedRun(**run)
    return wanted.measure(*_load(folder, wanted.samples))


def measure_beside(folder: str, samples: int, hidden: int) -> dict[str, float]:
    """Seconds of a forward pass's min-plus product alone, of an SGD iteration and of a pass over
    what the sparse engine keeps; which shares of that a Polyak step moves.
    """
    X, y = _load(folder, samples)
    rng = np.random.default_rng(0)
    rows = np.repeat(X, 2, axis=1)
    weights = rng.normal(size=(rows.shape[1], hidden)).astype(X.dtype)
    minplus(rows, weights)
    products = [measure.timed(minplus, rows, weights)[0] for _ in range(3)]
    problem = TrainingProblem(
        X, y, MeanLoss(), paper.constant_steps(y), paper.LINEAR_EVERY, rng=rng
    )
    sgd = SGDEngine(paper.start(X, y, hidden), problem)
    measure.warm_up(sgd)
    always, seldom = (limits.moved_by_a_step(X, y, hidden, every) for every in (ALWAYS, SELDOM))
    return {
        "product": median(products), "sgd": measure.seconds_per_iteration(sgd, 5_000),
        "pass": limits.seconds_of_a_pass(samples * hidden),
        "minima_always": always[0], "groups_always": always[1],
        "minima_seldom": seldom[0], "groups_seldom": seldom[1],
    }  # fmt: skip


def _load(folder: str, n: int) -> tuple[NDArray, NDArray]:
    X, y = (np.array(np.load(Path(folder) / f"{name}.npy", "r")[:n]) for name in "Xy")
    return X, y
