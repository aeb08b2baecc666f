"""Loaders of MNIST and Fashion-MNIST with local caching and checksums."""

from __future__ import annotations

import gzip
import hashlib
import os
import sys
import urllib.request
import warnings
import zlib
from collections.abc import Mapping
from http.client import HTTPException
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxplus._files import write_atomically

__all__ = [
    "DamagedFileError",
    "DataNotFoundError",
    "ImageData",
    "load_fashion_mnist",
    "load_mnist",
]

# Connection timeout in seconds.
TIMEOUT = 20.0
FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)


class Collection(NamedTuple):
    """Folder name, MD5 digests of the uncompressed files, and mirrors of a data set."""

    name: str
    digests: Mapping[str, str]
    mirrors: tuple[str, ...]


MNIST = Collection(
    "mnist",
    {
        "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
        "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
        "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
        "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
    },
    (
        "https://ossci-datasets.s3.amazonaws.com/mnist",
        "https://storage.googleapis.com/cvdf-datasets/mnist",
    ),
)
FASHION = Collection(
    "fashion-mnist",
    {
        "train-images-idx3-ubyte": "f4a8712d7a061bf5bd6d2ca38dc4d50a",
        "train-labels-idx1-ubyte": "9018921c3c673c538a1fc5bad174d6f9",
        "t10k-images-idx3-ubyte": "8181f5470baa50b63fa0f6fddb340f0a",
        "t10k-labels-idx1-ubyte": "15d484375f8d13e6eb1aabb0c3f46965",
    },
    (
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
        "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion",
    ),
)


class DamagedFileError(ValueError):
    """Error for a file with an unexpected checksum."""


class DataNotFoundError(FileNotFoundError):
    """Error for a data set that is not available from any source."""


class ImageData(NamedTuple):
    """Training and test images, flattened to rows of pixels in [0, 1], and their labels."""

    X_train: NDArray
    y_train: NDArray
    X_test: NDArray
    y_test: NDArray


def load_mnist(folder: str | os.PathLike[str] | None = None) -> ImageData:
    """Load MNIST: 60,000 training and 10,000 test images of 28 × 28 float32 pixels.

    Parameters
    ----------
    folder : path, optional
        Folder that contains the idx files, optionally gzipped, or a subfolder ``mnist`` with them.
        By default, the folder in the environment variable MAXPLUS_DATA, the cache folder of the
        user and public mirrors are tried in this order.

    Returns
    -------
    ImageData

    Raises
    ------
    DataNotFoundError
        If the data set is not available from any source.
    DamagedFileError
        If a file in ``folder`` or in MAXPLUS_DATA has a wrong checksum.

    Examples
    --------
    >>> from maxplus.datasets import load_mnist
    >>> load_mnist().X_train.shape  # doctest: +SKIP
    (60000, 784)
    """
    return _load(MNIST, folder)


def load_fashion_mnist(folder: str | os.PathLike[str] | None = None) -> ImageData:
    """Load Fashion-MNIST: 60,000 training and 10,000 test images of 28 × 28 float32 pixels.

    Parameters
    ----------
    folder : path, optional
        As in `load_mnist`, with the subfolder ``fashion-mnist``.

    Returns
    -------
    ImageData

    Examples
    --------
    >>> from maxplus.datasets import load_fashion_mnist
    >>> load_fashion_mnist().X_test.shape  # doctest: +SKIP
    (10000, 784)
    """
    return _load(FASHION, folder)


def _load(collection: Collection, folder: str | os.PathLike[str] | None) -> ImageData:
    contents = _find(collection, None if folder is None else Path(folder))
    images, labels, test_images, test_labels = (_parse(contents[name]) for name in FILES)
    return ImageData(
        _scaled(images), labels.astype(np.int64), _scaled(test_images), test_labels.astype(np.int64)
    )


def _parse(content: bytes) -> NDArray:
    """Parse an idx file: two zeros, type 8 (bytes), number of dimensions, shape, values."""
    n_dimensions = content[3]
    shape = np.frombuffer(content, ">u4", n_dimensions, 4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * n_dimensions).reshape(shape.astype(int))


