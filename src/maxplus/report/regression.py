"""Content of the report of a fitted regressor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxplus.estimators._base import is_training_table, training_summary
from maxplus.metrics import regression_metrics
from maxplus.metrics._formatting import format_number, format_with_error
from maxplus.metrics._intervals import Z_95
from maxplus.report import figures, model
from maxplus.report._text import percent, plural
from maxplus.report.data import MAX_SAMPLED_ROWS, PageRows
from maxplus.report.performance import MAX_LISTED_ROWS, headline, training_overlap

# Coverage of the prediction intervals.
COVERAGE = 0.9


def regression_content(
    reg: Any,
    X: NDArray,
    y: NDArray | None,
    *,
    name: str,
    row_numbers: Sequence[int] | None = None,
    ids: Sequence[str] | None = None,
    feature_names: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Return the content of the report of a fitted LMMRegressor, for `render_page`.

    Rows with target values are treated as test data, unless they are the training rows.

    Parameters
    ----------
    reg : fitted LMMRegressor
    X : array of shape (N, P), the rows
    y : array of shape (N,), the target values, or None
    name, row_numbers, ids, feature_names : as in `report_content`

    Returns
    -------
    dict
        Content as dicts, lists, numbers and strings.

    Examples
    --------
    >>> import numpy as np
    >>> from maxplus import LMMRegressor
    >>> from maxplus.report import regression_content, render_page
    >>> x = np.linspace(0, 1, 20)[:, None]
    >>> reg = LMMRegressor(epochs=2, random_state=0).fit(x, x[:, 0])
    >>> "</html>" in render_page(regression_content(reg, x, x[:, 0], name="a line"))
    True
    """
    y = None if y is None else np.asarray(y, float)
    table = PageRows(X, y, name, row_numbers, ids)
    prediction = np.stack([reg.predict(X), *reg.predict_interval(X, COVERAGE)])
    predicted, lower, upper = prediction
    names = feature_names or [f"feature {p}" for p in range(X.shape[1])]
    is_training = y is not None and is_training_table(reg, y)
    overlap, is_overlapping = training_overlap(reg, table, is_training, "target values")
    sources = _sources(reg, table, prediction, is_training, overlap)
    order = np.argsort(np.zeros(table.n) if y is None else -np.abs(y - predicted), kind="stable")
    half = (upper - lower) / 2.0
    half_width = float(half[0]) if np.allclose(half, half[0]) else np.inf
    return {
        **model.about_page(reg, table.name),
        "task": "regression",
        "model": model.about_model(reg),
        "data": {"name": table.name, "n_rows": table.n},
        "headline": headline(sources, overlap, is_overlapping, _compare_errors),
        "sources": sources,
        "where": overlap,
        "coverage": COVERAGE,
        "figure": None if y is None else figures.predictions_figure(y, predicted, half_width),
        # Rows with the largest errors or, without target values, the first rows.
        "rows": [_row(table, prediction, int(n)) for n in order[:MAX_LISTED_ROWS]],
        "importances": model.importances(
            reg, table.X[table.evenly_spaced(MAX_SAMPLED_ROWS)], names
        ),
        "search": figures.search_figure(reg),
    }


def _row(table: PageRows, prediction: NDArray, n: int) -> dict[str, Any]:
    """Return the prediction for a row, and its error if the target value is known."""
    predicted, lower, upper = (float(column[n]) for column in prediction)
    row = {**table.identifiers(n), "predicted": predicted, "lower": lower, "upper": upper}
    if table.y is None:
        return row | {"true": None, "off": None, "inside": None}
    true = float(table.y[n])
    return row | {"true": true, "off": true - predicted, "inside": lower <= true <= upper}


def _sources(
    reg: Any, table: PageRows, prediction: NDArray, is_training: bool, overlap: str
) -> list[dict[str, Any]]:
    """Return the metrics on the rows, if they are new, and those of the stored validation."""
    sources = []
    if table.y is not None and not is_training:
        mean = training_summary(reg).get("mean")
        baseline = None
        if mean is not None:
            metrics = regression_metrics(table.y, np.full(table.n, mean)).to_json()
            baseline = {name: metrics[name] for name in ("r2", "mae", "rmse")}
        sources.append(
            {
                "title": table.name,
                "whose": f"of {table.name}",
                "on": table.name,
                "metrics": regression_metrics(table.y, *prediction).to_json(),
                "baseline": baseline,
                "description": overlap,
            }
        )
    record = getattr(reg, "validation_", None)
    if record is not None:
        sources.append(
            {
                "title": record["description"],
                "whose": "held out of training",
                "on": "new rows",
                "metrics": record["metrics"],
                "baseline": record["baseline"],
                "description": "each training row was predicted by a model trained without it.",
            }
        )
    return sources


def _compare_errors(source: dict[str, Any]) -> tuple[bool, str]:
    """Return whether the mean absolute error is significantly below the baseline, and a text.

    Without a baseline, return whether R² is positive.
    """
    metrics, baseline = source["metrics"], source["baseline"]
    error = format_with_error(metrics["mae"], Z_95 * metrics["mae_error"])
    text = (
        f"On {plural(metrics['n_rows'], 'row')} {source['whose']}, the mean absolute error is "
        f"{error} (95 % interval){_explained_variance_text(metrics['r2'])}."
    )
    is_better = metrics["r2"] is not None and metrics["r2"] > 0.0
    if baseline is not None:
        text += f" The error of always predicting the mean is {format_number(baseline['mae'])}."
        is_better = is_better and metrics["mae"] + Z_95 * metrics["mae_error"] < baseline["mae"]
    return is_better, text


def _explained_variance_text(r2: float | None) -> str:
    """Return a clause about the explained variance."""
    if r2 is None:
        return ""
    if r2 > 0.0:
        return f" and the explained variance {percent(r2)} (R²)"
    return f"; R² is {format_number(r2, 3)}: always predicting the mean has smaller squared errors"
