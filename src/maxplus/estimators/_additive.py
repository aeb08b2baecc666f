"""Joint training of a sum of terms whose structure is chosen by cross-validation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from maxplus.distributed import SERIAL, using
from maxplus.estimators._cross_validation import (
    FOLDS,
    MANY_ROWS,
    Candidates,
    Effort,
    Search,
    temperature,
)
from maxplus.estimators._training_data import TrainingData
from maxplus.models import AdditiveLMM, FeatureMap, Model
from maxplus.training import Status, TrainingMonitor, TrainingProblem
from maxplus.training.result import StateError, TrainingState
from maxplus.training.smooth.annealing import Annealing
from maxplus.training.smooth.monotone import Monotonic, constrain, seal
from maxplus.training.smooth.soft_terms import TERM_ANNEALING, OnEpoch, train_terms
from maxplus.training.smooth.structures import Pair, Structure, initial_terms, select_pairs
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
# Effort of the search below and from MANY_ROWS rows on.
FEW = Effort(survivors=4, first=0.5, others=0.5, min_rows=3_000, share=1 / 4)
MANY = FEW._replace(survivors=3, first=0.25)
# Minimum number of steps of the final training run from MANY_ROWS rows on.
MANY_STEPS = 1_000
# Fraction of all contributions below which a term is removed.
WEAK = 0.002
# Length of the training run before pairs are selected, as a fraction of the final one.
PAIRS_LENGTH = 0.25
MAX_PAIRS = 40
# Number of rows from which the contributions of terms are measured on a subsample.
ENOUGH = 3_000

R = TypeVar("R")
# A user-defined score of a model on held-out rows; higher is better.
Scorer = Callable[[AdditiveLMM, TrainingData], float]


class Prepared(NamedTuple):
    """Rows for training, and the selected features and pairs.

    Attributes
    ----------
    feature_map, U : the transformation of features, and the transformed rows
    y : classes, or standardised targets
    labels : classes 0..C−1 at whose rows units are initialised
    weight : weights of the rows, optional
    features : increasing indices of the features that terms may have
    pairs : pairs of features that explain most of the residuals of shape functions, best first
    centre, spread : targets are centre + spread·y
    bounds : bounds of predictions, if y are targets
    """

    feature_map: FeatureMap
    U: NDArray
    y: NDArray
    labels: NDArray
    weight: NDArray | None
    features: Sequence[int]
    pairs: Sequence[Pair] = ()
    centre: float = 0.0
    spread: float = 1.0
    bounds: NDArray | None = None


@dataclass(frozen=True)
class TermTraining(ABC):
    """Joint training of all terms of a sum.

    Parameters
    ----------
    n_classes : number of outputs, C
    structures : candidates of the search, the simplest first
    annealing : settings of the training
    monotonic_signs : array of shape (P,), 1, −1 or 0, optional
        Directions in which z_1 − z_0 does not decrease or does not increase.
    loss : loss of `train_terms`
    """

    n_classes: int
    structures: Sequence[Structure]
    annealing: Annealing = TERM_ANNEALING
    monotonic_signs: NDArray | None = None
    loss: str = "log_loss"

    @abstractmethod
    def prepare(self, rows: TrainingData, rng: np.random.Generator) -> Prepared:
        """Transform features, and select features and pairs."""

    def candidates(self, **evaluation: Any) -> Candidates:
        """Return the structures as candidates of a search."""
        return Candidates(
            len(self.structures),
            lambda rows, seed, quiet: self.prepare(rows, np.random.default_rng(seed)),
            lambda c, prepared, length, seed, quiet: self.train(
                self.structures[c], prepared, length, seed, lambda *_: quiet.interrupted
            ),
            **evaluation,
        )

    def annealing_for(self, n_rows: int) -> Annealing:
        """Return the settings of the training for a number of rows."""
        return self.annealing

    def train(
        self,
        structure: Structure,
        prepared: Prepared,
        length: float,
        seed: Sequence[int],
        on_epoch: OnEpoch | None = None,
    ) -> AdditiveLMM:
        """Train a sum with the given structure for a fraction of the usual number of epochs."""
        annealing = self.annealing_for(len(prepared.U))._replace(length=length)
        rng = np.random.default_rng(seed)
        signs = self.monotonic_signs
        model = self.train_mapped(structure, prepared, annealing, rng, on_epoch, signs)
        return self.of_raw_features(model, prepared)

    def of_raw_features(self, model: AdditiveLMM, prepared: Prepared) -> AdditiveLMM:
        """Return a sum of transformed features as a sum of raw features."""
        return AdditiveLMM(model.terms, model.n_features, prepared.feature_map)

    def train_mapped(
        self,
        structure: Structure,
        prepared: Prepared,
        annealing: Annealing,
        rng: np.random.Generator,
        on_epoch: OnEpoch | None = None,
        signs: NDArray | None = None,
    ) -> AdditiveLMM:
        """Train a sum of transformed features."""
        U, features = prepared.U, prepared.features
        pairs = prepared.pairs[: structure.n_pairs(len(features))]
        start = initial_terms(structure, U, prepared.labels, self.n_classes, pairs, rng, features)
        return train_terms(
            start.model,
            U,
            prepared.y,
            annealing._replace(scale=start.scale),
            rng,
            prepared.weight,
            on_epoch,
            self.loss,
            None if signs is None else Monotonic.of(signs, prepared.feature_map),
        )

    def train_on_all(
        self, chosen: int, rows: TrainingData, seed: int, monitor: TrainingMonitor
    ) -> tuple[AdditiveLMM, NDArray, Status]:
        """Train the chosen structure; return the model, the loss of each epoch, and a status."""
        prepared = self.prepare(rows, np.random.default_rng([seed, FOLDS]))
        n_epochs = self.annealing_for(len(rows.y)).epochs(len(rows.y))
        losses: list[float] = []
        status = Status.MAX_ITER

        def report(epoch: int, loss: float, now: Callable[[], AdditiveLMM]) -> bool:
            nonlocal status
            losses.append(loss)
            end = Status.MAX_ITER if epoch + 1 == n_epochs else None
            # The model is for callbacks only.
            model: Any = now() if monitor.has_callbacks else None
            reason = monitor.report(epoch + 1, n_epochs, loss, min(losses), model, None, end)
            status = reason or status
            return reason is not None

        model = self.train(self.structures[chosen], prepared, 1.0, [seed, FOLDS, 1], report)
        return model, np.array(losses), status


class Choice(NamedTuple):
    """Held-out results of a search over structures, and the chosen structure.

    Attributes
    ----------
    losses : array of shape (structures, folds), log losses, inf where a fold was skipped
    scores : user-defined scores of the same shape, −inf where a fold was skipped; None without
        such a score
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
class JointTraining(TermTraining):
    """Training stage of a classifier: choose a structure by held-out loss, and train it.

    With several ranks, rank 0 trains on the rows of all ranks, because training is short. For the
    same reason, checkpoints are not supported.

    Parameters
    ----------
    scorer : user-defined score by which structures are compared instead of the loss, optional
    max_features : maximum number of features in all terms, optional
    """

    structures: Sequence[Structure] = STRUCTURES
    scorer: Scorer | None = None
    max_features: int | None = None

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

        def search_and_train(rows: TrainingData, seed: int) -> Joint:
            choice, status = self.choose(rows, seed, monitor)
            if choice is None:
                return Joint(model, status, None, np.empty(0))
            monitor.begin(self.name, is_last=True)
            trained, losses, status = self.train_on_all(choice.chosen, rows, seed, monitor)
            return Joint(without_weak_terms(trained, rows.X), status, choice, losses)

        return on_first_rank(problem, search_and_train)

    def choose(
        self, rows: TrainingData, seed: int, monitor: TrainingMonitor
    ) -> tuple[Choice | None, Status]:
        """Return the choice and a status; the choice is None if the search was interrupted."""
        monitor.begin("choice", is_last=False)
        score = None if self.scorer is None else self._score
        effort = FEW if len(rows.y) < MANY_ROWS else MANY
        search = Search(self.candidates(score=score), rows, effort, seed)
        status = search.run(monitor)
        if status is not None:
            return None, status
        chosen, factor = search.chosen(), 1.0
        known = search.known
        if known.any():
            held = search.rows.part(known)
            factor = temperature(search.outputs[chosen, known], held.y, held.weight)
        scores = None if self.scorer is None else search.scores
        return Choice(search.losses, scores, chosen, factor), Status.MAX_ITER

    def _score(self, model: AdditiveLMM, rows: TrainingData) -> float:
        assert self.scorer is not None
        factor = temperature(model.scores(rows.X), rows.y, rows.weight)
        return self.scorer(model.scaled(factor), rows)

    def annealing_for(self, n_rows: int) -> Annealing:
        """Return the settings of the training, with more steps for many rows."""
        if n_rows < MANY_ROWS:
            return self.annealing
        return self.annealing._replace(min_steps=MANY_STEPS)

    def prepare(self, rows: TrainingData, rng: np.random.Generator) -> Prepared:
        """Transform features, and select features and pairs by briefly training shape functions.

        Features are ranked by the contributions of their shape functions, pairs by the residuals.
        """
        feature_map = FeatureMap.fit(rows.X)
        U = feature_map(rows.X)
        features = list(range(U.shape[1]))
        prepared = Prepared(feature_map, U, rows.y, rows.y, rows.weight, features)
        annealing = TERM_ANNEALING._replace(length=PAIRS_LENGTH)
        shapes = self.train_mapped(Structure(), prepared, annealing, rng)
        if self.max_features is not None:
            order = np.argsort(-_strengths(shapes, _subsample(U)), kind="stable")
            features = sorted(order[: self.max_features].tolist())
        n_pairs = min(len(features), MAX_PAIRS)
        found = select_pairs(U[:, features], rows.y, shapes.scores(U), n_pairs)
        pairs = [(features[p], features[q]) for p, q in found]
        return prepared._replace(features=features, pairs=pairs)


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


