"""How large a model is to be: the sizes that are tried, and what they start from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

# The slope is this over the distance between classes, where no other is known to be better.
# Steeper than the paper's k: soft minima need units that end within a typical distance.
CLASS_SLOPE = 15.0
# Units per class that grow with the number of samples stay within these.
LEAST_UNITS, MOST_UNITS = 10, 50
# Rows that are looked at together.
ROWS_AT_ONCE = 4096
# Units per class that any data may have.
FEW_UNITS = 3


class Candidate(NamedTuple):
    """A size: what is seen, units per class, and slope times distance between classes.

    Attributes
    ----------
    views : what is seen: "features", "directions" or "both"
    units : per class; None follows the samples, √(N / C) within 10 and 50
    size : slope times the distance between classes, the score that a typical distance is worth
    n_hidden, slope : the user's own numbers, which come before ``units`` and ``size``
    """

    views: str
    units: int | None = None
    size: float = CLASS_SLOPE
    n_hidden: int | None = None
    slope: float | None = None

    def hidden_for(self, V: NDArray, n_classes: int) -> int:
        """Hidden units for samples V; units that nobody gave are no more than different samples.

        Units on one and the same point add up in a soft maximum, but not in the hard one.
        """
        if self.n_hidden is not None:
            return self.n_hidden
        wanted = n_classes * self.units_for(len(V), n_classes)
        return min(wanted, max(FEW_UNITS * n_classes, count_different(V, wanted)))

    def units_for(self, n_samples: int, n_classes: int) -> int:
        """Units per class."""
        if self.units is not None:
            return self.units
        return min(max(round(math.sqrt(n_samples / n_classes)), LEAST_UNITS), MOST_UNITS)

    def slope_for(self, distance: float) -> float:
        """The slope where the distance between classes is this."""
        return self.size / distance if self.slope is None else self.slope

    @property
    def flexibility(self) -> float:
        """An order from gentle to flexible."""
        return (self.units or 30) * self.size * (0.5 if self.views == "directions" else 1.0)


# From one gentle unit per class, or directions alone, to what clean data of any size need. The
# first three are for rows that tell little: the log loss is lower with them.
CANDIDATES = (
    Candidate("directions", 1, 3.0),
    Candidate("directions", 3, 1.5),
    Candidate("both", 1, 3.0),
    Candidate("directions", 3, 3.0),
    Candidate("features", 3, 3.0),
    Candidate("both", 3, 3.0),
    Candidate("both", 3, 6.0),
    Candidate("features", 10, 6.0),
    Candidate("features", None, 8.0),
    Candidate("both", None, 8.0),
    Candidate("features", None, 30.0),
    Candidate("both", None, 30.0),
)


def count_different(X: NDArray, enough: int) -> int:
    """How many rows differ from all others, counted up to ``enough``; O(N·P)."""
    seen: set[bytes] = set()
    for lo in range(0, len(X), ROWS_AT_ONCE):
        for row in np.ascontiguousarray(X[lo : lo + ROWS_AT_ONCE]):
            seen.add(row.tobytes())
            if len(seen) >= enough:
                return len(seen)
    return len(seen)


def candidates_for(views: Sequence[str]) -> tuple[Candidate, ...]:
    """Those that see what may be seen."""
    return tuple(candidate for candidate in CANDIDATES if candidate.views in views)


def light_classes(y: NDArray, weight: NDArray, n_classes: int) -> NDArray:
    """How far below the others each class begins: log of its weight's share, at most 0.

    A start from boxes takes all classes for equally likely. A class that weighs less than another,
    per sample and in sum, is less likely by that much; steps on samples of
    little weight would hardly get there.
    """
    count, total = np.bincount(y, minlength=n_classes), np.bincount(y, weight, n_classes)
    seen = count > 0
    mean = total / np.maximum(count, 1)
    share = np.maximum(mean / mean.max(), total / total.max())
    return np.log(share, where=seen & (share > 0), out=np.zeros(n_classes))
