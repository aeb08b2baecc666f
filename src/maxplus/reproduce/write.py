"""Findings as files: CSV, JSON, PNG, SVG and Markdown each, and one report of them all."""

from __future__ import annotations

import base64
import csv
import html
import json
import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

from maxplus.reproduce.finding import Finding, Settings, Table
from maxplus.reproduce.readings import READINGS
from maxplus.reproduce.registry import EXPERIMENTS

READINGS_TITLE = "Where the paper can be read in two ways"
PACKAGES = ("maxplus", "numpy", "numba", "scikit-learn", "matplotlib")

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
       color: #222; }
table { border-collapse: collapse; margin: 1rem 0; font-size: 0.9rem; }
th, td { padding: 0.3rem 0.7rem; border-bottom: 1px solid #ddd; text-align: right; }
th:first-child, td:first-child { text-align: left; }
caption { text-align: left; font-weight: 600; padding: 0.3rem 0; }
td { white-space: nowrap; }
table.words td { text-align: left; vertical-align: top; white-space: normal; }
.wide { overflow-x: auto; }
img { max-width: 100%; height: auto; }
.note { color: #6b6b6b; }
"""


def machine() -> dict[str, Any]:
    """What times depend on."""
    return {
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
        **{name: version(name) for name in PACKAGES},
    }


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
    (folder / f"{name}.md").write_text(_markdown(name, finding), encoding="utf-8")
    record = {
        "name": name, "title": finding.title, "text": finding.text, "scale": finding.scale,
        "quick": settings.quick, "seeds": settings.seeds, "seconds": finding.seconds,
        "machine": machine(), "values": finding.values,
        "tables": [
            {"caption": t.caption, "columns": t.columns, "rows": t.rows} for t in finding.tables
        ],
        "figures": list(finding.figures),
    }  # fmt: skip
    text = json.dumps(record, indent=2, ensure_ascii=False, default=float)
    temporary = folder / f".{name}.json"
    temporary.write_text(text + "\n", encoding="utf-8")
    os.replace(temporary, folder / f"{name}.json")


def is_finished(folder: Path, name: str, settings: Settings) -> bool:
    """Whether the folder holds this experiment's result for the same settings."""
    try:
        record = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return record.get("quick") == settings.quick and record.get("seeds") == settings.seeds


def write_report(out: Path) -> list[str]:
    """REPORT.md and report.html from all finished experiments below ``out``; their names."""
    records = []
    for name in EXPERIMENTS:
        path = out / name / f"{name}.json"
        if path.is_file():
            records.append(json.loads(path.read_text(encoding="utf-8")))
    sections = [
        (out / record["name"] / f"{record['name']}.md").read_text(encoding="utf-8")
        for record in records
    ]
    # Pictures lie beside each section, one folder below the report.
    body = "\n".join(
        section.replace("](", f"]({record['name']}/")
        for section, record in zip(sections, records, strict=True)
    )
    head = "# The paper's tables and figures, measured again\n\n"
    if records:
        head += _line_of_facts(records[-1]["machine"]) + "\n\n"
    tail = f"\n## {READINGS_TITLE}\n\n{_markdown_table(READINGS, '')}\n"
    (out / "REPORT.md").write_text(head + body + tail, encoding="utf-8")
    (out / "report.html").write_text(_page(out, records), encoding="utf-8")
    return [record["name"] for record in records]


def _line_of_facts(facts: dict[str, Any]) -> str:
    return " · ".join(f"{name} {value}" for name, value in facts.items())


def _markdown(name: str, finding: Finding) -> str:
    parts = [f"## {finding.title} (`{name}`)", finding.text]
    if finding.scale:
        parts.insert(1, f"*Reduced scale: {finding.scale}.*")
    parts += [_markdown_table(table, finding.scale) for table in finding.tables]
    for what in finding.figures:
        parts.append(f"![{finding.title}: {what}]({name}-{what}.png)")
    parts.append(f"{finding.seconds:.0f} s")
    return "\n\n".join(parts) + "\n"


def _markdown_table(table: Table, scale: str) -> str:
    caption = f"**{table.caption}**" + (f" (reduced scale: {scale})" if scale else "")
    lines = ["| " + " | ".join(table.columns) + " |", "|" + "---|" * len(table.columns)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in table.rows]
    return caption + "\n\n" + "\n".join(lines)


def _html_table(table: Table, scale: str, kind: str = "") -> str:
    note = f" <span class=note>({html.escape(scale)})</span>" if scale else ""
    cells = [table.columns, *table.rows]
    rows = [
        "<tr>" + "".join(f"<{tag}>{html.escape(str(c))}</{tag}>" for c in row) + "</tr>"
        for tag, row in zip(["th"] + ["td"] * len(table.rows), cells, strict=True)
    ]
    caption = f"<caption>{html.escape(table.caption)}{note}</caption>"
    return f'<div class=wide><table class="{kind}">{caption}{"".join(rows)}</table></div>'


def _page(out: Path, records: list[dict[str, Any]]) -> str:
    """One page without any file beside it: pictures are inside."""
    parts = ["<h1>The paper's tables and figures, measured again</h1>"]
    if records:
        parts.append(f"<p class=note>{html.escape(_line_of_facts(records[-1]['machine']))}</p>")
    for record in records:
        scale = f"reduced scale: {record['scale']}" if record["scale"] else ""
        parts.append(f"<h2>{html.escape(record['title'])}</h2>")
        parts.append(f"<p>{html.escape(record['text'])}</p>")
        parts += [_html_table(Table(**table), scale) for table in record["tables"]]
        for what in record["figures"]:
            picture = (out / record["name"] / f"{record['name']}-{what}.png").read_bytes()
            data = base64.b64encode(picture).decode("ascii")
            alt = html.escape(f"{record['title']}: {what}", quote=True)
            parts.append(f'<img alt="{alt}" src="data:image/png;base64,{data}">')
        parts.append(f"<p class=note>{record['seconds']:.0f} s</p>")
    parts += [f"<h2>{READINGS_TITLE}</h2>", _html_table(READINGS, "", "words")]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>maxplus</title>'
        f"<style>{_STYLE}</style></head><body>{''.join(parts)}</body></html>\n"
    )
