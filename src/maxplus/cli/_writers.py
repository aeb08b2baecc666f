"""CSV and JSON writers for tables that are produced in chunks of rows."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import pyarrow as pa
from pyarrow.csv import WriteOptions
from pyarrow.csv import write_csv as write_arrow

from maxplus._files import open_atomically
from maxplus.metrics import to_jsonable

# Columns of a chunk, by name.
Columns = Mapping[str, Sequence[Any]]
# First characters of cells that spreadsheets evaluate as formulas.
FORMULA = ("=", "+", "-", "@", "\t", "\r")


def write_csv(path: Path, chunks: Iterable[Columns], *, spreadsheet_safe: bool = False) -> int:
    """Write a CSV file atomically and return its number of rows."""
    with open_atomically(path) as file:
        return stream_csv(file.write, chunks, spreadsheet_safe=spreadsheet_safe)


def stream_csv(
    write: Callable[[bytes], Any], chunks: Iterable[Columns], *, spreadsheet_safe: bool = False
) -> int:
    """Write chunks as CSV and return the number of rows; all chunks must have the same columns.

    NaN and None become empty cells. With ``spreadsheet_safe``, text that a spreadsheet would
    evaluate as a formula is prefixed with an apostrophe.
    """
    n_rows, is_first = 0, True
    for columns in chunks:
        if spreadsheet_safe:
            columns = {_escape_formula(n): _escape_formulas(c) for n, c in columns.items()}
        if is_first:
            head = io.StringIO()
            csv.writer(head, lineterminator="\n").writerow(columns)
            write(head.getvalue().encode("utf-8"))
            is_first = False
        arrays = [
            column if isinstance(column, pa.Array) else pa.array(column, from_pandas=True)
            for column in columns.values()
        ]
        table = pa.Table.from_arrays(arrays, [str(k) for k in range(len(arrays))])
        write(_lines(table))
        n_rows += table.num_rows
    return n_rows


def _lines(table: pa.Table) -> bytes:
    """Return CSV lines; text is quoted only if necessary."""
    for style in ("none", "needed"):
        lines = io.BytesIO()
        try:
            write_arrow(table, lines, WriteOptions(include_header=False, quoting_style=style))
        except pa.ArrowInvalid:
            if style == "needed":
                raise
        else:
            return lines.getvalue()
    raise AssertionError


def _escape_formulas(column: Any) -> Any:
    if isinstance(column, pa.Array):
        is_text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
        return [_escape_formula(cell) for cell in column.to_pylist()] if is_text else column
    if isinstance(column, np.ndarray):
        return column
    return [_escape_formula(cell) for cell in column]


def _escape_formula(cell: Any) -> Any:
    if not (isinstance(cell, str) and cell.startswith(FORMULA)):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell


def stream_json(
    file: TextIO, head: Mapping[str, Any], name: str, chunks: Iterable[Columns]
) -> None:
    """Write a JSON object with the entries of ``head`` and a list of rows, one row per line."""
    start = json.dumps(to_jsonable(head), ensure_ascii=False)
    file.write(f"{start[:-1]}, {json.dumps(name)}: [")
    separator = "\n"
    for columns in chunks:
        values = [
            to_jsonable(column.to_pylist() if isinstance(column, pa.Array) else column)
            for column in columns.values()
        ]
        for row in zip(*values, strict=True):
            text = json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False)
            file.write(separator + text)
            separator = ",\n"
    file.write("\n]}\n")
