"""CSV, Parquet and NPZ files as named columns of numbers or words."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

# pyarrow is imported where it is used, so that importing this stays quick.
if TYPE_CHECKING:
    import pyarrow

# What people write where a value is missing, in lower case.
MISSING = ("", "na", "n/a", "nan", "null", "none", "?", "-")
# The same with capitals: pyarrow knows no case.
SPELLINGS = sorted(
    {"".join(s) for word in MISSING for s in product(*zip(word, word.upper(), strict=True))}
)
DELIMITERS = ",;\t|"
CSV = (".csv", ".tsv", ".txt")
# Behind a CSV file's ending; pyarrow unpacks them while it reads.
PACKED = (".gz", ".bz2", ".zst", ".lz4")
PARQUET = (".parquet", ".pq")
READABLE = ".csv, .tsv and .txt (also packed: .csv.gz, .bz2, .zst, .lz4), .parquet and .npz"
# How much of a CSV file is text in memory at a time, and so the longest row.
BLOCK_BYTES = 1 << 24
# Longer cells are taken for a quote that was never closed.
LONGEST_CELL = 1 << 17
# Rows of a Parquet file that are turned into arrays together.
ROWS_AT_ONCE = 1 << 16


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
    """Read a file by its ending: .csv, .tsv or .txt, maybe packed; .parquet; .npz with X, maybe y.

    A column of a CSV file is numbers if every value is one, or missing, else words.
    """
    path = Path(path)
    words: set[str] = set()
    batches = list(_batches(path, words))
    if not batches:
        raise TableError(f"{path} holds no rows of data")
    columns = _join(batches)
    # Numbers at first and words later: only these are read again, all at once.
    late = [name for name in words if any(part[name].dtype != object for part in batches)]
    if late:
        columns |= _join(list(_batches(path, words, late)))
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
        return _csv_batches(path, words, only)
    return _parquet_batches(path) if ending in PARQUET else _npz_batches(path)


def _ending(path: Path) -> str:
    ending = path.suffix.lower()
    if ending in PACKED and path.with_suffix("").suffix.lower() in CSV:
        return path.with_suffix("").suffix.lower()
    if ending not in (*CSV, *PARQUET, ".npz"):
        raise TableError(f"{path} ends in {ending!r}; data is read from {READABLE}")
    return ending


def _join(batches: list[dict[str, NDArray]]) -> dict[str, NDArray]:
    return {name: np.concatenate([part[name] for part in batches]) for name in batches[0]}


# -- CSV --------------------------------------------------------------------------------------


def _csv_batches(
    path: Path, words: set[str], only: Sequence[str] | None
) -> Iterator[dict[str, NDArray]]:
    """All cells are read as text: a type that pyarrow guessed could not change later."""
    import pyarrow
    from pyarrow import csv as arrow_csv

    ragged: list[Any] = []

    def note(row: Any) -> str:
        ragged.append(row)
        return "error"

    with _csv_errors(path, ragged):
        names, delimiter, blank_lines = _header(path)
        # By number, so that no name can be mistaken; the header is skipped as a row, which may
        # take several lines.
        ids = {name: str(k) for k, name in enumerate(names)}
        wanted = names if only is None else only
        with _unpacked(path) as stream:
            reader = arrow_csv.open_csv(
                stream,
                arrow_csv.ReadOptions(
                    column_names=list(ids.values()), skip_rows=blank_lines, skip_rows_after_names=1,
                    block_size=BLOCK_BYTES,
                ),
                arrow_csv.ParseOptions(
                    delimiter=delimiter, newlines_in_values=True, invalid_row_handler=note
                ),
                arrow_csv.ConvertOptions(
                    column_types=dict.fromkeys(ids.values(), pyarrow.string()),
                    null_values=SPELLINGS, strings_can_be_null=True,
                    include_columns=[ids[name] for name in wanted],
                ),
            )  # fmt: skip
            for batch in reader:
                if batch.num_rows:
                    yield {
                        name: _numbers_or_words(path, name, cells, words)
                        for name, cells in zip(wanted, batch.columns, strict=True)
                    }


def _header(path: Path) -> tuple[list[str], str, int]:
    """The columns' names, what separates them and how many blank lines come before."""
    with _unpacked(path) as stream:
        text = io.TextIOWrapper(stream, "utf-8-sig", newline="")
        blank_lines, first_line = next(
            ((k, line) for k, line in enumerate(text) if line.strip()), (0, "")
        )
        delimiter = max(DELIMITERS, key=first_line.count)
        # A quoted name may go on over several lines.
        reader = csv.reader(chain([first_line], text), delimiter=delimiter)
        names = [name.strip() for name in next(reader, [])]
    if len(names) < 2:
        raise TableError(
            f"{path} has one column only ({', '.join(names) or 'none'}); columns must be separated "
            "by commas, semicolons, tabs or bars"
        )
    if _numbers(_trimmed(names)) is not None:
        raise TableError(
            f"{path} has no header: its first line holds numbers only; put the columns' names there"
        )
    _check_different(path, names)
    if "" in names:
        raise TableError(f"{path}: column {names.index('') + 1} has no name; give it one")
    return names, delimiter, blank_lines


