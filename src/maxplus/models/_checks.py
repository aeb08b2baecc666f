"""Input validation of public methods; kernels do not check shapes and indices."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxplus._compile.jit import frozen

FLOAT_TYPES = (np.dtype(np.float32), np.dtype(np.float64))


def check_weights(kind: str, shapes: dict[str, str], *weights: NDArray) -> None:
    """Raise ValueError unless weights have consistent shapes and one float type.

    ``shapes`` maps the name of each weight array to the names of its dimensions, such as "2P, H".
    Dimensions with the same name must have the same size.
    """
    expected = ", ".join(f"{name} ({axes})" for name, axes in shapes.items())
    got = ", ".join(f"{name} {W.shape}" for name, W in zip(shapes, weights, strict=True))
    sizes: dict[str, int] = {}
    for axes, W in zip(shapes.values(), weights, strict=True):
        names = axes.split(", ")
        if len(names) != W.ndim or any(
            sizes.setdefault(name, n) != n for name, n in zip(names, W.shape, strict=True)
        ):
            raise ValueError(f"{kind} requires weights of shapes {expected}; got {got}")
    if sizes.get("2P", 0) % 2 or 0 in sizes.values():
        raise ValueError(
            f"{kind} requires weights of shapes {expected} with all sizes >= 1; got {got}"
        )
    if weights[0].dtype not in FLOAT_TYPES or len({W.dtype for W in weights}) > 1:
        types = ", ".join(f"{name} {W.dtype}" for name, W in zip(shapes, weights, strict=True))
        raise ValueError(
            f"{kind} requires weights that are all float32 or all float64; got {types}; "
            "convert them with astype"
        )


def as_rows(X: ArrayLike, n_features: int, dtype: Any) -> NDArray:
    """Validate samples and return them as a contiguous read-only array (N, P) of a float type."""
    array = np.asarray(X)
    if array.ndim != 2 or array.shape[1] != n_features:
        hint = "; pass one sample as x[None]" if array.ndim == 1 else ""
        raise ValueError(
            f"X must have {n_features} columns, one for each feature of the model; "
            f"got shape {array.shape}{hint}"
        )
    return frozen(_as_floats("X", array, dtype))


def as_row(x: ArrayLike, n_features: int, dtype: Any) -> NDArray:
    """Validate a sample and return it as a contiguous read-only array (P,) of a float type."""
    array = np.asarray(x)
    if array.shape != (n_features,):
        raise ValueError(
            f"x must hold {n_features} numbers, one for each feature of the model; "
            f"got shape {array.shape}"
        )
    return frozen(_as_floats("x", array, dtype))


def as_labels(y: ArrayLike, n_samples: int, n_classes: int) -> NDArray:
    """Validate class indices and return them as a contiguous read-only int64 array (N,)."""
    array = np.asarray(y)
    if array.shape != (n_samples,):
        raise ValueError(
            f"y must hold one label for each of the {n_samples} rows of X; got shape {array.shape}"
        )
    if array.dtype.kind not in "iu" and array.size:
        raise ValueError(
            f"y must hold integers 0..{n_classes - 1}; got dtype {array.dtype}; "
            "encode the labels first, for example with numpy.unique(y, return_inverse=True)"
        )
    labels = frozen(np.ascontiguousarray(array, np.int64))
    if labels.size and not 0 <= labels.min() <= labels.max() < n_classes:
        wrong = array[(labels < 0) | (labels >= n_classes)][0]
        raise ValueError(f"y must hold labels 0..{n_classes - 1}; got {wrong}")
    return labels


def check_index(name: str, value: Any, size: int) -> int:
    """Return an integer in 0..size−1; ValueError for other values."""
    if not isinstance(value, Integral) or not 0 <= int(value) < size:
        raise ValueError(f"{name} must be an integer 0..{size - 1}; got {value!r:.80}")
    return int(value)


def check_number(
    name: str, value: Any, *, above: float = -math.inf, minimum: float = -math.inf
) -> float:
    """Return a finite number > ``above`` and >= ``minimum``; ValueError for other values."""
    number = float(value) if isinstance(value, Real) else math.nan
    if not (above < number < math.inf and number >= minimum):
        limits = f" > {above:g}" * (above > -math.inf) + f" >= {minimum:g}" * (minimum > -math.inf)
        raise ValueError(f"{name} must be a finite number{limits}; got {value!r:.80}")
    return number


def feature_values(name: str, value: ArrayLike, n_features: int) -> NDArray:
    """Return a number for each feature as a contiguous float64 array (P,) without NaN."""
    try:
        array = np.asarray(value, np.float64)
    except (TypeError, ValueError):
        array = np.array(np.nan)
    if array.shape not in ((), (n_features,)) or np.isnan(array).any():
        raise ValueError(
            f"{name} must be a number or {n_features} numbers, one for each feature; "
            f"got {value!r:.80}"
        )
    return np.ascontiguousarray(np.broadcast_to(array, n_features))


def check_affine(centre: ArrayLike, spread: ArrayLike, n_features: int) -> tuple[NDArray, NDArray]:
    """Return finite centres and positive spreads of the features, arrays (P,)."""
    c = feature_values("centre", centre, n_features)
    if not np.isfinite(c).all():
        raise ValueError(f"centre must be finite; got {centre!r:.80}")
    s = feature_values("spread", spread, n_features)
    if not (np.isfinite(s).all() and (s > 0.0).all()):
        raise ValueError(f"spread must be finite and > 0; got {spread!r:.80}")
    return c, s


def _as_floats(name: str, array: NDArray, dtype: Any) -> NDArray:
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{name} must hold real numbers; got dtype {array.dtype}")
    return np.ascontiguousarray(array, dtype)
