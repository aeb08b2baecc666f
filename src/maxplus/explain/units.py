"""Hidden units as the boxes they are."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxplus.explain._checks import EACH_MEMBER, check_lmm
from maxplus.models import LMM
from maxplus.models._checks import check_number


class Boxes(NamedTuple):
    """Where each unit's value is at least a level: low ≤ v_m ≤ high for all views m.

    The views are the features, or the model's directions. ``low`` and ``high`` have shape
    (H, M) and are infinite where there is no wall.
    Where low > high no value of the view is enough: the unit is below the level
    everywhere.
    ``centre`` (H, M) is where the unit is highest along each view, NaN where
    nothing limits it; ``favourite`` (H,) the class that the unit's output is
    largest for, ``height`` (H,) that output W2.
    """

    low: NDArray
    high: NDArray
    centre: NDArray
    favourite: NDArray
    height: NDArray


def unit_boxes(model: LMM, level: float = 0.0) -> Boxes:
    """The set {v: g_h(v) ≥ level} of each unit h; O(M·H).

    It is a box because g_h is a minimum over views: g_h(v) ≥ level exactly when
    a·v_m + A ≥ level for each row, a half-line of v_m that begins or ends at (level − A) / a.
    A structured start has boxes of no width at level 0: the prototypes.

    Parameters
    ----------
    model : LMM
    level : float, default=0.0

    Returns
    -------
    Boxes

    Examples
    --------
    >>> from maxplus.explain import unit_boxes
    >>> from maxplus.models import LMM
    >>> boxes = unit_boxes(LMM.of_boxes([[2.0]], 0.5, [[0.0, -1.0]], 4.0))
    >>> boxes.low.tolist(), boxes.high.tolist()
    ([[1.5]], [[2.5]])
    """
    check_lmm(model, "boxes are those of", EACH_MEMBER)
    level = check_number("level", level)
    exact = model.astype(np.float64)
    slope, offset = exact.slopes, exact.offsets
    with np.errstate(divide="ignore", invalid="ignore"):
        wall = (level - offset) / slope
    # A row without a slope is no wall; if it is below the level, nothing is inside.
    outside = (slope == 0) & (level > offset)
    from_below = np.where(slope > 0, wall, np.where(outside, np.inf, -np.inf))
    from_above = np.where(slope < 0, wall, np.where(outside, -np.inf, np.inf))
    favourite = model.W2.argmax(axis=1)
    height = model.W2[np.arange(model.n_hidden), favourite]
    return Boxes(from_below.max(axis=2), from_above.min(axis=2), _centre(exact), favourite, height)


def _centre(model: LMM) -> NDArray:
    """Where the two lines of each view cross, if one rises and the other falls."""
    a, b = model.slopes.T
    A, B = np.moveaxis(model.offsets, -1, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        crossing = (B - A) / (a - b)
    return np.where(a * b < 0, crossing, np.nan)
