"""Cross-validation of structures, of the polish, and of the inverse temperature."""

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

MIN_INVERSE_TEMPERATURE, MAX_INVERSE_TEMPERATURE = 0.02, 50.0
# Number of bisection steps on the log scale.
N_BISECTIONS = 40
FOLDS = 3
# Number of samples from which the search uses fewer and shorter training runs.
MANY_SAMPLES = 4_000
# Maximum distance from the best loss, in standard errors, at which a simpler candidate is chosen.
MAX_STANDARD_ERRORS = 0.25
# Minimum number of samples of each class in a subsample.
MIN_PER_CLASS = 6

T = TypeVar("T")


def losses_of(Z: NDArray, y: NDArray) -> NDArray:
    """Return the log loss −log softmax(z)_y of each sample."""
    Z = Z - Z.max(axis=1, keepdims=True)
    return np.log(np.exp(Z).sum(axis=1)) - Z[np.arange(len(y)), y]


def inverse_temperature(Z: NDArray, y: NDArray, weight: NDArray | None = None) -> float:
    """Return the inverse temperature t that minimises the mean log loss of softmax(t·z).

    Labels are smoothed by 1 / (n + 2) for n samples (rule of succession), so that the optimum is
    finite even if all samples are classified correctly.
    """
    Z = np.asarray(Z, np.float64)
    Z = Z - Z.max(axis=1, keepdims=True)
    smoothing, index = 1.0 / (len(y) + 2), np.arange(len(y))
    target = (1.0 - smoothing) * Z[index, y] + smoothing * Z.mean(axis=1)

    def loss(u: float) -> float:
        t = math.exp(u)
        return float(np.average(np.log(np.exp(t * Z).sum(axis=1)) - t * target, weights=weight))

    bounds = math.log(MIN_INVERSE_TEMPERATURE), math.log(MAX_INVERSE_TEMPERATURE)
    best = minimize_scalar(loss, method="bounded", bounds=bounds, options={"xatol": 1e-3})
    return math.exp(best.x)


def limit_inverse_temperature(target: float, Z: NDArray, y: NDArray, level: float) -> float:
    """Return the inverse temperature closest to ``target`` with every loss below ``level``.

    All losses must be below the level for inverse temperature 1. The maximum loss over the samples
    of all ranks is convex in the inverse temperature. It is therefore below the level in an
    interval around 1, the end of which is found by bisection.
    """
    Z = np.asarray(Z, np.float64)

    def is_below(u: float) -> bool:
        worst = float(losses_of(math.exp(u) * Z, y).max(initial=0.0))
        return current().largest(worst) < level

    far = math.log(target)
    if is_below(far):
        return target
    near = 0.0
    for _ in range(N_BISECTIONS):
        middle = (near + far) / 2
        near, far = (middle, far) if is_below(middle) else (near, middle)
    return math.exp(near)


def is_within_noise(differences: NDArray, weight: NDArray | None, n_errors: float) -> bool:
    """Return whether a weighted mean is at most ``n_errors`` times its standard error."""
    share = _normalised_weights(differences, weight)
    mean = float(share @ differences)
    # Unequal weights reduce the effective sample size.
    error = math.sqrt(float(share @ (differences - mean) ** 2) * float(share @ share))
    return mean <= n_errors * error


def _normalised_weights(values: NDArray, weight: NDArray | None) -> NDArray:
    """Return the weights, normalised to sum to 1."""
    return np.full(len(values), 1.0 / len(values)) if weight is None else weight / weight.sum()


def stratified_subsample(y: NDArray, n: int, rng: np.random.Generator) -> NDArray:
    """Return the indices of a stratified subsample of about n samples.

    It contains at least six samples of each class, if available.
    """
    if len(y) <= n:
        return np.arange(len(y))
    parts = []
    for d in np.unique(y):
        members = np.flatnonzero(y == d)
        size = max(MIN_PER_CLASS, round(n * members.size / len(y)))
        parts.append(rng.permutation(members)[:size])
    return np.sort(np.concatenate(parts))


