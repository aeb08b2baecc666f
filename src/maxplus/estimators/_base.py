"""Base classes of all estimators."""

from __future__ import annotations

import math
import os
from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from maxplus.distributed import current
from maxplus.distributed.communicator import mark_collective
from maxplus.estimators._parameters import (
    Effect,
    Parameters,
    as_callbacks,
    check_value,
    needs_state,
    progress_bar,
    threads,
    warn_of_unused_parameters,
    warn_user,
)
from maxplus.estimators._training_data import (
    Scaling,
    TrainingData,
    loss_attributes,
    predict_in_batches,
)
from maxplus.models import LOG2, Model, Network
from maxplus.models._softmax import log_softmax, softmax_by_class
from maxplus.training import (
    History,
    KeepBestOnInterrupt,
    Status,
    TrainingMonitor,
    TrainingProblem,
    run_stages,
)
from maxplus.training.result import StateError, TrainingState, prefixed
from maxplus.training.stages import Iterations, Polish, Stage, TrainingResult, WarmUp

# Fitted attributes with data about individual training rows.
PER_ROW = ("training_losses_", "training_labels_", "training_rows_", "suspects_", "residuals_")
# Names of the iterations of each stage in messages.
ITERATION_NAMES = {
    WarmUp.name: "epochs of the warm-up",
    Polish.name: "rounds of the polish",
    "ensemble": "epochs of the ensemble",
}
# Prefix of the columns of an earlier history in a checkpoint.
EARLIER = "earlier.history."
# Relative tolerance in comparisons of means.
TOLERANCE = 1e-5

Self = TypeVar("Self", bound=BaseEstimator)


class StatusMixin:
    """Mixin that describes ``status_`` (`maxplus.training.Status`)."""

    status_: str

    @property
    def status_message_(self) -> str:
        """Description of ``status_``."""
        return Status.from_text(self.status_).message


class WeightsMixin:
    """Mixin with the weights of an LMM as fitted attributes."""

    model_: Any

    @property
    def W0_(self) -> NDArray:
        """Positive and negative slope of each feature, shape (2P,)."""
        return self.model_.W0

    @property
    def W1_(self) -> NDArray:
        """Offsets of the min-plus layer, shape (2P, H)."""
        return self.model_.W1

    @property
    def W2_(self) -> NDArray:
        """Offsets of the max-plus layer, shape (H, C)."""
        return self.model_.W2

    @property
    def n_hidden_(self) -> int:
        """Number of hidden units."""
        return self.model_.n_hidden


class OtherDataError(StateError):
    """Error raised if training is resumed with different data."""


class Origin(NamedTuple):
    """Estimator and training data, used by callbacks that write checkpoints."""

    estimator: Any
    data: TrainingData


