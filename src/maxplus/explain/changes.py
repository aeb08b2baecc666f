"""The smallest change of a few columns together that flips a prediction."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxplus.explain._change_problem import ChangeProblem
from maxplus.explain.digits import rounded_away
from maxplus.explain.domain import Domain
from maxplus.explain.flips import single_flips
from maxplus.models import LMM
from maxplus.models._checks import as_row, check_number

# Choices, in all, beyond which a search is refused, and decimals of a unit that are printed at most.
MOST_CHOICES = 5_000
MOST_DIGITS = 12


class Change(NamedTuple):
    """Columns that change together: ``features`` take ``values``; then the class is ``becomes``.

    ``distance`` is the sum of the columns' distances in units, and no change of so few columns is
    nearer than ``at_least``: equal, up to rounding, unless time ran out. Nothing flips if
    ``features`` is empty: ``becomes`` is −1 then, and ``distance`` infinite. ``row`` is the
    changed row, with its numbers rounded to few digits, away from what they are now.
    """

    features: NDArray
    values: NDArray
    becomes: int
    distance: float
    at_least: float
    row: NDArray
