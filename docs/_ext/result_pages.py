"""Pages of what was measured, from the committed files under results/: a number has one source."""

import json
import re
import shutil
from pathlib import Path

from sphinx.application import Sphinx

# How the list is cut, and in which order; what is measured and not named here comes last.
GROUPS = {
    "The paper": (
        "iris",
        "init",
        "mnist",
        "sparsity",
        "zero-hidden",
        "approximation",
        "certificate",
        "timing",
    ),
    "How good its own recipes are": (
        "tables",
        "raw-tables",
        "quality",
        "robust",
        "noise",
        "regression",
    ),
    "How fast, how large": ("long-run", "million", "mpi", "products", "first-use"),
}
OTHERS = "More"
PLACE = "results/generated"
SOAK_LIST = """## Random trials

- [](generated/soak.md): problems, attacks, damaged files, kills at random.

```{toctree}
:hidden:

generated/soak
```
"""


def write_pages(app: Sphinx) -> None:
    """One page for each experiment, and the list of them that results/index.md includes."""
    measured = Path(app.srcdir).parent / "results"
    pages = Path(app.srcdir) / PLACE
    pages.mkdir(parents=True, exist_ok=True)
    records = {
        path.stem: _record(path)
        for path in sorted(measured.glob("*/*.json"))
        if path.stem == path.parent.name
    }
    for old in pages.glob("*.md"):
        if old.stem not in records:
            old.unlink()
    for name, record in records.items():
        _write(pages / f"{name}.md", _page(name, record))
        for picture in (measured / name).glob("*.png"):
            shutil.copy2(picture, pages)
    trials = measured / "soak.json"
    if trials.exists():
        _write(pages / "soak.md", _soak_page(_record(trials)))
    _write(pages / "list.txt", _list(records) + (SOAK_LIST if trials.exists() else ""))


def _list(records: dict[str, dict]) -> str:
    """All pages under their headings, each with how its text begins."""
    left = set(records).difference(*GROUPS.values())
    lines = []
    for heading, names in {**GROUPS, OTHERS: tuple(sorted(left))}.items():
        told = [name for name in names if name in records]
        if told:
            lines += [f"## {heading}", ""]
            lines += [f"- [](generated/{n}.md): {_first_sentence(records[n])}" for n in told]
            lines += ["", "```{toctree}", ":hidden:", ""]
            lines += [*(f"generated/{n}" for n in told), "```", ""]
    return "\n".join(lines)


def _record(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))


def _first_sentence(record: dict) -> str:
    """How a finding's text begins."""
    return re.split(r"(?<=[.:;]) (?=[A-Z])", record["text"], maxsplit=1)[0].replace("$", r"\$")


def _page(name: str, record: dict) -> str:
    """A finding: its text, tables and pictures, and where it comes from below."""
    parts = [f"# {record['title']}", record["text"].replace("$", r"\$")]
    parts += [_table(table) for table in record["tables"]]
    parts += [f"![{record['title']}: {what}]({name}-{what}.png)" for what in record["figures"]]
    kind = "at reduced scale" if record["quick"] else "at full scale"
    took = "" if record["seconds"] is None else f", in {record['seconds']:,.0f} s"
    parts.append(
        f"---\n\nMeasured by `python -m experiments {name}` {kind}{took} ({_machine(record)}). "
        f"This page is made of `results/{name}/{name}.json`."
    )
    return "\n\n".join(parts) + "\n"


def _soak_page(record: dict) -> str:
    """What the last soak has looked at, trial by trial, and what failed."""
    rows = []
    for trial, counts in record["counts"].items():
        seen = (f"{n:,} {what}" for what, n in counts.items() if what != "trials")
        rows.append((trial.replace("_", " "), f"{counts['trials']:,}", ", ".join(seen)))
    failures = [(f["trial"].replace("_", " "), f["seed"], f["error"]) for f in record["failures"]]
    parts = [
        "# Random trials",
        "`make soak` goes round these trials with random seeds, for an hour unless told otherwise. "
        f"Its last run took {record['seconds']:,} s, began with the seed {record['first_seed']} "
        f"and found {len(failures) or 'no'} failure{'s' * (len(failures) != 1)}.",
        _table(
            {"caption": "What was tried", "columns": ("trial", "times", "looked at"), "rows": rows}
        ),
    ]
    if failures:
        columns = ("trial", "seed", "error")
        parts.append(_table({"caption": "Failures", "columns": columns, "rows": failures}))
    parts.append(f"---\n\n{_machine(record)}. This page is made of `results/soak.json`.")
    return "\n\n".join(parts) + "\n"


def _machine(record: dict) -> str:
    return ", ".join(f"{key} {value}" for key, value in record["machine"].items())


def _table(table: dict) -> str:
    """Markdown; a bar in a cell is no end of it."""
    rows = [table["columns"], ["---"] * len(table["columns"]), *table["rows"]]
    lines = [
        "| " + " | ".join(str(cell).replace("|", r"\|") for cell in row) + " |" for row in rows
    ]
    return "\n".join([f"**{table['caption']}**", "", *lines])


def _write(path: Path, text: str) -> None:
    """Only what has changed, so that Sphinx reads nothing twice."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", write_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
