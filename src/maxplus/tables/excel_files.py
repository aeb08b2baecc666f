"""Excel workbooks: the first sheet of an .xlsx file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from maxplus.tables.table import Cells, NoRowsError, RawTable, TableError, check_different
from maxplus.tables.words import MISSING, Words


def read_excel(path: Path) -> RawTable:
    """The first sheet, whose first row that is not empty names the columns."""
    try:
        import openpyxl
    except ImportError:
        raise ImportError(
            f"{path} is read by openpyxl: pip install 'maxplus[excel]', or save it as CSV"
        ) from None
    with open(path, "rb") as file:
        # Whatever is wrong with a file, openpyxl and zipfile have an error of their own for it.
        try:
            book = openpyxl.load_workbook(file, read_only=True, data_only=True)
            sheet = book.worksheets[0]
            rows = list(_filled_rows(sheet.iter_rows(values_only=True)))
            sheets = book.sheetnames
            book.close()
        except Exception as error:
            raise TableError(
                f"{path} is not a readable Excel workbook: {error}; save it anew, or as CSV"
            ) from None
    if len(rows) < 2:
        raise NoRowsError(path, " in its first sheet")
    (_, header), *body = rows
    width = max(k + 1 for _, row in rows for k, cell in enumerate(row) if cell is not None)
    names = ["" if cell is None else str(cell).strip() for cell in header]
    names += [""] * (width - len(names))
    if "" in names[:width]:
        raise TableError(f"{path}: column {names.index('') + 1} has no name; give it one")
    check_different(str(path), names[:width])
    columns = {
        name: _cells([row[k] if k < len(row) else None for _, row in body])
        for k, name in enumerate(names[:width])
    }
    numbers = [number for number, _ in body]
    notes = (
        (f"{path} has {len(sheets)} sheets: the first, {sheets[0]!r}, is read",)
        if len(sheets) > 1
        else ()
    )
    return RawTable(str(path), columns, lambda row: f"row {numbers[row]:,} of the sheet", notes)


def _filled_rows(rows: Iterator[tuple]) -> Iterator[tuple[int, tuple]]:
    """Rows that are not empty, with their numbers in the sheet."""
    return (
        (k, row) for k, row in enumerate(rows, 1) if any(cell is not None for cell in row)
    )  # fmt: skip


def _cells(cells: list[Any]) -> Cells:
    """Numbers if every cell is one, or missing, else words."""
    numbers = [_number(cell) for cell in cells]
    if None in numbers:
        return Words.of(cells)
    return np.array(numbers, np.float64)


def _number(cell: Any) -> float | None:
    if isinstance(cell, (int, float)):
        return float(cell)
    missing = cell is None or (isinstance(cell, str) and cell.strip().lower() in MISSING)
    return np.nan if missing else None
