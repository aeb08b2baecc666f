"""Certified training of a sum of terms, with hyper-parameters chosen by cross-validation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxplus.certify import certified_at
from maxplus.estimators._additive import Choice, JointTraining
from maxplus.estimators._cross_validation import SearchBudget, stratified_subsample
from maxplus.estimators._frames import ENCODER, change_of_features
from maxplus.estimators._training_data import TrainingData, looks_like_pixels
from maxplus.models import LMM, AdditiveLMM, FeatureMap, Term
from maxplus.training import Status, TrainingMonitor
from maxplus.training.smooth.annealing import Annealing, Augment
from maxplus.training.smooth.interval import train_interval
from maxplus.training.smooth.soft_terms import OnEpoch
from maxplus.training.smooth.structures import (
    Structure,
    image_windows,
    initial_terms,
    window_terms,
)

# Sizes of the boxes in training, as multiples of the certified box.
FACTORS = (1.0, 1.5, 2.0, 3.0)
FOLDS = 5
BUDGET = SearchBudget(
    survivors=100, first=1.0, others=1.0, min_samples=3_000, fraction=1 / 4, n_folds=FOLDS
)
# For images, the search uses one fold, fewer samples, shorter training runs and fewer units.
IMAGE_BUDGET = BUDGET._replace(survivors=0, first=0.6, min_samples=10_000, fraction=0.0)
IMAGE_UNITS = 5
# Number of images whose clusters initialise the units.
N_IMAGES = 10_000


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
    """Candidate of the search."""

    # Terms of the sum, None for a constant prediction.
    structure: Structure | Windows | None
    # Intervals of `FeatureMap.clip`.
    clip: Any = "range"
    # Size of the boxes in training, as a multiple of the certified box.
    factor: float = 1.0

    def __str__(self) -> str:
        """Return a description of the candidate."""
        if self.structure is None:
            return "a constant"
        return f"{self.structure}; clip {self.clip}; trained at {self.factor:g} times robust_eps"


# Structures for tables. They are not compared in the search, because the noise of the selection
# would outweigh the gain.
BOXES = Structure(has_shapes=False, boxes=8, box_units=3, size=2.0)
SHAPES = Structure(units=2, size=2.0)
CONSTANT = Candidate(None)
# Clipping intervals for pixels in [0, 1], from a single threshold to grey levels.
PIXEL_CLIPS = ((0.4, 0.6), ((0.1, 0.4), (0.5, 0.8)), (0.1, 0.9))


def max_change(robust_eps: Any, scale: NDArray, columns: Mapping[str, Any]) -> NDArray:
    """Return the largest change of each feature, in the unit of the feature.

    ``scale`` is the spread of the features, and ``columns`` the fitted attributes about them.
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
            "robust_eps must be a number, or an array with a number for each of the "
            f"{scale.size} features; got an array of shape {eps.shape}"
        )
    return eps * scale


