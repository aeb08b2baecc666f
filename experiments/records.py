"""Results as files: CSV, JSON, PNG, SVG and Markdown each, and one report of all."""

from __future__ import annotations

import base64
import csv
import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from experiments.harness import BENCHMARKS, EXPERIMENTS, Result, Settings, Table
from experiments.readings import READINGS
from maxplus._files import write_whole
from maxplus.report.page import render

TITLE = "The paper's tables and figures, measured again"
BENCHMARKS_TITLE = "Benchmarks"
READINGS_TITLE = "Where the paper can be read in two ways"
# Names that become parts of file names.
PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


@dataclass(frozen=True)
class Record:
    """Content of an experiment's JSON file; figures by name only."""

    name: str
    title: str
    text: str
    scale: str
    quick: bool
    seeds: int | None
    seconds: float | None
    machine: dict[str, Any]
    values: dict[str, Any]
    tables: list[Table]
    figures: list[str]

    @classmethod
    def of(cls, name: str, result: Result, settings: Settings) -> Record:
        """Return the record of a result."""
        return cls(
            name,
            result.title,
            result.text,
            result.scale,
            settings.quick,
            settings.seeds,
            result.seconds,
            result.machine,
            result.values,
            result.tables,
            list(result.figures),
        )

    @classmethod
    def read(cls, folder: Path, name: str) -> Record | None:
        """Return the record of an experiment; None when there is none or it is damaged."""
        try:
            found = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
            record = cls(**found | {"tables": [Table(**table) for table in found["tables"]]})
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            return None
        return record if record._is_sound(name) else None

    def write(self, folder: Path) -> None:
        """Write the file whole or not at all: it marks a finished experiment."""
        text = json.dumps(asdict(self), indent=2, ensure_ascii=False, default=float)
        write_whole(folder / f"{self.name}.json", (text + "\n").encode())

    def _is_sound(self, name: str) -> bool:
        """Return whether all fields have their types and names are safe as paths."""
        types: dict[str, Any] = {
            "title": str,
            "text": str,
            "scale": str,
            "quick": bool,
            "machine": dict,
            "values": dict,
            "figures": list,
            "seconds": (int, float, type(None)),
        }
        return (
            self.name == name
            and all(isinstance(getattr(self, key), kind) for key, kind in types.items())
            and all(isinstance(f, str) and PLAIN_NAME.fullmatch(f) for f in self.figures)
            and all(
                isinstance(table.caption, str)
                and isinstance(table.columns, list)
                and all(isinstance(column, str) for column in table.columns)
                and isinstance(table.rows, list)
                and all(isinstance(row, list) for row in table.rows)
                for table in self.tables
            )
        )


def write_result(folder: Path, name: str, result: Result, settings: Settings) -> None:
    """Write all files of one experiment; the JSON file last, as it marks a finished one."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, table in enumerate(result.tables, 1):
        suffix = f"-{number}" if len(result.tables) > 1 else ""
        with open(folder / f"{name}{suffix}.csv", "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(table.columns)
            writer.writerows(table.rows)
    for what, figure in result.figures.items():
        for kind in ("png", "svg"):
            figure.savefig(folder / f"{name}-{what}.{kind}")
    record = Record.of(name, result, settings)
    (folder / f"{name}.md").write_text(_section(record), encoding="utf-8")
    record.write(folder)


def is_finished(folder: Path, name: str, settings: Settings) -> bool:
    """Return whether the folder holds this experiment's result for the same settings."""
    record = Record.read(folder, name)
    return record is not None and (record.quick, record.seeds) == (settings.quick, settings.seeds)


def write_report(out: Path) -> list[str]:
    """Write REPORT.md and report.html of all records below ``out``; return their names."""
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
    """Return the facts about the machine that all records share."""
    facts = records[0].machine.items() if records else ()
    return " · ".join(
        f"{name} {value}"
        for name, value in facts
        if all((name, value) in record.machine.items() for record in records)
    )


def _section(record: Record, folder: str = "") -> str:
    """Return the Markdown of one experiment, whose pictures lie in ``folder``."""
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
    """Return one self-contained HTML page."""

    def pictures(record: Record) -> list[dict[str, Any]]:
        paths = {what: out / record.name / f"{record.name}-{what}.png" for what in record.figures}
        return [
            {"what": what, "data": base64.b64encode(path.read_bytes()).decode("ascii")}
            for what, path in paths.items()
            if path.is_file()
        ]

    return render(
        "report.html",
        "experiments",
        title=TITLE,
        facts=facts,
        records=records,
        pictures=pictures,
        readings=READINGS,
        readings_title=READINGS_TITLE,
    )
