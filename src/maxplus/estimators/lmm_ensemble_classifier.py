"""The mean of several Linear-Min-Max classifiers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numba
import numpy as np
from numpy.typing import NDArray

from maxplus.distributed import current
from maxplus.estimators._additive import Choice, Joint, Prepared, on_first_rank, prepare
from maxplus.estimators._base import TrainedClassifier
from maxplus.estimators._cross_validation import FOLDS, Rows
from maxplus.estimators._dataset import LabelledData
from maxplus.estimators._lmm import Scaling, boxes_for, sum_facts
from maxplus.estimators._parameters import TRUTH, Parameters, refuse_checkpoints, whole
from maxplus.estimators.lmm_classifier import LMMClassifier
from maxplus.models import LMM, AdditiveLMM, Model
from maxplus.training import Status, TrainingMonitor, TrainingProblem, run_stages
from maxplus.training.monitor import run_parallel
from maxplus.training.problem import count_samples
from maxplus.training.result import StateError, TrainingState
from maxplus.training.stages import Stage, Trained


class LMMEnsembleClassifier(LMMClassifier):
    """The mean of several networks of `LMMClassifier`, trained side by side.

    Each starts from rows of its own and sees batches in an order of its own, and what one gets
    wrong by chance the others may outvote. The scores are z = (z⁰ + z¹ + …) / K: the ensemble is a
    sum of terms itself, and everything that a sum of terms has, certificates, explanations and
    exports, it has, too. log Σ_d exp(z_d − z_y) is convex in the scores, so the ensemble's loss on
    a sample is at most the mean of the networks' losses.

    Structure and temperature are found once for all, as in `LMMClassifier`.

    Parameters
    ----------
    n_estimators : int, default=4
    bootstrap : bool, default=False
        Train each network on a sample of the rows, drawn with replacement within each class. A
        polish then is about the rows that were drawn.
    n_hidden, slope, structure, max_features, init_margin, warmup_epochs, batch_size, robust_eps, \
augment, early_stopping, validation_fraction, n_iter_no_change, polish, max_suspects, standardize, \
calibrate, class_weight, scoring
        As in `LMMClassifier`, for each network.
    n_jobs : int, optional
        Networks that are trained at a time, each on one core; None and −1 are as many as there are
        cores. The outcome does not depend on it.
    random_state : int, RandomState or None, default=None
    verbose : int, default=0
        1 shows a progress bar.
    callbacks : callable or list of callables, optional
        Called with a `maxplus.training.Progress` after each training of the search and each
        network; returning True ends the training with the networks that are done. So does Ctrl-C
        with a `maxplus.training.KeepBestOnInterrupt` among them.

    Attributes
    ----------
    model_ : the `maxplus.models.AdditiveLMM` of all networks' terms
    n_hidden_, unit_activation_counts_, term_means_, feature_importances_ : of all terms
    temperature_, search_, scale_ : as in `LMMClassifier`
    suspects_ : training samples whose loss is not below the polish's level
    loss_curve_ : mean over the networks of the soft loss of each epoch
    n_iter_ : epochs of each network
    status_, status_message_, max_loss_, mean_loss_, perfect_fit_, training_losses_, \
