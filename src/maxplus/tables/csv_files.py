"""Reader for CSV and other delimited text, based on pyarrow.

This module adds what pyarrow lacks: detection of the dialect, text that is not UTF-8, decimal
commas, validation of the header, spellings of missing values, and error messages with line numbers.
"""

from __future__ import annotations

import csv
import io
import re
import sys
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxplus.tables.categorical import ALWAYS_MISSING, MISSING, Categorical, quoted
from maxplus.tables.table import Cells, TableError, check_different, row_text

# pyarrow is imported where it is used, so that importing this module stays fast.
if TYPE_CHECKING:
    import pyarrow

STDIN = "-"
# Suffixes of compressed files, which follow that of a CSV file.
COMPRESSED = (".gz", ".bz2", ".zst", ".lz4")
READABLE = (
    ".csv, .tsv and .txt (also packed: .csv.gz, .bz2, .zst, .lz4), .xlsx, .parquet, .npz and .npy"
)
DELIMITERS = ",;\t|"
# The name that pandas gives to an unnamed first column, which is usually an index.
UNNAMED = "Unnamed: 0"
# Missing-value strings passed to pyarrow; other spellings are recognised in a slower pass.
SPELLINGS = sorted(
    {s for word in ALWAYS_MISSING for s in (word, word.upper(), word.title())} | {"NaN"}
)
# Number of bytes of the beginning from which the dialect is detected.
BYTES_AT_ONCE = 1 << 20
# A row must fit into a block of text, whose size grows by BLOCK_BYTES for every BLOCK_COLUMNS
# columns, up to MAX_BLOCKS * BLOCK_BYTES.
BLOCK_BYTES, BLOCK_COLUMNS, MAX_BLOCKS = 1 << 20, 64, 64
# Maximum size of the header in bytes.
LONGEST_NAMES = 1 << 25
# Maximum length of a cell; longer ones are usually due to an unclosed quote.
LONGEST_CELL = 1 << 17
# Number of rows used to detect decimal commas.
ROWS_LOOKED_AT = 1000
_NUMBER = re.compile(r"\s*[-+]?(\d+([.,]\d*)?|[.,]\d+)([eE][-+]?\d+)?\s*")
# Bytes that are not UTF-8, as decoded with "surrogateescape", and their characters in cp1252, or
# in Latin-1 if that has none.
_LATIN = {
    0xDC00 + byte: bytes([byte]).decode("cp1252", "ignore") or chr(byte)
    for byte in range(0x80, 0x100)
}
_UTF16_MARKS = ("\udcff\udcfe", "\udcfe\udcff")

Batch = dict[str, Cells]


# -- sources ---------------------------------------------------------------------------------------


@dataclass
class Source:
    """A file or standard input; the latter can be read only once unless its bytes are kept."""

    path: Path | None
    kept: bytes | None = None
    # Set if some bytes were not UTF-8 and were decoded as Latin-1.
    latin: bool = field(default=False, init=False)
    # Columns whose numbers are written with decimal commas; set when the dialect is detected.
    commas: frozenset[str] = field(default=frozenset(), init=False)

    @classmethod
    def of(cls, data: str | Path, *, once: bool = False) -> Source:
        """Return the source of a path; "-" is standard input, kept in memory unless ``once``."""
        if str(data) != STDIN:
            return cls(Path(data))
        return cls(None, None if once else sys.stdin.buffer.read())

    @property
    def name(self) -> str:
        """Name for messages."""
        return "standard input" if self.path is None else str(self.path)

    @property
    def notes(self) -> tuple[str, ...]:
        """Assumptions that were made while reading."""
        note = f"{self.name} is not all UTF-8 text: it is read as Latin-1"
        return (note,) if self.latin else ()

    @property
    def again(self) -> bool:
        """Whether the source can be read more than once."""
        return self.path is not None or self.kept is not None

    @contextmanager
    def text(self) -> Iterator[Utf8]:
        """Open the text as UTF-8.

        Files are opened with Python's ``open``, whose errors give the file and the reason.
        """
        import pyarrow

        if self.path is None:
            yield Utf8(sys.stdin.buffer if self.kept is None else io.BytesIO(self.kept), self)
            return
        is_compressed = self.path.suffix.lower() in COMPRESSED
        codec = pyarrow.Codec.detect(self.path.name.lower()).name if is_compressed else None
        with open(self.path, "rb") as file:
            if codec is None:
                yield Utf8(file, self)
                return
            with pyarrow.input_stream(file, compression=codec) as stream:
                yield Utf8(stream, self)


