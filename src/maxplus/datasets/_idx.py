"""Files in MNIST's idx format, and whether they are what they should be."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


class DamagedFileError(ValueError):
    """A file exists, but its content is not the data set's."""


def read_checked(path: Path, md5: str) -> bytes:
    """The file's content, unzipped if need be; raises `DamagedFileError` if it is another's."""
    content = path.read_bytes()
    if content[:2] == b"\x1f\x8b":
        try:
            content = gzip.decompress(content)
        except (EOFError, OSError, zlib.error) as error:
            raise DamagedFileError(
                f"{path} is damaged or incomplete: it cannot be unzipped ({error}); delete it"
            ) from error
    return checked(content, md5, str(path))


def checked(content: bytes, md5: str, name: str) -> bytes:
    """``content`` itself, if its MD5 digest is the pinned one."""
    # Against damage, not against forgery: for that, MD5 would not do.
    found = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if found != md5:
        raise DamagedFileError(
            f"{name} is damaged or another file: its content ({len(content):,} bytes) has the MD5 "
            f"digest {found}, not {md5}; delete it"
        )
    return content


def parse(content: bytes) -> NDArray:
    """The array in an idx file of unsigned bytes: two zeros, the type 8, the rank, the shape."""
    rank = content[3]
    shape = np.frombuffer(content, ">u4", rank, 4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * rank).reshape(shape.astype(int))


def compose(array: NDArray) -> bytes:
    """The idx file of an array of unsigned bytes."""
    header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
    return header + np.ascontiguousarray(array, np.uint8).tobytes()
