"""What a command is given as DATA: a file, or a built-in data set's name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from maxplus import datasets
from maxplus.tables.columns import Column, Encoding
from maxplus.tables.reading import read_table
from maxplus.tables.table import RawTable, TableError

SMALL = ("iris", "digits", "wine", "breast_cancer")
IMAGES = ("mnist", "fashion_mnist")
SHAPES = {"digits": (8, 8), "mnist": (28, 28), "fashion_mnist": (28, 28)}


@dataclass(frozen=True)
class Samples:
    """Features, labels if there are any, and what is known about both."""

    name: str
    X: NDArray
    y: NDArray | None
    encoding: Encoding
    image_shape: tuple[int, int] | None = None


def open_source(
    data: str,
    *,
    encoding: Encoding | None = None,
    target: str | None = None,
    categorical: Sequence[str] = (),
) -> Samples:
    """Read DATA; with a model's encoding for prediction, without one for training.

    A built-in name is iris, digits, wine, breast_cancer, mnist or fashion_mnist; the last two
    mean the training images, and mnist:test and fashion_mnist:test the others. A file of
    such a name has to be written with its folder: ./iris.
    """
    name, _, part = data.partition(":")
    if name in IMAGES and part in ("", "train", "test"):
        return _images(name, part or "train")
    if data in SMALL:
        table, shape = _built_in(data), SHAPES.get(data)
    elif Path(data).exists() or Path(data).suffix:
        table, shape = read_table(data), None
    else:
        raise TableError(
            f"{data!r} is neither a file nor a built-in data set; there are "
            f"{', '.join(SMALL + IMAGES)}"
        )
    if encoding is None:
        encoding = Encoding.of(table, target, categorical)
    return samples_of(table, encoding, shape)


def samples_of(
    table: RawTable, encoding: Encoding, image_shape: tuple[int, int] | None = None
) -> Samples:
    """A table's features, and its labels if it has them."""
    y = encoding.labels(table) if encoding.has_labels(table) else None
    return Samples(table.name, encoding.features(table), y, encoding, image_shape)


def _built_in(name: str) -> RawTable:
    data = getattr(datasets, f"load_{name}")()
    columns: dict[str, NDArray] = dict(zip(data.feature_names, data.X.T, strict=True))
    words = [str(word) for word in data.class_names]
    if all(word.isdigit() for word in words):
        columns["class"] = data.y.astype(np.float64)
    else:
        columns["class"] = np.array([words[code] for code in data.y], object)
    return RawTable(name, columns)


def _images(name: str, part: str) -> Samples:
    """Images stay in float32: as columns of a table they would take twice the memory."""
    data = getattr(datasets, f"load_{name}")()
    X, y = (data.X_train, data.y_train) if part == "train" else (data.X_test, data.y_test)
    height, width = SHAPES[name]
    names = [f"pixel {r},{c}" for r in range(height) for c in range(width)]
    encoding = Encoding("class", tuple(Column(pixel) for pixel in names))
    return Samples(f"{name}:{part}", X, y, encoding, (height, width))
