"""Certified training of a sum of terms, with hyper-parameters chosen by cross-validation."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxplus.certify import certified_at
from maxplus.estimators._additive import EpochReport, SumStage, TrainedSum
from maxplus.estimators._cross_validation import deal_folds, stratified_part, temperature
from maxplus.estimators._frames import ENCODER, change_of_features
from maxplus.estimators._training_data import TrainingData, share_a_unit
from maxplus.models import LMM, AdditiveLMM, FeatureMap, Term
from maxplus.training import Status, TrainingMonitor
from maxplus.training.monitor import run_parallel
from maxplus.training.smooth.annealing import Annealing
from maxplus.training.smooth.interval import (
    IMAGE_ANNEALING,
    TABLE_ANNEALING,
    Augment,
    image_windows,
    train_interval,
    window_terms,
)
from maxplus.training.smooth.structures import Structure, initial_terms

# Sizes of the boxes in training, as multiples of the certified box.
FACTORS = (1.0, 1.5, 2.0, 3.0)
# Number of candidates that are evaluated with all factors.
N_BEST = 2
FOLDS = 5
# Minimum size of the subsample in the search, absolute and as a fraction of all rows.
MIN_ROWS, MIN_SHARE = 3_000, 0.25
# For images, the search uses fewer rows, one fold, shorter training runs and fewer units.
IMAGE_ROWS, IMAGE_LENGTH, IMAGE_UNITS = 10_000, 0.6, 5
DEFAULT_ANNEALING = Annealing()


class Windows(NamedTuple):
    """Structure with a term for each square window of an image (`window_terms`)."""

    shape: tuple[int, int]
    side: int = 14
    stride: int = 5
    units: int = 20
    size: float = 10.0

    def __str__(self) -> str:
        """Return a description of the structure."""
        return f"windows of {self.side} × {self.side} pixels, {self.units} units per class"


class Candidate(NamedTuple):
    """Candidate of the search.

    Attributes
    ----------
    structure : Structure or Windows
        Terms of the sum.
    clip : "range", pair or sequence of pairs
        Intervals of `FeatureMap.clip`.
    factor : float
        Size of the boxes in training, as a multiple of the certified box.
    """

    structure: Structure | Windows
    clip: Any = "range"
    factor: float = 1.0

    def __str__(self) -> str:
        """Return a description of the candidate."""
        return f"{self.structure}; clip {self.clip}; trained at {self.factor:g} times robust_eps"


# Structures for tables. A search over more structures adds more noise than it gains.
BOXES = Structure(has_shapes=False, boxes=8, box_units=3, size=2.0)
SHAPES = Structure(units=2, size=2.0)
# Clipping intervals for pixels in [0, 1], from a single threshold to grey levels.
PIXEL_CLIPS = ((0.4, 0.6), ((0.1, 0.4), (0.5, 0.8)), (0.1, 0.9))


def is_positive(robust_eps: Any) -> bool:
    """Return whether any change in ``robust_eps`` is positive."""
    if isinstance(robust_eps, Mapping):
        return any(size != 0 for size in robust_eps.values())
    return bool(np.any(np.asarray(robust_eps) != 0))


def max_change(robust_eps: Any, scale: NDArray, columns: Mapping[str, Any]) -> NDArray:
    """Return the largest change of each feature, in the unit of the feature.

    Parameters
    ----------
    robust_eps : float, array or mapping
        Parameter of `LMMClassifier`.
    scale : ndarray of shape (n_features,)
        Spread of the features.
    columns : mapping
        Fitted attributes about the columns.
    """
    if isinstance(robust_eps, Mapping):
        return change_of_features(columns, robust_eps, len(scale))
    if ENCODER in columns:
        # As in `certificate_scale`, categories and binary columns do not change.
        unit = columns[ENCODER].domain().certificate_scale()
        scale = np.where(unit > 0, 1.0, 0.0) if (scale == 1.0).all() else unit
    eps = np.asarray(robust_eps, np.float64)
    if eps.ndim and eps.shape != scale.shape:
        raise ValueError(
            f"robust_eps must be a number or have one for each of the {scale.size} features; got "
            f"an array of shape {eps.shape}"
        )
    return eps * scale


def make_candidates(X: NDArray, structure: Structure, clip: Any, factor: float) -> list[Candidate]:
    """Return the candidates for a table, or windows for square images.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Training rows.
    structure : Structure
        Structure for tables.
    clip : None, "range", pair or sequence of pairs
        Intervals of `FeatureMap.clip`, or None for the default.
    factor : float
        Factor of all candidates.
    """
    side = math.isqrt(X.shape[1])
    if not (side * side == X.shape[1] and share_a_unit(X)):
        return [Candidate(structure, "range" if clip is None else clip, factor)]
    window = -(-side // 2)
    windows = Windows((side, side), window, max(1, round(window * 5 / 14)))
    largest = float(X.max()) or 1.0
    defaults = [np.multiply(intervals, largest).tolist() for intervals in PIXEL_CLIPS]
    clips = defaults if clip is None else [clip]
    return [Candidate(windows, intervals, factor) for intervals in clips]


class RobustChoice(NamedTuple):
    """Held-out accuracies of the candidates, and the chosen candidate.

    Attributes
    ----------
    candidates : list of Candidate
        Evaluated candidates.
    certified, clean : ndarray of shape (n_candidates, n_folds)
        Certified accuracies and accuracies.
    constant : ndarray of shape (n_folds,)
        Accuracies of predicting the most frequent class.
    chosen : int
        Index of the chosen candidate, −1 for a constant prediction.
    temperature : float
        Optimal temperature of the chosen candidate.
    """

    candidates: list[Candidate]
    certified: NDArray
    clean: NDArray
    constant: NDArray
    chosen: int
    temperature: float

    @property
    def as_search(self) -> dict[str, Any]:
        """Dict with the fitted attribute ``search_``, empty without a search."""
        if not self.certified.size:
            return {}
        names = [*map(str, self.candidates), "a constant"]
        return {
            "search_": {
                "candidates": np.array(names),
                "losses": 1.0 - np.vstack([self.clean, self.constant]),
                "scores": np.vstack([self.certified, self.constant]),
                "chosen": self.chosen % len(names),
            }
        }


@dataclass(frozen=True)
class RobustTraining(SumStage):
    """Training stage that chooses a candidate by certified accuracy and trains it.

    The search first compares all candidates, and then evaluates the two best candidates with other
    factors. A constant prediction, which is certified everywhere, is chosen if no candidate is
    better. Results do not depend on ``n_jobs``.

    Parameters
    ----------
    reach : ndarray of shape (n_features,)
        Largest change of each raw feature.
    candidates : sequence of Candidate
        Candidates in order of complexity.
    factors : sequence of float
        Other factors to evaluate.
    n_jobs : int
        Number of parallel training runs during the search.
    augment : callable, optional
        Function that returns augmented rows for a batch.
    annealing : Annealing
        User-defined number of epochs and batch size.
    """

    reach: NDArray
    candidates: Sequence[Candidate]
    factors: Sequence[float] = FACTORS[1:]
    n_jobs: int = 1
    augment: Augment | None = None
    annealing: Annealing = DEFAULT_ANNEALING

    def choose(
        self, model: AdditiveLMM, rows: TrainingData, seed: int, monitor: TrainingMonitor
    ) -> tuple[RobustChoice | None, Status]:
        """Return the choice, or None if the search was interrupted, and the status."""
        if len(self.candidates) == 1 and not self.factors:
            empty = np.empty((1, 0))
            choice = RobustChoice(list(self.candidates), empty, empty, empty[0], 0, 1.0)
            return choice, Status.MAX_ITER
        monitor.begin("choice", is_last=False)
        search = _Search(self, rows, model.n_classes, seed, monitor, model)
        status = search.run()
        return (search.choice(), Status.MAX_ITER) if status is None else (None, status)

    def _train(
        self, model: AdditiveLMM, rows: TrainingData, seed: int, monitor: TrainingMonitor
    ) -> TrainedSum:
        choice, status = self.choose(model, rows, seed, monitor)
        if choice is None:
            return TrainedSum(model, status, None, np.empty(0))
        if choice.chosen < 0:
            return TrainedSum(constant_model(rows, model.n_classes), status, choice, np.empty(0))
        monitor.begin(self.name, is_last=True)
        candidate = choice.candidates[choice.chosen]
        report = EpochReport(monitor, self.annealing_of(candidate).epochs(len(rows.y)))
        trained = self.trained(candidate, rows, model.n_classes, 1.0, [seed, FOLDS], report, True)
        return TrainedSum(trained, report.status, choice, np.array(report.losses))

    def annealing_of(self, candidate: Candidate, length: float = 1.0) -> Annealing:
        """Return the annealing schedule of a candidate for a fraction of the full length."""
        is_image = isinstance(candidate.structure, Windows)
        default = IMAGE_ANNEALING if is_image else TABLE_ANNEALING
        overrides = {name: getattr(self.annealing, name) for name in ("n_epochs", "batch_size")}
        return default._replace(length=length, **overrides)

    def trained(
        self,
        candidate: Candidate,
        rows: TrainingData,
        n_classes: int,
        length: float,
        seed: Sequence[int],
        report: Callable[..., bool] | None = None,
        is_parallel: bool = False,
    ) -> AdditiveLMM:
        """Train a candidate for a fraction of the full length."""
        rng = np.random.default_rng(seed)
        feature_map = FeatureMap.clip(rows.X, candidate.clip)
        structure = candidate.structure
        if isinstance(structure, Windows):
            part = stratified_part(rows.y, IMAGE_ROWS, rng)
            windows = image_windows(structure.shape, structure.side, structure.stride)
            start, scale = window_terms(
                windows,
                feature_map(rows.X[part]).astype(np.float32),
                rows.y[part],
                n_classes,
                structure.units,
                structure.size,
                rng,
            )
        else:
            start, scale = initial_terms(structure, feature_map(rows.X), rows.y, n_classes, [], rng)
        model = AdditiveLMM(start.terms, start.n_features, feature_map)
        return train_interval(
            model,
            rows.X,
            rows.y,
            candidate.factor * self.reach,
            self.annealing_of(candidate, length)._replace(scale=scale),
            rng,
            rows.weight,
            self.augment,
            report,
            is_parallel,
        )


def constant_model(rows: TrainingData, n_classes: int) -> AdditiveLMM:
    """Return a model that predicts the class frequencies."""
    share = np.bincount(rows.y, rows.weight, n_classes) + 0.5
    zero = LMM(np.zeros(2), np.zeros((2, 1)), np.zeros((1, n_classes)))
    return AdditiveLMM(
        [Term(np.array([0]), zero)],
        rows.X.shape[1],
        FeatureMap.clip(rows.X),
        np.log(share / share.sum()),
    )


class HeldOut(NamedTuple):
    """Scores of held-out rows, and whether each row is certified to be correct."""

    Z: NDArray
    certified: NDArray

    @classmethod
    def of(cls, model: AdditiveLMM, rows: TrainingData, reach: NDArray) -> HeldOut:
        """Evaluate a model, with certificates for |x' − x| ≤ reach."""
        Z = model.scores(rows.X)
        is_correct = Z.argmax(axis=1) == rows.y
        return cls(Z, certified_at(model, rows.X, 1.0, reach, scores=Z, where=is_correct))


