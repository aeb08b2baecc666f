"""Pages of what was measured, from the committed files under results/: a number has one source."""

import json
import re
import shutil
from pathlib import Path

from sphinx.application import Sphinx

# The paper's tables and figures first, in the paper's order; then what goes beyond it.
ORDER = (
    "iris", "init", "mnist", "sparsity", "zero-hidden", "approximation", "certificate", "timing",
    "tables", "quality", "noise", "regression", "long-run", "million", "products", "iris-torch",
)  # fmt: skip
PLACE = "results/generated"


def write_pages(app: Sphinx) -> None:
    """One page for each experiment, and the list of them that results/index.md includes."""
    measured = Path(app.srcdir).parent / "results"
    pages = Path(app.srcdir) / PLACE
    pages.mkdir(parents=True, exist_ok=True)
    found = sorted(path.parent.name for path in measured.glob("*/*.json"))
    names = sorted(found, key=lambda name: ORDER.index(name) if name in ORDER else len(ORDER))
    for old in pages.iterdir():
        if old.stem.partition("-")[0] not in {name.partition("-")[0] for name in names}:
            old.unlink()
    for name in names:
        record = json.loads((measured / name / f"{name}.json").read_text(encoding="utf-8"))
        text = (measured / name / f"{name}.md").read_text(encoding="utf-8")
        _write(pages / f"{name}.md", _page(name, record, text))
        for picture in (measured / name).glob("*.png"):
            shutil.copy2(picture, pages)
    told = [f"- [](generated/{name}.md): {_first_sentence(measured, name)}" for name in names]
    tree = ["```{toctree}", ":hidden:", "", *(f"generated/{name}" for name in names), "```"]
    _write(pages / "list.txt", "\n".join([*told, "", *tree, ""]))


def _first_sentence(measured: Path, name: str) -> str:
    """How a finding's text begins."""
    record = json.loads((measured / name / f"{name}.json").read_text(encoding="utf-8"))
    return re.split(r"(?<=[.:;]) (?=[A-Z])", record["text"], maxsplit=1)[0].replace("$", r"\$")


def _page(name: str, record: dict, text: str) -> str:
    """A finding's Markdown, with its title on top and where it comes from below."""
    body = re.sub(r"\A## .*\n", "", text)
    body = re.sub(r"\n[\d,]+ s\s*\Z", "\n", body)
    # What looks like mathematics to MyST, and a line of its own for each table's name.
    body = body.replace("$", r"\$")
    machine = ", ".join(f"{key} {value}" for key, value in record["machine"].items())
    kind = "at reduced scale" if record["quick"] else "at full scale"
    took = "" if record["seconds"] is None else f", in {record['seconds']:,.0f} s"
    return (
        f"# {record['title']}\n\n{body}\n---\n\n"
        f"Measured by `maxplus reproduce {name}` {kind}{took} "
        f"({machine}). This page is made of `results/{name}/{name}.json` and what was written "
        "beside it.\n"
    )


def _write(path: Path, text: str) -> None:
    """Only what has changed, so that Sphinx reads nothing twice."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", write_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
