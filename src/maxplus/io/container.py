"""One kind of file for all: arrays as safetensors, everything else as one JSON document.

Reading executes nothing. A digest over document and arrays tells a damaged file from a
whole one, so that a flipped bit in a weight is noticed too.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save as to_bytes

from maxplus._files import write_whole
from maxplus.io.arrays import MAX_HEADER, Entry, parse, read_header
from maxplus.training.memory import available_bytes, human_bytes

VERSION = 1
# Larger files are not ours: MNIST with 10,000 units takes 60 MB.
MAX_BYTES = 8_000_000_000
# From this size on, a file shows that it is whole before memory is taken for it.
LARGE = 100_000_000
# Letters of a message: what a damaged file says of itself is repeated in a line, no more.
MESSAGE = 500
_METADATA = {"format", "version", "document", "digest"}

# An array's name, type, shape and content, in pieces.
Described = tuple[str, np.dtype, tuple[int, ...], Iterable[Any]]


class FileError(ValueError):
    """A file that cannot be used; the message says which, why and what to do, in one line."""

    def __init__(self, message: str) -> None:
        line = " ".join(message.split())
        super().__init__(line if len(line) <= MESSAGE else f"{line[: MESSAGE - 1]}…")


def write_container(
    path: str | os.PathLike[str], kind: str, document: dict[str, Any], arrays: dict[str, NDArray]
) -> None:
    """Write a file of one kind ("maxplus-model", …), whole or not at all."""
    text = json.dumps(document, ensure_ascii=False, allow_nan=True, sort_keys=True)
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    metadata = {
        "format": kind, "version": str(VERSION), "document": text,
        "digest": _digest(kind, text, [_described(name, A) for name, A in arrays.items()]),
    }  # fmt: skip
    content = to_bytes(arrays, metadata=metadata)
    if int.from_bytes(content[:8], "little") > MAX_HEADER:
        raise ValueError(
            f"notes, names and labels take more than the {MAX_HEADER:,} bytes that a file may "
            "have for them; shorten the notes"
        )
    write_whole(path, content)


def read_container(
    path: str | os.PathLike[str], kind: str
) -> tuple[dict[str, Any], dict[str, NDArray]]:
    """The document and the arrays of a file of this kind.

    Raises
    ------
    FileNotFoundError, PermissionError, IsADirectoryError
        As `open` does.
    FileError
        When it is no file, not one of ours, damaged, too large or from a later version.
    """
    place = Path(path)
    name = str(place)
    if place.exists() and not (place.is_file() or place.is_dir()):
        # A pipe would be waited for, perhaps for ever.
        raise FileError(f"{name} is a device, a pipe or a socket; copy its content into a file")
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size > MAX_BYTES:
            raise FileError(f"{name} has {size:,} bytes; at most {MAX_BYTES:,} are read")
        try:
            metadata, entries = read_header(file, size)
            _check_metadata(name, metadata, kind)
            if size > LARGE:
                _check_large(name, file, metadata, entries, size)
            arrays = {entry.name: entry.read(file) for entry in entries}
        except FileError:
            raise
        except (ValueError, OSError) as error:
            raise FileError(
                f"{name} is not a readable {kind} file, it is damaged or of another kind: {error}"
            ) from None
    _check_digest(name, metadata, [_described(key, array) for key, array in arrays.items()])
    try:
        document = parse(metadata["document"])
    except ValueError as error:
        raise FileError(f"{name} is damaged: its document is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise FileError(f"{name} is damaged: its document is not a JSON object")
    return document, arrays


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


def _check_large(
    name: str, file: BinaryIO, metadata: dict[str, str], entries: list[Entry], size: int
) -> None:
    """FileError if a file is damaged or memory does not hold it, found in constant memory."""
    _check_digest(name, metadata, [(e.name, e.dtype, e.shape, e.pieces(file)) for e in entries])
    available = available_bytes()
    if available is not None and size > available:
        raise FileError(
            f"{name} needs {human_bytes(size)} of memory, but only {human_bytes(available)} are "
            "available; read it on a larger machine"
        )


def _check_digest(name: str, metadata: dict[str, str], arrays: Iterable[Described]) -> None:
    if metadata["digest"] != _digest(metadata["format"], metadata["document"], arrays):
        raise FileError(f"{name} is damaged: its content does not match its digest; save it again")


def _described(name: str, array: NDArray) -> Described:
    return name, array.dtype, array.shape, [array.data] if array.size else []


def _digest(kind: str, text: str, arrays: Iterable[Described]) -> str:
    """SHA-256 of everything that matters, in a fixed order."""
    digest = hashlib.sha256(f"{kind}\0{text}\0".encode("utf-8", "surrogatepass"))
    for name, dtype, shape, pieces in sorted(arrays, key=lambda array: array[0]):
        digest.update(f"{name}\0{dtype.str}\0{shape}\0".encode("utf-8", "surrogatepass"))
        for piece in pieces:
            digest.update(piece)
    return digest.hexdigest()
