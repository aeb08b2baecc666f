"""A committee's members, trained side by side."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from queue import Empty, SimpleQueue
from threading import Event
from typing import ClassVar, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from maxplus.models import LMM, Committee, Model
from maxplus.training import memory
from maxplus.training.conductor import Conductor, Progress
from maxplus.training.result import Status
from maxplus.training.stages.base import Outcome, Stage, Trained, run_stages
from maxplus.training.stages.polish import Polished
from maxplus.training.stages.warm_up import WarmUp
from maxplus.training.state import StateError, TrainingState
from maxplus.training.task import Task
from maxplus.training.workers import HEARD_WITHIN, workers

REMEDY = f"{memory.FEWER_UNITS}, or a smaller n_jobs"


class Plan(NamedTuple):
    """How a member is trained.

    Attributes
    ----------
    stages : its own
    seed : of its generator
    counts : array of shape (N,), how often each sample is in its bag; None is each once
    """

    stages: Sequence[Stage]
    seed: int
    counts: NDArray | None = None

    def task(self, task: Task) -> Task:
        """The member's part of what the committee is trained on."""
        rng = np.random.default_rng(self.seed)
        if self.counts is None:
            return replace(task, rng=rng)
        own = self.counts[task.first_sample :][: len(task.y)]
        rows = np.flatnonzero(own)
        weight = own[rows].astype(np.float64)
        if task.weight is not None:
            weight *= task.weight[rows]
        return replace(task, X=task.X[rows], y=task.y[rows], weight=weight, rng=rng)


@dataclass(frozen=True)
class Gathered(Outcome):
    """What training brought of each member."""

    members: tuple[Trained, ...]

    @property
    def n_iter(self) -> int:
        """Those of all members together."""
        return sum(member.n_iter for member in self.members)

    @property
    def facts(self) -> dict[str, NDArray]:
        """The mean of the members' soft losses, over the epochs that all of them have done."""
        courses = [member.facts.get("warmup_losses", np.empty(0)) for member in self.members]
        least = min(course.size for course in courses)
        return {"warmup_losses": np.mean([course[:least] for course in courses], axis=0)}


@dataclass(frozen=True)
class Members:
    """Train each member of a committee by stages of its own, some members at a time.

    Each trains on one core with a generator of its own, so that the outcome depends on neither
    ``n_jobs`` nor the order in which members end. Ctrl-C raises KeyboardInterrupt: a committee
    whose members are half done is none. A callback that ends the training ends the members that
    have begun where they are; the others are left out.

    Parameters
    ----------
    plans : one for each member of the model that is trained
    n_jobs : members at a time
    """

    plans: Sequence[Plan]
    n_jobs: int

    name: ClassVar[str] = "members"
    has_state: ClassVar[bool] = False

    def check(self, state: TrainingState, task: Task, kind: type[Model]) -> Model:
        """Members have no common state: they are trained from their beginning."""
        raise StateError("a committee has no state to go on from")

    def run(
        self,
        model: Committee,
        task: Task,
        conductor: Conductor,
        state: TrainingState | None = None,
    ) -> Gathered:
        """A committee of members that were trained on from those of the model."""
        memory.require(
            self.bytes_needed(model, task), f"training {self._at_once} members at a time", REMEDY
        )
        course = _Course(len(self.plans), conductor)
        if not task.team.is_alone:
            # Ranks share the rows of each member.
            members = course.in_turn(partial(self._train, task=task, course=course), model.members)
            return self._gathered(members, conductor)
        with threadpool_limits(1):
            pool = workers(self.n_jobs)
            try:
                futures = [
                    pool.submit(self._train, k, member, task, course)
                    for k, member in enumerate(model.members)
                ]
                members = course.follow(futures)
            finally:
                course.hurry()
                pool.shutdown(cancel_futures=True)
        return self._gathered(members, conductor)

    def _gathered(self, members: Sequence[Trained], conductor: Conductor) -> Gathered:
        status = conductor.asked or Status.MAX_ITER
        return Gathered(Committee(member.model for member in members), status, tuple(members))

    @property
    def _at_once(self) -> int:
        return min(self.n_jobs, len(self.plans))

    def bytes_needed(self, model: Committee, task: Task) -> int:
        """Memory that a run takes at its peak, about: as many of the largest as train at a time."""
        each = [
            max(stage.bytes_needed(member, task) for stage in plan.stages)
            + (0 if plan.counts is None else task.X.nbytes)
            for plan, member in zip(self.plans, model.members, strict=True)
        ]
        return self._at_once * max(each)

    def _train(self, k: int, member: LMM, task: Task, course: _Course) -> Trained:
        try:
            plan = self.plans[k]
            trained = run_stages(plan.stages, member, plan.task(task), course.conductors[k])
        finally:
            course.end(k)
        return trained if plan.counts is None else _numbered(trained, np.flatnonzero(plan.counts))


