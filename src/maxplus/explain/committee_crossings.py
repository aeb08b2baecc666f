"""Where the mean scores of several LMMs cross as one feature moves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from maxplus._compile.jit import frozen
from maxplus.explain import _committee_kernels
from maxplus.explain._committee_kernels import Members
from maxplus.explain._flip_kernels import PARALLEL_FROM, Room
from maxplus.explain.crossings import LMMCrossings, Nearest, for_kernels
from maxplus.models import LMM


class CommitteeCrossings:
    """Of the mean of members' scores, exact in float64: see `_committee_kernels`.

    A walk stops at the breakpoints of all members, O(T·H·(M + C)) each, for T members.
    """

    def __init__(self, members: Sequence[LMM]) -> None:
        self.each = [LMMCrossings(member) for member in members]
        self.exact = [one.exact for one in self.each]
        T, C, P = len(members), members[0].n_classes, members[0].n_features
        M, H = max(m.n_views for m in members), max(m.n_hidden for m in members)
        self.members = Members(
            np.zeros((T, 2 * M)), np.zeros((T, H, 2 * M)), np.full((T, C, H), -np.inf),
            np.zeros((T, M, P)),
        )  # fmt: skip
        for t, member in enumerate(self.exact):
            rows, units = 2 * member.n_views, member.n_hidden
            D = np.eye(P) if member.directions is None else member.directions
            self.members.slopes[t, :rows] = member.W0
            self.members.offsets[t, :units, :rows] = member.W1.T
            self.members.offsets[t, :units, rows:] = np.inf
            self.members.W2T[t, :, :units] = member.W2.T
            self.members.directions[t, : member.n_views] = D

    def _views(self, X: NDArray) -> NDArray:
        """What each member sees of each row, (N, T, M)."""
        V = np.zeros((len(X), *self.members.directions.shape[:2]))
        for t, member in enumerate(self.exact):
            V[:, t, : member.n_views] = member.views(X)
        return V

    def nearest(self, X: NDArray, y: NDArray, room: Room, moves: NDArray) -> Nearest:
        """The nearest crossing of each row, among the features moves[n] of row n."""
        found = np.empty(len(X), int), np.empty(len(X)), np.empty(len(X), int)
        kernel = _committee_kernels.nearest_member_flips
        if X.size * sum(member.n_hidden for member in self.exact) < PARALLEL_FROM:
            kernel = kernel.serial
        limits = for_kernels(room._replace(moves=moves))
        kernel(X, self._views(X), y, self.members, *limits, *found)
        return Nearest(*found[:2])

    def along(
        self, x: NDArray, y: int, room: Room, lead: float = 0.0, *, only_nearest: bool = False
    ) -> NDArray:
        """How far each feature must rise, and fall, for another class to win by the lead."""
        change, becomes = np.empty((x.size, 2)), np.empty((x.size, 2), int)
        x, room = frozen(x), for_kernels(room)
        _committee_kernels.all_member_flips(
            x, self._views(x[None])[0], y, self.members, room, only_nearest, lead, change, becomes
        )
        return change

    def rounding(self, x: NDArray) -> float:
        """That of the members' scores, and of their sum."""
        return sum(one.rounding(x) for one in self.each)

    def steepest(self, p: int) -> float:
        """The mean of the members' steepest slopes."""
        return float(np.mean([one.steepest(p) for one in self.each]))
