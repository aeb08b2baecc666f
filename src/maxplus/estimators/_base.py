"""The base class of all classifiers, and mixins for status and files."""

from __future__ import annotations

import math
import os
from abc import ABCMeta, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from maxplus.distributed import current
from maxplus.distributed.communicator import mark_collective
from maxplus.estimators._dataset import Answer, LabelledData, answers, mean_loss, rows_for
from maxplus.estimators._parameters import (
    Effect,
    Parameters,
    as_callbacks,
    check_parameters,
    needs_state,
    progress_bar,
    threads,
    warn_of_no_effect,
    warn_user,
)
from maxplus.models import LOG2, Model, Network
from maxplus.models._softmax import log_softmax, softmax_by_class
from maxplus.training import (
    KeepBestOnInterrupt,
    Status,
    TrainingMonitor,
    TrainingProblem,
    run_stages,
)
from maxplus.training.result import StateError, TrainingState
from maxplus.training.stages import Iterations, Polish, Stage, Trained, WarmUp


class Ended:
    """For estimators whose ``status_`` is the code of a `maxplus.training.Status`."""

    status_: str

    @property
    def status_message_(self) -> str:
        """``status_`` as a sentence."""
        return Status.of(self.status_).message


def warn_of_shortfall(message: str) -> None:
    """Say that a fit did not reach what it was asked for, as scikit-learn's estimators do."""
    warn_user(message, ConvergenceWarning)


# Fitted attributes with an entry for single training rows, which files keep only when asked to.
PER_ROW = ("training_losses_", "training_labels_", "training_rows_", "suspects_", "residuals_")


class Saved:
    """For estimators that `maxplus.load` reads back."""

    def save(self, path: str | os.PathLike[str], *, remember_rows: bool = False) -> None:
        """Write the fitted estimator to one file; `maxplus.load` reads it back.

        The file holds arrays and JSON only: loading executes nothing. It is
        written whole or not at all.

        Parameters
        ----------
        path : str or path
            Where; a file that exists is replaced, whole, at the end.
        remember_rows : bool, default=False
            Keep what is known of single training rows as well: labels, losses, ``suspects_``,
            ``residuals_``, ``training_rows_``. This reveals them: labels and losses can be read in
            the order of the training rows, and with ``training_rows_`` guesses of rows can be
            tested against the file. By default nothing per training row is written, see
            SECURITY.md.
        """
        from maxplus.io import save

        save(self, path, remember_rows=remember_rows)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Explain why a model from a file lacks what it would know of its training rows."""
            own = vars(self)
            in_memory = {"training_losses_", "residuals_", "interpolates_"} & {*own}
            if name in PER_ROW and "training_summary_" in own and not in_memory:
                raise AttributeError(
                    f"{name} is not known: the model's file keeps nothing about single training "
                    "rows; write it with save(path, remember_rows=True) or --remember-rows"
                )
            return object.__getattribute__(self, name)


# Two means of the same rows differ by rounding alone.
TOLERANCE = 1e-5


def training_summary(estimator: Any) -> Mapping[str, Any]:
    """Return counts and means of the rows that an estimator was trained on.

    Of a classifier ``n_rows``, ``class_counts``, ``n_below_log2`` and ``mean_loss``, all of rows
    with a weight; of a regressor ``n_rows``, ``mean`` and ``deviation`` of the targets.
    """
    kept = vars(estimator).get("training_summary_")
    if kept is not None:
        return kept
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
    """Return the summary of a regression's training targets."""
    # Squares of large targets would overflow.
    size = float(np.abs(y).max(initial=0.0)) or 1.0
    small = y / size
    return {
        "n_rows": len(y),
        "mean": float(size * small.mean()),
        "deviation": float(size * small.std()),
    }


