"""One HTML page about a model, from plain data; it loads nothing and runs nothing but its own."""

from __future__ import annotations

import math
from typing import Any

from maxplus.report.templates import render


def render_page(report: dict[str, Any]) -> str:
    """The whole page, with styles, scripts, pictures and data inside.

    ``report`` holds plain JSON types, as `report_content` and `regression_content` give them.
    Numbers that are None, NaN or infinite are shown as unknown; any list may be empty.

    Parameters
    ----------
    report : dict

    Returns
    -------
    str
        HTML.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxplus import LMMClassifier
    >>> from maxplus.report import render_page, report_content
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = LMMClassifier(6, slope=4.0, warmup_epochs=2, random_state=0).fit(X, y)
    >>> page = render_page(report_content(clf, X[::5], y[::5], name="iris"))
    >>> page.rstrip().endswith("</html>")
    True
    """
    report = _plain(report)
    if report["task"] == "regression":
        return render("regression.html", title=report["title"], report=report)
    return render("page.html", title=report["title"], report=report, data=_data(report))


def _data(report: dict[str, Any]) -> dict[str, Any]:
    """What the explorer needs."""
    editable = report["network"] is not None
    listed = (report["importances"] or {}).get("columns", [])
    rank = {one["name"]: k for k, one in enumerate(listed)}
    ends = [column["first"] for column in report["columns"][1:]] + [len(report["features"])]
    return {
        "features": report["features"],
        "labels": report["labels"],
        "image_shape": report["image_shape"],
        "radius_unit": report["radius_unit"],
        "network": report["network"],
        "contributions": report["contributions"],
        "columns": [
            {
                **column,
                "size": end - column["first"],
                "rank": rank.get(column["name"], len(rank) + k),
            }
            for k, (column, end) in enumerate(zip(report["columns"], ends, strict=False))
        ],
        # What is edited is computed with, so that every digit counts.
        "rows": report["rows"] if editable else [_shorter(row) for row in report["rows"]],
        "units": {name: _short(unit) for name, unit in report["units"].items()},
    }


def _shorter(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "values": _short(row["values"])}


def _short(numbers: list[float | None]) -> list[float | None]:
    """Six digits are more than is shown, and keep a page of images small."""
    return [None if number is None else float(f"{number:.6g}") for number in numbers]


def _plain(value: Any) -> Any:
    """A copy whose floats are finite or None: JSON has no word for the others."""
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value
