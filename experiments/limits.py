"""What limits an engine that keeps minima: how many of them a step moves, and a pass over all."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from statistics import median

import numba
import numpy as np
from numpy.typing import NDArray

from experiments import measure, paper
from maxplus.training import polyak
from maxplus.training.engines import DenseEngine
from maxplus.training.result import Block

# Images that the sparse engine works on at a time, all of one class.
LANES = 256
# Enough for shares that hardly depend on their number, and for a class to fill its lanes.
STEPS, IMAGES = 50, 10 * LANES
# A minimum, its witness and the runner-up, in float32.
BYTES_PER_MINIMUM = 12


def moved_by_a_step(
    X: NDArray, y: NDArray, n_hidden: int, w0_update_interval: int, steps: int = STEPS
) -> tuple[float, float]:
    """Mean shares of what a Polyak step moves, from the paper's start on.

    Of all minima (an image and a unit each), and of the groups of `LANES` images and a unit in
    which at least one moved: what has to be read and written, if nothing else is.
    """
    X, y = X[:IMAGES], y[:IMAGES]
    order = np.argsort(y, kind="stable")
    X, y = X[order], y[order]
    model, problem = paper.start_and_problem(X, y, polyak(), n_hidden, w0_update_interval)
    engine = DenseEngine(model, problem)
    before, minima, groups = model.hidden(X), [], []
    for _ in range(steps):
        engine.advance(Block(1))
        after = model.hidden(X)
        moved = after != before
        minima.append(moved.mean())
        groups.append(np.mean([part.any(axis=0) for part in _groups(moved)]))
        before = after
    return float(np.mean(minima)), float(np.mean(groups))


def seconds_of_a_pass(n_minima: int) -> float:
    """To read and write once what is kept of so many minima, on all threads; the median of five."""
    n_threads = numba.get_num_threads()
    kept = np.zeros(n_minima * BYTES_PER_MINIMUM // 4, np.float32)
    parts = np.array_split(kept, n_threads)

    def add_one(part: NDArray) -> None:
        np.add(part, np.float32(1), out=part)

    with ThreadPoolExecutor(n_threads) as threads:
        return median(measure.timed(lambda: list(threads.map(add_one, parts)))[0] for _ in range(5))


def _groups(rows: NDArray) -> list[NDArray]:
    return [rows[first : first + LANES] for first in range(0, len(rows), LANES)]
