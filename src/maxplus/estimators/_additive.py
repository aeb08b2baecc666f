"""Joint training of a sum of terms whose structure is chosen by cross-validation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from maxplus.distributed import SERIAL, using
from maxplus.estimators._cross_validation import (
    FOLDS,
    deal_folds,
    losses_of,
    stratified_part,
    temperature,
)
from maxplus.estimators._training_data import TrainingData
from maxplus.models import AdditiveLMM, FeatureMap, Model
from maxplus.training import Status, TrainingMonitor, TrainingProblem
from maxplus.training.monitor import run_parallel
from maxplus.training.result import StateError, TrainingState
from maxplus.training.smooth.annealing import Annealing
from maxplus.training.smooth.monotone import Monotonic, constrain, seal
from maxplus.training.smooth.soft_terms import TERM_ANNEALING, train_terms
from maxplus.training.smooth.structures import Structure, initial_terms, select_pairs
from maxplus.training.stages.base import Outcome

# In order of capacity: from smooth shape functions, for few and noisy rows, to many boxes.
STRUCTURES = (
    Structure(units=1, size=1.5),
    Structure(units=2, size=1.0),
    Structure(units=2, size=2.0),
    Structure(units=2, pairs_per_feature=1.0, size=2.0),
    Structure(units=2, pairs_per_feature=1.0, boxes=4, size=3.0),
    Structure(units=3, pairs_per_feature=1.0, boxes=8, box_units=3, size=4.0),
    Structure(units=3, has_shapes=False, boxes=8, box_units=3, size=6.0),
    Structure(units=3, pairs_per_feature=1.0, boxes=8, box_units=16, size=6.0),
)
# The search uses at least ENOUGH rows, and at least one in PART.
ENOUGH, PART = 3_000, 4
# Number of standard errors from the best structure within which the simplest one is chosen.
WITHIN = 0.25
# Fraction of all contributions below which a term is removed.
WEAK = 0.002
# Length of the training run before pairs are selected, as a fraction of the final one.
PAIRS_LENGTH = 0.25
MOST_PAIRS = 40

R = TypeVar("R")


class Effort(NamedTuple):
    """Number of structures that are evaluated on all folds, and lengths of training runs.

    Lengths, on the first fold and on the others, are fractions of that of the final training run.
    """

    survivors: int
    first: float
    others: float


# Number of rows from which fewer and shorter training runs suffice for the search.
MANY_ROWS = 4_000
FEW, MANY = Effort(4, 0.5, 0.5), Effort(3, 0.25, 0.5)
# Minimum number of steps from MANY_ROWS on.
MANY_STEPS = 1_000

# A user-defined score of a model on held-out rows; higher is better.
Judge = Callable[[AdditiveLMM, TrainingData], float]


class Choice(NamedTuple):
    """Results of structures on held-out rows, and the chosen structure.

    Attributes
    ----------
    losses : array of shape (structures, folds), log losses, inf where a fold was skipped
    scores : array of the same shape, user-defined scores, −inf where a fold was skipped; None
        without such a score
    chosen : index of the chosen structure
    temperature : the best temperature for its scores
    """

    losses: NDArray
    scores: NDArray | None
    chosen: int
    temperature: float


@dataclass(frozen=True)
class Joint(Outcome):
    """A trained sum of terms, the choice of its structure, and the mean soft loss of each epoch.

    ``choice`` is None if training was interrupted during the search.
    """

    choice: Choice | None
    losses: NDArray

    @property
    def n_iter(self) -> int:
        """Return the number of epochs."""
        return self.losses.size

    @property
    def arrays(self) -> dict[str, NDArray]:
        """Return the loss curve."""
        return {"warmup_losses": self.losses}


@dataclass(frozen=True)
class JointTraining:
    """Choose a structure by held-out log loss, and train all its terms jointly on all rows.

    Results do not depend on ``n_jobs``. With several ranks, rank 0 trains on the rows of all ranks,
    because training is short. For the same reason, checkpoints are not supported.

    Parameters
    ----------
    structures : candidates, the simplest first
    n_jobs : number of parallel training runs during the search
    judge : user-defined score by which structures are compared, optional
    annealing : settings of the joint training
    max_features : maximum number of features in all terms, optional
    monotonic_signs : array of shape (P,), 1, −1 or 0, optional
        Directions in which z_1 − z_0 does not decrease or does not increase.
    """

    structures: Sequence[Structure] = STRUCTURES
    n_jobs: int = 1
    judge: Judge | None = None
    annealing: Annealing = TERM_ANNEALING
    max_features: int | None = None
    monotonic_signs: NDArray | None = None

    name: ClassVar[str] = "warm-up"
    has_state: ClassVar[bool] = False

    def check(self, state: TrainingState, problem: TrainingProblem, kind: type[Model]) -> Model:
        """Raise StateError: this stage cannot be resumed."""
        raise StateError("the training of a sum of terms has no state to go on from")

    def run(
        self,
        model: AdditiveLMM,
        problem: TrainingProblem,
        monitor: TrainingMonitor,
        state: TrainingState | None = None,
    ) -> Joint:
        """Search and train; return the initial ``model`` if interrupted during the search."""
        return on_first_rank(problem, lambda rows, seed: self._train(model, rows, seed, monitor))

    def choose(
        self, model: AdditiveLMM, rows: TrainingData, seed: int, monitor: TrainingMonitor
    ) -> tuple[Choice | None, Status]:
        """Return the choice and a status; the choice is None if the search was interrupted."""
        monitor.begin("choice", is_last=False)
        search = _StructureSearch(self, rows, model.n_classes, seed, monitor, model)
        status = search.run()
        return (search.choice(), Status.MAX_ITER) if status is None else (None, status)

    def _train(
        self, model: AdditiveLMM, rows: TrainingData, seed: int, monitor: TrainingMonitor
    ) -> Joint:
        choice, status = self.choose(model, rows, seed, monitor)
        if choice is None:
            return Joint(model, status, None, np.empty(0))
        monitor.begin(self.name, is_last=True)
        everything = prepare(
            rows, model.n_classes, np.random.default_rng([seed, FOLDS]), self.max_features
        )
        losses: list[float] = []

        def report(epoch: int, loss: float, now: Callable[[], AdditiveLMM]) -> bool:
            nonlocal status
            losses.append(loss)
            n_epochs = self._annealing(len(rows.y)).epochs(len(rows.y))
            end = Status.MAX_ITER if epoch + 1 == n_epochs else None
            shown = now() if monitor.has_callbacks else model
            asked = monitor.report(epoch + 1, n_epochs, loss, min(losses), shown, None, end)
            status = asked or status
            return asked is not None

        trained = self.trained(
            self.structures[choice.chosen],
            everything,
            model.n_classes,
            1.0,
            [seed, FOLDS, 1],
            report,
        )
        return Joint(without_weak_terms(trained, rows.X), status, choice, np.array(losses))

    def trained(
        self,
        structure: Structure,
        prepared: Prepared,
        n_classes: int,
        length: float,
        seed: Sequence[int],
        report: Callable[..., bool] | None = None,
    ) -> AdditiveLMM:
        """Train a sum with the given structure for a fraction of the usual number of epochs."""
        rng, U = np.random.default_rng(seed), prepared.U
        pairs = prepared.pairs[: structure.n_pairs(len(prepared.features))]
        start = initial_terms(structure, U, prepared.y, n_classes, pairs, rng, prepared.features)
        annealing = self._annealing(len(U))._replace(scale=start.scale, length=length)
        model = train_terms(
            start.model,
            U,
            prepared.y,
            annealing,
            rng,
            prepared.weight,
            report,
            monotonic=monotonic_of(self.monotonic_signs, prepared.feature_map),
        )
        return AdditiveLMM(model.terms, model.n_features, prepared.feature_map)

    def _annealing(self, n_rows: int) -> Annealing:
        if n_rows < MANY_ROWS:
            return self.annealing
        return self.annealing._replace(min_steps=MANY_STEPS)


def on_first_rank(problem: TrainingProblem, train: Callable[[TrainingData, int], R]) -> R:
    """Train on rank 0, on the rows of all ranks and with a new seed; broadcast the outcome."""
    assert problem.rng is not None
    seed, comm = int(problem.rng.integers(2**31)), problem.comm
    y = comm.gather(problem.y)
    weight = None if problem.weight is None else comm.gather(problem.weight)

    def alone(X: NDArray) -> R:
        with using(SERIAL), threadpool_limits(1):
            return train(TrainingData(X[:], y, weight), seed)

    return comm.root_only(alone, problem.X)


class Prepared(NamedTuple):
    """Transformed rows, the selected features, and the pairs that best explain the residuals."""

    feature_map: FeatureMap
    U: NDArray
    y: NDArray
    weight: NDArray | None
    features: list[int]
    pairs: list[tuple[int, int]]


def prepare(
    rows: TrainingData, n_classes: int, rng: np.random.Generator, max_features: int | None = None
) -> Prepared:
    """Transform features, and select features and pairs by briefly training shape functions.

    Features are ranked by the contributions of their shape functions, pairs by the residuals.
    """
    feature_map = FeatureMap.fit(rows.X)
    U = feature_map(rows.X)
    start = initial_terms(Structure(), U, rows.y, n_classes, [], rng)
    annealing = TERM_ANNEALING._replace(scale=start.scale, length=PAIRS_LENGTH)
    shapes = train_terms(start.model, U, rows.y, annealing, rng, rows.weight)
    features = list(range(U.shape[1]))
    if max_features is not None:
        order = np.argsort(-_strengths(shapes, _some(U)), kind="stable")
        features = sorted(order[:max_features].tolist())
    n_pairs = min(len(features), MOST_PAIRS)
    found = select_pairs(U[:, features], rows.y, shapes.scores(U), n_pairs)
    pairs = [(features[p], features[q]) for p, q in found]
    return Prepared(feature_map, U, rows.y, rows.weight, features, pairs)


def untrained(
    rows: TrainingData, n_classes: int, rng: np.random.Generator, signs: NDArray | None = None
) -> AdditiveLMM:
    """Return an untrained model with shape functions only; O(N·P)."""
    feature_map = FeatureMap.fit(rows.X)
    model = initial_terms(Structure(), feature_map(rows.X), rows.y, n_classes, [], rng).model
    if signs is not None:
        model = seal(constrain(model, signs), Monotonic.of(signs, feature_map))
    return AdditiveLMM(model.terms, rows.X.shape[1], feature_map)


def monotonic_of(signs: NDArray | None, feature_map: FeatureMap) -> Monotonic | None:
    """Return the monotonicity constraints on transformed features; None if there are none."""
    return None if signs is None else Monotonic.of(signs, feature_map)


def without_weak_terms(model: AdditiveLMM, X: NDArray) -> AdditiveLMM:
    """Return the model without terms that hardly discriminate classes; O(N·Σ_t m_t·H_t).

    A term is weak if the mean range of its centred scores over the classes is below 0.2 % of the
    sum over all terms. Its mean scores are added to the intercept.
    """
    some = _some(X)
    spread = _strengths(model, some)
    is_weak = spread < WEAK * spread.sum()
    if not is_weak.any():
        return model
    terms = [term for term, weak in zip(model.terms, is_weak, strict=True) if not weak]
    intercept = model.intercept + model.term_scores(some).mean(axis=1)[is_weak].sum(axis=0)
    return AdditiveLMM(terms, model.n_features, model.feature_map, intercept)


def _some(X: NDArray) -> NDArray:
    """Return an evenly spaced subsample of the rows, large enough to estimate means."""
    return X[:: max(1, -(-len(X) // ENOUGH))]


def _strengths(model: AdditiveLMM, X: NDArray) -> NDArray:
    """Return the mean range over the classes of each term's centred scores, (T,)."""
    Z = model.term_scores(X)
    return np.ptp(Z - Z.mean(axis=1)[:, None], axis=2).mean(axis=1)