training_labels_ : of the ensemble, as in `LMMClassifier`
    classes_, n_features_in_, feature_names_in_

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from maxplus import LMMEnsembleClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> clf = LMMEnsembleClassifier(3, n_hidden=9, random_state=0).fit(X[::2], y[::2])
    >>> clf.score(X[1::2], y[1::2]) > 0.9, len(clf.model_.terms)
    (True, 3)
    >>> radius = clf.certified_radius(X, scale=clf.scale_)
    >>> moved = X + 0.99 * radius[:, None] * clf.scale_
    >>> bool((clf.predict(moved) == clf.predict(X)).all())
    True
    """

    _parameters: ClassVar[Parameters] = {
        **LMMClassifier._parameters, "n_estimators": (whole(1),), "bootstrap": (TRUTH,),
    }  # fmt: skip

    def __init__(
        self,
        n_estimators: int = 4,
        *,
        bootstrap: bool = False,
        n_hidden: int | str = "auto",
        slope: float | str = "auto",
        structure: str = "auto",
        max_features: int | None = None,
        init_margin: float | None = None,
        warmup_epochs: int | str = "auto",
        batch_size: int | str = "auto",
        robust_eps: float = 0.0,
        augment: Any = None,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 5,
        polish: float | str | None = "auto",
        max_suspects: int | float = 0,
        standardize: bool | str = "auto",
        calibrate: bool | str = "auto",
        class_weight: Mapping[Any, float] | str | None = None,
        scoring: str | Callable[[Any, Any, Any], float] | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        callbacks: Any = None,
    ) -> None:
        super().__init__(
            n_hidden, slope=slope, structure=structure, max_features=max_features,
            init_margin=init_margin, warmup_epochs=warmup_epochs, batch_size=batch_size,
            robust_eps=robust_eps, augment=augment, early_stopping=early_stopping,
            validation_fraction=validation_fraction, n_iter_no_change=n_iter_no_change,
            polish=polish, max_suspects=max_suspects, standardize=standardize,
            calibrate=calibrate, class_weight=class_weight, scoring=scoring, n_jobs=n_jobs,
            random_state=random_state, verbose=verbose, callbacks=callbacks,
        )  # fmt: skip
        self.n_estimators = n_estimators
        self.bootstrap = bootstrap

    def _check_parameters(self) -> None:
        super()._check_parameters()
        refuse_checkpoints(self.callbacks, "the training of an ensemble")

    def _problem(
        self, data: LabelledData, facts: Mapping[str, NDArray], rng: np.random.Generator
    ) -> TrainingProblem:
        return TrainingProblem(data.X, data.y, weight=data.weight, rng=rng)

    def _stages(self, data: LabelledData, facts: Mapping[str, NDArray]) -> Sequence[Stage]:
        return [EnsembleTraining(self, data.classes, facts)]

    def _facts(
        self, data: LabelledData, facts: Mapping[str, NDArray], trained: Trained
    ) -> dict[str, Any]:
        if self._is_sum:
            return self._facts_of_sum(data, facts, trained)
        model = trained.model
        if not isinstance(model, AdditiveLMM):
            model = AdditiveLMM.mean([Scaling.of_facts(facts).folded(model)])
        known = dict(facts)
        if self.polish is not None:
            losses = current().allgatherv(model.losses(data.X, data.y))
            known["suspects"] = np.flatnonzero(~(losses < self._level))
        factor = self._factor(data, known, model)
        model = model if factor == 1.0 else model.scaled(factor)
        status = self._verdict(known, trained.status, current().total(len(data.y)))
        fitted = TrainedClassifier._facts(
            self, data, known, replace(trained, model=model, status=status)
        )
        fitted |= sum_facts(data, facts, model)
        if "suspects" in known:
            fitted["suspects_"] = data.given[known["suspects"]]
        losses = facts.get("warmup_losses", np.empty(0))
        return fitted | {"temperature_": factor, "loss_curve_": losses}

    def _scaled(self, facts: Mapping[str, NDArray], X: NDArray) -> NDArray:
        return X

    def _verdict(self, facts: Mapping[str, NDArray], status: Status, n_samples: int) -> Status:
        """Return how the training ended, in terms of the ensemble's own losses."""
        if status.ends_training or "suspects" not in facts:
            return status
        n_suspects = facts["suspects"].size
        if n_suspects == 0:
            return Status.POLISHED
        if n_suspects <= count_samples(self.max_suspects, n_samples):
            return Status.SKIPPED
        return Status.UNFIT if self.polish == "auto" else Status.GIVEN_UP


