"""Where scores cross as one feature moves: all that a search for flips must know of a model."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from maxplus._compile.jit import frozen
from maxplus._compile.patience import soonest
from maxplus.explain import _flip_kernels
from maxplus.explain._flip_kernels import PARALLEL_FROM, Room, Units
from maxplus.models import LMM

# Rounding of a forward pass, in units of the scores' last place, that a flip must get over.
ROUNDINGS = 16
# Python's walk along a feature takes as long as so many additions for each line of each unit; and
# for each of its classes.
INTERPRETED, PER_CLASS = 4_000, 400


class Nearest(NamedTuple):
    """Of each row: the feature (−1: none) whose crossing is nearest, in units, and its change."""

    feature: NDArray
    change: NDArray


class Crossings(Protocol):
    """Along a feature scores are piecewise linear; here is where another class's passes y's."""

    def nearest(self, X: NDArray, y: NDArray, room: Room, moves: NDArray) -> Nearest:
        """The nearest crossing of each row, among the features moves[n] of row n."""

    def along(
        self, x: NDArray, y: int, room: Room, lead: float = 0.0, *, only_nearest: bool = False
    ) -> NDArray:
        """How far each feature must rise, and fall, for another class to win by the lead.

        Shape (P, 2), infinite where it cannot within the room; with ``only_nearest`` also where
        it is farther than the nearest.
        """

    def rounding(self, x: NDArray) -> float:
        """A unit in the last place of the numbers that the scores of x are summed from."""

    def steepest(self, p: int) -> float:
        """The most that a score changes with feature p, at least the least number."""


def for_kernels(room: Room) -> Room:
    """The same room, read-only: kernels compile once, whoever made its arrays."""
    return Room(*map(frozen, room))


class LMMCrossings:
    """Of an LMM, exact in float64: see `maxplus.explain._flip_kernels`."""

    def __init__(self, model: LMM) -> None:
        self.model = model
        self.exact = model.astype(np.float64)
        self.units = Units(self.exact.slopes, self.exact.offsets, self.exact.weights.W2T)

    def nearest(self, X: NDArray, y: NDArray, room: Room, moves: NDArray) -> Nearest:
        """O(P·H·C) for each of a few steps per feature and row, 2H at most."""
        N, D = len(X), self.exact.directions
        found = np.empty(N, int), np.empty(N), np.empty(N, int)
        limits = for_kernels(room._replace(moves=moves))
        flips = _flip_kernels.nearest_flips if D is None else _flip_kernels.nearest_view_flips
        if X.size * self.model.n_hidden < PARALLEL_FROM:
            flips = soonest(N * self._cost, flips.serial)
        if D is None:
            flips(X, y, self.units, *limits, *found)
        else:
            flips(X, self.exact.views(X), y, self.units, D, *limits, *found)
        return Nearest(*found[:2])

    def along(
        self, x: NDArray, y: int, room: Room, lead: float = 0.0, *, only_nearest: bool = False
    ) -> NDArray:
        """As `nearest`, of one row."""
        change, becomes = np.empty((x.size, 2)), np.empty((x.size, 2), int)
        x, room, D = frozen(x), for_kernels(room), self.exact.directions
        limits = room, only_nearest, lead
        flips = _flip_kernels.all_flips if D is None else _flip_kernels.all_view_flips
        flips = soonest(self._cost, flips)
        if D is None:
            flips(x, y, self.units, *limits, change, becomes)
        else:
            v = self.exact.views(x[None])[0]
            flips(x, v, y, self.units, D, *limits, change, becomes)
        return change

    @property
    def _cost(self) -> int:
        """Of a row's walks where they are interpreted, in additions."""
        model, D = self.exact, self.exact.directions
        lines = model.n_hidden * (model.n_features if D is None else D.size)
        return lines * (INTERPRETED + PER_CLASS * model.n_classes)

    def rounding(self, x: NDArray) -> float:
        """Machine precision times how large the numbers are that a score of x is the sum of."""
        model, eps = self.model, float(np.finfo(self.model.dtype).eps)
        offsets = float(np.abs(model.W1).max()) + float(np.abs(model.W2).max())
        steep = np.abs(self.exact.slopes).max(axis=1)
        if model.directions is None:
            return eps * (float((steep * np.abs(x)).max()) + offsets)
        views = np.abs(model.directions.astype(np.float64)) @ np.abs(x)
        # A view is a sum of P numbers, each of which may be rounded.
        largest = float((steep * views).max()) * (1.0 + model.n_features / ROUNDINGS)
        return eps * (largest + offsets)

    def steepest(self, p: int) -> float:
        """The largest slope along p, of its two rows or of all views that it is in."""
        slopes, D = np.abs(self.exact.slopes), self.exact.directions
        steepest = slopes[p].max() if D is None else (slopes.max(axis=1) * np.abs(D[:, p])).max()
        return max(float(steepest), np.finfo(float).tiny)
