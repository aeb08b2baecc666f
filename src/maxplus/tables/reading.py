"""CSV, Parquet and NPZ files as named columns of numbers or words."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

# What people write where a value is missing, in lower case.
MISSING = {"", "na", "n/a", "nan", "null", "none", "?", "-"}
DELIMITERS = ",;\t|"
# Rows that are turned into arrays together, so that no file is ever held as text.
ROWS_AT_ONCE = 20_000


class TableError(ValueError):
    """Data that cannot be used; the message names the file, the column and the remedy."""


@dataclass(frozen=True)
class RawTable:
    """Columns by name: float64 with NaN for missing values, or strings with "" for them."""

    name: str
    columns: dict[str, NDArray]

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(next(iter(self.columns.values()))) if self.columns else 0


def read_table(path: str | Path) -> RawTable:
    """Read a file by its ending: .csv, .tsv or .txt; .parquet; .npz with X and maybe y."""
    path = Path(path)
    ending = path.suffix.lower()
    readers = {
        ".csv": _read_csv, ".tsv": _read_csv, ".txt": _read_csv,
        ".parquet": _read_parquet, ".pq": _read_parquet, ".npz": _read_npz,
    }  # fmt: skip
    if ending not in readers:
        raise TableError(
            f"{path} ends in {ending!r}; data is read from .csv, .tsv, .txt, .parquet and .npz"
        )
    table = readers[ending](path)
    if not table.columns or not table.n_rows:
        raise TableError(f"{path} holds no rows of data")
    return table


def _read_csv(path: Path, text_columns: frozenset[int] = frozenset()) -> RawTable:
    """Columns whose every value is a number, or missing, become numbers."""
    parts: dict[int, list[NDArray]] = {}
    with open(path, newline="", encoding="utf-8-sig") as file:
        try:
            names, batches = _rows(path, file)
            for batch in batches:
                for k, cells in enumerate(zip(*batch, strict=True)):
                    part = None if k in text_columns else _numbers(cells)
                    if part is None and k not in text_columns and parts.get(k):
                        # Numbers so far, and a word now: read again, as text from the start.
                        return _read_csv(path, text_columns | {k})
                    if part is None:
                        text_columns |= {k}
                        part = np.array([_word(cell) for cell in cells], object)
                    parts.setdefault(k, []).append(part)
        except UnicodeDecodeError as error:
            raise TableError(
                f"{path} is not UTF-8 text ({error.reason}); save it as such"
            ) from None
        except csv.Error as error:
            raise TableError(f"{path} is not a readable CSV file: {error}") from None
    return RawTable(str(path), {names[k]: np.concatenate(p) for k, p in parts.items()})


def _rows(path: Path, file: Iterator[str]) -> tuple[list[str], Iterator[list[list[str]]]]:
    """The column names, and the rows in batches, each row as long as there are names."""
    first_line = next((line for line in file if line.strip()), "")
    delimiter = max(DELIMITERS, key=first_line.count)
    # A quoted name may go on over several lines, so the reader takes the header as well.
    reader = csv.reader(chain([first_line], file), delimiter=delimiter)
    names = [name.strip() for name in next(reader, [])]
    if len(names) < 2:
        raise TableError(
            f"{path} has one column only ({', '.join(names) or 'none'}); columns must be separated "
            "by commas, semicolons, tabs or bars"
        )
    if _numbers(names) is not None:
        raise TableError(
            f"{path} has no header: its first line holds numbers only; put the columns' names there"
        )
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise TableError(f"{path} has several columns named {', '.join(map(repr, twice))}; rename")
    if "" in names:
        raise TableError(f"{path}: column {names.index('') + 1} has no name; give it one")

    def batches() -> Iterator[list[list[str]]]:
        while batch := list(islice(reader, ROWS_AT_ONCE)):
            rows = [row for row in batch if row]
            for row in rows:
                if len(row) != len(names):
                    raise TableError(
                        f"{path}: a row has {len(row)} values, but there are {len(names)} columns; "
                        f"it begins with {', '.join(row[:3])!r:.60} (before line "
                        f"{reader.line_num + 1})"
                    )
            if rows:
                yield rows

    return names, batches()


def _numbers(cells: tuple[str, ...] | list[str]) -> NDArray | None:
    """The cells as float64, NaN where one is missing; None if one is a word."""
    try:
        return np.array(cells, np.float64)
    except ValueError:
        pass
    try:
        return np.array([np.nan if c.strip().lower() in MISSING else float(c) for c in cells])
    except ValueError:
        return None


def _word(cell: str) -> str:
    word = cell.strip()
    return "" if word.lower() in MISSING else word


def _read_parquet(path: Path) -> RawTable:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise TableError(
            f"{path} is a Parquet file, which needs pyarrow: pip install 'maxplus[parquet]'"
        ) from None
    try:
        content = pyarrow.parquet.read_table(path)
    except (pyarrow.ArrowException, OSError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise TableError(f"{path} is not a readable Parquet file: {error}") from None
    columns = {}
    for name, column in zip(content.column_names, content.columns, strict=True):
        kind = column.type
        if pyarrow.types.is_boolean(kind) or pyarrow.types.is_integer(kind):
            values = [np.nan if v is None else float(v) for v in column.to_pylist()]
            columns[str(name)] = np.array(values)
        elif pyarrow.types.is_null(kind):
            columns[str(name)] = np.full(len(column), np.nan)
        elif pyarrow.types.is_floating(kind):
            columns[str(name)] = column.to_numpy().astype(np.float64)
        else:
            words = ["" if v is None else str(v) for v in column.to_pylist()]
            columns[str(name)] = np.array(words, object)
    return RawTable(str(path), columns)


def _read_npz(path: Path) -> RawTable:
    with open(path, "rb") as file:
        try:
            content = np.load(file, allow_pickle=False)
            arrays = {name: np.asarray(content[name]) for name in content.files}
        # Whatever is wrong with a file, NumPy and zipfile have an error of their own for it.
        except Exception as error:
            raise TableError(
                f"{path} is not a readable NPZ file of plain arrays: {error}"
            ) from None
    X = arrays.get("X")
    if X is None or X.ndim != 2 or X.dtype.kind not in "biuf":
        raise TableError(
            f"{path} must hold an array X of numbers with a row for each sample, and y with the "
            f"labels; it holds {', '.join(sorted(arrays)) or 'nothing'}"
        )
    words = [f"feature {p}" for p in range(X.shape[1])]
    if "feature_names" in arrays:
        names = arrays["feature_names"]
        words = [str(name) for name in names] if names.ndim == 1 else []
    if len(words) != X.shape[1] or len(set(words)) != len(words):
        raise TableError(f"{path}: feature_names must be {X.shape[1]} different names")
    columns = {word: X[:, p].astype(np.float64) for p, word in enumerate(words)}
    y = arrays.get("y")
    if y is not None:
        if y.shape != (len(X),):
            raise TableError(f"{path}: y must hold {len(X)} labels, one for each row of X")
        if "y" in columns:
            raise TableError(f"{path}: a feature is named 'y', as the labels are; rename it")
        numbers = y.dtype.kind in "biuf"
        columns["y"] = y.astype(np.float64) if numbers else np.array([str(v) for v in y], object)
    return RawTable(str(path), columns)
