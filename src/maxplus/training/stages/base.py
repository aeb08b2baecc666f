"""Interface of training stages, and their execution in sequence."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from maxplus.distributed.communicator import mark_collective
from maxplus.models import Model, Network
from maxplus.training.monitor import TrainingMonitor
from maxplus.training.problem import TrainingProblem
from maxplus.training.result import StateError, Status, TrainingOverflowError, TrainingState


@dataclass(frozen=True)
class Outcome(ABC):
    """Result of a stage: the model and the status; subclasses add other results."""

    model: Any
    status: Status

    @property
    @abstractmethod
    def n_iter(self) -> int:
        """The number of epochs, iterations or rounds."""

    @property
    @abstractmethod
    def arrays(self) -> dict[str, NDArray]:
        """Results of the stage as arrays, by name."""


class Stage(Protocol):
    """A stage of training, which continues with the model of the previous stage.

    If ``has_state`` is True, training can resume in the middle of the stage; otherwise the stage is
    repeated from its beginning.
    """

    name: ClassVar[str]
    has_state: ClassVar[bool]

    def run(
        self,
        model: Any,
        problem: TrainingProblem,
        monitor: TrainingMonitor,
        state: TrainingState | None = None,
    ) -> Outcome:
        """Train the model, or resume from ``state``, which must have been validated by `check`."""

    def check(self, state: TrainingState, problem: TrainingProblem, kind: type[Model]) -> Model:
        """Return the model of a state; StateError if training cannot resume from it."""


@dataclass(frozen=True)
class TrainingResult:
    """Result of all stages: model, outcome of each stage, status and name of the last stage run."""

    model: Any
    outcomes: tuple[Outcome, ...]
    status: Status
    last_stage: str

    @property
    def n_iter(self) -> int:
        """The total number of epochs, iterations and rounds."""
        return sum(outcome.n_iter for outcome in self.outcomes)

    @property
    def arrays(self) -> dict[str, NDArray]:
        """The arrays of all stages."""
        return {name: array for outcome in self.outcomes for name, array in outcome.arrays.items()}


def run_stages(
    stages: Sequence[Stage],
    model: Any,
    problem: TrainingProblem,
    monitor: TrainingMonitor,
    state: TrainingState | None = None,
    before: Mapping[str, NDArray] | None = None,
) -> TrainingResult:
    """Run stages in order, until Ctrl-C or a callback ends one of them.

    With a ``state``, the stages before the one that wrote it are skipped, and ``before`` contains
    their results.

    Parameters
    ----------
    stages : sequence of Stage
    model : LMM or another model
        Initial model, which is not changed.
    problem : TrainingProblem
    monitor : TrainingMonitor
    state : TrainingState, optional
    before : mapping of arrays, optional

    Returns
    -------
    TrainingResult

    Raises
    ------
    TrainingOverflowError
        If a weight of the initial model or of the result of a stage is not finite.
    StateError
        If the state was not written by any of the stages.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxplus.models import LMM
    >>> from maxplus.training import TrainingMonitor, Iterations, TrainingProblem, run_stages
    >>> from maxplus.training.engines import DenseEngine
    >>> import numpy as np
    >>> X, y = load_iris(return_X_y=True)
    >>> start = LMM.from_boxes(X[::50], 0.0, 8.0 * np.eye(3) - 4.0, 4.0)
    >>> with TrainingMonitor() as monitor:
    ...     done = run_stages([Iterations(DenseEngine, 20)], start, TrainingProblem(X, y), monitor)
    >>> bool(done.model.losses(X, y).max() <= start.losses(X, y).max())
    True
    """
    results = dict(before or {})
    outcomes: list[Outcome] = []
    status, last_stage = Status.MAX_ITER, ""
    names = [stage.name for stage in stages]
    if state is not None and state.stage not in names:
        raise StateError(f"its stage {state.stage!r:.40} is not one of {', '.join(names)}")
    first = 0 if state is None else names.index(state.stage)
    require_finite(model)
    for k, stage in enumerate(stages[first:], first):
        reason = monitor.stop_reason
        if reason is not None:
            status = reason
            break
        monitor.begin(
            stage.name,
            is_last=not any(later.has_state for later in stages[k + 1 :]),
            complete_state=lambda own, earlier=dict(results): own.with_earlier_results(earlier),  # type: ignore[misc]
        )
        outcome = stage.run(model, problem, monitor, state if k == first else None)
        require_finite(outcome.model)
        outcomes.append(outcome)
        model, status, last_stage = outcome.model, outcome.status, stage.name
        results |= outcome.arrays | {
            "n_iter": results.get("n_iter", np.zeros(1, np.int64)) + outcome.n_iter
        }
        if status.ends_training:
            break
    return TrainingResult(model, tuple(outcomes), status, last_stage)


def require_finite(model: Network) -> None:
    """Raise TrainingOverflowError if any weight is not finite."""
    for name, W in model.weights_by_name().items():
        if not np.isfinite(W).all():
            overflow = TrainingOverflowError(
                f"training overflowed: the weights {name} left the range of {model.dtype}; scale "
                "X (for example with StandardScaler) or use a smaller slope"
            )
            raise mark_collective(overflow)
