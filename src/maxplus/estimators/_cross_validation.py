"""Cross-validation of candidates: structures of a sum of terms, a polish, and the temperature."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from typing import Any, NamedTuple, TypeVar

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
MIN_TEMPERATURE, MAX_TEMPERATURE = 0.02, 50.0
# Bisection steps on the log scale; the remaining error is negligible.
N_BISECTIONS = 40
FOLDS = 3
# Number of rows from which fewer and shorter training runs suffice.
MANY_ROWS = 4_000
# Number of standard errors from the best candidate within which the simplest one is chosen.
WITHIN = 0.25
# Minimum number of rows of each class in a subsample.
MIN_ROWS_PER_CLASS = 6

T = TypeVar("T")
# Trains a network on rows for a fraction of the usual length; the monitor may interrupt it.
Train = Callable[[TrainingData, float, np.random.Generator, TrainingMonitor], LMM]


# -- losses and temperature ------------------------------------------------------------------------


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
    target = (1.0 - smoothing) * Z[rows, y] + smoothing * Z.mean(axis=1)

    def loss(u: float) -> float:
        t = math.exp(u)
        return float(np.average(np.log(np.exp(t * Z).sum(axis=1)) - t * target, weights=weight))

    bounds = math.log(MIN_TEMPERATURE), math.log(MAX_TEMPERATURE)
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
    for _ in range(N_BISECTIONS):
        middle = (near + far) / 2
        near, far = (middle, far) if is_below(middle) else (near, middle)
    return math.exp(near)


def is_within_noise(differences: NDArray, weight: NDArray | None, n_errors: float) -> bool:
    """Return whether a weighted mean is at most ``n_errors`` times its standard error."""
    share = _shares(differences, weight)
    mean = float(share @ differences)
    # Unequal weights reduce the effective number of rows.
    error = math.sqrt(float(share @ (differences - mean) ** 2) * float(share @ share))
    return mean <= n_errors * error


def _shares(values: NDArray, weight: NDArray | None) -> NDArray:
    """Return weights whose sum is 1."""
    return np.full(len(values), 1.0 / len(values)) if weight is None else weight / weight.sum()


# -- folds -----------------------------------------------------------------------------------------


def stratified_part(y: NDArray, n: int, rng: np.random.Generator) -> NDArray:
    """Return about n row indices, stratified, with at least six rows of each class if possible."""
    if len(y) <= n:
        return np.arange(len(y))
    parts = []
    for d in np.unique(y):
        rows = np.flatnonzero(y == d)
        size = max(MIN_ROWS_PER_CLASS, round(n * rows.size / len(y)))
        parts.append(rng.permutation(rows)[:size])
    return np.sort(np.concatenate(parts))


def deal_folds(y: NDArray, n_folds: int, rng: np.random.Generator) -> NDArray:
    """Return the fold of each row, stratified by class; −1 for the only row of a class.

    Such a row is never held out, so that every class occurs in the training rows of each fold.
    """
    fold_of, n_dealt = np.full(len(y), -1), 0
    for d in np.unique(y):
        rows = rng.permutation(np.flatnonzero(y == d))
        if rows.size > 1:
            fold_of[rows] = (n_dealt + np.arange(rows.size)) % n_folds
            n_dealt += rows.size
    return fold_of


# -- search ----------------------------------------------------------------------------------------


class Effort(NamedTuple):
    """Cost of a search.

    Attributes
    ----------
    survivors : number of candidates that are evaluated on all folds
    first, others : length of training runs on the first fold and on the other folds, as a fraction
        of the length of the final training run
    min_rows, share : the search uses a subsample of at least ``min_rows`` rows, and at least this
        share of all rows
    """

    survivors: int
    first: float
    others: float
    min_rows: int
    share: float


def _scores(model: Any, prepared: Any, X: NDArray) -> NDArray:
    return model.scores(X)


def _calibrated_losses(Z: NDArray, rows: TrainingData) -> NDArray:
    """Return the log loss of each row with the best temperature."""
    return losses_of(temperature(Z, rows.y, rows.weight) * Z, rows.y)


class Candidates(NamedTuple):
    """Candidates of a search: their number, training and evaluation.

    Attributes
    ----------
    n : number of candidates; the first ones are the simplest
    prepare : function of rows, a seed and a monitor that returns data for training all candidates
    train : function of a candidate, prepared data, a fraction of the usual length of training, a
        seed and a monitor that returns a model
    outputs : function of a model, prepared data and held-out X that returns an array of shape
        (n_samples, n_outputs)
    losses : function of outputs and held-out rows that returns the loss of each row
    score : function of a model and held-out rows whose value, the higher the better, takes
        precedence over the losses, optional
    """

    n: int
    prepare: Callable[[TrainingData, Sequence[int], TrainingMonitor], Any]
    train: Callable[[int, Any, float, Sequence[int], TrainingMonitor], Any]
    outputs: Callable[[Any, Any, NDArray], NDArray] = _scores
    losses: Callable[[NDArray, TrainingData], NDArray] = _calibrated_losses
    score: Callable[[Any, TrainingData], float] | None = None


class Search:
    """Cross-validation of candidates with short training runs.

    All candidates are evaluated on the first fold, and the best ones on the other folds. With
    several ranks, the rows of all ranks are used. Large data are subsampled. Results do not depend
    on the number of threads.

    Parameters
    ----------
    candidates : Candidates
    rows : TrainingData
    effort : Effort
    seed : seed of all random numbers
    is_stratified : whether y holds classes, by which folds and subsample are stratified

    Attributes
    ----------
    rows : the rows that are used
    fold_of : the fold of each row; −1 if it is never held out
    losses, scores : arrays of shape (candidates, folds), inf and −inf where a fold was skipped
    outputs : outputs for held-out rows, shape (candidates, rows, outputs), NaN if not evaluated
    """

    def __init__(
        self,
        candidates: Candidates,
        rows: TrainingData,
        effort: Effort,
        seed: int,
        *,
        is_stratified: bool = True,
    ) -> None:
        self.candidates, self.effort, self.seed = candidates, effort, seed
        comm = current()
        weight = None if rows.weight is None else comm.gather(rows.weight)
        y = comm.gather(rows.y)

        def deal(X: NDArray) -> tuple[TrainingData, NDArray]:
            rng = np.random.default_rng(seed)
            strata = y if is_stratified else np.zeros(len(y), np.int64)
            n = max(effort.min_rows, int(effort.share * len(y)))
            part = stratified_part(strata, n, rng)
            used = TrainingData(X, y, weight).part(part)
            if not is_stratified and len(y) < 2 * FOLDS:
                return used, np.full(len(y), -1)
            return used, deal_folds(strata[part], FOLDS, rng)

        self.rows, self.fold_of = comm.root_only(deal, rows.X)
        n = candidates.n
        self.losses, self.scores = np.full((n, FOLDS), np.inf), np.full((n, FOLDS), -np.inf)
        self.outputs = np.full((n, len(self.rows.y), 1), np.nan)
        self._n_done, self._total = 0, n + (FOLDS - 1) * min(effort.survivors, n)

    def run(self, monitor: TrainingMonitor) -> Status | None:
        """Evaluate the candidates; return the reason if the search was stopped, else None."""
        every, n_survivors = list(range(self.candidates.n)), self.effort.survivors
        if n_survivors >= len(every):
            return self._evaluate(every, range(FOLDS), monitor)
        status = self._evaluate(every, range(1), monitor)
        if status is not None:
            return status
        survivors = sorted(sorted(every, key=lambda c: self._key(c, [0]))[:n_survivors])
        return self._evaluate(survivors, range(1, FOLDS), monitor)

    def _evaluate(
        self, numbers: Sequence[int], folds: range, monitor: TrainingMonitor
    ) -> Status | None:
        """Train and evaluate candidates on folds; return the reason if the search was stopped."""
        used = [fold for fold in folds if (self.fold_of == fold).any()]
        prepared: dict[int, Any] = {}
        with _in_threads([partial(self._prepare, fold) for fold in used], monitor) as ended:
            for k, result in ended:
                prepared[used[k]] = result
        if len(prepared) < len(used):
            return monitor.stop_reason
        todo = [(c, fold) for fold in used for c in numbers]
        jobs = [partial(self._train, c, fold, prepared[fold]) for c, fold in todo]
        with _in_threads(jobs, monitor) as ended:
            for k, model in ended:
                c, fold = todo[k]
                self._record(c, fold, model, prepared[fold])
                loss, best = float(self.losses[c, fold]), float(self.losses.min())
                end = Status.MAX_ITER if self._n_done == self._total else None
                status = monitor.report(self._n_done, self._total, loss, best, model, None, end)
                if status is not None and status.ends_training:
                    return status
        return monitor.stop_reason

    def _prepare(self, fold: int, monitor: TrainingMonitor) -> Any:
        rows = self.rows.part(self.fold_of != fold)
        return self.candidates.prepare(rows, [self.seed, fold], monitor)

    def _train(self, c: int, fold: int, prepared: Any, monitor: TrainingMonitor) -> Any:
        length = self.effort.others if fold else self.effort.first
        return self.candidates.train(c, prepared, length, [self.seed, fold, 1], monitor)

    def _record(self, c: int, fold: int, model: Any, prepared: Any) -> None:
        """Evaluate a model on the held-out rows of a fold."""
        held = np.flatnonzero(self.fold_of == fold)
        rows = self.rows.part(held)
        outputs = self.candidates.outputs(model, prepared, rows.X)
        if not self._n_done:
            self.outputs = np.full((*self.outputs.shape[:2], outputs.shape[1]), np.nan)
        self.outputs[c, held] = outputs
        losses = self.candidates.losses(outputs, rows)
        self.losses[c, fold] = np.average(losses, weights=rows.weight)
        if self.candidates.score is not None:
            score = self.candidates.score(model, rows)
            self.scores[c, fold] = score if math.isfinite(score) else -np.inf
        self._n_done += 1

    def _key(self, c: int, folds: Sequence[int]) -> tuple[float, float]:
        """Return the sort key of a candidate: its score, then its loss."""
        return -float(self.scores[c, folds].mean()), float(self.losses[c, folds].mean())

    @property
    def survivors(self) -> list[int]:
        """The candidates that were evaluated on most folds."""
        n_folds = np.isfinite(self.losses).sum(axis=1)
        return np.flatnonzero(n_folds == n_folds.max()).tolist()

    @property
    def known(self) -> NDArray:
        """Mask of the rows that were held out for all survivors."""
        return np.isfinite(self.outputs[self.survivors]).all(axis=(0, 2))

    def chosen(self) -> int:
        """Return the survivor with the best score, or the simplest one of about the best loss."""
        known, survivors = self.known, self.survivors
        if not known.any():
            return 0
        if self.candidates.score is not None:
            folds = np.flatnonzero(np.isfinite(self.losses[survivors[0]])).tolist()
            return min(survivors, key=lambda c: self._key(c, folds))
        rows = self.rows.part(known)
        losses = {c: self.candidates.losses(self.outputs[c, known], rows) for c in survivors}
        shares = _shares(rows.y, rows.weight)
        best = losses[min(losses, key=lambda c: float(shares @ losses[c]))]
        return next(c for c in survivors if is_within_noise(losses[c] - best, rows.weight, WITHIN))


@contextmanager
def _in_threads(
    jobs: Sequence[Callable[[TrainingMonitor], T]], monitor: TrainingMonitor
) -> Iterator[Iterator[tuple[int, T]]]:
    """Run jobs in as many threads as Numba uses; see `run_parallel`."""
    n_threads = numba.get_num_threads()
    with threadpool_limits(1), closing(run_parallel(jobs, n_threads, monitor)) as ended:
        yield ended


# -- single networks -------------------------------------------------------------------------------


def _network_effort(rows: TrainingData) -> Effort:
    """Return the effort of a search over single networks, none of which is dropped early."""
    length = 0.25 if current().total(len(rows.y)) < MANY_ROWS else 0.2
    return Effort(2, length, length, 2_000, 1 / 8)


def held_out_temperature(
    rows: TrainingData, train: Train, seed: int, monitor: TrainingMonitor
) -> float:
    """Return the best temperature for held-out rows, from one short training run per fold.

    The temperature is 1 if no row can be held out, or if the search is stopped.

    Parameters
    ----------
    rows : all training rows
    train : function that trains a network
    seed : seed of all random numbers
    monitor : monitor to which each training run is reported
    """

    def train_fold(
        candidate: int,
        kept: TrainingData,
        length: float,
        seed: Sequence[int],
        quiet: TrainingMonitor,
    ) -> LMM:
        return train(kept, length, np.random.default_rng(seed[:2]), quiet)

    candidates = Candidates(1, lambda kept, seed, quiet: kept, train_fold)
    search = Search(candidates, rows, _network_effort(rows), seed)
    known = search.known if search.run(monitor) is None else np.zeros(0, bool)
    if not known.any():
        return 1.0
    held = search.rows.part(known)
    return temperature(search.outputs[0, known], held.y, held.weight)


def validate_polish(
    train: Callable[[LMM, TrainingData, float, np.random.Generator, TrainingMonitor], LMM],
    polish_of: Callable[[int, float], Polish],
    model: LMM,
    problem: TrainingProblem,
    monitor: TrainingMonitor,
) -> bool:
    """Return whether a polish degrades neither accuracy nor log loss on held-out rows beyond noise.

    Three networks are trained briefly, each on two thirds of the rows (or of a subsample of large
    data), and polished. Held-out scores before and after the polish, both with the best temperature
    for the former, are compared row by row; a mean difference within its standard error is noise. A
    polish is also rejected if more than half of the losses above its level stay there, if training
    overflows, or if no row can be held out. The cost is below that of a full training run.

    Parameters
    ----------
    train : function that trains a network like a given one on some rows
    polish_of : function that returns the polish for a number of rows and a fraction of the usual
        length of training
    model : the network to polish
    problem : all rows; a seed is drawn from its generator
    monitor : monitor that may interrupt the validation
    """
    assert problem.rng is not None
    seed = int(problem.rng.integers(2**31))
    rows = TrainingData(problem.X, problem.y, problem.weight)
    effort = _network_effort(rows)

    def train_fold(kept: TrainingData, seed: Sequence[int], quiet: TrainingMonitor) -> Any:
        rng = np.random.default_rng(seed)
        return kept, train(model, kept, effort.first, rng, quiet), rng

    def polish_fold(
        candidate: int,
        prepared: Any,
        length: float,
        seed: Sequence[int],
        quiet: TrainingMonitor,
    ) -> tuple[LMM, int]:
        """Return the network as it is or polished, and its number of losses above the level."""
        kept, before, rng = prepared
        polish = polish_of(len(kept.y), length)
        if candidate == 0:
            return before, int((~(before.losses(kept.X, kept.y) < polish.level)).sum())
        done = polish.run(before, TrainingProblem(kept.X, kept.y, rng=rng), quiet)
        return done.model, done.above.size

    candidates = Candidates(
        2,
        train_fold,
        polish_fold,
        outputs=lambda trained, prepared, X: trained[0].scores(X),
        score=lambda trained, held: -float(trained[1]),
    )
    search = Search(candidates, rows, effort, seed)
    try:
        # The search is a part of the polish, which reports its own rounds.
        status = search.run(TrainingMonitor(parent=monitor))
    except TrainingOverflowError:
        return False
    known = search.known
    if status is not None or not known.any():
        return False
    n_before, n_after = (-scores[np.isfinite(scores)].sum() for scores in search.scores)
    if 2 * n_after > n_before:
        return False
    held, (before, after) = search.rows.part(known), search.outputs[:, known]
    t = temperature(before, held.y, held.weight)
    losses = losses_of(t * after, held.y) - losses_of(t * before, held.y)
    errors = (after.argmax(axis=1) != held.y) * 1.0 - (before.argmax(axis=1) != held.y)
    return all(is_within_noise(more, held.weight, 1.0) for more in (losses, errors))
