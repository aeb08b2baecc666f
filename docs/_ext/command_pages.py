"""The page of all commands and their options, as Typer documents them itself."""

import re
import subprocess
import sys
from pathlib import Path

from sphinx.application import Sphinx


def write_page(app: Sphinx) -> None:
    """Typer's own Markdown; extensions for Sphinx expect Click, which Typer carries inside."""
    done = subprocess.run(
        [sys.executable, "-m", "typer", "maxplus.cli.app", "utils", "docs", "--name", "maxplus"],
        capture_output=True,
        text=True,
        check=True,
        encoding="utf-8",
    )
    text = re.sub(r"(?m)^(#+) `maxplus (\w+)`$", r"\1 maxplus \2", done.stdout)
    text = re.sub(r"\A# `maxplus`", "# Commands", text).replace("$ maxplus", "maxplus")
    # The contents beside the page list the commands in full words.
    text = re.sub(r"\*\*Commands\*\*:.*?(?=^## )", "", text, count=1, flags=re.S | re.M)
    path = Path(app.srcdir) / "api" / "commands.md"
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", write_page)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
