"""The interface of engines, and what they say about memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from maxplus.models.base import Model
from maxplus.training import memory
from maxplus.training.result import Block
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
        self.iteration = task.start
        self.best_loss = float("inf")

    @classmethod
    def bytes_needed(cls, model: Model, task: Task) -> int:
        """Memory the engine will take for itself, in bytes."""
        return sum(getattr(model, name).nbytes for name in model.layers)

    @abstractmethod
    def advance(self, block: Block) -> None:
        """Do the iterations that ``block`` has room for, fewer if training ends by itself."""

    @property
    @abstractmethod
    def best(self) -> Model:
        """A model with the lowest objective seen (the present one before any was seen)."""
