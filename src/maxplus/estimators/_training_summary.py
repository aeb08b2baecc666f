"""Counts and means of the training rows, which reveal no single one of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxplus.models import LOG2

# Two means of the same rows differ by rounding alone.
TOLERANCE = 1e-5


def training_summary(estimator: Any) -> Mapping[str, Any]:
    """Return counts and means of the rows that an estimator was trained on.

    Of a classifier ``n_rows``, ``class_counts``, ``n_below_log2`` and ``mean_loss``, all of rows
    with a weight; of a regressor ``n_rows``, ``mean`` and ``deviation`` of the targets.
    """
    kept = vars(estimator).get("training_summary_")
    if kept is not None:
        return kept
    if not hasattr(estimator, "training_losses_"):
        return {}
    used = ~np.isnan(estimator.training_losses_)
    losses, labels = estimator.training_losses_[used], estimator.training_labels_[used]
    codes = np.searchsorted(estimator.classes_, labels)
    return {
        "n_rows": len(losses),
        "class_counts": np.bincount(codes, minlength=len(estimator.classes_)).tolist(),
        "n_below_log2": int((losses < LOG2).sum()),
        "mean_loss": float(losses.mean()) if losses.size else 0.0,
    }


def targets_summary(y: NDArray) -> dict[str, Any]:
    """Return the summary of a regression's training targets."""
    return {"n_rows": len(y), "mean": float(y.mean()), "deviation": float(y.std())}


def is_training_table(estimator: Any, values: NDArray) -> bool:
    """Return whether rows are, as a whole, those that the estimator was trained on.

    Parameters
    ----------
    estimator : fitted
    values : the rows' losses of a classifier, the targets of a regressor, shape (N,)

    Notes
    -----
    No row is recognised: the number of rows and the mean (and deviation) must be those of the
    training rows, which other rows do not have by chance.
    """
    summary = training_summary(estimator)
    if not len(values) or summary.get("n_rows") != len(values):
        return False
    own = {"mean_loss": float(values.mean())}
    if "mean" in summary:
        own = {name: targets_summary(values)[name] for name in ("mean", "deviation")}
    return all(math.isclose(own[name], summary[name], rel_tol=TOLERANCE) for name in own)