def untrained(
    rows: TrainingData, n_classes: int, rng: np.random.Generator, signs: NDArray | None = None
) -> AdditiveLMM:
    """Return an untrained model with shape functions only; O(N·P)."""
    feature_map = FeatureMap.fit(rows.X)
    model = initial_terms(Structure(), feature_map(rows.X), rows.y, n_classes, [], rng).model
    if signs is not None:
        model = seal(constrain(model, signs), Monotonic.of(signs, feature_map))
    return AdditiveLMM(model.terms, rows.X.shape[1], feature_map)


def without_weak_terms(model: AdditiveLMM, X: NDArray) -> AdditiveLMM:
    """Return the model without terms that hardly discriminate classes; O(N·Σ_t m_t·H_t).

    A term is weak if the mean range of its centred scores over the classes is below 0.2 % of the
    sum over all terms. Its mean scores are added to the intercept.
    """
    part = _subsample(X)
    spread = _strengths(model, part)
    is_weak = spread < WEAK * spread.sum()
    if not is_weak.any():
        return model
    terms = [term for term, weak in zip(model.terms, is_weak, strict=True) if not weak]
    intercept = model.intercept + model.term_scores(part).mean(axis=1)[is_weak].sum(axis=0)
    return AdditiveLMM(terms, model.n_features, model.feature_map, intercept)


def _subsample(X: NDArray) -> NDArray:
    """Return an evenly spaced subsample of the rows, large enough to estimate means."""
    return X[:: max(1, -(-len(X) // ENOUGH))]


def _strengths(model: AdditiveLMM, X: NDArray) -> NDArray:
    """Return the mean range over the classes of each term's centred scores, (T,)."""
    Z = model.term_scores(X)
    return np.ptp(Z - Z.mean(axis=1)[:, None], axis=2).mean(axis=1)
