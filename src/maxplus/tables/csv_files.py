"""Reader for CSV and other delimited text, based on pyarrow.

In addition to pyarrow, it detects the dialect and decimal commas, reads text that is not UTF-8,
validates the header, recognises missing-value strings, and reports errors with line numbers.
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

# pyarrow is imported lazily, because its import is slow.
if TYPE_CHECKING:
    import pyarrow

STDIN = "-"
# Suffixes of compressed CSV files, as in ".csv.gz".
COMPRESSED = (".gz", ".bz2", ".zst", ".lz4")
READABLE = (
    ".csv, .tsv and .txt (also packed: .csv.gz, .bz2, .zst, .lz4), .xlsx, .parquet, .npz and .npy"
)
DELIMITERS = ",;\t|"
# Name of an unnamed first column in pandas, usually the index.
UNNAMED = "Unnamed: 0"
# Missing-value strings that pyarrow recognises. `_trimmed` recognises other spellings.
NULL_VALUES = sorted(
    {s for text in ALWAYS_MISSING for s in (text, text.upper(), text.title())} | {"NaN"}
)
# Number of bytes to read for the detection of the dialect.
HEAD_BYTES = 1 << 20
# The block size of pyarrow grows by BLOCK_BYTES for every BLOCK_COLUMNS columns, up to
# MAX_BLOCKS * BLOCK_BYTES. Rows must fit into a block.
BLOCK_BYTES, BLOCK_COLUMNS, MAX_BLOCKS = 1 << 20, 64, 64
# Maximum size of the header in bytes.
MAX_HEADER_BYTES = 1 << 25
# Maximum length of a cell. Longer cells are usually due to an unclosed quote.
MAX_CELL_LENGTH = 1 << 17
# Number of rows to read for the detection of decimal commas.
HEAD_ROWS = 1000
_NUMBER = re.compile(r"\s*[-+]?(\d+([.,]\d*)?|[.,]\d+)([eE][-+]?\d+)?\s*")
# Translation of bytes that are not UTF-8, decoded with "surrogateescape", to cp1252 or Latin-1.
_LATIN = {
    0xDC00 + byte: bytes([byte]).decode("cp1252", "ignore") or chr(byte)
    for byte in range(0x80, 0x100)
}
_UTF16_MARKS = ("\udcff\udcfe", "\udcfe\udcff")

Batch = dict[str, Cells]


@dataclass
class Source:
    """File or standard input. The latter can be read only once unless its bytes are ``kept``."""

    path: Path | None
    kept: bytes | None = None
    # Whether bytes that are not UTF-8 were decoded as Latin-1.
    latin: bool = field(default=False, init=False)
    # Columns with decimal commas.
    commas: frozenset[str] = field(default=frozenset(), init=False)

    @classmethod
    def of(cls, data: str | Path, *, once: bool = False) -> Source:
        """Return the source of a path; "-" is standard input.

        Standard input is kept in memory unless ``once`` is True.
        """
        if str(data) != STDIN:
            return cls(Path(data))
        return cls(None, None if once else sys.stdin.buffer.read())

    @property
    def name(self) -> str:
        """Name in messages."""
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
        """Open the source as UTF-8 text."""
        import pyarrow

        if self.path is None:
            yield Utf8(sys.stdin.buffer if self.kept is None else io.BytesIO(self.kept), self)
            return
        is_compressed = self.path.suffix.lower() in COMPRESSED
        codec = pyarrow.Codec.detect(self.path.name.lower()).name if is_compressed else None
        # The error messages of Python's open contain the file name and the reason.
        with open(self.path, "rb") as file:
            if codec is None:
                yield Utf8(file, self)
                return
            with pyarrow.input_stream(file, compression=codec) as stream:
                yield Utf8(stream, self)


class Utf8(io.RawIOBase):
    """Stream of UTF-8 text; bytes that are not UTF-8 are decoded as cp1252 or Latin-1."""

    def __init__(self, stream: BinaryIO | Any, source: Source) -> None:
        self._text = io.TextIOWrapper(stream, "utf-8-sig", "surrogateescape", newline="")
        self._source, self._buffer, self._has_started = source, b"", False

    def close(self) -> None:
        """Detach from the underlying stream without closing it."""
        if not self.closed:
            self._text.detach()
        super().close()

    def readable(self) -> bool:
        """Return True."""
        return True

    def unread(self, chunk: bytes) -> None:
        """Push back bytes that were read."""
        self._buffer = chunk + self._buffer

    def read(self, size: int = -1) -> bytes:
        """Read at most ``size`` bytes, or all bytes if it is negative."""
        if size < 0:
            return b"".join(iter(lambda: self.read(HEAD_BYTES), b""))
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


class Dialect(NamedTuple):
    """Format of a CSV file.

    Attributes
    ----------
    names : list of str
        Names of the columns.
    delimiter : str
        Column separator.
    commas : frozenset of str
        Columns with decimal commas.
    blank_lines : int
        Number of blank lines before the header.
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
        If there is no header, or only one column.
    """
    head = chunk = text.read(HEAD_BYTES)
    # The header of a wide table may be longer than a chunk.
    while not re.search(rb"[^\r\n][\r\n]", head[-len(chunk) - 1 :]):
        if not (chunk := text.read(HEAD_BYTES)):
            break
        head += chunk
        if len(head) > MAX_HEADER_BYTES:
            raise TableError(
                f"{name} has no line of names in its first {MAX_HEADER_BYTES:,} bytes; is it a "
                "table?"
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
    """Return the columns with decimal commas, or all columns if none has decimal points."""
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
    source: Source, texts: set[str], only: Sequence[str] | None = None, numbers: Container[str] = ()
) -> Iterator[Batch]:
    """Yield the columns of each block of rows.

    Parameters
    ----------
    source : Source
        File or standard input.
    texts : set of str
        Columns to read as text. Columns in which a cell is not a number are added.
    only : sequence of str, optional
        Columns to read. By default, all columns.
    numbers : container of str, default=()
        Columns for which TableError is raised if a cell is not a number.
    """
    with _csv_errors(source) as ragged, source.text() as text:
        dialect = sniff(text, source.name)
        source.commas = dialect.commas
        names = _columns_to_read(dialect, only)
        n_rows = 0
        for batch in _read(text, dialect, names, ragged):
            columns: Batch = {}
            for name, cells in zip(names, batch.columns, strict=True):
                comma = name in dialect.commas
                converted = _numbers_or_text(source.name, name, cells, texts, comma)
                if name in numbers and isinstance(converted, Categorical):
                    row = _first_text(cells, comma)
                    raise TableError(
                        f"{source.name}, {line_of(source, n_rows + row)}: {name!r} holds "
                        f"{quoted(converted[row])}, where numbers are expected; correct it, or "
                        "leave it empty"
                    )
                columns[name] = converted
            yield columns
            n_rows += batch.num_rows


def _columns_to_read(dialect: Dialect, only: Sequence[str] | None) -> list[str]:
    """Return the requested columns, or all columns if none of them exists."""
    requested = set(dialect.names if only is None else only)
    # The caller raises an error for missing columns.
    return [name for name in dialect.names if name in requested] or dialect.names


def line_of(source: Source, row: int) -> str:
    """Return the location of a data row in messages; reads the file up to that row."""
    lines = (line for line, cells in _lines(source) if cells)
    # The first line is the header.
    line = next(islice(lines, row + 1, None), None)
    return row_text(row) if line is None else f"line {line:,}"


def _lines(source: Source) -> Iterator[tuple[int, list[str]]]:
    """Yield the first line number and the cells of each row, if the source can be read again."""
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
    text: Utf8, dialect: Dialect, names: Sequence[str], ragged: list[Any]
) -> Iterator[pyarrow.RecordBatch]:
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
            skip_rows=dialect.blank_lines,
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
    """Return the index of the first cell that is not a number."""
    distinct = _trimmed(cells).dictionary_encode()
    bad = [
        k
        for k in range(len(distinct.dictionary))
        if _numbers(distinct.dictionary.slice(k, 1), comma) is None
    ]
    return int(np.isin(distinct.indices.fill_null(-1).to_numpy(), bad).argmax())


def _trimmed(cells: pyarrow.Array) -> pyarrow.Array:
    """Strip cells and replace missing-value strings by null."""
    import pyarrow
    from pyarrow import compute

    cells = compute.utf8_trim_whitespace(cells)
    missing = compute.is_in(compute.utf8_lower(cells), pyarrow.array(sorted(MISSING)))
    return compute.if_else(missing, pyarrow.scalar(None, pyarrow.string()), cells)


def _numbers(cells: pyarrow.Array, comma: bool) -> NDArray | None:
    """Convert cells to floats, NaN if missing; return None if a cell is not a number."""
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
    if longest > MAX_CELL_LENGTH:
        raise TableError(
            f"{file}: {name!r} has a cell of {longest:,} characters, and at most "
            f"{MAX_CELL_LENGTH:,} are read; is a quote not closed?"
        )
    codes = cells.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return Categorical.tidy(codes.astype(np.int32, copy=False), values)


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
        # Errors of the file system have an errno, unlike errors of decompression.
        if error.errno is not None:
            raise
        raise TableError(
            f"{name} cannot be unpacked as its ending says: {error}; data is read from {READABLE}"
        ) from None


def _ragged_row_message(source: Source, row: Any) -> str:
    """Return the error message for a row with too many or too few values."""
    n = row.actual_columns
    # pyarrow does not provide line numbers for streams, so the file is read again.
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
