"""The sparse engine: allocation, blocks of iterations, and the regrouping of samples."""

from __future__ import annotations

import ctypes
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import numba
import numpy as np
from numpy.typing import NDArray

from maxplus.distributed import Communicator
from maxplus.models import LMM, Model
from maxplus.models._lmm_kernels import empty_gradient
from maxplus.training.engines.base import CompiledEngine
from maxplus.training.engines.sparse import _kernels
from maxplus.training.engines.sparse._audit import VIOLATIONS, audited_block
from maxplus.training.engines.sparse._bounds import update_noise
from maxplus.training.engines.sparse._search import STOP
from maxplus.training.engines.sparse._state import (
    GROUPS,
    LINE,
    ChunkLayout,
    Sizes,
    State,
    allocate,
    arrange,
    count_bytes,
    entries_per_step,
    reset_arrays,
)
from maxplus.training.engines.sparse._worst import WORST
from maxplus.training.engines.step import Journal
from maxplus.training.problem import MaxLoss, TopKLoss, TrainingProblem, TrimmedMaxLoss
from maxplus.training.result import Block
from maxplus.trees._kernels import build_all, level_offsets

# Number of (sample, unit) pairs from which a search on several threads is faster.
PARALLEL_FROM = 1_000_000
# Initial interval between regroupings, relative to the duration of one. It doubles each time until
# regrouping takes at most REGROUP_PART of the time.
FIRST_INTERVAL = 2.0
REGROUP_PART = 0.05
# Minimum number of chunks for which regrouping is useful.
REGROUP_FROM = 40


