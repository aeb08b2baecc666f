"""What all trained classifiers share: validation, training, prediction."""

from __future__ import annotations

import math
import os
import warnings
from abc import ABCMeta, abstractmethod
from contextlib import ExitStack
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from maxplus.estimators._threads import threads
from maxplus.estimators._validation import (
    as_dense,
    check_callbacks,
    check_choice,
    check_integer,
    check_magnitude,
    check_real,
    check_sample_weight,
    check_samples,
    within_range,
)
from maxplus.models import Model
from maxplus.models._softmax import log_softmax, softmax
from maxplus.training import (
    History,
    MaxLoss,
    MeanLoss,
    Objective,
    Status,
    StepRule,
    Task,
    TopKLoss,
    constant,
    level,
    paper_alpha,
    polyak,
    train,
    two_phase,
)
from maxplus.training.engines import ENGINES, Engine
from maxplus.training.loop import Callback
from maxplus.training.progress import ProgressBar
from maxplus.training.state import ITERATIONS, POLISH, WARM_UP, TrainingState

Self = TypeVar("Self", bound="TrainedClassifier")

STEPS = ("two-phase", "polyak", "constant", "level")

# Below this maximum loss no training sample can be misclassified (the paper's proposition 2.2).
CERTIFICATE = math.log(2.0)


class Staged(NamedTuple):
    """The model after a stage of training, how many iterations it took, and how it ended."""

    model: Model
    n_iter: int = 0
    status: Status = Status.MAX_ITER
    name: str = ITERATIONS

    @property
    def ends_training(self) -> bool:
        """Whether somebody asked for the end: then no other stage follows."""
        return self.status in (Status.INTERRUPTED, Status.CALLBACK)


