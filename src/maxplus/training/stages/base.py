"""What a stage of training is, and how stages follow one another."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from maxplus.distributed.communicator import agreed
from maxplus.models import Model, Network
from maxplus.training.conductor import Conductor
from maxplus.training.result import Status, TrainingOverflowError
from maxplus.training.state import StateError, TrainingState
from maxplus.training.task import Task


@dataclass(frozen=True)
class Outcome(ABC):
    """The model after a stage, and how the stage ended; subclasses tell what happened in it."""

    model: Any
    status: Status

    @property
    @abstractmethod
    def n_iter(self) -> int:
        """Epochs, iterations or rounds that were done."""

    @property
    @abstractmethod
    def facts(self) -> dict[str, NDArray]:
        """What is worth keeping of the stage's course, by name."""


class Stage(Protocol):
    """One way to improve a model, from where the last stage left it.

    ``has_state`` tells whether an interrupted training can go on in the middle of it; a
    stage that has none is repeated from its beginning.
    """

    name: ClassVar[str]
    has_state: ClassVar[bool]

    def run(
        self, model: Any, task: Task, conductor: Conductor, state: TrainingState | None = None
    ) -> Outcome:
        """Train; from ``state`` on, if there is one, which `check` has looked at."""

    def bytes_needed(self, model: Any, task: Task) -> int:
        """Memory that `run` takes at its peak, about; it refuses to begin where there is less."""

    def check(self, state: TrainingState, task: Task, kind: type[Model]) -> Model:
        """The state's model, of a kind; StateError if training cannot go on from the state."""


@dataclass(frozen=True)
class Trained:
    """All stages of a training: the model, how it ended, what each stage brought."""

    model: Any
    outcomes: tuple[Outcome, ...]
    status: Status
    last: str

    @property
    def n_iter(self) -> int:
        """Epochs, iterations and rounds together."""
        return sum(outcome.n_iter for outcome in self.outcomes)

    @property
    def facts(self) -> dict[str, NDArray]:
        """Those of all stages."""
        return {name: fact for outcome in self.outcomes for name, fact in outcome.facts.items()}


def run_stages(
    stages: Sequence[Stage],
    model: Any,
    task: Task,
    conductor: Conductor,
    state: TrainingState | None = None,
    before: Mapping[str, NDArray] | None = None,
) -> Trained:
    """One stage after the other, until one is ended by Ctrl-C or a callback.

    With a ``state``, stages before its own are taken as done; what they brought is in
    ``before``, which holds all that a state must know of the time before its stage.

    Parameters
    ----------
    stages : sequence of Stage
    model : LMM or another model
        It stays as it is; stages move copies.
    task : Task
    conductor : Conductor
    state : TrainingState, optional
    before : mapping of arrays, optional

    Returns
    -------
    Trained

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxplus.models import LMM
    >>> from maxplus.training import Conductor, Iterations, Task, run_stages
    >>> from maxplus.training.engines import DenseEngine
    >>> import numpy as np
    >>> X, y = load_iris(return_X_y=True)
    >>> start = LMM.of_boxes(X[::50], 0.0, 8.0 * np.eye(3) - 4.0, 4.0)
    >>> with Conductor() as conductor:
    ...     done = run_stages([Iterations(DenseEngine, 20)], start, Task(X, y), conductor)
    >>> bool(done.model.losses(X, y).max() <= start.losses(X, y).max())
    True
    """
    settled = dict(before or {})
    outcomes: list[Outcome] = []
    status, last = Status.MAX_ITER, ""
    names = [stage.name for stage in stages]
    if state is not None and state.stage not in names:
        raise StateError(f"there is no stage {state.stage!r:.40} in this training")
    first = 0 if state is None else names.index(state.stage)
    require_finite(model)
    for k, stage in enumerate(stages[first:], first):
        asked = conductor.asked
        if asked is not None:
            status = asked
            break
        conductor.begin(
            stage.name,
            is_last=not any(later.has_state for later in stages[k + 1 :]),
            settle=lambda own, known=dict(settled): own.after(known),  # type: ignore[misc]
        )
        outcome = stage.run(model, task, conductor, state if k == first else None)
        require_finite(outcome.model)
        outcomes.append(outcome)
        model, status, last = outcome.model, outcome.status, stage.name
        settled |= outcome.facts | {"n_iter": settled.get("n_iter", np.zeros(1, np.int64)) +
                                    outcome.n_iter}  # fmt: skip
        if status.ends_training:
            break
    return Trained(model, tuple(outcomes), status, last)


def require_finite(model: Network) -> None:
    """Overflow ends a training with an error: a model that is not finite is none."""
    for name, W in model.weights_by_name().items():
        if not np.isfinite(W).all():
            overflow = TrainingOverflowError(
                f"training overflowed: the weights {name} left the range of {model.dtype}; scale "
                "X (for example with StandardScaler) or take a smaller slope"
            )
            raise agreed(overflow)
