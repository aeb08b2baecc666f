"""A model as numbers that the page's own scripts compute with, to the last bit."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from maxplus.certify.bounds import caps
from maxplus.certify.margins import Margins, shapes_of
from maxplus.models import LMM, AdditiveLMM, Term

# A page with more weights than this would take megabytes, and long to answer.
MOST_WEIGHTS = 150_000


def as_sum(model: LMM | AdditiveLMM) -> AdditiveLMM:
    """Return the model itself, or the sum of a single term, which has the same scores."""
    if isinstance(model, AdditiveLMM):
        return model
    return AdditiveLMM([Term(np.arange(model.n_features), model)], model.n_features)


def n_weights(model: LMM | AdditiveLMM) -> int:
    """How many numbers the page would hold."""
    return sum(W.size for W in model.weights_by_name().values())


def model_data(model: LMM | AdditiveLMM, scale: NDArray) -> dict[str, Any]:
    """Return all that scores and certified radii are computed from, arrays as base64.

    Parameters
    ----------
    model : LMM or AdditiveLMM
    scale : how far each feature moves for a radius of 1, (P,)
    """
    total = as_sum(model)
    P, dtype, info = model.n_features, model.dtype, np.finfo(model.dtype)
    exact = total.astype(np.float64)
    margins = Margins(total, np.zeros((0, P)), np.zeros(0, int), scale)
    is_sum = isinstance(model, AdditiveLMM)
    feature_map = total.feature_map
    T = len(total.terms)
    return {
        "is_sum": is_sum,
        "terms": [
            {
                "features": features.tolist(), "n_units": lmm.n_hidden,
                "W0": _packed(lmm.W0, dtype), "W1": _packed(lmm.W1.T, dtype),
                "W2": _packed(lmm.W2.T, dtype), "caps": _packed(caps(own), np.float64),
            }
            for (features, lmm), (_, own) in zip(total.terms, exact.terms, strict=True)
        ],
        # Terms over one feature, with the points at which slopes change; bounds are exact there.
        "shapes": [
            {
                "feature": shape.feature, "points": _packed(shape.points, np.float64),
                "scores": _packed(shape.scores, np.float64),
                "terms": [t for t, term in enumerate(total.terms)
                          if term.features.tolist() == [shape.feature]],
            }
            for shape in shapes_of(exact)
        ],
        "map": None if feature_map is None else {
            "starts": feature_map.starts.tolist(), "x": _packed(feature_map.x, np.float64),
            "u": _packed(feature_map.u, np.float64),
            "rises": _packed(feature_map.rises, np.float64),
        },
        "intercept": _packed(total.intercept, dtype),
        "single": dtype == np.float32,
        "n_classes": model.n_classes,
        "scale": margins.scale.tolist(),
        "steepest": margins.slope,
        # What rounding adds to a margin: a share of the largest numbers, and the least there is.
        "rounding": (2.0 * T + 6.0) * float(info.eps) + (2.0 * T + 64.0) * 2.0**-52,
        "least": 32.0 * (T + 1.0) * float(info.smallest_subnormal),
    }  # fmt: skip


def _packed(array: NDArray, dtype: DTypeLike) -> str:
    """The bytes of an array, row by row, the least significant first."""
    little = np.dtype(dtype).newbyteorder("<")
    return base64.b64encode(np.ascontiguousarray(array, little).tobytes()).decode("ascii")
