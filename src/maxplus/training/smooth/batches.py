"""Batches of a data-parallel training: each rank its share of each, gradients added up."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxplus.ranks import Team
from maxplus.training.smooth.soft_lmm import SoftGradient


class Batches(NamedTuple):
    """How the rows of all ranks make batches.

    Alone, a batch is so many rows of a permutation of all. Of several ranks, each permutes its
    own rows and cuts them into as many parts as there are batches: what a batch holds depends on
    how many ranks there are, and on nothing else.
    """

    team: Team
    counts: list[int]
    size: int

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

        None is that of no rows; gradients have the shapes of W1 and W2.
        """
        if self.team.is_alone:
            assert gradient is not None
            return gradient
        rows = [self._cut(n, k + 1) - self._cut(n, k) for n in self.counts]
        # One message a step: the loss, and both layers.
        flat = np.zeros(1 + W1.size + W2.size, np.float32)
        loss, first, second = np.split(flat, [1, 1 + W1.size])
        if gradient is not None:
            share = np.float32(rows[self.team.rank] / sum(rows))
            loss[0] = share * np.float32(gradient.loss)
            first[:], second[:] = share * gradient.W1.ravel(), share * gradient.W2.ravel()
        loss, first, second = np.split(self.team.sum(flat), [1, 1 + W1.size])
        return SoftGradient(float(loss[0]), first.reshape(W1.shape), second.reshape(W2.shape))
