"""One kind of file for all: arrays as safetensors, everything else as one JSON document.

Reading executes nothing. A digest over document and arrays tells a damaged file from a
whole one, so that a flipped bit in a weight is noticed too.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

from maxplus._files import write_whole

VERSION = 1
# Larger files are not ours: MNIST with 10,000 units takes 60 MB.
MAX_BYTES = 8_000_000_000
_METADATA = {"format", "version", "document", "digest"}


class FileError(ValueError):
    """A file that cannot be used; the message says which, why and what to do."""


def write_container(
    path: str | os.PathLike[str], kind: str, document: dict[str, Any], arrays: dict[str, NDArray]
) -> None:
    """Write a file of one kind ("maxplus-model", …), whole or not at all."""
    text = json.dumps(document, ensure_ascii=False, allow_nan=True, sort_keys=True)
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    metadata = {
        "format": kind, "version": str(VERSION), "document": text,
        "digest": _digest(kind, text, arrays),
    }  # fmt: skip
    write_whole(path, to_bytes(arrays, metadata=metadata))


def read_container(
    path: str | os.PathLike[str], kind: str
) -> tuple[dict[str, Any], dict[str, NDArray]]:
    """The document and the arrays of a file of this kind.

    Raises
    ------
    FileNotFoundError, PermissionError, IsADirectoryError
        As `open` does.
    FileError
        When the file is not one of ours, damaged, too large or from a later version.
    """
    name = str(Path(path))
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
    if size > MAX_BYTES:
        raise FileError(f"{name} has {size:,} bytes; at most {MAX_BYTES:,} are read")
    try:
        with safe_open(path, "np") as file:
            metadata = file.metadata() or {}
            _check_metadata(name, metadata, kind)
            arrays = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except FileError:
        raise
    except (SafetensorError, ValueError, TypeError, KeyError, OSError, OverflowError) as error:
        raise FileError(
            f"{name} is not a readable {kind} file, it is damaged or of another kind: {error}"
        ) from None
    if metadata["digest"] != _digest(kind, metadata["document"], arrays):
        raise FileError(f"{name} is damaged: its content does not match its digest; save it again")
    try:
        document = json.loads(metadata["document"])
    except (ValueError, RecursionError) as error:
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


def _digest(kind: str, text: str, arrays: dict[str, NDArray]) -> str:
    """SHA-256 of everything that matters, in a fixed order."""
    digest = hashlib.sha256(f"{kind}\0{text}\0".encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name}\0{array.dtype.str}\0{array.shape}\0".encode())
        digest.update(array.data if array.size else b"")
    return digest.hexdigest()
