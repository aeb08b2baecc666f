"""Regression metrics, including the coverage of prediction intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error

from maxplus.metrics._formatting import to_jsonable


@dataclass(frozen=True)
class RegressionMetrics:
    """Metrics of predictions of a numeric target.

    Attributes
    ----------
    n_rows : number of rows
    r2 : 1 − Σ (y − ŷ)² / Σ (y − mean)²; NaN if all targets are equal
    mae, mae_error : mean absolute error, and its standard error
    rmse : root mean squared error
    coverage : fraction of targets inside their prediction interval; NaN without intervals
    mean_width : mean width of the prediction intervals; NaN without intervals
    """

    n_rows: int
    r2: float
    mae: float
    mae_error: float
    rmse: float
    coverage: float = math.nan
    mean_width: float = math.nan

    def to_json(self) -> dict[str, Any]:
        """Return a dict of the metrics; NaN becomes None.

        Returns
        -------
        dict
            ``coverage`` and ``mean_width`` have the keys ``covered`` and ``width``.
        """
        record = to_jsonable(self)
        record["covered"], record["width"] = record.pop("coverage"), record.pop("mean_width")
        return record


def regression_metrics(
    y: ArrayLike,
    predicted: ArrayLike,
    lower: ArrayLike | None = None,
    upper: ArrayLike | None = None,
) -> RegressionMetrics:
    """Compute the metrics of predictions and, optionally, of prediction intervals.

    Parameters
    ----------
    y : array of shape (N,)
        Targets.
    predicted : array of shape (N,)
        Predictions.
    lower, upper : array of shape (N,), optional
        Ends of the prediction intervals.

    Returns
    -------
    RegressionMetrics

    Examples
    --------
    >>> from maxplus.metrics import regression_metrics
    >>> regression_metrics([1.0, 2.0, 6.0], [1.0, 3.0, 5.0]).mae
    0.6666666666666666
    """
    y, predicted = np.asarray(y, float), np.asarray(predicted, float)
    if y.ndim != 1 or not y.size or predicted.shape != y.shape:
        raise ValueError(
            f"y and predicted must have the same shape (N,), N >= 1; got shapes {y.shape} and "
            f"{predicted.shape}"
        )
    if (lower is None) != (upper is None):
        raise ValueError("lower and upper must be given together; only one was given")
    coverage = mean_width = math.nan
    if lower is not None:
        low, high = np.asarray(lower, float), np.asarray(upper, float)
        if low.shape != y.shape or high.shape != y.shape:
            raise ValueError(
                f"lower and upper must have shape {y.shape}, like y; got shapes {low.shape} and "
                f"{high.shape}"
            )
        coverage = float(((low <= y) & (y <= high)).mean())
        mean_width = float((high - low).mean())
    return RegressionMetrics(
        n_rows=len(y),
        r2=float(r2_score(y, predicted)) if np.ptp(y) > 0 else math.nan,
        mae=float(mean_absolute_error(y, predicted)),
        mae_error=float(np.abs(y - predicted).std() / math.sqrt(len(y))),
        rmse=float(root_mean_squared_error(y, predicted)),
        coverage=coverage,
        mean_width=mean_width,
    )