class _Search:
    """Cross-validation of all candidates, and of the best ones with other factors."""

    def __init__(
        self,
        training: RobustTraining,
        rows: TrainingData,
        n_classes: int,
        seed: int,
        monitor: TrainingMonitor,
        start: AdditiveLMM,
    ) -> None:
        self.training, self.seed, self.n_classes = training, seed, n_classes
        self.monitor, self.start = monitor, start
        self.is_image = any(isinstance(c.structure, Windows) for c in training.candidates)
        rng = np.random.default_rng(seed)
        n = IMAGE_ROWS if self.is_image else max(MIN_ROWS, int(len(rows.y) * MIN_SHARE))
        self.rows = rows.part(stratified_part(rows.y, n, rng))
        self.fold_of = deal_folds(self.rows.y, FOLDS, rng)
        folds = range(1 if self.is_image else FOLDS)
        self.folds = [fold for fold in folds if (self.fold_of == fold).any()]
        self.candidates = list(training.candidates)
        self.held: dict[tuple[int, int], HeldOut] = {}
        n_best = min(N_BEST, len(self.candidates))
        self.total = len(self.folds) * (len(self.candidates) + n_best * len(training.factors))

    def run(self) -> Status | None:
        """Evaluate the candidates; return a status if the search was interrupted, else None."""
        status = self._evaluate(range(len(self.candidates)))
        if status is not None:
            return status
        best = sorted(range(len(self.candidates)), key=lambda c: -self.accuracy(c))[:N_BEST]
        first = len(self.candidates)
        self.candidates += [
            self.candidates[c]._replace(factor=factor)
            for c in best
            for factor in self.training.factors
        ]
        return self._evaluate(range(first, len(self.candidates)))

    def accuracy(self, c: int) -> float:
        """Return the certified accuracy of a candidate on all held-out rows."""
        certified = [self.held[c, fold].certified for fold in self.folds] or [np.zeros(1)]
        return float(np.average(np.concatenate(certified), weights=self._weight))

    @property
    def _weight(self) -> NDArray | None:
        if self.rows.weight is None or not self.folds:
            return None
        return np.concatenate([self.rows.weight[self.fold_of == k] for k in self.folds])

    def _evaluate(self, numbers: range) -> Status | None:
        todo = [(c, fold) for fold in self.folds for c in numbers]
        jobs = [partial(self._train_and_evaluate, c, fold) for c, fold in todo]
        with closing(run_parallel(jobs, self.training.n_jobs, self.monitor)) as completed:
            for k, held in completed:
                self.held[todo[k]] = held
                loss = 1.0 - float(held.certified.mean())
                best = 1.0 - max(float(h.certified.mean()) for h in self.held.values())
                done = len(self.held)
                end = Status.MAX_ITER if done == self.total else None
                status = self.monitor.report(done, self.total, loss, best, self.start, None, end)
                if status is not None and status.ends_training:
                    return status
        return self.monitor.stop_reason

    def _train_and_evaluate(self, c: int, fold: int, monitor: TrainingMonitor) -> HeldOut:
        candidate, length = self.candidates[c], 1.0
        if isinstance(candidate.structure, Windows):
            n_units = min(candidate.structure.units, IMAGE_UNITS)
            candidate = candidate._replace(structure=candidate.structure._replace(units=n_units))
            length = IMAGE_LENGTH
        model = self.training.trained(
            candidate,
            self.rows.part(self.fold_of != fold),
            self.n_classes,
            length,
            [self.seed, fold],
            lambda *_: monitor.interrupted,
        )
        return HeldOut.of(model, self.rows.part(self.fold_of == fold), self.training.reach)

    def choice(self) -> RobustChoice:
        """Return the candidate with the highest certified accuracy, or the constant."""
        numbers = range(len(self.candidates))
        shape = len(self.candidates), len(self.folds)
        certified, clean, constant = np.empty(shape), np.empty(shape), np.empty(len(self.folds))
        for j, fold in enumerate(self.folds):
            held, kept = (
                self.rows.part(self.fold_of == fold),
                self.rows.part(self.fold_of != fold),
            )
            most_frequent = np.bincount(kept.y, kept.weight, self.n_classes).argmax()
            constant[j] = np.average(held.y == most_frequent, weights=held.weight)
            for c in numbers:
                result = self.held[c, fold]
                certified[c, j] = np.average(result.certified, weights=held.weight)
                clean[c, j] = np.average(result.Z.argmax(axis=1) == held.y, weights=held.weight)
        chosen, factor = 0, 1.0
        if self.folds:
            chosen = max(numbers, key=self.accuracy)
            rows = np.concatenate([np.flatnonzero(self.fold_of == k) for k in self.folds])
            sizes = [np.count_nonzero(self.fold_of == k) for k in self.folds]
            Z = np.concatenate([self.held[chosen, k].Z for k in self.folds])
            held = self.rows.part(rows)
            factor = temperature(Z, held.y, held.weight)
            if self.accuracy(chosen) <= float(np.average(constant, weights=sizes)):
                chosen, factor = -1, 1.0
        return RobustChoice(self.candidates, certified, clean, constant, chosen, factor)
