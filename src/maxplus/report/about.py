"""What all pages tell about a model, whatever it predicts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import PurePath
from typing import Any

import numpy as np
from numpy.typing import NDArray

import maxplus
from maxplus.estimators._base import training_summary
from maxplus.explain import feature_importances
from maxplus.models import AdditiveLMM
from maxplus.report import figures
from maxplus.report.editing import column_of_features

# Parameters that say nothing about the model.
UNTOLD = ("callbacks", "verbose", "n_jobs", "warm_start")


def about_page(estimator: Any, name: str) -> dict[str, Any]:
    """Title and origin."""
    encoder = getattr(estimator, "encoder_", None)
    target = name if encoder is None else f"“{encoder.target_.name}”"
    return {
        "title": f"A model that tells {target}",
        "made_by": f"maxplus {maxplus.__version__}",
        "made_at": datetime.now(timezone.utc).isoformat(timespec="minutes"),
    }


def about_model(estimator: Any) -> dict[str, Any]:
    """What it was trained for and how, in numbers and words."""
    encoder = getattr(estimator, "encoder_", None)
    n_features = estimator.model_.n_features
    facts = {
        "ended": getattr(estimator, "status_message_", None),
        "iterations": _count(getattr(estimator, "n_iter_", None)),
        "maximum loss": _number(getattr(estimator, "max_loss_", None)),
        "mean loss": _number(getattr(estimator, "mean_loss_", None)),
    }
    return {
        "kind": type(estimator).__name__,
        "n_hidden": estimator.n_hidden_,
        "n_terms": len(getattr(estimator.model_, "terms", ())),
        "n_features": n_features,
        "n_columns": n_features if encoder is None else len(encoder.columns_),
        "target": None if encoder is None else encoder.target_.name,
        "trained_on": None if encoder is None else PurePath(encoder.data_).name,
        "n_training": training_summary(estimator).get("n_rows"),
        "decisions": [] if encoder is None else list(encoder.decisions_),
        "parameters": {
            name: str(value)
            for name, value in estimator.get_params(deep=False).items()
            if name not in UNTOLD
        },
        "training": {name: value for name, value in facts.items() if value is not None},
    }


def _count(value: int | None) -> str | None:
    return None if value is None else f"{value:,}"


def _number(value: float | None) -> str | None:
    return None if value is None else f"{value:.6g}"


def columns_of(estimator: Any, words: Sequence[str]) -> list[str]:
    """The column that each feature is made of."""
    return column_of_features(getattr(estimator, "encoder_", None), words)


def importances(estimator: Any, X: NDArray, words: Sequence[str]) -> dict[str, Any]:
    """Columns by how much they decide, the most first; those that never do are left out.

    On the training rows if the estimator kept that, else on the rows that the page is about.
    """
    shares = getattr(estimator, "feature_importances_", None)
    kept = shares is not None
    if not kept:
        shares = feature_importances(estimator.model_, X)
    sums: dict[str, float] = {}
    for column, share in zip(columns_of(estimator, words), np.asarray(shares), strict=True):
        sums[column] = sums.get(column, 0.0) + float(share)
    order = sorted(sums, key=lambda column: -sums[column])
    listed = [{"name": column, "share": sums[column]} for column in order if sums[column] > 0.0]
    is_sum = isinstance(estimator.model_, AdditiveLMM)
    return {"on_training": kept, "is_sum": is_sum, "columns": listed}


def search(estimator: Any) -> dict[str, str] | None:
    """What was tried before the training, as a figure."""
    tried = getattr(estimator, "search_", None)
    return None if tried is None else figures.search_figure(tried)
