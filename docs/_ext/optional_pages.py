"""Pages that are listed only where they exist: the gallery needs examples, for one."""

from sphinx.application import Sphinx

# By the page that lists them: the line there, and the document it means.
OPTIONAL = {
    "index": ("gallery/index", "gallery/index"),
    "contributing": ("policy", "policy"),
    "guide/index": ("more_machines", "guide/more_machines"),
}


def drop_missing(app: Sphinx, docname: str, source: list[str]) -> None:
    """Take a line out of a page's contents if the document it names is not there."""
    line, document = OPTIONAL.get(docname, ("", ""))
    if document and document not in app.env.found_docs:
        source[0] = source[0].replace(f"\n{line}\n", "\n")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", drop_missing)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
