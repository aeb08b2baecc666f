"""What LMM classifiers can do once they are fitted: certificates, explanations, pruning."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from maxplus.certify import certified_at, certified_radius
from maxplus.estimators._data import LabelledData
from maxplus.estimators._folding import fold_affine
from maxplus.estimators._lmm_start import PROTOTYPES, WINS, check_lmm_facts, lmm_facts
from maxplus.estimators._parameters import check_value, whole
from maxplus.estimators._threads import threads
from maxplus.estimators._trained import Start, TrainedClassifier
from maxplus.explain import (
    Change,
    Domain,
    Explanation,
    Rules,
    decisive_paths,
    single_flips,
    smallest_change,
    strongest_rules,
    unit_boxes,
)
from maxplus.explain.explanation import as_table, records
from maxplus.explain.flip_words import missing_columns
from maxplus.explain.naming import view_names
from maxplus.models import LMM
from maxplus.models._softmax import softmax
from maxplus.models.pruning import useless_units, with_units
from maxplus.training.stages import Trained
from maxplus.training.state import StateError, TrainingState

Self = TypeVar("Self", bound="BaseLMMClassifier")


class Pruned(NamedTuple):
    """How many units went, how many of those can win nowhere, and how many are left."""

    dropped: int
    provable: int
    left: int


class LMMWeights:
    """The weights as fitted attributes, for estimators whose ``model_`` is an LMM."""

    model_: LMM

    @property
    def W0_(self) -> NDArray:
        """The two slopes of each view, + then −; shape (2M,), M = P without directions."""
        return self.model_.W0

    @property
    def W1_(self) -> NDArray:
        """Offsets of the min-plus layer, shape (2M, H)."""
        return self.model_.W1

    @property
    def W2_(self) -> NDArray:
        """Offsets of the max-plus layer, shape (H, C); heights (H, 1) in a regression."""
        return self.model_.W2

    @property
    def n_hidden_(self) -> int:
        """Hidden units there are."""
        return self.model_.n_hidden


class BaseLMMClassifier(LMMWeights, TrainedClassifier):
    """For classifiers whose ``model_`` is an LMM: thin methods around other rooms' functions."""

    model_: LMM
    slope_: float
    scale_: NDArray
    unit_wins_: NDArray
    feature_importances_: NDArray
    prototypes_: NDArray
    preparation_: Any
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

    def certified_radius(self, X: Any, scale: ArrayLike | None = None) -> NDArray:
        """How far each row may move, in the L∞ norm, before its prediction could change.

        No x' with |x'_p − x_p| ≤ radius·scale_p for all features p is classified
        differently. The radius is at least (z₁ − z₂) / (2·max_p |W0|·scale_p), up to
        rounding, and more where slopes differ or units are capped; with directions, scale_p
        is that of the views. See `maxplus.certify.box_bounds` for the proof.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
        scale : array of shape (n_features,), optional
            How far each feature may move for a radius of 1, for example its
            standard deviation; 0 holds a feature fixed. All ones by default.

        Returns
        -------
        array of shape (n_samples,)

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from maxplus import LMMClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> clf = LMMClassifier(random_state=0).fit(X, y)
        >>> radius = clf.certified_radius(X)
        >>> bool((clf.predict(X + 0.99 * radius[:, None]) == clf.predict(X)).all())
        True
        """
        X = self._validated(X)
        with threads(self.n_jobs):
            return certified_radius(self.model_, X, scale)

    def certify(
        self, X: Any, y: Any, eps: ArrayLike, scale: ArrayLike | None = None
    ) -> float | NDArray:
        """Certified accuracy: the share of rows that are right and stay right within eps.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
        y : true labels of shape (n_samples,)
        eps : number >= 0, or several
            Features may move by up to eps·scale_p each.
        scale : array of shape (n_features,), optional
            As in `certified_radius`.

        Returns
        -------
        float, or an array with one share for each eps
        """
        X = self._validated(X)
        y = np.asarray(y)
        if y.shape != (len(X),):
            raise ValueError(f"y must have shape ({len(X)},), a label for each row; got {y.shape}")
        try:
            radii = np.asarray(eps, np.float64)
        except (TypeError, ValueError):
            radii = np.array(np.nan)
        if not (radii.ndim <= 1 and np.isfinite(radii).all() and (radii >= 0).all()):
            raise ValueError(f"eps must be a finite number >= 0, or a list of them; got {eps!r}")
        with threads(self.n_jobs):
            Z = self.model_.scores(X)
            right = self.classes_[Z.argmax(axis=1)] == y
            X, Z = X[right], Z[right]
            # Only what is right needs a certificate, and each eps a test of its own.
            kept = [certified_at(self.model_, X, r, scale, scores=Z).sum() for r in radii.ravel()]
        shares = np.array(kept, float) / max(len(y), 1)
        return float(shares[0]) if radii.ndim == 0 else shares

    def explain(
        self,
        X: Any,
        *,
        domain: Domain | None = None,
        fixed: Iterable[str | int] = (),
        low: ArrayLike | None = None,
        high: ArrayLike | None = None,
        class_names: Sequence[str] | None = None,
        feature_names: Sequence[str] | None = None,
        missing: ArrayLike | None = None,
        row_numbers: Sequence[int] | None = None,
    ) -> Any:
        """What decided each score of each row, and what would change the prediction.

        Every class score is one unit's and, in it, one view's, a feature or one of the
        directions: z_d = W0[i]·v_m + W1[i, h] + W2[h, d].

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
        domain : Domain, optional
            The values that columns may take where the smallest change of one is sought that
            flips the prediction, and the units in which changes are counted. That of
            ``preparation_`` if there is one (words change as a whole, nothing leaves the range
            seen in training, distances are training deviations); else any number may be taken,
            and distances are in units of ``scale_``.
        fixed : names of columns, or indices of features, that cannot change
        low, high : number or array of shape (n_features,), optional
            Other limits than the domain's; 0 and 1 for pixels, for example.
        class_names : sequence of str, optional
            Words for ``classes_``, in the same order.
        feature_names : sequence of str, optional
            Words for the features; the domain's, or ``feature_names_in_``, if there are any.
        missing : array of bool, (n_samples, n_columns) or (n_samples, n_features), optional
            Which values the rows lacked and have filled in: the text says so.
        row_numbers : sequence of int, optional
            What the text calls the rows; 1, 2, … by default.

        Returns
        -------
        Explanation, or CommitteeExplanation
            ``print`` it, or take its ``to_table()``: a pandas DataFrame if pandas is
            installed, else a record array.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from maxplus import LMMClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> clf = LMMClassifier(random_state=0).fit(X, y)
        >>> why = clf.explain(X[:2], class_names=["setosa", "versicolor", "virginica"])
        >>> print(why.text(0).splitlines()[0][:13])
        Row 1: setosa
        """
        X = self._validated(X)
        names = self._class_words(class_names)
        domain = self._domain(domain, feature_names).within(low, high).with_fixed(fixed)
        absent = missing_columns(missing, len(X), domain)
        with threads(self.n_jobs):
            return self._explanation(X, names, domain, absent, row_numbers)

    def _explanation(
        self, X: NDArray, class_names: Sequence[str], domain: Domain, missing: NDArray | None,
        row_numbers: Sequence[int] | None,
    ) -> Any:  # fmt: skip
        """`explain`, of arguments that have been checked."""
        paths = decisive_paths(self.model_, X)
        return Explanation(
            X, paths, single_flips(self.model_, X, domain), softmax(paths.score), self.model_.W0,
            class_names, domain.names, getattr(self, "prototypes_", None),
            unit_boxes(self.model_).centre, self.model_.directions, getattr(self, "scale_", None),
            domain, missing, row_numbers,
        )  # fmt: skip

    def smallest_change(
        self,
        x: Any,
        n_columns: int = 2,
        *,
        domain: Domain | None = None,
        fixed: Iterable[str | int] = (),
        low: ArrayLike | None = None,
        high: ArrayLike | None = None,
        class_names: Sequence[str] | None = None,
        seconds: float = 60.0,
    ) -> Change:
        """The smallest change of up to ``n_columns`` columns of one row that flips its prediction.

        Exact, by a mixed-integer linear programme: `maxplus.explain.smallest_change` says how, and
        when it refuses. `explain` does single columns, in a moment.

        Parameters
        ----------
        x : array of shape (1, n_features) or (n_features,), one row
        n_columns : int, default=2
        domain, fixed, low, high, class_names
            As in `explain`.
        seconds : float, default=60.0
            After which the best so far is taken; its ``at_least`` tells how far off it may be.

        Returns
        -------
        Change
            ``print`` it.
        """
        row = self._validated(np.asarray(x)[None] if np.ndim(x) == 1 else x)
        if len(row) != 1:
            raise ValueError(f"x must be one row; got {len(row)}")
        check_value("n_columns", n_columns, whole(1))
        domain = self._domain(domain).within(low, high).with_fixed(fixed)
        names = self._class_words(class_names)
        with threads(self.n_jobs):
            return smallest_change(
                self.model_, row[0], domain, n_columns, class_names=names, seconds=seconds
            )

    def _domain(
        self, domain: Domain | None = None, feature_names: Sequence[str] | None = None
    ) -> Domain:
        """The domain that is given, or the preparation's, or a free one; perhaps renamed."""
        P = self.model_.n_features
        prepared: Any = getattr(self, "preparation_", None)
        if domain is None and hasattr(prepared, "domain"):
            domain = Domain.of(prepared.domain())
        if domain is None:
            domain = Domain.free(P, getattr(self, "scale_", 1.0), self._feature_words())
        if domain.n_features != P:
            raise ValueError(f"domain must be of {P} features; got one of {domain.n_features}")
        if feature_names is None:
            return domain
        if len(feature_names) != P:
            raise ValueError(
                f"feature_names must name {P} features; got {len(feature_names)} names"
            )
        return replace(domain, names=tuple(str(name) for name in feature_names))

    def fold(
        self: Self,
        centre: ArrayLike,
        spread: ArrayLike,
        X: Any = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Let a classifier that was trained on (x − centre) / spread take x itself.

        The scaling goes into the weights, and all fitted attributes follow: see
        `maxplus.estimators._folding.fold_affine`.

        Parameters
        ----------
        centre, spread : numbers or arrays of shape (n_features,)
            For example ``mean_`` and ``scale_`` of a StandardScaler.
        X : array of shape (n_samples, n_features), optional
            The training samples before the scaling: losses are then those of the new weights,
            which differ from the old by rounding.
        sample_weight : array of shape (n_samples,), optional
            Their weights in training, for ``mean_loss_``.

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

    def units(self, level: float = 0.0) -> Any:
        """Each hidden unit as the box it is: per view the interval where it is active.

        A unit's value g_h(x) is at least ``level`` exactly if low ≤ v_m ≤ high for every
        view m, a feature or one of the directions (`maxplus.explain.unit_boxes`).

        Returns
        -------
        table with a line for each unit and view: unit, class (that it speaks for most),
            height (its W2 there), prototype (−1 if it has none), feature (the view), low, high
        """
        check_is_fitted(self, "model_")
        return as_table(records(self._unit_columns(float(level))))

    def _unit_columns(self, level: float) -> dict[str, NDArray]:
        boxes = unit_boxes(self.model_, level)
        H, M = boxes.low.shape
        unit, view = (axis.ravel() for axis in np.indices((H, M)))
        names = view_names(
            self.model_.directions, self._feature_words(), getattr(self, "scale_", None)
        )
        prototypes = getattr(self, "prototypes_", np.full(H, -1))
        return {
            "unit": unit,
            "class": self.classes_[boxes.favourite][unit],
            "height": boxes.height[unit],
            "prototype": prototypes[unit],
            "feature": np.array(names)[view],
            "low": boxes.low.ravel(),
            "high": boxes.high.ravel(),
        }

    def rules(
        self,
        X: Any,
        y: Any,
        n: int = 10,
        *,
        domain: Domain | None = None,
        class_names: Sequence[str] | None = None,
        feature_names: Sequence[str] | None = None,
    ) -> Rules:
        """The strongest boxes as rules: "age ≥ 54 and oldpeak ≥ 1.6 → disease, 31 of 34 rows".

        A rule is a unit's box, without the walls that keep no row out. It is counted on the
        rows that are given, as printed: 34 meet its conditions, 31 of them are of the class
        (`maxplus.explain.strongest_rules`). An estimator does not keep its training rows: give
        them to count on them.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
        y : true labels of shape (n_samples,)
        n : int, default=10
            How many rules at most.
        domain, class_names, feature_names
            As in `explain`; words are the domain's.

        Returns
        -------
        Rules
            ``print`` them, or take their ``to_table()``.
        """
        X = self._validated(X)
        check_value("n", n, whole(1))
        codes = self._codes(y, len(X))
        domain, names = self._domain(domain, feature_names), self._class_words(class_names)
        with threads(self.n_jobs):
            return strongest_rules(self.model_, X, codes, domain, names, n)

    def certificate_scale(self, *, categories: bool = False) -> NDArray:
        """The usual ``scale`` of certificates: how far features may move for a radius of 1, (P,).

        Numbers move by their deviation in training: those of ``preparation_`` if there is one,
        else ``scale_``. Categories and two-valued columns, of which fractions mean nothing, are
        held fixed (0); with ``categories`` their 0/1 features move as well.
        """
        check_is_fitted(self, "model_")
        return self._domain().certificate_scale(categories=categories)

    def worst_samples(self, n: int = 10) -> Any:
        """The n training samples with the largest losses, worst first.

        Returns
        -------
        table with sample (index into the training set), label, loss and probability
            (of the label: exp(−loss))
        """
        check_is_fitted(self, "model_")
        check_value("n", n, whole(1))
        losses = self.training_losses_
        # Samples of weight 0 have no loss; NaN sorts last.
        worst = np.argsort(-losses, kind="stable")[: min(n, int(np.isfinite(losses).sum()))]
        columns = {
            "sample": worst,
            "label": self.training_labels_[worst],
            "loss": losses[worst],
            "probability": np.exp(-losses[worst]),
        }
        return as_table(records(columns))

    def _class_words(self, given: Sequence[str] | None) -> list[str]:
        """Words for the classes: their labels, or those that are given."""
        names = [str(c) for c in self.classes_] if given is None else list(given)
        if len(names) != len(self.classes_):
            raise ValueError(
                f"class_names must name the {len(self.classes_)} classes {self.classes_.tolist()}; "
                f"got {len(names)} names"
            )
        return names

    def _words_of(self, given: Sequence[str] | None) -> list[str]:
        """Words for the features: their names, or those that are given."""
        return list(self._domain(feature_names=given).names)

    def _codes(self, y: Any, n_rows: int) -> NDArray:
        """Labels as positions among the classes."""
        labels = np.asarray(y)
        if labels.shape != (n_rows,):
            raise ValueError(
                f"y must have shape ({n_rows},), a label for each row; got {labels.shape}"
            )
        unknown = ~np.isin(labels, self.classes_)
        if unknown.any():
            raise ValueError(
                f"y has the label {labels[unknown].tolist()[0]!r}, which is not one of the classes "
                f"{self.classes_.tolist()}"
            )
        return np.searchsorted(self.classes_, labels)

    def _feature_words(self) -> list[str]:
        names = getattr(self, "feature_names_in_", None)
        if hasattr(self, "preparation_"):
            names = self.preparation_.feature_names
        P = self.model_.n_features
        return [f"feature {p}" for p in range(P)] if names is None else [str(n) for n in names]

    def prune(self, *, only_provable: bool = False) -> Pruned:
        """Drop hidden units that never decide a score.

        Units that decide no class's score on any training sample go: the scores of all samples
        of the last training stay as they are, to the last bit. With ``only_provable``, only units
        that can win nowhere go (`maxplus.models.pruning.useless_units`), which
        changes no prediction at all, but for ties and rounding.

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
        if not hasattr(self, "unit_wins_"):
            raise ValueError(
                "this model does not know unit_wins_, how often its units won: it comes from an "
                "older file; fit it again"
            )
        never = self.unit_wins_ == 0
        provable = useless_units(self.model_) & never
        drop = provable if only_provable else never
        keep = np.flatnonzero(~drop)
        facts = {"model_": with_units(self.model_, keep), "unit_wins_": self.unit_wins_[keep]}
        if hasattr(self, "prototypes_"):
            facts["prototypes_"] = self.prototypes_[keep]
        self.__dict__ = vars(self) | facts
        return Pruned(int(drop.sum()), int(provable.sum()), keep.size)
