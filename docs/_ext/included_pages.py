"""Conversion of links to source files into plain text on included pages."""

import re
from pathlib import Path

from sphinx.application import Sphinx


def unlink_sources(app: Sphinx, path: Path, docname: str, content: list[str]) -> None:
    """Replace ``[text](src/…)`` with its text, because the site does not contain the sources."""
    content[0] = re.sub(r"\[([^\]]+)\]\((?:src|results|docs)/[^)]*\)", r"\1", content[0])


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("include-read", unlink_sources)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
