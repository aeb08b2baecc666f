"""A model as numbers that the page's own scripts compute with, to the last bit."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from maxplus.certify.bounds import caps, steepest, view_scale
from maxplus.explain.naming import view_features, view_names, view_terms
from maxplus.models import LMM, Committee

# A page with more weights than this would take megabytes, and long to answer.
MOST_WEIGHTS = 150_000


def members_of(model: LMM | Committee) -> Sequence[LMM]:
    """A committee's members; a model alone is its only one."""
    return model.members if isinstance(model, Committee) else (model,)


def n_weights(model: LMM | Committee) -> int:
    """How many numbers the page would hold."""
    return sum(own.W1.size + own.W2.size + own.W0.size for own in members_of(model))


def model_data(
    model: LMM | Committee, scale: NDArray, feature_names: Sequence[str], spread: NDArray | None
) -> dict[str, Any]:
    """All that scores, paths and certified radii are computed from, arrays as base64.

    Sums that depend on nothing but the model, as the reach of its views, are done here: their
    order of summation is no matter of the page.

    Parameters
    ----------
    scale : how far each feature moves for a radius of 1, (P,)
    feature_names, spread : for the names of views
    """
    dtype, info = model.dtype, np.finfo(model.dtype)
    members, first = [], 0
    for own in members_of(model):
        exact = own.astype(np.float64)
        reach = np.abs(exact.slopes) * view_scale(own, scale)[:, None]
        members.append({
            "first_unit": first, "n_units": own.n_hidden, "n_views": own.n_views,
            "W0": _packed(own.W0, dtype), "W1": _packed(own.W1.T, dtype),
            "W2": _packed(own.W2.T, dtype),
            "directions": None if own.directions is None else _packed(own.directions, dtype),
            "reach": _packed(reach, np.float64), "caps": _packed(caps(exact), np.float64),
            "views": view_names(own.directions, feature_names, spread),
            "features": view_features(own.directions, own.n_features).tolist(),
            "terms": view_terms(own.directions, own.n_features, spread),
        })  # fmt: skip
        first += own.n_hidden
    return {
        "members": members,
        "single": dtype == np.float32,
        "n_classes": model.n_classes,
        "n_features": model.n_features,
        "steepest": steepest(model, scale),
        "rounding": float(info.eps),
        "least": float(info.smallest_subnormal),
    }


def _packed(array: NDArray, dtype: DTypeLike) -> str:
    """The bytes of an array, row by row, the least significant first."""
    little = np.dtype(dtype).newbyteorder("<")
    return base64.b64encode(np.ascontiguousarray(array, little).tobytes()).decode("ascii")