class TrainedClassifier(ClassifierMixin, BaseEstimator, metaclass=ABCMeta):
    """A model trained by an engine, with scikit-learn's interface.

    Subclasses name their hyper-parameters and build the model that training
    starts from.
    """

    # Hyper-parameters that every subclass has.
    objective: str
    step: str
    polyak_target: float
    polyak_fraction: float
    learning_rate: float
    engine: str
    max_iter: int
    keep: str
    warm_start: bool
    n_jobs: int | None
    random_state: Any
    verbose: int
    callbacks: Any

    model_: Model
    classes_: NDArray
    history_: History
    n_iter_: int
    max_loss_: float
    training_losses_: NDArray
    training_labels_: NDArray
    mean_loss_: float
    status_: str
    _model_class: type[Model]

    @abstractmethod
    def _initial_model(
        self, X: NDArray, y: NDArray, n_classes: int, index: NDArray, rng: np.random.Generator
    ) -> Model:
        """Where training starts; ``index`` tells which rows the user gave X's rows as."""

    def fit(self: Self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Train on samples X with labels y.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_samples, n_features)
        y : labels of shape (n_samples,), at least two different ones
        sample_weight : array of shape (n_samples,), optional
            A weight of 0 leaves a sample out. Other weights do not change a
            maximum or which samples are the k worst; in a mean they are weights.

        Returns
        -------
        self
        """
        resume = self.warm_start and hasattr(self, "model_")
        return self._fit(X, y, sample_weight, None, resume=resume, go_on=False)

    def partial_fit(
        self: Self,
        X: Any,
        y: Any,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Train ``max_iter`` iterations more, from the present parameters.

        An LMM's polish follows them, and no warm-up comes before. The first call should have
        samples of every class. The iteration count, and with it the step rule's phase,
        goes on; the history grows. With keep="best" the present parameters are the best ones
        seen, not the last: for many short calls set keep="last". ``classes``
        lists all labels there will ever be; it is only read at the first call
        and may be left out if y has them all.
        """
        resume = hasattr(self, "model_")
        return self._fit(X, y, sample_weight, classes, resume=resume, go_on=resume)

    def decision_function(self, X: Any) -> NDArray:
        """The scores z of shape (n_samples, n_classes); with two classes z₁ − z₀.

        For two classes scikit-learn wants one number per sample, positive for
        ``classes_[1]``; ``model_.scores`` gives both.
        """
        Z = self._scores(X)
        return Z[:, 1] - Z[:, 0] if Z.shape[1] == 2 else Z

    def predict(self, X: Any) -> NDArray:
        """The label with the highest score; the first one among equals."""
        winners = np.argmax(self._scores(X), axis=1)
        return self.classes_[winners]

    def predict_proba(self, X: Any) -> NDArray:
        """softmax(z): probabilities of shape (n_samples, n_classes)."""
        return softmax(self._scores(X))

    def predict_log_proba(self, X: Any) -> NDArray:
        """Logarithm of the probabilities, finite where they underflow."""
        return log_softmax(self._scores(X))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator to one file; `maxplus.load` reads it back, exactly.

        The file holds arrays and JSON only: loading executes nothing. It is
        written whole or not at all.
        """
        from maxplus.io import save

        save(self, path)

    @property
    def loss_curve_(self) -> NDArray:
        """The objective before each step; with sgd, the drawn sample's loss."""
        return self.history_["loss"]

    @property
    def certified_(self) -> bool:
        """Whether max_loss_ < log 2: then every sample of the last training is classified right."""
        return bool(self.max_loss_ < CERTIFICATE)

    def _scores(self, X: Any) -> NDArray:
        X = self._validated(X)
        with threads(self.n_jobs):
            return self.model_.scores(X)

    def _validated(self, X: Any) -> NDArray:
        """X as the fitted model takes it."""
        check_is_fitted(self, "model_")
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        return within_range(as_dense(X), self.model_, self._slopes)

    # Weight arrays that multiply an input.
    _slopes: tuple[str, ...] = ()

    def _check_parameters(self) -> None:
        """Raise for hyper-parameters that cannot be."""
        check_choice("objective", self.objective, tuple(self._objectives()))
        check_choice("step", self.step, STEPS)
        check_real("polyak_target", self.polyak_target, minimum=0.0)
        check_real("polyak_fraction", self.polyak_fraction, minimum=0.0, maximum=1.0)
        check_real("learning_rate", self.learning_rate, above=0.0)
        check_integer("max_iter", self.max_iter, self._least_iterations())
        check_choice("keep", self.keep, ("best", "last"))
        verbose = int(self.verbose) if isinstance(self.verbose, bool) else self.verbose
        check_integer("verbose", verbose, 0)
        check_callbacks(self.callbacks)
        self._engine_class()

    def _objectives(self) -> dict[str, Objective]:
        """By name, all objectives that the estimator has the parameters of."""
        objectives: dict[str, Objective] = {"max": MaxLoss(), "mean": MeanLoss()}
        if hasattr(self, "top_k"):
            objectives["top-k"] = TopKLoss(check_samples("top_k", self.top_k, 1))
        return objectives

    def _check_resumable(self) -> None:
        """Raise if a training from the present parameters would do nothing."""

    def _least_iterations(self) -> int:
        """0 where something else trains as well."""
        return 1

    def _warm_up(
        self, model: Model, task: Task, callbacks: list[Callback], state: TrainingState | None
    ) -> Staged | None:
        """What is done to a fresh model before the engine's iterations."""
        return None

    def _polish(
        self, model: Model, task: Task, index: NDArray, callbacks: list[Callback]
    ) -> Staged | None:
        """What is done to the kept model after them."""
        return None

    def _forget(self) -> None:
        """Drop what a former training left behind."""

    def _note_training(self, X: NDArray, go_on: bool) -> None:
        """What else a subclass keeps of the training samples."""

    def _automatic_engine(self) -> str:
        """What ``engine="auto"`` stands for with the maximum loss and that of the k worst."""
        return "dense"

    def _engine_class(self) -> type[Engine]:
        check_choice("engine", self.engine, ("auto", *ENGINES))
        name = self.engine
        if name == "auto":
            name = "sgd" if self.objective == "mean" else self._automatic_engine()
        engine = ENGINES[name]
        if self.objective not in engine.objectives:
            raise ValueError(
                f"engine={name!r} minimises the {' or '.join(engine.objectives)} loss, "
                f"not objective={self.objective!r}; use engine='auto'"
            )
        if not issubclass(self._model_class, engine.models):
            raise ValueError(
                f"engine={name!r} cannot train a {type(self).__name__}; use engine='auto'"
            )
        return engine

    def _step_rule(self, n_classes: int, start: int = 0) -> StepRule:
        """The step rule of a training whose first iteration is ``start``; O(start)."""
        first = polyak(self.polyak_target)
        then = constant(paper_alpha(self.learning_rate, n_classes), self.polyak_target)
        if self.step == "polyak":
            return first
        if self.step == "constant":
            return then
        if self.step == "level":
            best = np.fmin.reduce(self.history_["loss"]) if start else math.inf
            return level(max(1, self.max_iter), self.polyak_target, best)
        assert self.step == "two-phase"
        return two_phase(first, then, math.ceil(self.polyak_fraction * self.max_iter))

    def _fit(
        self: Self,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None,
        classes: ArrayLike | None,
        *,
        resume: bool,
        go_on: bool,
        state: TrainingState | None = None,
    ) -> Self:
        """Train from scratch, from the present model (resume), counting on from it (go_on).

        With a ``state``, an interrupted training from scratch goes on where it was.
        """
        self._check_parameters()
        if resume:
            self._check_resumable()
        X, y = validate_data(
            self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], reset=not resume
        )
        X = np.ascontiguousarray(as_dense(X))
        check_magnitude(X)
        check_classification_targets(y)
        weight = check_sample_weight(sample_weight, len(y))
        index = np.arange(len(y)) if weight is None else np.flatnonzero(weight)
        all_labels = y
        if weight is not None:
            X, y, weight = X[index], y[index], weight[index]
        labels, codes = self._encode(y, classes, resume)
        if not (go_on and hasattr(self, "_rng")):
            seed = check_random_state(self.random_state).randint(2**31)
            self._rng = np.random.default_rng(seed)
        rng = self._rng

        if not (go_on or state is not None):
            self._forget()
        start = self.history_["loss"].size if go_on else 0
        task = Task(
            X.astype(self.model_.dtype, copy=False) if resume else X, codes,
            self._objectives()[self.objective], self._step_rule(labels.size, start),
            linear_every=getattr(self, "linear_every", 0), start=start, weight=weight, rng=rng,
        )  # fmt: skip
        with ExitStack() as stack:
            stack.enter_context(threads(self.n_jobs))
            if resume:
                model = self.model_.copy()
            elif state is None:
                model = self._initial_model(X, codes, labels.size, index, rng)
            else:
                model = self._model_class(**state.weights)
            callbacks = check_callbacks(self.callbacks)
            if self.verbose:
                callbacks.append(stack.enter_context(ProgressBar(type(self).__name__)))
            for callback in callbacks:
                if hasattr(callback, "begin"):
                    callback.begin(self, labels, X, codes, weight)
            stage, history = Staged(model), History()
            n_iter = self.n_iter_ if go_on else 0
            in_iterations = state is not None and state.stage == ITERATIONS
            if in_iterations:
                n_iter += len(getattr(self, "warmup_losses_", ()))
            elif not resume:
                stage = self._warm_up(model, task, callbacks, state) or stage
                n_iter += stage.n_iter
            if self.max_iter and not stage.ends_training:
                stage, history = self._iterate(
                    stage.model, task, callbacks, state if in_iterations else None
                )
                n_iter += stage.n_iter
            if not stage.ends_training:
                polished = self._polish(stage.model, task, index, callbacks)
                if polished is not None:
                    stage, n_iter = polished, n_iter + polished.n_iter
            losses = stage.model.losses(task.X, codes)
            self.model_ = stage.model
            self._note_training(task.X, go_on)

        history.map_samples(index)
        if go_on:
            self.history_.extend(history)
        else:
            self.history_ = history
        self.classes_ = labels
        self.n_iter_ = n_iter
        self.status_ = stage.status.value
        self.training_labels_ = np.array(all_labels)
        self.training_losses_ = np.full(len(all_labels), np.nan)
        self.training_losses_[index] = losses
        self.max_loss_ = float(losses.max())
        self.mean_loss_ = float(np.average(losses, weights=weight))
        if stage.status is Status.INTERRUPTED:
            which = f"{self.keep} " if stage.name == ITERATIONS else ""
            total = f"of {self.max_iter} " if stage.name == ITERATIONS else ""
            what = {WARM_UP: "epochs of the warm-up", POLISH: "rounds of the polish"}
            warnings.warn(
                f"training was interrupted after {stage.n_iter} {total}"
                f"{what.get(stage.name, stage.name)}; the {which}parameters so far are kept",
                stacklevel=3,
            )
        return self

    def _iterate(
        self, model: Model, task: Task, callbacks: list[Callback], state: TrainingState | None
    ) -> tuple[Staged, History]:
        """The engine's iterations; they move ``model`` in place."""
        engine = self._engine_class()(model, task)
        result = train(engine, self.max_iter, callbacks, state)
        kept = engine.best if self.keep == "best" else engine.model
        n_iter = result.history["loss"].size
        return Staged(kept, n_iter, result.status), result.history

    def _encode(
        self, y: NDArray, classes: ArrayLike | None, resume: bool
    ) -> tuple[NDArray, NDArray]:
        """All labels in order, and y as positions among them."""
        if resume:
            labels = self.classes_
        else:
            labels = np.unique(y if classes is None else np.asarray(classes))
        known = np.isin(y, labels)
        if not known.all():
            raise ValueError(
                f"y has the label {y[~known].tolist()[0]!r}, which is not one of the classes "
                f"{labels.tolist()}; name all classes at the first partial_fit, or fit anew"
            )
        if labels.size < 2:
            raise ValueError(
                f"y holds one class only ({labels.tolist()[0]!r}); a classifier needs at least "
                "two, so add samples of another"
            )
        return labels, np.searchsorted(labels, y)

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn that CSR input is welcome."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