class Utf8(io.RawIOBase):
    """A stream of UTF-8; bytes that are not UTF-8 are decoded as cp1252 or Latin-1."""

    def __init__(self, stream: BinaryIO | Any, source: Source) -> None:
        self._text = io.TextIOWrapper(stream, "utf-8-sig", "surrogateescape", newline="")
        self._source, self._buffer, self._has_started = source, b"", False

    def close(self) -> None:
        """Detach from the stream, which its owner closes."""
        if not self.closed:
            self._text.detach()
        super().close()

    def readable(self) -> bool:
        """Return True."""
        return True

    def unread(self, chunk: bytes) -> None:
        """Push bytes back, to be read again."""
        self._buffer = chunk + self._buffer

    def read(self, size: int = -1) -> bytes:
        """Return at most ``size`` bytes, or all remaining ones if negative; b"" at the end."""
        if size < 0:
            return b"".join(iter(lambda: self.read(BYTES_AT_ONCE), b""))
        if not self._buffer:
            self._buffer = self._next(max(size, 1))
        chunk, self._buffer = self._buffer[:size], self._buffer[size:]
        return chunk

    def readinto(self, buffer: Any) -> int:
        """Read into a buffer."""
        chunk = self.read(len(buffer))
        buffer[: len(chunk)] = chunk
        return len(chunk)

    def _next(self, size: int) -> bytes:
        text = self._text.read(size)
        if not self._has_started and text.startswith(_UTF16_MARKS):
            raise TableError(f"{self._source.name} is UTF-16 text; save it as UTF-8")
        self._has_started = True
        if "\0" in text:
            raise TableError(f"{self._source.name} holds bytes of zero: it is no UTF-8 text")
        try:
            return text.encode()
        except UnicodeEncodeError:
            self._source.latin = True
            return text.translate(_LATIN).encode()


# -- dialect ---------------------------------------------------------------------------------------


class Dialect(NamedTuple):
    """The format of a CSV file.

    Attributes
    ----------
    names : names of the columns
    delimiter : column separator
    commas : columns whose numbers are written with decimal commas
    blank_lines : number of blank lines before the header
    """

    names: list[str]
    delimiter: str
    commas: frozenset[str]
    blank_lines: int


def sniff(text: Utf8, name: str) -> Dialect:
    """Detect the dialect from the beginning of a stream, without consuming it.

    Raises
    ------
    TableError
        If there are no columns, or no header.
    """
    head = more = text.read(BYTES_AT_ONCE)
    # The header of a wide table may be long.
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
    # A quoted name may span several lines.
    reader = csv.reader(chain([first_line], lines), delimiter=delimiter)
    names = [cell.strip() for cell in next(reader, [])]
    _check_names(name, names)
    if names[0] == "" and UNNAMED not in names:
        names[0] = UNNAMED
    if "" in names:
        raise TableError(f"{name}: column {names.index('') + 1} has no name; give it one")
    check_different(name, names)
    commas = frozenset() if delimiter == "," else _decimal_comma_columns(names, reader)
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
    """Return whether numbers are plausible column names, such as 0, 1, 2, … or years."""
    if not all(cell.isdecimal() for cell in numbers):
        return False
    steps = {int(b) - int(a) for a, b in pairwise(numbers)}
    return steps == {1} or (len(numbers) > 2 and len(steps) == 1 and steps != {0})


def _decimal_comma_columns(names: list[str], reader: Any) -> frozenset[str]:
    """Return the columns with decimal commas; all columns if no number has a decimal point."""
    columns: dict[int, list[str]] = {}
    try:
        for cells in islice(reader, ROWS_LOOKED_AT):
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


# -- reading ---------------------------------------------------------------------------------------


def csv_batches(
    source: Source, texts: set[str], only: Sequence[str] | None = None, numbers: Container[str] = ()
) -> Iterator[Batch]:
    """Yield the columns of each block: all columns, or those in ``only``.

    pyarrow reads all cells as text, which is as fast as its conversion to numbers. Columns in
    ``texts`` stay text. Another column becomes text at the first cell that is not a number, and is
    added to ``texts``; if it is in ``numbers``, TableError is raised.
    """
    with _csv_errors(source) as ragged, source.text() as text:
        dialect = sniff(text, source.name)
        source.commas = dialect.commas
        wanted = _columns_to_read(dialect, only)
        n_rows = 0
        for batch in _read(text, dialect, wanted, ragged):
            columns: Batch = {}
            for name, cells in zip(wanted, batch.columns, strict=True):
                comma = name in dialect.commas
                found = _numbers_or_text(source.name, name, cells, texts, comma)
                if name in numbers and isinstance(found, Categorical):
                    row = _first_text(cells, comma)
                    raise TableError(
                        f"{source.name}, {line_of(source, n_rows + row)}: {name!r} holds "
                        f"{quoted(found[row])}, where numbers are expected; correct it, or "
                        "leave it empty"
                    )
                columns[name] = found
            yield columns
            n_rows += batch.num_rows


