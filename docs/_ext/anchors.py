"""Check of internal links and anchors."""

import html.parser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from sphinx.application import Sphinx
from sphinx.util.logging import getLogger

logger = getLogger(__name__)


class Page(html.parser.HTMLParser):
    """Parser that collects the anchors and the link targets of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.targets: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value and name == "id":
                self.anchors.add(value)
            elif value and name in ("href", "src"):
                self.targets.add(value)


def check(app: Sphinx, error: Exception | None) -> None:
    """Warn about missing targets. The Makefile turns warnings into errors."""
    if error is not None or app.builder.format != "html":
        return
    root = Path(app.outdir).resolve()
    pages = {path: Page(path) for path in root.rglob("*.html") if "_static" not in path.parts}
    for path, page in pages.items():
        for target in sorted(page.targets):
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            goal = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            goal = goal / "index.html" if goal.is_dir() else goal
            source = path.relative_to(root)
            if not goal.exists():
                logger.warning("%s links to %s, which does not exist", source, target)
            elif goal in pages and unquote(parts.fragment) not in pages[goal].anchors | {""}:
                logger.warning("%s links to %s: the anchor does not exist", source, target)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("build-finished", check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
