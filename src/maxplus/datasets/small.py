"""scikit-learn's small data sets, with the names of features and classes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class SmallData(NamedTuple):
    """Samples, their labels, and what both are called."""

    X: NDArray
    y: NDArray
    feature_names: tuple[str, ...]
    class_names: tuple[str, ...]


def load_iris() -> SmallData:
    """150 flowers of three species, four lengths each.

    Returns
    -------
    SmallData

    Examples
    --------
    >>> from maxplus.datasets import load_iris
    >>> load_iris().X.shape
    (150, 4)
    """
    from sklearn.datasets import load_iris

    return _named(load_iris())


def load_digits() -> SmallData:
    """1,797 digits of 8 × 8 pixels, values 0 to 16.

    Returns
    -------
    SmallData

    Examples
    --------
    >>> from maxplus.datasets import load_digits
    >>> load_digits().X.shape
    (1797, 64)
    """
    from sklearn.datasets import load_digits

    return _named(load_digits())


def load_wine() -> SmallData:
    """178 wines of three growers, thirteen measurements each; scale them before training.

    Returns
    -------
    SmallData

    Examples
    --------
    >>> from maxplus.datasets import load_wine
    >>> load_wine().X.shape
    (178, 13)
    """
    from sklearn.datasets import load_wine

    return _named(load_wine())


def load_breast_cancer() -> SmallData:
    """569 tumours, thirty measurements each; scale them before training.

    Returns
    -------
    SmallData

    Examples
    --------
    >>> from maxplus.datasets import load_breast_cancer
    >>> load_breast_cancer().X.shape
    (569, 30)
    """
    from sklearn.datasets import load_breast_cancer

    return _named(load_breast_cancer())


def _named(bunch: Any) -> SmallData:
    return SmallData(
        np.asarray(bunch.data, float),
        np.asarray(bunch.target),
        tuple(str(name) for name in bunch.feature_names),
        tuple(str(name) for name in bunch.target_names),
    )
