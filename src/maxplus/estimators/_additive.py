"""Joint training of a sum of terms, with a structure chosen by cross-validation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from maxplus.distributed import SERIAL, using
from maxplus.estimators._cross_validation import (
    FOLDS,
    MANY_SAMPLES,
    Candidates,
    Search,
    SearchBudget,
    inverse_temperature,
)
from maxplus.estimators._training_data import TrainingData
from maxplus.models import AdditiveLMM, FeatureMap, Model
from maxplus.training import Status, TrainingMonitor, TrainingProblem
from maxplus.training.result import StateError, TrainingState
from maxplus.training.smooth.annealing import Annealing
from maxplus.training.smooth.monotone import (
    MonotonicConstraints,
    constrain,
    deactivate_absent_weights,
)
from maxplus.training.smooth.soft_terms import TERM_ANNEALING, OnEpoch, train_terms
from maxplus.training.smooth.structures import Pair, Structure, initial_terms, select_pairs
from maxplus.training.stages.base import Outcome

# Candidate structures in order of capacity, from shape functions with few units to many boxes.
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
# Budget of the search for fewer than MANY_SAMPLES samples, and for MANY_SAMPLES or more.
BUDGET = SearchBudget(survivors=4, first=0.5, others=0.5, min_samples=3_000, fraction=1 / 4)
BUDGET_MANY_SAMPLES = BUDGET._replace(survivors=3, first=0.25)
# Minimum number of steps of the final training run with MANY_SAMPLES samples or more.
MIN_STEPS_MANY_SAMPLES = 1_000
# A term is weak if its contribution is below both of these fractions, of all contributions and of
# the largest one. Of many terms of similar strength, none is weak.
MIN_CONTRIBUTION, MIN_OF_LARGEST = 0.002, 0.2
# Length of the training run for the selection of pairs, as a fraction of the full length.
PAIRS_LENGTH = 0.25
MAX_PAIRS = 40
# Size of the subsample on which contributions are measured.
N_SUBSAMPLE = 3_000


class PreparedData(NamedTuple):
    """Transformed training samples, and selected features and pairs."""

    feature_map: FeatureMap
    # Transformed samples.
    U: NDArray
    # Classes, or standardised targets of a regression.
    y: NDArray
    # Classes for the initialisation of units.
    labels: NDArray
    weight: NDArray | None
    # Indices of the selected features in ascending order, and selected pairs, best first.
    features: Sequence[int]
    pairs: Sequence[Pair] = ()
    # Location, scale and bounds of the targets of a regression.
    centre: float = 0.0
    spread: float = 1.0
    bounds: NDArray | None = None


class EpochReport:
    """Callback that reports each epoch of a sum of terms to a monitor and records its loss."""

    def __init__(self, monitor: TrainingMonitor, n_epochs: int) -> None:
        self.monitor, self.n_epochs = monitor, n_epochs
        self.losses: list[float] = []
        self.status = Status.MAX_ITER

    def __call__(self, epoch: int, loss: float, current_model: Callable[[], AdditiveLMM]) -> bool:
        """Report an epoch, and return whether training ends."""
        self.losses.append(loss)
        end = Status.MAX_ITER if epoch + 1 == self.n_epochs else None
        # The model is not used without callbacks.
        model: Any = current_model() if self.monitor.has_callbacks else None
        reason = self.monitor.report(
            epoch + 1, self.n_epochs, loss, min(self.losses), model, None, end
        )
        self.status = reason or self.status
        return reason is not None


@dataclass(frozen=True)
class TermTraining(ABC):
    """Joint training of all terms of a sum."""

    n_classes: int
    # Candidates of the search, in order of complexity.
    structures: Sequence[Any]
    annealing: Annealing = TERM_ANNEALING
    # Monotonicity constraint of z_1 − z_0 in each feature: 1, −1 or 0.
    monotonic_signs: NDArray | None = None
    # Name of the loss function in `train_terms`.
    loss: str = "log_loss"

    n_folds: ClassVar[int] = FOLDS

    @abstractmethod
    def prepare(self, data: TrainingData, rng: np.random.Generator) -> Any:
        """Return the input of `train`: transformed features, and selected features and pairs."""

    def candidates(self, **evaluation: Any) -> Candidates:
        """Return the structures as candidates of a search."""
        return Candidates(
            len(self.structures),
            lambda data, seed, job_monitor: self.prepare(data, np.random.default_rng(seed)),
            lambda c, prepared, length, seed, job_monitor: self.train(
                self.structures[c], prepared, length, seed, lambda *_: job_monitor.interrupted
            ),
            **evaluation,
        )

    def annealing_for(self, structure: Structure, n_samples: int) -> Annealing:
        """Return the annealing schedule of a structure for a number of samples."""
        return self.annealing._replace(rate=structure.rate, min_steps=structure.min_steps)

    def train(
        self,
        structure: Any,
        prepared: Any,
        length: float,
        seed: Sequence[int],
        on_epoch: OnEpoch | None = None,
    ) -> AdditiveLMM:
        """Train a structure for a fraction ``length`` of the full number of epochs."""
        annealing = self.annealing_for(structure, len(prepared.U))._replace(length=length)
        rng = np.random.default_rng(seed)
        signs = self.monotonic_signs
        model = self.train_mapped(structure, prepared, annealing, rng, on_epoch, signs)
        return self.to_raw_features(model, prepared)

    def to_raw_features(self, model: AdditiveLMM, prepared: PreparedData) -> AdditiveLMM:
        """Convert a model that takes transformed features to a model that takes raw features."""
        return AdditiveLMM(model.terms, model.n_features, prepared.feature_map)

    def train_mapped(
        self,
        structure: Structure,
        prepared: PreparedData,
        annealing: Annealing,
        rng: np.random.Generator,
        on_epoch: OnEpoch | None = None,
        signs: NDArray | None = None,
    ) -> AdditiveLMM:
        """Train a model that takes transformed features."""
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
            None if signs is None else MonotonicConstraints.from_signs(signs, prepared.feature_map),
        )

    def train_on_all(
        self, chosen: int, data: TrainingData, seed: int, monitor: TrainingMonitor
    ) -> tuple[AdditiveLMM, NDArray, Status]:
        """Train the chosen structure on all samples.

        Returns the model, the loss of each epoch, and the status.
        """
        # Seeds 0 to n_folds − 1 are used by the search.
        seeds = [seed, self.n_folds]
        prepared = self.prepare(data, np.random.default_rng(seeds))
        n_epochs = self.annealing_for(self.structures[chosen], len(data.y)).epochs(len(data.y))
        report = EpochReport(monitor, n_epochs)
        model = self.train(self.structures[chosen], prepared, 1.0, [*seeds, 1], report)
        return model, np.array(report.losses), report.status


class Choice(NamedTuple):
    """Held-out results of a search over structures, and the chosen structure.

    Losses (inf for skipped folds) and scores (−inf for skipped folds) have the shape
    (n_structures, n_folds). The inverse temperature is that of the chosen structure.
    """

    structures: Sequence[Any]
    losses: NDArray
    scores: NDArray | None
    chosen: int
    inverse_temperature: float

    @property
    def fitted_attributes(self) -> dict[str, Any]:
        """Dict with the fitted attribute ``search_``."""
        search = {
            "candidates": np.array([str(structure) for structure in self.structures]),
            "losses": self.losses,
            "chosen": self.chosen,
        }
        return {"search_": search | ({} if self.scores is None else {"scores": self.scores})}


@dataclass(frozen=True)
class TrainedSum(Outcome):
    """Trained sum of terms.

    ``choice`` is None without a search, or if the search was interrupted. ``losses`` are the mean
    losses of all epochs.
    """

    choice: Choice | None
    losses: NDArray

    @property
    def n_iter(self) -> int:
        """Number of epochs."""
        return self.losses.size

    @property
    def arrays(self) -> dict[str, NDArray]:
        """Loss curve."""
        return {"warmup_losses": self.losses}


class SumStage(ABC):
    """Stage that trains a sum of terms on rank 0 with the samples of all ranks.

    Checkpoints are not supported, because training is short.
    """

    name: ClassVar[str] = "warm-up"
    has_state: ClassVar[bool] = False

    def check(self, state: TrainingState, problem: TrainingProblem, kind: type[Model]) -> Model:
        """Raise StateError: this stage cannot be resumed."""
        raise StateError("the training of a sum of terms cannot be resumed")

    def run(
        self,
        model: Any,
        problem: TrainingProblem,
        monitor: TrainingMonitor,
        state: TrainingState | None = None,
    ) -> TrainedSum:
        """Train a sum of terms, and broadcast it."""
        assert problem.rng is not None
        seed = int(problem.rng.integers(2**31))

        def train_on_root(data: TrainingData) -> TrainedSum:
            with using(SERIAL), threadpool_limits(1):
                return self._train(model, replace(data, X=data.X[:]), seed, monitor)

        return TrainingData(problem.X, problem.y, problem.weight).on_first_rank(train_on_root)

    @abstractmethod
    def _train(
        self, model: Any, data: TrainingData, seed: int, monitor: TrainingMonitor
    ) -> TrainedSum:
        """Train on all samples; return the initial ``model`` if no model was trained."""


@dataclass(frozen=True)
class JointTraining(TermTraining, SumStage):
    """Training stage that chooses the structure of a classifier and trains it."""

    structures: Sequence[Any] = STRUCTURES
    # Score of a model on held-out samples that replaces the log loss. Higher is better.
    scorer: Callable[[AdditiveLMM, TrainingData], float] | None = None
    # Maximum number of features in all terms.
    max_features: int | None = None

    def _train(
        self, model: AdditiveLMM, data: TrainingData, seed: int, monitor: TrainingMonitor
    ) -> TrainedSum:
        choice, chosen = None, 0
        if len(self.structures) > 1:
            choice, status = self.choose(data, seed, monitor)
            if choice is None:
                return TrainedSum(model, status, None, np.empty(0))
            chosen = choice.chosen
        monitor.begin(self.name, is_last=True)
        trained, losses, status = self.train_on_all(chosen, data, seed, monitor)
        return TrainedSum(drop_weak_terms(trained, data.X), status, choice, losses)

    def choose(
        self, data: TrainingData, seed: int, monitor: TrainingMonitor
    ) -> tuple[Choice | None, Status]:
        """Return the choice, or None if the search was interrupted, and the status."""
        monitor.begin("choice", is_last=False)
        score = None if self.scorer is None else self._score
        search = Search(self.candidates(score=score), data, self.budget(len(data.y)), seed)
        status = search.run(monitor)
        if status is not None:
            return None, status
        chosen, factor = search.best_candidate(), 1.0
        evaluated = search.evaluated
        if evaluated.any():
            held = search.data.part(evaluated)
            factor = inverse_temperature(search.outputs[chosen, evaluated], held.y, held.weight)
        scores = None if self.scorer is None else search.scores
        choice = Choice(self.structures, search.losses, scores, chosen, factor)
        return choice, Status.MAX_ITER

    def budget(self, n_samples: int) -> SearchBudget:
        """Return the number and length of the training runs of the search."""
        return BUDGET if n_samples < MANY_SAMPLES else BUDGET_MANY_SAMPLES

    def _score(self, model: AdditiveLMM, data: TrainingData) -> float:
        assert self.scorer is not None
        factor = inverse_temperature(model.scores(data.X), data.y, data.weight)
        return self.scorer(model.scaled(factor), data)

    def annealing_for(self, structure: Structure, n_samples: int) -> Annealing:
        """Return the annealing schedule of a structure, with more steps for many samples."""
        annealing = super().annealing_for(structure, n_samples)
        if n_samples < MANY_SAMPLES:
            return annealing
        return annealing._replace(min_steps=max(MIN_STEPS_MANY_SAMPLES, structure.min_steps))

    def prepare(self, data: TrainingData, rng: np.random.Generator) -> PreparedData:
        """Transform features, and select features and pairs.

        Shape functions are trained briefly. Features are ranked by their contributions, and pairs
        by how much of the residuals they explain.
        """
        feature_map = FeatureMap.fit(data.X)
        U = feature_map(data.X)
        features = list(range(U.shape[1]))
        prepared = PreparedData(feature_map, U, data.y, data.y, data.weight, features)
        annealing = TERM_ANNEALING._replace(length=PAIRS_LENGTH)
        shapes = self.train_mapped(Structure(), prepared, annealing, rng)
        if self.max_features is not None:
            order = np.argsort(-_strengths(shapes, _subsample(U)), kind="stable")
            features = sorted(order[: self.max_features].tolist())
        n_pairs = min(len(features), MAX_PAIRS)
        found = select_pairs(U[:, features], data.y, shapes.scores(U), n_pairs)
        pairs = [(features[p], features[q]) for p, q in found]
        return prepared._replace(features=features, pairs=pairs)


def initial_model(
    data: TrainingData, n_classes: int, rng: np.random.Generator, signs: NDArray | None = None
) -> AdditiveLMM:
    """Return the initial model, which has shape functions only."""
    feature_map = FeatureMap.fit(data.X)
    model = initial_terms(Structure(), feature_map(data.X), data.y, n_classes, [], rng).model
    if signs is not None:
        model = deactivate_absent_weights(
            constrain(model, signs), MonotonicConstraints.from_signs(signs, feature_map)
        )
    return AdditiveLMM(model.terms, data.X.shape[1], feature_map)


def drop_weak_terms(model: AdditiveLMM, X: NDArray) -> AdditiveLMM:
    """Return the model without terms that hardly discriminate between classes.

    A term is removed if the mean range of its centred scores over the classes is below 0.2 % of the
    sum over all terms, and below 20 % of that of the strongest term. Its mean scores are added to
    the intercept.
    """
    part = _subsample(X)
    spread = _strengths(model, part)
    is_weak = spread < min(MIN_CONTRIBUTION * spread.sum(), MIN_OF_LARGEST * spread.max())
    if not is_weak.any():
        return model
    terms = [term for term, weak in zip(model.terms, is_weak, strict=True) if not weak]
    intercept = model.intercept + model.term_scores(part).mean(axis=1)[is_weak].sum(axis=0)
    return AdditiveLMM(terms, model.n_features, model.feature_map, intercept)


def _subsample(X: NDArray) -> NDArray:
    """Return an evenly spaced subsample."""
    return X[:: max(1, -(-len(X) // N_SUBSAMPLE))]


def _strengths(model: AdditiveLMM, X: NDArray) -> NDArray:
    """Return the mean range of the centred scores of each term over the classes."""
    Z = model.term_scores(X)
    return np.ptp(Z - Z.mean(axis=1)[:, None], axis=2).mean(axis=1)
