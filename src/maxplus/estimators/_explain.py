"""Certificates, explanations and rules of fitted classifiers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from maxplus.certify import certified_at, certified_radius
from maxplus.estimators._frames import missing_in
from maxplus.estimators._parameters import check_value, integer, threads
from maxplus.estimators._training_data import validated_rows
from maxplus.explain import (
    Change,
    Domain,
    Explanation,
    Rules,
    explain_predictions,
    smallest_change,
    strongest_rules,
    term_boxes,
)
from maxplus.explain._shared import check_domain, records
from maxplus.explain.counterfactuals import missing_columns
from maxplus.models import LMM, AdditiveLMM


class ExplainMixin:
    """Methods of LMM classifiers that call `maxplus.certify` and `maxplus.explain`."""

    n_jobs: int | None
    model_: LMM | AdditiveLMM
    classes_: NDArray
    training_losses_: NDArray
    training_labels_: NDArray
    term_means_: NDArray
    robust_reach_: NDArray
    encoder_: Any

    def _validated(self, X: Any) -> NDArray:
        """Return the validated rows of X in the dtype of the fitted model."""
        check_is_fitted(self, "model_")
        return validated_rows(self, X, self.model_)

    def certified_radius(self, X: Any, scale: ArrayLike | None = None) -> NDArray:
        """Return the L∞ radius around each row within which its prediction cannot change.

        No x' with |x'_p − x_p| ≤ radius·scale_p for all features p is classified
        differently. The radius is at least (z₁ − z₂) / (2·max_p |W0|·scale_p), up to
        rounding, and larger if slopes differ or units are capped; see
        `maxplus.certify.box_bounds` for the proof, and `maxplus.certify.certified_radius` for sums
        of terms.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
        scale : array of shape (n_features,), optional
            The change of each feature for a radius of 1, for example its
            standard deviation; 0 holds a feature fixed. All ones by default.

        Returns
        -------
        array of shape (n_samples,)

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from maxplus import LMMClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> clf = LMMClassifier(9, random_state=0).fit(X, y)
        >>> radius = clf.certified_radius(X)
        >>> bool((clf.predict(X + 0.99 * radius[:, None]) == clf.predict(X)).all())
        True
        """
        X = self._validated(X)
        with threads(self.n_jobs):
            return certified_radius(self.model_, X, scale)

    def is_certified(
        self,
        X: Any,
        eps: float | None = None,
        scale: ArrayLike | None = None,
        *,
        change_one_of: Iterable[str] = (),
    ) -> NDArray:
        """Return whether each prediction is certified for all changes of the features within eps.

        With ``change_one_of`` the certificate is joint: in addition to the changes within eps, one
        of these columns may take any of its values, for example "age ± 2 and any occupation". It is
        exact in these columns: each value is substituted, and the box around the new row must be
        certified for the class of the original row.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
        eps : number >= 0, optional
            Each feature may change by up to eps·scale_p. None uses ``robust_reach_``, the changes
            for which a classifier with ``robust_eps`` was trained.
        scale : array of shape (n_features,), optional
            As in `certified_radius`.
        change_one_of : names of columns with few values, default=()
            Categories, ordinals, and numbers of a few integers.

        Returns
        -------
        array of bool of shape (n_samples,)
        """
        X = self._validated(X)
        radii, scale = self._certificate_box(eps, scale)
        if radii.ndim:
            raise ValueError(f"eps must be a finite number >= 0; got {eps!r}")
        with threads(self.n_jobs):
            return self._certified(X, self.model_.scores(X), radii, scale, None, change_one_of)

    @overload
    def certified_accuracy(
        self,
        X: Any,
        y: Any,
        eps: float | None = None,
        scale: ArrayLike | None = None,
        *,
        change_one_of: Iterable[str] = (),
    ) -> float: ...

    @overload
    def certified_accuracy(
        self,
        X: Any,
        y: Any,
        eps: Sequence[float] | NDArray,
        scale: ArrayLike | None = None,
        *,
        change_one_of: Iterable[str] = (),
    ) -> NDArray: ...

    def certified_accuracy(
        self,
        X: Any,
        y: Any,
        eps: Any = None,
        scale: ArrayLike | None = None,
        *,
        change_one_of: Iterable[str] = (),
    ) -> float | NDArray:
        """Return the certified accuracy: the fraction of rows provably correct within eps.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
        y : true labels of shape (n_samples,)
        eps : number >= 0, or a sequence of them, optional
            Each feature may change by up to eps·scale_p. None uses ``robust_reach_``, the changes
            for which a classifier with ``robust_eps`` was trained.
        scale : array of shape (n_features,), optional
            As in `certified_radius`.
        change_one_of : names of columns with few values, default=()
            As in `is_certified`.

        Returns
        -------
        float, or array with one value for each eps
        """
        X = self._validated(X)
        y = np.asarray(y)
        if y.shape != (len(X),):
            raise ValueError(f"y must have shape ({len(X)},), a label for each row; got {y.shape}")
        radii, scale = self._certificate_box(eps, scale)
        with threads(self.n_jobs):
            Z = self.model_.scores(X)
            is_correct = self.classes_[Z.argmax(axis=1)] == y
            # Only correctly classified rows need a certificate; each eps is tested separately.
            counts = [
                self._certified(X, Z, r, scale, is_correct, change_one_of).sum()
                for r in radii.ravel()
            ]
        shares = np.array(counts, float) / max(len(y), 1)
        return float(shares[0]) if radii.ndim == 0 else shares

    def _certificate_box(
        self, eps: Any, scale: ArrayLike | None
    ) -> tuple[NDArray, ArrayLike | None]:
        """Return valid eps and scale; ``robust_reach_`` if both are None."""
        if eps is None:
            if scale is not None or not hasattr(self, "robust_reach_"):
                raise ValueError(
                    "eps must be given, unless the classifier was trained with robust_eps as a sum "
                    "of terms and there is no scale"
                )
            return np.array(1.0), self.robust_reach_
        try:
            radii = np.asarray(eps, np.float64)
        except (TypeError, ValueError):
            radii = np.array(np.nan)
        if not (radii.ndim <= 1 and np.isfinite(radii).all() and (radii >= 0).all()):
            raise ValueError(f"eps must be a finite number >= 0, or a list of them; got {eps!r}")
        return radii, scale

    def _certified(
        self,
        X: NDArray,
        Z: NDArray,
        eps: Any,
        scale: ArrayLike | None,
        where: NDArray | None,
        change_one_of: Iterable[str],
    ) -> NDArray:
        """Return whether rows X with scores Z are certified, also after each change of a column."""
        certified = certified_at(self.model_, X, eps, scale, scores=Z, where=where)
        predicted = Z.argmax(axis=1)
        for domain, feature, value in self._single_changes(change_one_of):
            rows = np.flatnonzero(certified)
            if not rows.size:
                break
            changed = domain.changed(X[rows], np.full(rows.size, feature), value)
            scores = self.model_.scores(changed)
            certified[rows] = certified_at(
                self.model_,
                changed,
                eps,
                scale,
                scores=scores,
                where=scores.argmax(axis=1) == predicted[rows],
            )
        return certified

    def _single_changes(self, columns: Iterable[str]) -> Iterator[tuple[Domain, int, float]]:
        """Yield the domain, a feature and its value for each value of each column."""
        domain = self._domain()
        for column in columns:
            others = [name for name in domain.columns if name != column]
            changes = domain.with_fixed(others).candidates
            if len(others) == len(domain.columns) or not changes.feature.size:
                raise ValueError(
                    f"change_one_of names {column!r}, which is not a column with a list of values; "
                    "use eps and scale for changes of numbers"
                )
            for feature, value in zip(changes.feature.tolist(), changes.value, strict=True):
                yield domain, feature, value

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
    ) -> Explanation:
        """Explain each prediction by feature contributions and the smallest change that flips it.

        For a sum of terms, the margin of the predicted class over the second is an exact sum of
        contributions of columns and groups of columns, relative to their means over the training
        rows. For a single network, every class score is determined by one unit and one feature,
        z_d = W0[i]·x_p + W1[i, h] + W2[h, d].

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
        domain : Domain, optional
            The values that columns may take in counterfactuals, and the units of distances. By
            default that of ``encoder_``, if there is one (categories change as a whole, values
            stay in the range of the training data, distances are in standard deviations); else
            features may take any value, and distances are in units of ``scale_``.
        fixed : names of columns, or indices of features, that cannot change
        low, high : number or array of shape (n_features,), optional
            Limits that override those of the domain, for example 0 and 1 for pixels.
        class_names : sequence of str, optional
            Names of ``classes_``, in the same order.
        feature_names : sequence of str, optional
            Names of the features; by default the domain's, or ``feature_names_in_``.
        missing : array of bool, (n_samples, n_columns) or (n_samples, n_features), optional
            Mask of imputed values, which the text mentions. For a data frame, it is derived from
            the frame.
        row_numbers : sequence of int, optional
            The numbers of the rows in the text; 1, 2, … by default.

        Returns
        -------
        Explanation
            Use ``print``, ``to_frame()`` or ``to_records()`` to display or export it.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from maxplus import LMMClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> clf = LMMClassifier(9, random_state=0).fit(X, y)
        >>> why = clf.explain(X[:2], class_names=["setosa", "versicolor", "virginica"])
        >>> print(why.text(0).splitlines()[0][:13])
        Row 1: setosa
        """
        check_is_fitted(self)
        if missing is None and domain is None:
            missing = missing_in(self, X)
        X = self._validated(X)
        names = self._class_names(class_names)
        domain = self._domain(domain, feature_names).within(low, high).with_fixed(fixed)
        absent = missing_columns(missing, len(X), domain)
        with threads(self.n_jobs):
            return explain_predictions(
                self.model_,
                X,
                getattr(self, "term_means_", None),
                names,
                domain,
                prototypes=getattr(self, "prototypes_", None),
                missing=absent,
                row_numbers=row_numbers,
            )

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
        """Return the smallest change of a few columns of one row that flips its prediction.

        The solution is exact, found by mixed-integer linear programming; see
        `maxplus.explain.smallest_change`. `explain` is faster, but changes single columns only.

        Parameters
        ----------
        x : array of shape (1, n_features) or (n_features,), one row
        n_columns : int, default=2
            Maximum number of columns that change.
        domain, fixed, low, high, class_names
            As in `explain`.
        seconds : float, default=60.0
            Time limit, after which the best change so far is returned; its ``at_least`` is a lower
            bound of the smallest distance.

        Returns
        -------
        Change
            Use ``print`` to display it.
        """
        row = self._validated(np.asarray(x)[None] if np.ndim(x) == 1 else x)
        if len(row) != 1:
            raise ValueError(f"x must be one row; got {len(row)}")
        check_value("n_columns", n_columns, integer(1))
        domain = self._domain(domain).within(low, high).with_fixed(fixed)
        names = self._class_names(class_names)
        with threads(self.n_jobs):
            return smallest_change(
                self.model_, row[0], domain, n_columns, class_names=names, seconds=seconds
            )

    def _domain(
        self, domain: Domain | None = None, feature_names: Sequence[str] | None = None
    ) -> Domain:
        """Return the given domain, that of the encoder, or an unbounded one, with feature names."""
        P = self.model_.n_features
        encoder: Any = getattr(self, "encoder_", None)
        if domain is None and hasattr(encoder, "domain"):
            domain = Domain.of(encoder.domain())
        if domain is None:
            domain = Domain.free(P, getattr(self, "scale_", 1.0), self._feature_names())
        check_domain(domain, P)
        if feature_names is None:
            return domain
        if len(feature_names) != P:
            raise ValueError(
                f"feature_names must name {P} features; got {len(feature_names)} names"
            )
        return replace(domain, names=tuple(str(name) for name in feature_names))

    def units(self, level: float = 0.0) -> np.recarray:
        """Return the box of each hidden unit: the interval of each feature in which it is active.

        A unit's value g_h(x) is at least ``level`` if and only if low ≤ x_p ≤ high for all features
        p of its term (`maxplus.explain.unit_boxes`).

        Parameters
        ----------
        level : float, default=0.0
            Minimum value of a unit inside its box.

        Returns
        -------
        numpy.recarray
            One record for each unit and feature of its term: term, unit, class (of its largest
            W2), height (that W2), prototype (−1 if it has none), feature, low, high.
        """
        check_is_fitted(self, "model_")
        return records(self._unit_columns(float(level)))

    def _unit_columns(self, level: float) -> dict[str, NDArray]:
        model, words = self.model_, np.array(self._feature_names())
        prototypes = getattr(self, "prototypes_", np.full(model.n_hidden, -1))
        parts, first = [], 0
        for t, boxes in enumerate(term_boxes(model, level)):
            unit, place = (axis.ravel() for axis in np.indices(boxes.low.shape))
            parts.append(
                {
                    "term": np.full(unit.size, t),
                    "unit": first + unit,
                    "class": self.classes_[boxes.favourite][unit],
                    "height": boxes.height[unit],
                    "prototype": prototypes[first + unit],
                    "feature": words[model.terms[t].features][place],
                    "low": boxes.low.ravel(),
                    "high": boxes.high.ravel(),
                }
            )
            first += len(boxes.low)
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

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
        """Return the boxes of the model as rules, with their support and precision on X and y.

        An example is "age ≥ 54 and bmi ≥ 31 → disease, 31 of 34 rows". A rule is the largest box of
        a unit in which the class of the unit has the highest score. Its conditions depend only on
        the model; X and y are used for the counts: 34 rows satisfy the printed conditions, and 31
        of them belong to the class (`maxplus.explain.strongest_rules`). Rules whose precision does
        not exceed the frequency of the class among all rows are hidden (``n_hidden``).

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
        y : true labels of shape (n_samples,)
        n : int, default=10
            Maximum number of rules.
        domain, class_names, feature_names
            As in `explain`; names of categories are those of the domain.

        Returns
        -------
        Rules
            Use ``print`` to display them, or ``to_frame()`` for a data frame with one row per rule
            and the columns rule, prediction, support, precision and lift.
        """
        X = self._validated(X)
        check_value("n", n, integer(1))
        codes = self._codes(y, len(X))
        domain, names = self._domain(domain, feature_names), self._class_names(class_names)
        with threads(self.n_jobs):
            return strongest_rules(self.model_, X, codes, domain, names, n)

    def certificate_scale(self, *, categories: bool = False) -> NDArray:
        """Return the default ``scale`` of certificates: the change of each feature for radius 1.

        For numeric columns it is the standard deviation in training: that of ``encoder_`` if there
        is one, else ``scale_``. Categories and binary columns, whose fractions have no meaning, are
        held fixed (0), unless ``categories`` is True.

        Parameters
        ----------
        categories : bool, default=False
            Whether the 0/1 features of categories may change as well.

        Returns
        -------
        array of shape (n_features,)
            The scale, >= 0.
        """
        check_is_fitted(self, "model_")
        return self._domain().certificate_scale(categories=categories)

    def worst_samples(self, n: int = 10) -> np.recarray:
        """Return the n training samples with the largest losses, worst first.

        Parameters
        ----------
        n : int, default=10
            The number of samples.

        Returns
        -------
        numpy.recarray
            One record for each: sample (index into the training set), label, loss, probability
            (of the label: exp(−loss)).
        """
        check_is_fitted(self, "model_")
        check_value("n", n, integer(1))
        losses = self.training_losses_
        # Samples of weight 0 have no loss; NaN sorts last.
        worst = np.argsort(-losses, kind="stable")[: min(n, int(np.isfinite(losses).sum()))]
        columns = {
            "sample": worst,
            "label": self.training_labels_[worst],
            "loss": losses[worst],
            "probability": np.exp(-losses[worst]),
        }
        return records(columns)

    def _class_names(self, given: Sequence[str] | None) -> list[str]:
        """Return the given names of the classes, or their labels as strings."""
        names = [str(c) for c in self.classes_] if given is None else list(given)
        if len(names) != len(self.classes_):
            raise ValueError(
                f"class_names must name the {len(self.classes_)} classes {self.classes_.tolist()}; "
                f"got {len(names)} names"
            )
        return names

    def _codes(self, y: Any, n_rows: int) -> NDArray:
        """Return labels as positions among the classes."""
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

    def _feature_names(self) -> list[str]:
        names = getattr(self, "feature_names_in_", None)
        if hasattr(self, "encoder_"):
            names = self.encoder_.feature_names
        P = self.model_.n_features
        return [f"feature {p}" for p in range(P)] if names is None else [str(n) for n in names]
