"""What users say about columns."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from maxplus.tables import ColumnChoices

LISTS = ("categorical", "numeric", "drop", "keep")


def column_choices(options: Mapping[str, Any]) -> ColumnChoices:
    """Those options of a command that are about columns."""
    from maxplus.tables import ColumnChoices

    return ColumnChoices(
        target=options.get("target"),
        task=options["task"],
        missing=options["missing"],
        groups=options.get("groups"),
        **{name: names(options.get(name)) for name in LISTS},
    )


def names(given: Iterable[str] | None) -> tuple[str, ...]:
    """Columns from repeated options, each of which may be a list with commas.

    A name with a comma in it stands in double quotes.
    """
    return tuple(
        name.strip() for line in csv.reader(given or (), skipinitialspace=True) for name in line
    )
