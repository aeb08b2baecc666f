"""Arrays of a safetensors file, read piece by piece: no size is believed that the file lacks.

The format is a header's length, the header as JSON, and the arrays' bytes one after the other.
Reading by hand takes no memory map, whose pages vanish under a reader when somebody shortens the
file, and lets the digest be computed before anything large is kept.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

# The header holds the document, which has no arrays: a million feature names take a third.
MAX_HEADER = 32_000_000
# Lists and objects that JSON opens; each takes thirty times the memory of its two letters.
MAX_NESTS = 1_000_000
# The longest integers are those of a random generator's state, of 39 digits; what has many more
# is beyond all floats.
MAX_DIGITS = 100
# Bytes of an array that are looked at together.
PIECE = 1 << 20

TYPES = {
    "BOOL": "|b1", "U8": "|u1", "I8": "|i1", "U16": "<u2", "I16": "<i2", "F16": "<f2",
    "U32": "<u4", "I32": "<i4", "F32": "<f4", "U64": "<u8", "I64": "<i8", "F64": "<f8",
}  # fmt: skip


class Entry(NamedTuple):
    """Where an array is in its file, and what it is."""

    name: str
    dtype: np.dtype
    shape: tuple[int, ...]
    begin: int
    n_bytes: int

    def pieces(self, file: BinaryIO) -> Iterator[bytes]:
        """Its bytes, some at a time; ValueError where the file ends before them."""
        file.seek(self.begin)
        left = self.n_bytes
        while left:
            piece = file.read(min(PIECE, left))
            if not piece:
                raise ValueError("it became shorter while it was read")
            left -= len(piece)
            yield piece

    def read(self, file: BinaryIO) -> NDArray:
        """The array, in memory of its own."""
        content = bytearray(self.n_bytes)
        at = 0
        for piece in self.pieces(file):
            content[at : at + len(piece)] = piece
            at += len(piece)
        array: NDArray = np.frombuffer(content, self.dtype).reshape(self.shape)
        return array.astype(self.dtype.newbyteorder("="), copy=False)


def read_header(file: BinaryIO, size: int) -> tuple[dict[str, str], list[Entry]]:
    """The metadata and the arrays' places of a file of ``size`` bytes; ValueError if it is none."""
    length = int.from_bytes(file.read(8), "little")
    if size < 8 or length > size - 8:
        raise ValueError("its header is longer than the file")
    if length > MAX_HEADER:
        raise ValueError(f"its header has {length:,} bytes; at most {MAX_HEADER:,} are read")
    header = parse(file.read(length).decode("utf-8"))
    if not isinstance(header, dict):
        raise ValueError("its header is not a JSON object")
    metadata = header.pop("__metadata__", {})
    if not (isinstance(metadata, dict) and all(type(v) is str for v in metadata.values())):
        raise ValueError("its metadata are not words")
    entries = [_entry(name, record, 8 + length) for name, record in header.items()]
    end = 8 + length
    for entry in sorted(entries, key=lambda entry: (entry.begin, entry.n_bytes)):
        if entry.begin != end:
            raise ValueError(f"its array {entry.name!r:.40} is not where the one before it ends")
        end += entry.n_bytes
    if end != size:
        raise ValueError(f"its arrays end at byte {end:,} of {size:,}")
    return metadata, entries


def parse(text: str) -> Any:
    """A JSON document; ValueError where it is none, or would take far more memory than its text."""
    if text.count("{") + text.count("[") > MAX_NESTS:
        raise ValueError(f"it opens more than {MAX_NESTS:,} lists and objects")
    try:
        value = json.loads(text, parse_int=_integer)
        if "\\u" in text:
            # Escapes can spell half of a surrogate pair, which no file could hold again.
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("its lists and objects are nested too deeply") from None
    except UnicodeEncodeError:
        raise ValueError("a text in it is not Unicode: it has half of a surrogate pair") from None
    return value


def _integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)


def _entry(name: str, record: Any, start: int) -> Entry:
    if not isinstance(record, dict):
        raise ValueError(f"its array {name!r:.40} is not described")
    kind, shape, where = (record.get(key, "") for key in ("dtype", "shape", "data_offsets"))
    if not (isinstance(kind, str) and kind in TYPES):
        raise ValueError(f"its array {name!r:.40} has the type {kind!r:.20}, which NumPy lacks")
    if not (_are_counts(shape) and _are_counts(where) and len(where) == 2):
        raise ValueError(f"its array {name!r:.40} has no shape or no place")
    dtype, (begin, end) = np.dtype(TYPES[kind]), where
    if end - begin != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"its array {name!r:.40} does not fit its place")
    return Entry(name, dtype, tuple(shape), start + begin, end - begin)


def _are_counts(value: Any) -> bool:
    """Whether it is a list as short as the axes of an array, of numbers that are no less than 0."""
    return (
        isinstance(value, list)
        and len(value) <= 32
        and all(type(n) is int and 0 <= n < 2**63 for n in value)
    )
