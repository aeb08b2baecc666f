"""The exact worst-case polish: bring every sample's loss below a level."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxplus._compile.jit import frozen
from maxplus.models import LMM, LOG2, Model
from maxplus.models._lmm_kernels import empty_gradient
from maxplus.training import memory
from maxplus.training.conductor import Conductor
from maxplus.training.result import Status
from maxplus.training.stages._polish_kernels import sweep_for
from maxplus.training.stages.base import Outcome
from maxplus.training.state import StateError, TrainingState
from maxplus.training.steps import polyak
from maxplus.training.task import Task

# Sweeps aim somewhat below the level, so that steps for some samples do not lift others over it;
# where that is too much to ask of neighbours of different classes, ever closer to the level.
AIM = 0.72
DAMPING = 0.5
MAX_SWEEPS = 100
# A sample that is still above the level after so many rounds of steps on it gets a unit of its own,
# if one is idle; after so many, it is given up.
RESEAT_AFTER, PATIENCE = 3, 6


@dataclass(frozen=True)
class Polished(Outcome):
    """Each sample's loss, the course of the polish, and who is not below the level.

    ``course`` is the maximum loss before each round and at the end.
    """

    losses: NDArray
    course: NDArray
    steps: int
    above: NDArray

    @property
    def n_iter(self) -> int:
        """Rounds of steps that were done."""
        return len(self.course) - 1

    @property
    def facts(self) -> dict[str, NDArray]:
        """The course, and the samples that are not below the level."""
        return {"polish_losses": self.course, "suspects": self.above}

    @property
    def succeeded(self) -> bool:
        """Whether every loss is below the level."""
        return self.above.size == 0


@dataclass(frozen=True)
class Polish:
    """Lower the losses of all samples below ``level``, with as few and small moves as it takes.

    Each round evaluates all losses with the dense forward pass, adds the samples
    above 0.72·level to an active set, and sweeps over that set with damped Polyak steps
    towards 0.72·level until none of them is above it, or, where many sweeps do not get
    there, closer to the level in the next round. A sample that is above the level round
    after round gets a hidden unit that no sample needs, if there is one; in the end it is
    given up (the same point under two labels, for instance), lest it spoil the others.
    It ends when every other loss is below ``level``; if none was given up, a level of
    log 2 or less is the paper's certificate. The model with the fewest samples above is
    kept, and among those the one with the lowest mean loss. O(N·P·H) per round, and
    O(P·H) per active sample and sweep; W0 does not move.

    Parameters
    ----------
    level : what every loss must be below
    skip : so many samples, the worst at the start, are given up at once if they are above
        the level: their labels may be wrong
    max_rounds : when to stop in any case; the samples that are still above are reported
    visits : how many samples it may look at, each as often as it is, before it stops; no limit
        if None
    """

    level: float = LOG2
    skip: int = 0
    max_rounds: int = 30
    visits: int | None = None

    name: ClassVar[str] = "polish"
    has_state: ClassVar[bool] = False

    def bytes_needed(self, model: LMM, task: Task) -> int:
        """Memory that a run takes at its peak, about: two models, one being copied, and losses."""
        weights = sum(W.nbytes for W in model.weights_by_name().values())
        return 3 * weights + 64 * len(task.y)

    def check(self, state: TrainingState, task: Task, kind: type[Model]) -> Model:
        """A polish has no state: it takes seconds, and is repeated from its beginning."""
        raise StateError("a polish has no state to go on from")

    def run(
        self, model: LMM, task: Task, conductor: Conductor, state: TrainingState | None = None
    ) -> Polished:
        """Polish a copy of the model; ``task.rng`` shuffles the active set."""
        memory.require(self.bytes_needed(model, task), f"the {self.name}", memory.FEWER_UNITS)
        level, model = self.level, model.copy()
        assert task.rng is not None
        aim = AIM
        # Ranks evaluate their own samples, and then do the same with what they have heard.
        n_samples = task.n_samples
        active = np.zeros(n_samples, bool)
        failures = np.zeros(n_samples, np.int64)
        skipped = _worst(task.losses(model), level, self.skip)
        failures[skipped] = PATIENCE
        course: list[float] = []
        steps, best = 0, None
        left = math.inf if self.visits is None else float(self.visits)
        for n_round in range(self.max_rounds + 1):
            losses = task.losses(model)
            above = ~(losses < level)
            course.append(float(losses.max()))
            if best is None or (above.sum(), losses.sum()) < (best[1].sum(), best[2].sum()):
                best = model.copy(), above, losses
            failures[above & active] += 1
            active |= losses > aim * level
            active &= failures < PATIENCE
            _reseat(model, task, np.flatnonzero(above & (failures == RESEAT_AFTER)), aim * level)
            left -= n_samples
            over = not (above & active).any() or n_round == self.max_rounds or left <= 0
            status = conductor.report(
                n_round, self.max_rounds, course[-1], float(best[2].max()), model, None,
                _verdict(above, skipped) if over else None,
            )  # fmt: skip
            if status is not None:
                break
            swept = _sweeps(
                model, *task.rows(np.flatnonzero(active)), aim * level, task.rng, conductor, left
            )
            steps += swept.steps
            left -= swept.visits
            if not swept.settled:
                aim = (aim + 1.0) / 2.0
        assert best is not None
        assert status is not None
        kept, above, losses = best
        return Polished(kept, status, losses, np.array(course), steps, np.flatnonzero(above))


def _verdict(above: NDArray, skipped: NDArray) -> Status:
    """How a polish that has come to its end went."""
    if not above.any():
        return Status.POLISHED
    allowed = np.isin(np.flatnonzero(above), skipped).all()
    return Status.SKIPPED if allowed else Status.GIVEN_UP


def _worst(losses: NDArray, level: float, n: int) -> NDArray:
    """The n samples with the largest losses, as far as they are above the level."""
    worst = np.argsort(-losses, kind="stable")[:n]
    return worst[~(losses[worst] < level)]


class _Swept(NamedTuple):
    """Steps, samples that were looked at, and whether none is above the target."""

    steps: int
    visits: int
    settled: bool


def _sweeps(
    model: LMM, X: NDArray, y: NDArray, active: NDArray, target: float, rng: np.random.Generator,
    conductor: Conductor, most: float,
) -> _Swept:  # fmt: skip
    """Sweep over the active samples until none is above the target, or after so many visits.

    After a sweep over all of them only those that moved are visited, until those are
    settled; then all are looked at again.
    """
    lam, g = np.empty(model.W0.size, model.dtype), np.empty(model.n_hidden, model.dtype)
    grad = empty_gradient(model.n_classes, model.dtype)
    rule, X = polyak(target), np.ascontiguousarray(X, model.dtype)
    steps, visits, order = 0, 0, active.copy()
    for _ in range(MAX_SWEEPS):
        rng.shuffle(order)
        moved = np.zeros(order.size, bool)
        sweep_for(model.weights, order.size)(
            frozen(X), frozen(y), order, model.weights, lam, g, grad, rule, DAMPING, moved
        )
        steps += int(moved.sum())
        visits += order.size
        if conductor.interrupted or (order.size == active.size and not moved.any()):
            return _Swept(steps, visits, not conductor.interrupted)
        if visits >= most:
            break
        order = order[moved] if moved.any() else active.copy()
    return _Swept(steps, visits, False)


def _reseat(model: LMM, task: Task, stuck: NDArray, loss: float) -> None:
    """Put idle units onto stuck samples: steps on shared paths cannot tell neighbours apart.

    A unit that decides no score on any sample becomes a pyramid at the sample's point, high
    enough for the sample to have this loss. O(N·P·H) if any sample is stuck.
    """
    if not stuck.size:
        return
    own = np.ascontiguousarray(task.X, model.dtype)
    idle = np.flatnonzero(task.team.sum(model.wins(own)) == 0)
    X, y, places = task.rows(stuck)
    X = np.ascontiguousarray(X, model.dtype)
    lowest = model.W2.min()
    for n, h in zip(places, idle, strict=False):
        others = np.delete(model.scores(X[n : n + 1])[0].astype(np.float64), y[n])
        odds = math.log(math.exp(-loss) / -math.expm1(-loss))
        heights = np.full(model.n_classes, lowest)
        heights[y[n]] = np.logaddexp.reduce(others) + odds
        model.seat_unit(int(h), X[n], heights)
