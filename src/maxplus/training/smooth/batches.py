"""Batches of a data-parallel training: each rank its share of each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maxplus.distributed import Team


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

    def share(self, k: int) -> float:
        """How much of batch k this rank has."""
        if self.team.is_alone:
            return 1.0
        rows = [self._cut(n, k + 1) - self._cut(n, k) for n in self.counts]
        return rows[self.team.rank] / sum(rows)
