"""One engine's seconds per iteration and peak memory, at one size, and what they stand beside."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxplus.algebra import minplus
from maxplus.lab import measure, paper
from maxplus.training import MeanLoss, Task
from maxplus.training.engines import SGDEngine


@dataclass(frozen=True)
class TimedRun:
    """What is timed: ``iterations`` Polyak steps, then as many constant ones."""

    engine: str
    samples: int
    hidden: int
    linear_every: int
    iterations: int

    def measure(self, X: NDArray, y: NDArray) -> dict[str, Any]:
        """Seconds per iteration of both phases, of setting up, and the peak memory in bytes."""
        steps = paper.two_phases(y, 1 + self.iterations)
        set_up, engine = measure.timed(
            paper.engine_on, X, y, steps, self.engine, self.hidden, self.linear_every
        )
        measure.warm_up(engine)
        seconds = {
            phase: measure.seconds_per_iteration(engine, self.iterations)
            for phase in ("polyak", "constant")
        }
        return asdict(self) | seconds | {"set_up": set_up, "peak": measure.peak_bytes()}


def measure_first_samples(folder: str, run: dict[str, Any]) -> dict[str, Any]:
    """A `TimedRun`, given as its fields, on the first samples of the folder's X.npy and y.npy."""
    wanted = TimedRun(**run)
    return wanted.measure(*_load(folder, wanted.samples))


def measure_beside(folder: str, samples: int, hidden: int) -> dict[str, float]:
    """Seconds of a forward pass's min-plus product alone, and of an SGD iteration."""
    X, y = _load(folder, samples)
    rng = np.random.default_rng(0)
    rows = np.repeat(X, 2, axis=1)
    weights = rng.normal(size=(rows.shape[1], hidden)).astype(X.dtype)
    minplus(rows, weights)
    products = [measure.timed(minplus, rows, weights)[0] for _ in range(3)]
    task = Task(X, y, MeanLoss(), paper.constant_steps(y), paper.LINEAR_EVERY, rng=rng)
    sgd = SGDEngine(paper.start(X, y, hidden), task)
    measure.warm_up(sgd)
    return {"product": median(products), "sgd": measure.seconds_per_iteration(sgd, 5_000)}


def _load(folder: str, n: int) -> tuple[NDArray, NDArray]:
    X, y = (np.array(np.load(Path(folder) / f"{name}.npy", "r")[:n]) for name in "Xy")
    return X, y
