"""A rank's rows of a CSV file: a range of its bytes that begins and ends between two rows.

A line's end inside quotes is no row's end. So all ranks count the quotes in their range first: how
many there are before a range tells whether it begins inside some.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np

from maxplus.tables.bytes_of import Source, Span
from maxplus.tables.csv_dialect import sniff
from maxplus.tables.csv_files import OtherKindsError, text_batches, typed_batches
from maxplus.tables.table import Cells, RawTable, join
from maxplus.tables.words import Words

QUOTE, LINE_END = b'"', b"\n"
BYTES_AT_ONCE = 1 << 20
# Files that begin so are no text of single bytes.
WIDE = (b"\xff\xfe", b"\xfe\xff")


class CsvPart:
    """About the rank-th of as many equal parts as there are ranks.

    Made by all ranks, which then tell each other ``quotes`` and ask for the table.
    """

    def __init__(self, path: Path, rank: int, size: int) -> None:
        self._path, self._rank, self._size = path, rank, size
        self._source = Source(path)
        self._bytes = path.stat().st_size
        head = self._head()
        self._head_bytes = head
        self._cuts = [head + (self._bytes - head) * k // size for k in range(size + 1)]
        with open(path, "rb") as file:
            self.quotes = _count_quotes(file, self._cuts[rank], self._cuts[rank + 1])

    @property
    def can_be_cut(self) -> bool:
        """Whether there are lines: not so in files of two bytes for each character."""
        return self._head_bytes < self._bytes

    def _head(self) -> int:
        """Bytes up to the end of the line of names; it may take several lines."""
        with self._source.text() as text:
            dialect = sniff(text, self._source.name)
        self._source.dialect = dialect
        with open(self._path, "rb") as file:
            if file.read(2) in WIDE:
                return self._bytes
            file.seek(0)
            at = sum(len(file.readline()) for _ in range(dialect.blank_lines))
            return _next_row(file, at, self._bytes, inside=False)

    def table(self, quotes: Sequence[int], read_as: Mapping[str, bool | None]) -> RawTable:
        """The part's rows, once it is known how many quotes each rank has found."""
        with open(self._path, "rb") as file:
            first, last = (self._row_at(file, k, quotes) for k in (self._rank, self._rank + 1))
        self._source.span = Span(self._head_bytes, first, last)
        columns = _columns(self._source, read_as)
        source = self._source
        return RawTable(source.name, columns, notes=source.notes, commas=source.commas)

    def _row_at(self, file: BinaryIO, k: int, quotes: Sequence[int]) -> int:
        """The first row that begins at cut k or after it."""
        if k in (0, self._size):
            return self._cuts[k]
        # From the byte before: a row that begins at the cut itself begins there.
        inside = bool(sum(quotes[:k]) % 2)
        file.seek(self._cuts[k] - 1)
        if file.read(1) == LINE_END and not inside:
            return self._cuts[k]
        return _next_row(file, self._cuts[k], self._bytes, inside)


def _count_quotes(file: BinaryIO, begin: int, end: int) -> int:
    file.seek(begin)
    n, left = 0, end - begin
    while left > 0:
        chunk = file.read(min(left, BYTES_AT_ONCE))
        if not chunk:
            break
        n += chunk.count(QUOTE)
        left -= len(chunk)
    return n


def _next_row(file: BinaryIO, begin: int, size: int, inside: bool) -> int:
    """Where the next row begins after a line's end that is not inside quotes."""
    file.seek(begin)
    at = begin
    while at < size:
        line = file.readline()
        if not line:
            break
        at += len(line)
        inside ^= bool(line.count(QUOTE) % 2)
        if not inside and line.endswith(LINE_END):
            return at
    return size


def _columns(source: Source, read_as: Mapping[str, bool | None]) -> dict[str, Cells]:
    assert source.dialect is not None
    assert source.span is not None
    words = {name for name, is_words in read_as.items() if is_words}
    if source.span.first >= source.span.last:
        return {name: Words.of([]) if name in words else np.empty(0)
                for name in source.dialect.names}  # fmt: skip
    try:
        batches = list(typed_batches(source, read_as))
    except OtherKindsError:
        batches = list(text_batches(source, words))
        late = [n for n in words if any(not isinstance(part[n], Words) for part in batches)]
        if late:
            batches = list(text_batches(source, set(words)))
    return join(batches)
