"""A finding as plain data: the JSON file beside an experiment's tables and figures."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from experiments.finding import Finding, Settings, Table
from maxplus._files import write_whole

# What becomes part of a file's name.
PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


@dataclass(frozen=True)
class Record:
    """What an experiment's JSON file holds; figures by name only."""

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
    def of(cls, name: str, finding: Finding, settings: Settings) -> Record:
        """What is kept of a finding."""
        return cls(
            name, finding.title, finding.text, finding.scale, settings.quick, settings.seeds,
            finding.seconds, finding.machine, finding.values, finding.tables,
            list(finding.figures),
        )  # fmt: skip

    @classmethod
    def read(cls, folder: Path, name: str) -> Record | None:
        """The record of an experiment; None when there is none or it is not whole."""
        try:
            found = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
            record = cls(**found | {"tables": [Table(**table) for table in found["tables"]]})
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            return None
        return record if record._is_sound(name) else None

    def write(self, folder: Path) -> None:
        """Written whole or not at all, so that it stands for a finished experiment."""
        text = json.dumps(asdict(self), indent=2, ensure_ascii=False, default=float)
        write_whole(folder / f"{self.name}.json", (text + "\n").encode())

    def _is_sound(self, name: str) -> bool:
        """Whether everything has its type; names become paths, so they must be plain."""
        types: dict[str, Any] = {
            "title": str, "text": str, "scale": str, "quick": bool, "machine": dict,
            "values": dict, "figures": list, "seconds": (int, float, type(None)),
        }  # fmt: skip
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
