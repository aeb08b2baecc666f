"""Findings as files: CSV, JSON, PNG, SVG and Markdown each, and one report of them all."""

from __future__ import annotations

import base64
import csv
from pathlib import Path
from typing import Any

from experiments.finding import Finding, Settings, Table
from experiments.readings import READINGS
from experiments.record import Record
from experiments.registry import BENCHMARKS, EXPERIMENTS
from maxplus.report.templates import render

TITLE = "The paper's tables and figures, measured again"
BENCHMARKS_TITLE = "Benchmarks"
READINGS_TITLE = "Where the paper can be read in two ways"


def write_finding(folder: Path, name: str, finding: Finding, settings: Settings) -> None:
    """All files of one experiment; the JSON file last, so that it stands for a finished part."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, table in enumerate(finding.tables, 1):
        suffix = f"-{number}" if len(finding.tables) > 1 else ""
        with open(folder / f"{name}{suffix}.csv", "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(table.columns)
            writer.writerows(table.rows)
    for what, figure in finding.figures.items():
        for kind in ("png", "svg"):
            figure.savefig(folder / f"{name}-{what}.{kind}")
    record = Record.of(name, finding, settings)
    (folder / f"{name}.md").write_text(_section(record), encoding="utf-8")
    record.write(folder)


def is_finished(folder: Path, name: str, settings: Settings) -> bool:
    """Whether the folder holds this experiment's result for the same settings."""
    record = Record.read(folder, name)
    return record is not None and (record.quick, record.seeds) == (settings.quick, settings.seeds)


def write_report(out: Path) -> list[str]:
    """REPORT.md and report.html from all finished experiments below ``out``; their names."""
    papers, benchmarks = (
        [record for name in group if (record := Record.read(out / name, name))]
        for group in (EXPERIMENTS, BENCHMARKS)
    )
    records = papers + benchmarks
    facts = _common_facts(records)
    parts = [f"# {TITLE}\n", *([f"{facts}\n"] if facts else [])]
    parts += [_section(record, f"{record.name}/") for record in papers]
    if benchmarks:
        parts += [f"# {BENCHMARKS_TITLE}\n"]
        parts += [_section(record, f"{record.name}/") for record in benchmarks]
    parts += [f"# {READINGS_TITLE}\n", _markdown_table(READINGS, "") + "\n"]
    (out / "REPORT.md").write_text("\n".join(parts), encoding="utf-8")
    (out / "report.html").write_text(_page(out, facts, records), encoding="utf-8")
    return [record.name for record in records]


def _common_facts(records: list[Record]) -> str:
    """What all records say of their machine; where they differ, each JSON file has its own."""
    facts = records[0].machine.items() if records else ()
    return " · ".join(
        f"{name} {value}"
        for name, value in facts
        if all((name, value) in record.machine.items() for record in records)
    )


def _section(record: Record, folder: str = "") -> str:
    """Markdown of one experiment, whose pictures lie in ``folder``."""
    parts = [f"## {record.title} (`{record.name}`)", record.text]
    if record.scale:
        parts.insert(1, f"*Reduced scale: {record.scale}.*")
    parts += [_markdown_table(table, record.scale) for table in record.tables]
    for what in record.figures:
        parts.append(f"![{record.title}: {what}]({folder}{record.name}-{what}.png)")
    if record.seconds is not None:
        parts.append(f"{record.seconds:.0f} s")
    return "\n\n".join(parts) + "\n"


def _markdown_table(table: Table, scale: str) -> str:
    caption = f"**{table.caption}**" + (f" (reduced scale: {scale})" if scale else "")
    lines = ["| " + " | ".join(table.columns) + " |", "|" + "---|" * len(table.columns)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in table.rows]
    return caption + "\n\n" + "\n".join(lines)


def _page(out: Path, facts: str, records: list[Record]) -> str:
    """One page without any file beside it: pictures are inside."""

    def pictures(record: Record) -> list[dict[str, Any]]:
        paths = {what: out / record.name / f"{record.name}-{what}.png" for what in record.figures}
        return [
            {"what": what, "data": base64.b64encode(path.read_bytes()).decode("ascii")}
            for what, path in paths.items()
            if path.is_file()
        ]

    return render(
        "report.html", "experiments", title=TITLE, facts=facts, records=records,
        pictures=pictures, readings=READINGS, readings_title=READINGS_TITLE,
    )  # fmt: skip
