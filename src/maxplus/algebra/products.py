"""Matrix products over the min-plus and max-plus semirings, and the morphological perceptron."""

import math
from numbers import Real
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxplus.algebra import _kernels


@overload
def minplus(A: ArrayLike, B: ArrayLike, *, return_index: Literal[False] = ...) -> NDArray: ...
@overload
def minplus(
    A: ArrayLike, B: ArrayLike, *, return_index: Literal[True]
) -> tuple[NDArray, NDArray]: ...
def minplus(A: ArrayLike, B: ArrayLike, *, return_index: bool = False) -> Any:
    """Return the min-plus product, ``out[i, k] = min_j (A[i, j] + B[j, k])``.

    Parameters
    ----------
    A : array of shape (n, m)
    B : array of shape (m, k)
        The product of two float32 operands is float32, any other product float64. +inf is the zero
        of the semiring: its sum with any number is +inf.
    return_index : bool, default=False
        Also return the winning j, the lowest one among equals.

    Returns
    -------
    values : array of shape (n, k); +inf where m is 0 or every term is +inf
    index : integer array of shape (n, k), only with ``return_index=True``

    Notes
    -----
    O(n·m·k) additions and comparisons, a tenth more with the index; parallel over rows.

    Examples
    --------
    >>> from maxplus.algebra import minplus
    >>> minplus([[0.0, 3.0]], [[5.0], [1.0]])
    array([[4.]])
    """
    return _product(A, B, np.inf, return_index)


@overload
def maxplus(A: ArrayLike, B: ArrayLike, *, return_index: Literal[False] = ...) -> NDArray: ...
@overload
def maxplus(
    A: ArrayLike, B: ArrayLike, *, return_index: Literal[True]
) -> tuple[NDArray, NDArray]: ...
def maxplus(A: ArrayLike, B: ArrayLike, *, return_index: bool = False) -> Any:
    """Return the max-plus product, ``out[i, k] = max_j (A[i, j] + B[j, k])``.

    As in `minplus`, with −inf as the zero of the semiring.

    Parameters
    ----------
    A : array of shape (n, m)
    B : array of shape (m, k)
    return_index : bool, default=False
        Also return the winning j, the lowest one among equals.

    Returns
    -------
    values : array of shape (n, k); −inf where m is 0 or every term is −inf
    index : integer array of shape (n, k), only with ``return_index=True``

    Examples
    --------
    >>> from maxplus.algebra import maxplus
    >>> values, index = maxplus([[0.0, 3.0]], [[5.0], [1.0]], return_index=True)
    >>> values, index
    (array([[5.]]), array([[0]]))
    """
    return _product(A, B, -np.inf, return_index)


def morphological_perceptron(
    x: ArrayLike, w: ArrayLike, b: float = -np.inf
) -> np.floating | NDArray:
    """Return the activation max{ b, max_i (x_i + w_i) } (definition 2.1 of the paper).

    Parameters
    ----------
    x : array of shape (n_features,) or (n_samples, n_features)
    w : array of shape (n_features,)
    b : float, default=-inf
        Bias; −inf, the zero of the semiring, for no bias.

    Returns
    -------
    activation : a number for a vector, an array of shape (n_samples,) for a matrix

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
    if x.ndim not in (1, 2):
        raise ValueError(
            f"x must have shape (n_features,) or (n_samples, n_features), got shape {x.shape}"
        )
    rows, w = as_operand("x", np.atleast_2d(x), 2), as_operand("w", w, 1)
    if rows.shape[1] != w.size:
        raise ValueError(f"x has {rows.shape[1]} features and w has {w.size}; they must be equal")
    activation = np.maximum(maxplus(rows, w[:, None])[:, 0], b)
    return activation[0] if x.ndim == 1 else activation


def as_operand(name: str, value: ArrayLike, ndim: int) -> NDArray:
    """Return a float32 or float64 array; raise an error for another dimension or type, or NaN."""
    array = np.asarray(value)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"{name} must hold real numbers, got dtype {array.dtype}")
    if array.dtype != np.float32:
        array = array.astype(np.float64, copy=False)
    if array.ndim != ndim:
        raise ValueError(f"{name} must have {ndim} dimension(s), got shape {array.shape}")
    # The minimum is NaN if any element is; this needs no temporary array.
    if array.size and np.isnan(array.min()):
        raise ValueError(f"{name} contains NaN; replace or drop the missing values first")
    return array


def _product(A: ArrayLike, B: ArrayLike, zero: float, return_index: bool) -> Any:
    A, B = as_operand("A", A, 2), as_operand("B", B, 2)
    if A.shape[1] != B.shape[0]:
        raise ValueError(
            f"A has {A.shape[1]} columns and B has {B.shape[0]} rows; they must be equal"
        )
    dtype = np.result_type(A, B)
    A = np.ascontiguousarray(A, dtype)
    BT = np.ascontiguousarray(B.T, dtype)
    values = np.empty((A.shape[0], BT.shape[0]), dtype)
    winners = np.empty(values.shape, np.int64)
    if return_index and A.shape[1] == 0 and values.size:
        raise ValueError(f"return_index=True needs at least one column in A; got shape {A.shape}")
    if _contains_opposite_infinity(A, zero) or _contains_opposite_infinity(BT, zero):
        _kernels.annihilating_sums(A, BT, dtype.type(zero), values, winners)
    elif return_index:
        _kernels.winners_into(A, BT, zero > 0, values, winners)
    else:
        _kernels.product_into(A, BT, zero > 0, values)
    return (values, winners) if return_index else values


def _contains_opposite_infinity(array: NDArray, zero: float) -> bool:
    """Return whether the array contains the infinity that is not the zero of the semiring."""
    extreme = array.min(initial=np.inf) if zero > 0 else array.max(initial=-np.inf)
    return bool(extreme == -zero)
