"""Reader for CSV and other delimited text, based on pyarrow.

The reader also detects the dialect and decimal commas, reads text that is not UTF-8, validates the
header, recognises missing-value strings, and reports errors with line numbers.
"""

from __future__ import annotations

import csv
import io
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from numpy.typing import NDArray

from maxplus.tables.table import (
    ALWAYS_MISSING,
    MISSING,
    Categorical,
    Cells,
    TableError,
    check_unique,
    quoted,
    row_text,
)

# pyarrow is imported lazily, because its import is slow.
if TYPE_CHECKING:
    import pyarrow

STDIN = "-"
# Suffixes of compressed CSV files, as in ".csv.gz".
COMPRESSED = (".gz", ".bz2", ".zst", ".lz4")
READABLE = (
    ".csv, .tsv and .txt (also compressed: .csv.gz, .bz2, .zst, .lz4), .xlsx, .parquet, .npz and "
    ".npy"
)
DELIMITERS = ",;\t|"
# Name of an unnamed first column in pandas, usually the index.
UNNAMED = "Unnamed: 0"
# Missing-value strings that pyarrow recognises. `_trimmed` recognises other spellings.
NULL_VALUES = sorted(
    {s for text in ALWAYS_MISSING for s in (text, text.upper(), text.title())} | {"NaN"}
)
# Maximum numbers of bytes and rows that are read to detect the dialect. The header must fit into
# HEAD_BYTES.
HEAD_BYTES, HEAD_ROWS = 1 << 22, 1000
# Block size of the pyarrow reader: BLOCK_BYTES per BLOCK_COLUMNS columns, at most
# MAX_BLOCKS * BLOCK_BYTES. A row must fit into a block.
BLOCK_BYTES, BLOCK_COLUMNS, MAX_BLOCKS = 1 << 20, 64, 64
# Maximum length of a cell. Longer cells are usually due to an unclosed quote.
MAX_CELL_LENGTH = 1 << 17
_NUMBER = re.compile(r"\s*[-+]?(\d+([.,]\d*)?|[.,]\d+)([eE][-+]?\d+)?\s*")
# Translation of the surrogates of bytes that are not UTF-8 ("surrogateescape") to the characters of
# these bytes in cp1252 or, if undefined, in Latin-1.
_LATIN = {
    0xDC00 + byte: bytes([byte]).decode("cp1252", "ignore") or chr(byte)
    for byte in range(0x80, 0x100)
}
_UTF16_BOMS = ("\udcff\udcfe", "\udcfe\udcff")


