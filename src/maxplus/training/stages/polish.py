"""Polish: reduce the loss of every sample to a value below a level."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

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

# The initial target of sweeps is INITIAL_TARGET_RATIO·level. The distance from the level allows for
# increases of the losses of other samples by a step. If sweeps do not reach the target, for example
# because similar samples have different classes, the target is increased towards the level.
INITIAL_TARGET_RATIO = 0.72
# Factor of the step size of sweeps.
DAMPING = 0.5
MAX_SWEEPS = 100
# If the loss of a sample is still above the level after REINITIALIZE_AFTER rounds with steps on it,
# a unit that determines no score is moved to the sample, if there is such a unit. After
# GIVE_UP_AFTER rounds, no further steps are taken on the sample: it is given up.
REINITIALIZE_AFTER, GIVE_UP_AFTER = 3, 6
# Maximum fraction of samples above the level for which a polish is validated. The validation takes
# time, and on 21 data sets a polish with a larger fraction always failed it.
MAX_ABOVE = 0.05

# Returns whether a polish degrades neither the accuracy nor the log loss on held-out rows.
Validate = Callable[[LMM, TrainingProblem, TrainingMonitor], bool]


@dataclass(frozen=True)
class PolishOutcome(Outcome):
    """Result of a polish.

    ``losses`` (n_samples,) are the losses of all samples, ``above`` the indices of those whose loss
    is not below the level, ``steps`` the number of steps, and ``max_losses`` the maximum loss
    before each round and at the end.
    """

    losses: NDArray
    max_losses: NDArray
    steps: int
    above: NDArray

    @property
    def n_iter(self) -> int:
        """The number of rounds."""
        return len(self.max_losses) - 1

    @property
    def arrays(self) -> dict[str, NDArray]:
        """The maximum losses, and the indices of the samples whose loss is not below the level."""
        return {"polish_losses": self.max_losses, "suspects": self.above}

    @property
    def succeeded(self) -> bool:
        """True if every loss is below the level."""
        return self.above.size == 0


@dataclass(frozen=True)
class Polish:
    """Stage that reduces all losses to values below ``level`` by subgradient steps.

    Each round evaluates all losses, adds the samples with losses above a target, initially
    0.72·level, to an active set, and sweeps over this set with damped Polyak steps until all its
    losses are at most the target. If 100 sweeps are not sufficient, the next round has a target
    closer to the level.

    If the loss of a sample is still above the level after three rounds with steps on it, a hidden
    unit that determines no score is moved to the sample, if there is such a unit. After six rounds,
    no further steps are taken on the sample: it is given up, for instance because equal points have
    different labels. The polish ends when the losses of all other samples are below ``level``. If
    the losses of all samples are, and the level is at most log 2, all samples are classified
    correctly.

    The model with the fewest samples above the level is kept, and of those the one with the lowest
    mean loss. O(N·P·H) per round, and O(P·H) per active sample and sweep; W0 is not changed.

    Parameters
    ----------
    level : threshold that all losses should be below
    skip : number of samples with the largest initial losses that are given up immediately if they
        are above the level, because their labels may be wrong
    max_rounds : maximum number of rounds
    max_evaluations : number of evaluations of samples in all rounds and sweeps after which the
        polish ends, checked after each round and sweep; no limit if None
    """

    level: float = LOG2
    skip: int = 0
    max_rounds: int = 30
    max_evaluations: int | None = None

    name: ClassVar[str] = "polish"
    has_state: ClassVar[bool] = False

    def check(self, state: TrainingState, problem: TrainingProblem, kind: type[Model]) -> Model:
        """Raise StateError: a polish is repeated from its beginning."""
        raise StateError("training cannot resume in the middle of a polish")

    def run(
        self,
        model: LMM,
        problem: TrainingProblem,
        monitor: TrainingMonitor,
        state: TrainingState | None = None,
    ) -> PolishOutcome:
        """Train a copy of the model; ``problem.rng`` shuffles the active set."""
        level, model = self.level, model.copy()
        assert problem.rng is not None
        target_ratio = INITIAL_TARGET_RATIO
        # Each rank evaluates its samples; then all ranks take the same steps.
        n_samples = problem.n_samples
        active = np.zeros(n_samples, bool)
        failures = np.zeros(n_samples, np.int64)
        losses = problem.losses(model)
        worst = np.argsort(-losses, kind="stable")[: self.skip]
        skipped = worst[~(losses[worst] < level)]
        failures[skipped] = GIVE_UP_AFTER
        max_losses: list[float] = []
        steps, best = 0, None
        remaining = math.inf if self.max_evaluations is None else float(self.max_evaluations)
        for n_round in range(self.max_rounds + 1):
            above = ~(losses < level)
            max_losses.append(float(losses.max()))
            if best is None or (above.sum(), losses.sum()) < (best[1].sum(), best[2].sum()):
                best = model.copy(), above, losses
            failures[above & active] += 1
            active |= losses > target_ratio * level
            active &= failures < GIVE_UP_AFTER
            stuck = np.flatnonzero(above & (failures == REINITIALIZE_AFTER))
            _reinitialize_units(model, problem, stuck, target_ratio * level)
            remaining -= n_samples
            is_complete = not (above & active).any() or n_round == self.max_rounds or remaining <= 0
            status = monitor.report(
                n_round,
                self.max_rounds,
                max_losses[-1],
                float(best[2].max()),
                model,
                None,
                _final_status(above, skipped) if is_complete else None,
            )
            if status is not None:
                break
            samples = problem.rows(np.flatnonzero(active))
            n_steps, evaluations, has_converged = _sweeps(
                model, *samples, target_ratio * level, problem.rng, monitor, remaining
            )
            steps += n_steps
            remaining -= evaluations
            if not has_converged:
                target_ratio = (target_ratio + 1.0) / 2.0
            losses = problem.losses(model)
        assert best is not None
        assert status is not None
        kept, above, losses = best
        return PolishOutcome(
            kept, status, losses, np.array(max_losses), steps, np.flatnonzero(above)
        )


@dataclass(frozen=True)
class ValidatedPolish:
    """Stage that polishes the model if the validation on held-out rows succeeds.

    Otherwise the model is returned unchanged. The validation is skipped, and the model returned
    unchanged, if the number of losses that are not below the level is at most ``polish.skip``, or
    if it exceeds ``polish.skip`` by more than 5 % of the number of samples. The result of a polish
    is kept even if some losses are still above the level. The outcome contains the samples above
    the level, whether or not the model was polished.

    Parameters
    ----------
    validate : function that returns whether a polish degrades neither the accuracy nor the log loss
        on held-out rows
    polish : Polish
    """

    validate: Validate
    polish: Polish

    name: ClassVar[str] = Polish.name
    has_state: ClassVar[bool] = False

    def check(self, state: TrainingState, problem: TrainingProblem, kind: type[Model]) -> Model:
        """Raise StateError."""
        return self.polish.check(state, problem, kind)

    def run(
        self,
        model: LMM,
        problem: TrainingProblem,
        monitor: TrainingMonitor,
        state: TrainingState | None = None,
    ) -> PolishOutcome:
        """Polish a copy of the model, or return an outcome with the given model."""
        losses = problem.losses(model)
        above = np.flatnonzero(~(losses < self.polish.level))
        worst = float(losses.max())
        before = PolishOutcome(model, Status.UNFIT, losses, np.array([worst]), 0, above)
        if above.size <= self.polish.skip:
            end = Status.SKIPPED if above.size else Status.POLISHED
            monitor.report(0, 1, worst, worst, model, None, end)
            return replace(before, status=end)
        too_many = above.size - self.polish.skip > MAX_ABOVE * len(losses)
        if too_many or not self.validate(model, problem, monitor):
            monitor.report(0, 1, worst, worst, model, None, Status.UNFIT)
            return replace(before, status=monitor.stop_reason or Status.UNFIT)
        after = self.polish.run(model, problem, monitor)
        status = Status.UNFIT if after.status is Status.GIVEN_UP else after.status
        return replace(after, status=status)


def _final_status(above: NDArray, skipped: NDArray) -> Status:
    """Return the status of a complete polish."""
    if not above.any():
        return Status.POLISHED
    is_allowed = np.isin(np.flatnonzero(above), skipped).all()
    return Status.SKIPPED if is_allowed else Status.GIVEN_UP


def _sweeps(
    model: LMM,
    X: NDArray,
    y: NDArray,
    active: NDArray,
    target: float,
    rng: np.random.Generator,
    monitor: TrainingMonitor,
    max_evaluations: float,
) -> tuple[int, int, bool]:
    """Sweep over the active samples until no loss is above the target.

    After a full sweep, further sweeps include only the samples of the last sweep on which a step
    was taken; if no step was taken, all are included again. Sweeps also end after MAX_SWEEPS
    sweeps, ``max_evaluations`` evaluations or an interruption. Return the numbers of steps and
    evaluations, and whether no loss is above the target.
    """
    lam, g = np.empty(model.W0.size, model.dtype), np.empty(model.n_hidden, model.dtype)
    grad = empty_gradient(model.n_classes, model.dtype)
    rule, X = polyak(target), np.ascontiguousarray(X, model.dtype)
    steps, evaluations, order = 0, 0, active.copy()
    for _ in range(MAX_SWEEPS):
        rng.shuffle(order)
        moved = np.zeros(order.size, bool)
        sweep(frozen(X), frozen(y), order, model.weights, lam, g, grad, rule, DAMPING, moved)
        steps += int(moved.sum())
        evaluations += order.size
        if monitor.interrupted or (order.size == active.size and not moved.any()):
            return steps, evaluations, not monitor.interrupted
        if evaluations >= max_evaluations:
            break
        order = order[moved] if moved.any() else active.copy()
    return steps, evaluations, False


def _reinitialize_units(model: LMM, problem: TrainingProblem, stuck: NDArray, loss: float) -> None:
    """Move unused units to the samples ``stuck``, whose losses stay above the level.

    A unit is unused if it determines no score of any sample. It is replaced by a pyramid at the
    sample (`LMM.reinitialize_unit`) with the heights W2 for which the loss of the sample is
    ``loss``. O(N·P·H) if ``stuck`` is not empty.
    """
    if not stuck.size:
        return
    own = np.ascontiguousarray(problem.X, model.dtype)
    unused = np.flatnonzero(problem.comm.sum(model.activation_counts(own)) == 0)
    X, y, rows = problem.rows(stuck)
    X = np.ascontiguousarray(X, model.dtype)
    lowest = model.W2.min()
    for n, h in zip(rows, unused, strict=False):
        others = np.delete(model.scores(X[n : n + 1])[0].astype(np.float64), y[n])
        log_odds = math.log(math.exp(-loss) / -math.expm1(-loss))
        heights = np.full(model.n_classes, lowest)
        heights[y[n]] = np.logaddexp.reduce(others) + log_odds
        model.reinitialize_unit(int(h), X[n], heights)


@njit(cache=True)
def sweep(X, y, order, weights, lam, g, grad, rule, damping, moved):
    """Take a damped Polyak step on each sample of ``order`` whose loss is above the rule's target.

    Each loss is that of the current weights. W0 is not changed. ``moved`` is filled with True for
    the samples of ``order`` on which a step is taken; lam (2P) and g (H) are scratch space. O(P·H)
    per sample.
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
