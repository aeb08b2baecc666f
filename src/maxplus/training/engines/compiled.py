"""What compiled engines for the LMM share: whole blocks in one call, the best iterate kept."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np

from maxplus.models import LMM
from maxplus.training.engines._descent import Journal, empty_journal, undo
from maxplus.training.engines.base import Best, Engine
from maxplus.training.problem import MaxLoss, Objective
from maxplus.training.result import Block, Signal


class CompiledEngine(Engine):
    """Minimises the maximum loss of an LMM, or more; a block is one call of a kernel."""

    objectives: ClassVar[tuple[type[Objective], ...]] = (MaxLoss,)
    models = (LMM,)
    model: LMM

    @abstractmethod
    def _run(self, block: Block, journal: Journal) -> tuple[int, int]:
        """Fill the block; return how many iterations were done and a `Signal`."""

    def _entries_per_step(self) -> int:
        """How many entries of a layer an iteration moves at most."""
        return self.model.n_classes

    def advance(self, block: Block) -> None:
        """Do the iterations that ``block`` has room for."""
        journal = empty_journal(block.loss.size, self._entries_per_step())
        n, signal = self._run(block, journal)
        block.n, block.signal = n, Signal(signal)
        self.iteration += n
        lowest = int(np.argmin(np.nan_to_num(block.loss[:n], nan=np.inf)))
        if block.loss[lowest] < self.best_loss:
            # At most one copy per block, however often the best improved within it.
            best = self.model.copy()
            undo(best.weights, journal, lowest)
            self._kept = Best(float(block.loss[lowest]), best)
