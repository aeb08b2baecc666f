"""What a fit is given, checked and brought into the form that training takes."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from maxplus.estimators._frames import as_numbers, prepared
from maxplus.models import Network

FLOATS = (np.float64, np.float32)


@dataclass(frozen=True)
class LabelledData:
    """Samples with a weight above 0, their classes as numbers, and where they come from.

    Attributes
    ----------
    X : array of shape (N, P), C order
    y : classes 0..C−1, shape (N,)
    weight : of each sample, or None
    classes : labels in ascending order, shape (C,)
    index : which of the rows that were given are in X
    labels : of all rows that were given
    columns : what scikit-learn notes of X's columns, n_features_in_ and, perhaps, their names;
        and ``preparation_``, if X was a data frame that had to be made into numbers
    """

    X: NDArray
    y: NDArray
    weight: NDArray | None
    classes: NDArray
    index: NDArray
    labels: NDArray
    columns: dict[str, Any]

    @classmethod
    def of(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None,
        classes: ArrayLike | None = None,
        *,
        like: Network | None = None,
    ) -> LabelledData:
        """Check what `fit` was given; nothing of the estimator changes.

        With a model ``like`` which the training goes on from, columns, classes and float type
        are those of the estimator.
        """
        X, preparation = prepared(estimator, X, y, "classification", goes_on=like is not None)
        # scikit-learn notes the columns on whoever it is given.
        witness = copy(estimator)
        X, y = validate_data(witness, X, y, accept_sparse="csr", dtype=FLOATS, reset=like is None)
        columns = {
            name: fact
            for name, fact in vars(witness).items()
            if name in ("n_features_in_", "feature_names_in_")
        }
        columns |= preparation
        X = np.ascontiguousarray(as_dense(X), None if like is None else like.dtype)
        check_magnitude(X)
        check_classification_targets(y)
        weight = check_sample_weight(sample_weight, len(y))
        index = np.arange(len(y)) if weight is None else np.flatnonzero(weight)
        labels = y
        if weight is not None:
            X, y, weight = X[index], y[index], weight[index]
        known = None if like is None else estimator.classes_
        classes, codes = _encode(y, classes, known)
        return cls(X, codes, weight, classes, index, np.array(labels), columns)

    def weighted(self, class_weight: Mapping[Any, float] | str | None) -> LabelledData:
        """The same samples, each of its class's weight times its own.

        "balanced" gives all classes the same sum of weights, and keeps the sum of all.
        """
        if class_weight is None:
            return self
        own = np.ones(len(self.y)) if self.weight is None else self.weight
        if isinstance(class_weight, str):
            sums = np.bincount(self.y, own, self.n_classes)
            present = sums > 0
            factor = np.divide(own.sum() / present.sum(), sums, where=present, out=sums * 0.0)
        else:
            labels = self.classes.tolist()
            strangers = [label for label in class_weight if label not in labels]
            if strangers and any(label not in class_weight for label in labels):
                raise ValueError(
                    f"class_weight has the label {strangers[0]!r}, which is not one of the classes "
                    f"{labels}; its keys are labels"
                )
            factor = np.array([float(class_weight.get(label, 1.0)) for label in labels])
        return replace(self, weight=own * factor[self.y])

    @property
    def n_classes(self) -> int:
        """C."""
        return self.classes.size

    @cached_property
    def digest(self) -> str:
        """What tells one training set from another; O(N·P)."""
        digest = hashlib.sha256(f"{self.X.dtype.str}{self.X.shape}".encode())
        digest.update(self.X.data)
        digest.update(np.ascontiguousarray(self.y, np.int64).data)
        if self.weight is not None:
            digest.update(np.ascontiguousarray(self.weight, np.float64).data)
        return digest.hexdigest()


def _encode(
    y: NDArray, classes: ArrayLike | None, known: NDArray | None
) -> tuple[NDArray, NDArray]:
    """All labels in order, and y as positions among them."""
    labels = known
    if labels is None:
        labels = np.unique(y if classes is None else np.asarray(classes))
    is_known = np.isin(y, labels)
    if not is_known.all():
        raise ValueError(
            f"y has the label {y[~is_known].tolist()[0]!r}, which is not one of the classes "
            f"{labels.tolist()}; name all classes at the first partial_fit, or fit anew"
        )
    if labels.size < 2:
        raise ValueError(
            f"y holds one class only ({labels.tolist()[0]!r}); a classifier needs at least "
            "two, so add samples of another"
        )
    return labels, np.searchsorted(labels, y)


def check_magnitude(X: NDArray) -> None:
    """Refuse features whose squares, as they enter a subgradient's norm, would overflow."""
    limit = 1e-4 * math.sqrt(float(np.finfo(X.dtype).max))
    largest = float(np.abs(X).max(initial=0.0))
    if largest > limit:
        raise ValueError(
            f"X reaches {largest:g}, too large to train with in {X.dtype} (at most {limit:g}); "
            "scale the features first, for example with StandardScaler"
        )