@dataclass
class Source:
    """File or standard input. The latter can be read only once unless its bytes are ``kept``."""

    path: Path | None
    kept: bytes | None = None
    # True if bytes that are not UTF-8 were decoded as cp1252 or Latin-1.
    is_latin1: bool = field(default=False, init=False)
    # Names of all columns, and columns with decimal commas.
    names: tuple[str, ...] = field(default=(), init=False)
    commas: frozenset[str] = field(default=frozenset(), init=False)

    @classmethod
    def from_path(cls, path: str | Path, *, once: bool = False) -> Source:
        """Return the source of a path; "-" is standard input.

        Standard input is kept in memory unless ``once`` is True.
        """
        if str(path) != STDIN:
            return cls(Path(path))
        return cls(None, None if once else sys.stdin.buffer.read())

    @property
    def name(self) -> str:
        """Name for messages."""
        return "standard input" if self.path is None else str(self.path)

    @property
    def notes(self) -> tuple[str, ...]:
        """Assumptions that were made while reading."""
        note = f"{self.name} is not valid UTF-8: the invalid bytes are read as cp1252 (Latin-1)"
        return (note,) if self.is_latin1 else ()

    @contextmanager
    def open(self) -> Iterator[io.BufferedReader]:
        """Open the source as a binary stream of decompressed UTF-8 text."""
        import pyarrow

        with ExitStack() as stack:
            stream: BinaryIO | Any
            if self.path is None:
                stream = sys.stdin.buffer if self.kept is None else io.BytesIO(self.kept)
            else:
                # The error messages of Python's open contain the file name and the reason.
                stream = stack.enter_context(open(self.path, "rb"))
                if self.path.suffix.lower() in COMPRESSED:
                    codec = pyarrow.Codec.detect(self.path.name.lower()).name
                    stream = stack.enter_context(pyarrow.input_stream(stream, compression=codec))
            text = io.TextIOWrapper(stream, "utf-8-sig", "surrogateescape", newline="")
            # If it is not detached, the wrapper closes standard input.
            stack.callback(text.detach)
            yield io.BufferedReader(_Utf8(text, self), HEAD_BYTES)

    def lines(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the cells of each row, and the number of its first line.

        Yield nothing if the source cannot be read again.
        """
        if self.path is None and self.kept is None:
            return
        with self.open() as text, suppress(csv.Error):
            delimiter = sniff(text, self.name).delimiter
            reader = csv.reader(io.TextIOWrapper(text, "utf-8", newline=""), delimiter=delimiter)
            line = 1
            for cells in reader:
                yield line, cells
                line = reader.line_num + 1

    def line_of(self, row: int) -> str:
        """Return the location of a row for messages.

        The file is read again up to that row.
        """
        lines = (line for line, cells in self.lines() if cells)
        # The first line is the header.
        line = next(islice(lines, row + 1, None), None)
        return row_text(row) if line is None else f"line {line:,}"


class _Utf8(io.RawIOBase):
    """Stream of UTF-8 text; bytes that are not UTF-8 are decoded as cp1252 or Latin-1."""

    def __init__(self, text: io.TextIOWrapper, source: Source) -> None:
        self._text, self._source, self._rest = text, source, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        size = len(buffer)
        if not self._rest:
            self._rest = self._encode(self._text.read(size))
        chunk, self._rest = self._rest[:size], self._rest[size:]
        buffer[: len(chunk)] = chunk
        return len(chunk)

    def _encode(self, text: str) -> bytes:
        name = self._source.name
        if "\0" in text:
            if text.startswith(_UTF16_BOMS):
                raise TableError(f"{name} is UTF-16 text; save it as UTF-8")
            raise TableError(
                f"{name} contains null bytes, so it is not a text file; save it as CSV"
            )
        try:
            return text.encode()
        except UnicodeEncodeError:
            self._source.is_latin1 = True
            return text.translate(_LATIN).encode()


class Dialect(NamedTuple):
    """Format of a CSV file; ``commas`` are the columns with decimal commas."""

    names: list[str]
    delimiter: str
    commas: frozenset[str]
    blank_lines_before_header: int


def sniff(text: io.BufferedReader, name: str) -> Dialect:
    """Detect the dialect from the beginning of a stream, without consuming it."""
    head = text.peek(HEAD_BYTES)
    if len(head) >= HEAD_BYTES and not re.search(rb"[^\r\n][\r\n]", head):
        raise TableError(
            f"{name} has no header in its first {HEAD_BYTES:,} bytes; it must be a table with the "
            "column names in the first line"
        )
    lines = io.StringIO(head.decode("utf-8", "replace"), newline="")
    blank_lines, first_line = next(
        ((k, line) for k, line in enumerate(lines) if line.strip()), (0, "")
    )
    delimiter = max(DELIMITERS, key=first_line.count)
    # A quoted name may span several lines.
    reader = csv.reader(chain([first_line], lines), delimiter=delimiter)
    names = [cell.strip() for cell in next(reader, [])]
    _check_header(name, names)
    if names[0] == "" and UNNAMED not in names:
        names[0] = UNNAMED
    check_names(name, names)
    commas = frozenset() if delimiter == "," else _decimal_comma_columns(names, reader)
    return Dialect(names, delimiter, commas, blank_lines)


def check_names(name: str, names: Sequence[str]) -> None:
    """Raise TableError if a column has no name, or if two have the same name."""
    if "" in names:
        raise TableError(
            f"{name}: column {names.index('') + 1} has no name; name it, or remove the column"
        )
    check_unique(name, names)


def _check_header(name: str, names: list[str]) -> None:
    if not names:
        raise TableError(f"{name} is empty; it needs a header, and a row for each sample")
    if len(names) < 2:
        raise TableError(
            f"{name} has only one column ({names[0]}); columns must be separated by commas, "
            "semicolons, tabs or vertical bars"
        )
    numbers = [cell for cell in names if _NUMBER.fullmatch(cell)]
    if len(numbers) == len(names):
        raise TableError(
            f"{name} has no header: its first line contains numbers only; add a line with the "
            "column names before it"
        )
    if 2 * len(numbers) >= len(names) and not _are_names(numbers):
        raise TableError(
            f"{name} seems to have no header: its first line ({','.join(names)[:40]}…) looks like "
            "data; add a line with the column names before it"
        )


def _are_names(numbers: list[str]) -> bool:
    """Return whether numbers are plausible column names, such as 0, 1, 2, … or years."""
    if not all(cell.isdecimal() for cell in numbers):
        return False
    steps = {int(b) - int(a) for a, b in pairwise(numbers)}
    return steps == {1} or (len(numbers) > 2 and len(steps) == 1 and steps != {0})


def _decimal_comma_columns(names: list[str], reader: Any) -> frozenset[str]:
    """Return the columns with decimal commas.

    If there are some, and no column has decimal points, return all columns, because other columns
    may have decimal commas in later rows only.
    """
    columns: dict[int, list[str]] = {}
    try:
        for cells in islice(reader, HEAD_ROWS):
            for k, cell in enumerate(cells[: len(names)]):
                columns.setdefault(k, []).append(cell.strip())
    except csv.Error:
        return frozenset()
    commas: set[str] = set()
    has_points = False
    for k, cells in columns.items():
        numbers = [cell for cell in cells if _NUMBER.fullmatch(cell)]
        if 2 * len(numbers) > len([cell for cell in cells if cell]):
            n_commas = sum("," in cell for cell in numbers)
            n_points = sum("." in cell for cell in numbers)
            has_points |= n_points > n_commas
            if n_commas > n_points:
                commas.add(names[k])
    return frozenset(names if commas and not has_points else commas)


def csv_batches(
    source: Source, text_columns: set[str], only: Sequence[str] | None = None
) -> Iterator[dict[str, Cells]]:
    """Yield the columns of each block of rows.

    ``text_columns`` are read as text, and columns in which a cell is not a number are added to
    them. ``only`` lists the columns to read; if none of them exists, all columns are read.
    """
    with _csv_errors(source) as ragged, source.open() as text:
        dialect = sniff(text, source.name)
        source.names, source.commas = tuple(dialect.names), dialect.commas
        requested = set(dialect.names if only is None else only)
        names = [name for name in dialect.names if name in requested] or dialect.names
        for batch in _record_batches(text, dialect, names, ragged):
            columns: dict[str, Cells] = {}
            for name, cells in zip(names, batch.columns, strict=True):
                numbers = None
                if name not in text_columns:
                    decimal_comma = name in dialect.commas
                    numbers = _numbers(cells, decimal_comma)
                    if numbers is None:
                        numbers = _numbers(_trimmed(cells), decimal_comma)
                if numbers is None:
                    text_columns.add(name)
                    columns[name] = _text(source.name, name, cells.dictionary_encode())
                else:
                    columns[name] = numbers
            yield columns


def _record_batches(
    text: io.BufferedReader, dialect: Dialect, names: Sequence[str], ragged: list[Any]
) -> Iterator[pyarrow.RecordBatch]:
    """Return an iterator of blocks of text columns; rows with too many or few cells are recorded.

    Such a row is appended to ``ragged``, and pyarrow raises an error.
    """
    import pyarrow
    from pyarrow import csv as arrow_csv

    def record_row(row: Any) -> str:
        ragged.append(row)
        return "error"

    # The header may span several lines, so it is skipped as a row, and columns are named by index.
    ids = {name: str(k) for k, name in enumerate(dialect.names)}
    reader = arrow_csv.open_csv(
        text,
        arrow_csv.ReadOptions(
            column_names=list(ids.values()),
            skip_rows=dialect.blank_lines_before_header,
            skip_rows_after_names=1,
            block_size=BLOCK_BYTES * min(1 + len(ids) // BLOCK_COLUMNS, MAX_BLOCKS),
        ),
        arrow_csv.ParseOptions(
            delimiter=dialect.delimiter, newlines_in_values=True, invalid_row_handler=record_row
        ),
        arrow_csv.ConvertOptions(
            column_types=dict.fromkeys(ids.values(), pyarrow.string()),
            null_values=NULL_VALUES,
            strings_can_be_null=True,
            include_columns=[ids[name] for name in names],
        ),
    )
    return (batch for batch in reader if batch.num_rows)


def _trimmed(cells: pyarrow.Array) -> pyarrow.Array:
    """Strip cells and replace missing-value strings by null."""
    import pyarrow
    from pyarrow import compute

    cells = compute.utf8_trim_whitespace(cells)
    missing = compute.is_in(compute.utf8_lower(cells), pyarrow.array(sorted(MISSING)))
    return compute.if_else(missing, pyarrow.scalar(None, pyarrow.string()), cells)


def _numbers(cells: pyarrow.Array, decimal_comma: bool) -> NDArray | None:
    """Convert cells to floats, NaN if missing; return None if a cell is not a number."""
    import pyarrow
    from pyarrow import compute

    if decimal_comma:
        if compute.any(compute.match_substring(cells, ".")).as_py():
            return None
        cells = compute.replace_substring(cells, ",", ".")
    try:
        return cells.cast(pyarrow.float64()).to_numpy(zero_copy_only=False)
    except pyarrow.ArrowInvalid:
        return None


def _text(file: str, name: str, cells: pyarrow.DictionaryArray) -> Categorical:
    values = cells.dictionary.to_pylist()
    longest = max(map(len, values), default=0)
    if longest > MAX_CELL_LENGTH:
        raise TableError(
            f"{file}: {name!r} has a cell of {longest:,} characters, more than the maximum of "
            f"{MAX_CELL_LENGTH:,}; look for an unclosed quote"
        )
    codes = cells.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return Categorical.from_codes(codes, values)


@contextmanager
def _csv_errors(source: Source) -> Iterator[list[Any]]:
    """Convert errors of pyarrow and csv to TableError.

    The caller appends ragged rows to the list that is yielded.
    """
    import pyarrow

    name = source.name
    ragged: list[Any] = []
    try:
        yield ragged
    except (csv.Error, pyarrow.ArrowInvalid) as error:
        message = f"{name} is not a readable CSV file: {error}"
        if ragged:
            message = _ragged_row_message(source, ragged[0])
        elif "straddling" in str(error):
            message = (
                f"{name} has a row of more than {BLOCK_BYTES:,} bytes; look for an unclosed quote"
            )
        raise TableError(message) from None
    except OSError as error:
        # Errors of the file system have an errno, unlike errors of decompression.
        if error.errno is not None:
            raise
        raise TableError(
            f"{name} cannot be decompressed as its suffix indicates: {error}; supported files are "
            f"{READABLE}"
        ) from None


def _ragged_row_message(source: Source, row: Any) -> str:
    """Return the error message for a row with too many or too few values."""
    n = row.actual_columns
    # pyarrow does not provide line numbers for streams, so the file is read again.
    first = next((line for line, cells in source.lines() if len(cells) == n), None)
    line = "" if first is None else f" on line {first:,}"
    remedy = (
        "look for an unclosed quote"
        if row.text.count('"') % 2
        else "correct it, or put quotes around a value that contains a separator"
    )
    return (
        f"{source.name}: a row{line} has {n} value{'s' if n != 1 else ''}, but there are "
        f"{row.expected_columns} columns: {quoted(row.text)}; {remedy}"
    )
