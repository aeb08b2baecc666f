"""Container format of files: arrays as safetensors, all other data as a JSON document.

Reading executes no code, and declared sizes are checked against the size of the file. A digest of
the document and the arrays detects even single-bit errors. Files are not memory-mapped, because the
process would crash if a mapped file were truncated.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as from_bytes
from safetensors.numpy import save as to_bytes

from maxplus._files import write_atomically
from maxplus.training import memory

VERSION = 1
# Maximum size of a file. A model with 10,000 units for MNIST has 60 MB.
MAX_BYTES = 8_000_000_000
# Maximum size of the header, which contains the document. A million feature names take up about
# a third of it.
MAX_HEADER = 32_000_000
# Maximum number of JSON lists and objects, which take 30 times their text length in memory.
MAX_CONTAINERS = 1_000_000
# Maximum number of digits of an integer; the state of a random generator has 39 digits.
MAX_DIGITS = 100
# Maximum length of an error message, which may quote a damaged file.
MAX_MESSAGE = 500


class FileError(ValueError):
    """Error for an unusable file; the message contains the file and the reason."""

    def __init__(self, message: str) -> None:
        line = " ".join(message.split())
        super().__init__(line if len(line) <= MAX_MESSAGE else f"{line[: MAX_MESSAGE - 1]}…")


def write_container(
    path: str | os.PathLike[str], kind: str, document: dict[str, Any], arrays: dict[str, NDArray]
) -> None:
    """Write a file of the given kind, such as "maxplus-model", atomically.

    Raise ValueError if the header is too large.
    """
    text = json.dumps(document, ensure_ascii=False, allow_nan=True, sort_keys=True)
    content = pack(kind, text, arrays)
    if int.from_bytes(content[:8], "little") > MAX_HEADER:
        raise ValueError(
            f"notes, names and labels exceed {MAX_HEADER:,} bytes, the maximum for a file; "
            "shorten the notes"
        )
    write_atomically(path, content)


def pack(kind: str, text: str, arrays: dict[str, NDArray]) -> bytes:
    """Return the bytes of a file with a JSON document ``text`` and arrays."""
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    # The metadata contain the digest, so the digest is computed without them.
    header, data = _split(to_bytes(arrays))
    digest = _digest(kind, text, parse(header), data)
    metadata = {"format": kind, "version": str(VERSION), "document": text, "digest": digest}
    return to_bytes(arrays, metadata=metadata)


def read_container(
    path: str | os.PathLike[str], kind: str
) -> tuple[dict[str, Any], dict[str, NDArray]]:
    """Return the document and the arrays of a file of this kind.

    Raises
    ------
    FileNotFoundError, PermissionError, IsADirectoryError
        As raised by `open`.
    FileError
        If the file is not a regular file of this kind, is damaged or too large, or has a later
        version.
    """
    file_path = Path(path)
    name = str(file_path)
    if file_path.exists() and not (file_path.is_file() or file_path.is_dir()):
        # Opening a pipe blocks until another process writes to it.
        raise FileError(f"{name} is a device, a pipe or a socket; copy its content into a file")
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size > MAX_BYTES:
            raise FileError(f"{name} has {size:,} bytes; at most {MAX_BYTES:,} are read")
        try:
            memory.require(2 * size, name, "read it on a larger machine")
        except memory.NotEnoughMemoryError as error:
            raise FileError(str(error)) from None
        content = file.read(size)
    try:
        text, data = _split(content)
        header = parse(text)
        if not isinstance(header, dict):
            raise ValueError("its header is not a JSON object")
        metadata = header.pop("__metadata__", {})
        if not (isinstance(metadata, dict) and all(type(v) is str for v in metadata.values())):
            raise ValueError("its metadata are not strings")
        _check_metadata(name, metadata, kind)
        if metadata["digest"] != _digest(kind, metadata["document"], header, data):
            raise FileError(
                f"{name} is damaged: its content does not match its digest; save it again"
            )
        arrays = from_bytes(content)
    except FileError:
        raise
    except (ValueError, KeyError, SafetensorError) as error:
        raise FileError(
            f"{name} is not a readable {kind} file; it is damaged or of another kind: {error}"
        ) from None
    try:
        document = parse(metadata["document"])
    except ValueError as error:
        raise FileError(f"{name} is damaged: its document is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise FileError(f"{name} is damaged: its document is not a JSON object")
    return document, arrays


def _split(content: bytes) -> tuple[str, memoryview]:
    """Return the header of a safetensors file as JSON, and the bytes of its arrays."""
    length = int.from_bytes(content[:8], "little")
    if length > len(content) - 8:
        raise ValueError("its header is longer than the file")
    if length > MAX_HEADER:
        raise ValueError(f"its header has {length:,} bytes; at most {MAX_HEADER:,} are read")
    return content[8 : 8 + length].decode("utf-8"), memoryview(content)[8 + length :]


def parse(text: str) -> Any:
    """Parse a JSON document; raise ValueError if it is invalid or needs too much memory."""
    if text.count("{") + text.count("[") > MAX_CONTAINERS:
        raise ValueError(f"it has more than {MAX_CONTAINERS:,} lists and objects")
    try:
        value = json.loads(text, parse_int=_parse_integer)
        if "\\u" in text:
            # A lone surrogate, which only an escape sequence can represent, cannot be encoded.
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("its lists and objects are nested too deeply") from None
    except UnicodeEncodeError:
        raise ValueError("a string is not valid Unicode: it has a lone surrogate") from None
    return value


def _parse_integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"an integer has {len(digits)} digits; at most {MAX_DIGITS} are read")
    return int(digits)


def _check_metadata(name: str, metadata: dict[str, str], kind: str) -> None:
    """Raise FileError for another kind of file or a later version."""
    if not {"format", "version", "document", "digest"} <= {*metadata}:
        raise FileError(
            f"{name} was not written by maxplus: it lacks the metadata of a {kind} file"
        )
    found, version = metadata["format"], metadata["version"]
    if found != kind:
        raise FileError(f"{name} is a {found} file, but a {kind} file is required")
    if not (version.isascii() and version.isdigit()):
        raise FileError(f"{name} is damaged: version {version!r:.20} is not a number")
    if int(version[:9]) > VERSION:
        raise FileError(
            f"{name} has version {version:.20} of the {kind} format, but this version of maxplus "
            f"supports versions up to {VERSION}; update maxplus"
        )


def _digest(kind: str, text: str, arrays: dict[str, Any], data: bytes | memoryview) -> str:
    """Return the SHA-256 of the kind, the document, the description of the arrays, and the arrays.

    ``arrays`` is the header of the file without metadata: names, types, shapes and offsets.
    """
    description = json.dumps(arrays, sort_keys=True)
    digest = hashlib.sha256(f"{kind}\0{text}\0{description}\0".encode("utf-8", "surrogatepass"))
    digest.update(data)
    return digest.hexdigest()