def assign_folds(y: NDArray, n_folds: int, rng: np.random.Generator) -> NDArray:
    """Assign samples to folds, stratified by class.

    The fold is −1 for the only sample of a class, which is never held out.
    """
    fold_of, n_assigned = np.full(len(y), -1), 0
    for d in np.unique(y):
        members = rng.permutation(np.flatnonzero(y == d))
        if members.size > 1:
            fold_of[members] = (n_assigned + np.arange(members.size)) % n_folds
            n_assigned += members.size
    return fold_of


class SearchBudget(NamedTuple):
    """Number and length of the training runs of a search."""

    # Number of candidates that are evaluated on all folds.
    survivors: int
    # Length of the training runs on the first fold and on the other folds, as a fraction of a full
    # training run.
    first: float
    others: float
    # Minimum size of the subsample, absolute and as a fraction of all samples.
    min_samples: int
    fraction: float
    n_folds: int = FOLDS


def _scores(model: Any, prepared: Any, X: NDArray) -> NDArray:
    return model.scores(X)


def _calibrated_losses(Z: NDArray, data: TrainingData) -> NDArray:
    """Return the log loss of each sample after temperature scaling."""
    return losses_of(inverse_temperature(Z, data.y, data.weight) * Z, data.y)


class Candidates(NamedTuple):
    """Candidates of a search, ordered by complexity, and functions that train and evaluate them."""

    n: int
    # (data, seed, monitor) -> input of ``train``, shared by all candidates.
    prepare: Callable[[TrainingData, Sequence[int], TrainingMonitor], Any]
    # (candidate, prepared, length, seed, monitor) -> model, for a fraction of a full training run.
    train: Callable[[int, Any, float, Sequence[int], TrainingMonitor], Any]
    # (model, prepared, X) -> outputs for held-out samples, of shape (n_samples, n_outputs).
    outputs: Callable[[Any, Any, NDArray], NDArray] = _scores
    # (outputs, data) -> loss of each held-out sample.
    losses: Callable[[NDArray, TrainingData], NDArray] = _calibrated_losses
    # (model, data) -> score of held-out samples that replaces the losses. Higher is better.
    score: Callable[[Any, TrainingData], float] | None = None


