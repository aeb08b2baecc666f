"""Interface of engines, and base class of engines that run compiled blocks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import numpy as np

from maxplus.models import LMM
from maxplus.models.base import Model
from maxplus.training import memory
from maxplus.training.engines.step import Journal, empty_journal, undo
from maxplus.training.problem import MaxLoss, Objective, TrainingProblem
from maxplus.training.result import (
    Block,
    Signal,
    StateError,
    TrainingState,
    generator_state,
    prefixed,
)
from maxplus.training.steps import NO_MEMORY


class Best(NamedTuple):
    """The lowest value of the objective so far, and its model."""

    loss: float
    model: Model


class Engine(ABC):
    """Implementation of the iterations W ← W − α·L'(W) of a model, in place.

    `advance` continues from the current weights of the model. The engine keeps a copy of the best
    weights so far.

    Parameters
    ----------
    model : Model
        The model to train, in place.
    problem : TrainingProblem
    """

    name: ClassVar[str]
    # Subclasses of these classes are not included, because they may be different functions.
    objectives: ClassVar[tuple[type[Objective], ...]]
    models: ClassVar[tuple[type[Model], ...]] = (Model,)

    memory_remedy: ClassVar[str] = memory.FEWER_UNITS
    supports_mpi: ClassVar[bool] = False

    def __init__(self, model: Model, problem: TrainingProblem) -> None:
        if not (problem.comm.is_serial or self.supports_mpi):
            raise ValueError(
                f"engine={self.name!r} is for one process, got {problem.comm.size} ranks; use "
                "engine='sparse', the only one for several ranks"
            )
        if not self.minimises(type(problem.objective)):
            own = " or ".join(objective.__name__ for objective in self.objectives)
            raise ValueError(
                f"engine={self.name!r} minimises {own}, not {type(problem.objective).__name__}; "
                "use engine='dense' (DenseEngine), which minimises any objective"
            )
        memory.require(
            self.bytes_needed(model, problem), f"engine={self.name!r}", self.memory_remedy
        )
        self.model = model
        self.problem = problem
        self.step = problem.step.with_new_memory()
        self.iteration = problem.start
        # Assigned as one object, so that an interrupt cannot separate loss and model.
        self._kept = Best(float("inf"), model.copy())

    @classmethod
    def minimises(cls, objective: type) -> bool:
        """Return whether the engine trains objectives of exactly this class."""
        return objective in cls.objectives

    @classmethod
    def bytes_needed(cls, model: Model, problem: TrainingProblem) -> int:
        """Return the memory that the engine allocates, in bytes."""
        return sum(getattr(model, name).nbytes for name in model.layers)

    @abstractmethod
    def advance(self, block: Block) -> None:
        """Run the remaining iterations of ``block``, fewer if training ends."""

    @property
    def best(self) -> Model:
        """The model with the lowest objective so far; at first, a copy of the initial model."""
        return self._kept.model

    @property
    def best_loss(self) -> float:
        """The lowest objective so far."""
        return self._kept.loss

    def state(self, signal: Signal) -> TrainingState:
        """Return a copy of the state for `restore`, which later iterations do not change.

        Bounds, trees and chunks are not included: engines rebuild them, and iterates do not depend
        on them.
        """
        arrays = {
            **prefixed("model.", self.model.weights_by_name(copy=True)),
            **prefixed("best.", self._kept.model.weights_by_name(copy=True)),
            "iteration": np.array([self.iteration]),
            "best_loss": np.array([self.best_loss]),
            "signal": np.array([int(signal)]),
            "step.memory": self.step.memory.copy(),
        }
        return TrainingState("iterations", arrays, generator_state(self.problem.rng))

    @classmethod
    def check(cls, state: TrainingState, problem: TrainingProblem, kind: type[Model]) -> Model:
        """Return the current model of a state; StateError if the state is inconsistent."""
        model, best = (problem.model_of(state, part, kind) for part in ("model.", "best."))
        if any(W.shape != getattr(best, name).shape for name, W in model.weights_by_name().items()):
            raise StateError("its best weights and its current weights have different shapes")
        (iteration,), (signal,) = (state.array(n, np.int64, (1,)) for n in ("iteration", "signal"))
        state.array("best_loss", np.float64, (1,), finite=False)
        if iteration < problem.start or signal not in list(Signal):
            raise StateError(f"its iteration {iteration} or its signal {signal} is invalid")
        stored, expected = state.arrays.get("step.memory", NO_MEMORY), problem.step.memory
        has_type = (stored.dtype, stored.shape) == (expected.dtype, expected.shape)
        if not has_type or np.isnan(stored).any():
            raise StateError("the memory of its step rule is missing or invalid")
        return model

    def restore(self, state: TrainingState) -> Signal:
        """Continue from a ``state`` that `check` has validated.

        The engine must have been created with the model that `check` returned.
        """
        self.iteration = int(state.arrays["iteration"][0])
        best = type(self.model)(**state.part("best."))
        self._kept = Best(float(state.arrays["best_loss"][0]), best)
        self.step.memory[:] = state.arrays.get("step.memory", NO_MEMORY)
        state.restore_generator(self.problem.rng)
        return Signal(int(state.arrays["signal"][0]))


class CompiledEngine(Engine):
    """An engine for LMMs that runs a block of iterations in one call of a kernel."""

    objectives: ClassVar[tuple[type[Objective], ...]] = (MaxLoss,)
    models = (LMM,)
    model: LMM

    @abstractmethod
    def _run(self, block: Block, journal: Journal) -> tuple[int, int]:
        """Run the block; return the number of iterations and the value of a `Signal`."""

    def _entries_per_step(self) -> int:
        """Return the maximum number of entries of a layer that change in an iteration."""
        return self.model.n_classes

    def advance(self, block: Block) -> None:
        """Run the remaining iterations of ``block``."""
        journal = empty_journal(block.loss.size, self._entries_per_step())
        n, signal = self._run(block, journal)
        block.n, block.signal = n, Signal(signal)
        self.iteration += n
        lowest = int(np.argmin(np.nan_to_num(block.loss[:n], nan=np.inf)))
        if block.loss[lowest] < self.best_loss:
            # One copy per block, even if the best loss improved several times.
            best = self.model.copy()
            undo(best.weights, journal, lowest)
            self._kept = Best(float(block.loss[lowest]), best)