class SparseEngine(CompiledEngine):
    """Engine that searches for the worst samples by bounds; bit-identical to the dense engine.

    Scores are computed exactly only if a bound reaches the worst loss found, or the k-th worst.
    Minima are stored with a witness and a runner-up, maxima with two leaders and a bound on the
    rest. Both are updated chunk by chunk when a bound requires it. ``README.md`` in this folder
    describes the algorithm.

    Parameters
    ----------
    model : LMM, updated in place
    problem : TrainingProblem
    audit : bool
        Check all bounds by brute force after each search and raise AssertionError if one is
        violated. For tests: as slow as a dense iteration in scalar code.
    """

    name = "sparse"
    objectives = (MaxLoss, TopKLoss, TrimmedMaxLoss)
    supports_mpi = True
    memory_remedy = "use fewer hidden units, fewer samples or float32"

    def __init__(self, model: LMM, problem: TrainingProblem, *, audit: bool = False) -> None:
        super().__init__(model, problem)
        self._audit = audit
        self._n_workers = _count_workers(model, problem)
        counts = problem.comm.allgather_local(self._n_workers)
        sizes = Sizes.from_problem(model, problem, self._n_workers, sum(counts))
        self._state = self._allocate(sizes, first_slot=sum(counts[: problem.comm.local_rank]))
        self._assign(arrange(problem.y, np.arange(len(problem.y)), self._lanes, self._n_workers))
        self._replay()
        self._regroup_seconds = 0.0
        self._last_regrouping = time.perf_counter()
        self._interval = FIRST_INTERVAL
        self._steps_are_small = False

    @classmethod
    def bytes_needed(cls, model: Model, problem: TrainingProblem) -> int:
        """Return the bytes of all arrays of the engine, including the best weights.

        An upper bound if several ranks share a machine.
        """
        lmm = cast(LMM, model)
        sizes = Sizes.from_problem(lmm, problem, _count_workers(lmm, problem))
        declared = sum(count_bytes(group, sizes) for group in GROUPS.values())
        gradient = sum(part.nbytes for part in empty_gradient(sizes.C, sizes.F))
        thresholds = 2 * LINE * sizes.W * np.dtype(np.float64).itemsize
        return declared + gradient + thresholds + super().bytes_needed(model, problem)

    def _allocate(self, sizes: Sizes, first_slot: int) -> State:
        """Allocate all arrays; `_assign` assigns samples to lanes."""
        model, X, comm = self.model, self.problem.X, self.problem.comm
        largest = [float(np.abs(w).max()) for w in (model.W0, model.W1, model.W2)]
        self._callback = ExchangeCallback(comm)
        others: dict[str, dict[str, Any]] = {
            "samples": {"X": X, "y": self.problem.y},
            # Engines of these ranks with equally many workers share this memory. Only one of them
            # runs a block at a time.
            "worst": {
                "threshold": comm.shared_memory((2, LINE * sizes.S)),
                "first_slot": first_slot,
                "n_ignored": sizes.k - sizes.n,
            },
            "exchange": {
                "address": self._callback.address,
                "first_sample": self.problem.first_sample,
                "rank": comm.rank,
            },
            "scale": {
                "x_largest": comm.largest(float(np.abs(X).max(initial=0.0))),
                "eps": float(np.finfo(sizes.F).eps),
                "small_fall": 0.0125 * largest[2],
                "small_rise": 0.00075 * largest[2],
                "margin": 0.075 * largest[2],
            },
        }
        state = State(
            weights=model.weights,
            grad=empty_gradient(sizes.C, sizes.F),
            **{name: allocate(g, sizes, **others.get(name, {})) for name, g in GROUPS.items()},
        )
        self._callback.exchange = state.exchange
        if len(X):
            state.samples.x_min[:], state.samples.x_max[:] = X.min(axis=0), X.max(axis=0)
        state.worst.heap[:] = state.exchange.place[:] = np.arange(sizes.k)
        state.scale.largest[:] = largest
        update_noise(state.scale)
        return state

    @property
    def _lanes(self) -> int:
        return self._state.samples.sample.shape[1]

    def _entries_per_step(self) -> int:
        return entries_per_step(self.model, self.problem)

    def _assign(self, layout: ChunkLayout) -> None:
        """Assign samples to lanes, and reset all bounds on maxima and losses; O(N·P)."""
        state, samples, search = self._state, self._state.samples, self._state.search
        for group in (state.maxima, state.events, state.lift, search, state.scratch):
            reset_arrays(group)
        for name in ("sample", "lanes", "label", "worker"):
            getattr(samples, name)[:] = getattr(layout, name)
        for c, sample in enumerate(layout.sample):
            samples.columns[c] = samples.X[sample].T
            samples.columns[c].min(axis=1, out=samples.low[c])
            samples.columns[c].max(axis=1, out=samples.high[c])
        search.leaf[:] = layout.leaf
        search.offsets[:] = level_offsets(search.chunk.shape[2])
        leaves = (layout.worker, layout.label, layout.leaf)
        search.chunk[leaves] = np.arange(len(layout.leaf))
        search.keys[leaves] = np.inf
        for worker_keys in search.keys:
            build_all(worker_keys, search.offsets, True)

    def _run(self, block: Block, journal: Journal) -> tuple[int, int]:
        # All ranks regroup at the same time, so that no rank waits while another one regroups.
        if self.problem.comm.bcast(self._is_regroup_due()):
            self.regroup()
        self._reset_thresholds()
        flags = np.full(LINE * self._n_workers, self.iteration - 1)
        with ThreadPoolExecutor(max(1, self._n_workers - 1)) as threads:
            try:
                helpers = [
                    threads.submit(self._run_helper, w, block, journal, flags)
                    for w in range(1, self._n_workers)
                ]
                done = self._run_worker(0, block, journal, flags)
            finally:
                flags[0] = STOP
        for helper in helpers:
            helper.result()  # raises the helper's exception
        self._callback.check()
        return done

    def _reset_thresholds(self) -> None:
        """Reset the thresholds in shared memory, and wait until all ranks have done so.

        Another engine of these ranks may have run since the last block.
        """
        worst = self._state.worst
        lines = slice(LINE * worst.first_slot, LINE * (worst.first_slot + self._n_workers))
        worst.threshold[:, lines] = -np.inf
        self.problem.comm.any(False)

    def _is_regroup_due(self) -> bool:
        """Return whether to regroup now: often at the beginning, then less often.

        At the start, and when steps become small, the order of losses changes fast.
        """
        if len(self._state.samples.lanes) < REGROUP_FROM or self.iteration == 0:
            return False
        if not self._steps_are_small and self.iteration >= self.step.small_from:
            self._steps_are_small, self._interval = True, FIRST_INTERVAL
            return True
        elapsed = time.perf_counter() - self._last_regrouping
        if elapsed < self._interval * self._regroup_seconds:
            return False
        self._interval = min(2.0 * self._interval, 1.0 / REGROUP_PART)
        return True

    def _run_helper(self, w: int, block: Block, journal: Journal, flags: NDArray) -> None:
        """Run a block as helper w; after a failure, publish STOP so that worker 0 does not wait."""
        try:
            self._run_worker(w, block, journal, flags)
        except BaseException:
            flags[LINE * w] = STOP
            raise

    def _run_worker(
        self, w: int, block: Block, journal: Journal, flags: NDArray
    ) -> tuple[int, int]:
        """Run a block as worker w; return (iterations done, signal)."""
        run = audited_block if self._audit else _kernels.sparse_block
        n, signal = run(
            w,
            flags,
            self._state,
            self.step,
            self.problem.w0_update_interval,
            self.iteration,
            journal,
            block.loss,
            block.sample,
            block.step,
        )
        if signal in VIOLATIONS:
            raise AssertionError(f"iteration {self.iteration + n}: {VIOLATIONS[signal]}")
        return n, signal

    def regroup(self) -> None:
        """Sort the samples of each class by loss into chunks; O(N·(H + P)).

        Samples with large losses then share chunks, and the bounds of other chunks stay below the
        worst loss for many iterations. Minima are moved with their samples, not recomputed.
        """
        began = time.perf_counter()
        self._replay()
        samples, odds = self._state.samples, self._state.search.odds
        valid = np.arange(self._lanes) < samples.lanes[:, None]
        lane_of = np.empty(len(self.problem.y), np.int64)
        lane_of[samples.sample[valid]] = np.flatnonzero(valid)
        # The loss of a resolved lane, whose odds are negative, was among the largest.
        odds_of = np.empty(len(self.problem.y), np.float32)
        odds_of[samples.sample[valid]] = np.where(odds < 0, np.inf, odds)[valid]
        order = np.argsort(-odds_of, kind="stable")
        layout = arrange(self.problem.y, order, self._lanes, self._n_workers)
        self._move_lanes(lane_of[layout.sample])
        self._assign(layout)
        self._last_regrouping = time.perf_counter()
        self._regroup_seconds = self._last_regrouping - began

    def _replay(self) -> None:
        """Bring all minima up to date, on all threads, and set the reach of each unit."""
        state, n_workers = self._state, self._n_workers
        with ThreadPoolExecutor(n_workers) as threads:
            workers = range(n_workers)
            list(threads.map(lambda w: _kernels.replay_chunks(state, w, n_workers), workers))
        highest = state.minima.g_max.max(axis=0, initial=-np.inf)
        state.lift.reach[:] = highest - state.log.raised

    def _move_lanes(self, source: NDArray) -> None:
        """Move the minima of lane ``source[c, q]``, a flat index, to lane q of chunk c; O(N·H)."""
        minima = self._state.minima
        for values in (minima.g, minima.g2, minima.a, minima.a2):
            for h in range(values.shape[1]):
                values[:, h] = values[:, h].ravel()[source]
        minima.g.max(axis=2, out=minima.g_max)
        np.maximum(minima.g_max, minima.g2.max(axis=2), out=minima.cap)


def _count_workers(model: LMM, problem: TrainingProblem) -> int:
    """Return W: all threads for large problems, else 1."""
    large = len(problem.y) * model.n_hidden >= PARALLEL_FROM
    return numba.get_num_threads() if large else 1


class ExchangeCallback:
    """Python function that a compiled block calls by its ``address`` to exchange messages.

    The address is 0 for a single process. ``exchange`` is the `RankExchange` with the messages.
    An exception cannot pass through compiled code: it ends the block, and `check` raises it
    afterwards.
    """

    def __init__(self, comm: Communicator) -> None:
        self._comm = comm
        self.exchange: Any = None
        self._failure: BaseException | None = None
        # The address is valid only while this object exists.
        self._function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(self._run)
        self.address = 0
        if not comm.is_serial:
            self.address = ctypes.cast(self._function, ctypes.c_void_p).value or 0

    def _run(self, message: int) -> int:
        try:
            if message == WORST:
                self._comm.allgather_into(self.exchange.sent, self.exchange.received)
            else:
                self._comm.allreduce_or(self.exchange.path)
        except BaseException as failure:
            self._failure = failure
            return 1
        return 0

    def check(self) -> None:
        """Raise the exception that ended a block, if any."""
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
