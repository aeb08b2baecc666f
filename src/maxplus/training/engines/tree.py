"""The tree engine: the paper's algorithm as written, a tree for every minimum and maximum."""

from __future__ import annotations

from typing import cast

import numpy as np

from maxplus.models import LMM, Model
from maxplus.models._lmm_kernels import empty_gradient
from maxplus.training.engines import _tree_kernels
from maxplus.training.engines._descent import Journal
from maxplus.training.engines.compiled import CompiledEngine
from maxplus.training.result import Block
from maxplus.training.task import Task
from maxplus.trees._kernels import build, level_offsets
from maxplus.trees.short_trees import nodes_per_tree


class TreeEngine(CompiledEngine):
    """Short Computational Trees keep every min and max; only touched paths are updated.

    A step costs O(N·(C·log P + C²·log H)) instead of O(N·P·H), plus
    O(N·H·(log P + C·log H)) for each moved slope of W0, at the price of
    N·H trees of 2P leaves: 376 GB for MNIST with 500 hidden units in float32
    (the paper, with leaves padded to a power of two, reports 513 GB).

    Parameters
    ----------
    model : Model
        What steps move, in place.
    task : Task
    """

    name = "tree"
    memory_remedy = (
        "use engine='sparse' or engine='dense', which need no trees, "
        "or fewer hidden units or samples"
    )

    def __init__(self, model: LMM, task: Task) -> None:
        super().__init__(model, task)
        N, P, H, C = len(task.y), model.n_features, model.n_hidden, model.n_classes
        off_min, off_max, off_loss = level_offsets(2 * P), level_offsets(H), level_offsets(N)
        self._trees = _tree_kernels.Trees(
            np.empty((N, H, off_min[-1]), model.dtype),
            np.empty((N, C, off_max[-1]), model.dtype),
            np.empty(off_loss[-1]),
            off_min, off_max, off_loss,
        )  # fmt: skip
        self._grad = empty_gradient(C, model.dtype)
        self._scratch = np.empty(N)
        self._is_large = N >= _tree_kernels.PARALLEL_FROM
        plant = _tree_kernels.plant_samples
        plant = plant if self._is_large else plant.serial
        plant(task.X, task.y, model.weights, self._trees)
        build(self._trees.losses, off_loss, True)

    @classmethod
    def bytes_needed(cls, model: Model, task: Task) -> int:
        """N·H trees of 2P leaves, N·C of H leaves and one of N leaves, and the kept weights."""
        lmm = cast(LMM, model)
        N, H, C = len(task.y), lmm.n_hidden, lmm.n_classes
        nodes = N * H * nodes_per_tree(2 * lmm.n_features) + N * C * nodes_per_tree(H)
        losses = 8 * (nodes_per_tree(N) + N)
        return nodes * lmm.dtype.itemsize + losses + super().bytes_needed(model, task)

    def _run(self, block: Block, journal: Journal) -> tuple[int, int]:
        task = self.task
        kernel = _tree_kernels.tree_block_parallel if self._is_large else _tree_kernels.tree_block
        return kernel(
            task.X, task.y, self.model.weights, self._grad, self._trees, self._scratch,
            self.step, task.linear_every, self.iteration, journal,
            block.loss, block.sample, block.step,
        )  # fmt: skip
