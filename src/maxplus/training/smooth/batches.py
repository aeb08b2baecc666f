"""Batches of a data-parallel training: each rank its share of each, gradients added up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maxplus.ranks import Team
from maxplus.training.smooth.soft_lmm import SoftGradient


@dataclass
class Batches:
    """How the rows of all ranks make batches.

    Alone, a batch is so many rows of a permutation of all. Of several ranks, each permutes its
    own rows and cuts them into as many parts as there are batches: what a batch holds depends on
    how many ranks there are, and on nothing else.
    """

    team: Team
    counts: list[int]
    size: int
    # Memory that is new in every step would cost more than the message.
    _room: NDArray | None = None

    @classmethod
    def of(cls, team: Team, n_rows: int, size: int) -> Batches:
        """Those of a rank's rows and all others', of about ``size`` rows each."""
        counts = team.every(n_rows)
        return cls(team, counts, min(size, sum(counts)))

    @property
    def number(self) -> int:
        """Batches of an epoch."""
        return max(1, sum(self.counts) // self.size)

    def deal(self, rng: np.random.Generator) -> tuple[list[NDArray], np.random.Generator]:
        """A rank's rows of each batch of an epoch, and a generator for what is done to them."""
        n = self.counts[self.team.rank]
        if self.team.is_alone:
            order = rng.permutation(n)
            return [order[k * self.size :][: self.size] for k in range(self.number)], rng
        own = np.random.default_rng([int(rng.integers(2**63)), self.team.rank])
        order = own.permutation(n)
        return [order[self._cut(n, k) : self._cut(n, k + 1)] for k in range(self.number)], own

    def _cut(self, n: int, k: int) -> int:
        return k * n // self.number

    def add(self, k: int, gradient: SoftGradient | None, W1: NDArray, W2: NDArray) -> SoftGradient:
        """The mean over batch k's rows of all ranks, from the means over each one's own.

        None is that of no rows; gradients have the shapes of W1 and W2. The next call writes
        over what this one returns.
        """
        if self.team.is_alone:
            assert gradient is not None
            return gradient
        rows = [self._cut(n, k + 1) - self._cut(n, k) for n in self.counts]
        # One message a step: both layers, the loss, and zeros, so that each rank adds up a part.
        first, second, rest = np.split(self._message(W1, W2), [W1.size, W1.size + W2.size])
        rest[:] = 0.0
        if gradient is None:
            first[:], second[:] = 0.0, 0.0
        else:
            share = np.float32(rows[self.team.rank] / sum(rows))
            np.multiply(gradient.W1.reshape(-1), share, out=first)
            np.multiply(gradient.W2.reshape(-1), share, out=second)
            rest[0] = share * np.float32(gradient.loss)
        self.team.add_up(self._message(W1, W2))
        return SoftGradient(float(rest[0]), first.reshape(W1.shape), second.reshape(W2.shape))

    def _message(self, W1: NDArray, W2: NDArray) -> NDArray:
        size = W1.size + W2.size + 1
        if self._room is None:
            self._room = np.empty(size + -size % self.team.size, np.float32)
        return self._room
