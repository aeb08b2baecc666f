"""The morphological perceptron, the building block of max-plus networks."""

import math
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxplus.algebra.products import as_operand, maxplus


def morphological_perceptron(
    x: ArrayLike, w: ArrayLike, b: float = -np.inf
) -> np.floating | NDArray:
    """Activation a(x) = max{ b, max_i (x_i + w_i) } (the paper's definition 2.1).

    Parameters
    ----------
    x : array of shape (n_features,) or (n_samples, n_features)
    w : array of shape (n_features,)
    b : float
        Bias; −inf, the semiring's zero, leaves it out.

    Returns
    -------
    One activation for a vector, an array of shape (n_samples,) for a matrix.

    Examples
    --------
    >>> from maxplus.algebra import morphological_perceptron
    >>> float(morphological_perceptron([1.0, 2.0], [0.0, -5.0], b=0.5))
    1.0
    """
    if not isinstance(b, Real):
        raise TypeError(f"b must be a number, got {b!r}")
    if math.isnan(b):
        raise ValueError("b is NaN; give a number, or -inf for no bias")
    x = np.asarray(x)
    rows, w = as_operand("x", np.atleast_2d(x), 2), as_operand("w", w, 1)
    if rows.shape[1] != w.size:
        raise ValueError(f"x has {rows.shape[1]} features and w has {w.size}; they must be equal")
    activation = np.maximum(maxplus(rows, w[:, None])[:, 0], b)
    return activation[0] if x.ndim == 1 else activation