def make_candidates(
    X: NDArray, structure: Structure, clip: Any, factor: float | str
) -> list[Candidate]:
    """Return the candidates for a table, or windows for square images.

    ``clip`` is None for the default. ``factor="auto"`` uses each of FACTORS. If there are several
    candidates, a constant is added.
    """
    side = math.isqrt(X.shape[1])
    is_image = side * side == X.shape[1] and looks_like_pixels(X)
    terms: Structure | Windows = structure
    clips = ["range" if clip is None else clip]
    if is_image:
        window = -(-side // 2)
        terms = Windows((side, side), window, max(1, round(window * 5 / 14)))
    if is_image and clip is None:
        largest = float(X.max()) or 1.0
        clips = [np.multiply(intervals, largest).tolist() for intervals in PIXEL_CLIPS]
    factors = FACTORS if isinstance(factor, str) else [factor]
    candidates = [Candidate(terms, intervals, size) for intervals in clips for size in factors]
    return candidates if len(candidates) == 1 else [*candidates, CONSTANT]


def certified_accuracy(radius: NDArray, model: AdditiveLMM, data: TrainingData) -> float:
    """Return the fraction of samples certified to be correct for all |x' − x| ≤ radius."""
    Z = model.scores(data.X)
    is_correct = Z.argmax(axis=1) == data.y
    certified = certified_at(model, data.X, 1.0, radius, scores=Z, where=is_correct)
    return float(np.average(certified, weights=data.weight))


@dataclass(frozen=True, kw_only=True)
class RobustTraining(JointTraining):
    """Training stage that chooses a candidate by certified accuracy and trains it.

    A constant prediction, which is certified everywhere, is chosen if no candidate is better.
    """

    # Largest change of each raw feature.
    radius: NDArray
    # Function that returns augmented samples for a batch.
    augment: Augment | None = None

    n_folds: ClassVar[int] = FOLDS

    def budget(self, n_samples: int) -> SearchBudget:
        """Return the number and length of the training runs of the search."""
        return IMAGE_BUDGET if isinstance(self.structures[0].structure, Windows) else BUDGET

    def choose(
        self, data: TrainingData, seed: int, monitor: TrainingMonitor
    ) -> tuple[Choice | None, Status]:
        """Return the choice, or None if the search was interrupted, and the status."""
        choice, status = super().choose(data, seed, monitor)
        if choice is None or choice.scores is None or self.structures[-1].structure is not None:
            return choice, status
        scores = choice.scores[:, np.isfinite(choice.scores[0])].sum(axis=1)
        # If folds differ in size, equal numbers of certified samples give different accuracies.
        tolerance = 0.5 * self.n_folds / len(data.y)
        if scores[-1] > 0 and scores[-1] >= scores[choice.chosen] - tolerance:
            choice = choice._replace(chosen=len(scores) - 1, inverse_temperature=1.0)
        return choice, status

    def annealing_for(self, structure: Any, n_samples: int) -> Annealing:
        """Return the annealing schedule, which is the same for all candidates."""
        return self.annealing

    def prepare(self, data: TrainingData, rng: np.random.Generator) -> Any:
        """Return the samples, because candidates transform features in different ways."""
        return data

    def train(
        self,
        structure: Candidate,
        prepared: TrainingData,
        length: float,
        seed: Sequence[int],
        on_epoch: OnEpoch | None = None,
    ) -> AdditiveLMM:
        """Train a candidate for a fraction of the full length."""
        terms, data = structure.structure, prepared
        # The last entry of the seed is not needed, because `prepare` uses no random numbers here.
        rng = np.random.default_rng(seed[:2])
        feature_map = FeatureMap.clip(data.X, structure.clip)
        if terms is None:
            return constant_model(data, self.n_classes, feature_map)
        if isinstance(terms, Windows):
            part = stratified_subsample(data.y, N_IMAGES, rng)
            start, scale = window_terms(
                image_windows(terms.shape, terms.side, terms.stride),
                feature_map(data.X[part]).astype(np.float32),
                data.y[part],
                self.n_classes,
                terms.units if length == 1.0 else min(terms.units, IMAGE_UNITS),
                terms.size,
                rng,
            )
        else:
            U = feature_map(data.X)
            start, scale = initial_terms(terms, U, data.y, self.n_classes, [], rng)
        return train_interval(
            AdditiveLMM(start.terms, start.n_features, feature_map),
            data.X,
            data.y,
            structure.factor * self.radius,
            self.annealing._replace(scale=scale, length=length),
            rng,
            data.weight,
            self.augment,
            on_epoch,
            # Training runs of a search are executed in threads, and those of tables are short.
            is_parallel=isinstance(terms, Windows) and length == 1.0,
        )


def constant_model(data: TrainingData, n_classes: int, feature_map: FeatureMap) -> AdditiveLMM:
    """Return a model that predicts the class frequencies."""
    share = np.bincount(data.y, data.weight, n_classes) + 0.5
    zero = LMM(np.zeros(2), np.zeros((2, 1)), np.zeros((1, n_classes)))
    term = Term(np.array([0]), zero)
    return AdditiveLMM([term], data.X.shape[1], feature_map, np.log(share / share.sum()))
