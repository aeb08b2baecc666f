"""Exact worst-case polish: bring the loss of every sample below a level."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxplus._compile.jit import frozen, njit
from maxplus._compile.references import referenced
from maxplus.models import LMM, LOG2, Model
from maxplus.models._lmm_kernels import (
    active_path,
    empty_gradient,
    squared_norm,
    subgradient_entries,
)
from maxplus.models._softmax import sample_loss
from maxplus.training.engines.step import move
from maxplus.training.monitor import TrainingMonitor
from maxplus.training.problem import TrainingProblem
from maxplus.training.result import StateError, Status, TrainingState
from maxplus.training.stages.base import Outcome
from maxplus.training.steps import polyak, step_size

# Sweeps aim somewhat below the level, so that steps for some samples do not lift others over it;
# where neighbours of different classes cannot both reach that, ever closer to the level.
AIM = 0.72
DAMPING = 0.5
MAX_SWEEPS = 100
# A sample that is still above the level after REINITIALIZE_AFTER rounds of steps on it gets a unit
# of its own, if one is idle; after GIVE_UP_AFTER rounds, it is given up.
REINITIALIZE_AFTER, GIVE_UP_AFTER = 3, 6
# Held-out rows are not consulted where a larger share of the samples is above the level: on none of
# 21 tables did they support a polish of more than that, and the validation takes time.
MOST_ABOVE = 0.05

# Returns whether held-out rows support a polish of this network, which was trained on this problem.
Validate = Callable[[LMM, TrainingProblem, TrainingMonitor], bool]


@dataclass(frozen=True)
class Polished(Outcome):
    """The losses of all samples, and the samples that are not below the level.

    ``course`` is the maximum loss before each round and at the end.
    """

    losses: NDArray
    course: NDArray
    steps: int
    above: NDArray

    @property
    def n_iter(self) -> int:
        """The number of rounds."""
        return len(self.course) - 1

    @property
    def arrays(self) -> dict[str, NDArray]:
        """The maximum losses, and the samples that are not below the level."""
        return {"polish_losses": self.course, "suspects": self.above}

    @property
    def succeeded(self) -> bool:
        """True if every loss is below the level."""
        return self.above.size == 0


@dataclass(frozen=True)
class Polish:
    """Lower the losses of all samples below ``level``, with few and small steps.

    Each round evaluates all losses with the dense forward pass, adds the samples
    above 0.72·level to an active set, and sweeps over that set with damped Polyak steps
    towards 0.72·level until none of them is above it, or, if many sweeps do not suffice,
    towards a target closer to the level in the next round. A sample that stays above the
    level for several rounds gets an idle hidden unit, if there is one; after further rounds
    it is given up (for instance, the same point with two labels), so that it does not spoil
    the others. The polish ends when every other loss is below ``level``; if no sample was
    given up, a level of log 2 or less is the paper's certificate. The model with the fewest
    samples above the level is kept, and of those the one with the lowest mean loss. O(N·P·H)
    per round, and O(P·H) per active sample and sweep; W0 does not move.

    Parameters
    ----------
    level : upper bound for every loss
    skip : number of samples, the worst at the start, that are given up at once if they are above
        the level: their labels may be wrong
    max_rounds : maximum number of rounds; samples that are still above the level are reported
    visits : maximum number of evaluations of a single sample; no limit if None
    """

    level: float = LOG2
    skip: int = 0
    max_rounds: int = 30
    visits: int | None = None

    name: ClassVar[str] = "polish"
    has_state: ClassVar[bool] = False

    def check(self, state: TrainingState, problem: TrainingProblem, kind: type[Model]) -> Model:
        """Refuse every state: a polish takes seconds, and is repeated from its beginning."""
        raise StateError("a polish has no state to go on from")

    def run(
        self,
        model: LMM,
        problem: TrainingProblem,
        monitor: TrainingMonitor,
        state: TrainingState | None = None,
    ) -> Polished:
        """Polish a copy of the model; ``problem.rng`` shuffles the active set."""
        level, model = self.level, model.copy()
        assert problem.rng is not None
        aim = AIM
        # Ranks evaluate their own samples, gather all losses, and then take the same steps.
        n_samples = problem.n_samples
        active = np.zeros(n_samples, bool)
        failures = np.zeros(n_samples, np.int64)
        skipped = _worst(problem.losses(model), level, self.skip)
        failures[skipped] = GIVE_UP_AFTER
        course: list[float] = []
        steps, best = 0, None
        left = math.inf if self.visits is None else float(self.visits)
        for n_round in range(self.max_rounds + 1):
            losses = problem.losses(model)
            above = ~(losses < level)
            course.append(float(losses.max()))
            if best is None or (above.sum(), losses.sum()) < (best[1].sum(), best[2].sum()):
                best = model.copy(), above, losses
            failures[above & active] += 1
            active |= losses > aim * level
            active &= failures < GIVE_UP_AFTER
            stuck = np.flatnonzero(above & (failures == REINITIALIZE_AFTER))
            _reinitialize_units(model, problem, stuck, aim * level)
            left -= n_samples
            over = not (above & active).any() or n_round == self.max_rounds or left <= 0
            status = monitor.report(
                n_round,
                self.max_rounds,
                course[-1],
                float(best[2].max()),
                model,
                None,
                _verdict(above, skipped) if over else None,
            )
            if status is not None:
                break
            swept = _sweeps(
                model,
                *problem.rows(np.flatnonzero(active)),
                aim * level,
                problem.rng,
                monitor,
                left,
            )
            steps += swept.steps
            left -= swept.visits
            if not swept.settled:
                aim = (aim + 1.0) / 2.0
        assert best is not None
        assert status is not None
        kept, above, losses = best
        return Polished(kept, status, losses, np.array(course), steps, np.flatnonzero(above))


@dataclass(frozen=True)
class ValidatedPolish:
    """Polish if that does not increase the loss on held-out rows; else keep the model as it is.

    The validation is skipped if no sample is above the level, or more than one in twenty. The
    result of a polish is kept even if it is incomplete: the samples above the level are reported,
    and so are all of them without a polish.

    Parameters
    ----------
    validate : whether held-out rows support the polish
    polish : the polish
    """

    validate: Validate
    polish: Polish

    name: ClassVar[str] = Polish.name
    has_state: ClassVar[bool] = False

    def check(self, state: TrainingState, problem: TrainingProblem, kind: type[Model]) -> Model:
        """Refuse every state."""
        return self.polish.check(state, problem, kind)

    def run(
        self,
        model: LMM,
        problem: TrainingProblem,
        monitor: TrainingMonitor,
        state: TrainingState | None = None,
    ) -> Polished:
        """Return the polished model, or the given one."""
        losses = problem.losses(model)
        above = np.flatnonzero(~(losses < self.polish.level))
        worst = float(losses.max())
        before = Polished(model, Status.UNFIT, losses, np.array([worst]), 0, above)
        if above.size <= self.polish.skip:
            end = Status.SKIPPED if above.size else Status.POLISHED
            monitor.report(0, 1, worst, worst, model, None, end)
            return replace(before, status=end)
        too_many = above.size - self.polish.skip > MOST_ABOVE * len(losses)
        if too_many or not self.validate(model, problem, monitor):
            monitor.report(0, 1, worst, worst, model, None, Status.UNFIT)
            return replace(before, status=monitor.stop_reason or Status.UNFIT)
        after = self.polish.run(model, problem, monitor)
        status = Status.UNFIT if after.status is Status.GIVEN_UP else after.status
        return replace(after, status=status)


def _verdict(above: NDArray, skipped: NDArray) -> Status:
    """Return the status of a polish that is complete."""
    if not above.any():
        return Status.POLISHED
    allowed = np.isin(np.flatnonzero(above), skipped).all()
    return Status.SKIPPED if allowed else Status.GIVEN_UP


def _worst(losses: NDArray, level: float, n: int) -> NDArray:
    """Return the n samples with the largest losses, as far as they are above the level."""
    worst = np.argsort(-losses, kind="stable")[:n]
    return worst[~(losses[worst] < level)]


class _Swept(NamedTuple):
    """Numbers of steps and of evaluations, and whether no sample is above the target."""

    steps: int
    visits: int
    settled: bool


def _sweeps(
    model: LMM,
    X: NDArray,
    y: NDArray,
    active: NDArray,
    target: float,
    rng: np.random.Generator,
    monitor: TrainingMonitor,
    most: float,
) -> _Swept:
    """Sweep over the active samples until none is above the target, or after ``most`` visits.

    After a sweep over all of them only those that caused a step are visited, until those are
    below the target; then all are evaluated again.
    """
    lam, g = np.empty(model.W0.size, model.dtype), np.empty(model.n_hidden, model.dtype)
    grad = empty_gradient(model.n_classes, model.dtype)
    rule, X = polyak(target), np.ascontiguousarray(X, model.dtype)
    steps, visits, order = 0, 0, active.copy()
    for _ in range(MAX_SWEEPS):
        rng.shuffle(order)
        moved = np.zeros(order.size, bool)
        sweep(frozen(X), frozen(y), order, model.weights, lam, g, grad, rule, DAMPING, moved)
        steps += int(moved.sum())
        visits += order.size
        if monitor.interrupted or (order.size == active.size and not moved.any()):
            return _Swept(steps, visits, not monitor.interrupted)
        if visits >= most:
            break
        order = order[moved] if moved.any() else active.copy()
    return _Swept(steps, visits, False)


def _reinitialize_units(model: LMM, problem: TrainingProblem, stuck: NDArray, loss: float) -> None:
    """Move idle units to stuck samples: steps on shared paths cannot separate neighbours.

    A unit that decides no score on any sample becomes a pyramid at the sample's point, high
    enough for the sample to have this loss. O(N·P·H) if any sample is stuck.
    """
    if not stuck.size:
        return
    own = np.ascontiguousarray(problem.X, model.dtype)
    idle = np.flatnonzero(problem.comm.sum(model.wins(own)) == 0)
    X, y, places = problem.rows(stuck)
    X = np.ascontiguousarray(X, model.dtype)
    lowest = model.W2.min()
    for n, h in zip(places, idle, strict=False):
        others = np.delete(model.scores(X[n : n + 1])[0].astype(np.float64), y[n])
        odds = math.log(math.exp(-loss) / -math.expm1(-loss))
        heights = np.full(model.n_classes, lowest)
        heights[y[n]] = np.logaddexp.reduce(others) + odds
        model.reinitialize_unit(int(h), X[n], heights)


@njit(cache=True)
def sweep(X, y, order, weights, lam, g, grad, rule, damping, moved):
    """Take a damped Polyak step on each sample of ``order`` whose loss is above the rule's target.

    W0 stays. Losses are those of the present weights, not of the sweep's beginning. ``moved`` marks
    the samples of ``order`` with a step; lam (2P) and g (H) are scratch space. O(P·H) per sample.
    """
    grad, rule = referenced(grad), referenced(rule)
    for k in range(order.size):
        n = order[k]
        active_path(X[n], weights, lam, g, grad.z, grad.h_star, grad.i_star)
        loss = sample_loss(grad.z, y[n])
        moved[k] = loss > rule.target
        if moved[k]:
            damped = rule.target + damping * (loss - rule.target)
            subgradient_entries(X[n], y[n], False, grad)
            alpha = step_size(rule, 0, damped, squared_norm(grad))
            if alpha != 0.0:
                move(weights, grad, alpha, None, 0)
