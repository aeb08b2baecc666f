"""The sparse engine: allocates the state, drives blocks, regroups samples."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import numba
import numpy as np
from numpy.typing import NDArray

from maxplus.models import LMM, Model
from maxplus.models._lmm_kernels import empty_gradient
from maxplus.training.engines._descent import Journal
from maxplus.training.engines.compiled import CompiledEngine
from maxplus.training.engines.sparse import _whole
from maxplus.training.engines.sparse._audit import GOOD, MESSAGES, STOPPED, audited_iteration
from maxplus.training.engines.sparse._block import sparse_block
from maxplus.training.engines.sparse._fields import allocate, count_bytes, refill
from maxplus.training.engines.sparse._growth import update_noise
from maxplus.training.engines.sparse._state import GROUPS, State
from maxplus.training.engines.sparse._team import LINE, STOP
from maxplus.training.engines.sparse.layout import Layout, arrange
from maxplus.training.engines.sparse.messenger import Messenger, Thresholds
from maxplus.training.engines.sparse.sizes import Sizes, entries_per_step
from maxplus.training.problem import MaxLoss, TopKLoss, TrainingProblem
from maxplus.training.result import Block, Signal
from maxplus.trees._kernels import build_all, level_offsets

# From this many (sample, unit) pairs on, a search is worth two threads.
PARALLEL_FROM = 1_000_000
# After a beginning, the second regrouping waits this many times as long as one takes,
# the next ones twice as long each, until regrouping takes no more than this part of the time.
FIRST_PATIENCE = 2.0
REGROUP_PART = 0.05
# Fewer chunks than this are not worth sorting.
REGROUP_FROM = 40


class SparseEngine(CompiledEngine):
    """The dense engine's iterates, at a cost near what a step changes.

    Samples are searched by bounds: only where a bound exceeds the worst loss
    found, or the k-th worst, are scores computed exactly. Minima are kept with a witness and a
    runner-up, maxima with a leader and a bound on the rest; both are brought up
    to date chunk by chunk, when a bound asks for it. The README of this folder
    tells the whole story.

    Parameters
    ----------
    model : LMM, moved in place
    problem : TrainingProblem
    audit : bool
        After each search derive every bound again and raise AssertionError if
        one is violated. As slow as it sounds; for tests.
    """

    name = "sparse"
    objectives = (MaxLoss, TopKLoss)
    spans_ranks = True
    memory_remedy = "use fewer hidden units, fewer samples or float32"

    def __init__(self, model: LMM, problem: TrainingProblem, *, audit: bool = False) -> None:
        super().__init__(model, problem)
        self._audit = audit
        self._n_workers = _count_workers(model, problem)
        thresholds = Thresholds.of(problem.team, self._n_workers)
        sizes = Sizes.of(model, problem, self._n_workers, thresholds.n_seats)
        self._state = self._allocate(sizes, thresholds)
        self._seat(arrange(problem.y, np.arange(len(problem.y)), self._lanes, self._n_workers))
        scan_all = self._on_threads(_whole.scan_all)
        scan_all(self._state.samples, self._state.weights, self._state.minima)
        self._set_reach()
        self._regroup_seconds = 0.0
        self._regrouped = time.perf_counter()
        self._patience = FIRST_PATIENCE
        self._steps_are_small = False

    @classmethod
    def bytes_needed(cls, model: Model, problem: TrainingProblem) -> int:
        """All arrays that the engine holds, the kept weights included."""
        lmm = cast(LMM, model)
        sizes = Sizes.of(lmm, problem, _count_workers(lmm, problem))
        declared = sum(count_bytes(group, sizes) for group in GROUPS.values())
        gradient = sum(part.nbytes for part in empty_gradient(sizes.C, sizes.F))
        own = Thresholds.bytes_needed(sizes.W)
        return declared + gradient + own + super().bytes_needed(model, problem)

    def _allocate(self, sizes: Sizes, thresholds: Thresholds) -> State:
        """Room for everything; no sample has a seat yet."""
        model, X, team = self.model, self.problem.X, self.problem.team
        largest = [float(np.abs(w).max()) for w in (model.W0, model.W1, model.W2)]
        self._messenger = Messenger(team)
        others: dict[str, dict[str, Any]] = {
            "samples": {"X": X, "y": self.problem.y},
            "worst": {
                "threshold": thresholds.shared,
                "first_seat": thresholds.first_seat,
            },
            "meeting": {
                "address": self._messenger.address,
                "first": self.problem.first_sample,
                "me": team.rank,
            },
            "scale": {
                "x_largest": team.largest(float(np.abs(X).max(initial=0.0))),
                "eps": float(np.finfo(sizes.F).eps),
                "small": 0.0125 * largest[2],
                "small_rise": 0.00075 * largest[2],
                "margin": 0.075 * largest[2],
            },
        }
        state = State(
            weights=model.weights,
            grad=empty_gradient(sizes.C, sizes.F),
            **{name: allocate(g, sizes, **others.get(name, {})) for name, g in GROUPS.items()},
        )
        self._messenger.serve(state.meeting)
        if len(X):
            state.samples.x_min[:], state.samples.x_max[:] = X.min(axis=0), X.max(axis=0)
        else:
            state.samples.x_min[:] = state.samples.x_max[:] = 0.0
        state.worst.heap[:] = np.arange(sizes.k)
        state.scale.largest[:] = largest
        update_noise(state.scale)
        return state

    @property
    def _lanes(self) -> int:
        return self._state.samples.sample.shape[1]

    def _on_threads(self, kernel: Any) -> Any:
        """A parallel kernel, or its serial twin where there is one worker only."""
        return kernel if self._n_workers > 1 else kernel.serial

    def _entries_per_step(self) -> int:
        return entries_per_step(self.model, self.problem)

    def _seat(self, layout: Layout) -> None:
        """Put samples into their lanes; all bounds on maxima and losses start anew."""
        state, search = self._state, self._state.search
        for group in (state.maxima, state.events, state.lift, search, state.scratch):
            refill(group)
        for name in ("sample", "lanes", "label", "worker"):
            getattr(state.samples, name)[:] = getattr(layout, name)
        self._on_threads(_whole.fill_columns)(state.samples)
        search.leaf[:] = layout.leaf
        search.offsets[:] = level_offsets(search.chunk.shape[2])
        leaves = (layout.worker, layout.label, layout.leaf)
        search.chunk[leaves] = np.arange(len(layout.leaf))
        search.keys[leaves] = np.inf
        for worker_keys in search.keys:
            build_all(worker_keys, search.offsets, True)

    def _run(self, block: Block, journal: Journal) -> tuple[int, int]:
        # All ranks regroup at once: each would wait for the others anyway.
        if self.problem.team.first(self._is_regroup_due()):
            self.regroup()
        # Another engine of these ranks may have run since the last block.
        Thresholds.reset(self._state.worst, self._n_workers, self.problem.team)
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
        self._messenger.check()
        return done

    def _is_regroup_due(self) -> bool:
        """Whether to sort now: soon after a beginning, then ever more rarely.

        At the start, and when steps become small, the order of losses changes
        fast; later it settles, and regrouping takes REGROUP_PART of the time.
        """
        if len(self._state.samples.lanes) < REGROUP_FROM or self.iteration == 0:
            return False
        if not self._steps_are_small and self.iteration >= self.step.small_from:
            self._steps_are_small, self._patience = True, FIRST_PATIENCE
            return True
        waited = time.perf_counter() - self._regrouped
        if waited < self._patience * self._regroup_seconds:
            return False
        self._patience = min(2.0 * self._patience, 1.0 / REGROUP_PART)
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
        shared = (flags, self._state, self.step, self.problem.linear_every)
        if not self._audit:
            return sparse_block(
                w, *shared, self.iteration, journal, block.loss, block.sample, block.step
            )
        for k in range(block.loss.size):
            one = slice(k, k + 1)
            code = audited_iteration(
                w, *shared, k, self.iteration + k, journal,
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

    def regroup(self) -> None:
        """Sort each class's samples by loss into chunks; O(N·(H + P)).

        Hard samples then share chunks, and the bounds of all other chunks stay
        below the worst loss for many iterations. Minima move with their samples,
        so nothing is computed again.
        """
        began = time.perf_counter()
        state, samples, n_samples = self._state, self._state.samples, len(self.problem.y)
        odds = self._hardness()
        with ThreadPoolExecutor(self._n_workers) as team:
            workers = range(self._n_workers)
            list(team.map(lambda w: _whole.replay_chunks(state, w, self._n_workers), workers))
        valid = np.arange(self._lanes) < samples.lanes[:, None]
        lane_of = np.empty(n_samples, np.int64)
        lane_of[samples.sample[valid]] = np.flatnonzero(valid)
        odds_of = np.empty(n_samples, np.float32)
        odds_of[samples.sample[valid]] = odds[valid]
        order = np.argsort(-odds_of, kind="stable")
        layout = arrange(self.problem.y, order, self._lanes, self._n_workers)
        self._on_threads(_whole.move_lanes)(lane_of[layout.sample], state.minima)
        self._seat(layout)
        self._set_reach()
        self._regrouped = time.perf_counter()
        self._regroup_seconds = self._regrouped - began

    def _set_reach(self) -> None:
        """All minima are up to date: note each unit's reach."""
        state = self._state
        highest = state.minima.g_max.max(axis=0, initial=-np.inf)
        state.lift.reach[:] = highest - state.log.raised

    def _hardness(self) -> NDArray:
        """An order of lanes: bounds of the last visits will do; resolved lanes were the worst."""
        odds = self._state.search.odds
        return np.where(odds < 0, np.inf, odds)


def _count_workers(model: LMM, problem: TrainingProblem) -> int:
    """W: one thread, or all of them where a search is worth it."""
    large = len(problem.y) * model.n_hidden >= PARALLEL_FROM
    return numba.get_num_threads() if large else 1
