"""The capacity, chosen by cross-validation on the training rows.

All candidates are tried on the first fold, the best few on the others, each by a training that is
shorter than the real one. What counts is the log loss of held-out rows after the temperature that
suits each candidate best: a model that is only too sure of itself is no worse.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from maxplus.estimators._calibration import losses_of, temperature
from maxplus.estimators._capacity import Candidate
from maxplus.estimators._views import Views
from maxplus.models import LMM
from maxplus.training import Conductor, Status
from maxplus.training.result import TrainingOverflowError
from maxplus.training.workers import HEARD_WITHIN, workers

STAGE = "choice"
FOLDS = 3
# Candidates that go on to the other folds after the first, and how long trainings are, as a
# share of the real one: in the first fold, and in the others. Many rows tell more with less.
SURVIVORS, FIRST_LENGTH, LENGTH = 4, 0.25, 0.25
MANY_ROWS, SURVIVORS_OF_MANY, FIRST_LENGTH_OF_MANY = 5_000, 3, 0.12
# Of candidates that are as good up to this many standard errors, the most flexible one is taken:
# a part of the rows leans to models that are too small.
TOWARDS_LARGER = 0.25
# Rows to choose on: at least this many, and at least this part.
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
        """Some of them."""
        weight = None if self.weight is None else self.weight[rows]
        return Rows(self.X[rows], self.y[rows], weight)


Look = Callable[[Rows], Mapping[str, Views]]
# The model for some views, of a candidate's size, trained for a share of the usual length with
# this generator; the conductor says when to stop.
Train = Callable[[Rows, Candidate, float, np.random.Generator, Conductor], LMM]


class Search(NamedTuple):
    """What was tried and how it did.

    Attributes
    ----------
    candidates : K sizes
    losses : array (K, folds) of held-out log losses, each after its own temperature; inf where
        a fold was spared
    chosen : which candidate
    temperature : for its scores, from all rows that were held out
    """

    candidates: tuple[Candidate, ...]
    losses: NDArray
    chosen: int
    temperature: float


def choose(
    rows: Rows, candidates: Sequence[Candidate], look: Look, train: Train, seed: int,
    conductor: Conductor, n_jobs: int,
) -> Search:  # fmt: skip
    """The candidate with the lowest held-out log loss, or a more flexible one that is as good.

    Each candidate and fold has a generator of its own and trains on one thread, so that the outcome
    depends on neither ``n_jobs`` nor the order in which they end. Somebody who asks for the end
    (Ctrl-C, a callback) gets a choice by what is known so far. About as much work as
    nine trainings of a quarter's length on two thirds of the rows, and eight more.

    Parameters
    ----------
    rows : all training rows; of many, a stratified part is used
    candidates : at least one
    look : what the candidates see, found from some rows
    train : trains a candidate
    seed : all randomness comes from it
    conductor : hears of each training that is done
    n_jobs : trainings at once, in threads
    """
    rng = np.random.default_rng(seed)
    is_many = len(rows.y) > MANY_ROWS
    rows = rows.part(stratified_part(rows.y, max(ENOUGH, len(rows.y) // PART), rng))
    fold_of = deal_folds(rows.y, FOLDS, rng)
    n_survivors = min(SURVIVORS_OF_MANY if is_many else SURVIVORS, len(candidates))
    lengths = FIRST_LENGTH_OF_MANY if is_many else FIRST_LENGTH, LENGTH
    trials = _Trials(rows, tuple(candidates), train, lengths, seed, conductor, n_jobs)
    trials.total = len(candidates) + (FOLDS - 1) * n_survivors
    trying: Sequence[int] = range(len(candidates))
    with threadpool_limits(1):
        first = [_Fold.of(rows, fold_of, 0, look)]
        if trials.run([(c, fold) for fold in first for c in trying]):
            trying = sorted(trying, key=lambda c: trials.losses[c, 0])[:n_survivors]
            others = [_Fold.of(rows, fold_of, i, look) for i in range(1, FOLDS)]
            trials.run([(c, fold) for fold in others for c in trying])
    return trials.verdict()


class _Fold(NamedTuple):
    """Rows to train on and rows that are held out, as candidates see them."""

    number: int
    held: NDArray
    kept: Mapping[str, Rows]
    seen: Mapping[str, NDArray]

    @classmethod
    def of(cls, rows: Rows, fold_of: NDArray, number: int, look: Look) -> _Fold:
        held, kept = np.flatnonzero(fold_of == number), rows.part(fold_of != number)
        views = look(kept) if held.size else {}
        return cls(
            number, held,
            {kind: Rows(view(kept.X), kept.y, kept.weight) for kind, view in views.items()},
            {kind: view(rows.X[held]) for kind, view in views.items()},
        )  # fmt: skip


class _Trials:
    """Trainings of candidates on folds, and the scores of the rows that were held out."""

    def __init__(
        self, rows: Rows, candidates: tuple[Candidate, ...], train: Train,
        lengths: tuple[float, float], seed: int, conductor: Conductor, n_jobs: int,
    ) -> None:  # fmt: skip
        self.rows, self.candidates, self.train, self.seed = rows, candidates, train, seed
        self.lengths = lengths
        self.conductor, self.n_jobs = conductor, n_jobs
        # What trainings hear: whether to stop, and nothing else.
        self.quiet = Conductor()
        self.scores = np.full((len(candidates), len(rows.y), int(rows.y.max()) + 1), np.nan)
        self.losses = np.full((len(candidates), FOLDS), np.inf)
        self.done, self.total = 0, 0
        self.failure: TrainingOverflowError | None = None

    def run(self, jobs: Sequence[tuple[int, _Fold]]) -> bool:
        """Try candidates on folds, some at once; whether anybody wants the search to go on."""
        pool = workers(self.n_jobs)
        goes_on = False
        try:
            left = {
                pool.submit(self._model, c, fold): (c, fold)
                for c, fold in jobs
                if self.candidates[c].views in fold.kept
            }
            while left:
                wait(left, HEARD_WITHIN, FIRST_COMPLETED)
                for future in [future for future in left if future.done()]:
                    if not self._note(*left.pop(future), future.result()):
                        return False
                if self.conductor.interrupted:
                    return False
            goes_on = True
        finally:
            self.quiet.interrupted = not goes_on
            pool.shutdown(cancel_futures=True)
        return goes_on

    def _model(self, c: int, fold: _Fold) -> LMM | TrainingOverflowError:
        candidate, rng = self.candidates[c], np.random.default_rng([self.seed, fold.number])
        try:
            length = self.lengths[min(fold.number, 1)]
            return self.train(fold.kept[candidate.views], candidate, length, rng, self.quiet)
        except TrainingOverflowError as error:
            return error

    def _note(self, c: int, fold: _Fold, model: LMM | TrainingOverflowError) -> bool:
        """Keep how a candidate did; whether anybody wants the search to go on."""
        self.done += 1
        if isinstance(model, TrainingOverflowError):
            self.failure = model
            return True
        held = self.rows.part(fold.held)
        Z = model.scores(fold.seen[self.candidates[c].views]).astype(np.float64)
        self.scores[c][fold.held] = Z
        losses = losses_of(temperature(Z, held.y, held.weight) * Z, held.y)
        loss = self.losses[c, fold.number] = float(np.average(losses, weights=held.weight))
        status = self.conductor.report(
            self.done, self.total, loss, float(self.losses.min()), model, None,
            Status.MAX_ITER if self.done == self.total else None,
        )  # fmt: skip
        return status is None or not status.ends_training

    def verdict(self) -> Search:
        """The choice, among those that were tried most."""
        tried = np.isfinite(self.losses).sum(axis=1)
        if not tried.any():
            if self.failure is not None:
                raise self.failure
            # Nothing could be held out, or nobody waited: the gentlest is the safest.
            gentlest = min(range(len(tried)), key=lambda c: self.candidates[c].flexibility)
            return Search(self.candidates, self.losses, gentlest, 1.0)
        most = np.flatnonzero(tried == tried.max())
        known = np.isfinite(self.scores[most]).all(axis=(0, 2))
        rows = self.rows.part(known)
        weight = np.ones(len(rows.y)) if rows.weight is None else rows.weight
        share = weight / weight.sum()
        factors, losses = {}, {}
        for c in most:
            Z = self.scores[c][known]
            factors[c] = temperature(Z, rows.y, rows.weight)
            losses[c] = losses_of(factors[c] * Z, rows.y)
        best = min(most, key=lambda c: share @ losses[c])
        close = []
        for c in most:
            more = losses[c] - losses[best]
            mean = share @ more
            # Its standard error, where rows of large weights count as fewer.
            error = math.sqrt((share @ (more - mean) ** 2) * (share @ share))
            if mean <= TOWARDS_LARGER * error:
                close.append(c)
        chosen = max(close, key=lambda c: self.candidates[c].flexibility)
        return Search(self.candidates, self.losses, int(chosen), factors[chosen])


def stratified_part(y: NDArray, n: int, rng: np.random.Generator) -> NDArray:
    """About n row numbers, each class in proportion, and at least six of each that has them."""
    if len(y) <= n:
        return np.arange(len(y))
    parts = []
    for d in np.unique(y):
        own = np.flatnonzero(y == d)
        parts.append(rng.permutation(own)[: max(LEAST_OF_A_CLASS, round(n * own.size / len(y)))])
    return np.sort(np.concatenate(parts))


def deal_folds(y: NDArray, n_folds: int, rng: np.random.Generator) -> NDArray:
    """The fold of each row, each class spread evenly; −1 for the only row of a class.

    Such a row is never held out: there is always a row of every class to train on.
    """
    fold, dealt = np.full(len(y), -1), 0
    for d in np.unique(y):
        own = rng.permutation(np.flatnonzero(y == d))
        if own.size > 1:
            fold[own] = (dealt + np.arange(own.size)) % n_folds
            dealt += own.size
    return fold