@dataclass(frozen=True)
class FitState:
    """Training state besides the model; checkpoints contain all fields except the last two."""

    # Number of iterations, epochs and rounds of earlier calls and completed stages.
    n_iter: int = 0
    # Slope of the initial boxes, and typical distance between classes.
    slope: float | None = None
    distance: float | None = None
    # Factor for all weights, estimated on held-out samples.
    inverse_temperature: float | None = None
    # Scaling of the features for a single network.
    scaling: Scaling | None = None
    # Training sample at which each unit was initialised.
    prototypes: NDArray | None = None
    # Number of scores that each unit determined in earlier calls.
    unit_activation_counts: NDArray | None = None
    # History of earlier calls.
    history: History | None = None
    # Results of completed stages.
    results: Mapping[str, NDArray] = field(default_factory=dict)
    # Random generator and initialisation parameters, which a later call may continue to use.
    rng: np.random.Generator | None = None
    init_values: Mapping[str, Any] | None = None

    SCALARS: ClassVar[tuple[str, ...]] = ("slope", "distance", "inverse_temperature")
    PER_UNIT: ClassVar[tuple[str, ...]] = ("prototypes", "unit_activation_counts")

    @property
    def score_scale(self) -> float:
        """Scale of the initial scores, slope times distance."""
        assert self.slope is not None
        assert self.distance is not None
        return self.slope * self.distance

    def to_arrays(self) -> dict[str, NDArray]:
        """Return the state as named arrays for a checkpoint."""
        known = {name: getattr(self, name) for name in (*self.SCALARS, *self.PER_UNIT)}
        return {
            **self.results,
            **({"n_iter": np.array([self.n_iter])} if self.n_iter else {}),
            **{name: np.atleast_1d(value) for name, value in known.items() if value is not None},
            **({} if self.scaling is None else self.scaling._asdict()),
            **prefixed(EARLIER, self.history or {}),
        }

    @classmethod
    def from_checkpoint(
        cls, saved: TrainingState, required: Sequence[str], n_features: int
    ) -> FitState:
        """Return the state in a checkpoint; raise StateError if it is invalid or incomplete."""
        arrays = saved.before
        known: dict[str, Any] = {}
        for name in ("n_iter", *cls.SCALARS, *cls.PER_UNIT):
            if name in arrays or name in required:
                dtype = np.float64 if name in cls.SCALARS else np.int64
                shape = (None,) if name in cls.PER_UNIT else (1,)
                array = saved.array(f"before.{name}", dtype, shape)
                if not (array > 0 if name in cls.SCALARS else array >= 0).all():
                    raise StateError(f"its {name} cannot be {array.min()}")
                known[name] = array if name in cls.PER_UNIT else array[0].item()
        if "scaling" in required:
            scaling = Scaling(
                *(saved.array(f"before.{n}", np.float64, (None,)) for n in Scaling._fields)
            )
            if {values.size for values in scaling} != {n_features}:
                raise StateError(
                    f"its weights are for {scaling.centre.size} features, but X has {n_features}"
                )
            if not (scaling.spread > 0).all():
                raise StateError(f"its spread cannot be {scaling.spread.min()}")
            known["scaling"] = scaling
        if f"{EARLIER}loss" in arrays:
            shape = (len(arrays[f"{EARLIER}loss"]),)
            known["history"] = History.from_columns(
                {
                    name: saved.array(f"before.{EARLIER}{name}", dtype, shape, finite=False)
                    for name, dtype in History.columns.items()
                }
            )
        used = {"n_iter", *Scaling._fields, *cls.SCALARS, *cls.PER_UNIT}
        results = {n: A for n, A in arrays.items() if n not in used and not n.startswith(EARLIER)}
        return cls(**known, results=results)


def replace_fitted(estimator: Any, fitted: Mapping[str, Any]) -> None:
    """Replace all fitted attributes.

    A single assignment ensures that an interrupted call does not mix old and new attributes.
    """
    kept = {name: value for name, value in vars(estimator).items() if not name.endswith("_")}
    estimator.__dict__ = {**kept, **fitted}


