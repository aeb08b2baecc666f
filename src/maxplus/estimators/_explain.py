"""Certification and explanation methods of classifiers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from maxplus.certify import certified_at, certified_radius
from maxplus.estimators._frames import missing_mask
from maxplus.estimators._parameters import check_value, integer, threads
from maxplus.estimators._training_data import check_labels, validate_samples
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
from maxplus.explain.explanation import missing_columns
from maxplus.models import LMM, AdditiveLMM


class ExplainMixin:
    """Mixin with the certification and explanation methods of LMM classifiers."""

    n_jobs: int | None
    model_: LMM | AdditiveLMM
    classes_: NDArray
    training_losses_: NDArray
    training_labels_: NDArray
    term_means_: NDArray
    robust_eps_: NDArray
    encoder_: Any

    def _validated(self, X: Any) -> NDArray:
        """Return the validated samples of X in the dtype of the fitted model."""
        check_is_fitted(self, "model_")
        return validate_samples(self, X, self.model_)

    def certified_radius(self, X: Any, scale: ArrayLike | None = None) -> NDArray:
        """Return the L∞ radius around each sample within which its prediction cannot change.

        Every x' with |x'_p − x_p| ≤ radius·scale_p for all features p has the same prediction as x.
        For a single network, the radius is at least (z₁ − z₂) / (2·max_i |W0[i]|·scale_p(i)), up
        to rounding, where z₁ and z₂ are the two highest scores and p(i) = i // 2. See
        `maxplus.certify.box_bounds` for the proof, and `maxplus.certify.certified_radius` for sums
        of terms.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Samples.
        scale : array of shape (n_features,), optional
            Change of each feature for a radius of 1, such as its standard deviation. Features with
            scale 0 do not change. By default, all ones.

        Returns
        -------
        array of shape (n_samples,)
            Certified radii.

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
        """Return whether each prediction is certified for changes of the features within eps.

        With ``change_one_of``, one of the given columns may also take any other value of its
        domain, for example "age ± 2 and any occupation". Each value is substituted, and the box
        around the new sample is certified for the prediction of the original sample.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Samples.
        eps : number >= 0, optional
            Size of the change: each feature p changes by at most eps·scale_p. If eps and scale are
            None, each feature p changes by at most ``robust_eps_[p]``, which requires a sum of
            terms trained with ``robust_eps``.
        scale : array of shape (n_features,), optional
            Unit of the change for each feature, as in `certified_radius`.
        change_one_of : str or iterable of str, default=()
            Names of categorical or ordinal columns, or of numeric columns with two values or a
            small range of integers.

        Returns
        -------
        array of bool of shape (n_samples,)
            True for each certified prediction.
        """
        X = self._validated(X)
        radii, scale = self._eps_and_scale(eps, scale)
        if radii.ndim:
            raise ValueError(f"eps must be a finite number >= 0; got {eps!r}")
        with threads(self.n_jobs):
            Z = self.model_.scores(X)
            return self._certified(X, Z, radii, scale, None, _column_list(change_one_of))

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
        """Return the certified accuracy.

        It is the fraction of samples that are classified correctly and whose prediction is
        certified within eps.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Samples.
        y : array of shape (n_samples,)
            True labels.
        eps : number >= 0 or a sequence of numbers >= 0, optional
            Size of the change, as in `is_certified`.
        scale : array of shape (n_features,), optional
            Unit of the change for each feature, as in `certified_radius`.
        change_one_of : str or iterable of str, default=()
            Names of columns, as in `is_certified`.

        Returns
        -------
        float, or array of shape (n_eps,)
            Certified accuracy; an array if eps is a sequence.
        """
        X = self._validated(X)
        y = _check_label_shape(y, len(X))
        radii, scale = self._eps_and_scale(eps, scale)
        columns = _column_list(change_one_of)
        with threads(self.n_jobs):
            Z = self.model_.scores(X)
            is_correct = self.classes_[Z.argmax(axis=1)] == y
            # Only correctly classified samples need a certificate.
            counts = [
                self._certified(X, Z, r, scale, is_correct, columns).sum() for r in radii.ravel()
            ]
        accuracies = np.array(counts, float) / max(len(y), 1)
        return float(accuracies[0]) if radii.ndim == 0 else accuracies

    def _eps_and_scale(self, eps: Any, scale: ArrayLike | None) -> tuple[NDArray, ArrayLike | None]:
        """Return the validated eps and the scale; 1 and ``robust_eps_`` if both are None."""
        if eps is None:
            if scale is not None or not hasattr(self, "robust_eps_"):
                raise ValueError(
                    "eps is required, unless scale is None and the classifier is a sum of terms "
                    "trained with robust_eps"
                )
            return np.array(1.0), self.robust_eps_
        try:
            radii = np.asarray(eps, np.float64)
        except (TypeError, ValueError):
            radii = np.array(np.nan)
        if not (radii.ndim <= 1 and np.isfinite(radii).all() and (radii >= 0).all()):
            raise ValueError(
                "eps must be a finite number >= 0, or a list of them for certified_accuracy; "
                f"got {eps!r}"
            )
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
        """Return whether samples X with scores Z are certified, including changes of one column.

        ``where`` is the mask of samples to certify; None for all.
        """
        certified = certified_at(self.model_, X, eps, scale, scores=Z, where=where)
        predicted = Z.argmax(axis=1)
        for domain, feature, value in self._single_changes(change_one_of):
            index = np.flatnonzero(certified)
            if not index.size:
                break
            changed = domain.changed(X[index], np.full(index.size, feature), value)
            scores = self.model_.scores(changed)
            certified[index] = certified_at(
                self.model_,
                changed,
                eps,
                scale,
                scores=scores,
                where=scores.argmax(axis=1) == predicted[index],
            )
        return certified

    def _single_changes(self, columns: Iterable[str]) -> Iterator[tuple[Domain, int, float]]:
        """Yield (domain, feature, value) for each value of each column."""
        domain = self._domain()
        for column in columns:
            others = [name for name in domain.columns if name != column]
            changes = domain.with_fixed(others).candidates
            if len(others) == len(domain.columns) or not changes.feature.size:
                raise ValueError(
                    f"change_one_of contains {column!r}, which is not a categorical or ordinal "
                    "column, or a numeric column with few values; use eps and scale for other "
                    "columns"
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
        """Explain predictions by contributions or active units, and by counterfactuals.

        For a sum of terms, the margin between the two highest scores is decomposed exactly into
        contributions of columns and groups of columns, relative to their means on the training
        set. For a single network, one unit and one feature determine the score of each class,
        z_d = W0[i]·x_p + W1[i, h] + W2[h, d]. The counterfactual is the smallest change of a
        single column that changes the prediction.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Samples.
        domain : Domain, optional
            Valid values of the columns in counterfactuals, and the units of distances. By default,
            the domain of ``encoder_``: a category changes to another category, numbers stay in
            the range of the training data, and distances are in standard deviations. Without an
            encoder, features may take any value, and distances are in units of ``scale_``, or of 1
            if there is no ``scale_``.
        fixed : iterable of str or int, default=()
            Names of columns, or indices of features, that cannot change.
        low, high : number or array of shape (n_features,), optional
            Limits that override those of the domain, for example 0 and 1 for pixels.
        class_names : sequence of str, optional
            Names of the classes in the order of ``classes_``. By default, the labels.
        feature_names : sequence of str, optional
            Names of the features, instead of those of the domain. Without a domain and an encoder,
            the default is ``feature_names_in_``, or "feature 0", "feature 1", ….
        missing : array of bool, (n_samples, n_columns) or (n_samples, n_features), optional
            Mask of imputed values, which are marked in the text. By default, it is derived from X
            if X is a data frame, the classifier has an ``encoder_``, and ``domain`` is None.
        row_numbers : sequence of int of length n_samples, optional
            Numbers of the samples in the text. By default, 1, 2, ….

        Returns
        -------
        Explanation
            Explanation of all samples. Use ``print`` to display it, and ``to_frame()`` or
            ``to_records()`` to export it.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from maxplus import LMMClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> clf = LMMClassifier(9, random_state=0).fit(X, y)
        >>> explanation = clf.explain(X[:2], class_names=["setosa", "versicolor", "virginica"])
        >>> print(explanation.text(0).splitlines()[0][:13])
        Row 1: setosa
        """
        if missing is None and domain is None:
            missing = missing_mask(self, X)
        X = self._validated(X)
        names = self._class_names(class_names)
        domain = self._domain(domain, feature_names).within(low, high).with_fixed(fixed)
        with threads(self.n_jobs):
            return explain_predictions(
                self.model_,
                X,
                getattr(self, "term_means_", None),
                names,
                domain,
                prototypes=getattr(self, "prototypes_", None),
                missing=missing_columns(missing, len(X), domain),
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
        missing: ArrayLike | None = None,
    ) -> Change:
        """Return the smallest change of a few columns that changes the prediction of a sample.

        The solution is found by mixed-integer linear programming, and is exact up to a tolerance
        (`maxplus.explain.smallest_change`). `explain` is faster but changes single columns only.

        Parameters
        ----------
        x : array of shape (1, n_features) or (n_features,)
            Sample.
        n_columns : int, default=2
            Maximum number of columns to change.
        domain, fixed, low, high, class_names
            As in `explain`.
        seconds : float, default=60.0
            Approximate time limit; each class has at least one second. If the limit is exceeded,
            the best change found so far is returned, with a lower bound on the smallest distance
            (``lower_bound``).
        missing : array of bool, (n_columns,) or (n_features,), optional
            As in `explain`.

        Returns
        -------
        Change
            Smallest change. Use ``print`` to display it.
        """
        row = self._validated(np.asarray(x)[None] if np.ndim(x) == 1 else x)
        if len(row) != 1:
            raise ValueError(f"x must be one sample; got {len(row)}")
        if missing is None and domain is None and (mask := missing_mask(self, x)) is not None:
            missing = mask[0]
        check_value("n_columns", n_columns, integer(1))
        domain = self._domain(domain).within(low, high).with_fixed(fixed)
        names = self._class_names(class_names)
        with threads(self.n_jobs):
            return smallest_change(
                self.model_,
                row[0],
                domain,
                n_columns,
                class_names=names,
                seconds=seconds,
                missing=missing,
            )

    def _domain(
        self, domain: Domain | None = None, feature_names: Sequence[str] | None = None
    ) -> Domain:
        """Return the given domain, that of the encoder, or an unbounded one, with feature names."""
        P = self.model_.n_features
        if domain is None and hasattr(self, "encoder_"):
            domain = self.encoder_.domain()
        elif domain is None:
            domain = Domain.unrestricted(P, getattr(self, "scale_", 1.0), self._feature_names())
        check_domain(domain, P)
        if feature_names is None:
            return domain
        if len(feature_names) != P:
            raise ValueError(
                f"feature_names must name {P} features; got {len(feature_names)} names"
            )
        return replace(domain, names=tuple(str(name) for name in feature_names))

    def units(self, level: float = 0.0) -> np.recarray:
        """Return the box of each hidden unit.

        The value of a unit is at least ``level`` if and only if low ≤ x_p ≤ high for all features p
        of its term (`maxplus.explain.term_boxes`).

        Parameters
        ----------
        level : float, default=0.0
            Minimum value of a unit inside its box.

        Returns
        -------
        numpy.recarray
            Record for each unit and each feature of its term: term, unit (numbered across terms),
            class (with the largest W2), height (the largest W2), prototype (index of the training
            sample at which the unit was initialised, or −1), feature, low, high.
        """
        check_is_fitted(self, "model_")
        model, names = self.model_, np.array(self._feature_names())
        prototypes = getattr(self, "prototypes_", np.full(model.n_hidden, -1))
        parts, first = [], 0
        for t, boxes in enumerate(term_boxes(model, float(level))):
            unit, feature = (axis.ravel() for axis in np.indices(boxes.low.shape))
            parts.append(
                {
                    "term": np.full(unit.size, t),
                    "unit": first + unit,
                    "class": self.classes_[boxes.label][unit],
                    "height": boxes.height[unit],
                    "prototype": prototypes[first + unit],
                    "feature": names[model.terms[t].features][feature],
                    "low": boxes.low.ravel(),
                    "high": boxes.high.ravel(),
                }
            )
            first += len(boxes.low)
        return records({name: np.concatenate([part[name] for part in parts]) for name in parts[0]})

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
        """Return boxes in which one class has the highest score, as rules with their precision.

        An example is "age ≥ 54 and bmi ≥ 31 → disease, 31 of 34 rows": 34 samples satisfy the
        conditions, and 31 of these belong to the class. All samples in the domain that satisfy the
        conditions are predicted as the class (`maxplus.explain.strongest_rules`). The conditions
        depend only on the model and the domain. X and y are used to count samples, to sort the
        rules, and to omit rules without samples and rules whose precision does not exceed the
        frequency of the class (``n_omitted``).

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Samples.
        y : array of shape (n_samples,)
            True labels.
        n : int, default=10
            Maximum number of rules.
        domain, class_names, feature_names
            As in `explain`.

        Returns
        -------
        Rules
            Rules of the model. Use ``print`` to display them, or ``to_frame()`` for a data frame
            with the columns rule, prediction, support, precision and lift.
        """
        X = self._validated(X)
        check_value("n", n, integer(1))
        y = _check_label_shape(y, len(X))
        check_labels(y, self.classes_)
        codes = np.searchsorted(self.classes_, y)
        domain, names = self._domain(domain, feature_names), self._class_names(class_names)
        with threads(self.n_jobs):
            return strongest_rules(self.model_, X, codes, domain, names, n)

    def certificate_scale(self, *, categories: bool = False) -> NDArray:
        """Return a ``scale`` for certificates, derived from the training data.

        It is the standard deviation of each feature in the training set. Without an encoder, it is
        ``scale_``, or 1 if there is no ``scale_``. It is 0 for indicators of missing values and, by
        default, for categorical columns and numeric columns with two values.

        Parameters
        ----------
        categories : bool, default=False
            If True, categorical columns and numeric columns with two values may change.

        Returns
        -------
        array of shape (n_features,)
            Change of each feature for a radius of 1.
        """
        check_is_fitted(self, "model_")
        return self._domain().certificate_scale(categories=categories)

    def worst_samples(self, n: int = 10) -> np.recarray:
        """Return the n training samples with the largest losses, in descending order.

        Parameters
        ----------
        n : int, default=10
            Maximum number of samples. Samples with weight 0 are not included.

        Returns
        -------
        numpy.recarray
            Record for each sample: sample (index in the training set), label, loss, probability
            (of the label).
        """
        check_is_fitted(self, "model_")
        check_value("n", n, integer(1))
        losses = self.training_losses_
        # The loss of samples with weight 0 is NaN, which is sorted last.
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

    def _feature_names(self) -> list[str]:
        """Return the names of the features of the model."""
        names = getattr(self, "feature_names_in_", None)
        if hasattr(self, "encoder_"):
            names = self.encoder_.feature_names
        P = self.model_.n_features
        return [f"feature {p}" for p in range(P)] if names is None else [str(n) for n in names]


def _column_list(columns: str | Iterable[str]) -> list[str]:
    """Return column names as a list; a string is one name."""
    return [columns] if isinstance(columns, str) else list(columns)


def _check_label_shape(y: Any, n_samples: int) -> NDArray:
    """Return the labels as an array; raise ValueError unless it has shape (n_samples,)."""
    labels = np.asarray(y)
    if labels.shape != (n_samples,):
        raise ValueError(
            f"y must have shape ({n_samples},), a label for each sample; got {labels.shape}"
        )
    return labels
