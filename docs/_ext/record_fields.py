"""Descriptions of the fields of named tuples, taken from their comments."""

import ast
import importlib
import inspect
import re
import textwrap

from sphinx.application import Sphinx

NUMBERED = "Alias for field number"


def comments(cls: type) -> dict[str, str]:
    """Return the comment of each field of a class, including continuation lines."""
    lines = textwrap.dedent(inspect.getsource(cls)).splitlines()
    (node,) = ast.parse("\n".join(lines)).body
    found = {}
    for field in node.body:
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            words = [lines[field.end_lineno - 1][field.end_col_offset :].partition("#")[2].strip()]
            for line in lines[field.end_lineno :]:
                more = re.fullmatch(r"\s+#(.*)", line)
                if not more or not words[0]:
                    break
                words.append(more[1].strip())
            found[field.target.id] = " ".join(words)
    return found


def describe(
    app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
    """Replace the default description of a field with its comment, if any."""
    if lines and lines[0].startswith(NUMBERED):
        address, _, field = name.rpartition(".")
        module, _, cls = address.rpartition(".")
        text = comments(getattr(importlib.import_module(module), cls)).get(field, "")
        lines[:] = [text[:1].upper() + text[1:] + "." if text else ""]


def setup(app: Sphinx) -> dict[str, bool]:
    # Before numpydoc, which reorders the lines.
    app.connect("autodoc-process-docstring", describe, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
