"""Crossings of scores as one feature moves."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxplus._compile.jit import frozen
from maxplus._compile.patience import soonest
from maxplus.explain import _term_kernels
from maxplus.explain._term_kernels import PARALLEL_FROM, FlatTerms, Room
from maxplus.models import AdditiveLMM

# Rounding of a forward pass, in units of the scores' last place, that a flip must get over.
ROUNDINGS = 16
# Python's walk along a feature takes as long as so many additions for each line of each unit; and
# for each of its classes.
INTERPRETED, PER_CLASS = 4_000, 400


class Nearest(NamedTuple):
    """Of each row: the feature (−1: none) whose crossing is nearest, in units, and its change."""

    feature: NDArray
    change: NDArray


def for_kernels(room: Room) -> Room:
    """Return the room with read-only arrays, so that kernels compile once."""
    return Room(*map(frozen, room))


class TermCrossings:
    """Where another class's score passes that of class y, as one feature moves.

    Scores of a sum of terms are piecewise linear along a feature. Exact in float64: see
    `_term_kernels`.
    """

    def __init__(self, model: AdditiveLMM) -> None:
        self.model = model
        self.terms = flat_terms(model)
        sizes = [term.features.size * term.lmm.n_hidden for term in model.terms]
        self._cost = sum(sizes) * (INTERPRETED + PER_CLASS * model.n_classes)
        self._steep = np.abs(self.terms.slopes).max(axis=1)

    def nearest(self, X: NDArray, y: NDArray, room: Room, moves: NDArray) -> Nearest:
        """The nearest crossing of each row, among the features moves[n] of row n."""
        found = np.empty(len(X), int), np.empty(len(X)), np.empty(len(X), int)
        kernel = _term_kernels.nearest_term_flips
        if len(X) * self.terms.offsets.size < 2 * PARALLEL_FROM:
            kernel = soonest(len(X) * self._cost, kernel.serial)
        limits = for_kernels(room._replace(moves=moves))
        kernel(frozen(X), y, self.terms, *limits, *found)
        return Nearest(*found[:2])

    def along(
        self, x: NDArray, y: int, room: Room, lead: float = 0.0, *, only_nearest: bool = False
    ) -> NDArray:
        """How far each feature must rise, and fall, for another class to win by the lead.

        Shape (P, 2), infinite where it cannot within the room; with ``only_nearest`` also where
        it is farther than the nearest.
        """
        change, becomes = np.empty((x.size, 2)), np.empty((x.size, 2), int)
        kernel = soonest(self._cost, _term_kernels.all_term_flips)
        kernel(frozen(x), y, self.terms, for_kernels(room), only_nearest, lead, change, becomes)
        return change

    def rounding(self, x: NDArray) -> float:
        """Machine precision times how large the numbers are that a score of x is the sum of."""
        model, size = self.model, np.abs(x)
        if model.feature_map is not None:
            size = np.array([self._largest_value(p, size[p]) for p in range(x.size)])
        sizes = self._steep * size[self.terms.features]
        largest = float(np.maximum.reduceat(sizes, self.terms.first_place[:-1]).sum())
        largest += float(np.abs(model.intercept).max())
        for _, lmm in model.terms:
            largest += float(np.abs(lmm.W1).max()) + float(np.abs(lmm.W2).max())
        # A score is a sum of T numbers, each of which may be rounded.
        return float(np.finfo(model.dtype).eps) * largest * (1.0 + len(model.terms) / ROUNDINGS)

    def _largest_value(self, p: int, size: float) -> float:
        """The largest |φ_p|, and what rounding x to the model's float type adds to it."""
        part = slice(*self.terms.first_knot[p : p + 2])
        inside = min(size, float(np.abs(self.terms.knots[part]).max()))
        return float(np.abs(self.terms.values[part]).max() + self.terms.rises[part].max() * inside)

    def steepest(self, p: int, value: float) -> float:
        """The most that a score changes with feature p near a value; inf where none does."""
        rise = 1.0
        if self.model.feature_map is not None:
            part = slice(*self.terms.first_knot[p : p + 2])
            k = int(np.searchsorted(self.terms.knots[part], value))
            rise = float(self.terms.rises[part][max(0, k - 1) : k + 1].max(initial=0.0))
        steepest = rise * float(self._steep[self.terms.features == p].sum())
        return steepest if steepest > 0.0 else np.inf


def flat_terms(model: AdditiveLMM) -> FlatTerms:
    """Return the weights of all terms as the kernels take them."""
    lmms = [term.lmm.astype(np.float64) for term in model.terms]
    n_features = [term.features.size for term in model.terms]
    features = np.concatenate([term.features for term in model.terms])
    order = np.argsort(features, kind="stable")
    feature_map, none = model.feature_map, np.empty(0)
    return FlatTerms(
        first_place=_starts(n_features),
        first_unit=_starts([lmm.n_hidden for lmm in lmms]),
        first_wall=_starts([lmm.n_hidden * lmm.n_features for lmm in lmms]),
        features=features,
        slopes=np.concatenate([lmm.slopes for lmm in lmms]),
        offsets=np.concatenate([lmm.offsets.reshape(-1, 2) for lmm in lmms]),
        W2T=np.ascontiguousarray(np.concatenate([lmm.W2 for lmm in lmms]).T),
        intercept=model.intercept.astype(np.float64),
        first_use=_starts(np.bincount(features, minlength=model.n_features)),
        used_term=np.repeat(np.arange(len(lmms)), n_features)[order],
        used_place=order,
        first_knot=_starts([0] * model.n_features) if feature_map is None else feature_map.starts,
        knots=none if feature_map is None else feature_map.x,
        values=none if feature_map is None else feature_map.u,
        rises=none if feature_map is None else feature_map.rises,
    )


def _starts(sizes: list[int] | NDArray) -> NDArray:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
