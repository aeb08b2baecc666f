"""Checks of what users pass in; every message names the argument, the value and the remedy."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from numbers import Integral, Real
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from maxplus.models import Model


def check_choice(name: str, value: Any, allowed: Sequence[str]) -> str:
    """One of a few words."""
    if not isinstance(value, str) or value not in allowed:
        words = ", ".join(repr(word) for word in allowed)
        raise ValueError(f"{name} must be one of {words}; got {value!r}")
    return value


def check_integer(name: str, value: Any, minimum: int) -> int:
    """A whole number, at least ``minimum``."""
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise TypeError(f"{name} must be an integer >= {minimum}; got {value!r}")
    if value < minimum:
        raise ValueError(f"{name} must be an integer >= {minimum}; got {value!r}")
    return int(value)


def check_integer_or(name: str, value: Any, minimum: int, word: str) -> None:
    """A whole number, at least ``minimum``, or one word."""
    if isinstance(value, str):
        if value != word:
            raise ValueError(f"{name} must be an integer >= {minimum} or {word!r}; got {value!r}")
    else:
        check_integer(name, value, minimum)


def check_bool(name: str, value: Any) -> None:
    """True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be True or False; got {value!r}")


def check_real(
    name: str, value: Any, *, above: float = -math.inf, minimum: float = -math.inf,
    maximum: float = math.inf,
) -> float:  # fmt: skip
    """A finite number, > ``above``, >= ``minimum`` and <= ``maximum``."""
    bounds = [f"> {above:g}"] * (above > -math.inf)
    bounds += [f">= {minimum:g}"] * (minimum > -math.inf)
    bounds += [f"<= {maximum:g}"] * (maximum < math.inf)
    wanted = " ".join(["a finite number", " and ".join(bounds)]).strip()
    if not isinstance(value, Real) or isinstance(value, bool):
        raise TypeError(f"{name} must be {wanted}; got {value!r}")
    number = float(value)
    if not (math.isfinite(number) and number > above and minimum <= number <= maximum):
        raise ValueError(f"{name} must be {wanted}; got {value!r}")
    return number


def check_samples(name: str, value: Any, minimum: int) -> int | float:
    """How many samples, at least ``minimum``, or which part of them."""
    wanted = (
        f"an integer >= {minimum} (how many samples) or a fraction > 0 and < 1 (which part of them)"
    )
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be {wanted}; got {value!r}")
    number = cast(float, value)
    if not (0 < number < 1 or (isinstance(value, Integral) and number >= minimum)):
        raise ValueError(f"{name} must be {wanted}; got {value!r}")
    return number


def check_magnitude(X: NDArray) -> None:
    """Refuse features whose squares, as they enter a subgradient's norm, would overflow."""
    limit = 1e-4 * math.sqrt(float(np.finfo(X.dtype).max))
    largest = float(np.abs(X).max(initial=0.0))
    if largest > limit:
        raise ValueError(
            f"X reaches {largest:g}, too large to train with in {X.dtype} (at most {limit:g}); "
            "scale the features first, for example with StandardScaler"
        )


def check_callbacks(callbacks: Any) -> list[Callable]:
    """None, one callable or several."""
    if callbacks is None:
        return []
    if callable(callbacks):
        return [callbacks]
    several = list(callbacks) if isinstance(callbacks, Iterable) else [callbacks]
    if not all(callable(callback) for callback in several):
        raise TypeError(f"callbacks must be None, a callable or a list of them; got {callbacks!r}")
    return several


def check_sample_weight(sample_weight: ArrayLike | None, n_samples: int) -> NDArray | None:
    """None, or one finite number >= 0 per sample, not all zero."""
    if sample_weight is None:
        return None
    try:
        weight = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"sample_weight must hold numbers; got {sample_weight!r:.60}") from None
    if weight.shape != (n_samples,):
        raise ValueError(
            f"sample_weight must have shape ({n_samples},), one weight per sample; "
            f"got shape {weight.shape}"
        )
    if not np.isfinite(weight).all() or (weight < 0).any():
        bad = weight[~np.isfinite(weight) | (weight < 0)][0]
        raise ValueError(f"sample_weight must hold finite numbers >= 0; got {bad}")
    if not weight.any():
        raise ValueError("sample_weight is zero for every sample: none is left to train on")
    return weight


def as_dense(X: Any) -> NDArray:
    """Rows as the kernels want them; a sparse matrix is expanded."""
    return X.toarray() if sparse.issparse(X) else X


def within_range(X: NDArray, model: Model, slopes: Sequence[str]) -> NDArray:
    """X in the model's type, with numbers so large that a score would overflow moved closer.

    ``slopes`` names the weights that multiply an input.
    """
    steepest = max([1.0, *(float(np.abs(getattr(model, name)).max()) for name in slopes)])
    limit = float(np.finfo(model.dtype).max) / (8.0 * steepest * model.n_features)
    if float(np.abs(X).max(initial=0.0)) > limit:
        X = np.clip(X, -limit, limit)
    return np.ascontiguousarray(X, model.dtype)
