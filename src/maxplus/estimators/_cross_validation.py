"""Cross-validation with short training runs, for the temperature and to validate a polish."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from functools import partial
from typing import NamedTuple, TypeVar

import numba
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from threadpoolctl import threadpool_limits

from maxplus.distributed import current
from maxplus.estimators._training_data import TrainingData
from maxplus.models import LMM
from maxplus.training import Status, TrainingMonitor, TrainingProblem
from maxplus.training.monitor import run_parallel
from maxplus.training.result import TrainingOverflowError
from maxplus.training.stages import Polish

# Bounds of the temperature.
LEAST, MOST = 0.02, 50.0
# Bisection steps on the log scale; the remaining error is negligible.
HALVINGS = 40
FOLDS = 3
# Length of short training runs as a fraction of the full one; LENGTH_OF_MANY from MANY_ROWS on.
MANY_ROWS, LENGTH, LENGTH_OF_MANY = 4_000, 0.25, 0.2
# At least ENOUGH rows are used, and at least one in PART.
ENOUGH, PART = 2_000, 8
# Minimum number of rows of each class in a subsample.
LEAST_OF_A_CLASS = 6

T = TypeVar("T")
# Trains a model on some rows for a fraction of the usual length; the monitor may interrupt it.
Train = Callable[[TrainingData, float, np.random.Generator, TrainingMonitor], LMM]
# Returns the polish for a number of rows and a fraction of the usual length of training.
PolishOf = Callable[[int, float], Polish]


def losses_of(Z: NDArray, y: NDArray) -> NDArray:
    """Return −log softmax(z)_y of each row; O(N·C)."""
    Z = Z - Z.max(axis=1, keepdims=True)
    return np.log(np.exp(Z).sum(axis=1)) - Z[np.arange(len(y)), y]


def temperature(Z: NDArray, y: NDArray, weight: NDArray | None = None) -> float:
    """Return the t that minimises the mean loss of softmax(t·z) over n held-out rows.

    Labels are smoothed by a share of 1 / (n + 2) (the rule of succession), so that t is finite even
    if all n rows are classified correctly. O(N·C) for each of about twenty evaluations.
    """
    Z = np.asarray(Z, np.float64)
    Z = Z - Z.max(axis=1, keepdims=True)
    smoothing, rows = 1.0 / (len(y) + 2), np.arange(len(y))
    own = (1.0 - smoothing) * Z[rows, y] + smoothing * Z.mean(axis=1)

    def loss(u: float) -> float:
        t = math.exp(u)
        return float(np.average(np.log(np.exp(t * Z).sum(axis=1)) - t * own, weights=weight))

    bounds = math.log(LEAST), math.log(MOST)
    best = minimize_scalar(loss, method="bounded", bounds=bounds, options={"xatol": 1e-3})
    return math.exp(best.x)


def keep_level(wanted: float, Z: NDArray, y: NDArray, level: float) -> float:
    """Return the temperature nearest to ``wanted`` that keeps every loss below a level.

    All losses must be below it for temperature 1. The loss log Σ exp(t·(z_d − z_y)) is convex in t,
    and so is its maximum over the rows of all ranks: it is below the level in an interval around 1,
    whose end is found by bisection.
    """
    Z = np.asarray(Z, np.float64)

    def is_below(u: float) -> bool:
        worst = float(losses_of(math.exp(u) * Z, y).max(initial=0.0))
        return current().largest(worst) < level

    far = math.log(wanted)
    if is_below(far):
        return wanted
    near = 0.0
    for _ in range(HALVINGS):
        middle = (near + far) / 2
        near, far = (middle, far) if is_below(middle) else (near, middle)
    return math.exp(near)


class Folds(NamedTuple):
    """Rows, the fold of each row (`deal_folds`), and the length of short training runs."""

    rows: TrainingData
    fold_of: NDArray
    length: float

    @classmethod
    def of(cls, rows: TrainingData, rng: np.random.Generator) -> Folds:
        """Assign the rows of all ranks, or a stratified subsample of them, to folds."""
        comm = current()
        if comm.is_alone:
            return cls._deal(rows, rng)
        y, weight = comm.gather(rows.y), None if rows.weight is None else comm.gather(rows.weight)
        return comm.root_only(lambda X: cls._deal(TrainingData(X, y, weight), rng), rows.X)

    @classmethod
    def _deal(cls, rows: TrainingData, rng: np.random.Generator) -> Folds:
        length = LENGTH if len(rows.y) < MANY_ROWS else LENGTH_OF_MANY
        rows = rows.part(stratified_part(rows.y, max(ENOUGH, len(rows.y) // PART), rng))
        return cls(rows, deal_folds(rows.y, FOLDS, rng), length)

    @property
    def numbers(self) -> list[int]:
        """Indices of the non-empty folds."""
        return [fold for fold in range(FOLDS) if (self.fold_of == fold).any()]

    def run(
        self, job: Callable[[TrainingData, int, TrainingMonitor], T], monitor: TrainingMonitor
    ) -> Generator[tuple[NDArray, T]]:
        """Yield the held-out rows of each fold and the result of ``job`` on all other rows.

        Jobs run in as many threads as Numba uses, and may finish in any order.
        """
        numbers = self.numbers
        jobs = [partial(job, self.rows.part(self.fold_of != fold), fold) for fold in numbers]
        n_jobs = numba.get_num_threads()
        with threadpool_limits(1), closing(run_parallel(jobs, n_jobs, monitor)) as ended:
            for k, result in ended:
                yield np.flatnonzero(self.fold_of == numbers[k]), result


def held_out_temperature(
    rows: TrainingData, n_classes: int, train: Train, seed: int, monitor: TrainingMonitor
) -> float:
    """Return the best temperature for held-out rows, from one short training run per fold.

    Results do not depend on the number of threads. The temperature is 1 if no row can be held out,
    or if training is interrupted before all folds are done.

    Parameters
    ----------
    rows : all training rows; large data are subsampled, stratified by class
    n_classes : int
    train : function that trains a model
    seed : seed of all random numbers
    monitor : monitor to which each training run is reported
    """
    folds = Folds.of(rows, np.random.default_rng(seed))
    rows, n_folds = folds.rows, len(folds.numbers)
    Z = np.full((len(rows.y), n_classes), np.nan)

    def train_fold(kept: TrainingData, fold: int, quiet: TrainingMonitor) -> LMM:
        return train(kept, folds.length, np.random.default_rng([seed, fold]), quiet)

    with closing(folds.run(train_fold, monitor)) as ended:
        for done, (held, model) in enumerate(ended, 1):
            Z[held] = model.scores(rows.X[held])
            factor = temperature(Z[held], rows.y[held])
            end = Status.MAX_ITER if done == n_folds else None
            status = monitor.report(done, n_folds, factor, factor, model, None, end)
            if status is not None and status.ends_training:
                return 1.0
    known = folds.fold_of >= 0
    if not known.any() or not np.isfinite(Z[known]).all():
        return 1.0
    held_out = rows.part(known)
    return temperature(Z[known], held_out.y, held_out.weight)


class _Polished(NamedTuple):
    """Held-out rows, and their scores before and after a polish on the other rows.

    ``above`` holds the numbers of those other rows above the level before and after the polish.
    """

    held: NDArray
    before: NDArray
    after: NDArray
    above: tuple[int, int]


def validate_polish(
    train: Callable[[LMM, TrainingData, float, np.random.Generator, TrainingMonitor], LMM],
    polish_of: PolishOf,
    model: LMM,
    problem: TrainingProblem,
    monitor: TrainingMonitor,
) -> bool:
    """Return whether a polish degrades neither accuracy nor log loss on held-out rows beyond noise.

    Three networks are trained briefly, each on two thirds of the rows (or of a subsample of large
    data), and polished. Held-out scores before and after the polish, both with the best temperature
    for the former, are compared row by row; a mean difference within its standard error is noise. A
    polish is also rejected if more than half of the losses above its level stay there. Results do
    not depend on the number of threads. The cost is below that of a full training run.

    Parameters
    ----------
    train : function that trains a network like a given one on some rows
    polish_of : function that returns the polish for a number of rows and a length of training
    model : the network to polish
    problem : all rows; a seed is drawn from its generator
    monitor : monitor that may interrupt the validation
    """
    assert problem.rng is not None
    seed = int(problem.rng.integers(2**31))
    folds = Folds.of(
        TrainingData(problem.X, problem.y, problem.weight), np.random.default_rng(seed)
    )

    def polish_fold(
        kept: TrainingData, fold: int, quiet: TrainingMonitor
    ) -> tuple[LMM, LMM, tuple[int, int]] | None:
        rng = np.random.default_rng([seed, fold])
        try:
            before = train(model, kept, folds.length, rng, quiet)
            polish = polish_of(len(kept.y), folds.length)
            after = polish.run(before, TrainingProblem(kept.X, kept.y, rng=rng), quiet)
        except TrainingOverflowError:
            return None
        n_above = int((~(before.losses(kept.X, kept.y) < polish.level)).sum())
        return before, after.model, (n_above, after.above.size)

    known: list[_Polished] = []
    with closing(folds.run(polish_fold, monitor)) as ended:
        for held, polished in ended:
            if polished is None:
                return False
            before, after, above = polished
            seen = folds.rows.X[held]
            known.append(_Polished(held, before.scores(seen), after.scores(seen), above))
    # False without held-out rows, or after an interruption.
    return 0 < len(known) == len(folds.numbers) and _is_harmless(folds.rows, known)


def _is_harmless(rows: TrainingData, known: Sequence[_Polished]) -> bool:
    """Return whether a polish is harmless, judged by the held-out rows of all folds."""
    n_before, n_after = np.sum([fold.above for fold in known], axis=0)
    if 2 * n_after > n_before:
        return False
    held = rows.part(np.concatenate([fold.held for fold in known]))
    before = np.concatenate([fold.before for fold in known]).astype(np.float64)
    after = np.concatenate([fold.after for fold in known]).astype(np.float64)
    t = temperature(before, held.y, held.weight)
    losses = losses_of(t * after, held.y) - losses_of(t * before, held.y)
    errors = (after.argmax(axis=1) != held.y) * 1.0 - (before.argmax(axis=1) != held.y)
    weight = np.ones(len(held.y)) if held.weight is None else held.weight
    return not any(_beyond_noise(more, weight) for more in (losses, errors))


def _beyond_noise(more: NDArray, weight: NDArray) -> bool:
    """Return whether the weighted mean of differences is above its standard error."""
    share = weight / weight.sum()
    mean = share @ more
    # Unequal weights reduce the effective number of rows.
    return bool(mean > math.sqrt((share @ (more - mean) ** 2) * (share @ share)))


def stratified_part(y: NDArray, n: int, rng: np.random.Generator) -> NDArray:
    """Return about n row indices, stratified, with at least six rows of each class if possible."""
    if len(y) <= n:
        return np.arange(len(y))
    parts = []
    for d in np.unique(y):
        own = np.flatnonzero(y == d)
        parts.append(rng.permutation(own)[: max(LEAST_OF_A_CLASS, round(n * own.size / len(y)))])
    return np.sort(np.concatenate(parts))


def deal_folds(y: NDArray, n_folds: int, rng: np.random.Generator) -> NDArray:
    """Return the fold of each row, stratified by class; −1 for the only row of a class.

    Such a row is never held out, so that every class occurs in the training rows of each fold.
    """
    fold, dealt = np.full(len(y), -1), 0
    for d in np.unique(y):
        own = rng.permutation(np.flatnonzero(y == d))
        if own.size > 1:
            fold[own] = (dealt + np.arange(own.size)) % n_folds
            dealt += own.size
    return fold
