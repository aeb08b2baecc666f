"""The stage of subgradient iterations, in blocks of about 0.2 seconds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from numpy.typing import NDArray

from maxplus.distributed import current
from maxplus.models import Model
from maxplus.training.engines.base import Engine
from maxplus.training.monitor import Callback, TrainingMonitor
from maxplus.training.problem import TrainingProblem
from maxplus.training.result import (
    Block,
    History,
    Signal,
    StateError,
    Status,
    TrainingState,
    prefixed,
)
from maxplus.training.stages.base import Outcome

# Short enough for callbacks and a progress bar, long enough that the work between blocks is
# negligible.
SECONDS_PER_BLOCK = 0.2

FINAL_STATUS = {
    Signal.TARGET: Status.TARGET,
    Signal.STATIONARY: Status.STATIONARY,
    Signal.OVERFLOW: Status.OVERFLOW,
}
HISTORY = "history."


@dataclass(frozen=True)
class IterationsOutcome(Outcome):
    """Result of iterations: their history and duration."""

    history: History
    seconds: float = field(compare=False)

    @property
    def n_iter(self) -> int:
        """The number of iterations."""
        return self.history["loss"].size

    @property
    def arrays(self) -> dict[str, NDArray]:
        """The history, column by column."""
        return prefixed(HISTORY, dict(self.history))


@dataclass(frozen=True)
class Iterations:
    """Stage of up to ``max_iter`` iterations of an engine.

    Parameters
    ----------
    engine : class of the engine
    max_iter : maximum number of iterations
    keep : "best" or "last", the weights that the outcome contains
    """

    engine: type[Engine]
    max_iter: int
    keep: str = "best"

    name: ClassVar[str] = "iterations"
    has_state: ClassVar[bool] = True

    def run(
        self,
        model: Any,
        problem: TrainingProblem,
        monitor: TrainingMonitor,
        state: TrainingState | None = None,
    ) -> IterationsOutcome:
        """Train a copy of the model."""
        engine = self.engine(model.copy(), problem)
        outcome = advance(engine, self.max_iter, monitor, state)
        return replace(outcome, model=engine.best) if self.keep == "best" else outcome

    def check(self, state: TrainingState, problem: TrainingProblem, kind: type[Model]) -> Model:
        """Return the current model; StateError if this engine cannot resume from the state."""
        model = self.engine.check(state, problem, kind)
        done = _check_history(state, problem.n_samples)["loss"].size
        if problem.start + done != state.arrays["iteration"][0]:
            raise StateError(f"a history of {done} iterations does not match the iteration number")
        return model


def train(
    engine: Engine,
    max_iter: int,
    callbacks: Iterable[Callback] = (),
    state: TrainingState | None = None,
) -> IterationsOutcome:
    """Run up to ``max_iter`` iterations, including those before ``state``.

    The engine's model is trained in place, and is the model of the outcome. Callbacks are called
    after each block; training ends if one returns True. After KeyboardInterrupt, the engine keeps
    its current weights.

    Parameters
    ----------
    engine : Engine
    max_iter : int
    callbacks : iterable of callables
    state : TrainingState, optional

    Returns
    -------
    IterationsOutcome

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxplus.models import LMM
    >>> from maxplus.training import TrainingProblem, train
    >>> from maxplus.training.engines import DenseEngine
    >>> import numpy as np
    >>> X, y = load_iris(return_X_y=True)
    >>> start = LMM.from_boxes(X[::50], 0.0, 8.0 * np.eye(3) - 4.0, 4.0)
    >>> train(DenseEngine(start, TrainingProblem(X, y)), 20).n_iter
    20
    """
    with TrainingMonitor(callbacks) as monitor:
        monitor.begin(Iterations.name, is_last=True)
        return advance(engine, max_iter, monitor, state)


def advance(
    engine: Engine, max_iter: int, monitor: TrainingMonitor, state: TrainingState | None = None
) -> IterationsOutcome:
    """Run the engine's iterations in blocks, and return its current model and the history.

    The block size is adjusted so that a block takes about 0.2 seconds. It has no influence on the
    iterates. With ``KeepBestOnInterrupt``, a second Ctrl-C interrupts the current block, which is
    then missing from the history.
    """
    history, signal = History(), Signal.CONTINUE
    if state is not None:
        signal = engine.restore(state)
        history = History.from_columns(state.part(HISTORY))
    status = FINAL_STATUS.get(signal)
    done, size = history["loss"].size, 1
    try:
        while status is None and done < max_iter:
            block = Block(min(size, max_iter - done))
            began = monitor.seconds
            engine.advance(block)
            history.append(block)
            done += block.n
            # All ranks need the same block size.
            size = current().bcast(_next_size(size, monitor.seconds - began))
            end = FINAL_STATUS.get(block.signal) or (Status.MAX_ITER if done >= max_iter else None)
            status = monitor.report(
                done,
                max_iter,
                float(block.loss[block.n - 1]),
                engine.best_loss,
                engine.model,
                lambda signal=block.signal: _state(engine, history, signal),  # type: ignore[misc]
                end,
            )
    except KeyboardInterrupt:
        # Other ranks may be blocked in a collective call.
        if not (monitor.keeps_best_on_interrupt and current().is_serial):
            raise
        monitor.interrupt()
        status = Status.INTERRUPTED
    return IterationsOutcome(engine.model, status or Status.MAX_ITER, history, monitor.seconds)


def _state(engine: Engine, history: History, signal: Signal) -> TrainingState:
    state = engine.state(signal)
    columns = {name: column.copy() for name, column in history.items()}
    return TrainingState(
        Iterations.name, {**state.arrays, **prefixed(HISTORY, columns)}, state.generator
    )


def _check_history(state: TrainingState, n_samples: int) -> History:
    """Return the history of a state; StateError if its columns are inconsistent."""
    columns = {
        name: state.array(HISTORY + name, dtype, (None,), finite=False)
        for name, dtype in History.columns.items()
    }
    if len({len(column) for column in columns.values()}) > 1:
        raise StateError("the history's columns differ in length")
    sample = columns["sample"]
    if sample.size and not -1 <= sample.min() <= sample.max() < n_samples:
        raise StateError(f"the history contains a sample that is not in 0..{n_samples - 1}")
    return History.from_columns(columns)


def _next_size(size: int, seconds: float) -> int:
    """Return the size of the next block, at most twice the last size.

    The limit is necessary because the duration of a short block is an unreliable estimate.
    """
    estimate = size * SECONDS_PER_BLOCK / max(seconds, 1e-9)
    return max(1, min(2 * size, int(estimate)))