class _StructureSearch:
    """Search over structures: all of them on the first fold, the best ones on the others.

    Training runs are shorter than the final one, and large data are subsampled. Log losses are
    computed with the best temperature for each structure.
    """

    def __init__(
        self,
        training: JointTraining,
        rows: TrainingData,
        n_classes: int,
        seed: int,
        monitor: TrainingMonitor,
        start: AdditiveLMM,
    ) -> None:
        self.training, self.seed, self.n_classes = training, seed, n_classes
        self.monitor, self.start = monitor, start
        rng = np.random.default_rng(seed)
        self.rows = rows.part(stratified_part(rows.y, max(ENOUGH, len(rows.y) // PART), rng))
        self.fold_of = deal_folds(self.rows.y, FOLDS, rng)
        K = len(training.structures)
        self.Z = np.full((K, len(self.rows.y), n_classes), np.nan)
        self.losses = np.full((K, FOLDS), np.inf)
        self.scores = np.full((K, FOLDS), -np.inf)
        self.effort = FEW if len(rows.y) < MANY_ROWS else MANY
        self.survivors = list(range(K))
        self.done, self.total = 0, K + (FOLDS - 1) * min(self.effort.survivors, K)

    def run(self) -> Status | None:
        """Evaluate the structures; return the status if training was interrupted, else None."""
        for fold in range(FOLDS):
            if (self.fold_of == fold).any():
                status = self._try(fold)
                if status is not None:
                    return status
            if fold == 0:
                self.survivors = sorted(
                    sorted(self.survivors, key=self._rank)[: self.effort.survivors]
                )
        return None

    def _try(self, fold: int) -> Status | None:
        kept = self.rows.part(self.fold_of != fold)
        held = np.flatnonzero(self.fold_of == fold)
        rng = np.random.default_rng([self.seed, fold])
        prepared = prepare(kept, self.n_classes, rng, self.training.max_features)
        length = self.effort.others if fold else self.effort.first

        def train(structure: Structure, part: TrainingMonitor) -> AdditiveLMM:
            return self.training.trained(
                structure,
                prepared,
                self.n_classes,
                length,
                [self.seed, fold, 1],
                lambda *_: part.interrupted,
            )

        jobs = [partial(train, self.training.structures[c]) for c in self.survivors]
        ended = run_parallel(jobs, self.training.n_jobs, self.monitor)
        with closing(ended):
            for k, model in ended:
                status = self._note(self.survivors[k], fold, held, model)
                if status is not None and status.ends_training:
                    return status
        return self.monitor.stop_reason

    def _note(self, c: int, fold: int, held: NDArray, model: AdditiveLMM) -> Status | None:
        rows = self.rows.part(held)
        self.Z[c, held] = Z = model.scores(rows.X)
        factor = temperature(Z, rows.y, rows.weight)
        loss = float(np.average(losses_of(factor * Z, rows.y), weights=rows.weight))
        self.losses[c, fold] = loss
        if self.training.judge is not None:
            score = self.training.judge(model.scaled(factor), rows)
            self.scores[c, fold] = score if math.isfinite(score) else -np.inf
        self.done += 1
        return self.monitor.report(
            self.done,
            self.total,
            loss,
            float(self.losses.min()),
            self.start,
            None,
            Status.MAX_ITER if self.done == self.total else None,
        )

    def _rank(self, c: int, *folds: int) -> tuple[float, float]:
        """Return the sort key of a structure: the user-defined score, then the loss."""
        known = list(folds or (0,))
        return -float(self.scores[c, known].mean()), float(self.losses[c, known].mean())

    def choice(self) -> Choice:
        """Choose the structure with the best score, or the simplest one of about the best loss."""
        known = np.isfinite(self.Z[self.survivors]).all(axis=(0, 2))
        held = self.rows.part(known)
        judged = None if self.training.judge is None else self.scores
        if not known.any():
            return Choice(self.losses, judged, 0, 1.0)
        factors = {c: temperature(self.Z[c][known], held.y, held.weight) for c in self.survivors}
        if judged is not None:
            folds = np.flatnonzero(np.isfinite(self.losses[self.survivors[0]])).tolist()
            chosen = min(self.survivors, key=lambda c: self._rank(c, *folds))
        else:
            losses = {c: losses_of(factors[c] * self.Z[c][known], held.y) for c in self.survivors}
            chosen = simplest_of_the_best(losses, held.weight)
        return Choice(self.losses, judged, chosen, factors[chosen])


def simplest_of_the_best(losses: dict[int, NDArray], weight: NDArray | None) -> int:
    """Return the first key whose mean loss equals the lowest up to noise."""
    n = len(next(iter(losses.values())))
    share = np.full(n, 1.0 / n) if weight is None else weight / weight.sum()
    best = min(losses, key=lambda c: float(share @ losses[c]))
    for c, own in losses.items():
        more = own - losses[best]
        mean = float(share @ more)
        # Unequal weights reduce the effective number of rows.
        error = math.sqrt(float(share @ (more - mean) ** 2) * float(share @ share))
        if mean <= WITHIN * error:
            return c
    raise AssertionError("the best is as good as itself")
