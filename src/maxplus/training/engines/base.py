"""The interface of engines, and what they say about memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from maxplus.models.base import Model
from maxplus.training import memory
from maxplus.training.result import Block, History, Signal
from maxplus.training.state import TrainingState
from maxplus.training.task import Task


class Engine(ABC):
    """Carries out iterations W ← W − α·L'(W) on a model, in place.

    An engine is made for a model and a task; `advance` goes on from wherever
    the model is. The best weights seen are kept beside it.
    """

    name: ClassVar[str]
    objectives: ClassVar[tuple[str, ...]]
    models: ClassVar[tuple[type[Model], ...]] = (Model,)

    memory_remedy: ClassVar[str] = "use fewer hidden units or fewer samples"

    def __init__(self, model: Model, task: Task) -> None:
        memory.require(self.bytes_needed(model, task), f"engine={self.name!r}", self.memory_remedy)
        self.model = model
        self.task = task
        self.step = task.step.for_one_training()
        self.iteration = task.start
        self.best_loss = float("inf")
        self._best = model.copy()

    @classmethod
    def bytes_needed(cls, model: Model, task: Task) -> int:
        """Memory the engine will take for itself, in bytes."""
        return sum(getattr(model, name).nbytes for name in model.layers)

    @abstractmethod
    def advance(self, block: Block) -> None:
        """Do the iterations that ``block`` has room for, fewer if training ends by itself."""

    @property
    def best(self) -> Model:
        """A model with the lowest objective seen (the first one before any was seen)."""
        return self._best

    def state(self, history: History, signal: Signal) -> TrainingState:
        """A copy of all that `restore` needs; it must not change how training goes on."""
        rng = self.task.rng
        return TrainingState(
            self.iteration,
            {name: getattr(self.model, name).copy() for name in self.model.layers},
            {name: getattr(self._best, name).copy() for name in self._best.layers},
            self.best_loss,
            {name: history[name].copy() for name in history},
            signal,
            self.step.memory.copy(),
            None if rng is None else rng.bit_generator.state,
        )

    def restore(self, state: TrainingState) -> None:
        """Go on where ``state`` was taken; the engine was made for its weights."""
        self.iteration = state.iteration
        self.best_loss = state.best_loss
        self.step.memory[:] = state.step_memory
        self._best = type(self.model)(**state.best_weights)
        if self.task.rng is not None and state.generator is not None:
            self.task.rng.bit_generator.state = state.generator
