"""Both layers of a soft model in training: what is seen of them, their gradient, their steps."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxplus.distributed import Team
from maxplus.training.smooth._kernels import exp_all, times
from maxplus.training.smooth.adam import Adam


class Layers(NamedTuple):
    """Two arrays of the shapes of W1 and W2."""

    W1: NDArray
    W2: NDArray


class SoftWeights:
    """W1 and W2 in a row, with Adam's memories; of several ranks, each keeps and moves a part.

    The soft model needs exp(−W1/τ), never W1 itself. So a rank makes the exponentials of its
    part and shows them to the others, and of the gradient it gets the sum of its part alone: all
    that a step does with weights, and not with samples, is divided among the ranks, and one
    message there and one back is all that travels. Everything is in float32.

    Parameters
    ----------
    team : Team
    W1, W2 : arrays of shapes (2P, H) and (H, C)
    memory : Adam's means and squares of both, optional
    steps : those that Adam has made
    """

    def __init__(
        self, team: Team, W1: NDArray, W2: NDArray,
        memory: tuple[Layers, Layers] | None = None, steps: int = 0,
    ) -> None:  # fmt: skip
        self.team, self._shapes = team, (W1.shape, W2.shape)
        self._own = self._part_of(W1, W2)
        mean, square = (
            (self._part_of(*memory[0]), self._part_of(*memory[1]))
            if memory is not None
            else (np.zeros_like(self._own), np.zeros_like(self._own))
        )
        self._adam = Adam(self._own, mean, square, steps)
        # Exponentials of W1, and W2; then the gradient by both, W1's before it is multiplied by
        # them. Kept: memory that is new in every step would cost more than what is done in it.
        self._seen, self._sums = self._row(), self._row()
        # How many of the own part are of W1.
        self._n_first = min(max(0, W1.size - team.rank * self._own.size), self._own.size)

    @property
    def steps(self) -> int:
        """Those that have been made."""
        return self._adam.steps

    def show(self, tau: np.float32) -> Layers:
        """exp(−W1/τ) and W2, of all ranks; the next call writes over them; O(P·H / ranks)."""
        part, n = self.team.part(self._seen), self._n_first
        # In NumPy 1, a Python number divided by a float32 is a float64, which kernels refuse.
        exp_all(self._own[:n], np.float32(-1) / tau, part[:n])
        part[n:] = self._own[n:]
        self.team.spread(self._seen)
        return self._layers(self._seen)

    def sums(self) -> Layers:
        """Where a rank's gradient goes before `move`: by W1 without the factor exp(−W1/τ)."""
        return self._layers(self._sums)

    def gradient(self) -> NDArray:
        """The part of this rank in the gradient, added up over all."""
        own, n = self.team.add_up(self._sums), self._n_first
        times(self.team.part(self._seen)[:n], own[:n])
        return own

    def move(self, rate: float) -> None:
        """One step of Adam against the gradient; O(P·H / ranks)."""
        self._adam.move(self.gradient(), rate)

    def whole(self) -> Layers:
        """Both layers; alone, not copies."""
        return self._whole(self._own)

    def memory(self) -> tuple[Layers, Layers]:
        """Adam's means and squares of both; alone, not copies."""
        return self._whole(self._adam.mean), self._whole(self._adam.square)

    def _whole(self, own: NDArray) -> Layers:
        if self.team.is_alone:
            return self._layers(own)
        row = self._row()
        self.team.part(row)[:] = own
        self.team.spread(row)
        return self._layers(row)

    def _row(self) -> NDArray:
        """Zeros for both layers, and some more, so that each rank has as many."""
        return np.zeros(self.team.padded(sum(map(math.prod, self._shapes))), np.float32)

    def _part_of(self, W1: NDArray, W2: NDArray) -> NDArray:
        row = self._row()
        first, second = self._layers(row)
        first[:], second[:] = W1.reshape(first.shape), W2.reshape(second.shape)
        return self.team.part(row).copy()

    def _layers(self, row: NDArray) -> Layers:
        first, second = self._shapes
        n, end = math.prod(first), math.prod(first) + math.prod(second)
        return Layers(row[:n].reshape(first), row[n:end].reshape(second))