def _numbers_or_words(path: Path, name: str, cells: pyarrow.Array, words: set[str]) -> NDArray:
    """One column of a batch."""
    from pyarrow import compute

    numbers = None if name in words else _numbers(cells)
    if numbers is not None:
        return numbers
    trimmed = _trimmed(cells)
    numbers = None if name in words else _numbers(trimmed)
    if numbers is not None:
        return numbers
    words.add(name)
    longest = compute.max(compute.utf8_length(trimmed)).as_py()
    if longest is not None and longest > LONGEST_CELL:
        raise TableError(
            f"{path}: {name!r} has a cell of {longest:,} characters, and at most "
            f"{LONGEST_CELL:,} are read; is a quote not closed?"
        )
    return _words(trimmed)


def _trimmed(cells: pyarrow.Array | list[str]) -> pyarrow.Array:
    """Cells without the spaces around them, null where a value is missing."""
    import pyarrow
    from pyarrow import compute

    cells = compute.utf8_trim_whitespace(pyarrow.array(cells, pyarrow.string()))
    missing = compute.is_in(compute.utf8_lower(cells), pyarrow.array(MISSING))
    return compute.if_else(missing, pyarrow.scalar(None, pyarrow.string()), cells)


def _numbers(cells: pyarrow.Array) -> NDArray | None:
    """Cells as float64, NaN where one is missing; None if one is a word."""
    import pyarrow

    try:
        return cells.cast(pyarrow.float64()).to_numpy(zero_copy_only=False)
    except pyarrow.ArrowInvalid:
        return None


def _words(cells: pyarrow.Array) -> NDArray:
    """Cells as strings, "" where one is missing; equal ones are one object."""
    different = cells.fill_null("").dictionary_encode()
    return different.dictionary.to_numpy(zero_copy_only=False)[different.indices.to_numpy()]


@contextmanager
def _unpacked(path: Path) -> Iterator[Any]:
    """The file's bytes; Python opens it, because its errors name the file and say why."""
    import pyarrow

    packed = path.suffix.lower() in PACKED
    codec = pyarrow.Codec.detect(path.name.lower()).name if packed else None
    with open(path, "rb") as file, pyarrow.input_stream(file, compression=codec) as stream:
        yield stream


@contextmanager
def _csv_errors(path: Path, ragged: list[Any]) -> Iterator[None]:
    """What is wrong with a CSV file, in words for the person who made it."""
    import pyarrow

    try:
        yield
    except UnicodeDecodeError as error:
        raise TableError(f"{path} is not UTF-8 text ({error.reason}); save it as such") from None
    except csv.Error as error:
        raise TableError(f"{path} is not a readable CSV file: {error}") from None
    except pyarrow.ArrowInvalid as error:
        if ragged:
            raise TableError(_ragged(path, ragged[0])) from None
        if "UTF8" in str(error):
            raise TableError(f"{path} is not UTF-8 text; save it as such") from None
        if "straddling" in str(error):
            raise TableError(
                f"{path} has a row of more than {BLOCK_BYTES:,} bytes; is a quote not closed?"
            ) from None
        raise TableError(f"{path} is not a readable CSV file: {error}") from None
    except OSError as error:
        # Those of the file itself have a number; those of what is packed in it have none.
        if error.errno is not None:
            raise
        raise TableError(
            f"{path} cannot be unpacked as its ending says: {error}; data is read from {READABLE}"
        ) from None


def _ragged(path: Path, row: Any) -> str:
    """Where the row is: pyarrow does not tell in a stream, so lines are counted now."""
    n, line = row.actual_columns, ""
    _, delimiter, _ = _header(path)
    with _unpacked(path) as stream, suppress(csv.Error, UnicodeDecodeError):
        reader = csv.reader(io.TextIOWrapper(stream, "utf-8-sig", newline=""), delimiter=delimiter)
        if any(len(cells) == n for cells in reader):
            line = f" in line {reader.line_num:,}"
    return (
        f"{path}: a row{line} has {n} value{'s' if n != 1 else ''}, but there are "
        f"{row.expected_columns} columns; it begins with {row.text!r:.60}"
    )


def _check_different(path: Path, names: Sequence[str]) -> None:
    twice = sorted(name for name, n in Counter(names).items() if n > 1)
    if twice:
        raise TableError(f"{path} has several columns named {', '.join(map(repr, twice))}; rename")


# -- Parquet ----------------------------------------------------------------------------------


def _parquet_batches(path: Path) -> Iterator[dict[str, NDArray]]:
    import pyarrow
    from pyarrow import parquet

    with open(path, "rb") as file:
        try:
            content = parquet.ParquetFile(file)
            _check_different(path, content.schema_arrow.names)
            for batch in content.iter_batches(ROWS_AT_ONCE):
                if batch.num_rows and batch.num_columns:
                    yield {
                        str(name): _of_parquet(cells)
                        for name, cells in zip(batch.schema.names, batch.columns, strict=True)
                    }
        except (pyarrow.ArrowException, OSError) as error:
            raise TableError(f"{path} is not a readable Parquet file: {error}") from None


def _of_parquet(cells: pyarrow.Array) -> NDArray:
    import pyarrow
    from pyarrow import types

    kind = cells.type
    numbers = (types.is_boolean, types.is_integer, types.is_floating, types.is_null)
    if any(is_kind(kind) for is_kind in numbers):
        return cells.cast(pyarrow.float64(), safe=False).to_numpy(zero_copy_only=False)
    return np.array(["" if value is None else str(value) for value in cells.to_pylist()], object)


# -- NPZ --------------------------------------------------------------------------------------


def _npz_batches(path: Path) -> Iterator[dict[str, NDArray]]:
    columns = _read_npz(path)
    if columns and len(next(iter(columns.values()))):
        yield columns


def _read_npz(path: Path) -> dict[str, NDArray]:
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
    return columns
