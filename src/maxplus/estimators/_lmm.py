"""Linear-Min-Max classifiers: scaling, initial boxes, fitted attributes, folding, pruning."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from copy import deepcopy
from threading import Lock
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    RobustScaler,
    StandardScaler,
)
from sklearn.utils.validation import check_is_fitted

from maxplus.distributed import SharedRows, current
from maxplus.distributed.shared_rows import count_nonzero
from maxplus.estimators._base import Start
from maxplus.estimators._cross_validation import Rows
from maxplus.estimators._dataset import LabelledData, check_sample_weight, mean_loss, rows_for
from maxplus.estimators._explain import ExplainedClassifier
from maxplus.estimators._parameters import threads
from maxplus.explain import feature_importances, term_means
from maxplus.explain.importances import ENOUGH
from maxplus.models import LMM, AdditiveLMM
from maxplus.models.additive import useless_units, with_units
from maxplus.models.initialization import box_lmm, box_lmm_bytes, class_distance
from maxplus.training import memory
from maxplus.training.result import StateError, TrainingState
from maxplus.training.stages import Trained

CENTRE, SPREAD = "centre", "spread"
# Quantiles between which values are ordinary; farther than 1.5 times their distance is far out.
ORDINARY, REACH = (0.05, 0.95), 1.5
# A feature whose deviation is this small a part of its size does not vary, but for rounding.
ROUNDING = 1e-12
# More features than this of one range, this share of whose values is 0, are an image's pixels.
MANY, EMPTY = 50, 0.25
# Numbers that are brought into float64 at once.
AT_ONCE = 4_000_000


class Scaling(NamedTuple):
    """z = (x − centre) / spread; arrays of shape (P,)."""

    centre: NDArray
    spread: NDArray

    @classmethod
    def none(cls, n_features: int) -> Scaling:
        """Features as they are."""
        return cls(np.zeros(n_features), np.ones(n_features))

    @classmethod
    def of(cls, X: NDArray) -> Scaling:
        """Mean and standard deviation of each feature, far values brought in; O(N·P).

        Far is beyond the 5 % and 95 % quantiles by more than 1.5 times their distance. A
        feature whose quantiles coincide (a rare word) has no far values; a constant one has
        the spread 1. Features that share one unit (`share_a_unit`) keep it.
        """
        N, P = X.shape
        if share_a_unit(X):
            return cls.none(P)
        centre, spread = np.empty(P), np.empty(P)
        step = max(1, AT_ONCE // N)
        for lo in range(0, P, step):
            part = slice(lo, lo + step)
            Z = X[:, part].astype(np.float64)
            low, high = np.quantile(Z, ORDINARY, axis=0)
            width = np.where(high > low, REACH * (high - low), np.inf)
            Z = np.clip(Z, low - width, high + width)
            centre[part], spread[part] = Z.mean(axis=0), Z.std(axis=0)
        least = np.maximum(ROUNDING * np.abs(centre), 1e4 * float(np.finfo(X.dtype).tiny))
        return cls(centre, np.where(spread > least, spread, 1.0))

    @classmethod
    def of_facts(cls, facts: Mapping[str, NDArray]) -> Scaling:
        """Return the one that `facts` describes."""
        return cls(facts[CENTRE], facts[SPREAD])

    @property
    def facts(self) -> dict[str, NDArray]:
        """Both arrays by the names that checkpoints keep them under."""
        return {CENTRE: self.centre, SPREAD: self.spread}

    @property
    def is_none(self) -> bool:
        """Whether it changes nothing."""
        return not self.centre.any() and bool((self.spread == 1.0).all())

    def __call__(self, X: NDArray) -> NDArray:
        """The features in units of their spread, in X's type; X itself where nothing changes."""
        if isinstance(X, SharedRows):
            return X.seen(self)
        if self.is_none:
            return X
        return in_parts(X, lambda rows: (rows - self.centre) / self.spread, X.shape[1])

    def inverse(self, Z: NDArray) -> NDArray:
        """Return the features, up to rounding, in Z's type."""
        return Z if self.is_none else (Z * self.spread + self.centre).astype(Z.dtype)

    def folded(self, model: LMM) -> LMM:
        """Return the model that takes x where this one takes z."""
        return model if self.is_none else model.folded(self.centre, self.spread)


