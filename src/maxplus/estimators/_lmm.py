"""Base class of Linear-Min-Max classifiers: initialisation, folding of scalers, and pruning."""

from __future__ import annotations

import math
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

from maxplus.distributed import current
from maxplus.estimators._base import BaseMaxPlusClassifier, FitState, WeightsMixin
from maxplus.estimators._explain import ExplainMixin
from maxplus.estimators._parameters import threads
from maxplus.estimators._training_data import (
    TrainingData,
    check_sample_weight,
    mean_loss,
    validated_rows,
)
from maxplus.explain import feature_importances, term_means
from maxplus.explain.importances import MAX_ROWS
from maxplus.models import LMM, AdditiveLMM
from maxplus.models.additive import useless_units, with_units
from maxplus.models.initialization import box_lmm, box_lmm_bytes, class_distance
from maxplus.training import memory
from maxplus.training.stages import TrainingResult

# The automatic slope is CLASS_SLOPE / (distance between classes). It is steeper than the paper's k,
# because soft minima need units whose extent is within a typical distance.
CLASS_SLOPE = 15.0
# Bounds of the automatic number of units per class, which grows with the number of samples.
MIN_UNITS, MAX_UNITS = 10, 50
# Units per class that are allowed even if there are fewer distinct samples.
FEW_UNITS = 3
# Rows that are compared at once.
ROWS_AT_ONCE = 4096
# k-means runs with a warning suppressed, which affects all threads and therefore needs a lock.
KMEANS_LOCK = Lock()
# Names of stage results, and of the corresponding fitted attributes.
RESULT_ATTRIBUTES = {
    "warmup_losses": "loss_curve_",
    "validation_scores": "validation_scores_",
    "polish_losses": "polish_losses_",
}
FOLDABLE = "StandardScaler, MinMaxScaler, MaxAbsScaler and RobustScaler"

Self = TypeVar("Self", bound="BaseLMMClassifier")


class Capacity(NamedTuple):
    """Number of hidden units and slope of a single network; None to choose from the data."""

    n_hidden: int | None = None
    slope: float | None = None

    def hidden_for(self, X: NDArray, n_classes: int) -> int:
        """Return the number of hidden units; by default √(N / C) per class, between 10 and 50.

        It does not exceed the number of distinct samples, because units at the same point add up in
        a soft maximum, but not in the hard one.
        """
        if self.n_hidden is not None:
            return self.n_hidden
        per_class = min(max(round(math.sqrt(len(X) / n_classes)), MIN_UNITS), MAX_UNITS)
        wanted = n_classes * per_class
        return min(wanted, max(FEW_UNITS * n_classes, _count_different(X, wanted)))


class InitialBoxes(NamedTuple):
    """An initial network of boxes, their slope, and the distance between classes."""

    model: LMM
    slope: float
    distance: float


def initial_boxes(
    rows: TrainingData,
    n_classes: int,
    capacity: Capacity,
    init_margin: float | None,
    rng: np.random.Generator,
) -> InitialBoxes:
    """Return an untrained single network, initialised with boxes.

    Parameters
    ----------
    rows : scaled features, classes and weights
    n_classes : C
    capacity : units and slope
    init_margin : initial difference between a unit's outputs for its own class and for others;
        slope times distance if None
    rng : generator for the initial clusters
    """
    X, y = rows.X, rows.y
    distance = class_distance(X, y, rng)
    slope = CLASS_SLOPE / distance if capacity.slope is None else capacity.slope
    check_reach(X, slope)
    drop = slope * distance if init_margin is None else float(init_margin)
    n_hidden = capacity.hidden_for(X, n_classes)
    memory.require(
        box_lmm_bytes(X, y, n_hidden, n_classes),
        f"a start with n_hidden={n_hidden:,}",
        memory.FEWER_UNITS,
    )
    with KMEANS_LOCK:
        model = box_lmm(X, y, n_hidden, n_classes, slope, drop, rng)
    if rows.weight is not None:
        model.W2 += _class_offsets(y, rows.weight, n_classes).astype(model.dtype)
    return InitialBoxes(model, slope, distance)


def check_reach(X: NDArray, slope: float) -> None:
    """Raise ValueError if slope times features may overflow their float type."""
    largest = max(float(X.max()), -float(X.min()))
    reach = max(1.0, slope) * max(1.0, largest)
    if not reach < 1e-4 * np.finfo(X.dtype).max:
        raise ValueError(
            f"X reaches {largest:g}, which times slope {slope:g} does not fit into "
            f"{X.dtype}; scale the features (for example with StandardScaler) or set slope"
        )


