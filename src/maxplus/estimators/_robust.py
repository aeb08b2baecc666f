"""Certified training of sums of terms, with hyper-parameters chosen by cross-validation."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxplus.certify import certified_at
from maxplus.estimators._additive import on_first_rank
from maxplus.estimators._cross_validation import deal_folds, stratified_part, temperature
from maxplus.estimators._frames import ENCODER, changes_of_columns
from maxplus.estimators._training_data import TrainingData, share_a_unit
from maxplus.explain import Domain
from maxplus.models import LMM, AdditiveLMM, FeatureMap, Model, Term
from maxplus.training import Status, TrainingMonitor, TrainingProblem
from maxplus.training.monitor import run_parallel
from maxplus.training.result import StateError, TrainingState
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
from maxplus.training.stages.base import Outcome

# Sizes of boxes in training, as multiples of the reach to be certified.
FACTORS = (1.0, 1.5, 2.0, 3.0)
# Number of candidates for which other factors are evaluated.
N_BEST = 2
FOLDS = 5
# The search uses at least ENOUGH rows, and at least one in PART.
ENOUGH, PART = 3_000, 4
# For images, the search uses this number of rows, one fold, and shorter training runs.
IMAGES, LENGTH_OF_IMAGES = 10_000, 0.6
UNITS_OF_IMAGES = 5
# No user-defined number of epochs or batch size.
OWN_ANNEALING = Annealing()


class Windows(NamedTuple):
    """A term for each square window of an image; see `image_windows` and `window_terms`."""

    shape: tuple[int, int]
    side: int = 14
    stride: int = 5
    units: int = 20
    size: float = 10.0

    def __str__(self) -> str:
        """Return a description of the structure."""
        return f"windows of {self.side} × {self.side} pixels, {self.units} units per class"


class Candidate(NamedTuple):
    """Candidate of the search: structure, clipping of features, and size of training boxes.

    Attributes
    ----------
    structure : Structure or Windows
    clip : levels of `FeatureMap.clip`
    factor : size of boxes in training, as a multiple of the reach to be certified
    """

    structure: Structure | Windows
    clip: Any = "range"
    factor: float = 1.0

    def __str__(self) -> str:
        """Return a description of the candidate."""
        return f"{self.structure}; clip {self.clip}; trained at {self.factor:g} times robust_eps"


# Structures for tables. Choosing among more structures added more noise than it gained.
BOXES = Structure(has_shapes=False, boxes=8, box_units=3, size=2.0)
SHAPES = Structure(units=2, size=2.0)
# Clips for pixels between 0 and 1, from a single threshold to grey levels.
PIXEL_CLIPS = ((0.4, 0.6), ((0.1, 0.4), (0.5, 0.8)), (0.1, 0.9))


def asks_for_certificates(robust_eps: Any) -> bool:
    """Return whether any feature may change by more than 0."""
    if isinstance(robust_eps, Mapping):
        return any(size != 0 for size in robust_eps.values())
    return bool(np.any(np.asarray(robust_eps) != 0))


def reach_of(robust_eps: Any, scale: NDArray, columns: Mapping[str, Any]) -> NDArray:
    """Return the largest change of each feature in its own unit, shape (P,).

    Parameters
    ----------
    robust_eps : number or array in units of the scale, or mapping of column names to changes in
        raw units, and to "any" for categories
    scale : array of shape (P,), the features' spread
    columns : fitted attributes about the columns
    """
    if isinstance(robust_eps, Mapping):
        reach = np.zeros(len(scale))
        for change in changes_of_columns(columns, robust_eps):
            reach[change.features] = change.size
        return reach
    if ENCODER in columns:
        # As in `certificate_scale`, categories and binary columns are held fixed.
        unit = Domain.of(columns[ENCODER].domain()).certificate_scale()
        scale = np.where(unit > 0, 1.0, 0.0) if (scale == 1.0).all() else unit
    eps = np.asarray(robust_eps, np.float64)
    if eps.ndim and eps.shape != scale.shape:
        raise ValueError(
            f"robust_eps must be a number or have one for each of the {scale.size} features; got "
            f"an array of shape {eps.shape}"
        )
    return eps * scale


def candidates_for(X: NDArray, structure: Structure, clip: Any, factor: float) -> list[Candidate]:
    """Return the candidates for rows X: windows for square images, else sums over features.

    Parameters
    ----------
    X : array of shape (N, P)
    structure : structure for tables
    clip : levels of `FeatureMap.clip`, or None for the default
    factor : factor of all candidates
    """
    side = math.isqrt(X.shape[1])
    if not (side * side == X.shape[1] and share_a_unit(X)):
        return [Candidate(structure, "range" if clip is None else clip, factor)]
    window = -(-side // 2)
    windows = Windows((side, side), window, max(1, round(window * 5 / 14)))
    largest = float(X.max()) or 1.0
    usual = [np.multiply(levels, largest).tolist() for levels in PIXEL_CLIPS]
    clips = usual if clip is None else [clip]
    return [Candidate(windows, levels, factor) for levels in clips]


class RobustChoice(NamedTuple):
    """Accuracies of candidates on held-out rows, and the chosen candidate.

    Attributes
    ----------
    candidates : in the order in which they were evaluated
    certified : array of shape (candidates, folds), certified accuracies
    clean : array of the same shape, accuracies
    constant : array of shape (folds,), accuracies of the class that is most frequent in training
    chosen : index of the chosen candidate; −1 is the constant
    temperature : best temperature for the scores of the chosen candidate
    """

    candidates: list[Candidate]
    certified: NDArray
    clean: NDArray
    constant: NDArray
    chosen: int
    temperature: float

    @property
    def as_search(self) -> dict[str, Any]:
        """The fitted attribute ``search_``; empty if there was no search."""
        if not self.certified.size:
            return {}
        words = [*map(str, self.candidates), "a constant"]
        return {
            "search_": {
                "candidates": np.array(words),
                "losses": 1.0 - np.vstack([self.clean, self.constant]),
                "scores": np.vstack([self.certified, self.constant]),
                "chosen": self.chosen % len(words),
            }
        }


@dataclass(frozen=True)
class Robust(Outcome):
    """A sum trained for certificates, the choice of its candidate, and the mean loss of each epoch.

    ``choice`` is None if training was interrupted during the search.
    """

    choice: RobustChoice | None
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
class RobustTraining:
    """Choose a candidate by cross-validated certified accuracy, and train it on all rows.

    All clips are compared with a factor of 1 first, then the two best ones with the other factors.
    The baseline is a constant prediction, which is certified everywhere: it is chosen if no
    candidate is better on held-out rows. Results do not depend on ``n_jobs``.

    Parameters
    ----------
    reach : array of shape (P,), largest change of each raw feature
    candidates : candidates of the first comparison, the simplest first
    factors : other factors to evaluate
    n_jobs : number of parallel training runs during the search
    augment : function that returns augmented rows for a batch, optional
    annealing : user-defined number of epochs and batch size
    """

    reach: NDArray
    candidates: Sequence[Candidate]
    factors: Sequence[float] = FACTORS[1:]
    n_jobs: int = 1
    augment: Augment | None = None
    annealing: Annealing = OWN_ANNEALING

    name: ClassVar[str] = "warm-up"
    has_state: ClassVar[bool] = False

    def check(self, state: TrainingState, problem: TrainingProblem, kind: type[Model]) -> Model:
        """Raise StateError: this stage cannot be resumed."""
        raise StateError("the certified training of a sum of terms has no state to go on from")

    def run(
        self,
        model: AdditiveLMM,
        problem: TrainingProblem,
        monitor: TrainingMonitor,
        state: TrainingState | None = None,
    ) -> Robust:
        """Search and train; return the initial ``model`` if interrupted during the search."""
        return on_first_rank(problem, lambda rows, seed: self._train(model, rows, seed, monitor))

    def choose(
        self, model: AdditiveLMM, rows: TrainingData, seed: int, monitor: TrainingMonitor
    ) -> tuple[RobustChoice | None, Status]:
        """Return the choice and a status; the choice is None if the search was interrupted."""
        if len(self.candidates) == 1 and not self.factors:
            nothing = np.empty((1, 0))
            only = RobustChoice(list(self.candidates), nothing, nothing, nothing[0], 0, 1.0)
            return only, Status.MAX_ITER
        monitor.begin("choice", is_last=False)
        search = _Search(self, rows, model.n_classes, seed, monitor, model)
        status = search.run()
        return (search.choice(), Status.MAX_ITER) if status is None else (None, status)

    def _train(
        self, model: AdditiveLMM, rows: TrainingData, seed: int, monitor: TrainingMonitor
    ) -> Robust:
        choice, status = self.choose(model, rows, seed, monitor)
        if choice is None:
            return Robust(model, status, None, np.empty(0))
        if choice.chosen < 0:
            return Robust(constant_model(rows, model.n_classes), status, choice, np.empty(0))
        monitor.begin(self.name, is_last=True)
        candidate = choice.candidates[choice.chosen]
        n_epochs = self.annealing_of(candidate).epochs(len(rows.y))
        losses: list[float] = []

        def report(epoch: int, loss: float, now: Callable[[], AdditiveLMM]) -> bool:
            nonlocal status
            losses.append(loss)
            end = Status.MAX_ITER if epoch + 1 == n_epochs else None
            shown = now() if monitor.has_callbacks else model
            asked = monitor.report(epoch + 1, n_epochs, loss, min(losses), shown, None, end)
            status = asked or status
            return asked is not None

        trained = self.trained(candidate, rows, model.n_classes, 1.0, [seed, FOLDS], report, True)
        return Robust(trained, status, choice, np.array(losses))

    def annealing_of(self, candidate: Candidate, length: float = 1.0) -> Annealing:
        """Return the annealing schedule of a candidate for a fraction of the usual length."""
        is_image = isinstance(candidate.structure, Windows)
        usual = IMAGE_ANNEALING if is_image else TABLE_ANNEALING
        own = {name: getattr(self.annealing, name) for name in ("n_epochs", "batch_size")}
        return usual._replace(length=length, **own)

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
        """Train the sum of a candidate for a fraction of the usual length."""
        rng = np.random.default_rng(seed)
        feature_map = FeatureMap.clip(rows.X, candidate.clip)
        structure = candidate.structure
        if isinstance(structure, Windows):
            some = stratified_part(rows.y, IMAGES, rng)
            windows = image_windows(structure.shape, structure.side, structure.stride)
            start, scale = window_terms(
                windows,
                feature_map(rows.X[some]).astype(np.float32),
                rows.y[some],
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
    """Return a constant model whose scores are the log frequencies of the classes."""
    share = np.bincount(rows.y, rows.weight, n_classes) + 0.5
    nothing = LMM(np.zeros(2), np.zeros((2, 1)), np.zeros((1, n_classes)))
    return AdditiveLMM(
        [Term(np.array([0]), nothing)],
        rows.X.shape[1],
        FeatureMap.clip(rows.X),
        np.log(share / share.sum()),
    )


class HeldOut(NamedTuple):
    """Scores of held-out rows, (n, C), and whether each is certified to be correct, (n,)."""

    Z: NDArray
    certified: NDArray

    @classmethod
    def of(cls, model: AdditiveLMM, rows: TrainingData, reach: NDArray) -> HeldOut:
        """Evaluate a model on rows, with certificates for |x' − x| ≤ reach."""
        Z = model.scores(rows.X)
        right = Z.argmax(axis=1) == rows.y
        return cls(Z, certified_at(model, rows.X, 1.0, reach, scores=Z, where=right))


