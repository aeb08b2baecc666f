"""Where a training of boxes begins."""

from __future__ import annotations

import math
from threading import Lock
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxplus.estimators._folds import Rows
from maxplus.estimators._lmm_start import check_reach
from maxplus.models import LMM
from maxplus.models.initialization import box_lmm, box_lmm_bytes, class_distance
from maxplus.training import memory

# The slope is this over the distance between classes, where no other is known to be better.
# Steeper than the paper's k: soft minima need units that end within a typical distance.
CLASS_SLOPE = 15.0
# Units per class that grow with the number of samples stay within these.
LEAST_UNITS, MOST_UNITS = 10, 50
# Units per class that any data may have.
FEW_UNITS = 3
# Rows that are looked at together.
ROWS_AT_ONCE = 4096
# Clusters are found with a warning silenced, which Python does for all threads alike.
ONE_AT_A_TIME = Lock()


class Capacity(NamedTuple):
    """Hidden units and slope of a single network; None follows the data."""

    n_hidden: int | None = None
    slope: float | None = None

    def hidden_for(self, X: NDArray, n_classes: int) -> int:
        """Return the hidden units for samples X: √(N / C) per class within 10 and 50, if not given.

        There are no more than different samples: units on one and the same point add up in a soft
        maximum, but not in the hard one.
        """
        if self.n_hidden is not None:
            return self.n_hidden
        per_class = min(max(round(math.sqrt(len(X) / n_classes)), LEAST_UNITS), MOST_UNITS)
        wanted = n_classes * per_class
        return min(wanted, max(FEW_UNITS * n_classes, count_different(X, wanted)))


class Boxes(NamedTuple):
    """A start: boxes of this slope, where the distance between classes is this."""

    model: LMM
    slope: float
    distance: float


def boxes_for(
    rows: Rows, n_classes: int, capacity: Capacity, init_margin: float | None,
    rng: np.random.Generator,
) -> Boxes:  # fmt: skip
    """Return where the training of a single network begins.

    Parameters
    ----------
    rows : scaled features, classes and weights
    n_classes : C
    capacity : units and slope
    init_margin : how far below its own class a unit starts for others; slope times distance if None
    rng : what clusters begin with
    """
    X, y = rows.X, rows.y
    distance = class_distance(X, y, rng)
    slope = CLASS_SLOPE / distance if capacity.slope is None else capacity.slope
    check_reach(X, slope)
    drop = slope * distance if init_margin is None else float(init_margin)
    n_hidden = capacity.hidden_for(X, n_classes)
    memory.require(
        box_lmm_bytes(X, y, n_hidden, n_classes), f"a start with n_hidden={n_hidden:,}",
        memory.FEWER_UNITS,
    )  # fmt: skip
    with ONE_AT_A_TIME:
        model = box_lmm(X, y, n_hidden, n_classes, slope, drop, rng)
    if rows.weight is not None:
        model.W2 += light_classes(y, rows.weight, n_classes).astype(model.dtype)
    return Boxes(model, slope, distance)


def count_different(X: NDArray, enough: int) -> int:
    """Return how many rows differ from all others, counted up to ``enough``; O(N·P)."""
    seen: set[bytes] = set()
    for lo in range(0, len(X), ROWS_AT_ONCE):
        for row in np.ascontiguousarray(X[lo : lo + ROWS_AT_ONCE]):
            seen.add(row.tobytes())
            if len(seen) >= enough:
                return len(seen)
    return len(seen)


def light_classes(y: NDArray, weight: NDArray, n_classes: int) -> NDArray:
    """Return how far below the others each class begins: log of its weight's share, at most 0.

    A start from boxes takes all classes for equally likely. A class that weighs less than another,
    per sample and in sum, is less likely by that much; steps on samples of
    little weight would hardly get there.
    """
    count, total = np.bincount(y, minlength=n_classes), np.bincount(y, weight, n_classes)
    seen = count > 0
    mean = total / np.maximum(count, 1)
    share = np.maximum(mean / mean.max(), total / total.max())
    return np.log(share, where=seen & (share > 0), out=np.zeros(n_classes))