def check_scaling(state: TrainingState, n_features: int) -> None:
    """StateError if the scaling that a state knows cannot be."""
    n = state.array(f"before.{CENTRE}", np.float64, (None,)).size
    if n != n_features:
        raise StateError(f"its weights are for {n} features, but X has {n_features}")
    if not (state.array(f"before.{SPREAD}", np.float64, (n_features,)) > 0).all():
        raise StateError("its spread is not above 0 everywhere")


def in_parts(X: NDArray, see: Callable[[NDArray], NDArray], width: int) -> NDArray:
    """``see`` of some rows at a time in float64, the results in X's type."""
    seen = np.empty((len(X), width), X.dtype)
    step = max(1, AT_ONCE // max(X.shape[1], 1))
    for lo in range(0, len(X), step):
        part = slice(lo, lo + step)
        seen[part] = see(X[part].astype(np.float64))
    return seen


def share_a_unit(X: NDArray) -> bool:
    """Whether the features look like pixels on an empty ground; O(N·P).

    That is: more than 50 features, none below 0, a quarter of all values or more exactly 0, and one
    range for all: within [0, 1], or most features come halfway to the largest value. A pixel
    at the border that is hardly ever used would be blown up by its own spread.
    """
    if X.shape[1] <= MANY or X.min() < 0 or count_nonzero(X) > (1.0 - EMPTY) * X.size:
        return False
    highest = X.max(axis=0)
    return bool(highest.max() <= 1.0 or np.median(highest) >= 0.5 * highest.max())


# The slope is this over the distance between classes, where no other is known to be better.
# Steeper than the paper's k: soft minima need units that end within a typical distance.
CLASS_SLOPE = 15.0
# Units per class that grow with the number of samples stay within these.
LEAST_UNITS, MOST_UNITS = 10, 50
# Units per class that any data may have.
FEW_UNITS = 3
# Rows that are looked at together.
ROWS_AT_ONCE = 4096
# Clusters are found with a warning silenced, which Python does for all threads alike.
ONE_AT_A_TIME = Lock()


class Capacity(NamedTuple):
    """Hidden units and slope of a single network; None follows the data."""

    n_hidden: int | None = None
    slope: float | None = None

    def hidden_for(self, X: NDArray, n_classes: int) -> int:
        """Return the hidden units for samples X: √(N / C) per class within 10 and 50, if not given.

        There are no more than different samples: units on one and the same point add up in a soft
        maximum, but not in the hard one.
        """
        if self.n_hidden is not None:
            return self.n_hidden
        per_class = min(max(round(math.sqrt(len(X) / n_classes)), LEAST_UNITS), MOST_UNITS)
        wanted = n_classes * per_class
        return min(wanted, max(FEW_UNITS * n_classes, count_different(X, wanted)))


class Boxes(NamedTuple):
    """A start: boxes of this slope, where the distance between classes is this."""

    model: LMM
    slope: float
    distance: float


def boxes_for(
    rows: Rows, n_classes: int, capacity: Capacity, init_margin: float | None,
    rng: np.random.Generator,
) -> Boxes:  # fmt: skip
    """Return where the training of a single network begins.

    Parameters
    ----------
    rows : scaled features, classes and weights
    n_classes : C
    capacity : units and slope
    init_margin : how far below its own class a unit starts for others; slope times distance if None
    rng : what clusters begin with
    """
    X, y = rows.X, rows.y
    distance = class_distance(X, y, rng)
    slope = CLASS_SLOPE / distance if capacity.slope is None else capacity.slope
    check_reach(X, slope)
    drop = slope * distance if init_margin is None else float(init_margin)
    n_hidden = capacity.hidden_for(X, n_classes)
    memory.require(
        box_lmm_bytes(X, y, n_hidden, n_classes), f"a start with n_hidden={n_hidden:,}",
        memory.FEWER_UNITS,
    )  # fmt: skip
    with ONE_AT_A_TIME:
        model = box_lmm(X, y, n_hidden, n_classes, slope, drop, rng)
    if rows.weight is not None:
        model.W2 += light_classes(y, rows.weight, n_classes).astype(model.dtype)
    return Boxes(model, slope, distance)


def count_different(X: NDArray, enough: int) -> int:
    """Return how many rows differ from all others, counted up to ``enough``; O(N·P)."""
    seen: set[bytes] = set()
    for lo in range(0, len(X), ROWS_AT_ONCE):
        for row in np.ascontiguousarray(X[lo : lo + ROWS_AT_ONCE]):
            seen.add(row.tobytes())
            if len(seen) >= enough:
                return len(seen)
    return len(seen)


def light_classes(y: NDArray, weight: NDArray, n_classes: int) -> NDArray:
    """Return how far below the others each class begins: log of its weight's share, at most 0.

    A start from boxes takes all classes for equally likely. A class that weighs less than another,
    per sample and in sum, is less likely by that much; steps on samples of
    little weight would hardly get there.
    """
    count, total = np.bincount(y, minlength=n_classes), np.bincount(y, weight, n_classes)
    seen = count > 0
    mean = total / np.maximum(count, 1)
    share = np.maximum(mean / mean.max(), total / total.max())
    return np.log(share, where=seen & (share > 0), out=np.zeros(n_classes))


SLOPE, PROTOTYPES, WINS, DISTANCE = "slope", "prototypes", "unit_activation_counts", "distance"
# How stages went, and the fitted attributes for it.
COURSES = {
    "warmup_losses": "loss_curve_",
    "validation_scores": "validation_scores_",
    "polish_losses": "polish_losses_",
}


def check_reach(X: NDArray, slope: float) -> None:
    """Refuse features that times the slope leave the range of their float type."""
    largest = max(float(X.max()), -float(X.min()))
    reach = max(1.0, slope) * max(1.0, largest)
    if not reach < 1e-4 * np.finfo(X.dtype).max:
        raise ValueError(
            f"X reaches {largest:g}, which times slope {slope:g} does not fit into "
            f"{X.dtype}; scale the features (for example with StandardScaler) or set slope"
        )


def check_lmm_facts(state: TrainingState) -> None:
    """StateError if what a state knows of the start cannot be."""
    for name in (SLOPE, DISTANCE):
        if name in state.before or name == SLOPE:
            (value,) = state.array(f"before.{name}", np.float64, (1,))
            if not value > 0:
                raise StateError(f"its {name} cannot be {value}")
    for name in (PROTOTYPES, WINS):
        if name in state.before:
            numbers = state.array(f"before.{name}", np.int64, (None,))
            if numbers.min(initial=0) < 0:
                raise StateError(f"its {name} hold a number below 0")


def lmm_facts(data: LabelledData, facts: Mapping[str, NDArray], model: LMM) -> dict[str, Any]:
    """Fitted attributes of LMM classifiers, from the facts of the start and of all stages."""
    # Samples of earlier calls are gone; units that they needed then should stay.
    comm = current()
    wins = comm.sum(model.wins(data.X)) + facts.get(WINS, 0)
    fitted: dict[str, Any] = {
        "slope_": float(facts[SLOPE][0]), "unit_activation_counts_": wins,
        "scale_": facts.get(SPREAD, np.ones(data.X.shape[1])),
        "feature_importances_": comm.root_only(
            lambda X: feature_importances(model, X[:: max(1, -(-len(X) // ENOUGH))]), data.X
        ),
    }  # fmt: skip
    if PROTOTYPES in facts:
        fitted["prototypes_"] = facts[PROTOTYPES]
    if "suspects" in facts:
        fitted["suspects_"] = data.given[facts["suspects"]]
    return fitted | {own: facts[name] for name, own in COURSES.items() if name in facts}


def sum_facts(
    data: LabelledData, facts: Mapping[str, NDArray], model: AdditiveLMM
) -> dict[str, Any]:
    """Return the fitted attributes that sums of terms have beside those of all classifiers."""
    comm = current()

    def means(X: NDArray) -> tuple[NDArray, NDArray]:
        some = X[:: max(1, -(-len(X) // ENOUGH))]
        return term_means(model, some), feature_importances(model, some)

    own_means, importances = comm.root_only(means, data.X)
    return {
        "scale_": facts[SPREAD], "unit_activation_counts_": comm.sum(model.wins(data.X)),
        "term_means_": own_means, "feature_importances_": importances,
    }  # fmt: skip


Classifier = TypeVar("Classifier", bound=Any)


def fold_affine(
    classifier: Classifier,
    centre: ArrayLike,
    spread: ArrayLike,
    X: Any = None,
    sample_weight: ArrayLike | None = None,
) -> Classifier:
    """Let a classifier that was trained on (x − centre) / spread take x itself.

    All fitted facts follow, or none: ``model_``; ``scale_``, which ``slope_`` is per unit of,
    is multiplied by spread; and, where X is given, ``training_losses_``, ``max_loss_`` and
    ``mean_loss_`` are those of the new weights, which differ from the old by rounding. Samples
    that were left out keep their NaN. O(P·H), and O(N·P·H) with X.

    Parameters
    ----------
    classifier : a fitted classifier whose ``model_`` is an LMM, changed in place
    centre, spread : numbers or arrays of shape (n_features,)
        For example ``mean_`` and ``scale_`` of a StandardScaler.
    X : array of shape (n_samples, n_features), optional
        The training samples before the scaling.
    sample_weight : array of shape (n_samples,), optional
        Their weights in training, for ``mean_loss_``.

    Returns
    -------
    the classifier
    """
    model = classifier.model_.folded(centre, spread)
    spread = np.broadcast_to(np.asarray(spread, np.float64), model.n_features)
    facts = {"model_": model, "scale_": getattr(classifier, "scale_", 1.0) * spread}
    if X is not None:
        facts |= _judged(classifier, model, X, sample_weight)
    classifier.__dict__ = vars(classifier) | facts
    return classifier


def _judged(classifier: Any, model: LMM, X: Any, sample_weight: ArrayLike | None) -> dict[str, Any]:
    """What `fit` says about the training samples, for other weights."""
    labels = classifier.training_labels_
    # One of several ranks may have no rows.
    X = rows_for(classifier, X, model, ("W0",)) if len(labels) else np.asarray(X)
    if len(X) != len(labels):
        raise ValueError(
            f"X must be the {len(labels)} training samples, before the scaling; it has {len(X)} "
            "rows"
        )
    weight = check_sample_weight(sample_weight, len(labels))
    index = np.flatnonzero(~np.isnan(classifier.training_losses_))
    losses = np.full(len(labels), np.nan)
    with threads(classifier.n_jobs):
        if index.size:
            losses[index] = model.losses(
                X[index], np.searchsorted(classifier.classes_, labels[index])
            )
    own = losses[index]
    return {
        "training_losses_": losses,
        "max_loss_": current().largest(float(own.max(initial=-np.inf))),
        "mean_loss_": mean_loss(own, None if weight is None else weight[index]),
    }


Self = TypeVar("Self", bound="BaseLMMClassifier")


class Pruned(NamedTuple):
    """How many units went, how many of those can win nowhere, and how many are left."""

    dropped: int
    provable: int
    left: int


class LMMWeights:
    """The weights as fitted attributes, where ``model_`` is an LMM; sums have them in each term."""

    model_: Any

    @property
    def W0_(self) -> NDArray:
        """The two slopes of each feature, + then −; shape (2P,)."""
        return self.model_.W0

    @property
    def W1_(self) -> NDArray:
        """Offsets of the min-plus layer, shape (2P, H)."""
        return self.model_.W1

    @property
    def W2_(self) -> NDArray:
        """Offsets of the max-plus layer, shape (H, C); heights (H, 1) in a regression."""
        return self.model_.W2

    @property
    def n_hidden_(self) -> int:
        """Hidden units there are."""
        return self.model_.n_hidden


class BaseLMMClassifier(LMMWeights, ExplainedClassifier):
    """For classifiers whose ``model_`` is an LMM, or a sum of them."""

    model_: LMM | AdditiveLMM
    slope_: float
    scale_: NDArray
    unit_activation_counts_: NDArray
    feature_importances_: NDArray
    prototypes_: NDArray
    _model_class = LMM
    _slopes = ("W0",)

    def _check_facts(self, state: TrainingState, data: LabelledData) -> None:
        super()._check_facts(state, data)
        check_lmm_facts(state)

    def _restored(
        self, data: LabelledData, state: TrainingState, rng: np.random.Generator
    ) -> Start:
        start = super()._restored(data, state, rng)
        assert isinstance(start.model, LMM)
        for name in (PROTOTYPES, WINS):
            if name in start.facts and len(start.facts[name]) != start.model.n_hidden:
                raise StateError(f"its {name} are not one for each of the hidden units")
        return start

    def _facts(
        self, data: LabelledData, facts: Mapping[str, NDArray], trained: Trained
    ) -> dict[str, Any]:
        return super()._facts(data, facts, trained) | lmm_facts(data, facts, trained.model)

    def fold(
        self: Self,
        centre: ArrayLike,
        spread: ArrayLike,
        X: Any = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Let a classifier that was trained on (x − centre) / spread take x itself.

        The scaling goes into the weights, and all fitted attributes follow.

        Parameters
        ----------
        centre, spread : numbers or arrays of shape (n_features,)
            For example ``mean_`` and ``scale_`` of a StandardScaler.
        X : array of shape (n_samples, n_features), optional
            The training samples before the scaling: losses are then those of the new weights,
            which differ from the old by rounding.
        sample_weight : array of shape (n_samples,), optional
            Their weights in training, for ``mean_loss_``.

        Returns
        -------
        self

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from sklearn.preprocessing import StandardScaler
        >>> from maxplus import LMMClassifier
        >>> X, y = load_wine(return_X_y=True)
        >>> scaler = StandardScaler().fit(X)
        >>> clf = LMMClassifier(30, random_state=0).fit(scaler.transform(X), y)
        >>> clf.fold(scaler.mean_, scaler.scale_, X).score(X, y)
        1.0
        """
        check_is_fitted(self, "model_")
        return fold_affine(self, centre, spread, X, sample_weight)

    def prune(self, *, only_provable: bool = False) -> Pruned:
        """Drop hidden units that never decide a score.

        Units that decide no class's score on any training sample go: the scores of all samples
        of the last training stay as they are, to the last bit. With ``only_provable``, only units
        that can win nowhere go (``maxplus.models.additive.useless_units``), which
        changes no prediction at all, but for ties and rounding.

        Parameters
        ----------
        only_provable : bool, default=False
            Whether only units go that can win nowhere.

        Returns
        -------
        Pruned(dropped, provable, left)

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from maxplus import LMMClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> clf = LMMClassifier(100, random_state=0).fit(X, y)
        >>> before = clf.decision_function(X)
        >>> dropped, provable, left = clf.prune()
        >>> bool((clf.decision_function(X) == before).all()), dropped + left
        (True, 100)
        """
        check_is_fitted(self, "model_")
        if not hasattr(self, "unit_activation_counts_"):
            raise ValueError(
                "this model does not know unit_activation_counts_, how often its units won: it "
                "comes from an older file; fit it again"
            )
        never = self.unit_activation_counts_ == 0
        provable = useless_units(self.model_) & never
        drop = provable if only_provable else never
        keep = np.flatnonzero(~drop)
        facts = {
            "model_": with_units(self.model_, keep),
            "unit_activation_counts_": self.unit_activation_counts_[keep],
        }
        if hasattr(self, "prototypes_"):
            facts["prototypes_"] = self.prototypes_[keep]
        self.__dict__ = vars(self) | facts
        return Pruned(int(drop.sum()), int(provable.sum()), keep.size)


FOLDABLE = "StandardScaler, MinMaxScaler, MaxAbsScaler and RobustScaler"


class Affine(NamedTuple):
    """What a step makes of a feature: (x − centre) / spread."""

    centre: NDArray | float
    spread: NDArray | float


def from_pipeline(pipeline: Any) -> Any:
    """The classifier of a fitted pipeline, for raw features: it explains and certifies in them.

    What is before the classifier must be affine in each feature, such as a StandardScaler; it is
    folded into the weights of a copy (`LMMClassifier.fold`), whose predictions are the pipeline's,
    up to rounding. Its methods (``explain``, ``certified_accuracy``, ``rules``, ``save``, …) then
    take what the pipeline takes, with the names and units that features have there.

    Parameters
    ----------
    pipeline : Pipeline, or a search over one
        Fitted; its last step is an `LMMClassifier`, `LMMEnsembleClassifier` or
        `SubgradientLMMClassifier`.

    Returns
    -------
    the classifier; the pipeline stays as it is

    Examples
    --------
    >>> import maxplus
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = load_iris(return_X_y=True)
    >>> pipeline = make_pipeline(StandardScaler(), maxplus.LMMClassifier(9, random_state=0))
    >>> clf = maxplus.from_pipeline(pipeline.fit(X, y))
    >>> bool((clf.predict(X) == pipeline.predict(X)).all())
    True
    >>> clf.certified_radius(X).shape
    (150,)
    """
    pipeline = getattr(pipeline, "best_estimator_", pipeline)
    steps = pipeline.steps if isinstance(pipeline, Pipeline) else [("", pipeline)]
    *before, (_, last) = steps
    if not isinstance(last, BaseLMMClassifier):
        raise TypeError(
            "pipeline must end in an LMMClassifier, LMMEnsembleClassifier or "
            f"SubgradientLMMClassifier; got {type(last).__name__}"
        )
    check_is_fitted(last, "model_")
    maps = [_affine_of(name, step) for name, step in before if step not in (None, "passthrough")]
    if maps and hasattr(last, "preparation_"):
        raise ValueError(
            "the pipeline's classifier has columns of words, dates or missing values beside the "
            "scaled ones, which cannot be told apart; give the data frame to the classifier itself"
        )
    classifier = deepcopy(last)
    for centre, spread in reversed(maps):
        classifier.fold(centre, spread)
    if maps:
        # A step may have named what it gives; what it takes may have no names.
        classifier.__dict__.pop("feature_names_in_", None)
        if hasattr(pipeline, "feature_names_in_"):
            classifier.feature_names_in_ = pipeline.feature_names_in_
    return classifier


def _affine_of(name: str, step: Any) -> Affine:
    """The step as an affine map of each feature; ValueError if it is none."""
    if isinstance(step, StandardScaler):
        return Affine(
            step.mean_ if step.with_mean else 0.0, step.scale_ if step.with_std else 1.0
        )  # fmt: skip
    if isinstance(step, RobustScaler):
        return Affine(
            step.center_ if step.with_centering else 0.0,
            step.scale_ if step.with_scaling else 1.0,
        )
    if isinstance(step, MaxAbsScaler):
        return Affine(0.0, step.scale_)
    if isinstance(step, MinMaxScaler) and not step.clip:
        # x·scale + min, where the names are scikit-learn's.
        return Affine(-step.min_ / step.scale_, 1.0 / step.scale_)
    if isinstance(step, FunctionTransformer) and step.func is None:
        return Affine(0.0, 1.0)
    raise ValueError(
        f"the step {name!r} of the pipeline, a {type(step).__name__}, is not affine in each "
        f"feature and cannot be folded into the weights, as {FOLDABLE} can; explain and certify "
        f"what it gives with pipeline[-1]"
    )