def _numbered(trained: Trained, rows: NDArray) -> Trained:
    """The same with suspects that are numbered as the committee's samples are."""
    outcomes = (
        replace(outcome, above=rows[outcome.above]) if isinstance(outcome, Polished) else outcome
        for outcome in trained.outcomes
    )
    return replace(trained, outcomes=tuple(outcomes))


class _Course:
    """How far the members are, heard in their threads and told to one conductor in its own."""

    def __init__(self, n_members: int, conductor: Conductor) -> None:
        self.conductor = conductor
        self.conductors = [Conductor([partial(self._hear, k)]) for k in range(n_members)]
        self._news: SimpleQueue[tuple[int, Progress | None]] = SimpleQueue()
        self._over = Event()
        self._latest: dict[int, Progress] = {}
        self._best = math.inf

    def _hear(self, k: int, progress: Progress) -> bool:
        """What a member reports; whether it is to end."""
        self._news.put((k, progress))
        return self._over.is_set()

    def end(self, k: int) -> None:
        """Member k has ended, well or not."""
        self._news.put((k, None))

    def hurry(self) -> None:
        """Whoever is still at work is to stop at once."""
        for conductor in self.conductors:
            conductor.interrupted = True

    def follow(self, futures: Sequence[Future[Trained]]) -> list[Trained]:
        """Wait for all members, or for those that have begun when a callback ends the training."""
        waiting = set(range(len(futures)))
        while waiting:
            with suppress(Empty):
                k, progress = self._news.get(timeout=HEARD_WITHIN)
                if progress is None:
                    # An error that ended a member ends them all.
                    futures[k].result()
                    waiting.discard(k)
                elif not self._over.is_set() and self._tell(k, progress):
                    self._over.set()
                    waiting -= {k for k in waiting if futures[k].cancel()}
            if self.conductor.interrupted:
                raise KeyboardInterrupt
        if not self._over.is_set():
            self._report(Status.MAX_ITER)
        return [future.result() for future in futures if not future.cancelled()]

    def in_turn(
        self, train: Callable[[int, LMM], Trained], members: Sequence[LMM]
    ) -> list[Trained]:
        """Train members one after the other, as long as nobody asks for the end."""
        trained = []
        for k, member in enumerate(members):
            trained.append(train(k, member))
            while not self._news.empty():
                number, progress = self._news.get()
                if progress is not None and self._tell(number, progress):
                    return trained
            if self.conductor.interrupted:
                raise KeyboardInterrupt
        self._report(Status.MAX_ITER)
        return trained

    def _tell(self, k: int, progress: Progress) -> bool:
        """Pass on what member k reports; whether somebody asks for the end."""
        # The bar counts epochs: rounds of a polish, of which nobody knows how many come, do not.
        if progress.stage == WarmUp.name:
            self._latest[k] = progress
        return self._report(None) is Status.CALLBACK

    def _report(self, end: Status | None) -> Status | None:
        known = [self._latest[k] for k in sorted(self._latest)]
        loss = float(np.mean([progress.loss for progress in known]))
        self._best = min(self._best, loss)
        done = sum(progress.iteration for progress in known)
        unknown = len(self.conductors) - len(known)
        total = sum(progress.max_iter for progress in known) + unknown * known[0].max_iter
        model = Committee(cast(LMM, progress.model) for progress in known)
        return self.conductor.report(
            done if end is None else total, total, loss, self._best, model, None, end
        )