def check_sample_weight(sample_weight: ArrayLike | None, n_samples: int) -> NDArray | None:
    """None, or one finite number >= 0 per sample, not all zero."""
    if sample_weight is None:
        return None
    try:
        weight = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"sample_weight must hold numbers; got {sample_weight!r:.60}") from None
    if weight.shape != (n_samples,):
        raise ValueError(
            f"sample_weight must have shape ({n_samples},), one weight per sample; "
            f"got shape {weight.shape}"
        )
    if not np.isfinite(weight).all() or (weight < 0).any():
        bad = weight[~np.isfinite(weight) | (weight < 0)][0]
        raise ValueError(f"sample_weight must hold finite numbers >= 0; got {bad}")
    if not weight.any():
        raise ValueError("sample_weight is zero for every sample: none is left to train on")
    return weight


def rows_for(estimator: Any, X: Any, model: Network, slopes: Sequence[str]) -> NDArray:
    """What a fitted estimator is asked about, checked and as its model takes it."""
    return within_range(as_dense(checked_rows(estimator, X)), model, slopes)


def checked_rows(estimator: Any, X: Any) -> Any:
    """What a fitted estimator is asked about: numbers, dense or CSR, not copied if they were so."""
    X = as_numbers(estimator, X)
    # Whole numbers are finite, and as floats they would be another copy of all rows.
    whole = getattr(getattr(X, "dtype", None), "kind", "") in ("b", "i", "u")
    dtype = None if whole else FLOATS
    return validate_data(estimator, X, accept_sparse="csr", dtype=dtype, reset=False)


def as_dense(X: Any) -> NDArray:
    """Rows as the kernels want them; a sparse matrix is expanded."""
    return X.toarray() if sparse.issparse(X) else X


def within_range(X: NDArray, model: Network, slopes: Sequence[str]) -> NDArray:
    """X in the model's type, with numbers so large that a score would overflow moved closer.

    ``slopes`` names the weights that multiply an input, or a view of it.
    """
    members = getattr(model, "members", (model,))
    steepest = len(members) * max(_steepest(member, slopes) for member in members)
    limit = float(np.finfo(model.dtype).max) / (8.0 * steepest * model.n_features)
    # Two passes and no array of absolute values.
    if max(float(X.max(initial=0.0)), -float(X.min(initial=0.0))) > limit:
        X = np.clip(X, -limit, limit)
    return np.ascontiguousarray(X, model.dtype)


def _steepest(model: Network, slopes: Sequence[str]) -> float:
    """What an input is multiplied by at most, or 1 if that is more."""
    steepest = max([1.0, *(float(np.abs(getattr(model, name)).max()) for name in slopes)])
    directions = getattr(model, "directions", None)
    if directions is not None:
        steepest *= max(1.0, float(np.abs(directions).sum(axis=1, dtype=np.float64).max()))
    return steepest
