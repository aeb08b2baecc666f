"""The capacity, chosen by cross-validation on the training rows.

All candidates are tried on the first fold, the best few on the others, each by a training that is
shorter than the real one. What counts is the log loss of held-out rows after the temperature that
suits each candidate best: a model that is only too sure of itself is no worse.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from maxplus.distributed import current
from maxplus.estimators._calibration import losses_of, temperature
from maxplus.estimators._capacity import Candidate
from maxplus.estimators._search import FOLDS
from maxplus.estimators._views import Views
from maxplus.models import LMM
from maxplus.training import Conductor, Status
from maxplus.training.result import TrainingOverflowError
from maxplus.training.workers import as_they_end

STAGE = "choice"
# From here on there are many rows.
MANY_ROWS = 4_000
# Of candidates that are as good up to this many standard errors, the most flexible one is taken:
# a part of the rows leans to models that are too small.
TOWARDS_LARGER = 0.25
# Rows to choose on: at least this many, and at least this part.
ENOUGH, PART = 2_000, 8
# Rows of a class that a part of the rows keeps, if there are so many.
LEAST_OF_A_CLASS = 6


class Effort(NamedTuple):
    """How many candidates go on to the other folds after the first, and how long trainings are.

    Lengths are shares of the real one: in the first fold, and in the others.
    """

    survivors: int
    first: float
    others: float


# Many rows tell more with less, and their choice may take no longer than twice the training.
FEW, MANY = Effort(4, 0.25, 0.25), Effort(2, 0.08, 0.2)


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
# How good a model of raw features is on rows that were held out: the user's own measure.
Judge = Callable[[LMM, Rows], float]


class Search(NamedTuple):
    """What was tried and how it did.

    Attributes
    ----------
    candidates : K sizes
    losses : array (K, folds) of held-out log losses, each after its own temperature; inf where
        a fold was spared
    scores : array (K, folds) of what the user measures by, −inf where a fold was spared, or None
    chosen : which candidate
    temperature : for its scores, from all rows that were held out
    """

    candidates: tuple[Candidate, ...]
    losses: NDArray
    scores: NDArray | None
    chosen: int
    temperature: float


def choose(
    rows: Rows, candidates: Sequence[Candidate], look: Look, train: Train, seed: int,
    conductor: Conductor, n_jobs: int, judge: Judge | None = None,
) -> Search:  # fmt: skip
    """The candidate with the lowest held-out log loss, or a more flexible one that is as good.

    Where the user has a measure, the one that does best by it, and among equals by the log loss.

    Each candidate and fold has a generator of its own and trains on one thread, so that the outcome
    depends on neither ``n_jobs`` nor the order in which they end. Somebody who asks for the end
    (Ctrl-C, a callback) gets a choice by what is known so far. About as much work as
    twelve trainings of a quarter's length on two thirds of the rows, and eight more; of many rows,
    about two whole ones.

    Parameters
    ----------
    rows : all training rows; of many, a stratified part is used
    candidates : at least one
    look : what the candidates see, found from some rows
    train : trains a candidate
    seed : all randomness comes from it
    conductor : hears of each training that is done
    n_jobs : trainings at once, in threads
    judge : the user's measure, the more the better
    """
    rng = np.random.default_rng(seed)
    rows, fold_of, effort = folds_of(rows, rng)
    n_survivors = min(effort.survivors, len(candidates))
    trials = _Trials(rows, tuple(candidates), train, effort, seed, conductor, n_jobs, judge)
    trials.total = len(candidates) + (FOLDS - 1) * n_survivors
    trying: Sequence[int] = range(len(candidates))
    with threadpool_limits(1):
        first = [_Fold.of(rows, fold_of, 0, look)]
        if trials.run([(c, fold) for fold in first for c in trying]):
            trying = sorted(trying, key=lambda c: trials.rank(c, 0))[:n_survivors]
            others = [_Fold.of(rows, fold_of, i, look) for i in range(1, FOLDS)]
            trials.run([(c, fold) for fold in others for c in trying])
    return trials.verdict()


class Folds(NamedTuple):
    """Rows to choose on, the fold of each (`deal_folds`), and what choosing may cost."""

    rows: Rows
    fold_of: NDArray
    effort: Effort


def folds_of(rows: Rows, rng: np.random.Generator) -> Folds:
    """All rows, or a stratified part of many, dealt to folds; of all ranks' rows, for each."""
    team = current()
    if team.is_alone:
        return _dealt(rows, rng)
    y, weight = team.collect(rows.y), None if rows.weight is None else team.collect(rows.weight)
    return team.on_first(lambda X: _dealt(Rows(X, y, weight), rng), rows.X)


