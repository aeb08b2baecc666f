"""Reading, writing and checksums of files in MNIST's idx format."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


class DamagedFileError(ValueError):
    """A file whose content does not have the expected checksum."""


def read_checked(path: Path, md5: str) -> bytes:
    """Return a file's content, decompressed; raise `DamagedFileError` if its checksum differs."""
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
    """Return ``content``; raise `DamagedFileError` if its MD5 digest is not the expected one."""
    # The digest detects damage; MD5 does not protect against forgery.
    found = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if found != md5:
        raise DamagedFileError(
            f"{name} is damaged or another file: its content ({len(content):,} bytes) has the MD5 "
            f"digest {found}, not {md5}; delete it"
        )
    return content


def parse(content: bytes) -> NDArray:
    """Return the array of an idx file: two zeros, type 8 (bytes), dimensions, shape, values."""
    rank = content[3]
    shape = np.frombuffer(content, ">u4", rank, 4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * rank).reshape(shape.astype(int))


def compose(array: NDArray) -> bytes:
    """Return an array of unsigned bytes in idx format."""
    header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
    return header + np.ascontiguousarray(array, np.uint8).tobytes()