class EnsembleTraining:
    """Train the networks of an ensemble, some at a time, and take their mean.

    Each trains on one core with a generator of its own, so that the outcome depends on neither the
    number of threads nor the order in which they end. Over several ranks, rank 0 trains on the rows
    of all.

    Parameters
    ----------
    ensemble : the estimator
    classes : its labels
    facts : what is known from the start
    """

    name: ClassVar[str] = "ensemble"
    has_state: ClassVar[bool] = False

    def __init__(
        self, ensemble: LMMEnsembleClassifier, classes: NDArray, facts: Mapping[str, NDArray]
    ) -> None:
        self.ensemble, self.facts = ensemble, facts
        self.joint = ensemble._joint_training(classes)

    def check(self, state: TrainingState, problem: TrainingProblem, kind: type[Model]) -> Model:
        """Refuse every state."""
        raise StateError("an ensemble has no state to go on from")

    def run(
        self, model: LMM | AdditiveLMM, problem: TrainingProblem, monitor: TrainingMonitor,
        state: TrainingState | None = None,
    ) -> Joint:  # fmt: skip
        """Train; ``model`` is what remains where none was done."""
        return on_first_rank(problem, lambda rows, seed: self._train(model, rows, seed, monitor))

    def _train(
        self, model: LMM | AdditiveLMM, rows: Rows, seed: int, monitor: TrainingMonitor
    ) -> Joint:
        K, choice = self.ensemble.n_estimators, None
        jobs: Sequence[Callable[[TrainingMonitor], tuple[LMM | AdditiveLMM, NDArray]]]
        if isinstance(model, AdditiveLMM):
            choice, status = self.joint.choose(model, rows, seed, monitor)
            if choice is None:
                return Joint(model, status, None, np.empty(0))
            rng = np.random.default_rng([seed, FOLDS])
            prepared = prepare(rows, model.n_classes, rng, self.joint.max_features)
            jobs = [
                partial(self._sum, choice, prepared, model.n_classes, [seed, FOLDS, k])
                for k in range(K)
            ]
        else:
            scaled = replace(rows, X=Scaling.of_facts(self.facts)(rows.X))
            jobs = [partial(self._single, scaled, model.n_classes, [seed, k]) for k in range(K)]
        monitor.begin(self.name, is_last=True)
        done: dict[int, tuple[LMM | AdditiveLMM, NDArray]] = {}
        status, best = Status.MAX_ITER, np.inf
        with closing(run_parallel(jobs, numba.get_num_threads(), monitor)) as ended:
            for k, trained in ended:
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
            return Joint(model, status, choice, np.empty(0))
        models, curves = zip(*(done[k] for k in sorted(done)), strict=True)
        length = min(curve.size for curve in curves)
        losses = np.mean([curve[:length] for curve in curves], axis=0)
        return Joint(AdditiveLMM.mean(models), status, choice, losses)

    def _sum(
        self, choice: Choice, prepared: Prepared, n_classes: int, seed: Sequence[int],
        quiet: TrainingMonitor,
    ) -> tuple[AdditiveLMM, NDArray]:  # fmt: skip
        own = Rows(prepared.U, prepared.y, prepared.weight)
        if self.ensemble.bootstrap:
            own = drawn(own, np.random.default_rng([*seed, 1]))
        mine = prepared._replace(U=own.X, y=own.y, weight=own.weight)
        losses: list[float] = []

        def note(epoch: int, loss: float, now: Callable[[], AdditiveLMM]) -> bool:
            losses.append(loss)
            return quiet.interrupted

        trained = self.joint.trained(
            self.joint.structures[choice.chosen], mine, n_classes, 1.0, seed,
            note,
        )  # fmt: skip
        return trained, np.array(losses)

    def _single(
        self, rows: Rows, n_classes: int, seed: Sequence[int], quiet: TrainingMonitor
    ) -> tuple[LMM, NDArray]:
        rng = np.random.default_rng(seed)
        own = drawn(rows, rng) if self.ensemble.bootstrap else rows
        boxes = boxes_for(own, n_classes, self.ensemble._capacity, self.ensemble.init_margin, rng)
        known = {"slope": np.array([boxes.slope]), "distance": np.array([boxes.distance])}
        stages = self.ensemble._single_stages(len(own.y), {**self.facts, **known})
        problem = TrainingProblem(own.X, own.y, weight=own.weight, rng=rng)
        trained = run_stages(stages, boxes.model, problem, quiet)
        model = Scaling.of_facts(self.facts).folded(trained.model)
        return model, trained.facts.get("warmup_losses", np.full(1, np.nan))


def drawn(rows: Rows, rng: np.random.Generator) -> Rows:
    """Return as many rows as there are, drawn with replacement within each class, as weights."""
    counts = np.zeros(len(rows.y), np.int64)
    for d in np.unique(rows.y):
        own = np.flatnonzero(rows.y == d)
        counts[own] = np.bincount(rng.integers(own.size, size=own.size), minlength=own.size)
    part, times = rows.part(counts > 0), counts[counts > 0].astype(np.float64)
    return replace(part, weight=times if part.weight is None else times * part.weight)