class BaseMaxPlusEstimator(BaseEstimator, metaclass=ABCMeta):
    """Base class of all estimators."""

    # Valid values of the hyper-parameters.
    _parameters: ClassVar[Parameters]
    # Conditions under which parameters have an effect.
    _effects: ClassVar[tuple[Effect, ...]] = ()

    n_jobs: int | None
    random_state: Any
    model_: Network

    def _check_parameters(self) -> None:
        """Raise ParameterError for the first hyper-parameter with an invalid value."""
        for name, valid in self._parameters.items():
            check_value(name, getattr(self, name), *valid)

    def save(self, path: str | os.PathLike[str], *, remember_rows: bool = False) -> None:
        """Save the fitted estimator to a file; see `maxplus.load`.

        The file contains only arrays and JSON, so loading it executes no code.

        Parameters
        ----------
        path : str or path
            Name of the file. An existing file is replaced atomically.
        remember_rows : bool, default=False
            If True, also save fitted attributes about individual training rows: labels, losses,
            ``suspects_``, ``residuals_`` and ``training_rows_``. This discloses training data:
            labels and losses can be read from the file, and ``training_rows_`` reveals whether a
            given row was in the training set. See SECURITY.md.
        """
        from maxplus.io import save

        save(self, path, remember_rows=remember_rows)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Raise an informative error for attributes that were not saved."""
            in_memory = {"training_losses_", "residuals_", "interpolates_"} & {*vars(self)}
            if name in PER_ROW and "training_summary_" in vars(self) and not in_memory:
                raise AttributeError(
                    f"{name} is not available: the file contains no data about individual training "
                    "rows; save the model with save(path, remember_rows=True) or --remember-rows"
                )
            return object.__getattribute__(self, name)


class BaseMaxPlusClassifier(StatusMixin, ClassifierMixin, BaseMaxPlusEstimator):
    """Base class of classifiers that are trained in stages.

    Subclasses declare their hyper-parameters, create the initial model, and define the stages.
    """

    _model_class: ClassVar[type[Model]]

    verbose: int
    callbacks: Any

    classes_: NDArray
    n_iter_: int
    max_loss_: float
    training_losses_: NDArray
    training_labels_: NDArray
    mean_loss_: float

    @abstractmethod
    def _initialize(
        self, data: TrainingData, rng: np.random.Generator, monitor: TrainingMonitor
    ) -> tuple[Network, FitState]:
        """Return the initial model and fit state."""

    @abstractmethod
    def _stages(self, data: TrainingData, state: FitState) -> Sequence[Stage]:
        """Return the training stages."""

    def _problem(
        self, data: TrainingData, state: FitState, rng: np.random.Generator
    ) -> TrainingProblem:
        """Return the training problem."""
        return TrainingProblem(data.X, data.y, weight=data.weight, rng=rng)

    def fit(self: Self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the classifier.

        If fitting fails or is interrupted, the estimator is unchanged. Use the callback
        `maxplus.training.KeepBestOnInterrupt` to keep the model trained so far on Ctrl-C.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), or a data frame
            Training samples. Data frames with text, dates or missing values are encoded by a
            `maxplus.tables.TableEncoder`, which is stored as ``encoder_``. All other methods then
            accept such data frames and arrays of encoded features. No column is dropped.
        y : array of shape (n_samples,)
            Labels of at least two classes.
        sample_weight : array of shape (n_samples,), optional
            Sample weights. Samples with weight 0 are ignored. Otherwise, weights have no effect on
            the maximum loss or on the selection of the k largest losses.

        Returns
        -------
        self
            Fitted estimator.
        """
        return self._fit(X, y, sample_weight, previous=self._previous())

    def _previous(self) -> tuple[Network, FitState] | None:
        """Return the model and state from which `fit` continues, or None for a new fit."""
        return None

    def _fit(
        self: Self,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None,
        classes: ArrayLike | None = None,
        *,
        previous: tuple[Network, FitState] | None = None,
        saved: TrainingState | None = None,
        digest: str | None = None,
    ) -> Self:
        """Validate the data, train in stages, and set the fitted attributes.

        Training continues from a ``previous`` model, or from a checkpoint ``saved`` for data with
        the given ``digest``.
        """
        comm = current()
        with comm.raise_on_all_ranks():
            self._check_parameters()
        comm.require_equal({"estimator": type(self).__name__})
        comm.require_equal(self._shared_params())
        self._warn_of_no_effect()
        data = TrainingData.for_classification(
            self, X, y, sample_weight, classes, model=previous and previous[0]
        ).with_class_weight(self._class_weight)
        callbacks = as_callbacks(self.callbacks)
        if not comm.is_serial and comm.any(any(map(needs_state, callbacks))):
            # Rank 0 writes the checkpoint, but all ranks must take part in computing the digest.
            assert data.digest
        if saved is not None and data.digest != digest:
            raise mark_collective(OtherDataError("the data differ from those of the checkpoint"))
        rng = None if previous is None else previous[1].rng
        if rng is None:
            seed = check_random_state(self.random_state).randint(2**31)
            rng = np.random.default_rng(comm.bcast(seed))
        with ExitStack() as stack:
            stack.enter_context(threads(self.n_jobs))
            if not comm.is_root:
                callbacks = [c for c in callbacks if isinstance(c, KeepBestOnInterrupt)]
            elif self.verbose:
                callbacks.append(stack.enter_context(progress_bar(self)))
            monitor = stack.enter_context(TrainingMonitor(callbacks, Origin(self, data)))
            if saved is not None:
                model, state = self._restore(data, saved, rng)
            else:
                model, state = previous or self._initialize(data, rng, monitor)
            problem, stages = self._problem(data, state, rng), self._stages(data, state)
            trained = run_stages(stages, model, problem, monitor, saved, state.to_arrays())
            state = replace(state, results={**state.results, **trained.arrays}, rng=rng)
            fitted = self._fitted_attributes(data, state, trained)
        replace_fitted(self, fitted)
        self._warn_after_fit(trained)
        return self

    def _shared_params(self) -> dict[str, Any]:
        """Return the parameters that must be equal on all ranks."""
        return {
            f"parameter {name}": value
            if isinstance(value, (int, float, str, type(None)))
            else repr(getattr(value, "__qualname__", value))
            for name, value in sorted(self.get_params(deep=False).items())
            if name not in ("callbacks", "verbose", "n_jobs", "augment", "random_state")
        }

    @property
    def _class_weight(self) -> Any:
        return getattr(self, "class_weight", None)

    def _required_state(self) -> tuple[str, ...]:
        """Return the names of the attributes that a checkpoint must contain."""
        return ()

    def _restore(
        self, data: TrainingData, saved: TrainingState, rng: np.random.Generator
    ) -> tuple[Network, FitState]:
        """Return the model and state in a checkpoint; raise StateError if they are invalid."""
        state = FitState.from_checkpoint(saved, self._required_state(), data.X.shape[1])
        stages = {stage.name: stage for stage in self._stages(data, state)}
        if saved.stage not in stages:
            raise StateError(f"its stage {saved.stage!r:.40} is unknown")
        problem = self._problem(data, state, rng)
        model = stages[saved.stage].check(saved, problem, self._model_class)
        if model.n_classes != data.n_classes:
            raise StateError(f"its weights are for {model.n_classes} classes")
        for name in FitState.PER_UNIT:
            units = getattr(state, name)
            if units is not None and len(units) != getattr(model, "n_hidden", 0):
                raise StateError(f"its {name} do not match the number of hidden units")
        return model, state

    def _fitted_attributes(
        self, data: TrainingData, state: FitState, trained: TrainingResult
    ) -> dict[str, Any]:
        """Return all fitted attributes."""
        losses = trained.model.losses(data.X, data.y)
        return {
            **data.columns,
            **loss_attributes(losses, data.weight, data.index, len(data.labels)),
            "classes_": data.classes,
            "model_": trained.model,
            "n_iter_": state.n_iter + trained.n_iter,
            "status_": trained.status.value,
            "training_labels_": data.labels,
        }

    def _warn_of_no_effect(self) -> None:
        """Warn about parameters that were set but have no effect."""
        warn_of_unused_parameters(self, self._effects)

    def _warn_after_fit(self, trained: TrainingResult) -> None:
        """Warn if training was interrupted or did not converge."""
        if trained.status is Status.INTERRUPTED:
            warn_user(self._interruption_message(trained))
        elif trained.status.is_failure:
            warn_user(self._convergence_message(trained.status), ConvergenceWarning)

    def _convergence_message(self, status: Status) -> str:
        """Return the message of a convergence warning."""
        return f"training ended early: {status.message}"

    def _interruption_message(self, trained: TrainingResult) -> str:
        if trained.outcomes:
            unit = ITERATION_NAMES.get(trained.last_stage, trained.last_stage)
            kept = "the model trained so far is kept"
            if trained.last_stage == Iterations.name:
                unit, kept = f"of {self.max_iter} {unit}", f"the {self.keep} parameters are kept"
            when = f"after {trained.outcomes[-1].n_iter} {unit}"
        else:
            when, kept = "before its first step", "the initial parameters are kept"
        return f"training was interrupted {when}; {kept}"

    def decision_function(self, X: Any) -> NDArray:
        """Return the class scores z, or z₁ − z₀ in the binary case.

        ``model_.scores`` returns both scores in the binary case.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), or a data frame
            Samples.

        Returns
        -------
        array of shape (n_samples, n_classes), or (n_samples,)
            Scores. In the binary case, a positive score predicts ``classes_[1]``.
        """
        Z = self._scores(X)
        return Z[:, 1] - Z[:, 0] if Z.shape[1] == 2 else Z

    def predict(self, X: Any) -> NDArray:
        """Predict the class with the highest score.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), or a data frame
            Samples.

        Returns
        -------
        array of shape (n_samples,)
            Predicted labels. The first class is predicted for ties.
        """
        return self._predict_in_batches(X, lambda Z: self.classes_[Z.argmax(axis=1)])

    def predict_proba(self, X: Any) -> NDArray:
        """Return the class probabilities softmax(z).

        Parameters
        ----------
        X : array of shape (n_samples, n_features), or a data frame
            Samples.

        Returns
        -------
        array of shape (n_samples, n_classes)
            Probabilities in the order of ``classes_``.
        """
        return self._predict_in_batches(X, lambda Z: softmax_by_class(Z).T)

    def predict_log_proba(self, X: Any) -> NDArray:
        """Return the logarithms of the class probabilities.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), or a data frame
            Samples.

        Returns
        -------
        array of shape (n_samples, n_classes)
            Log probabilities in the order of ``classes_``, finite even if a probability underflows.
        """
        return self._predict_in_batches(X, log_softmax)

    @property
    def perfect_fit_(self) -> bool:
        """Whether ``max_loss_`` is below log 2, which implies a training accuracy of 1.

        See Proposition 2.2 of the paper.
        """
        return bool(self.max_loss_ < LOG2)

    def _scores(self, X: Any) -> NDArray:
        """Return the scores of all classes, of shape (n_samples, n_classes)."""
        return self._predict_in_batches(X, lambda Z: Z)

    def _predict_in_batches(self, X: Any, output: Callable[[NDArray], NDArray]) -> NDArray:
        check_is_fitted(self, "model_")
        return predict_in_batches(self, X, self.model_, output)