def _dealt(rows: Rows, rng: np.random.Generator) -> Folds:
    effort = FEW if len(rows.y) < MANY_ROWS else MANY
    rows = rows.part(stratified_part(rows.y, max(ENOUGH, len(rows.y) // PART), rng))
    return Folds(rows, deal_folds(rows.y, FOLDS, rng), effort)


class _Fold(NamedTuple):
    """Rows to train on and rows that are held out, as candidates see them."""

    number: int
    held: NDArray
    views: Mapping[str, Views]
    kept: Mapping[str, Rows]
    seen: Mapping[str, NDArray]

    @classmethod
    def of(cls, rows: Rows, fold_of: NDArray, number: int, look: Look) -> _Fold:
        held, kept = np.flatnonzero(fold_of == number), rows.part(fold_of != number)
        views = look(kept) if held.size else {}
        return cls(
            number, held, views,
            {kind: Rows(view(kept.X), kept.y, kept.weight) for kind, view in views.items()},
            {kind: view(rows.X[held]) for kind, view in views.items()},
        )  # fmt: skip


class _Trials:
    """Trainings of candidates on folds, and the scores of the rows that were held out."""

    def __init__(
        self, rows: Rows, candidates: tuple[Candidate, ...], train: Train,
        effort: Effort, seed: int, conductor: Conductor, n_jobs: int,
        judge: Judge | None,
    ) -> None:  # fmt: skip
        self.rows, self.candidates, self.train, self.seed = rows, candidates, train, seed
        self.effort = effort
        self.conductor, self.n_jobs, self.judge = conductor, n_jobs, judge
        # What trainings hear: whether to stop, and nothing else.
        self.quiet = Conductor()
        self.scores = np.full((len(candidates), len(rows.y), int(rows.y.max()) + 1), np.nan)
        self.losses = np.full((len(candidates), FOLDS), np.inf)
        # What the user measures; the same for all where nobody does.
        self.judged = np.full((len(candidates), FOLDS), -np.inf)
        self.done, self.total = 0, 0
        self.failure: TrainingOverflowError | None = None

    def run(self, jobs: Sequence[tuple[int, _Fold]]) -> bool:
        """Try candidates on folds, some at once; whether anybody wants the search to go on."""
        jobs = [(c, fold) for c, fold in jobs if self.candidates[c].views in fold.kept]
        trainings = [partial(self._model, c, fold) for c, fold in jobs]
        with closing(as_they_end(trainings, self.n_jobs, self.conductor, self.quiet)) as ended:
            for k, model in ended:
                if not self._note(*jobs[k], model):
                    return False
        return not self.conductor.interrupted

    def _model(self, c: int, fold: _Fold) -> LMM | TrainingOverflowError:
        candidate, rng = self.candidates[c], np.random.default_rng([self.seed, fold.number])
        try:
            length = self.effort.others if fold.number else self.effort.first
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
        kind = self.candidates[c].views
        Z = model.scores(fold.seen[kind]).astype(np.float64)
        self.scores[c][fold.held] = Z
        factor = temperature(Z, held.y, held.weight)
        losses = losses_of(factor * Z, held.y)
        loss = self.losses[c, fold.number] = float(np.average(losses, weights=held.weight))
        if self.judge is not None:
            score = self.judge(fold.views[kind].model(model).scaled(factor), held)
            self.judged[c, fold.number] = score if math.isfinite(score) else -np.inf
        status = self.conductor.report(
            self.done, self.total, loss, float(self.losses.min()), model, None,
            Status.MAX_ITER if self.done == self.total else None,
        )  # fmt: skip
        return status is None or not status.ends_training

    def rank(self, c: int, *folds: int) -> tuple[float, float]:
        """What candidates are ordered by, the best first: the user's measure, then the loss."""
        return -self.judged[c, folds].mean(), self.losses[c, folds].mean()

    def verdict(self) -> Search:
        """The choice, among those that were tried most."""
        scores = None if self.judge is None else self.judged
        tried = np.isfinite(self.losses).sum(axis=1)
        if not tried.any():
            if self.failure is not None:
                raise self.failure
            # Nothing could be held out, or nobody waited: the gentlest is the safest.
            gentlest = min(range(len(tried)), key=lambda c: self.candidates[c].flexibility)
            return Search(self.candidates, self.losses, scores, gentlest, 1.0)
        most: list[int] = np.flatnonzero(tried == tried.max()).tolist()
        known = np.isfinite(self.scores[most]).all(axis=(0, 2))
        rows = self.rows.part(known)
        weight = np.ones(len(rows.y)) if rows.weight is None else rows.weight
        share = weight / weight.sum()
        factors: dict[int, float] = {}
        losses: dict[int, NDArray] = {}
        for c in most:
            Z = self.scores[c][known]
            factors[c] = temperature(Z, rows.y, rows.weight)
            losses[c] = losses_of(factors[c] * Z, rows.y)
        if self.judge is None:
            chosen = self._as_good(losses, share)
        else:
            tried_folds = np.flatnonzero(np.isfinite(self.losses[most[0]])).tolist()
            chosen = min(most, key=lambda c: self.rank(c, *tried_folds))
        return Search(self.candidates, self.losses, scores, chosen, factors[chosen])

    def _as_good(self, losses: Mapping[int, NDArray], share: NDArray) -> int:
        """The most flexible of those that are as good as the best, by each row's loss and share."""
        best = min(losses, key=lambda c: share @ losses[c])
        close = []
        for c in losses:
            more = losses[c] - losses[best]
            mean = share @ more
            # Its standard error, where rows of large weights count as fewer.
            error = math.sqrt((share @ (more - mean) ** 2) * (share @ share))
            if mean <= TOWARDS_LARGER * error:
                close.append(c)
        return max(close, key=lambda c: self.candidates[c].flexibility)


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