def _columns_to_read(dialect: Dialect, only: Sequence[str] | None) -> list[str]:
    """Return the columns to read; all columns if the file has none of the requested ones."""
    requested = set(dialect.names if only is None else only)
    # The caller reports missing columns.
    return [name for name in dialect.names if name in requested] or dialect.names


def line_of(source: Source, row: int) -> str:
    """Return the line number, from 1, at which a data row starts; reads the file up to that row."""
    rows = ((line, cells) for line, cells in _lines(source) if cells)
    # + 1 for the header.
    found = next(islice(rows, row + 1, None), None)
    return row_text(row) if found is None else f"line {found[0]:,}"


def _lines(source: Source) -> Iterator[tuple[int, list[str]]]:
    """Yield the first line number and the cells of each row of a source that can be read again."""
    if not source.again:
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
    text: Utf8, dialect: Dialect, wanted: Sequence[str], ragged: list[Any]
) -> Iterator[pyarrow.RecordBatch]:
    import pyarrow
    from pyarrow import csv as arrow_csv

    def record_row(row: Any) -> str:
        ragged.append(row)
        return "error"

    # Columns are named by their indices, and the header, which may span several lines, is skipped
    # as a row.
    ids = {name: str(k) for k, name in enumerate(dialect.names)}
    reader = arrow_csv.open_csv(
        text,
        arrow_csv.ReadOptions(
            column_names=list(ids.values()),
            skip_rows=dialect.blank_lines,
            skip_rows_after_names=1,
            block_size=BLOCK_BYTES * min(1 + len(ids) // BLOCK_COLUMNS, MAX_BLOCKS),
        ),
        arrow_csv.ParseOptions(
            delimiter=dialect.delimiter, newlines_in_values=True, invalid_row_handler=record_row
        ),
        arrow_csv.ConvertOptions(
            column_types=dict.fromkeys(ids.values(), pyarrow.string()),
            null_values=SPELLINGS,
            strings_can_be_null=True,
            include_columns=[ids[name] for name in wanted],
        ),
    )
    for batch in reader:
        if batch.num_rows:
            yield batch


def _numbers_or_text(
    file: str, name: str, cells: pyarrow.Array, texts: set[str], comma: bool
) -> Cells:
    """Convert a column of a batch to numbers if possible, else to text."""
    if name not in texts:
        numbers = _numbers(cells, comma)
        if numbers is None:
            numbers = _numbers(_trimmed(cells), comma)
        if numbers is not None:
            return numbers
        texts.add(name)
    return _text(file, name, cells.dictionary_encode())


def _first_text(cells: pyarrow.Array, comma: bool) -> int:
    """Return the first row whose cell is not a number."""
    distinct = _trimmed(cells).dictionary_encode()
    bad = [
        k
        for k in range(len(distinct.dictionary))
        if _numbers(distinct.dictionary.slice(k, 1), comma) is None
    ]
    return int(np.isin(distinct.indices.fill_null(-1).to_numpy(), bad).argmax())


def _trimmed(cells: pyarrow.Array) -> pyarrow.Array:
    """Strip cells; missing values become null."""
    import pyarrow
    from pyarrow import compute

    cells = compute.utf8_trim_whitespace(cells)
    missing = compute.is_in(compute.utf8_lower(cells), pyarrow.array(sorted(MISSING)))
    return compute.if_else(missing, pyarrow.scalar(None, pyarrow.string()), cells)


def _numbers(cells: pyarrow.Array, comma: bool) -> NDArray | None:
    """Convert cells to float64, with NaN for missing values; None if a cell is not a number."""
    import pyarrow
    from pyarrow import compute

    if comma:
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
    if longest > LONGEST_CELL:
        raise TableError(
            f"{file}: {name!r} has a cell of {longest:,} characters, and at most "
            f"{LONGEST_CELL:,} are read; is a quote not closed?"
        )
    codes = cells.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return Categorical.tidy(codes.astype(np.int32, copy=False), values)


@contextmanager
def _csv_errors(source: Source) -> Iterator[list[Any]]:
    """Convert errors of pyarrow and csv to TableError.

    Yields a list to which the caller appends ragged rows.
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
            raise TableError(_ragged_row_message(source, ragged[0])) from None
        if "straddling" in str(error):
            raise TableError(
                f"{name} has a row of more than {BLOCK_BYTES:,} bytes; is a quote not closed?"
            ) from None
        raise TableError(f"{name} is not a readable CSV file: {error}") from None
    except OSError as error:
        # Errors of the file system have an errno; errors of decompression do not.
        if error.errno is not None:
            raise
        raise TableError(
            f"{name} cannot be unpacked as its ending says: {error}; data is read from {READABLE}"
        ) from None


def _ragged_row_message(source: Source, row: Any) -> str:
    """Return the error message for a row with too many or too few values.

    pyarrow does not provide line numbers for streams, so the file is read again.
    """
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
        f"{row.expected_columns} columns: {quoted(row.text)}; {remedy}"
    )
