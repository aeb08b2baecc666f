"""CSV files in batches: pyarrow splits, unquotes and converts; columns become numbers or words."""

from __future__ import annotations

import csv
import io
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from maxplus.tables.bytes_of import Source, Utf8
from maxplus.tables.csv_dialect import Dialect, sniff
from maxplus.tables.table import Cells, TableError, row_in_words
from maxplus.tables.words import ALWAYS_MISSING, MISSING, Words, in_quotes

# pyarrow is imported where it is used, so that importing this stays quick.
if TYPE_CHECKING:
    import pyarrow

# The names of missing values as they are mostly written: others are found more slowly.
SPELLINGS = sorted(
    {s for word in ALWAYS_MISSING for s in (word, word.upper(), word.title())} | {"NaN"}
)
READABLE = (
    ".csv, .tsv and .txt (also packed: .csv.gz, .bz2, .zst, .lz4), .xlsx, .parquet, .npz and .npy"
)
# How much of a CSV file is text in memory at a time, and so the longest row: for so many columns,
# and more for more of them, up to a limit.
BLOCK_BYTES, BLOCK_COLUMNS, MOST_BLOCKS = 1 << 20, 64, 64
# Longer cells are taken for a quote that was never closed.
LONGEST_CELL = 1 << 17

Batch = dict[str, Cells]
# Columns that hold words (True), that must hold numbers (False), and that are as they look (None).
ReadAs = Mapping[str, bool | None]


class OtherKindsError(ValueError):
    """A column that was taken for numbers holds something else."""


def typed_batches(
    source: Source, read_as: ReadAs, only: Sequence[str] | None = None
) -> Iterator[Batch]:
    """The columns of one block after the other, all or ``only`` some, converted while reading.

    ``read_as`` tells which are words; others are as they are in the first block.

    Raises
    ------
    OtherKindsError
        Where a cell is no number, nor plainly missing: `text_batches` looks closer.
    """
    import pyarrow

    with _csv_errors(source) as ragged, source.text() as text:
        dialect = source.dialect or sniff(text, source.name)
        source.commas = dialect.commas
        wanted = _wanted(dialect, only)
        kinds = {name: is_words for name, is_words in read_as.items() if is_words is not None}
        if not set(wanted) <= set(kinds):
            kinds = _first_kinds(source, wanted) | kinds
        words = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
        types = {name: words if kinds[name] else pyarrow.float64() for name in wanted}
        if len({name in dialect.commas for name in wanted if not kinds[name]}) > 1:
            raise OtherKindsError("pyarrow takes decimal commas in all columns or in none")
        for batch in _read(text, dialect, types, ragged):
            yield {
                name: _words(source.name, name, cells) if kinds[name] else _floats(cells)
                for name, cells in zip(wanted, batch.columns, strict=True)
            }


def text_batches(
    source: Source,
    words: set[str],
    only: Sequence[str] | None = None,
    numbers: Container[str] = (),
) -> Iterator[Batch]:
    """The same, with all cells read as text first.

    Columns in ``words``, and from their first word on others too, which are added there,
    are words: a type that pyarrow guessed could not change later. In ``numbers``, a word is an
    error that names its line.
    """
    import pyarrow

    with _csv_errors(source) as ragged, source.text() as text:
        dialect = source.dialect or sniff(text, source.name)
        source.commas = dialect.commas
        wanted = _wanted(dialect, only)
        types = dict.fromkeys(wanted, pyarrow.string())
        n_rows = 0
        for batch in _read(text, dialect, types, ragged):
            columns: Batch = {}
            for name, cells in zip(wanted, batch.columns, strict=True):
                comma = name in dialect.commas
                found = _numbers_or_words(source.name, name, cells, words, comma)
                if name in numbers and isinstance(found, Words):
                    row = _first_word(cells, comma)
                    raise TableError(
                        f"{source.name}, {line_of(source, n_rows + row)}: {name!r} holds "
                        f"{in_quotes(found[row])}, where numbers are expected; correct it, or "
                        "leave it empty"
                    )
                columns[name] = found
            yield columns
            n_rows += batch.num_rows


def _wanted(dialect: Dialect, only: Sequence[str] | None) -> list[str]:
    """The columns to read; all of a file that has none of those asked for."""
    asked = set(dialect.names if only is None else only)
    # The caller reports the columns that are not there.
    return [name for name in dialect.names if name in asked] or dialect.names


def line_of(source: Source, row: int) -> str:
    """The line where a row of data begins, as editors count; lines are counted when needed."""
    if source.span is not None:
        return f"{row_in_words(row)} after byte {source.span.first:,}"
    rows = ((line, cells) for line, cells in _lines(source) if cells)
    # The names are a row as well.
    found = next(islice(rows, row + 1, None), None)
    return row_in_words(row) if found is None else f"line {found[0]:,}"


def _lines(source: Source) -> Iterator[tuple[int, list[str]]]:
    """All rows with the lines where they begin, as far as they can be read again."""
    if not source.again or source.span is not None:
        return
    with source.text() as text, suppress(csv.Error):
        delimiter = sniff(text, source.name).delimiter
        lines = io.TextIOWrapper(io.BufferedReader(text), "utf-8-sig", newline="")
        reader = csv.reader(lines, delimiter=delimiter)
        line = 1
        for cells in reader:
            yield line, cells
            line = reader.line_num + 1


