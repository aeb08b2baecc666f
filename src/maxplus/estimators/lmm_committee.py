"""Several Linear-Min-Max classifiers that decide together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from maxplus.distributed import current
from maxplus.estimators._boxes import boxes_for
from maxplus.estimators._capacity import Candidate
from maxplus.estimators._choice import Rows
from maxplus.estimators._data import LabelledData
from maxplus.estimators._folding import fold_affine
from maxplus.estimators._lmm import BaseLMMClassifier, Pruned
from maxplus.estimators._lmm_start import DISTANCE, SLOPE
from maxplus.estimators._parameters import TRUTH, Parameters, refuse_checkpoints, whole
from maxplus.estimators._trained import Start
from maxplus.estimators._views import SPREAD, Views
from maxplus.estimators.lmm_classifier import LMMClassifier
from maxplus.explain import CommitteeExplanation, Domain, explain_committee
from maxplus.models import Committee
from maxplus.models.starts import class_distance
from maxplus.training import Conductor, Status
from maxplus.training.objectives import count_samples
from maxplus.training.stages import Gathered, Members, Plan, Stage, Trained

Self = TypeVar("Self", bound="LMMCommittee")

SEEDS, BAGS, SUSPECTS = "seeds", "bags", "suspects"


class LMMCommittee(LMMClassifier):
    """Several networks of `LMMClassifier`, trained side by side, whose mean score decides.

    Members begin at clusters of their own and see batches in an order of their own, and what one
    gets wrong by chance the others may outvote: on most data a committee has a lower log loss than
    one of its members alone. The scores are z = (z⁰ + z¹ + …) / K.

    *Certificates.* Over any set of inputs low^k ≤ z^k ≤ high^k for each member k, hence
    mean low^k ≤ z ≤ mean high^k: bounds of the mean score are means of the members' bounds, which
    are exact (`maxplus.certify.box_bounds`).

    *Losses.* log Σ_d exp(z_d − z_y) is convex in the scores, so that the committee's loss on a
    sample is at most the mean of its members' losses. If each of them is below log 2 there,
    the committee's is too.

    Capacity and temperature are found once for all, by the search of an `LMMClassifier`. A
    temperature from committees of short trainings was no better on twelve noisy tables.

    Parameters
    ----------
    n_members : int, default=4
    bagging : bool, default=False
        Train each member on a sample of the rows, drawn with replacement within each class. On
        twelve tables it lowered the log loss a little where labels are noisy, and raised it where
        they are clean. A polish then is about the rows that a member has drawn.
    n_hidden, slope, confidence, warmup_epochs, batch_size, robust_eps, augment, early_stopping, \
validation_fraction, n_iter_no_change, polish, max_suspects, scale, directions, calibrate, \
class_weight, scoring
        As in `LMMClassifier`, for each member.
    n_jobs : int, optional
        Members that are trained at a time, each on one core; None and −1 are as many as there are
        cores. The outcome does not depend on it.
    random_state : int, RandomState or None, default=None
    verbose : int, default=0
        1 shows a progress bar: epochs of all members.
    callbacks : callable or list of callables, optional
        Called with a `maxplus.training.Progress` after each training of the search and each epoch
        of a member; returning True ends the training. Members that have begun are then kept
        as they are, and others left out; if none has, all are the boxes that they would have
        started from. Ctrl-C raises KeyboardInterrupt and leaves the committee as it was before.

    Attributes
    ----------
    members_, estimators_ : list of fitted `LMMClassifier`, judged on all training rows
    model_ : the `maxplus.models.Committee` of their networks
    n_hidden_ : hidden units of all members
    unit_wins_ : how often each of them decides a score of its member on the training samples
    temperature_, search_, slope_, scale_ : as in `LMMClassifier`, the same for all members
    suspects_ : training samples whose loss is not below the polish's level, by the committee's
        scores (before the temperature)
    warmup_losses_, loss_curve_ : mean over the members of the soft loss of each epoch
    n_iter_ : epochs and rounds of all members together
    status_, status_message_, max_loss_, mean_loss_, certified_, training_losses_, \
