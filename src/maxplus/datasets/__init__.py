"""MNIST and Fashion-MNIST; small data sets are in `sklearn.datasets`."""

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
