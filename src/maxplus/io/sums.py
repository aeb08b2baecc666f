"""Sums of terms inside model files: flat arrays, however many terms there are.

Term t has the features ``features[feature_start[t] : feature_start[t + 1]]`` and the units
``unit_start[t]`` to ``unit_start[t + 1]``. ``W0``, ``W1`` (unit by unit) and ``W2`` are those of
all terms, one after the other. ``knot_start`` (P + 1,), ``knot_x`` and ``knot_u`` are the feature
map; without a map there are no knots.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxplus.io.container import FileError
from maxplus.models import LMM, AdditiveLMM, FeatureMap, Term

PREFIX = "model."
# Axes of the arrays: of whole numbers, of the model's floats, and of the map's, which are float64.
INTEGERS = {"feature_start": 1, "features": 1, "unit_start": 1, "knot_start": 1}
WEIGHTS = {"W0": 1, "W1": 1, "W2": 2, "intercept": 1}
KNOTS = {"knot_x": 1, "knot_u": 1}
# As much of the float range as weights, and slopes times mapped features, of all terms may take.
LARGEST_SUM = 1e-3


def sum_arrays(model: AdditiveLMM) -> dict[str, NDArray]:
    """Return a sum of terms as named arrays."""
    lmms = [lmm for _, lmm in model.terms]
    no_knots = np.zeros(model.n_features + 1), np.empty(0), np.empty(0)
    m = model.feature_map
    starts, x, u = no_knots if m is None else (m.starts, m.x, m.u)
    arrays = {
        "feature_start": np.cumsum([0, *(lmm.n_features for lmm in lmms)]),
        "features": np.concatenate([features for features, _ in model.terms]),
        "unit_start": np.cumsum([0, *(lmm.n_hidden for lmm in lmms)]),
        "knot_start": starts, "knot_x": x, "knot_u": u, "intercept": model.intercept,
        "W0": np.concatenate([lmm.W0 for lmm in lmms]),
        "W1": np.concatenate([lmm.W1.T.ravel() for lmm in lmms]),
        "W2": np.concatenate([lmm.W2 for lmm in lmms]),
    }  # fmt: skip
    arrays |= {name: arrays[name].astype(np.int64) for name in INTEGERS}
    return {PREFIX + name: array for name, array in arrays.items()}


def is_sum(arrays: dict[str, NDArray]) -> bool:
    """Return whether the model in a file is a sum of terms."""
    return f"{PREFIX}features" in arrays


def sum_of(arrays: dict[str, NDArray]) -> AdditiveLMM:
    """Return the sum that `sum_arrays` described; FileError where it cannot be."""
    dtype = getattr(arrays.get(f"{PREFIX}W0"), "dtype", None)
    own = {
        **{name: _array(arrays, name, np.int64, axes) for name, axes in INTEGERS.items()},
        **{name: _array(arrays, name, dtype, axes) for name, axes in WEIGHTS.items()},
        **{name: _array(arrays, name, np.float64, axes) for name, axes in KNOTS.items()},
    }
    _check_starts("feature_start", own["feature_start"], own["features"].size)
    _check_starts("unit_start", own["unit_start"], len(own["W2"]))
    widths, units = (np.diff(own[name]).tolist() for name in ("feature_start", "unit_start"))
    if len(widths) != len(units):
        raise FileError("the terms with features are not as many as those with units")
    n_walls = [2 * m * h for m, h in zip(widths, units, strict=True)]
    if own["W0"].size != 2 * sum(widths) or own["W1"].size != sum(n_walls):
        raise FileError("the weights W0 and W1 are not as many as the terms have")
    parts = zip(
        np.split(own["features"], own["feature_start"][1:-1]),
        np.split(own["W0"], 2 * own["feature_start"][1:-1]),
        np.split(own["W1"], np.cumsum(n_walls)[:-1]),
        np.split(own["W2"], own["unit_start"][1:-1]),
        strict=True,
    )
    try:
        terms = [
            Term(features, LMM(W0, W1.reshape(-1, W0.size).T, W2)) for features, W0, W1, W2 in parts
        ]
        feature_map = _feature_map(own)
        model = AdditiveLMM(terms, own["knot_start"].size - 1, feature_map, own["intercept"])
    except ValueError as error:
        raise FileError(str(error)) from None
    _check_range(model)
    return model


def _feature_map(own: dict[str, NDArray]) -> FeatureMap | None:
    starts, x, u = own["knot_start"], own["knot_x"], own["knot_u"]
    if x.shape != u.shape:
        raise FileError("the arrays 'knot_x' and 'knot_u' differ in length")
    if starts.size < 2:
        raise FileError("the array 'knot_start' has no feature")
    if not (starts.any() or x.size):
        return None
    _check_starts("knot_start", starts, x.size)
    pairs = zip(np.split(x, starts[1:-1]), np.split(u, starts[1:-1]), strict=True)
    return FeatureMap(list(pairs))


def _check_starts(name: str, starts: NDArray, size: int) -> None:
    """FileError unless the parts that begin at ``starts`` are not empty and make up ``size``."""
    if not (
        starts.size >= 2
        and starts[0] == 0
        and starts[-1] == size
        and (starts[1:] > starts[:-1]).all()
    ):
        raise FileError(f"the array {name!r} does not divide {size} values into parts")


def _check_range(model: AdditiveLMM) -> None:
    """FileError if a weight is not finite, or so large that sums of scores overflow."""
    limit = LARGEST_SUM * float(np.finfo(model.dtype).max) / len(model.terms)
    for name, W in model.weights_by_name().items():
        if not np.isfinite(W).all():
            raise FileError(f"the weights {name} are not all finite")
        if np.abs(W).max() > limit:
            raise FileError(f"the weights {name} are so large that scores overflow")
    if model.feature_map is None:
        return
    steepest = max(float(np.abs(lmm.W0).max()) for _, lmm in model.terms)
    highest = float(np.abs(model.feature_map.u).max())
    furthest = float(np.abs(model.feature_map.x).max())
    if max(1.0, steepest) * highest > limit or furthest > LARGEST_SUM * np.finfo(np.float64).max:
        raise FileError("the knots of the feature map are so large that scores overflow")


def _array(arrays: dict[str, NDArray], name: str, dtype: Any, n_axes: int) -> NDArray:
    array = arrays.get(PREFIX + name)
    if array is None or array.dtype != dtype or array.ndim != n_axes:
        raise FileError(f"the array {PREFIX + name!r} is missing or of another type")
    return array
