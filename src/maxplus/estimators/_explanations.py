"""Explanations as estimator methods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from maxplus.estimators._threads import threads
from maxplus.estimators._validation import check_integer
from maxplus.explain import Explanation, decisive_paths, single_feature_flips, unit_boxes
from maxplus.explain.explanation import as_table, records
from maxplus.models import LMM
from maxplus.models._softmax import softmax


class ExplanationsMixin:
    """For classifiers whose ``model_`` is an LMM."""

    model_: LMM
    classes_: NDArray
    n_jobs: int | None
    training_losses_: NDArray
    training_labels_: NDArray

    def explain(
        self,
        X: Any,
        *,
        low: ArrayLike = -np.inf,
        high: ArrayLike = np.inf,
        class_names: Sequence[str] | None = None,
        feature_names: Sequence[str] | None = None,
    ) -> Explanation:
        """What decided each score of each row, and what would change the prediction.

        Every class score is one unit's and, in it, one feature's:
        z_d = W0[i]·x_p + W1[i, h] + W2[h, d].

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
        low, high : number or array of shape (n_features,)
            The values that a feature may take where a change of one is sought that
            flips the prediction; 0 and 1 for pixels, for example.
        class_names : sequence of str, optional
            Words for ``classes_``, in the same order.
        feature_names : sequence of str, optional
            Words for the features; ``feature_names_in_`` if there are any.

        Returns
        -------
        Explanation
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
        Row 0: setosa
        """
        X = self._validated(X)  # type: ignore[attr-defined]
        names = [str(c) for c in self.classes_] if class_names is None else list(class_names)
        if len(names) != len(self.classes_):
            raise ValueError(
                f"class_names must name the {len(self.classes_)} classes {self.classes_.tolist()}; "
                f"got {len(names)} names"
            )
        words = self._feature_words() if feature_names is None else list(feature_names)
        if len(words) != self.model_.n_features:
            raise ValueError(
                f"feature_names must name {self.model_.n_features} features; got {len(words)} names"
            )
        bounds = [self._feature_bound(name, v) for name, v in (("low", low), ("high", high))]
        if (bounds[0] > bounds[1]).any():
            raise ValueError(f"low must not exceed high; got {low!r:.40} and {high!r:.40}")
        with threads(self.n_jobs):
            paths = decisive_paths(self.model_, X)
            flips = single_feature_flips(self.model_, X, *bounds)
        return Explanation(
            X, paths, flips, softmax(paths.score), self.model_.W0, names,
            words, getattr(self, "prototypes_", None),
            unit_boxes(self.model_).centre,
        )  # fmt: skip

    def units(self, level: float = 0.0) -> Any:
        """Each hidden unit as the box it is: per feature the interval where it is active.

        A unit's value g_h(x) is at least ``level`` exactly if low ≤ x_p ≤ high for every
        feature p (`maxplus.explain.unit_boxes`).

        Returns
        -------
        table with a line for each unit and feature: unit, class (that it speaks for most),
            height (its W2 there), prototype (−1 if it has none), feature, low, high
        """
        check_is_fitted(self, "model_")
        boxes = unit_boxes(self.model_, float(level))
        H, P = boxes.low.shape
        unit, feature = (axis.ravel() for axis in np.indices((H, P)))
        prototypes = getattr(self, "prototypes_", np.full(H, -1))
        columns = {
            "unit": unit,
            "class": self.classes_[boxes.favourite][unit],
            "height": boxes.height[unit],
            "prototype": prototypes[unit],
            "feature": np.array(self._feature_words())[feature],
            "low": boxes.low.ravel(),
            "high": boxes.high.ravel(),
        }
        return as_table(records(columns))

    def worst_samples(self, n: int = 10) -> Any:
        """The n training samples with the largest losses, worst first.

        Returns
        -------
        table with sample (index into the training set), label, loss and probability
            (of the label: exp(−loss))
        """
        check_is_fitted(self, "model_")
        n = check_integer("n", n, 1)
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

    def _feature_words(self) -> list[str]:
        names = getattr(self, "feature_names_in_", None)
        P = self.model_.n_features
        return [f"feature {p}" for p in range(P)] if names is None else [str(n) for n in names]

    def _feature_bound(self, name: str, value: ArrayLike) -> NDArray:
        P = self.model_.n_features
        try:
            bound = np.asarray(value, np.float64)
        except (TypeError, ValueError):
            bound = np.array(np.nan)
        if bound.shape not in ((), (P,)) or np.isnan(bound).any():
            raise ValueError(
                f"{name} must be a number or {P} numbers, one for each feature; got {value!r:.80}"
            )
        return np.broadcast_to(bound, P)
