"""Escaping of docstring characters that are not markup."""

import re

from sphinx.application import Sphinx

# Text between backticks is not escaped.
LITERAL = re.compile(r"(``.*?``|`[^`\n]*`)")


def escape(
    app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
    """Escape bars (not substitutions) and trailing underscores (not links)."""
    for k, line in enumerate(lines):
        parts = LITERAL.split(line)
        for j in range(0, len(parts), 2):
            text = parts[j].replace("|", r"\|")
            parts[j] = re.sub(r"(?<=\w)_(?![\w`])", r"\\_", text)
        lines[k] = "".join(parts)


def setup(app: Sphinx) -> dict[str, bool]:
    # After numpydoc, which needs unescaped names.
    app.connect("autodoc-process-docstring", escape, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
