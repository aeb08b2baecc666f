"""Rendering of HTML pages with Jinja2."""

from __future__ import annotations

import base64
import hashlib
import math
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from maxplus.metrics._formatting import format_number, format_with_error, to_jsonable
from maxplus.report import _text

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup


def render(template: str, package: str = "maxplus.report", **values: Any) -> str:
    """Render a template with the given values.

    Templates are files in the folder ``assets`` of ``package``. They can extend or import templates
    of `maxplus.report`, such as ``base.html`` and ``tables.html``.
    """
    return _environment(package).get_template(template).render(**values)


@cache
def _environment(package: str) -> Environment:
    """Return the Jinja2 environment for the templates of a package."""
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    packages = dict.fromkeys((package, "maxplus.report"))
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(name, "assets") for name in packages]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        name: getattr(_text, name)
        for name in ("distinguishable", "fixed", "percent", "plural", "probability")
    }
    environment.filters |= {"format_number": format_number, "format_with_error": format_with_error}
    environment.filters |= {"base64": _base64, "sha256": _sha256}
    environment.globals |= {"asset": _asset, "exp": math.exp}
    environment.policies["json.dumps_kwargs"] = {
        "ensure_ascii": False,
        "allow_nan": False,
        "separators": (",", ":"),
    }
    return environment


def _asset(*names: str) -> Markup:
    """Return the concatenated text of style sheets or scripts in ``assets``."""
    from markupsafe import Markup

    folder = files("maxplus.report") / "assets"
    return Markup("\n".join((folder / name).read_text(encoding="utf-8") for name in names))


def _base64(text: str) -> str:
    """Return the UTF-8 bytes of a text as base64."""
    return base64.b64encode(text.encode("utf-8")).decode("ascii")


def _sha256(text: str) -> str:
    """Return the base64 SHA-256 digest of a script, for the Content-Security-Policy."""
    return base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def render_page(report: dict[str, Any]) -> str:
    """Render a self-contained HTML page, with embedded styles, scripts, images and data.

    Parameters
    ----------
    report : dict
        Result of `report_content` or `regression_content`. Numbers that are None, NaN or infinite
        are shown as unknown.

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
    report = to_jsonable(report)
    if report["task"] == "regression":
        return render("regression.html", title=report["title"], report=report)
    return render("page.html", title=report["title"], report=report, data=_data(report))


def _data(report: dict[str, Any]) -> dict[str, Any]:
    """Return the data for the scripts of the page."""
    importances = (report["importances"] or {}).get("columns", [])
    rank = {column["name"]: k for k, column in enumerate(importances)}
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
        "rows": report["rows"],
        "units": report["units"],
    }
