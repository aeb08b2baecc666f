"""How a CSV file is written: names, separators, decimal commas; guessed from its beginning."""

from __future__ import annotations

import csv
import io
import re
from itertools import chain, islice, pairwise
from typing import Any, NamedTuple

from maxplus.tables.bytes_of import BYTES_AT_ONCE, Utf8
from maxplus.tables.table import TableError, check_different

DELIMITERS = ",;\t|"
# What spreadsheets and data frames leave empty: the name of the rows' own numbers.
UNNAMED = "Unnamed: 0"
# Where a file without any line is given up, in bytes.
LONGEST_NAMES = 1 << 25
# Rows that a guess is made from.
ROWS_LOOKED_AT = 1000
_NUMBER = re.compile(r"\s*[-+]?(\d+([.,]\d*)?|[.,]\d+)([eE][-+]?\d+)?\s*")


class Dialect(NamedTuple):
    """How to read a CSV file.

    Attributes
    ----------
    names : of the columns
    delimiter : what separates them
    commas : the columns whose numbers have decimal commas
    blank_lines : how many come before the names
    """

    names: list[str]
    delimiter: str
    commas: frozenset[str]
    blank_lines: int


def sniff(text: Utf8, name: str) -> Dialect:
    """Look at the beginning of a text, and put it back.

    Raises
    ------
    TableError
        Where there are no columns, or no names for them.
    """
    head = more = text.read(BYTES_AT_ONCE)
    # A wide table's names may be long.
    while not re.search(rb"[^\r\n][\r\n]", head[-len(more) - 1 :]):
        if not (more := text.read(BYTES_AT_ONCE)):
            break
        head += more
        if len(head) > LONGEST_NAMES:
            raise TableError(
                f"{name} has no line of names in its first {LONGEST_NAMES:,} bytes; is it a table?"
            )
    text.unread(head)
    lines = io.StringIO(head.decode("utf-8-sig", "replace"), newline="")
    blank_lines, first_line = next(
        ((k, line) for k, line in enumerate(lines) if line.strip()), (0, "")
    )
    delimiter = max(DELIMITERS, key=first_line.count)
    # A quoted name may go on over several lines.
    reader = csv.reader(chain([first_line], lines), delimiter=delimiter)
    names = [cell.strip() for cell in next(reader, [])]
    _check_names(name, names)
    if names[0] == "" and UNNAMED not in names:
        names[0] = UNNAMED
    if "" in names:
        raise TableError(f"{name}: column {names.index('') + 1} has no name; give it one")
    check_different(name, names)
    commas = frozenset() if delimiter == "," else _commas(names, reader)
    return Dialect(names, delimiter, commas, blank_lines)


def _check_names(name: str, names: list[str]) -> None:
    if not names:
        raise TableError(f"{name} is empty; it should hold a line of names and rows of data")
    if len(names) < 2:
        raise TableError(
            f"{name} has one column only ({names[0]}); columns must be separated by commas, "
            "semicolons, tabs or bars"
        )
    numbers = [cell for cell in names if _NUMBER.fullmatch(cell)]
    if len(numbers) == len(names):
        raise TableError(
            f"{name} has no header: its first line holds numbers only; put the columns' names there"
        )
    if 2 * len(numbers) >= len(names) and not _are_names(numbers):
        raise TableError(
            f"{name} has no header, it seems: its first line ({','.join(names)[:40]}…) looks like "
            "data; put a line with the columns' names before it"
        )


def _are_names(numbers: list[str]) -> bool:
    """Columns may be called 0, 1, 2, …, as data frames without names are, or be years."""
    if not all(cell.isdecimal() for cell in numbers):
        return False
    steps = {int(b) - int(a) for a, b in pairwise(numbers)}
    return steps == {1} or (len(numbers) > 2 and len(steps) == 1 and steps != {0})


def _commas(names: list[str], reader: Any) -> frozenset[str]:
    """Columns of numbers with commas, mostly; where none has points, all columns may be."""
    columns: dict[int, list[str]] = {}
    try:
        for cells in islice(reader, ROWS_LOOKED_AT):
            for k, cell in enumerate(cells[: len(names)]):
                columns.setdefault(k, []).append(cell.strip())
    except csv.Error:
        return frozenset()
    commas: set[str] = set()
    points = False
    for k, cells in columns.items():
        numbers = [cell for cell in cells if _NUMBER.fullmatch(cell)]
        if 2 * len(numbers) > len([cell for cell in cells if cell]):
            n_commas = sum("," in cell for cell in numbers)
            n_points = sum("." in cell for cell in numbers)
            points |= n_points > n_commas
            if n_commas > n_points:
                commas.add(names[k])
    return frozenset(names if commas and not points else commas)