class BaseMaxPlusRegressor(RegressorMixin, BaseMaxPlusEstimator):
    """Base class of regressors."""

    @abstractmethod
    def _fitted_attributes(self, data: TrainingData) -> dict[str, Any]:
        """Train the model and return its fitted attributes."""

    @abstractmethod
    def _warn_after_fit(self) -> None:
        """Warn if training was interrupted or did not converge."""

    def fit(self: Self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the regressor.

        If fitting fails, the estimator is unchanged.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), or a data frame
            Training samples.
        y : array of shape (n_samples,)
            Targets.
        sample_weight : array of shape (n_samples,), optional
            Sample weights >= 0. Samples with weight 0 are ignored.

        Returns
        -------
        self
            Fitted estimator.
        """
        self._check_parameters()
        if (size := current().size) > 1:
            raise ValueError(
                f"a regressor cannot be trained on {size} MPI ranks; use a single process"
            )
        data = TrainingData.for_regression(self, X, y, sample_weight)
        summary = {"training_summary_": targets_summary(np.asarray(data.y, np.float64))}
        with threads(self.n_jobs):
            fitted = data.columns | summary | self._fitted_attributes(data)
        replace_fitted(self, fitted)
        self._warn_after_fit()
        return self


def training_summary(estimator: Any) -> Mapping[str, Any]:
    """Return summary statistics of the training rows of an estimator.

    The keys are "n_rows", "class_counts", "n_below_log2" and "mean_loss" for a classifier, and
    "n_rows", "mean" and "deviation" (of the targets) for a regressor. Rows of weight 0 are ignored
    for a classifier. The result is empty if the estimator stores neither a summary nor losses.
    """
    stored = vars(estimator).get("training_summary_")
    if stored is not None:
        return stored
    if not hasattr(estimator, "training_losses_"):
        return {}
    used = ~np.isnan(estimator.training_losses_)
    losses, labels = estimator.training_losses_[used], estimator.training_labels_[used]
    codes = np.searchsorted(estimator.classes_, labels)
    return {
        "n_rows": len(losses),
        "class_counts": np.bincount(codes, minlength=len(estimator.classes_)).tolist(),
        "n_below_log2": int((losses < LOG2).sum()),
        "mean_loss": float(losses.mean()) if losses.size else 0.0,
    }


def targets_summary(y: NDArray) -> dict[str, Any]:
    """Return summary statistics of the training targets of a regressor."""
    # Targets are scaled, because the squares of large targets would overflow.
    size = float(np.abs(y).max(initial=0.0)) or 1.0
    scaled = y / size
    return {
        "n_rows": len(y),
        "mean": float(size * scaled.mean()),
        "deviation": float(size * scaled.std()),
    }


def is_training_table(estimator: Any, values: NDArray) -> bool:
    """Return whether a table is probably the training table of an estimator.

    Only the number of rows and summary statistics of the ``values`` are compared, which are the
    losses for a classifier and the targets for a regressor.
    """
    summary = training_summary(estimator)
    if not len(values) or summary.get("n_rows") != len(values):
        return False
    if "mean" in summary:
        found = {name: targets_summary(values)[name] for name in ("mean", "deviation")}
    else:
        found = {"mean_loss": float(values.mean())}
    return all(
        math.isclose(value, summary[name], rel_tol=TOLERANCE) for name, value in found.items()
    )
