"""Result pages, generated from the committed files in results/."""

import json
import re
import shutil
from pathlib import Path

from sphinx.application import Sphinx

# Sections of the list of results, in order; other experiments come last.
GROUPS = {
    "Experiments of the paper": (
        "iris",
        "init",
        "mnist",
        "sparsity",
        "zero-hidden",
        "approximation",
        "certificate",
        "timing",
    ),
    "Predictive performance": ("tables", "quality", "robust", "noise", "regression"),
    "Speed and scale": ("first-use", "long-run", "million", "mpi", "products"),
}
OTHERS = "Other"
PLACE = "results/generated"
SOAK_LIST = """## Random trials

- [](generated/soak.md): random problems, attacks, damaged files and killed processes.

```{toctree}
:hidden:

generated/soak
```
"""


def write_pages(app: Sphinx) -> None:
    """Write a page for each experiment, and the list that results/index.md includes."""
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
    """Return the list of all pages by section, each with the first sentence of its text."""
    left = set(records).difference(*GROUPS.values())
    lines = []
    for heading, names in {**GROUPS, OTHERS: tuple(sorted(left))}.items():
        listed = [name for name in names if name in records]
        if listed:
            lines += [f"## {heading}", ""]
            lines += [f"- [](generated/{n}.md): {_first_sentence(records[n])}" for n in listed]
            lines += ["", "```{toctree}", ":hidden:", ""]
            lines += [*(f"generated/{n}" for n in listed), "```", ""]
    return "\n".join(lines)


def _record(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))


def _first_sentence(record: dict) -> str:
    """Return the first sentence of a result."""
    return re.split(r"(?<=[.:;]) (?=[A-Z])", record["text"], maxsplit=1)[0].replace("$", r"\$")


def _page(name: str, record: dict) -> str:
    """Return the page of a result: text, tables, figures and source."""
    parts = [f"# {record['title']}", record["text"].replace("$", r"\$")]
    parts += [_table(table) for table in record["tables"]]
    parts += [f"![{record['title']}: {what}]({name}-{what}.png)" for what in record["figures"]]
    kind = "at reduced scale" if record["quick"] else "at full scale"
    took = "" if record["seconds"] is None else f", in {record['seconds']:,.0f} s"
    parts.append(
        f"---\n\nMeasured by `python -m experiments {name}` {kind}{took} ({_machine(record)}). "
        f"Source: `results/{name}/{name}.json`."
    )
    return "\n\n".join(parts) + "\n"


def _soak_page(record: dict) -> str:
    """Return the page of the last soak test: counts of each trial, and failures."""
    rows = []
    for trial, counts in record["counts"].items():
        seen = (f"{n:,} {what}" for what, n in counts.items() if what != "trials")
        rows.append((trial.replace("_", " "), f"{counts['trials']:,}", ", ".join(seen)))
    failures = [(f["trial"].replace("_", " "), f["seed"], f["error"]) for f in record["failures"]]
    parts = [
        "# Random trials",
        "`make soak` repeats these trials with random seeds, for an hour by default. "
        f"The last run took {record['seconds']:,} s, started with the seed {record['first_seed']} "
        f"and found {len(failures) or 'no'} failure{'s' * (len(failures) != 1)}.",
        _table({"caption": "Trials", "columns": ("trial", "runs", "checked"), "rows": rows}),
    ]
    if failures:
        columns = ("trial", "seed", "error")
        parts.append(_table({"caption": "Failures", "columns": columns, "rows": failures}))
    parts.append(f"---\n\n{_machine(record)}. Source: `results/soak.json`.")
    return "\n\n".join(parts) + "\n"


def _machine(record: dict) -> str:
    return ", ".join(f"{key} {value}" for key, value in record["machine"].items())


def _table(table: dict) -> str:
    """Return a Markdown table; bars in cells are escaped."""
    rows = [table["columns"], ["---"] * len(table["columns"]), *table["rows"]]
    lines = [
        "| " + " | ".join(str(cell).replace("|", r"\|") for cell in row) + " |" for row in rows
    ]
    return "\n".join([f"**{table['caption']}**", "", *lines])


def _write(path: Path, text: str) -> None:
    """Write a file only if its content has changed, to avoid a rebuild of the page."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", write_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
