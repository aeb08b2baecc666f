"""Ensemble of Linear-Min-Max classifiers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numba
import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from maxplus.distributed import current
from maxplus.estimators._additive import Choice, JointTraining, PreparedData, SumStage, TrainedSum
from maxplus.estimators._base import FitState
from maxplus.estimators._cross_validation import FOLDS
from maxplus.estimators._lmm import BaseLMMClassifier
from maxplus.estimators._parameters import (
    BOOLEAN,
    TRAINED,
    Constraint,
    Parameters,
    integer,
    is_set,
    reject_checkpoints,
    warn_no_effect,
    warn_of_unused_parameters,
)
from maxplus.estimators._training_data import TrainingData
from maxplus.estimators.lmm_classifier import LMMClassifier, suspects_above
from maxplus.models import LMM, AdditiveLMM, Network
from maxplus.training import Status, TrainingMonitor, TrainingProblem, run_stages
from maxplus.training.monitor import run_parallel
from maxplus.training.problem import count_samples
from maxplus.training.stages import Stage, TrainingResult
from maxplus.training.stages.base import require_finite

CLASSIFIER = Constraint("an LMMClassifier", lambda v: isinstance(v, LMMClassifier))
# Parameters of the base estimator that the ensemble overrides.
REPLACED = {"n_jobs": None, "random_state": None, "verbose": 0, "callbacks": None}


class LMMEnsembleClassifier(BaseLMMClassifier):
    """Ensemble that averages the scores of several LMM classifiers.

    The models are trained in parallel with different random initialisations and batches, and
    averaging their scores reduces the variance. The averaged model is again a sum of terms, so the
    ensemble supports certificates, explanations and exports. The loss is convex in the scores.
    Therefore, the loss of the ensemble on a sample is at most the mean loss of the models. The
    structure is selected and the inverse temperature is estimated once for all models.

    Parameters
    ----------
    estimator : LMMClassifier, optional
        Classifier with the parameters of each model. By default, ``LMMClassifier()``. Its
        ``n_jobs``, ``random_state``, ``verbose`` and ``callbacks`` are ignored.
    n_estimators : int, default=4
        Number of models.
    bootstrap : bool, default=False
        If True, train each model on a bootstrap sample, stratified by class. The polish of a
        model uses its bootstrap sample only.
    n_jobs : int, optional
        Number of models to train in parallel, each on one core. None and −1 use all cores.
        Results do not depend on it.
    random_state : int, RandomState or None, default=None
        Seed for folds, bootstrap samples, batches and the initialisation of units.
    verbose : int, default=0
        If nonzero, show a progress bar.
    callbacks : callable or list of callables, optional
        Functions called with a `maxplus.training.Progress` after each training run of the search
        and each model. Returning True stops training and keeps the completed models. Ctrl-C
        has the same effect if one of the callbacks is a `maxplus.training.KeepBestOnInterrupt`.

    Attributes
    ----------
    model_ : AdditiveLMM
        Sum of the terms of all models.
    n_hidden_ : int
        Number of hidden units of all models.
    suspects_ : ndarray of int
        Indices of the training samples whose loss is not below the level of the polish.
    loss_curve_ : ndarray of shape (n_iter_,)
        Smoothed loss of each epoch, averaged over the models.
    n_iter_ : int
        Number of epochs of each model.
    classes_, n_features_in_, feature_names_in_, scale_, inverse_temperature_, search_, \
