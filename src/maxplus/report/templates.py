"""Pages from templates: what is put into one is text, unless a template says otherwise."""

from __future__ import annotations

import base64
import hashlib
import math
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from maxplus.metrics._readable import readable, with_error
from maxplus.report import _text

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup


def render(template: str, package: str = "maxplus.report", **values: Any) -> str:
    """The page that a template makes of ``values``.

    It lies in the folder ``assets`` of ``package`` and may extend or import those of
    `maxplus.report`, such as ``base.html`` and ``tables.html``.
    """
    return _environment(package).get_template(template).render(**values)


@cache
def _environment(package: str) -> Environment:
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    places = dict.fromkeys((package, "maxplus.report"))
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(place, "assets") for place in places]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        name: getattr(_text, name)
        for name in ("apart", "fixed", "percent", "plural", "probability")
    }
    environment.filters |= {"readable": readable, "with_error": with_error}
    environment.filters |= {"base64": _base64, "sha256": _sha256}
    environment.globals |= {"asset": _asset, "exp": math.exp}
    environment.policies["json.dumps_kwargs"] = {
        "ensure_ascii": False, "allow_nan": False, "separators": (",", ":"),
    }  # fmt: skip
    return environment


def _asset(*names: str) -> Markup:
    """Styles or scripts of this folder, one after the other."""
    from markupsafe import Markup

    folder = files("maxplus.report") / "assets"
    return Markup("\n".join((folder / name).read_text(encoding="utf-8") for name in names))


def _base64(text: str) -> str:
    return base64.b64encode(text.encode("utf-8")).decode("ascii")


def _sha256(text: str) -> str:
    """The digest by which a content-security policy names a script."""
    return base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
