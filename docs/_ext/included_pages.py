"""Pages of the repository that the site shows as they are: their links to sources become names."""

import re
from pathlib import Path

from sphinx.application import Sphinx


def unlink_sources(app: Sphinx, path: Path, docname: str, content: list[str]) -> None:
    """``[words](src/…)`` becomes the words: the site has no copy of the sources."""
    content[0] = re.sub(r"\[([^\]]+)\]\((?:src|results|docs)/[^)]*\)", r"\1", content[0])


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("include-read", unlink_sources)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
