"""Where a training of boxes begins."""

from __future__ import annotations

from threading import Lock
from typing import NamedTuple

import numpy as np

from maxplus.estimators._capacity import Candidate, light_classes
from maxplus.estimators._choice import Rows
from maxplus.estimators._lmm_start import check_reach
from maxplus.models import LMM
from maxplus.models.starts import box_lmm, box_lmm_bytes, class_distance
from maxplus.training import memory

# Clusters are found with a warning silenced, which Python does for all threads alike.
ONE_AT_A_TIME = Lock()


class Boxes(NamedTuple):
    """A start: boxes of this slope, where the distance between classes is this."""

    model: LMM
    slope: float
    distance: float


def boxes_for(
    rows: Rows, n_classes: int, candidate: Candidate, confidence: float | None,
    rng: np.random.Generator, distance: float | None = None,
) -> Boxes:  # fmt: skip
    """Where the training of a candidate on some views begins.

    Parameters
    ----------
    rows : views, classes and weights
    n_classes : C
    candidate : units and slope
    confidence : how far below its own class a unit starts for others; slope times distance if None
    rng : what clusters begin with
    distance : between the classes, if it is known
    """
    V, y = rows.X, rows.y
    distance = class_distance(V, y, rng) if distance is None else distance
    slope = candidate.slope_for(distance)
    check_reach(V, slope)
    drop = slope * distance if confidence is None else float(confidence)
    n_hidden = candidate.hidden_for(V, n_classes)
    memory.require(
        box_lmm_bytes(V, y, n_hidden, n_classes), f"a start with n_hidden={n_hidden:,}",
        memory.FEWER_UNITS,
    )  # fmt: skip
    with ONE_AT_A_TIME:
        model = box_lmm(V, y, n_hidden, n_classes, slope, drop, rng)
    if rows.weight is not None:
        model.W2 += light_classes(y, rows.weight, n_classes).astype(model.dtype)
    return Boxes(model, slope, distance)