def _count_different(X: NDArray, enough: int) -> int:
    """Return the number of distinct rows, counted up to ``enough``; O(N·P)."""
    seen: set[bytes] = set()
    for lo in range(0, len(X), ROWS_AT_ONCE):
        for row in np.ascontiguousarray(X[lo : lo + ROWS_AT_ONCE]):
            seen.add(row.tobytes())
            if len(seen) >= enough:
                return len(seen)
    return len(seen)


def _class_offsets(y: NDArray, weight: NDArray, n_classes: int) -> NDArray:
    """Return the initial score offset of each class: the log of its relative weight, at most 0.

    Initial boxes treat all classes as equally likely. A class with a smaller weight than another,
    per sample and in total, is less likely by that factor, which steps on samples of small weight
    would be too small to learn.
    """
    count, total = np.bincount(y, minlength=n_classes), np.bincount(y, weight, n_classes)
    seen = count > 0
    mean = total / np.maximum(count, 1)
    share = np.maximum(mean / mean.max(), total / total.max())
    return np.log(share, where=seen & (share > 0), out=np.zeros(n_classes))


class Pruned(NamedTuple):
    """Numbers of units that were dropped, were provably inactive everywhere, and remain."""

    dropped: int
    provable: int
    left: int


class BaseLMMClassifier(ExplainMixin, WeightsMixin, BaseMaxPlusClassifier):
    """Base class of classifiers whose ``model_`` is an LMM or a sum of LMMs."""

    model_: LMM | AdditiveLMM
    slope_: float
    scale_: NDArray
    robust_reach_: NDArray
    unit_activation_counts_: NDArray
    feature_importances_: NDArray
    prototypes_: NDArray
    _model_class = LMM
    _slopes = ("W0",)

    def _required_state(self) -> tuple[str, ...]:
        return ("slope",)

    def _fitted_attributes(
        self, data: TrainingData, state: FitState, trained: TrainingResult
    ) -> dict[str, Any]:
        comm, model = current(), trained.model
        is_sum = isinstance(model, AdditiveLMM)

        def measure(X: NDArray) -> tuple[NDArray | None, NDArray]:
            part = X[:: max(1, -(-len(X) // MAX_ROWS))]
            return term_means(model, part) if is_sum else None, feature_importances(model, part)

        means, importances = comm.root_only(measure, data.X)
        counts = comm.sum(model.wins(data.X))
        if state.activation_counts is not None:
            # `prune` should keep units that are active on samples of earlier calls.
            counts = counts + state.activation_counts
        optional: dict[str, Any] = {"term_means_": means, "prototypes_": state.prototypes}
        if not is_sum:
            optional["slope_"] = state.slope
        if "suspects" in state.results:
            optional["suspects_"] = data.index_of_all[state.results["suspects"]]
        optional |= {
            attribute: state.results.get(name) for name, attribute in RESULT_ATTRIBUTES.items()
        }
        return {
            **super()._fitted_attributes(data, state, trained),
            "scale_": np.ones(data.X.shape[1]) if state.scaling is None else state.scaling.spread,
            "unit_activation_counts_": counts,
            "feature_importances_": importances,
            **{name: value for name, value in optional.items() if value is not None},
        }

    def fold(
        self: Self,
        centre: ArrayLike,
        spread: ArrayLike,
        X: Any = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Fold a scaling into the weights of a classifier trained on (x − centre) / spread.

        The weights and all other fitted attributes then apply to x; ``scale_``, the unit of
        ``slope_``, is multiplied by spread. O(P·H), and O(N·P·H) with X.

        Parameters
        ----------
        centre, spread : numbers or arrays of shape (n_features,)
            For example ``mean_`` and ``scale_`` of a StandardScaler.
        X : array of shape (n_samples, n_features), optional
            The training samples before the scaling: ``training_losses_``, ``max_loss_`` and
            ``mean_loss_`` are then those of the new weights, which differ from the old by rounding.
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
        model = self.model_.folded(centre, spread)
        spread = np.broadcast_to(np.asarray(spread, np.float64), model.n_features)
        fitted = {"model_": model, "scale_": getattr(self, "scale_", 1.0) * spread}
        if hasattr(self, "robust_reach_"):
            fitted["robust_reach_"] = self.robust_reach_ * spread
        if X is not None:
            fitted |= self._losses_of(model, X, sample_weight)
        self.__dict__ = vars(self) | fitted
        return self

    def _losses_of(
        self, model: LMM | AdditiveLMM, X: Any, sample_weight: ArrayLike | None
    ) -> dict[str, Any]:
        """Return the fitted attributes about training losses, for a model with other weights."""
        labels = self.training_labels_
        # One of several ranks may have no rows.
        X = validated_rows(self, X, model) if len(labels) else np.asarray(X)
        if len(X) != len(labels):
            raise ValueError(
                f"X must be the {len(labels)} training samples, before the scaling; it has "
                f"{len(X)} rows"
            )
        weight = check_sample_weight(sample_weight, len(labels))
        # The loss of samples with weight 0 stays NaN.
        index = np.flatnonzero(~np.isnan(self.training_losses_))
        losses = np.full(len(labels), np.nan)
        with threads(self.n_jobs):
            if index.size:
                codes = np.searchsorted(self.classes_, labels[index])
                losses[index] = model.losses(X[index], codes)
        known = losses[index]
        return {
            "training_losses_": losses,
            "max_loss_": current().largest(float(known.max(initial=-np.inf))),
            "mean_loss_": mean_loss(known, None if weight is None else weight[index]),
        }

    def prune(self, *, only_provable: bool = False) -> Pruned:
        """Drop hidden units that never determine a score.

        By default, units that determine no class score on any training sample are dropped; the
        scores of all training samples of the last fit stay bit-identical. With ``only_provable``,
        only units that are provably inactive for all inputs are dropped
        (``maxplus.models.additive.useless_units``), which changes no prediction, except for ties
        and rounding.

        Parameters
        ----------
        only_provable : bool, default=False
            If True, drop only units that are provably inactive for all inputs.

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
        if not only_provable and getattr(self, "monotonic_cst", None) is not None:
            raise ValueError(
                "only_provable=False could violate monotonic_cst on other rows than those of the "
                "training; pass only_provable=True"
            )
        never = self.unit_activation_counts_ == 0
        provable = useless_units(self.model_) & never
        drop = provable if only_provable else never
        keep = np.flatnonzero(~drop)
        fitted: dict[str, Any] = {"model_": with_units(self.model_, keep)}
        for name in ("unit_activation_counts_", "prototypes_"):
            if hasattr(self, name):
                fitted[name] = getattr(self, name)[keep]
        self.__dict__ = vars(self) | fitted
        return Pruned(int(drop.sum()), int(provable.sum()), keep.size)


class Affine(NamedTuple):
    """A pipeline step as an affine map of each feature: (x − centre) / spread."""

    centre: NDArray | float
    spread: NDArray | float


def from_pipeline(pipeline: Any) -> Any:
    """Return a copy of a pipeline's classifier that takes the raw features of the pipeline.

    The steps before the classifier must be affine in each feature, such as a StandardScaler; they
    are folded into the weights of a copy (`LMMClassifier.fold`), whose predictions are those of the
    pipeline, up to rounding. Its methods (``explain``, ``certified_accuracy``, ``rules``, ``save``,
    …) then take the input of the pipeline, with its feature names and units.

    Parameters
    ----------
    pipeline : Pipeline, or a search over one
        Fitted; its last step is an `LMMClassifier`, `LMMEnsembleClassifier` or
        `SubgradientLMMClassifier`.

    Returns
    -------
    classifier
        The fitted classifier; the pipeline is not changed.

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
    if maps and hasattr(last, "encoder_"):
        raise ValueError(
            "the pipeline's classifier has columns of words, dates or missing values beside the "
            "scaled ones, which cannot be told apart; give the data frame to the classifier itself"
        )
    classifier = deepcopy(last)
    for centre, spread in reversed(maps):
        classifier.fold(centre, spread)
    if maps:
        # A step may have named its output, while its input may have no names.
        classifier.__dict__.pop("feature_names_in_", None)
        if hasattr(pipeline, "feature_names_in_"):
            classifier.feature_names_in_ = pipeline.feature_names_in_
    return classifier


def _affine_of(name: str, step: Any) -> Affine:
    """Return a step as an affine map of each feature; raise ValueError if it is not affine."""
    if isinstance(step, StandardScaler):
        return Affine(step.mean_ if step.with_mean else 0.0, step.scale_ if step.with_std else 1.0)
    if isinstance(step, RobustScaler):
        return Affine(
            step.center_ if step.with_centering else 0.0, step.scale_ if step.with_scaling else 1.0
        )
    if isinstance(step, MaxAbsScaler):
        return Affine(0.0, step.scale_)
    if isinstance(step, MinMaxScaler) and not step.clip:
        # In scikit-learn's names, the map is x·scale_ + min_.
        return Affine(-step.min_ / step.scale_, 1.0 / step.scale_)
    if isinstance(step, FunctionTransformer) and step.func is None:
        return Affine(0.0, 1.0)
    raise ValueError(
        f"the step {name!r} of the pipeline, a {type(step).__name__}, is not affine in each "
        f"feature and cannot be folded into the weights, as {FOLDABLE} can; explain and certify "
        f"what it gives with pipeline[-1]"
    )
