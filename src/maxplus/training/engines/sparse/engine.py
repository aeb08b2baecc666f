"""The sparse engine: allocates the state, drives blocks, regroups samples."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from maxplus.models import LMM
from maxplus.models._lmm_kernels import empty_gradient
from maxplus.training.engines._descent import Journal
from maxplus.training.engines.compiled import CompiledEngine
from maxplus.training.engines.sparse import _state
from maxplus.training.engines.sparse._block import sparse_block
from maxplus.training.engines.sparse._growth import update_noise
from maxplus.training.engines.sparse._setup import scan_all
from maxplus.training.engines.sparse._state import LOG_SIZE, NONE, RING
from maxplus.training.engines.sparse.layout import Layout, arrange, lanes_per_chunk
from maxplus.training.result import Block
from maxplus.training.task import Task
from maxplus.trees._kernels import build_all, level_offsets


class SparseEngine(CompiledEngine):
    """The worst sample by bounds, the step by its active path: exact, and near what changed."""

    name = "sparse"
    memory_remedy = "use fewer hidden units, fewer samples or float32"

    def __init__(self, model: LMM, task: Task) -> None:
        super().__init__(model, task)
        self._n_lanes = lanes_per_chunk(task.y)
        K = -(-len(task.y) // self._n_lanes)
        n_workers = numba.get_num_threads() if K * self._n_lanes * model.n_hidden > 500_000 else 1
        self._n_workers = n_workers
        layout = arrange(task.y, np.arange(len(task.y)), self._n_lanes, n_workers)
        self._grad = empty_gradient(model.n_classes, model.dtype)
        self._allocate(layout)
        scan_all(self._samples, model.weights, self._minima)

    def _allocate(self, layout: Layout) -> None:
        model, task, W = self.model, self.task, self._n_workers
        X, F = task.X, model.dtype
        P, H, C = model.n_features, model.n_hidden, model.n_classes
        K, B = layout.sample.shape
        columns = np.empty((K, P, B), F)
        for c in range(K):
            columns[c] = X[layout.sample[c]].T
        self._samples = _state.Samples(
            X, task.y, columns, layout.sample, layout.lanes, layout.label, layout.worker,
            X.min(axis=0).astype(float), X.max(axis=0).astype(float),
        )  # fmt: skip
        rows = np.int16 if np.iinfo(np.int16).max > 2 * P else np.int32
        units = np.int16 if np.iinfo(np.int16).max > H else np.int32
        self._minima = _state.Minima(
            np.empty((K, H, B), F), np.empty((K, H, B), F),
            np.empty((K, H, B), rows), np.empty((K, H, B), rows),
            np.zeros((K, H), np.int64), np.zeros((K, H)), np.empty((K, H), F),
        )  # fmt: skip
        self._log = _state.RowLog(
            np.zeros((H, LOG_SIZE), np.int32), np.zeros(H, np.int64),
            np.full((H, 2 * P), NONE, np.int64), np.zeros(H),
        )  # fmt: skip
        self._maxima = _state.Maxima(
            np.zeros((K, C, B), F), np.full((K, C, B), NONE, units), np.zeros((K, C, B), F),
            np.zeros((K, C), F), np.zeros((K, H), np.int8),
        )  # fmt: skip

        def ring(dtype: type) -> NDArray:
            return np.zeros((RING, C), dtype)

        self._events = _state.Events(
            np.zeros((RING, 4), np.int64), ring(np.int64), ring(np.int64), ring(np.int8),
            ring(np.int64), ring(np.int64), ring(np.int64), ring(float), ring(float),
            np.zeros((H, C)),
        )  # fmt: skip
        L = int(layout.leaf.max()) + 1
        offsets = level_offsets(L)
        chunk = np.zeros((W, C, L), np.int64)
        chunk[layout.worker, layout.label, layout.leaf] = np.arange(K)
        keys = np.full((W, C, offsets[-1]), -np.inf)
        keys[layout.worker, layout.label, layout.leaf] = np.inf
        for w in range(W):
            build_all(keys[w], offsets, True)
        self._search = _state.Search(
            np.zeros((K, B), np.float32), np.full(K, NONE, np.int64), np.zeros(K),
            np.zeros((K, C), np.int64), layout.leaf, chunk, keys, offsets, np.zeros(C),
            np.zeros((W, 8)), np.zeros((W, 8), np.int64),
        )  # fmt: skip
        self._scratch = _state.Scratch(
            np.empty((W, 2 * P), F), np.empty((W, H), F), np.empty((W, C), F),
            np.empty((W, B), F), np.empty((W, B), F),
            np.zeros((W, H), np.int64), np.zeros((W, H, C), np.int64),
            np.zeros((W, K), np.int64), np.zeros((W, 8), np.int64),
        )  # fmt: skip
        largest = [float(np.abs(w).max()) for w in (model.W0, model.W1, model.W2)]
        self._scale = _state.Scale(
            np.zeros(1), np.array(largest), float(np.abs(X).max()), float(np.finfo(F).eps),
            0.0125 * largest[2], 0.075 * largest[2],
        )  # fmt: skip
        update_noise(self._scale)

    def _run(self, block: Block, journal: Journal) -> tuple[int, int]:
        task = self.task
        return sparse_block(
            self._samples, self.model.weights, self._log, self._minima, self._maxima,
            self._events, self._search, self._scale, self._scratch,
            self._grad, task.step, task.linear_every, self.iteration, journal,
            block.loss, block.sample, block.step,
        )  # fmt: skip
