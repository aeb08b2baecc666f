"""Where a table's bytes come from: a file, maybe packed, or standard input; as UTF-8 text."""

from __future__ import annotations

import codecs
import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from maxplus.tables.table import TableError

STDIN = "-"
# Behind a CSV file's ending; pyarrow unpacks them while it reads.
PACKED = (".gz", ".bz2", ".zst", ".lz4")
BYTES_AT_ONCE = 1 << 20


class Span(NamedTuple):
    """A file's first ``head`` bytes, which hold the names, and those from ``first`` to ``last``."""

    head: int
    first: int
    last: int


class _Spanned:
    """A span's bytes, one after the other."""

    def __init__(self, file: BinaryIO, span: Span) -> None:
        self._file, self._span = file, span
        self._left = [(0, span.head), (span.first, span.last)]

    def read(self, size: int) -> bytes:
        while self._left:
            begin, end = self._left[0]
            self._file.seek(begin)
            chunk = self._file.read(min(size, end - begin))
            if chunk:
                self._left[0] = begin + len(chunk), end
                return chunk
            del self._left[0]
        return b""


@dataclass
class Source:
    """A file's bytes, or those of standard input, which come once only unless they are kept."""

    path: Path | None
    kept: bytes | None = None
    # Whether bytes were found that are no UTF-8 and were taken for Latin-1.
    latin: bool = field(default=False, init=False)
    # The columns whose numbers have decimal commas, once that was looked at.
    commas: frozenset[str] = field(default=frozenset(), init=False)
    # The part to read, and how the file is written, where somebody knows.
    span: Span | None = field(default=None, init=False)
    dialect: Any = field(default=None, init=False)

    @classmethod
    def of(cls, data: str | Path, *, once: bool = False) -> Source:
        """A file by its name; "-" is standard input, kept in memory unless it is read once."""
        if str(data) != STDIN:
            return cls(Path(data))
        return cls(None, None if once else sys.stdin.buffer.read())

    @property
    def name(self) -> str:
        """What messages call it."""
        return "standard input" if self.path is None else str(self.path)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know of how it was read."""
        words = f"{self.name} is not all UTF-8 text: it is read as Latin-1"
        return (words,) if self.latin else ()

    @property
    def again(self) -> bool:
        """Whether it can be read again."""
        return self.path is not None or self.kept is not None

    @contextmanager
    def text(self) -> Iterator[Utf8]:
        """The bytes, unpacked, as UTF-8; Python opens files, since its errors say which and why."""
        import pyarrow

        if self.path is None:
            yield Utf8(sys.stdin.buffer if self.kept is None else io.BytesIO(self.kept), self)
            return
        packed = self.path.suffix.lower() in PACKED
        codec = pyarrow.Codec.detect(self.path.name.lower()).name if packed else None
        with open(self.path, "rb") as file:
            if codec is None:
                yield Utf8(file if self.span is None else _Spanned(file, self.span), self)
                return
            with pyarrow.input_stream(file, compression=codec) as stream:
                yield Utf8(stream, self)


class Utf8(io.RawIOBase):
    """Text as UTF-8: bytes that are none are taken for Latin-1, as Windows extends it.

    Text without accents is handed through as it is.
    """

    def __init__(self, stream: BinaryIO | Any, source: Source) -> None:
        self._stream, self._source = stream, source
        self._ready = b""
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._began = False

    def readable(self) -> bool:
        """It is."""
        return True

    def unread(self, chunk: bytes) -> None:
        """Put back what was looked at."""
        self._ready = chunk + self._ready

    def read(self, size: int = -1) -> bytes:
        """At most ``size`` bytes, none at the end; all that are left if negative."""
        if size < 0:
            return b"".join(iter(lambda: self.read(BYTES_AT_ONCE), b""))
        if not self._ready:
            self._ready = self._next(max(size, 1))
        chunk, self._ready = self._ready[:size], self._ready[size:]
        return chunk

    def readinto(self, buffer: Any) -> int:
        """As `read`, into a buffer."""
        chunk = self.read(len(buffer))
        buffer[: len(chunk)] = chunk
        return len(chunk)

    def _next(self, size: int) -> bytes:
        """Some bytes more; none at the end only."""
        while True:
            chunk = self._stream.read(size)
            if not self._began:
                self._began = True
                if chunk[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
                    raise TableError(f"{self._source.name} is UTF-16 text; save it as UTF-8")
            if b"\0" in chunk:
                raise TableError(f"{self._source.name} holds bytes of zero: it is no UTF-8 text")
            waiting = self._decoder.getstate()[0]
            if not waiting and chunk.isascii():
                return chunk
            text = self._decode(waiting, chunk)
            if text or not chunk:
                return text.encode()

    def _decode(self, waiting: bytes, chunk: bytes) -> str:
        try:
            return self._decoder.decode(chunk, not chunk)
        except UnicodeDecodeError:
            self._source.latin = True
            self._decoder = codecs.getincrementaldecoder("utf-8")("maxplus-latin")
            return self._decoder.decode(waiting + chunk, not chunk)


def _as_latin(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    bad = error.object[error.start : error.end]
    try:
        return bad.decode("cp1252"), error.end
    except UnicodeDecodeError:
        return bad.decode("latin-1"), error.end


codecs.register_error("maxplus-latin", _as_latin)