class Search:
    """Cross-validation of candidates with short training runs.

    All candidates are evaluated on the first fold, and only the best ones on the other folds. A
    subsample of the data of all MPI ranks is used, stratified by y unless ``is_stratified`` is
    False. Results do not depend on the number of threads.

    ``losses`` (inf for skipped folds) and ``scores`` (−inf) have the shape (n_candidates, n_folds),
    and ``outputs`` (NaN) the shape (n_candidates, n_samples, n_outputs) for the subsample ``data``.
    ``fold_of`` is the fold of each sample, −1 if it is never held out.
    """

    def __init__(
        self,
        candidates: Candidates,
        data: TrainingData,
        budget: SearchBudget,
        seed: int,
        *,
        is_stratified: bool = True,
    ) -> None:
        self.candidates, self.budget, self.seed = candidates, budget, seed

        def split(data: TrainingData) -> tuple[TrainingData, NDArray]:
            rng, N = np.random.default_rng(seed), len(data.y)
            strata = data.y if is_stratified else np.zeros(N, np.int64)
            size = max(budget.min_samples, int(budget.fraction * N))
            part = stratified_subsample(strata, size, rng)
            if not is_stratified and 2 * budget.n_folds > N:
                return data.part(part), np.full(N, -1)
            return data.part(part), assign_folds(strata[part], budget.n_folds, rng)

        self.data, self.fold_of = data.on_first_rank(split)
        n, n_folds = candidates.n, budget.n_folds
        self.losses, self.scores = np.full((n, n_folds), np.inf), np.full((n, n_folds), -np.inf)
        self.outputs = np.full((n, len(self.data.y), 1), np.nan)
        self._n_done, self._total = 0, n + (n_folds - 1) * min(budget.survivors, n)

    def run(self, monitor: TrainingMonitor) -> Status | None:
        """Evaluate the candidates; return a status if the search was stopped, else None."""
        indices, n_survivors = list(range(self.candidates.n)), self.budget.survivors
        if n_survivors >= len(indices):
            return self._evaluate(indices, range(self.budget.n_folds), monitor)
        status = self._evaluate(indices, range(1), monitor)
        if status is not None:
            return status
        survivors = sorted(sorted(indices, key=lambda c: self._key(c, [0]))[:n_survivors])
        return self._evaluate(survivors, range(1, self.budget.n_folds), monitor)

    def _evaluate(
        self, indices: Sequence[int], folds: range, monitor: TrainingMonitor
    ) -> Status | None:
        """Evaluate candidates on some folds; return a status if the search was stopped."""
        used = [fold for fold in folds if (self.fold_of == fold).any()]
        prepared: dict[int, Any] = {}
        with _in_threads([partial(self._prepare, fold) for fold in used], monitor) as completed:
            for k, result in completed:
                prepared[used[k]] = result
        if len(prepared) < len(used):
            return monitor.stop_reason
        todo = [(c, fold) for fold in used for c in indices]
        jobs = [partial(self._train, c, fold, prepared[fold]) for c, fold in todo]
        with _in_threads(jobs, monitor) as completed:
            for k, model in completed:
                c, fold = todo[k]
                self._record(c, fold, model, prepared[fold])
                loss, best = float(self.losses[c, fold]), float(self.losses.min())
                end = Status.MAX_ITER if self._n_done == self._total else None
                status = monitor.report(self._n_done, self._total, loss, best, model, None, end)
                if status is not None and status.ends_training:
                    return status
        return monitor.stop_reason

    def _prepare(self, fold: int, monitor: TrainingMonitor) -> Any:
        data = self.data.part(self.fold_of != fold)
        return self.candidates.prepare(data, [self.seed, fold], monitor)

    def _train(self, c: int, fold: int, prepared: Any, monitor: TrainingMonitor) -> Any:
        length = self.budget.others if fold else self.budget.first
        return self.candidates.train(c, prepared, length, [self.seed, fold, 1], monitor)

    def _record(self, c: int, fold: int, model: Any, prepared: Any) -> None:
        """Evaluate a model on the held-out samples of a fold."""
        held = np.flatnonzero(self.fold_of == fold)
        data = self.data.part(held)
        outputs = self.candidates.outputs(model, prepared, data.X)
        if not self._n_done:
            self.outputs = np.full((*self.outputs.shape[:2], outputs.shape[1]), np.nan)
        self.outputs[c, held] = outputs
        losses = self.candidates.losses(outputs, data)
        self.losses[c, fold] = np.average(losses, weights=data.weight)
        if self.candidates.score is not None:
            score = self.candidates.score(model, data)
            self.scores[c, fold] = score if math.isfinite(score) else -np.inf
        self._n_done += 1

    def _key(self, c: int, folds: Sequence[int]) -> tuple[float, float]:
        """Return the sort key of a candidate, from its score and loss."""
        return -float(self.scores[c, folds].mean()), float(self.losses[c, folds].mean())

    @property
    def survivors(self) -> list[int]:
        """Candidates that were evaluated on the largest number of folds."""
        n_folds = np.isfinite(self.losses).sum(axis=1)
        return np.flatnonzero(n_folds == n_folds.max()).tolist()

    @property
    def evaluated(self) -> NDArray:
        """Mask of the samples that have outputs of all survivors."""
        return np.isfinite(self.outputs[self.survivors]).all(axis=(0, 2))

    def best_candidate(self) -> int:
        """Return the survivor with the best score.

        Without scores, return the simplest survivor whose loss is within 0.25 standard errors of
        the lowest loss. If no sample was evaluated, return 0.
        """
        evaluated, survivors = self.evaluated, self.survivors
        if not evaluated.any():
            return 0
        if self.candidates.score is not None:
            folds = np.flatnonzero(np.isfinite(self.losses[survivors[0]])).tolist()
            return min(survivors, key=lambda c: self._key(c, folds))
        data = self.data.part(evaluated)
        losses = {c: self.candidates.losses(self.outputs[c, evaluated], data) for c in survivors}
        shares = _normalised_weights(data.y, data.weight)
        best = losses[min(losses, key=lambda c: float(shares @ losses[c]))]
        return next(
            c
            for c in survivors
            if is_within_noise(losses[c] - best, data.weight, MAX_STANDARD_ERRORS)
        )


