"""Text sources: files, optionally compressed, and standard input, converted to UTF-8."""

from __future__ import annotations

import codecs
import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from maxplus.tables.table import TableError

STDIN = "-"
# Suffixes of compressed files, which follow that of a CSV file.
COMPRESSED = (".gz", ".bz2", ".zst", ".lz4")
BYTES_AT_ONCE = 1 << 20


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
    """A stream of UTF-8; bytes that are not UTF-8 are decoded as cp1252 or Latin-1.

    ASCII text is passed through unchanged.
    """

    def __init__(self, stream: BinaryIO | Any, source: Source) -> None:
        self._stream, self._source = stream, source
        self._buffer = b""
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._has_started = False

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
        """Return the next converted bytes; b"" only at the end."""
        while True:
            chunk = self._stream.read(size)
            if not self._has_started:
                self._has_started = True
                if chunk[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
                    raise TableError(f"{self._source.name} is UTF-16 text; save it as UTF-8")
            if b"\0" in chunk:
                raise TableError(f"{self._source.name} holds bytes of zero: it is no UTF-8 text")
            pending = self._decoder.getstate()[0]
            if not pending and chunk.isascii():
                return chunk
            text = self._decode(pending, chunk)
            if text or not chunk:
                return text.encode()

    def _decode(self, pending: bytes, chunk: bytes) -> str:
        try:
            return self._decoder.decode(chunk, not chunk)
        except UnicodeDecodeError:
            self._source.latin = True
            self._decoder = codecs.getincrementaldecoder("utf-8")("maxplus-latin")
            return self._decoder.decode(pending + chunk, not chunk)


def _decode_latin(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    bad = error.object[error.start : error.end]
    try:
        return bad.decode("cp1252"), error.end
    except UnicodeDecodeError:
        return bad.decode("latin-1"), error.end


codecs.register_error("maxplus-latin", _decode_latin)
