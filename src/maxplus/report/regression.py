"""What a report says about a fitted regressor, as plain data: a shorter page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxplus.metrics import judge_regression
from maxplus.ranks import current
from maxplus.report import about, figures
from maxplus.report._text import percent, plural, short
from maxplus.report.asked import MOST_COUNTED, Asked, answered
from maxplus.report.unseen import ERRORS, N_NAMED, REMEDY, unseen_rows, which_are_new

COVERAGE = 0.9


def regression_content(
    reg: Any,
    X: NDArray,
    y: NDArray,
    *,
    name: str,
    row_numbers: Sequence[int] | None = None,
    ids: Sequence[str] | None = None,
    feature_names: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Everything `render_page` shows, for a fitted LMMRegressor on rows with true numbers.

    Parameters
    ----------
    reg : fitted LMMRegressor
    X, y : rows and their true numbers
    name, row_numbers, ids, feature_names : as in `report_content`

    Returns
    -------
    dict
        Plain JSON types.

    Examples
    --------
    >>> import numpy as np
    >>> from maxplus import LMMRegressor
    >>> from maxplus.report import regression_content, render_page
    >>> x = np.linspace(0, 1, 20)[:, None]
    >>> reg = LMMRegressor(4, slope=1.0, epochs=2, random_state=0).fit(x, x[:, 0])
    >>> "</html>" in render_page(regression_content(reg, x, x[:, 0], name="a line"))
    True
    """
    asked = Asked.of(X, np.asarray(y, float), name, row_numbers, ids)
    # Each rank asks about its own rows; rank 0 writes.
    told = answered(
        lambda rows: np.column_stack([reg.predict(rows), *reg.predict_interval(rows, COVERAGE)]), X
    )
    return current().on_first(
        lambda rows: _content(reg, asked.seen(rows), told.T, feature_names), X
    )


def _content(
    reg: Any, asked: Asked, told: NDArray, feature_names: Sequence[str] | None
) -> dict[str, Any]:
    predicted, lower, upper = told
    n_features, name = asked.X.shape[1], asked.name
    words = [f"feature {p}" for p in range(n_features)] if feature_names is None else feature_names
    is_new = unseen_rows(reg, asked.prints)
    where = which_are_new(asked, is_new)
    sources = _sources(reg, asked, predicted, lower, upper, is_new)
    main = max(sources, key=lambda source: source["figures"]["n_rows"], default=None)
    order = np.argsort(-np.abs(asked.y - predicted), kind="stable")[:N_NAMED]
    half = (upper - lower) / 2.0
    return {
        **about.about_page(reg, name),
        "task": "regression",
        "model": about.about_model(reg),
        "data": {"name": name, "n_rows": len(asked.y)},
        "headline": _headline(main, where),
        "sources": sources,
        "where": where,
        "coverage": COVERAGE,
        "figure": figures.predictions_figure(
            asked.y, predicted, float(half[0]) if np.allclose(half, half[0]) else np.inf
        ),
        "farthest": [
            {**asked.name_of(int(n)), "true": float(asked.y[n]), "predicted": float(predicted[n]),
             "off": float(asked.y[n] - predicted[n]),
             "inside": bool(lower[n] <= asked.y[n] <= upper[n])}
            for n in order
        ],
        "importances": about.importances(reg, asked.X[asked.some(MOST_COUNTED)], words),
        "search": about.search(reg),
    }  # fmt: skip


def _sources(
    reg: Any, asked: Asked, predicted: NDArray, lower: NDArray, upper: NDArray,
    is_new: NDArray | None,
) -> list[dict[str, Any]]:  # fmt: skip
    """Figures on rows that were not used in training, by all that is known."""
    sources = []
    record = getattr(reg, "validation_", None)
    if record is not None:
        sources.append({
            "title": record["how"], "figures": record["figures"], "guess": record["guess"],
            "words": "each of these training rows was judged by a model trained without it.",
        })  # fmt: skip
    if is_new is not None and is_new.any():
        own = (a[is_new] for a in (asked.y, predicted, lower, upper))
        sources.append({
            "title": asked.name, "figures": judge_regression(*own).to_json(), "guess": None,
            "words": which_are_new(asked, is_new),
        })  # fmt: skip
    return sources


def _headline(source: dict[str, Any] | None, where: str) -> dict[str, Any]:
    """Whether it is better than the mean on rows that it has not seen."""
    if source is None:
        text = f"No validation is kept with the model. {where} {REMEDY}"
        return {"holds": None, "words": "Not measured on new rows", "text": text}
    found, guess = source["figures"], source["guess"]
    text = (
        f"On {plural(found['n_rows'], 'row')} that it had not seen it was off by "
        f"{short(found['mae'])} on average (± {short(ERRORS * found['mae_error'])}, 95 %)"
    )
    if found["r2"] is not None:
        text += f" and explained {percent(max(found['r2'], 0.0))} of the variance (R²)"
    text += "."
    better = found["r2"] is not None and found["r2"] > 0.0
    if guess is not None:
        text += f" Always saying the mean would have been off by {short(guess['mae'])}."
        better = found["mae"] + ERRORS * found["mae_error"] < guess["mae"]
    if better:
        return {"holds": True, "words": "Better than guessing on new rows", "text": text}
    return {"holds": False, "words": "Not shown to be better than guessing", "text": text}
