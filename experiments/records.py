"""Result files of experiments: CSV, JSON, figures and Markdown."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

from experiments.harness import BENCHMARKS, EXPERIMENTS, Result, Settings
from maxplus._files import write_atomically

TITLE = "Tables and figures of the paper, and further experiments"
BENCHMARKS_TITLE = "Benchmarks"

# Content of the JSON file of an experiment: the fields of its `Result`, with figures by name, and
# its name and settings.
Record = dict[str, Any]


def write_result(folder: Path, name: str, result: Result, settings: Settings) -> None:
    """Write all files of an experiment.

    The JSON file marks the experiment as finished and is written last.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for number, table in enumerate(result.tables, 1):
        suffix = f"-{number}" if len(result.tables) > 1 else ""
        with open(folder / f"{name}{suffix}.csv", "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([table.columns, *table.rows])
    for label, figure in result.figures.items():
        for kind in ("png", "svg"):
            figure.savefig(folder / f"{name}-{label}.{kind}")
    record = {
        "name": name,
        "quick": settings.quick,
        **vars(result),
        "tables": [vars(table) for table in result.tables],
        "figures": list(result.figures),
    }
    (folder / f"{name}.md").write_text(_section(record), encoding="utf-8")
    text = json.dumps(record, indent=2, ensure_ascii=False, default=float)
    write_atomically(folder / f"{name}.json", (text + "\n").encode())


def read_record(folder: Path, name: str) -> Record | None:
    """Read the record of an experiment; return None if it is missing or damaged."""
    try:
        record = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) and record.get("name") == name else None


def is_finished(folder: Path, name: str, settings: Settings) -> bool:
    """Return whether the folder contains a result at the same scale."""
    record = read_record(folder, name)
    return record is not None and record["quick"] == settings.quick


def write_report(out: Path) -> None:
    """Write REPORT.md from all records in ``out``."""
    papers, benchmarks = (
        [record for name in group if (record := read_record(out / name, name))]
        for group in (EXPERIMENTS, BENCHMARKS)
    )
    facts = _common_facts(papers + benchmarks)
    parts = [f"# {TITLE}\n", *([f"{facts}\n"] if facts else [])]
    parts += [_section(record, f"{record['name']}/") for record in papers]
    if benchmarks:
        parts += [f"# {BENCHMARKS_TITLE}\n"]
        parts += [_section(record, f"{record['name']}/") for record in benchmarks]
    (out / "REPORT.md").write_text("\n".join(parts), encoding="utf-8")


def _common_facts(records: list[Record]) -> str:
    """Return the properties of the machine that all records have in common."""
    facts = records[0]["machine"].items() if records else ()
    return " · ".join(
        f"{name} {value}"
        for name, value in facts
        if all((name, value) in record["machine"].items() for record in records)
    )


def _section(record: Record, folder: str = "") -> str:
    """Return the Markdown section of an experiment with figures in ``folder``."""
    name, title = record["name"], record["title"]
    parts = [f"## {title} (`{name}`)", record["text"]]
    if record["scale"]:
        parts.insert(1, f"*Reduced scale: {record['scale']}.*")
    parts += [_markdown_table(table, record["scale"]) for table in record["tables"]]
    parts += [f"![{title}: {label}]({folder}{name}-{label}.png)" for label in record["figures"]]
    if record["seconds"] is not None:
        parts.append(f"{record['seconds']:.0f} s")
    return "\n\n".join(parts) + "\n"


def _markdown_table(table: dict[str, Any], scale: str) -> str:
    caption = f"**{table['caption']}**" + (f" (reduced scale: {scale})" if scale else "")
    head, *lines = (
        "| " + " | ".join(map(str, row)) + " |" for row in (table["columns"], *table["rows"])
    )
    return "\n".join([caption, "", head, "|" + "---|" * len(table["columns"]), *lines])