term_means_, unit_activation_counts_, feature_importances_, status_, status_message_, max_loss_, \
mean_loss_, perfect_fit_, training_losses_, training_labels_
        As in `LMMClassifier`, for the ensemble.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from maxplus import LMMClassifier, LMMEnsembleClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> clf = LMMEnsembleClassifier(LMMClassifier(n_hidden=9), 3, random_state=0)
    >>> clf.fit(X[::2], y[::2]).score(X[1::2], y[1::2]) > 0.9, len(clf.model_.terms)
    (True, 3)
    >>> radius = clf.certified_radius(X, scale=clf.scale_)
    >>> moved = X + 0.99 * radius[:, None] * clf.scale_
    >>> bool((clf.predict(moved) == clf.predict(X)).all())
    True
    """

    loss_curve_: NDArray
    search_: dict[str, Any]
    inverse_temperature_: float
    _parameters: ClassVar[Parameters] = {
        **TRAINED,
        "estimator": (CLASSIFIER, None),
        "n_estimators": (integer(1),),
        "bootstrap": (BOOLEAN,),
    }

    def __init__(
        self,
        estimator: LMMClassifier | None = None,
        n_estimators: int = 4,
        *,
        bootstrap: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        callbacks: Any = None,
    ) -> None:
        self.estimator = estimator
        self.n_estimators = n_estimators
        self.bootstrap = bootstrap
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callbacks = callbacks

    @property
    def _member(self) -> LMMClassifier:
        """Unfitted classifier with the parameters of each model."""
        if self.estimator is None:
            return LMMClassifier()
        return clone(self.estimator).set_params(**REPLACED)

    @property
    def _level(self) -> float:
        return self._member._level

    @property
    def _monotonic_cst(self) -> Any:
        return self._member.monotonic_cst

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._member._check_parameters()
        if self._member._is_robust:
            raise ValueError(
                f"robust_eps={self._member.robust_eps!r:.60} without n_hidden trains a certified "
                "sum of terms, which an ensemble does not support; set n_hidden, or use a single "
                "LMMClassifier"
            )
        reject_checkpoints(self.callbacks, "an ensemble")

    def _warn_of_no_effect(self) -> None:
        super()._warn_of_no_effect()
        warn_of_unused_parameters(self._member, LMMClassifier._effects)
        for name in REPLACED:
            if self.estimator is not None and is_set(self.estimator, name):
                value = getattr(self.estimator, name)
                setting = f"{name}={value!r} of the estimator"
                warn_no_effect(setting, "in an ensemble; set the parameter of the ensemble")

    @property
    def _class_weight(self) -> Any:
        return self._member.class_weight

    def _initialize(
        self, data: TrainingData, rng: np.random.Generator, monitor: TrainingMonitor
    ) -> tuple[Network, FitState]:
        return self._member._initialize(data, rng, monitor)

    def _stages(self, data: TrainingData, state: FitState) -> Sequence[Stage]:
        member = self._member
        joint = member._joint_training(data)
        return [EnsembleTraining(member, self.n_estimators, self.bootstrap, joint, state)]

    def _fitted_attributes(
        self, data: TrainingData, state: FitState, trained: TrainingResult
    ) -> dict[str, Any]:
        member, model = self._member, trained.model
        if member._is_sum:
            return member._fitted_attributes(data, state, trained)
        results = {"warmup_losses": np.empty(0), **state.results}
        if not isinstance(model, AdditiveLMM):
            # Training was stopped before any model was complete: `model` is the initial one, which
            # takes scaled features.
            assert state.scaling is not None
            model = AdditiveLMM.mean([state.scaling.folded(model)])
        if member.polish is not None:
            results["suspects"] = suspects_above(member._level, model.losses(data.X, data.y))
        state, status = replace(state, results=results), self._status(results, trained.status, data)
        factor = member._limited_inverse_temperature(data, state, model.scores)
        model = model if factor == 1.0 else model.scaled(factor)
        require_finite(model)
        trained = replace(trained, model=model, status=status)
        attributes = super()._fitted_attributes(data, state, trained)
        return {**attributes, "inverse_temperature_": factor}

    def _status(self, results: dict[str, NDArray], status: Status, data: TrainingData) -> Status:
        """Return the status according to the losses of the ensemble."""
        if status.ends_training or "suspects" not in results:
            return status
        n_suspects = results["suspects"].size
        if n_suspects == 0:
            return Status.POLISHED
        member = self._member
        if n_suspects <= count_samples(member.max_suspects, current().total(len(data.y))):
            return Status.SKIPPED
        return Status.UNFIT if member.polish == "auto" else Status.GIVEN_UP


@dataclass(frozen=True)
class EnsembleTraining(SumStage):
    """Training stage that trains the models of an ensemble in parallel and averages them.

    Each model has its own random generator, so results do not depend on the number of threads.
    """

    name: ClassVar[str] = "ensemble"

    # Classifier with the parameters of each model.
    member: LMMClassifier
    n_estimators: int
    bootstrap: bool
    # Training of each sum of terms.
    joint: JointTraining
    # State of the initial single network.
    state: FitState

    def _train(
        self, model: LMM | AdditiveLMM, data: TrainingData, seed: int, monitor: TrainingMonitor
    ) -> TrainedSum:
        K, choice = self.n_estimators, None
        jobs: Sequence[Callable[[TrainingMonitor], tuple[LMM | AdditiveLMM, NDArray]]]
        if isinstance(model, AdditiveLMM):
            choice, status = self.joint.choose(data, seed, monitor)
            if choice is None:
                return TrainedSum(model, status, None, np.empty(0))
            prepared = self.joint.prepare(data, np.random.default_rng([seed, FOLDS]))
            jobs = [partial(self._train_sum, choice, prepared, [seed, FOLDS, k]) for k in range(K)]
        else:
            assert self.state.scaling is not None
            scaled = replace(data, X=self.state.scaling(data.X))
            jobs = [
                partial(self._train_single, scaled, model.n_classes, [seed, k]) for k in range(K)
            ]
        monitor.begin(self.name, is_last=True)
        done: dict[int, tuple[LMM | AdditiveLMM, NDArray]] = {}
        status, best = Status.MAX_ITER, np.inf
        with closing(run_parallel(jobs, numba.get_num_threads(), monitor)) as completed:
            for k, trained in completed:
                done[k] = trained
                loss = float(trained[1][-1])
                best = min(best, loss)
                end = Status.MAX_ITER if len(done) == K else None
                status = monitor.report(len(done), K, loss, best, model, None, end) or status
                if status.ends_training:
                    break
        if monitor.interrupted:
            status = Status.INTERRUPTED
        if not done:
            return TrainedSum(model, status, choice, np.empty(0))
        models, curves = zip(*(done[k] for k in sorted(done)), strict=True)
        length = min(curve.size for curve in curves)
        losses = np.mean([curve[:length] for curve in curves], axis=0)
        return TrainedSum(AdditiveLMM.mean(models), status, choice, losses)

    def _train_sum(
        self,
        choice: Choice,
        prepared: PreparedData,
        seed: Sequence[int],
        job_monitor: TrainingMonitor,
    ) -> tuple[AdditiveLMM, NDArray]:
        data = TrainingData(prepared.U, prepared.y, prepared.weight)
        if self.bootstrap:
            data = draw_bootstrap(data, np.random.default_rng([*seed, 1]))
        prepared = prepared._replace(U=data.X, y=data.y, labels=data.y, weight=data.weight)
        losses: list[float] = []

        def on_epoch(epoch: int, loss: float, current_model: Callable[[], AdditiveLMM]) -> bool:
            losses.append(loss)
            return job_monitor.interrupted

        structure = self.joint.structures[choice.chosen]
        trained = self.joint.train(structure, prepared, 1.0, seed, on_epoch)
        return trained, np.array(losses)

    def _train_single(
        self, data: TrainingData, n_classes: int, seed: Sequence[int], job_monitor: TrainingMonitor
    ) -> tuple[LMM, NDArray]:
        rng, member, scaling = np.random.default_rng(seed), self.member, self.state.scaling
        assert scaling is not None
        data = draw_bootstrap(data, rng) if self.bootstrap else data
        model, state = member._initial_boxes(data, n_classes, rng)
        stages = member._single_stages(len(data.y), replace(state, scaling=scaling))
        problem = TrainingProblem(data.X, data.y, weight=data.weight, rng=rng)
        trained = run_stages(stages, model, problem, job_monitor)
        losses = trained.arrays.get("warmup_losses", np.full(1, np.nan))
        return scaling.folded(trained.model), losses


def draw_bootstrap(data: TrainingData, rng: np.random.Generator) -> TrainingData:
    """Draw a bootstrap sample of each class, represented by sample weights."""
    counts = np.zeros(len(data.y), np.int64)
    for d in np.unique(data.y):
        members = np.flatnonzero(data.y == d)
        n = members.size
        counts[members] = np.bincount(rng.integers(n, size=n), minlength=n)
    part, weight = data.part(counts > 0), counts[counts > 0].astype(np.float64)
    return replace(part, weight=weight if part.weight is None else weight * part.weight)