@contextmanager
def _in_threads(
    jobs: Sequence[Callable[[TrainingMonitor], T]], monitor: TrainingMonitor
) -> Iterator[Iterator[tuple[int, T]]]:
    """Run jobs in parallel (`run_parallel`), each with a single BLAS thread."""
    n_threads = numba.get_num_threads()
    with threadpool_limits(1), closing(run_parallel(jobs, n_threads, monitor)) as completed:
        yield completed


def _network_budget(data: TrainingData) -> SearchBudget:
    """Return the number and length of the training runs of a search over single networks."""
    length = 0.25 if current().total(len(data.y)) < MANY_SAMPLES else 0.2
    return SearchBudget(2, length, length, 2_000, 1 / 8)


def held_out_inverse_temperature(
    data: TrainingData,
    train: Callable[[TrainingData, float, np.random.Generator, TrainingMonitor], LMM],
    seed: int,
    monitor: TrainingMonitor,
) -> float:
    """Return the inverse temperature for held-out samples, from a short training run per fold.

    ``train`` is a function of data, length (fraction of a full run), generator and monitor. The
    result is 1 if no sample can be held out, or if the search is stopped.
    """
    candidates = Candidates(
        1,
        lambda kept, seed, job_monitor: kept,
        lambda c, kept, length, seed, job_monitor: train(
            kept, length, np.random.default_rng(seed[:2]), job_monitor
        ),
    )
    search = Search(candidates, data, _network_budget(data), seed)
    evaluated = search.evaluated if search.run(monitor) is None else np.zeros(0, bool)
    if not evaluated.any():
        return 1.0
    held = search.data.part(evaluated)
    return inverse_temperature(search.outputs[0, evaluated], held.y, held.weight)


def validate_polish(
    train: Callable[[LMM, TrainingData, float, np.random.Generator, TrainingMonitor], LMM],
    make_polish: Callable[[int, float], Polish],
    model: LMM,
    problem: TrainingProblem,
    monitor: TrainingMonitor,
) -> bool:
    """Return whether a polish degrades neither the accuracy nor the log loss on held-out samples.

    A network is trained briefly and polished in each fold. Held-out accuracies and losses before
    and after the polish are compared pairwise, with the same inverse temperature. An increase
    within its standard error is ignored. A polish is also rejected if more than half of the losses
    above its level stay there, if training overflows, or if no sample can be held out.
    """
    assert problem.rng is not None
    seed = int(problem.rng.integers(2**31))
    data = TrainingData(problem.X, problem.y, problem.weight)
    budget = _network_budget(data)

    def train_fold(kept: TrainingData, seed: Sequence[int], job_monitor: TrainingMonitor) -> Any:
        rng = np.random.default_rng(seed)
        return kept, train(model, kept, budget.first, rng, job_monitor), rng

    def polish_fold(
        candidate: int,
        prepared: Any,
        length: float,
        seed: Sequence[int],
        job_monitor: TrainingMonitor,
    ) -> tuple[LMM, int]:
        """Return the original or the polished network, and its number of losses above the level."""
        kept, before, rng = prepared
        polish = make_polish(len(kept.y), length)
        if candidate == 0:
            return before, int((~(before.losses(kept.X, kept.y) < polish.level)).sum())
        done = polish.run(before, TrainingProblem(kept.X, kept.y, rng=rng), job_monitor)
        return done.model, done.above.size

    candidates = Candidates(
        2,
        train_fold,
        polish_fold,
        outputs=lambda trained, prepared, X: trained[0].scores(X),
        score=lambda trained, held: -float(trained[1]),
    )
    search = Search(candidates, data, budget, seed)
    try:
        # The search does not report progress, because it is part of the polish.
        status = search.run(TrainingMonitor(parent=monitor))
    except TrainingOverflowError:
        return False
    evaluated = search.evaluated
    if status is not None or not evaluated.any():
        return False
    n_before, n_after = (-scores[np.isfinite(scores)].sum() for scores in search.scores)
    if 2 * n_after > n_before:
        return False
    held, (before, after) = search.data.part(evaluated), search.outputs[:, evaluated]
    t = inverse_temperature(before, held.y, held.weight)
    losses = losses_of(t * after, held.y) - losses_of(t * before, held.y)
    errors = (after.argmax(axis=1) != held.y) * 1.0 - (before.argmax(axis=1) != held.y)
    return all(is_within_noise(increase, held.weight, 1.0) for increase in (losses, errors))