def _read(
    text: Utf8, dialect: Dialect, types: dict[str, Any], ragged: list[Any]
) -> Iterator[pyarrow.RecordBatch]:
    from pyarrow import csv as arrow_csv

    def note(row: Any) -> str:
        ragged.append(row)
        return "error"

    decimal = "," if dialect.commas & set(types) else "."
    # By number, so that no name can be mistaken; the line of names is skipped as a row, which
    # may take several lines.
    ids = {name: str(k) for k, name in enumerate(dialect.names)}
    reader = arrow_csv.open_csv(
        text,
        arrow_csv.ReadOptions(
            column_names=list(ids.values()), skip_rows=dialect.blank_lines,
            skip_rows_after_names=1,
            block_size=BLOCK_BYTES * min(1 + len(ids) // BLOCK_COLUMNS, MOST_BLOCKS),
        ),
        arrow_csv.ParseOptions(
            delimiter=dialect.delimiter, newlines_in_values=True, invalid_row_handler=note
        ),
        arrow_csv.ConvertOptions(
            column_types={ids[name]: kind for name, kind in types.items()},
            null_values=SPELLINGS, strings_can_be_null=True,
            include_columns=[ids[name] for name in types], decimal_point=decimal,
        ),
    )  # fmt: skip
    for batch in reader:
        if batch.num_rows:
            yield batch


def _first_kinds(source: Source, wanted: Sequence[str]) -> dict[str, bool]:
    """Which columns hold words in the first block, looked at as text."""
    if not source.again:
        raise OtherKindsError
    words: set[str] = set()
    next(text_batches(source, words, wanted), None)
    return {name: name in words for name in wanted}


def _floats(cells: pyarrow.Array) -> NDArray:
    return cells.to_numpy(zero_copy_only=False)


def _numbers_or_words(
    file: str, name: str, cells: pyarrow.Array, words: set[str], comma: bool
) -> Cells:
    """One column of a batch."""
    if name not in words:
        numbers = _numbers(cells, comma)
        if numbers is None:
            numbers = _numbers(_trimmed(cells), comma)
        if numbers is not None:
            return numbers
        words.add(name)
    return _words(file, name, cells.dictionary_encode())


def _first_word(cells: pyarrow.Array, comma: bool) -> int:
    """The first row of a column that holds no number."""
    different = _trimmed(cells).dictionary_encode()
    bad = [
        k for k in range(len(different.dictionary))
        if _numbers(different.dictionary.slice(k, 1), comma) is None
    ]  # fmt: skip
    return int(np.isin(different.indices.fill_null(-1).to_numpy(), bad).argmax())


def _trimmed(cells: pyarrow.Array) -> pyarrow.Array:
    """Cells without the spaces around them, null where a value is missing."""
    import pyarrow
    from pyarrow import compute

    cells = compute.utf8_trim_whitespace(cells)
    missing = compute.is_in(compute.utf8_lower(cells), pyarrow.array(sorted(MISSING)))
    return compute.if_else(missing, pyarrow.scalar(None, pyarrow.string()), cells)


def _numbers(cells: pyarrow.Array, comma: bool) -> NDArray | None:
    """Cells as float64, NaN where one is missing; None if one is a word."""
    import pyarrow
    from pyarrow import compute

    if comma:
        if compute.any(compute.match_substring(cells, ".")).as_py():
            return None
        cells = compute.replace_substring(cells, ",", ".")
    try:
        return _floats(cells.cast(pyarrow.float64()))
    except pyarrow.ArrowInvalid:
        return None


def _words(file: str, name: str, cells: pyarrow.DictionaryArray) -> Words:
    values = cells.dictionary.to_pylist()
    longest = max(map(len, values), default=0)
    if longest > LONGEST_CELL:
        raise TableError(
            f"{file}: {name!r} has a cell of {longest:,} characters, and at most "
            f"{LONGEST_CELL:,} are read; is a quote not closed?"
        )
    codes = cells.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return Words.tidy(codes.astype(np.int32, copy=False), values)


@contextmanager
def _csv_errors(source: Source) -> Iterator[list[Any]]:
    """What is wrong with a CSV file, in words for the person who made it.

    Gives a list for ragged rows to be noted in.
    """
    import pyarrow

    name = source.name
    ragged: list[Any] = []
    try:
        yield ragged
    except csv.Error as error:
        raise TableError(f"{name} is not a readable CSV file: {error}") from None
    except pyarrow.ArrowInvalid as error:
        if ragged:
            raise TableError(_ragged(source, ragged[0])) from None
        if "conversion error" in str(error):
            raise OtherKindsError(str(error)) from None
        if "straddling" in str(error):
            raise TableError(
                f"{name} has a row of more than {BLOCK_BYTES:,} bytes; is a quote not closed?"
            ) from None
        raise TableError(f"{name} is not a readable CSV file: {error}") from None
    except OSError as error:
        # Those of the file itself have a number; those of what is packed in it have none.
        if error.errno is not None:
            raise
        raise TableError(
            f"{name} cannot be unpacked as its ending says: {error}; data is read from {READABLE}"
        ) from None


def _ragged(source: Source, row: Any) -> str:
    """Where the row is: pyarrow does not tell in a stream, so lines are counted now."""
    n = row.actual_columns
    first = next((line for line, cells in _lines(source) if len(cells) == n), None)
    line = "" if first is None else f" in line {first:,}"
    remedy = (
        "is a quote not closed?"
        if row.text.count('"') % 2
        else "correct it, or put quotes around a value that holds a separator"
    )
    return (
        f"{source.name}: a row{line} has {n} value{'s' if n != 1 else ''}, but there are "
        f"{row.expected_columns} columns: {in_quotes(row.text)}; {remedy}"
    )
