"""CSV and JSON writers."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TextIO

import pyarrow as pa
from pyarrow.csv import WriteOptions
from pyarrow.csv import write_csv as write_arrow

from maxplus._files import whole_file
from maxplus.metrics import to_jsonable

Columns = Mapping[str, Sequence[Any]]
# First characters of cells that spreadsheets evaluate as formulas.
FORMULA = ("=", "+", "-", "@", "\t", "\r")


class Sink(Protocol):
    """Writer of a table in chunks of rows with the same columns."""

    def write(self, columns: Columns) -> None:
        """Write a chunk of rows."""


class CsvSink:
    """CSV writer that is based on pyarrow.

    With ``spreadsheet_safe``, text that a spreadsheet would evaluate as a formula is prefixed with
    an apostrophe.
    """

    def __init__(self, write: Callable[[bytes], Any], *, spreadsheet_safe: bool = False) -> None:
        self._write, self._is_safe = write, spreadsheet_safe
        self._is_new = True

    def write(self, columns: Columns) -> None:
        """Write a chunk of rows; NaN and None become empty cells."""
        if self._is_safe:
            columns = {_without_formula(n): _without_formulas(c) for n, c in columns.items()}
        if self._is_new:
            head = io.StringIO()
            csv.writer(head, lineterminator="\n").writerow(columns)
            self._write(head.getvalue().encode("utf-8"))
            self._is_new = False
        arrays = [
            column if isinstance(column, pa.Array) else pa.array(column, from_pandas=True)
            for column in columns.values()
        ]
        table = pa.Table.from_arrays(arrays, [str(k) for k in range(len(arrays))])
        self._write(_lines(table))


def _without_formulas(column: Any) -> Any:
    if isinstance(column, pa.Array):
        is_text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
        return [_without_formula(cell) for cell in column.to_pylist()] if is_text else column
    return [_without_formula(cell) for cell in column]


def _without_formula(cell: Any) -> Any:
    if not (isinstance(cell, str) and cell.startswith(FORMULA)):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell


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


class JsonSink:
    """JSON writer that writes each row as an object on its own line."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._is_new = True

    def write(self, columns: Columns) -> None:
        """Write a chunk of rows; NaN becomes null."""
        values = [
            to_jsonable(column.to_pylist() if isinstance(column, pa.Array) else list(column))
            for column in columns.values()
        ]
        for row in zip(*values, strict=True):
            text = json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False)
            self._file.write(("\n" if self._is_new else ",\n") + text)
            self._is_new = False


@contextmanager
def csv_file(path: Path, *, spreadsheet_safe: bool = False) -> Iterator[CsvSink]:
    """Write a CSV file atomically."""
    with whole_file(path) as file:
        yield CsvSink(file.write, spreadsheet_safe=spreadsheet_safe)


@contextmanager
def json_list(file: TextIO, head: Mapping[str, Any], name: str) -> Iterator[JsonSink]:
    """Write a JSON object with the entries of ``head`` and a list of rows."""
    start = json.dumps(to_jsonable(dict(head)), ensure_ascii=False)
    file.write(f"{start[:-1]}{', ' if head else ''}{json.dumps(name)}: [")
    yield JsonSink(file)
    file.write("\n]}\n")


def write_csv(path: Path, columns: Columns) -> None:
    """Write a table to a CSV file."""
    with csv_file(path) as sink:
        sink.write(columns)


def output_cells(cells: Any) -> list[Any]:
    """Convert the cells of a column for output; integral floats become int, NaN becomes None."""
    return [_output_cell(cell) for cell in cells.tolist()]


def _output_cell(cell: Any) -> Any:
    if not isinstance(cell, float):
        return cell
    if not math.isfinite(cell):
        return None
    return int(cell) if cell.is_integer() else cell
