"""Cross-validation of short trainings: temperature, and whether a polish pays."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from threadpoolctl import threadpool_limits

from maxplus.distributed import current
from maxplus.models import LMM
from maxplus.training import Status, TrainingMonitor, TrainingProblem
from maxplus.training.monitor import run_parallel
from maxplus.training.result import TrainingOverflowError
from maxplus.training.stages import Polish

# How far a temperature goes in either direction.
LEAST, MOST = 0.02, 50.0
# Halvings of an interval of logarithms: far below what a temperature is known to.
HALVINGS = 40


def losses_of(Z: NDArray, y: NDArray) -> NDArray:
    """−log softmax(z)_y of each row; O(N·C)."""
    Z = Z - Z.max(axis=1, keepdims=True)
    return np.log(np.exp(Z).sum(axis=1)) - Z[np.arange(len(y)), y]


def temperature(Z: NDArray, y: NDArray, weight: NDArray | None = None) -> float:
    """The t that minimises the mean loss of softmax(t·z) over n held-out rows.

    A share 1 / (n + 2) of each label is spread over all classes (the rule of succession): rows
    that are all right do not promise that every row will be, and t stays finite. O(N·C) for
    each of some twenty values.
    """
    Z = np.asarray(Z, np.float64)
    Z = Z - Z.max(axis=1, keepdims=True)
    doubt, rows = 1.0 / (len(y) + 2), np.arange(len(y))
    own = (1.0 - doubt) * Z[rows, y] + doubt * Z.mean(axis=1)

    def loss(u: float) -> float:
        t = math.exp(u)
        return float(np.average(np.log(np.exp(t * Z).sum(axis=1)) - t * own, weights=weight))

    bounds = math.log(LEAST), math.log(MOST)
    best = minimize_scalar(loss, method="bounded", bounds=bounds, options={"xatol": 1e-3})
    return math.exp(best.x)


def keep_level(wanted: float, Z: NDArray, y: NDArray, level: float) -> float:
    """The temperature nearest to ``wanted`` that leaves every loss below a level.

    They are below it at 1. log Σ exp(t·(z_d − z_y)) is convex in t, and so is the maximum over
    rows, those of all ranks: where it is below the level is an interval around 1, whose end is
    found by halving.
    """
    Z = np.asarray(Z, np.float64)

    def fits(u: float) -> bool:
        worst = float(losses_of(math.exp(u) * Z, y).max(initial=0.0))
        return current().largest(worst) < level

    far = math.log(wanted)
    if fits(far):
        return wanted
    near = 0.0
    for _ in range(HALVINGS):
        middle = (near + far) / 2
        near, far = (middle, far) if fits(middle) else (near, middle)
    return math.exp(near)


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


# A network like this one, trained on some rows for a share of the usual length.
Retrain = Callable[[LMM, Rows, float, np.random.Generator, TrainingMonitor], LMM]
# The polish of so many rows after a training of such a share.
PolishOf = Callable[[int, float], Polish]


class _Held(NamedTuple):
    """Rows that were held out, and their scores before and after a polish of the others.

    ``above`` counts those others that were above the level before it, and after.
    """

    rows: NDArray
    before: NDArray
    after: NDArray
    above: tuple[int, int]


def worth_polishing(
    train: Retrain,
    polish_of: PolishOf,
    model: LMM,
    problem: TrainingProblem,
    monitor: TrainingMonitor,
) -> bool:
    """Whether a polish costs no accuracy and no log loss beyond noise on held-out rows.

    Three short trainings, each on two thirds of the rows (of many: of a part of them), are
    polished. Scores of the rows that were held out, before and after, both with the temperature
    that suits the first, are compared row by row; a mean difference within its standard error is
    noise. A polish that brings fewer than half of what is above its level below it is not worth
    it either. The outcome does not depend on the number of threads. Less work than a training.

    Parameters
    ----------
    train : trains a network on some rows
    polish_of : the polish that they would get
    model : the network in question
    problem : all rows; a seed is drawn from its generator
    monitor : says when to stop
    """
    assert problem.rng is not None
    seed = int(problem.rng.integers(2**31))
    rows, fold_of, length = folds_of(
        Rows(problem.X, problem.y, problem.weight), np.random.default_rng(seed)
    )
    numbers = [k for k in range(FOLDS) if (fold_of == k).any()]

    def polished(fold: int, quiet: TrainingMonitor) -> _Held | None:
        rng, own = np.random.default_rng([seed, fold]), rows.part(fold_of != fold)
        held = np.flatnonzero(fold_of == fold)
        try:
            before = train(model, own, length, rng, quiet)
            polish = polish_of(len(own.y), length)
            after = polish.run(before, TrainingProblem(own.X, own.y, rng=rng), quiet)
        except TrainingOverflowError:
            return None
        n_above = int((~(before.losses(own.X, own.y) < polish.level)).sum())
        seen = rows.X[held]
        left = n_above, after.above.size
        return _Held(held, before.scores(seen), after.model.scores(seen), left)

    known: list[_Held] = []
    jobs = [partial(polished, fold) for fold in numbers]
    n_jobs = numba.get_num_threads()
    with threadpool_limits(1), closing(run_parallel(jobs, n_jobs, monitor)) as ended:
        for _, held in ended:
            if held is None:
                return False
            known.append(held)
    # What cannot be held out says nothing; nor does what nobody waited for.
    return bool(known) and len(known) == len(numbers) and _says_yes(rows, known)


def _says_yes(rows: Rows, known: Sequence[_Held]) -> bool:
    """What all held-out rows together say."""
    n_before, n_after = np.sum([fold.above for fold in known], axis=0)
    if 2 * n_after > n_before:
        return False
    held = rows.part(np.concatenate([fold.rows for fold in known]))
    before = np.concatenate([fold.before for fold in known]).astype(np.float64)
    after = np.concatenate([fold.after for fold in known]).astype(np.float64)
    t = temperature(before, held.y, held.weight)
    losses = losses_of(t * after, held.y) - losses_of(t * before, held.y)
    errors = (after.argmax(axis=1) != held.y) * 1.0 - (before.argmax(axis=1) != held.y)
    weight = np.ones(len(held.y)) if held.weight is None else held.weight
    return not any(_beyond_noise(more, weight) for more in (losses, errors))


def _beyond_noise(more: NDArray, weight: NDArray) -> bool:
    """Whether the weighted mean of differences is above its standard error."""
    share = weight / weight.sum()
    mean = share @ more
    # Rows of large weights count as fewer.
    return bool(mean > math.sqrt((share @ (more - mean) ** 2) * (share @ share)))
