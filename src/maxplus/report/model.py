"""Metadata and weights of a model."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import PurePath
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

import maxplus
from maxplus.certify.bounds import caps
from maxplus.certify.margins import Margins, shape_terms
from maxplus.estimators._base import training_summary
from maxplus.explain import feature_importances
from maxplus.models import LMM, AdditiveLMM
from maxplus.report.data import column_of_features

# Larger models would make the page slow.
MAX_WEIGHTS = 150_000
# Parameters that the report does not list, because they do not describe the model.
HIDDEN_PARAMETERS = ("callbacks", "verbose", "n_jobs", "warm_start")


def about_page(estimator: Any, name: str) -> dict[str, Any]:
    """Return the title, version and creation time of a report."""
    encoder = getattr(estimator, "encoder_", None)
    target = name if encoder is None else f"“{encoder.target_.name}”"
    return {
        "title": f"Model report: {target}",
        "made_by": f"maxplus {maxplus.__version__}",
        "made_at": datetime.now(timezone.utc).isoformat(timespec="minutes"),
    }


def about_model(estimator: Any) -> dict[str, Any]:
    """Return the target, the size, the parameters and a training summary of a model.

    ``n_terms`` is 0 for a single network.
    """
    encoder = getattr(estimator, "encoder_", None)
    fitted = estimator.model_
    training = {
        label: format(value, spec)
        for label, attribute, spec in (
            ("ended", "status_message_", ""),
            ("iterations", "n_iter_", ","),
            ("maximum loss", "max_loss_", ".6g"),
            ("mean loss", "mean_loss_", ".6g"),
        )
        if (value := getattr(estimator, attribute, None)) is not None
    }
    return {
        "kind": type(estimator).__name__,
        "n_hidden": estimator.n_hidden_,
        "n_terms": len(fitted.terms) if fitted.is_sum else 0,
        "n_features": fitted.n_features,
        "n_columns": fitted.n_features if encoder is None else len(encoder.columns_),
        "target": None if encoder is None else encoder.target_.name,
        "trained_on": None if encoder is None else PurePath(encoder.data_).name,
        "n_training": training_summary(estimator).get("n_rows"),
        "decisions": [] if encoder is None else list(encoder.decisions_),
        "parameters": {
            name: str(value)
            for name, value in estimator.get_params(deep=False).items()
            if name not in HIDDEN_PARAMETERS
        },
        "training": training,
    }


def importances(estimator: Any, X: NDArray, feature_names: Sequence[str]) -> dict[str, Any]:
    """Return the columns with nonzero importance, in descending order.

    Importances on the training rows are used if they are stored, else importances on ``X``.
    """
    values = getattr(estimator, "feature_importances_", None)
    is_stored = values is not None
    if not is_stored:
        values = feature_importances(estimator.model_, X)
    columns = column_of_features(estimator, feature_names)
    by_column: dict[str, float] = {}
    for column, value in zip(columns, np.asarray(values), strict=True):
        by_column[column] = by_column.get(column, 0.0) + float(value)
    order = sorted(by_column, key=lambda column: -by_column[column])
    return {
        "on_training": is_stored,
        "is_sum": estimator.model_.is_sum,
        "columns": [
            {"name": column, "share": by_column[column]}
            for column in order
            if by_column[column] > 0.0
        ],
    }


def n_weights(model: LMM | AdditiveLMM) -> int:
    """Return the number of weights of a model."""
    return sum(W.size for W in model.weights_by_name().values())


def model_data(model: LMM | AdditiveLMM, scale: NDArray) -> dict[str, Any]:
    """Return the data from which the page computes scores and certified radii.

    Parameters
    ----------
    model : LMM or AdditiveLMM
    scale : array of shape (P,), change of each feature for a radius of 1

    Returns
    -------
    dict
        Plain JSON types; arrays are base64 strings.
    """
    P, dtype, info = model.n_features, model.dtype, np.finfo(model.dtype)
    exact = model.astype(np.float64)
    margins = Margins(model, np.zeros((0, P)), np.zeros(0, int), scale)
    feature_map, T = model.feature_map, len(model.terms)
    return {
        "is_sum": model.is_sum,
        "terms": [
            {
                "features": features.tolist(),
                "n_units": lmm.n_hidden,
                "W0": _packed(lmm.W0, dtype),
                "W1": _packed(lmm.W1.T, dtype),
                "W2": _packed(lmm.W2.T, dtype),
                "caps": _packed(caps(exact_lmm), np.float64),
            }
            for (features, lmm), (_, exact_lmm) in zip(model.terms, exact.terms, strict=True)
        ],
        # Terms over a single feature as piecewise linear functions, whose bounds are exact.
        "shapes": [
            {
                "feature": shape.feature,
                "points": _packed(shape.points, np.float64),
                "scores": _packed(shape.scores, np.float64),
                "terms": [
                    t
                    for t, term in enumerate(model.terms)
                    if term.features.tolist() == [shape.feature]
                ],
            }
            for shape in shape_terms(exact)
        ],
        "map": None
        if feature_map is None
        else {
            "starts": feature_map.starts.tolist(),
            "x": _packed(feature_map.x, np.float64),
            "u": _packed(feature_map.u, np.float64),
            "slopes": _packed(feature_map.slopes, np.float64),
        },
        "intercept": _packed(model.intercept, dtype),
        "single": dtype == np.float32,
        "n_classes": model.n_classes,
        "scale": margins.scale.tolist(),
        "steepest": margins.slope,
        # Relative and absolute bounds on the rounding error of a margin.
        "rounding": (2.0 * T + 6.0) * float(info.eps) + (2.0 * T + 64.0) * 2.0**-52,
        "least": 32.0 * (T + 1.0) * float(info.smallest_subnormal),
    }


def _packed(array: NDArray, dtype: DTypeLike) -> str:
    """Return the little-endian bytes of an array in C order, as base64."""
    little_endian = np.dtype(dtype).newbyteorder("<")
    return base64.b64encode(np.ascontiguousarray(array, little_endian).tobytes()).decode("ascii")