def is_training_table(estimator: Any, values: NDArray) -> bool:
    """Return whether rows are, as a whole, those that the estimator was trained on.

    Parameters
    ----------
    estimator : fitted
    values : the rows' losses of a classifier, the targets of a regressor, shape (N,)

    Notes
    -----
    No row is recognised: the number of rows and the mean (and deviation) must be those of the
    training rows, which other rows do not have by chance.
    """
    summary = training_summary(estimator)
    if not len(values) or summary.get("n_rows") != len(values):
        return False
    own = {"mean_loss": float(values.mean())}
    if "mean" in summary:
        own = {name: targets_summary(values)[name] for name in ("mean", "deviation")}
    return all(math.isclose(own[name], summary[name], rel_tol=TOLERANCE) for name in own)


Self = TypeVar("Self", bound="TrainedClassifier")

COUNTED = {
    WarmUp.name: "epochs of the warm-up",
    Polish.name: "rounds of the polish",
    "ensemble": "epochs of the ensemble",
}


class OtherDataError(StateError):
    """A training cannot go on with other data than it began with."""


class Origin(NamedTuple):
    """What is being trained on what, for callbacks that keep it."""

    estimator: Any
    data: LabelledData


class Start(NamedTuple):
    """Where a training begins: a model, and what is known of it, by name.

    ``rng`` is the generator that an earlier training left, if this one goes on from it.
    """

    model: Network
    facts: Mapping[str, NDArray]
    rng: np.random.Generator | None = None


