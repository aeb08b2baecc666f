"""Loaders of MNIST and Fashion-MNIST, from a folder, a cache or a mirror, with checksums."""

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

from maxplus._files import write_whole

# Seconds until a connection times out.
TIMEOUT = 20.0
FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)


class Collection(NamedTuple):
    """A data set of images: its folder name, MD5 digests of the unzipped files, and mirrors."""

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
    """A file whose content does not have the expected checksum."""


class DataNotFoundError(FileNotFoundError):
    """No source has the data set; the message lists the sources and the remedies."""


class ImageData(NamedTuple):
    """Training and test images as rows of pixels in [0, 1], and their labels."""

    X_train: NDArray
    y_train: NDArray
    X_test: NDArray
    y_test: NDArray


def load_mnist(folder: str | os.PathLike[str] | None = None) -> ImageData:
    """Load 60,000 + 10,000 handwritten digits of 28 × 28 pixels, float32 in [0, 1].

    Parameters
    ----------
    folder : path, optional
        Folder of the idx files, gzipped or not, or of a subfolder ``mnist`` with them. By default
        the folder in the environment variable MAXPLUS_DATA, the user's cache folder and public
        mirrors are tried in this order.

    Returns
    -------
    ImageData

    Raises
    ------
    DataNotFoundError
        If no source has the data.
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
    """Load 60,000 + 10,000 images of clothing, as `load_mnist` (subfolder ``fashion-mnist``).

    Parameters
    ----------
    folder : path, optional
        As in `load_mnist`.

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
    """Return the array of an idx file: two zeros, type 8 (bytes), dimensions, shape, values."""
    n_dimensions = content[3]
    shape = np.frombuffer(content, ">u4", n_dimensions, 4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * n_dimensions).reshape(shape.astype(int))


def _scaled(images: NDArray) -> NDArray:
    # Converting before the division would allocate a second array of the same size.
    return np.divide(images.reshape(len(images), -1), np.float32(255), dtype=np.float32)


def _find(collection: Collection, folder: Path | None) -> dict[str, bytes]:
    """Return the content of the four files, from the first source that has them."""
    if folder is not None:
        contents = _from_folder(collection, folder)
        if contents is None:
            raise DataNotFoundError(
                f"folder={str(folder)!r} does not hold {', '.join(FILES)} (or the same with .gz), "
                f"nor does its subfolder {collection.name!r}; name the folder that does, or leave "
                "folder out"
            )
        return contents
    tried = []
    named = os.environ.get("MAXPLUS_DATA")
    if named:
        contents = _from_folder(collection, Path(named))
        if contents is not None:
            return contents
        tried.append(f"MAXPLUS_DATA={named}: not there")
    else:
        tried.append("the environment variable MAXPLUS_DATA: not set")
    cache = cache_folder(collection.name)
    try:
        contents = _from_folder(collection, cache)
    except DamagedFileError as error:
        warnings.warn(f"{error}; looking elsewhere", stacklevel=4)
        tried.append(f"{cache}: damaged")
    else:
        if contents is not None:
            return contents
        tried.append(f"{cache}: not there")
    for mirror in collection.mirrors:
        try:
            contents = _from_mirror(collection, mirror)
        except (OSError, HTTPException, EOFError, zlib.error, ValueError) as error:
            tried.append(f"{mirror}: {error}")
            continue
        try:
            store(cache, contents)
        except OSError as error:
            warnings.warn(f"{collection.name} could not be kept in {cache}: {error}", stacklevel=4)
        return contents
    raise DataNotFoundError(
        f"{collection.name} was not found. Tried:\n"
        + "".join(f"  - {line}\n" for line in tried)
        + "Put the four idx files into a folder and name it with folder=… or MAXPLUS_DATA, or "
        "connect to the network."
    )


def cache_folder(name: str) -> Path:
    """Return the folder in which downloads of a collection are cached."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base, "maxplus", name)


def _from_folder(collection: Collection, folder: Path) -> dict[str, bytes] | None:
    """Return all files of a folder or its subfolder ``collection.name``; None if one is missing."""
    for place in (folder / collection.name, folder):
        found = {
            name: next((p for p in (place / f"{name}.gz", place / name) if p.is_file()), None)
            for name in collection.digests
        }
        if all(found.values()):
            return {
                name: _read(path, collection.digests[name])
                for name, path in found.items()
                if path is not None
            }
    return None


def _read(path: Path, md5: str) -> bytes:
    """Return a file's content, decompressed; raise `DamagedFileError` if its checksum differs."""
    content = path.read_bytes()
    if content[:2] == b"\x1f\x8b":
        try:
            content = gzip.decompress(content)
        except (EOFError, OSError, zlib.error) as error:
            raise DamagedFileError(
                f"{path} is damaged or incomplete: it cannot be unzipped ({error}); delete it"
            ) from error
    return _checked(content, md5, str(path))


def _checked(content: bytes, md5: str, name: str) -> bytes:
    """Return ``content``; raise `DamagedFileError` if its MD5 digest is not the expected one."""
    # The digest detects damage; MD5 does not protect against forgery.
    found = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if found != md5:
        raise DamagedFileError(
            f"{name} is damaged or another file: its content ({len(content):,} bytes) has the MD5 "
            f"digest {found}, not {md5}; delete it"
        )
    return content


def _from_mirror(collection: Collection, mirror: str) -> dict[str, bytes]:
    """Download all files of a mirror, with a progress bar for each."""
    from rich.console import Console
    from rich.progress import wrap_file

    contents = {}
    for name, md5 in collection.digests.items():
        url = f"{mirror}/{name}.gz"
        with urllib.request.urlopen(url, timeout=TIMEOUT) as answer:
            size = int(answer.headers.get("Content-Length") or 0)
            with wrap_file(
                answer, size, description=name, transient=True, console=Console(stderr=True)
            ) as file:
                contents[name] = _checked(gzip.GzipFile(fileobj=file).read(), md5, url)
    return contents


def store(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Write gzipped files, each of them atomically."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        write_whole(folder / f"{name}.gz", gzip.compress(content, 6, mtime=0))