training_labels_ : of the committee, as in `LMMClassifier`
    classes_, n_features_in_, feature_names_in_

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from maxplus import LMMCommittee
    >>> X, y = load_wine(return_X_y=True)
    >>> clf = LMMCommittee(3, n_hidden=9, random_state=0).fit(X[::2], y[::2])
    >>> clf.score(X[1::2], y[1::2]) > 0.9, len(clf.members_)
    (True, 3)
    >>> radius = clf.certified_radius(X, scale=clf.scale_)
    >>> moved = X + 0.99 * radius[:, None] * clf.scale_
    >>> bool((clf.predict(moved) == clf.predict(X)).all())
    True
    >>> print(clf.explain(X[:1]).text(0).splitlines()[0][:8])
    Row 1: 0
    """

    members_: list[LMMClassifier]
    model_: Committee  # type: ignore[assignment]
    _parameters: ClassVar[Parameters] = {
        **LMMClassifier._parameters, "n_members": (whole(1),), "bagging": (TRUTH,),
    }  # fmt: skip

    def __init__(
        self,
        n_members: int = 4,
        *,
        bagging: bool = False,
        n_hidden: int | str = "auto",
        slope: float | str = "auto",
        confidence: float | None = None,
        warmup_epochs: int | str = "auto",
        batch_size: int | str = "auto",
        robust_eps: float = 0.0,
        augment: Any = None,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 5,
        polish: float | str | None = "auto",
        max_suspects: int | float = 0,
        scale: bool = True,
        directions: ArrayLike | str | None = "auto",
        calibrate: bool | str = "auto",
        class_weight: Mapping[Any, float] | str | None = None,
        scoring: str | Callable[[Any, Any, Any], float] | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        callbacks: Any = None,
    ) -> None:
        super().__init__(
            n_hidden, slope=slope, confidence=confidence, warmup_epochs=warmup_epochs,
            batch_size=batch_size, robust_eps=robust_eps, augment=augment,
            early_stopping=early_stopping, validation_fraction=validation_fraction,
            n_iter_no_change=n_iter_no_change, polish=polish, max_suspects=max_suspects,
            scale=scale, directions=directions, calibrate=calibrate, class_weight=class_weight,
            scoring=scoring,
            n_jobs=n_jobs, random_state=random_state, verbose=verbose, callbacks=callbacks,
        )  # fmt: skip
        self.n_members = n_members
        self.bagging = bagging

    @property
    def estimators_(self) -> list[LMMClassifier]:
        """The members, by the name that scikit-learn's ensembles have for them."""
        return self.members_

    # -- how it is trained ---------------------------------------------------------------------

    def _check_parameters(self) -> None:
        super()._check_parameters()
        refuse_checkpoints(self.callbacks, "the training of a committee")

    def _start(self, data: LabelledData, rng: np.random.Generator, conductor: Conductor) -> Start:
        candidate, known = self._choose(data, rng, conductor)
        return data.on_first(
            lambda everybody: self._found(everybody, candidate, known, rng, conductor), rng
        )

    def _found(
        self, data: LabelledData, candidate: Candidate, known: Mapping[str, NDArray],
        rng: np.random.Generator, conductor: Conductor,
    ) -> Start:  # fmt: skip
        """Where members of a capacity begin, from the samples of all ranks."""
        rows, views = self._see(data, candidate)
        facts = dict(known)
        distance = class_distance(rows.X, rows.y, rng)
        facts |= views.facts | {
            SLOPE: np.array([candidate.slope_for(distance)]), DISTANCE: np.array([distance]),
            SEEDS: rng.integers(2**31, size=self.n_members),
        }  # fmt: skip
        if self.bagging:
            facts[BAGS] = np.stack([bag(data.y, rng) for _ in range(self.n_members)])
        models = []
        # On one core, as in the trainings: sums of clusters depend on how they are split up.
        with threadpool_limits(1):
            for k, seed in enumerate(facts[SEEDS]):
                if conductor.interrupted:
                    raise KeyboardInterrupt
                own = rows if BAGS not in facts else _drawn(rows, facts[BAGS][k])
                member_rng = np.random.default_rng([seed, 0])
                boxes = boxes_for(
                    own, data.n_classes, candidate, self.confidence, member_rng, distance
                )
                models.append(boxes.model)
        return Start(Committee(models), facts)

    def _stages(self, data: LabelledData, facts: Mapping[str, NDArray]) -> Sequence[Stage]:
        bags = facts.get(BAGS, [None] * len(facts[SEEDS]))
        plans = []
        for seed, counts in zip(facts[SEEDS], bags, strict=True):
            everybody = current().total(len(data.y))
            n_samples = everybody if counts is None else int(np.count_nonzero(counts))
            plans.append(Plan(self._own_stages(n_samples, facts), int(seed), counts))
        return [Members(plans, numba.get_num_threads())]

    # -- what it leaves behind -----------------------------------------------------------------

    def _facts(
        self, data: LabelledData, facts: Mapping[str, NDArray], trained: Trained
    ) -> dict[str, Any]:
        if trained.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        known = dict(facts)
        if self.polish is not None:
            losses = trained.model.losses(Views.of_facts(facts)(data.X), data.y)
            known[SUSPECTS] = np.flatnonzero(~(current().gather(losses) < self._level))
        if not trained.status.ends_training:
            trained = replace(
                trained, status=self._verdict(known, trained, current().total(len(data.y)))
            )
        fitted = super()._facts(data, known, trained)
        fitted.pop("polish_losses_")  # each member has its own
        return fitted | {"members_": self._members(data, known, fitted, trained)}

    def _verdict(self, facts: Mapping[str, NDArray], trained: Trained, n_samples: int) -> Status:
        """How the training ended, in terms of the committee's own losses."""
        if SUSPECTS not in facts:
            own = {member.status for member in _apart(trained)}
            return own.pop() if len(own) == 1 else Status.MAX_ITER
        n_suspects = facts[SUSPECTS].size
        if n_suspects == 0:
            return Status.POLISHED
        if n_suspects <= count_samples(self.max_suspects, n_samples):
            return Status.SKIPPED
        return Status.UNFIT if self.polish == "auto" else Status.GIVEN_UP

    def _members(
        self, data: LabelledData, facts: Mapping[str, NDArray], fitted: Mapping[str, Any],
        trained: Trained,
    ) -> list[LMMClassifier]:  # fmt: skip
        """The members as classifiers of their own, which know all training rows."""
        parameters = {name: getattr(self, name) for name in LMMClassifier._get_param_names()}
        start = {SLOPE: facts[SLOPE], SPREAD: facts[SPREAD]}
        members = []
        for model, own in zip(fitted["model_"].members, _apart(trained), strict=True):
            member = LMMClassifier(**parameters | {"callbacks": None, "verbose": 0})
            known = {"warmup_losses": np.empty(0), "polish_losses": np.empty(0), **own.facts}
            own = replace(own, model=model)
            about = BaseLMMClassifier._facts(member, data, start | known, own)
            member.__dict__ |= about | {"temperature_": fitted["temperature_"]}
            members.append(member)
        return members

    def fold(
        self: Self,
        centre: ArrayLike,
        spread: ArrayLike,
        X: Any = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Let a committee that was trained on (x − centre) / spread take x itself.

        As `LMMClassifier.fold`; the members follow.

        Parameters
        ----------
        centre, spread : numbers or arrays of shape (n_features,)
        X : array of shape (n_samples, n_features), optional
        sample_weight : array of shape (n_samples,), optional

        Returns
        -------
        self
        """
        check_is_fitted(self, "model_")
        own = fold_affine(copy(self), centre, spread, X, sample_weight)
        members = [
            fold_affine(copy(member), centre, spread, X, sample_weight) for member in self.members_
        ]
        self.__dict__ = vars(own) | _together(members)
        return self

    def prune(self, *, only_provable: bool = False) -> Pruned:
        """Drop hidden units that never decide a score of their member.

        As `LMMClassifier.prune`, for each member and the training rows of the committee.

        Parameters
        ----------
        only_provable : bool, default=False
            Whether only units go that can win nowhere.

        Returns
        -------
        Pruned(dropped, provable, left), of all members together
        """
        check_is_fitted(self, "model_")
        members = [copy(member) for member in self.members_]
        pruned = [member.prune(only_provable=only_provable) for member in members]
        self.__dict__ = vars(self) | _together(members)
        return Pruned(*(sum(counts) for counts in zip(*pruned, strict=True)))

    # -- what it can tell ----------------------------------------------------------------------

    if TYPE_CHECKING:

        def explain(self, X: Any, **options: Any) -> CommitteeExplanation:  # type: ignore[override]
            """As `LMMClassifier.explain`, of another type."""

    def _explanation(  # type: ignore[override]
        self, X: NDArray, class_names: Sequence[str], domain: Domain, missing: NDArray | None,
        row_numbers: Sequence[int] | None,
    ) -> CommitteeExplanation:  # fmt: skip
        """The members' deciding boxes, those that count most first, and what flips their mean."""
        return explain_committee(
            self.model_, X, class_names, domain, self.scale_, missing, row_numbers
        )

    def smallest_change(self, *args: Any, **options: Any) -> Any:
        """Not known for committees: its search is over one network's walls."""
        raise ValueError(
            "the smallest change of several columns is not known for committees; ask a member "
            "(members_), or explain, which has that of one column"
        )

    def _unit_columns(self, level: float) -> dict[str, NDArray]:
        """Those of all members, and whose each line is; units are numbered through."""
        parts = []
        for k, first in enumerate(self.model_.first_units[:-1]):
            own = self.members_[k]._unit_columns(level)
            unit = own["unit"]
            parts.append({"member": np.full_like(unit, k), **own, "unit": first + unit})
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def bag(y: NDArray, rng: np.random.Generator) -> NDArray:
    """How often each row is drawn, of as many as there are, within each class."""
    counts = np.zeros(len(y), np.int64)
    for d in np.unique(y):
        own = np.flatnonzero(y == d)
        counts[own] = np.bincount(rng.integers(own.size, size=own.size), minlength=own.size)
    return counts


def _drawn(rows: Rows, counts: NDArray) -> Rows:
    """The rows of a bag, which weigh as often as they were drawn."""
    part, times = rows.part(counts > 0), counts[counts > 0].astype(np.float64)
    return replace(part, weight=times if part.weight is None else times * part.weight)


def _apart(trained: Trained) -> Sequence[Trained]:
    """Each member's own training; where it was ended before it began, the start."""
    if trained.outcomes:
        gathered = trained.outcomes[0]
        assert isinstance(gathered, Gathered)
        return gathered.members
    return [replace(trained, model=member) for member in trained.model.members]


def _together(members: list[LMMClassifier]) -> dict[str, Any]:
    """The facts of a committee that follow from its members' networks."""
    return {
        "members_": members,
        "model_": Committee(member.model_ for member in members),
        "unit_wins_": np.concatenate([member.unit_wins_ for member in members]),
    }
