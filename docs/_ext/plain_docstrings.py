"""Docstrings are read in an editor first: not all that looks like markup there is meant so."""

import re

from sphinx.application import Sphinx

# What stands between backticks is left alone.
LITERAL = re.compile(r"(``.*?``|`[^`\n]*`)")


def escape(
    app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
    """An absolute value is no substitution, and an attribute's last underscore makes no link."""
    for k, line in enumerate(lines):
        parts = LITERAL.split(line)
        for j in range(0, len(parts), 2):
            text = parts[j].replace("|", r"\|")
            parts[j] = re.sub(r"(?<=\w)_(?![\w`])", r"\\_", text)
        lines[k] = "".join(parts)


def setup(app: Sphinx) -> dict[str, bool]:
    # After numpydoc, which must see names as they are.
    app.connect("autodoc-process-docstring", escape, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
