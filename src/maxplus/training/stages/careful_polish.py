"""A polish that knows when to stay away."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from maxplus.models import LMM, Model
from maxplus.training.conductor import Conductor
from maxplus.training.result import Status
from maxplus.training.stages.polish import Polish, Polished
from maxplus.training.state import TrainingState
from maxplus.training.task import Task

# Nobody is asked where a larger share of the samples is above the level: on none of 21 tables did
# held-out rows agree to a polish of more than that, and asking takes time.
NEARLY_ALL = 0.05

# Whether a polish is worth it, asked with the network and what it was trained on.
Ask = Callable[[LMM, Task, Conductor], bool]


@dataclass(frozen=True)
class CarefulPolish:
    """Polish if held-out rows say that it costs nothing; otherwise leave the model as it is.

    Fitting the last few samples is right where samples can be fitted. Nobody is asked where
    nothing is above the level, or more than one sample in twenty. A polish that is begun is kept:
    what it could not bring below the level is reported, as is all that was left alone.

    Parameters
    ----------
    ask : what held-out rows say
    polish : what is done if they agree
    """

    ask: Ask
    polish: Polish

    name: ClassVar[str] = Polish.name
    has_state: ClassVar[bool] = False

    def bytes_needed(self, model: LMM, task: Task) -> int:
        """As much as the polish may take."""
        return self.polish.bytes_needed(model, task)

    def check(self, state: TrainingState, task: Task, kind: type[Model]) -> Model:
        """It has no state, as a polish has none."""
        return Polish().check(state, task, kind)

    def run(
        self, model: LMM, task: Task, conductor: Conductor, state: TrainingState | None = None
    ) -> Polished:
        """The polished model, or the one that was given."""
        losses = task.losses(model)
        above = np.flatnonzero(~(losses < self.polish.level))
        worst = float(losses.max())
        before = Polished(model, Status.UNFIT, losses, np.array([worst]), 0, above)
        if above.size <= self.polish.skip:
            end = Status.SKIPPED if above.size else Status.POLISHED
            conductor.report(0, 1, worst, worst, model, None, end)
            return replace(before, status=end)
        too_many = above.size - self.polish.skip > NEARLY_ALL * len(losses)
        if too_many or not self.ask(model, task, conductor):
            conductor.report(0, 1, worst, worst, model, None, Status.UNFIT)
            return replace(before, status=conductor.asked or Status.UNFIT)
        after = self.polish.run(model, task, conductor)
        status = Status.UNFIT if after.status is Status.GIVEN_UP else after.status
        return replace(after, status=status)
