"""Rows that are held out of short trainings: what suits a model on rows it has not seen."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from maxplus.distributed import current
from maxplus.estimators._calibration import temperature
from maxplus.models import LMM
from maxplus.training import Status, TrainingMonitor
from maxplus.training.monitor import run_parallel

FOLDS = 3
# From here on there are many rows, and short trainings are shorter, as a share of the real one.
MANY_ROWS, LENGTH, LENGTH_OF_MANY = 4_000, 0.25, 0.2
# Rows that are used: at least this many, and at least this part.
ENOUGH, PART = 2_000, 8
# Rows of a class that a part of the rows keeps, if there are so many.
LEAST_OF_A_CLASS = 6


@dataclass(frozen=True)
class Rows:
    """Samples, their classes 0..C−1, and weights or None."""

    X: NDArray
    y: NDArray
    weight: NDArray | None = None

    def part(self, rows: NDArray) -> Rows:
        """Return some of them."""
        weight = None if self.weight is None else self.weight[rows]
        return Rows(self.X[rows], self.y[rows], weight)


# Trains a model on some rows, for a share of the usual length, with this generator; the monitor
# says when to stop.
Train = Callable[[Rows, float, np.random.Generator, TrainingMonitor], LMM]


class Folds(NamedTuple):
    """Rows, the fold of each (`deal_folds`), and the length of short trainings."""

    rows: Rows
    fold_of: NDArray
    length: float


def folds_of(rows: Rows, rng: np.random.Generator) -> Folds:
    """Deal all rows, or a stratified part of many, to folds; of all ranks' rows, for each."""
    comm = current()
    if comm.is_alone:
        return _dealt(rows, rng)
    y, weight = comm.gather(rows.y), None if rows.weight is None else comm.gather(rows.weight)
    return comm.root_only(lambda X: _dealt(Rows(X, y, weight), rng), rows.X)


def _dealt(rows: Rows, rng: np.random.Generator) -> Folds:
    length = LENGTH if len(rows.y) < MANY_ROWS else LENGTH_OF_MANY
    rows = rows.part(stratified_part(rows.y, max(ENOUGH, len(rows.y) // PART), rng))
    return Folds(rows, deal_folds(rows.y, FOLDS, rng), length)


def held_out_temperature(
    rows: Rows, n_classes: int, train: Train, seed: int, monitor: TrainingMonitor, n_jobs: int
) -> float:
    """Return the temperature that suits held-out rows best, by a short training for each fold.

    It does not depend on ``n_jobs``. Where nothing can be held out, or somebody asked for the end
    before all folds were done, it is 1.

    Parameters
    ----------
    rows : all training rows; of many, a stratified part is used
    n_classes : int
    train : trains a model
    seed : all randomness comes from it
    monitor : hears of each training that is done
    n_jobs : trainings at once, in threads
    """
    rows, fold_of, length = folds_of(rows, np.random.default_rng(seed))
    numbers = [fold for fold in range(FOLDS) if (fold_of == fold).any()]
    Z = np.full((len(rows.y), n_classes), np.nan)

    def trained(fold: int, quiet: TrainingMonitor) -> LMM:
        rng = np.random.default_rng([seed, fold])
        return train(rows.part(fold_of != fold), length, rng, quiet)

    jobs = [partial(trained, fold) for fold in numbers]
    with threadpool_limits(1), closing(run_parallel(jobs, n_jobs, monitor)) as ended:
        for done, (k, model) in enumerate(ended, 1):
            held = fold_of == numbers[k]
            Z[held] = model.scores(rows.X[held])
            factor = temperature(Z[held], rows.y[held])
            end = Status.MAX_ITER if done == len(jobs) else None
            status = monitor.report(done, len(jobs), factor, factor, model, None, end)
            if status is not None and status.ends_training:
                return 1.0
    known = fold_of >= 0
    if not known.any() or not np.isfinite(Z[known]).all():
        return 1.0
    held_out = rows.part(known)
    return temperature(Z[known], held_out.y, held_out.weight)


def stratified_part(y: NDArray, n: int, rng: np.random.Generator) -> NDArray:
    """Return about n row numbers, each class in proportion, and at least six of each if it can."""
    if len(y) <= n:
        return np.arange(len(y))
    parts = []
    for d in np.unique(y):
        own = np.flatnonzero(y == d)
        parts.append(rng.permutation(own)[: max(LEAST_OF_A_CLASS, round(n * own.size / len(y)))])
    return np.sort(np.concatenate(parts))


def deal_folds(y: NDArray, n_folds: int, rng: np.random.Generator) -> NDArray:
    """Return the fold of each row, each class spread evenly; −1 for the only row of a class.

    Such a row is never held out: there is always a row of every class to train on.
    """
    fold, dealt = np.full(len(y), -1), 0
    for d in np.unique(y):
        own = rng.permutation(np.flatnonzero(y == d))
        if own.size > 1:
            fold[own] = (dealt + np.arange(own.size)) % n_folds
            dealt += own.size
    return fold
