"""The sparse engine: allocates the state, drives blocks, regroups samples."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import cast

import numba
import numpy as np
from numpy.typing import NDArray

from maxplus.models import LMM, Model
from maxplus.models._lmm_kernels import empty_gradient
from maxplus.training.engines._descent import Journal
from maxplus.training.engines.compiled import CompiledEngine
from maxplus.training.engines.sparse import _state, _whole
from maxplus.training.engines.sparse._audit import GOOD, MESSAGES, STOPPED, audited_iteration
from maxplus.training.engines.sparse._block import sparse_block
from maxplus.training.engines.sparse._growth import update_noise
from maxplus.training.engines.sparse._state import LOG_SIZE, NONE, ring_length
from maxplus.training.engines.sparse._team import LINE, STOP
from maxplus.training.engines.sparse.layout import (
    Layout,
    arrange,
    count_chunks,
    lanes_per_chunk,
)
from maxplus.training.objectives import TopKLoss
from maxplus.training.result import Block, Signal
from maxplus.training.task import Task
from maxplus.trees._kernels import build_all, level_offsets

# From this many (sample, unit) pairs on, a search is worth two threads.
PARALLEL_FROM = 1_000_000
# After a beginning, the second regrouping waits this many times as long as one takes,
# the next ones twice as long each, until regrouping takes no more than its share.
FIRST_PATIENCE = 2.0
REGROUP_SHARE = 0.05
# Fewer chunks than this are not worth sorting.
REGROUP_FROM = 40


class SparseEngine(CompiledEngine):
    """The dense engine's iterates, at a cost near what a step changes.

    Samples are searched by bounds: only where a bound exceeds the worst loss
    found, or the k-th worst, are scores computed exactly. Minima are kept with a witness and a
    runner-up, maxima with a leader and a bound on the rest; both are brought up
    to date chunk by chunk, when a bound asks for it. ARCHITECTURE.md tells the
    whole story.

    Parameters
    ----------
    model : LMM, moved in place
    task : Task
    audit : bool
        After each search derive every bound again and raise AssertionError if
        one is violated. As slow as it sounds; for tests.
    """

    name = "sparse"
    objectives = ("max", "top-k")
    memory_remedy = "use fewer hidden units, fewer samples or float32"

    def __init__(self, model: LMM, task: Task, *, audit: bool = False) -> None:
        super().__init__(model, task)
        self._audit = audit
        self._grad = empty_gradient(model.n_classes, model.dtype)
        large = len(task.y) * model.n_hidden >= PARALLEL_FROM
        self._n_workers = numba.get_num_threads() if large else 1

        P, H, F = model.n_features, model.n_hidden, model.dtype
        B, K = lanes_per_chunk(task.y), count_chunks(task.y, lanes_per_chunk(task.y))
        rows = _index_type(2 * P)
        self._columns = np.empty((K, P, B), F)
        self._minima = _state.Minima(
            np.empty((K, H, B), F), np.empty((K, H, B), F),
            np.empty((K, H, B), rows), np.empty((K, H, B), rows),
            np.zeros((K, H), np.int64), np.zeros((K, H)), np.empty((K, H), F), np.empty((K, H), F),
        )  # fmt: skip
        self._log = _state.RowLog(
            np.zeros((H, LOG_SIZE), np.int32), np.zeros(H, np.int64),
            np.full((H, 2 * P), NONE, np.int64), np.zeros(H),
        )  # fmt: skip
        largest = [float(np.abs(w).max()) for w in (model.W0, model.W1, model.W2)]
        self._scale = _state.Scale(
            np.zeros(1), np.array(largest), float(np.abs(task.X).max()), float(np.finfo(F).eps),
            small=0.0125 * largest[2], small_rise=0.00075 * largest[2], margin=0.075 * largest[2],
        )  # fmt: skip
        update_noise(self._scale)

        C, W, k, E = model.n_classes, self._n_workers, _count(task), self._entries_per_step()
        self._worst = _state.Worst(
            np.zeros(LINE * W), np.zeros((W, -(-k // W))), np.tile(np.arange(k), (W, 1)),
            np.zeros((W, k)), np.zeros((W, k), np.int64), np.zeros((W, k, 2), np.int64),
            np.zeros((W, k, C), F), np.zeros(W, np.int64), np.zeros((k, 2), np.int64),
        )  # fmt: skip
        self._total = _state.Total(
            np.zeros(3, np.int64), np.empty((3, E), np.int64), np.empty((3, E), np.int64),
            np.empty((3, E)), np.full((2 * P, 1), NONE, np.int32),
            np.full((H, 2 * P), NONE, np.int32), np.full((C, H), NONE, np.int32),
        )  # fmt: skip
        self._seat(arrange(task.y, np.arange(len(task.y)), B, self._n_workers))
        _whole.scan_all(self._samples, model.weights, self._minima)
        self._set_reach()
        self._regroup_seconds = 0.0
        self._regrouped = time.perf_counter()
        self._patience = FIRST_PATIENCE
        self._constant_phase = False

    @classmethod
    def bytes_needed(cls, model: Model, task: Task) -> int:
        """Minima and columns of all chunks, and the smaller things beside them."""
        lmm = cast(LMM, model)
        P, H, C, F = lmm.n_features, lmm.n_hidden, lmm.n_classes, lmm.dtype.itemsize
        B, W = lanes_per_chunk(task.y), numba.get_num_threads()
        K = count_chunks(task.y, B)
        per_minimum = 2 * F + 2 * _index_type(2 * P)().itemsize
        per_maximum = 3 * F + 2 * 4
        lanes = K * B * (H * per_minimum + C * per_maximum + P * F + 8 + 4)
        chunks = K * (H * (41 + 2 * F + C * F) + C * (F + 48) + 2 * P * F + 72)
        logs = H * (4 * LOG_SIZE + 2 * P * (8 + 8 + F) + 8 * C + 48)
        k, E = _count(task), _most_entries(lmm, task)
        events = ring_length(k) * 8 * (3 + 10 * E)
        workers = W * (H * (F + 24 + 8 * C) + 2 * P * F + k * (48 + C * F))
        total = 72 * E + 4 * (2 * P * (H + 1) + C * H) + 16 * k
        kept = super().bytes_needed(model, task)
        return lanes + chunks + logs + events + workers + total + kept

    def _entries_per_step(self) -> int:
        return _most_entries(self.model, self.task)

    def _seat(self, layout: Layout) -> None:
        """Put samples into their lanes; all bounds on maxima and losses start anew."""
        model, task, W = self.model, self.task, self._n_workers
        F, P, H, C = model.dtype, model.n_features, model.n_hidden, model.n_classes
        K, B = layout.sample.shape
        self._layout = layout
        self._samples = _state.Samples(
            task.X, task.y, self._columns, np.empty((K, P), F), np.empty((K, P), F),
            layout.sample, layout.lanes, layout.label,
            task.X.min(axis=0).astype(float), task.X.max(axis=0).astype(float),
        )  # fmt: skip
        _whole.fill_columns(self._samples)
        self._maxima = _state.Maxima(
            np.zeros((K, C, B), F), np.full((K, C, B), NONE, np.int32),
            np.zeros((K, C, B), F), np.full((K, C, B), NONE, np.int32),
            np.zeros((K, C, B), F), np.zeros((K, C), F), np.zeros((K, H), np.int8),
        )  # fmt: skip

        R, E = ring_length(_count(task)), self._entries_per_step()
        self._events = _state.Events(
            np.zeros((R, 3), np.int64), np.zeros((R, 7, E), np.int64),
            np.zeros((R, 3, E)), np.zeros((H, C)),
        )  # fmt: skip
        self._lift = _state.Lift(
            np.zeros((2, H)), np.zeros((2, H)),
            np.full((H, 2 * P), NONE, np.int64), np.zeros((H, 2 * P), F),
            np.zeros((K, 2, H)), np.zeros((K, C, H), F), np.zeros((K, H)), np.zeros((K, C)),
            np.full((W, C), np.inf), np.full(H, np.inf),
            np.zeros(C), np.zeros(C), np.zeros((K, C)), np.zeros(K), np.ones((K, C)),
        )  # fmt: skip
        leaves = int(layout.leaf.max()) + 1
        offsets = level_offsets(leaves)
        chunk = np.full((W, C, leaves), NONE, np.int64)
        chunk[layout.worker, layout.label, layout.leaf] = np.arange(K)
        keys = np.full((W, C, offsets[-1]), -np.inf)
        keys[layout.worker, layout.label, layout.leaf] = np.inf
        for worker_keys in keys:
            build_all(worker_keys, offsets, True)
        self._search = _state.Search(
            np.zeros((K, B), np.float32), np.full(K, NONE, np.int64),
            np.full(K, np.inf), np.full(K, NONE, np.int64), np.zeros(K),
            np.full((K, C), NONE, np.int64), layout.leaf, chunk, keys, offsets, np.zeros(C),
        )  # fmt: skip
        self._scratch = _state.Scratch(
            np.empty((W, 2 * P), F), np.empty((W, H), F), np.empty((W, H), np.int64),
            np.empty((W, C), F), np.empty((W, C), np.int8),
            np.empty((W, B), np.float32), np.empty((W, 4, B), F),
            np.empty((W, 2, H)), np.empty((W, 2, C)),
            np.zeros((W, H), np.int64), np.zeros((W, H, C), np.int64),
            np.zeros((W, 8), np.int64),
        )  # fmt: skip

    def _run(self, block: Block, journal: Journal) -> tuple[int, int]:
        if self._is_regroup_due():
            self.regroup()
        flags = np.full(LINE * self._n_workers, self.iteration - 1)
        with ThreadPoolExecutor(max(1, self._n_workers - 1)) as team:
            try:
                helpers = [
                    team.submit(self._help, w, block, journal, flags)
                    for w in range(1, self._n_workers)
                ]
                done = self._iterate(0, block, journal, flags)
            finally:
                flags[0] = STOP
        for helper in helpers:
            helper.result()  # raises what the helper raised
        return done

    def _is_regroup_due(self) -> bool:
        """Whether to sort now: soon after a beginning, then ever more rarely.

        At the start, and when steps become small, the order of losses changes
        fast; later it settles, and regrouping takes REGROUP_SHARE of the time.
        """
        if len(self._layout.lanes) < REGROUP_FROM or self.iteration == 0:
            return False
        if not self._constant_phase and self.iteration >= self.step.polyak_until:
            self._constant_phase, self._patience = True, FIRST_PATIENCE
            return True
        waited = time.perf_counter() - self._regrouped
        if waited < self._patience * self._regroup_seconds:
            return False
        self._patience = min(2.0 * self._patience, 1.0 / REGROUP_SHARE)
        return True

    def _help(self, w: int, block: Block, journal: Journal, flags: NDArray) -> None:
        """Helper w's part of a block; if it fails, nobody must wait for it."""
        try:
            self._iterate(w, block, journal, flags)
        except BaseException:
            flags[LINE * w] = STOP
            raise

    def _iterate(self, w: int, block: Block, journal: Journal, flags: NDArray) -> tuple[int, int]:
        """Worker w's part of a block: (iterations done, signal)."""
        task = self.task
        rule = (self._grad, self._total, self.step, task.linear_every)
        if not self._audit:
            return sparse_block(
                w, flags, *self._state, *rule, self.iteration, journal,
                block.loss, block.sample, block.step,
            )  # fmt: skip
        for k in range(block.loss.size):
            one = slice(k, k + 1)
            code = audited_iteration(
                w, self._layout.worker, flags, *self._state, *rule, k, self.iteration + k, journal,
                block.loss[one], block.sample[one], block.step[one],
            )  # fmt: skip
            if code == STOPPED:
                return k, Signal.GOES_ON
            if code != GOOD:
                raise AssertionError(f"iteration {self.iteration + k}: {MESSAGES[code]}")
            if w == 0 and block.step[k] == 0.0:
                target = block.loss[k] <= self.step.target
                return k + 1, Signal.TARGET if target else Signal.STATIONARY
        return block.loss.size, Signal.GOES_ON

    @property
    def _state(self) -> tuple:
        """Everything a search works on, in the order of the kernels' arguments."""
        return (
            self._samples, self.model.weights, self._log, self._lift, self._minima, self._maxima,
            self._events, self._search, self._worst, self._scale, self._scratch,
        )  # fmt: skip

    def regroup(self) -> None:
        """Sort each class's samples by loss into chunks; O(N·(H + P)).

        Hard samples then share chunks, and the bounds of all other chunks stay
        below the worst loss for many iterations. Minima move with their samples,
        so nothing is computed again.
        """
        began = time.perf_counter()
        old = self._samples
        B = old.sample.shape[1]
        weights = self.model.weights
        odds = self._hardness()
        _whole.replay_all(old, weights, self._log, self._minima, self._scale.noise[0])
        valid = np.arange(B) < old.lanes[:, None]
        lane_of = np.empty(len(self.task.y), np.int64)
        lane_of[old.sample[valid]] = np.flatnonzero(valid)
        loss_of = np.empty(len(self.task.y), np.float32)
        loss_of[old.sample[valid]] = odds[valid]
        order = np.argsort(-loss_of, kind="stable")
        layout = arrange(self.task.y, order, B, self._n_workers)
        _whole.move_lanes(lane_of[layout.sample], self._minima)
        self._seat(layout)
        self._set_reach()
        self._regrouped = time.perf_counter()
        self._regroup_seconds = self._regrouped - began

    def _set_reach(self) -> None:
        """All minima are up to date: note how high each unit's reach."""
        self._lift.reach[:] = self._minima.g_max.max(axis=0) - self._log.raised

    def _hardness(self) -> NDArray:
        """An order of lanes: bounds of the last visits will do; resolved lanes were the worst."""
        return np.where(self._search.odds < 0, np.inf, self._search.odds)


def _count(task: Task) -> int:
    """k: how many samples an iteration steps on."""
    objective = task.objective
    return objective.count(len(task.y)) if isinstance(objective, TopKLoss) else 1


def _most_entries(model: LMM, task: Task) -> int:
    """E: C for each sample, but no more than the larger layer has."""
    largest = model.n_hidden * max(2 * model.n_features, model.n_classes)
    return min(_count(task) * model.n_classes, largest)


def _index_type(n: int) -> type[np.signedinteger]:
    """The smallest integer type for numbers below n and `NONE`."""
    return np.int16 if n < np.iinfo(np.int16).max else np.int32
