"""Loaders of MNIST and Fashion-MNIST."""

from maxplus.datasets.images import (
    DamagedFileError,
    DataNotFoundError,
    ImageData,
    load_fashion_mnist,
    load_mnist,
)

__all__ = [
    "DamagedFileError",
    "DataNotFoundError",
    "ImageData",
    "load_fashion_mnist",
    "load_mnist",
]