class _Search:
    """Search over candidates: all with a factor of 1, then the best ones with other factors."""

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
        n = IMAGES if self.is_image else max(ENOUGH, len(rows.y) // PART)
        self.rows = rows.part(stratified_part(rows.y, n, rng))
        self.fold_of = deal_folds(self.rows.y, FOLDS, rng)
        folds = range(1 if self.is_image else FOLDS)
        self.folds = [fold for fold in folds if (self.fold_of == fold).any()]
        self.candidates = list(training.candidates)
        self.held: dict[tuple[int, int], HeldOut] = {}
        n_best = min(N_BEST, len(self.candidates))
        self.total = len(self.folds) * (len(self.candidates) + n_best * len(training.factors))

    def run(self) -> Status | None:
        """Evaluate the candidates; return the status if training was interrupted, else None."""
        status = self._try(range(len(self.candidates)))
        if status is not None:
            return status
        best = sorted(range(len(self.candidates)), key=lambda c: -self.accuracy(c))[:N_BEST]
        first = len(self.candidates)
        self.candidates += [
            self.candidates[c]._replace(factor=factor)
            for c in best
            for factor in self.training.factors
        ]
        return self._try(range(first, len(self.candidates)))

    def accuracy(self, c: int) -> float:
        """Return the certified accuracy of a candidate on all held-out rows."""
        known = [(k, self.held[c, k].certified) for k in self.folds]
        right = np.concatenate([certified for _, certified in known] or [np.zeros(1)])
        return float(np.average(right, weights=self._weight))

    @property
    def _weight(self) -> NDArray | None:
        if self.rows.weight is None or not self.folds:
            return None
        return np.concatenate([self.rows.weight[self.fold_of == k] for k in self.folds])

    def _try(self, numbers: range) -> Status | None:
        todo = [(c, fold) for fold in self.folds for c in numbers]
        jobs = [partial(self._job, c, fold) for c, fold in todo]
        with closing(run_parallel(jobs, self.training.n_jobs, self.monitor)) as ended:
            for k, held in ended:
                self.held[todo[k]] = held
                loss = 1.0 - float(held.certified.mean())
                best = 1.0 - max(float(one.certified.mean()) for one in self.held.values())
                done = len(self.held)
                end = Status.MAX_ITER if done == self.total else None
                status = self.monitor.report(done, self.total, loss, best, self.start, None, end)
                if status is not None and status.ends_training:
                    return status
        return self.monitor.stop_reason

    def _job(self, c: int, fold: int, part: TrainingMonitor) -> HeldOut:
        candidate, length = self.candidates[c], 1.0
        if isinstance(candidate.structure, Windows):
            few = min(candidate.structure.units, UNITS_OF_IMAGES)
            candidate = candidate._replace(structure=candidate.structure._replace(units=few))
            length = LENGTH_OF_IMAGES
        model = self.training.trained(
            candidate,
            self.rows.part(self.fold_of != fold),
            self.n_classes,
            length,
            [self.seed, fold],
            lambda *_: part.interrupted,
        )
        return HeldOut.of(model, self.rows.part(self.fold_of == fold), self.training.reach)

    def choice(self) -> RobustChoice:
        """Return the candidate with the largest certified accuracy, or the constant."""
        known = range(len(self.candidates))
        shape = len(self.candidates), len(self.folds)
        certified, clean, constant = np.empty(shape), np.empty(shape), np.empty(len(self.folds))
        for j, fold in enumerate(self.folds):
            held, kept = (
                self.rows.part(self.fold_of == fold),
                self.rows.part(self.fold_of != fold),
            )
            usual = np.bincount(kept.y, kept.weight, self.n_classes).argmax()
            constant[j] = np.average(held.y == usual, weights=held.weight)
            for c in known:
                own = self.held[c, fold]
                certified[c, j] = np.average(own.certified, weights=held.weight)
                clean[c, j] = np.average(own.Z.argmax(axis=1) == held.y, weights=held.weight)
        chosen, factor = 0, 1.0
        if self.folds:
            chosen = max(known, key=self.accuracy)
            rows = np.concatenate([np.flatnonzero(self.fold_of == k) for k in self.folds])
            sizes = [np.count_nonzero(self.fold_of == k) for k in self.folds]
            Z = np.concatenate([self.held[chosen, k].Z for k in self.folds])
            held = self.rows.part(rows)
            factor = temperature(Z, held.y, held.weight)
            if self.accuracy(chosen) <= float(np.average(constant, weights=sizes)):
                chosen, factor = -1, 1.0
        return RobustChoice(self.candidates, certified, clean, constant, chosen, factor)
