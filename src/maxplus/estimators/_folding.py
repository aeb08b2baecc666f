"""A scaling of the features, folded into the weights of a model that was trained behind it."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from maxplus.distributed import current
from maxplus.estimators._data import check_sample_weight, mean_loss, rows_for
from maxplus.estimators._threads import threads
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
    model = classifier.model_.folded(centre, spread)
    spread = np.broadcast_to(np.asarray(spread, np.float64), model.n_features)
    facts = {"model_": model, "scale_": getattr(classifier, "scale_", 1.0) * spread}
    if X is not None:
        facts |= _judged(classifier, model, X, sample_weight)
    classifier.__dict__ = vars(classifier) | facts
    return classifier


def _judged(classifier: Any, model: LMM, X: Any, sample_weight: ArrayLike | None) -> dict[str, Any]:
    """What `fit` says about the training samples, for other weights."""
    labels = classifier.training_labels_
    # One of several ranks may have no rows.
    X = rows_for(classifier, X, model, ("W0",)) if len(labels) else np.asarray(X)
    if len(X) != len(labels):
        raise ValueError(
            f"X must be the {len(labels)} training samples, before the scaling; it has {len(X)} "
            "rows"
        )
    weight = check_sample_weight(sample_weight, len(labels))
    index = np.flatnonzero(~np.isnan(classifier.training_losses_))
    losses = np.full(len(labels), np.nan)
    with threads(classifier.n_jobs):
        if index.size:
            losses[index] = model.losses(
                X[index], np.searchsorted(classifier.classes_, labels[index])
            )
    own = losses[index]
    return {
        "training_losses_": losses,
        "max_loss_": current().largest(float(own.max(initial=-np.inf))),
        "mean_loss_": mean_loss(own, None if weight is None else weight[index]),
    }
