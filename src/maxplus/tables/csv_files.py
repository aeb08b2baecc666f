"""CSV files in batches: pyarrow splits, unquotes and unpacks; columns become numbers or words."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from maxplus.tables.table import TableError, check_different

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
READABLE = ".csv, .tsv and .txt (also packed: .csv.gz, .bz2, .zst, .lz4), .parquet and .npz"
# How much of a CSV file is text in memory at a time, and so the longest row.
BLOCK_BYTES = 1 << 24
# Longer cells are taken for a quote that was never closed.
LONGEST_CELL = 1 << 17


def csv_batches(
    path: Path, words: set[str], only: Sequence[str] | None
) -> Iterator[dict[str, NDArray]]:
    """The columns of one block after the other, all or ``only`` some.

    Those in ``words``, and from their first word on others too, which are added there, are
    strings. All cells are read as text: a type that pyarrow guessed could not change later.
    """
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
    check_different(path, names)
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
