"""Container of all files: arrays as safetensors, everything else as one JSON document.

Reading executes no code, and declared sizes are checked against the size of the file. A digest of
document and arrays detects damage, even of a single bit. Files are not memory-mapped: the process
would crash if a mapped file were truncated.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as from_bytes
from safetensors.numpy import save as to_bytes

from maxplus._files import write_whole
from maxplus.training.memory import available_bytes, human_bytes

VERSION = 1
# Maximum size of a file; MNIST with 10,000 units takes 60 MB.
MAX_BYTES = 8_000_000_000
# Maximum size of the header with the document; a million feature names take a third of it.
MAX_HEADER = 32_000_000
# Maximum number of JSON lists and objects, each of which takes 30 times its length in memory.
MAX_NESTS = 1_000_000
# Maximum number of digits of an integer; the state of a random generator has 39 digits.
MAX_DIGITS = 100
# Minimum size of files whose digest is checked before their content is loaded.
LARGE = 100_000_000
# Number of bytes that are read at a time to check a digest.
PIECE = 1 << 20
# Maximum length of an error message, which may quote a damaged file.
MESSAGE = 500
_METADATA = {"format", "version", "document", "digest"}


class FileError(ValueError):
    """A file that cannot be used; the message names the file, the reason and a remedy."""

    def __init__(self, message: str) -> None:
        line = " ".join(message.split())
        super().__init__(line if len(line) <= MESSAGE else f"{line[: MESSAGE - 1]}…")


class Header(NamedTuple):
    """The header of a safetensors file."""

    content: bytes  # its length in 8 bytes, and its text
    metadata: dict[str, str]
    arrays: str  # names, types, shapes and places of the arrays, as JSON with sorted keys


def write_container(
    path: str | os.PathLike[str], kind: str, document: dict[str, Any], arrays: dict[str, NDArray]
) -> None:
    """Write a file of one kind ("maxplus-model", …) atomically."""
    text = json.dumps(document, ensure_ascii=False, allow_nan=True, sort_keys=True)
    content = pack(kind, text, arrays)
    if int.from_bytes(content[:8], "little") > MAX_HEADER:
        raise ValueError(
            f"notes, names and labels take more than the {MAX_HEADER:,} bytes that a file may "
            "have for them; shorten the notes"
        )
    write_whole(path, content)


def pack(kind: str, text: str, arrays: dict[str, NDArray]) -> bytes:
    """Return the content of a file with a document and arrays."""
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    plain = to_bytes(arrays)
    start = 8 + int.from_bytes(plain[:8], "little")
    described = json.dumps(json.loads(plain[8:start]), sort_keys=True)
    digest = _digest(kind, text, described, [memoryview(plain)[start:]])
    metadata = {"format": kind, "version": str(VERSION), "document": text, "digest": digest}
    return to_bytes(arrays, metadata=metadata)


def read_container(
    path: str | os.PathLike[str], kind: str
) -> tuple[dict[str, Any], dict[str, NDArray]]:
    """Return the document and the arrays of a file of this kind.

    Raises
    ------
    FileNotFoundError, PermissionError, IsADirectoryError
        As `open` does.
    FileError
        If it is not a regular file or not a file of this kind, damaged, too large, or from a later
        version.
    """
    place = Path(path)
    name = str(place)
    if place.exists() and not (place.is_file() or place.is_dir()):
        # Opening a pipe blocks until another process writes to it.
        raise FileError(f"{name} is a device, a pipe or a socket; copy its content into a file")
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size > MAX_BYTES:
            raise FileError(f"{name} has {size:,} bytes; at most {MAX_BYTES:,} are read")
        try:
            header = read_header(file, size)
            _check_metadata(name, header.metadata, kind)
            if size > LARGE:
                _check_digest(name, header, _pieces(file))
                _check_memory(name, size)
            file.seek(0)
            content = file.read(size)
            if not content.startswith(header.content):
                raise ValueError("it changed while it was read")
            _check_digest(name, header, [memoryview(content)[len(header.content) :]])
            arrays = from_bytes(content)
        except FileError:
            raise
        except (ValueError, KeyError, OSError, SafetensorError) as error:
            raise FileError(
                f"{name} is not a readable {kind} file, it is damaged or of another kind: {error}"
            ) from None
    try:
        document = parse(header.metadata["document"])
    except ValueError as error:
        raise FileError(f"{name} is damaged: its document is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise FileError(f"{name} is damaged: its document is not a JSON object")
    return document, arrays


def read_header(file: BinaryIO, size: int) -> Header:
    """Return the header of a file of ``size`` bytes; ValueError if it is not valid."""
    first = file.read(8)
    length = int.from_bytes(first, "little")
    if size < 8 or length > size - 8:
        raise ValueError("its header is longer than the file")
    if length > MAX_HEADER:
        raise ValueError(f"its header has {length:,} bytes; at most {MAX_HEADER:,} are read")
    text = file.read(length)
    header = parse(text.decode("utf-8"))
    if not isinstance(header, dict):
        raise ValueError("its header is not a JSON object")
    metadata = header.pop("__metadata__", {})
    if not (isinstance(metadata, dict) and all(type(v) is str for v in metadata.values())):
        raise ValueError("its metadata are not words")
    return Header(first + text, metadata, json.dumps(header, sort_keys=True))


def parse(text: str) -> Any:
    """Parse a JSON document; ValueError if it is not valid or would take too much memory."""
    if text.count("{") + text.count("[") > MAX_NESTS:
        raise ValueError(f"it opens more than {MAX_NESTS:,} lists and objects")
    try:
        value = json.loads(text, parse_int=_integer)
        if "\\u" in text:
            # An escape can be half of a surrogate pair, which cannot be encoded.
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


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    """Yield the rest of a file in pieces."""
    while piece := file.read(PIECE):
        yield piece


def _check_metadata(name: str, metadata: dict[str, str], kind: str) -> None:
    found = metadata.get("format")
    if found is None or not set(metadata) >= _METADATA:
        raise FileError(f"{name} was not written by maxplus: it lacks a {kind} file's metadata")
    if found != kind:
        raise FileError(f"{name} is a {found} file, but a {kind} file is needed")
    if not (metadata["version"].isascii() and metadata["version"].isdigit()):
        raise FileError(f"{name} is damaged: version {metadata['version']!r:.20} is not a number")
    if int(metadata["version"][:9]) > VERSION:
        raise FileError(
            f"{name} has version {metadata['version']:.20} of the {kind} format, but this maxplus "
            f"reads versions up to {VERSION}; update maxplus"
        )


def _check_memory(name: str, size: int) -> None:
    """Raise FileError if the content and its arrays do not fit into memory."""
    available = available_bytes()
    if available is not None and 2 * size > available:
        raise FileError(
            f"{name} needs {human_bytes(2 * size)} of memory, but only {human_bytes(available)} "
            "are available; read it on a larger machine"
        )


def _check_digest(name: str, header: Header, pieces: Iterable[bytes | memoryview]) -> None:
    """Raise FileError if the bytes after the header do not match the digest."""
    metadata = header.metadata
    found = _digest(metadata["format"], metadata["document"], header.arrays, pieces)
    if metadata["digest"] != found:
        raise FileError(f"{name} is damaged: its content does not match its digest; save it again")


def _digest(kind: str, text: str, arrays: str, pieces: Iterable[bytes | memoryview]) -> str:
    """Return the SHA-256 of the kind, the document, and the arrays with their description."""
    digest = hashlib.sha256(f"{kind}\0{text}\0{arrays}\0".encode("utf-8", "surrogatepass"))
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()
