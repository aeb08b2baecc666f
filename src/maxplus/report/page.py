"""One HTML page about a model, from plain data; it loads nothing and runs nothing but its own."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from importlib.resources import files
from string import Template
from typing import Any

from maxplus.report._sections import Section, model_facts, sections, summary
from maxplus.report._text import escape, plural

SCRIPTS = ("text.js", "tables.js", "pictures.js", "explorer.js")


def render_page(report: dict[str, Any]) -> str:
    """The whole page, with styles, scripts, pictures and data inside.

    ``report`` holds plain JSON types. Numbers that are None, NaN or infinite
    are shown as unknown; ``made_at``, ``image_shape``, ``radius_unit`` and
    ``units`` may be missing, and any list may be empty.
    """
    script = "\n".join(_asset(name) for name in SCRIPTS)
    report = _plain(report)
    explorer = Section("explorer", "Explorer", _explorer(report))
    parts = [*sections(report), explorer]
    return Template(_asset("page.html")).substitute(
        policy=_policy(script),
        title=escape(report["title"]),
        style=_asset("page.css"),
        summary=summary(report),
        facts=model_facts(report["model"]),
        menu="".join(f'<li><a href="#{part.id}">{part.title}</a></li>' for part in parts),
        sections="\n".join(
            f'<section id="{part.id}"><h2>{part.title}</h2>\n{part.body}</section>'
            for part in parts
        ),
        made=_made(report),
        data=_data(report),
        script=script,
    )


def _asset(name: str) -> str:
    return (files("maxplus.report") / "assets" / name).read_text(encoding="utf-8")


def _policy(script: str) -> str:
    """What the browser may do with this page: run this one script, and load nothing.

    Should text ever become markup by mistake, its scripts would still not run.
    """
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _explorer(report: dict[str, Any]) -> str:
    n_shown, n_rows = len(report["rows"]), report["data"]["n_rows"]
    if not n_shown:
        return '<p class="note">No rows were kept for the explorer.</p>'
    part = f"{n_shown:,} of the" if n_shown < n_rows else "All"
    shown = f"{part} {plural(n_rows, 'row')} can be looked at here, one at a time."
    return Template(_asset("explorer.html")).substitute(shown=shown)


def _made(report: dict[str, Any]) -> str:
    when = escape(report.get("made_at") or "")
    words = when.replace("T", " ").replace("+00:00", " UTC")
    date = f', <time datetime="{when}">{words}</time>' if when else ""
    return f"{escape(report['made_by'])}{date}"


def _data(report: dict[str, Any]) -> str:
    """What the explorer needs, as JSON in which no tag and no comment can begin or end."""
    data = {
        "features": report["features"],
        "image_shape": report.get("image_shape"),
        "radius_unit": report.get("radius_unit"),
        "rows": [{**row, "values": _short(row["values"])} for row in report["rows"]],
        "units": {name: _short(unit) for name, unit in report.get("units", {}).items()},
    }
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")


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
