"""A polish that knows when to stay away."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from maxplus.models import LMM, LOG2, Model
from maxplus.training.conductor import Conductor
from maxplus.training.result import Status
from maxplus.training.stages.polish import Polish, Polished
from maxplus.training.state import TrainingState
from maxplus.training.task import Task

# The share of the samples that may be above the level for a polish to be worth while. Measured on
# noisy tables: up to 1 % it costs no accuracy and no time; beyond 5 % it costs both.
NEARLY_ALL = 0.01


@dataclass(frozen=True)
class CarefulPolish:
    """Polish where nearly all samples fit already; otherwise leave the model as it is.

    Fitting the last few samples is right where samples can be fitted. If more than 1 % of them
    (and more than one) are above the level, or the polish does not bring all of them below it,
    the model stays what it was, and those above are reported.

    Parameters
    ----------
    level, skip : as in `Polish`; samples that may be skipped do not count
    visits : how many samples the polish may look at, as often as it does, before it gives up
    """

    level: float = LOG2
    skip: int = 0
    visits: int | None = None

    name: ClassVar[str] = Polish.name
    has_state: ClassVar[bool] = False

    def check(self, state: TrainingState, task: Task, kind: type[Model]) -> Model:
        """It has no state, as a polish has none."""
        return Polish().check(state, task, kind)

    def run(
        self, model: LMM, task: Task, conductor: Conductor, state: TrainingState | None = None
    ) -> Polished:
        """The polished model if all of its samples fit, else the one that was given."""
        losses = task.losses(model)
        above = np.flatnonzero(~(losses < self.level))
        before = Polished(
            model, Status.UNFIT, losses, np.array([losses.max()], np.float64), 0, above
        )
        if above.size - self.skip > max(1, NEARLY_ALL * len(losses)):
            worst = float(losses.max())
            status = conductor.report(0, 1, worst, worst, model, None, Status.UNFIT)
            return replace(before, status=status or Status.UNFIT)
        polish = Polish(self.level, self.skip, visits=self.visits)
        after = polish.run(model, task, conductor)
        if after.status in (Status.POLISHED, Status.SKIPPED):
            return after
        status = after.status if after.status.ends_training else Status.UNFIT
        return replace(before, status=status, course=after.course, steps=after.steps)
