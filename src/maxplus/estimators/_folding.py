"""A scaling of the features, folded into the weights of a model that was trained behind it."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import validate_data

from maxplus.estimators._threads import threads
from maxplus.estimators._validation import as_dense, check_sample_weight, within_range
from maxplus.models import LMM

Classifier = TypeVar("Classifier", bound=Any)


def fold_affine(
    classifier: Classifier,
    centre: ArrayLike,
    spread: ArrayLike,
    X: Any = None,
    sample_weight: ArrayLike | None = None,
) -> Classifier:
    """Let a classifier that was trained on (x − centre) / spread take x itself.

    All fitted facts follow, or none: ``model_``; ``scale_``, which ``slope_`` is per unit of,
    is multiplied by spread; and, where X is given, ``training_losses_``, ``max_loss_`` and
    ``mean_loss_`` are those of the new weights, which differ from the old by rounding. Samples
    that were left out keep their NaN. O(P·H), and O(N·P·H) with X.

    Parameters
    ----------
    classifier : a fitted classifier whose ``model_`` is an LMM, changed in place
    centre, spread : numbers or arrays of shape (n_features,)
        For example ``mean_`` and ``scale_`` of a StandardScaler.
    X : array of shape (n_samples, n_features), optional
        The training samples before the scaling.
    sample_weight : array of shape (n_samples,), optional
        Their weights in training, for ``mean_loss_``.

    Returns
    -------
    the classifier
    """
    P = classifier.n_features_in_
    c, s = _per_feature("centre", centre, P), _per_feature("spread", spread, P)
    if not (s > 0).all():
        raise ValueError(f"spread must be positive; got {s.min():g} for feature {s.argmin()}")
    with np.errstate(over="ignore", invalid="ignore"):
        model: LMM = classifier.model_.on_raw_inputs(c, s)
    if not (np.isfinite(model.W0).all() and np.isfinite(model.W1).all()):
        raise ValueError(
            f"the weights do not fit into {model.dtype} once a spread of {s.min():g} and a centre "
            f"of {np.abs(c).max():g} are folded in; train on features of a common size"
        )
    facts: dict[str, Any] = {"scale_": getattr(classifier, "scale_", np.ones(P)) * s}
    if X is not None:
        facts |= _judged(classifier, model, X, sample_weight)
    classifier.model_ = model
    for name, value in facts.items():
        setattr(classifier, name, value)
    return classifier


def _judged(classifier: Any, model: LMM, X: Any, sample_weight: ArrayLike | None) -> dict[str, Any]:
    """What `fit` says about the training samples, for other weights."""
    labels = classifier.training_labels_
    X = validate_data(
        classifier, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False
    )
    X = within_range(as_dense(X), model, ("W0",))
    if len(X) != len(labels):
        raise ValueError(
            f"X must be the {len(labels)} training samples, before the scaling; it has {len(X)} "
            "rows"
        )
    weight = check_sample_weight(sample_weight, len(labels))
    index = np.flatnonzero(~np.isnan(classifier.training_losses_))
    losses = np.full(len(labels), np.nan)
    with threads(classifier.n_jobs):
        losses[index] = model.losses(X[index], np.searchsorted(classifier.classes_, labels[index]))
    own = losses[index]
    mean = np.average(own, weights=None if weight is None else weight[index])
    return {
        "training_losses_": losses,
        "max_loss_": float(own.max()),
        "mean_loss_": float(mean),
    }


def _per_feature(name: str, value: ArrayLike, n_features: int) -> NDArray:
    try:
        array = np.broadcast_to(np.asarray(value, np.float64), (n_features,))
    except (TypeError, ValueError):
        raise ValueError(
            f"{name} must be a number or {n_features} numbers, one for each feature; got "
            f"{value!r:.60}"
        ) from None
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite; got {array[~np.isfinite(array)][0]}")
    return array
