"""Data sets by name: scikit-learn's small ones, MNIST and Fashion-MNIST."""

from maxplus.datasets._idx import DamagedFileError
from maxplus.datasets.images import DataNotFoundError, ImageData, load_fashion_mnist, load_mnist
from maxplus.datasets.small import SmallData, load_breast_cancer, load_digits, load_iris, load_wine

__all__ = [
    "DamagedFileError",
    "DataNotFoundError",
    "ImageData",
    "SmallData",
    "load_breast_cancer",
    "load_digits",
    "load_fashion_mnist",
    "load_iris",
    "load_mnist",
    "load_wine",
]