class TrainedClassifier(Ended, Saved, ClassifierMixin, BaseEstimator, metaclass=ABCMeta):
    """A model trained in stages, with scikit-learn's interface.

    Subclasses state their hyper-parameters, build the model that training starts from,
    and name the stages.
    """

    # What hyper-parameters may be.
    _parameters: ClassVar[Parameters]
    # Which of them count only beside others.
    _effects: ClassVar[tuple[Effect, ...]] = ()
    _model_class: ClassVar[type[Model]]
    # Weight arrays that multiply an input.
    _slopes: ClassVar[tuple[str, ...]] = ()

    n_jobs: int | None
    random_state: Any
    verbose: int
    callbacks: Any

    model_: Network
    classes_: NDArray
    n_iter_: int
    max_loss_: float
    training_losses_: NDArray
    training_labels_: NDArray
    mean_loss_: float

    @abstractmethod
    def _start(
        self, data: LabelledData, rng: np.random.Generator, monitor: TrainingMonitor
    ) -> Start:
        """Where a training from scratch begins; the monitor hears of what takes long."""

    @abstractmethod
    def _stages(self, data: LabelledData, facts: Mapping[str, NDArray]) -> Sequence[Stage]:
        """What follows the start, of which ``facts`` are known."""

    def _problem(
        self, data: LabelledData, facts: Mapping[str, NDArray], rng: np.random.Generator
    ) -> TrainingProblem:
        """What the stages are given."""
        return TrainingProblem(data.X, data.y, weight=data.weight, rng=rng)

    def fit(self: Self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Train on samples X with labels y.

        A fit that is refused, fails or is interrupted leaves the estimator as it was. To keep the
        best model so far on Ctrl-C, pass a `maxplus.training.KeepBestOnInterrupt` as a callback.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), or a data frame
            Columns of words, dates or missing values become features by a
            `maxplus.tables.Preparation`, which is kept as ``preparation_``; other methods then
            take such data frames as well as arrays of these features. No column is left out.
        y : labels of shape (n_samples,), at least two different ones
        sample_weight : array of shape (n_samples,), optional
            A weight of 0 leaves a sample out. Other weights do not change a
            maximum or which samples are the k worst; in a mean they are weights.

        Returns
        -------
        self
        """
        return self._fit(X, y, sample_weight, present=self._present())

    def _present(self) -> Start | None:
        """What `fit` goes on from; None is from scratch."""
        return None

    def _fit(
        self: Self,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None,
        classes: ArrayLike | None = None,
        *,
        present: Start | None = None,
        state: TrainingState | None = None,
        digest: str | None = None,
    ) -> Self:
        """Check the data, find the start, run the stages, keep what they brought: all or nothing.

        Training goes on from the ``present`` model, if there is one, or from a ``state`` of a
        training on data with this ``digest``.
        """
        comm = current()
        with comm.raise_on_all_ranks():
            self._check_parameters()
        comm.agree({"estimator": type(self).__name__})
        comm.agree(_told(self))
        self._warn_of_no_effect()
        like = None if present is None else present.model
        data = self._labelled(X, y, sample_weight, classes, like)
        callbacks = as_callbacks(self.callbacks)
        if not comm.is_alone and comm.any(any(map(needs_state, callbacks))):
            assert data.digest  # Found together, because rank 0 writes it alone.
        if state is not None and data.digest != digest:
            raise mark_collective(
                OtherDataError("the data are not those that the training began with")
            )
        rng = self._generator(present)
        with ExitStack() as stack:
            stack.enter_context(threads(self.n_jobs))
            if not comm.is_first:
                callbacks = [c for c in callbacks if isinstance(c, KeepBestOnInterrupt)]
            elif self.verbose:
                callbacks.append(stack.enter_context(progress_bar(self)))
            monitor = stack.enter_context(TrainingMonitor(callbacks, Origin(self, data)))
            if state is not None:
                start = self._restored(data, state, rng)
            else:
                start = self._start(data, rng, monitor) if present is None else present
            problem = self._problem(data, start.facts, rng)
            stages = self._stages(data, start.facts)
            trained = run_stages(stages, start.model, problem, monitor, state, start.facts)
            facts = self._facts(data, {**start.facts, **trained.facts}, trained)
        # One assignment: an interruption finds the old facts or the new ones, never some of both.
        self.__dict__ = self._unfitted() | facts | self._memory(rng, goes_on=present is not None)
        self._warn_of_ending(trained)
        return self

    def _labelled(
        self, X: Any, y: Any, sample_weight: ArrayLike | None, classes: ArrayLike | None,
        like: Network | None,
    ) -> LabelledData:  # fmt: skip
        """What `fit` was given, checked."""
        return LabelledData.of(self, X, y, sample_weight, classes, like=like)

    def _generator(self, present: Start | None) -> np.random.Generator:
        if present is not None and present.rng is not None:
            return present.rng
        seed = check_random_state(self.random_state).randint(2**31)
        return np.random.default_rng(current().bcast(seed))

    def _restored(
        self, data: LabelledData, state: TrainingState, rng: np.random.Generator
    ) -> Start:
        """Where an interrupted training was; StateError if it cannot have been there."""
        facts = state.before
        self._check_facts(state, data)
        problem = self._problem(data, facts, rng)
        for stage in self._stages(data, facts):
            if stage.name == state.stage:
                model = stage.check(state, problem, self._model_class)
                if model.n_classes != data.n_classes:
                    raise StateError(f"its weights are for {model.n_classes} classes")
                return Start(model, facts)
        raise StateError(f"there is no stage {state.stage!r:.40} to go on from")

    def _check_facts(self, state: TrainingState, data: LabelledData) -> None:
        """StateError if what a state knows of the time before its stage cannot be."""
        if "n_iter" in state.before and state.array("before.n_iter", np.int64, (1,))[0] < 0:
            raise StateError("it cannot have done fewer iterations than none")

    def _facts(
        self, data: LabelledData, facts: Mapping[str, NDArray], trained: Trained
    ) -> dict[str, Any]:
        """All fitted attributes; ``facts`` are those of the start and of all stages."""
        losses = trained.model.losses(data.X, data.y)
        everyone = np.full(len(data.labels), np.nan)
        everyone[data.index] = losses
        return {
            **data.columns,
            "classes_": data.classes,
            "model_": trained.model,
            "n_iter_": int(facts.get("n_iter", [0])[0]) + trained.n_iter,
            "status_": trained.status.value,
            "training_labels_": data.labels,
            "training_losses_": everyone,
            "max_loss_": current().largest(float(losses.max(initial=-np.inf))),
            "mean_loss_": mean_loss(losses, data.weight),
        }

    def _unfitted(self) -> dict[str, Any]:
        """Parameters, and whatever else is no fitted attribute."""
        return {n: v for n, v in vars(self).items() if not n.endswith("_") and n != "_rng"}

    def _memory(self, rng: np.random.Generator, goes_on: bool) -> dict[str, Any]:
        """What a training that goes on from this one needs to know, beside fitted attributes."""
        return {"_rng": rng}

    def _warn_of_no_effect(self) -> None:
        """Warn of parameters that were set and change nothing."""
        warn_of_no_effect(self, self._effects)

    def _warn_of_ending(self, trained: Trained) -> None:
        """Warn where training did not end as it should have; `fit` has set everything."""
        if trained.status is Status.INTERRUPTED:
            warn_user(self._interruption(trained))
        elif trained.status.falls_short:
            warn_of_shortfall(self._shortfall(trained.status))

    def _shortfall(self, status: Status) -> str:
        """What a training that fell short did not reach, and what helps."""
        return f"training ended early: {status.message}"

    def _interruption(self, trained: Trained) -> str:
        if trained.outcomes:
            what, which = COUNTED.get(trained.last, trained.last), ""
            if trained.last == Iterations.name:
                what, which = f"of {self.max_iter} {what}", f"{self.keep} "
            when = f"after {trained.outcomes[-1].n_iter} {what}"
            kept = f"the {which}parameters so far are kept"
        else:
            when, kept = "before its first step", "the start is kept"
        return f"training was interrupted {when}; {kept}"

    def _check_parameters(self) -> None:
        """Raise for hyper-parameters that cannot be."""
        check_parameters(self, self._parameters)

    def decision_function(self, X: Any) -> NDArray:
        """The scores z of shape (n_samples, n_classes); with two classes z₁ − z₀.

        For two classes scikit-learn wants one number per sample, positive for
        ``classes_[1]``; ``model_.scores`` gives both.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), or a data frame

        Returns
        -------
        array of shape (n_samples, n_classes), or (n_samples,)
            Scores.
        """
        Z = self._scores(X)
        return Z[:, 1] - Z[:, 0] if Z.shape[1] == 2 else Z

    def predict(self, X: Any) -> NDArray:
        """The label with the highest score; the first one among equals.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), or a data frame

        Returns
        -------
        array of shape (n_samples,)
            Labels.
        """
        return self._said(X, lambda Z: self.classes_[Z.argmax(axis=1)])

    def predict_proba(self, X: Any) -> NDArray:
        """softmax(z): probabilities of shape (n_samples, n_classes).

        Parameters
        ----------
        X : array of shape (n_samples, n_features), or a data frame

        Returns
        -------
        array of shape (n_samples, n_classes)
            Columns are in the order of ``classes_``.
        """
        return self._said(X, lambda Z: softmax_by_class(Z).T)

    def predict_log_proba(self, X: Any) -> NDArray:
        """Logarithm of the probabilities, finite where they underflow.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), or a data frame

        Returns
        -------
        array of shape (n_samples, n_classes)
            Columns are in the order of ``classes_``.
        """
        return self._said(X, log_softmax)

    @property
    def perfect_fit_(self) -> bool:
        """Whether max_loss_ < log 2: then every sample of the last training is classified right.

        This is the paper's proposition 2.2. It says nothing about new samples.
        """
        return bool(self.max_loss_ < LOG2)

    def _scores(self, X: Any) -> NDArray:
        return self._said(X, lambda Z: Z)

    def _said(self, X: Any, say: Answer) -> NDArray:
        check_is_fitted(self, "model_")
        return answers(self, X, self.model_, self._slopes, say)

    def _validated(self, X: Any) -> NDArray:
        """X as the fitted model takes it."""
        check_is_fitted(self, "model_")
        return rows_for(self, X, self.model_, self._slopes)


def _told(estimator: Any) -> dict[str, Any]:
    """The parameters that ranks must have in common; what is no number or word, in words."""
    own = estimator.get_params(deep=False)
    plain = (int, float, str, type(None))
    return {
        f"parameter {name}": own[name] if isinstance(own[name], plain)
        else repr(getattr(own[name], "__qualname__", own[name]))
        for name in sorted(own)
        if name not in ("callbacks", "verbose", "n_jobs", "augment", "random_state")
    }  # fmt: skip
