"""Files as tables, by their endings; whole or in batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from numpy.typing import NDArray

from maxplus.tables.csv_files import CSV, PACKED, READABLE, csv_batches
from maxplus.tables.npz_files import npz_batches
from maxplus.tables.parquet_files import parquet_batches
from maxplus.tables.table import RawTable, TableError, join

PARQUET = (".parquet", ".pq")


def read_table(path: str | Path) -> RawTable:
    """Read a file by its ending: .csv, .tsv or .txt, maybe packed; .parquet; .npz with X, maybe y.

    A column of a CSV file is numbers if every value is one, or missing, else words.
    """
    path = Path(path)
    words: set[str] = set()
    batches = list(_batches(path, words))
    if not batches:
        raise TableError(f"{path} holds no rows of data")
    columns = join(batches)
    # Numbers at first and words later: only these are read again, all at once.
    late = [name for name in words if any(part[name].dtype != object for part in batches)]
    if late:
        columns |= join(list(_batches(path, words, late)))
    return RawTable(str(path), columns)


def read_batches(path: str | Path) -> Iterator[RawTable]:
    """The rows of `read_table` in parts, for tables that do not fit into memory.

    A column is words in all parts or in none. Only the whole of a CSV file tells which, so
    it is read twice.
    """
    path = Path(path)
    words: set[str] = set()
    if _ending(path) in CSV:
        for _ in _batches(path, words):
            pass
    for columns in _batches(path, words):
        yield RawTable(str(path), columns)


def _batches(
    path: Path, words: set[str], only: Sequence[str] | None = None
) -> Iterator[dict[str, NDArray]]:
    """Parts of some rows each; a CSV column that turns out to hold words is added to ``words``."""
    ending = _ending(path)
    if ending in CSV:
        return csv_batches(path, words, only)
    return parquet_batches(path) if ending in PARQUET else npz_batches(path)


def _ending(path: Path) -> str:
    ending = path.suffix.lower()
    if ending in PACKED and path.with_suffix("").suffix.lower() in CSV:
        return path.with_suffix("").suffix.lower()
    if ending not in (*CSV, *PARQUET, ".npz"):
        raise TableError(f"{path} ends in {ending!r}; data is read from {READABLE}")
    return ending
