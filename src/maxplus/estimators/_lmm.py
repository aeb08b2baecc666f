"""Base class of Linear-Min-Max classifiers, and their initialisation."""

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
    loss_attributes,
    validate_samples,
)
from maxplus.explain import feature_importances, term_means
from maxplus.explain.importances import MAX_ROWS
from maxplus.models import LMM, LOG2, AdditiveLMM
from maxplus.models.additive import dominated_units, with_units
from maxplus.models.initialization import box_lmm, box_lmm_bytes, class_distance
from maxplus.training import Status, memory
from maxplus.training.stages import TrainingResult

# Product of the automatic slope and the distance between classes. The slope is steeper than the
# paper's k, because units with soft minima must decay within that distance.
CLASS_SLOPE = 15.0
# Bounds of the automatic number of units per class.
MIN_UNITS, MAX_UNITS = 10, 50
# Minimum number of units per class if there are few distinct samples.
FEW_UNITS = 3
# Number of samples per batch.
BATCH_SIZE = 4096
# `box_lmm` suppresses a warning of KMeans, and `warnings.catch_warnings` is not thread-safe.
KMEANS_LOCK = Lock()
# Fitted attributes by the name of the stage result.
RESULT_ATTRIBUTES = {
    "warmup_losses": "loss_curve_",
    "validation_scores": "validation_scores_",
    "polish_losses": "polish_losses_",
}

Self = TypeVar("Self", bound="BaseLMMClassifier")


def automatic_n_hidden(X: NDArray, n_classes: int) -> int:
    """Return the number of hidden units, √(N / C) per class, but at least 10 and at most 50.

    Beyond 3 units per class, it does not exceed the number of distinct samples, because units at
    the same point add up in a soft maximum.
    """
    per_class = min(max(round(math.sqrt(len(X) / n_classes)), MIN_UNITS), MAX_UNITS)
    n_units = n_classes * per_class
    return min(n_units, max(FEW_UNITS * n_classes, _count_distinct(X, n_units)))


def initial_boxes(
    data: TrainingData,
    n_classes: int,
    n_hidden: int | str,
    slope: float | str,
    init_margin: float | None,
    rng: np.random.Generator,
) -> tuple[LMM, FitState]:
    """Return the initial network for scaled samples, its slope, and the distance between classes.

    The arguments are parameters of `LMMClassifier`. The default margin is slope times distance.
    """
    X, y = data.X, data.y
    distance = class_distance(X, y, rng)
    slope = CLASS_SLOPE / distance if isinstance(slope, str) else float(slope)
    check_overflow(X, slope)
    margin = slope * distance if init_margin is None else float(init_margin)
    n_units = automatic_n_hidden(X, n_classes) if isinstance(n_hidden, str) else int(n_hidden)
    memory.require(
        box_lmm_bytes(X, y, n_units, n_classes),
        f"an initial model with n_hidden={n_units:,}",
        memory.FEWER_UNITS,
    )
    with KMEANS_LOCK:
        model = box_lmm(X, y, n_units, n_classes, slope, margin, rng)
    if data.weight is not None:
        model.W2 += _class_offsets(y, data.weight, n_classes).astype(model.dtype)
    return model, FitState(slope=slope, distance=distance)


def check_overflow(X: NDArray, slope: float) -> None:
    """Raise ValueError if the slope times the features may overflow."""
    largest = max(float(X.max()), -float(X.min()))
    reach = max(1.0, slope) * max(1.0, largest)
    if not reach < 1e-4 * np.finfo(X.dtype).max:
        raise ValueError(
            f"X reaches {largest:g}, and its product with slope {slope:g} overflows {X.dtype}; "
            "scale the features (for example with StandardScaler) or set slope"
        )


def _count_distinct(X: NDArray, limit: int) -> int:
    """Return the number of distinct samples, at most ``limit``."""
    distinct: set[bytes] = set()
    for start in range(0, len(X), BATCH_SIZE):
        for row in np.ascontiguousarray(X[start : start + BATCH_SIZE]):
            distinct.add(row.tobytes())
            if len(distinct) >= limit:
                return len(distinct)
    return len(distinct)


