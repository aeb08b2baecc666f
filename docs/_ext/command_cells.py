"""Conversion of notebook cells with ``%%bash`` into shell blocks."""

from docutils import nodes
from sphinx.application import Sphinx

MAGIC = "%%bash\n"


def show_as_typed(app: Sphinx, doctree: nodes.document) -> None:
    """Turn cells that begin with ``%%bash`` into shell blocks."""
    for block in doctree.findall(nodes.literal_block):
        text = block.astext()
        if text.startswith(MAGIC):
            typed = text.removeprefix(MAGIC)
            block.rawsource = typed
            block["language"] = "bash"
            block[:] = [nodes.Text(typed)]


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("doctree-read", show_as_typed)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
