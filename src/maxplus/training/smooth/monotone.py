"""Monotonicity constraints on a sum of terms with two outputs.

z_1 − z_0 does not decrease in a feature with sign +1 if, in every term, z_1 does not decrease and
z_0 does not increase in it. This holds by construction: each unit contributes to one class only and
has no wall in the opposite direction. Minima, maxima, sums, and products with slopes of one sign
are monotone in floating-point arithmetic, too, so rounding cannot violate the constraint.

The weights of a network must be finite. An absent wall or score is therefore represented by a
weight that is not active for any mapped input, which `deactivate_absent_weights`
ensures after training.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxplus.models import LMM, AdditiveLMM, FeatureMap, Term

# Magnitude of absent weights during training, so that their exponentials are negligible.
ABSENT = 1e6
# Margin by which an absent weight is inactive, relative to the values it is compared with.
DISTANCE = 1e-3


class MonotonicConstraints(NamedTuple):
    """Signs of the features, 1, −1 or 0, and the ranges of their mapped values, arrays (P,)."""

    signs: NDArray
    low: NDArray
    high: NDArray

    @classmethod
    def from_signs(cls, signs: NDArray, feature_map: FeatureMap) -> MonotonicConstraints:
        """Return the constraints for features that are transformed by ``feature_map``."""
        starts = feature_map.starts
        return cls(signs, feature_map.u[starts[:-1]], feature_map.u[starts[1:] - 1])


def constrain(model: AdditiveLMM, signs: NDArray) -> AdditiveLMM:
    """Return an initial model whose terms satisfy the constraints; O(weights).

    In a term over one feature, the slope of the opposite direction is 0, so that its wall is a
    constant bound: units of class 1 are bounded ramps, whose maximum is a monotone function with
    several steps, and one unit of class 0 is constant.
    """
    lmms = [_constrained(lmm, signs[f]) if signs[f].any() else lmm for f, lmm in model.terms]
    return with_lmms(model, lmms)


def with_lmms(model: AdditiveLMM, lmms: Iterable[LMM]) -> AdditiveLMM:
    """Return the sum with other LMMs of the same features."""
    terms = [Term(term.features, lmm) for term, lmm in zip(model.terms, lmms, strict=True)]
    return AdditiveLMM(terms, model.n_features, model.feature_map, model.intercept)


def _constrained(lmm: LMM, signs: NDArray) -> LMM:
    """Return an initial LMM of `constrain`; ``signs`` are those of its features."""
    W0, W1, W2 = lmm.W0.copy(), lmm.W1.copy(), lmm.W2.copy()
    own = W2.argmax(axis=1)
    if signs.size == 1:
        wall, bound = (0, 1) if signs[0] > 0 else (1, 0)
        # Ramps of slope k that cross the line k·u/2 at the centres of the units.
        centre, width = 0.5 * (W1[bound] - W1[wall]), 0.5 * (W1[0] + W1[1])
        W0[bound] = 0.0
        W1[wall], W1[bound] = -0.5 * centre, 0.5 * (centre + width)
        own[:-1], own[-1] = 1, 0
        W1[wall, -1], W1[bound, -1] = ABSENT, 0.0
    else:
        for p in np.flatnonzero(signs):
            # Rows of + slopes are even; units of class 1 have no wall against the sign.
            against = 2 * p + (1 if signs[p] > 0 else 0)
            W1[against, own == 1] = ABSENT
            W1[against ^ 1, own == 0] = ABSENT
    W2[np.arange(own.size), own] = W2.max(axis=1)
    W2[np.arange(own.size), 1 - own] = -ABSENT
    return LMM(W0, W1, W2)


def deactivate_absent_weights(model: AdditiveLMM, monotonic: MonotonicConstraints) -> AdditiveLMM:
    """Return the model with absent weights that are not active for any input; O(weights)."""
    lmms = [
        _deactivated(lmm, monotonic.low[f], monotonic.high[f]) if monotonic.signs[f].any() else lmm
        for f, lmm in model.terms
    ]
    return with_lmms(model, lmms)


def _deactivated(lmm: LMM, lowest: NDArray, highest: NDArray) -> LMM:
    """Return the LMM with inactive absent weights for inputs between ``lowest`` and ``highest``."""
    rows = np.repeat(np.stack([lowest, highest]), 2, axis=1) * lmm.W0
    low, high = rows.min(axis=0)[:, None], rows.max(axis=0)[:, None]
    W1, W2 = lmm.W1.copy(), lmm.W2.copy()
    no_wall, no_score = W1 > 0.5 * ABSENT, W2 < -0.5 * ABSENT
    # Bounds of units from their walls, and of scores from their units.
    least = np.where(no_wall, np.inf, W1 + low).min(axis=0)
    most = np.where(no_wall, np.inf, W1 + high).min(axis=0)
    floor = np.where(no_score, -np.inf, W2 + least[:, None]).max(axis=0)
    walls, scores = most - low, floor - most[:, None]
    walls = walls + DISTANCE * (1.0 + np.abs(most) + np.abs(low))
    scores = scores - DISTANCE * (1.0 + np.abs(floor) + np.abs(most)[:, None])
    return LMM(lmm.W0, np.where(no_wall, walls, W1), np.where(no_score, scores, W2))
