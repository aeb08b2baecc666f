"""Quality of a regression's predictions and intervals, as plain data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error

from maxplus.metrics._readable import plain


@dataclass(frozen=True)
class RegressionFigures:
    """Quality of predictions of numbers.

    Attributes
    ----------
    n_rows : how many rows
    r2 : 1 − Σ (y − ŷ)² / Σ (y − mean)²; NaN where all targets are alike
    mae, mae_error : the mean of |y − ŷ|, and its standard error
    rmse : the root of the mean of (y − ŷ)²
    covered : the share of rows inside their interval, NaN without intervals
    width : the intervals' mean width, NaN without intervals
    """

    n_rows: int
    r2: float
    mae: float
    mae_error: float
    rmse: float
    covered: float = math.nan
    width: float = math.nan

    def to_json(self) -> dict[str, Any]:
        """Numbers by name; NaN is None.

        Returns
        -------
        dict
        """
        return plain(self)


def judge_regression(
    y: ArrayLike,
    predicted: ArrayLike,
    lower: ArrayLike | None = None,
    upper: ArrayLike | None = None,
) -> RegressionFigures:
    """Judge predictions, and intervals if there are any, by the true numbers; O(N).

    Parameters
    ----------
    y : array of shape (N,)
    predicted : array of shape (N,)
    lower, upper : arrays of shape (N,), optional

    Returns
    -------
    RegressionFigures

    Examples
    --------
    >>> from maxplus.metrics import judge_regression
    >>> judge_regression([1.0, 2.0, 6.0], [1.0, 3.0, 5.0]).mae
    0.6666666666666666
    """
    y, predicted = np.asarray(y, float), np.asarray(predicted, float)
    if y.ndim != 1 or not y.size or predicted.shape != y.shape:
        raise ValueError(
            f"y and predicted must be numbers, one for each row; got shapes {y.shape} and "
            f"{predicted.shape}"
        )
    if (lower is None) != (upper is None):
        raise ValueError("an interval needs both lower and upper; only one was given")
    off = np.abs(y - predicted)
    covered = width = math.nan
    if lower is not None:
        low, high = np.asarray(lower, float), np.asarray(upper, float)
        covered = float(((low <= y) & (y <= high)).mean())
        width = float((high - low).mean())
    return RegressionFigures(
        n_rows=len(y),
        r2=float(r2_score(y, predicted)) if np.ptp(y) > 0 else math.nan,
        mae=float(mean_absolute_error(y, predicted)),
        mae_error=float(off.std() / math.sqrt(len(y))),
        rmse=float(root_mean_squared_error(y, predicted)),
        covered=covered,
        width=width,
    )
