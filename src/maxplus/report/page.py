"""One HTML page about a model, from plain data; it loads nothing and runs nothing but its own."""

from __future__ import annotations

import math
from typing import Any

from maxplus.report.templates import render


def render_page(report: dict[str, Any]) -> str:
    """The whole page, with styles, scripts, pictures and data inside.

    ``report`` holds plain JSON types. Numbers that are None, NaN or infinite
    are shown as unknown; ``made_at``, ``image_shape``, ``radius_unit`` and
    ``units`` may be missing, and any list may be empty.
    """
    report = _plain(report)
    report["worst"].sort(key=_worst_first)
    return render("page.html", title=report["title"], report=report, data=_data(report))


def _worst_first(sample: dict[str, Any]) -> float:
    """Sorts by falling loss; an unknown one comes last."""
    return math.inf if sample["loss"] is None else -sample["loss"]


def _data(report: dict[str, Any]) -> dict[str, Any]:
    """What the explorer needs."""
    return {
        "features": report["features"],
        "image_shape": report.get("image_shape"),
        "radius_unit": report.get("radius_unit"),
        "rows": [{**row, "values": _short(row["values"])} for row in report["rows"]],
        "units": {name: _short(unit) for name, unit in report.get("units", {}).items()},
    }


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