def _class_offsets(y: NDArray, weight: NDArray, n_classes: int) -> NDArray:
    """Return the initial score offset of each class, the logarithm of its relative weight.

    Without offsets, all classes are initially equally likely. Training steps on samples of small
    weight would be too small to correct this.
    """
    count, total = np.bincount(y, minlength=n_classes), np.bincount(y, weight, n_classes)
    is_present = count > 0
    mean = total / np.maximum(count, 1)
    share = np.maximum(mean / mean.max(), total / total.max())
    return np.log(share, where=is_present & (share > 0), out=np.zeros(n_classes))


class PruneResult(NamedTuple):
    """Numbers of dropped, provably inactive, and remaining units."""

    dropped: int
    provable: int
    remaining: int


class BaseLMMClassifier(ExplainMixin, WeightsMixin, BaseMaxPlusClassifier):
    """Base class of classifiers whose ``model_`` is an LMM or a sum of LMMs."""

    model_: LMM | AdditiveLMM
    slope_: float
    scale_: NDArray
    robust_eps_: NDArray
    unit_activation_counts_: NDArray
    feature_importances_: NDArray
    prototypes_: NDArray
    suspects_: NDArray
    _model_class = LMM

    def _required_state(self) -> tuple[str, ...]:
        return ("slope",)

    @property
    def _level(self) -> float:
        """Loss level of the polish."""
        return LOG2

    @property
    def _monotonic_cst(self) -> Any:
        return getattr(self, "monotonic_cst", None)

    def _convergence_message(self, status: Status) -> str:
        if status is not Status.GIVEN_UP:
            return super()._convergence_message(status)
        return (
            f"the polish left {self.suspects_.size} of {self.training_labels_.size} training "
            f"samples above its level of {self._level:.4g} (see suspects_); increase max_suspects, "
            "or use polish='auto'"
        )

    def _fitted_attributes(
        self, data: TrainingData, state: FitState, trained: TrainingResult
    ) -> dict[str, Any]:
        comm, model = current(), trained.model
        is_sum = isinstance(model, AdditiveLMM)

        def measure(X: NDArray) -> tuple[NDArray | None, NDArray]:
            part = X[:: max(1, -(-len(X) // MAX_ROWS))]
            return term_means(model, part) if is_sum else None, feature_importances(model, part)

        means, importances = comm.root_only(measure, data.X)
        counts = comm.sum(model.activation_counts(data.X))
        if state.unit_activation_counts is not None:
            # `prune` keeps units that are active on samples of earlier calls.
            counts = counts + state.unit_activation_counts
        suspects = state.results.get("suspects")
        optional = {
            "term_means_": means,
            "prototypes_": state.prototypes,
            "slope_": None if is_sum else state.slope,
            "suspects_": None if suspects is None else data.index_of_all[suspects],
            **{name: state.results.get(key) for key, name in RESULT_ATTRIBUTES.items()},
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

        Afterwards, the classifier takes raw features x. ``scale_`` is multiplied by the spread.

        Parameters
        ----------
        centre, spread : float or array of shape (n_features,)
            Location and scale, such as ``mean_`` and ``scale_`` of a StandardScaler.
        X : array of shape (n_samples, n_features), optional
            Unscaled training samples, used to recompute ``training_losses_``, ``max_loss_`` and
            ``mean_loss_``, which change by rounding.
        sample_weight : array of shape (n_samples,), optional
            Sample weights of the training samples, used for ``mean_loss_``.

        Returns
        -------
        self
            Modified estimator.

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
        if hasattr(self, "robust_eps_"):
            fitted["robust_eps_"] = self.robust_eps_ * spread
        if X is not None:
            fitted |= self._losses_of(model, X, sample_weight)
        self.__dict__ = vars(self) | fitted
        return self

    def _losses_of(
        self, model: LMM | AdditiveLMM, X: Any, sample_weight: ArrayLike | None
    ) -> dict[str, Any]:
        """Return the fitted attributes about training losses for a model with new weights."""
        labels = self.training_labels_
        # With several ranks, a rank may have no samples.
        X = validate_samples(self, X, model) if len(labels) else np.asarray(X)
        if len(X) != len(labels):
            raise ValueError(
                f"X must contain the {len(labels)} training samples without scaling; it has "
                f"{len(X)} samples"
            )
        weight = check_sample_weight(sample_weight, len(labels))
        # The losses of samples with weight 0 stay NaN.
        index = np.flatnonzero(~np.isnan(self.training_losses_))
        weight, losses = None if weight is None else weight[index], np.empty(0)
        if index.size:
            codes = np.searchsorted(self.classes_, labels[index])
            with threads(self.n_jobs):
                losses = model.losses(X[index], codes)
        return loss_attributes(losses, weight, index, len(labels))

    def prune(self, *, only_provable: bool = False) -> PruneResult:
        """Drop hidden units that never determine a score.

        By default, units that are inactive on all training samples are dropped. The scores of the
        training samples stay bit-identical.

        Parameters
        ----------
        only_provable : bool, default=False
            If True, drop only units that are provably inactive for all inputs
            (``maxplus.models.additive.dominated_units``). Predictions do not change in this case,
            except for ties and rounding.

        Returns
        -------
        PruneResult
            Numbers of units: (dropped, provable, remaining).

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from maxplus import LMMClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> clf = LMMClassifier(100, random_state=0).fit(X, y)
        >>> before = clf.decision_function(X)
        >>> dropped, provable, remaining = clf.prune()
        >>> bool((clf.decision_function(X) == before).all()), dropped + remaining
        (True, 100)
        """
        check_is_fitted(self, "model_")
        if not only_provable and self._monotonic_cst is not None:
            raise ValueError(
                "only_provable=False could violate monotonic_cst outside the training set; pass "
                "only_provable=True"
            )
        inactive = self.unit_activation_counts_ == 0
        provable = dominated_units(self.model_) & inactive
        drop = provable if only_provable else inactive
        keep = np.flatnonzero(~drop)
        fitted: dict[str, Any] = {"model_": with_units(self.model_, keep)}
        for name in ("unit_activation_counts_", "prototypes_"):
            if hasattr(self, name):
                fitted[name] = getattr(self, name)[keep]
        self.__dict__ = vars(self) | fitted
        return PruneResult(int(drop.sum()), int(provable.sum()), keep.size)


def from_pipeline(pipeline: Any) -> Any:
    """Return a classifier equivalent to a pipeline of scalers and a classifier.

    The scalers are folded into the weights of a copy of the classifier (`LMMClassifier.fold`). Its
    predictions equal those of the pipeline up to rounding. Methods such as ``explain``, ``rules``
    and ``certified_accuracy`` then refer to the input features of the pipeline.

    Parameters
    ----------
    pipeline : Pipeline, or a search over a Pipeline
        Fitted pipeline. The last step is an `LMMClassifier`, `LMMEnsembleClassifier` or
        `SubgradientLMMClassifier`. All other steps are affine in each feature, such as a
        StandardScaler.

    Returns
    -------
    classifier
        Fitted classifier. The pipeline is not modified.

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
            "the pipeline's classifier has encoded text, dates or missing values after the scaling "
            "steps; pass the data frame to the classifier without a pipeline"
        )
    classifier = deepcopy(last)
    for centre, spread in reversed(maps):
        classifier.fold(centre, spread)
    if maps:
        # The classifier has seen the feature names of the output of the previous step.
        classifier.__dict__.pop("feature_names_in_", None)
        if hasattr(pipeline, "feature_names_in_"):
            classifier.feature_names_in_ = pipeline.feature_names_in_
    return classifier


def _affine_of(name: str, step: Any) -> tuple[NDArray | float, NDArray | float]:
    """Return the centre and spread of a step x ↦ (x − centre) / spread, or raise ValueError."""
    if isinstance(step, StandardScaler):
        return step.mean_ if step.with_mean else 0.0, step.scale_ if step.with_std else 1.0
    if isinstance(step, RobustScaler):
        centre = step.center_ if step.with_centering else 0.0
        return centre, step.scale_ if step.with_scaling else 1.0
    if isinstance(step, MaxAbsScaler):
        return 0.0, step.scale_
    if isinstance(step, MinMaxScaler) and not step.clip:
        # MinMaxScaler computes x·scale_ + min_.
        return -step.min_ / step.scale_, 1.0 / step.scale_
    if isinstance(step, FunctionTransformer) and step.func is None:
        return 0.0, 1.0
    raise ValueError(
        f"the step {name!r} of the pipeline, a {type(step).__name__}, is not affine in each "
        "feature and cannot be folded into the weights; StandardScaler, MinMaxScaler, MaxAbsScaler "
        "and RobustScaler can; use pipeline[-1] to explain and certify predictions for the "
        "transformed features"
    )