def _scaled(images: NDArray) -> NDArray:
    # A separate conversion to float32 would allocate another array.
    return np.divide(images.reshape(len(images), -1), np.float32(255), dtype=np.float32)


def _find(collection: Collection, folder: Path | None) -> dict[str, bytes]:
    """Return the contents of the four files from the first available source."""
    if folder is not None:
        contents = _from_folder(collection, folder)
        if contents is None:
            raise DataNotFoundError(
                f"folder={str(folder)!r} and its subfolder {collection.name!r} do not contain "
                f"{', '.join(FILES)} (optionally with .gz); pass another folder, or omit it"
            )
        return contents
    tried = []
    data_folder = os.environ.get("MAXPLUS_DATA")
    cache = cache_folder(collection.name)
    if not data_folder:
        tried.append("the environment variable MAXPLUS_DATA: not set")
    elif (contents := _from_folder(collection, Path(data_folder))) is not None:
        return contents
    else:
        tried.append(f"MAXPLUS_DATA={data_folder}: not found")
    try:
        if (contents := _from_folder(collection, cache)) is not None:
            return contents
        tried.append(f"{cache}: not found")
    except DamagedFileError as error:
        warnings.warn(f"{error}; trying other sources", stacklevel=4)
        tried.append(f"{cache}: damaged")
    for mirror in collection.mirrors:
        try:
            contents = _from_mirror(collection, mirror)
        except (OSError, HTTPException, EOFError, zlib.error, ValueError) as error:
            tried.append(f"{mirror}: {error}")
            continue
        try:
            store(cache, contents)
        except OSError as error:
            warnings.warn(
                f"{collection.name} could not be stored in {cache}: {error}", stacklevel=4
            )
        return contents
    raise DataNotFoundError(
        f"{collection.name} was not found. Tried:\n"
        + "".join(f"  - {line}\n" for line in tried)
        + "Put the four idx files into a folder and pass it as folder=… or MAXPLUS_DATA, or "
        "connect to the network."
    )


def cache_folder(name: str) -> Path:
    """Return the cache folder of a data set."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base, "maxplus", name)


def _from_folder(collection: Collection, folder: Path) -> dict[str, bytes] | None:
    """Read all files from a folder or its subfolder; return None if a file is missing."""
    for location in (folder / collection.name, folder):
        found = {
            name: path
            for name in FILES
            for path in (location / name, location / f"{name}.gz")
            if path.is_file()
        }
        if len(found) == len(FILES):
            return {name: _read(path, collection.digests[name]) for name, path in found.items()}
    return None


def _read(path: Path, md5: str) -> bytes:
    """Read and decompress a file; raise `DamagedFileError` if its checksum is wrong."""
    content = path.read_bytes()
    if content[:2] == b"\x1f\x8b":
        try:
            content = gzip.decompress(content)
        except (EOFError, OSError, zlib.error) as error:
            raise DamagedFileError(
                f"{path} is damaged or incomplete: it cannot be unzipped ({error}); delete it"
            ) from error
    return _verified(content, md5, str(path), "; delete it")


def _verified(content: bytes, md5: str, name: str, remedy: str = "") -> bytes:
    """Return ``content``; raise `DamagedFileError` if its MD5 digest is wrong."""
    # The digest is for detecting corruption, not for security.
    found = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if found != md5:
        raise DamagedFileError(
            f"{name} is damaged or another file: its content ({len(content):,} bytes) has the MD5 "
            f"digest {found}, not {md5}{remedy}"
        )
    return content


def _from_mirror(collection: Collection, mirror: str) -> dict[str, bytes]:
    """Download all files from a mirror with progress bars."""
    from rich.console import Console
    from rich.progress import wrap_file

    contents = {}
    for name, md5 in collection.digests.items():
        url = f"{mirror}/{name}.gz"
        with urllib.request.urlopen(url, timeout=TIMEOUT) as response:
            size = int(response.headers.get("Content-Length") or 0)
            with wrap_file(
                response, size, description=name, transient=True, console=Console(stderr=True)
            ) as file:
                contents[name] = _verified(gzip.GzipFile(fileobj=file).read(), md5, url)
    return contents


def store(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Write gzipped files atomically."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        write_atomically(folder / f"{name}.gz", gzip.compress(content, 6, mtime=0))
