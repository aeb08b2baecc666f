"""What is to be trained on, and how: everything a stage needs besides the model."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from maxplus._jit import frozen
from maxplus.models.base import M
from maxplus.training.objectives import MaxLoss, Objective
from maxplus.training.state import StateError, TrainingState
from maxplus.training.steps import StepRule, polyak


@dataclass(frozen=True)
class Task:
    """Samples, objective and step rule.

    Attributes
    ----------
    X : array of shape (N, P), C order, in the model's float type
    y : array of shape (N,): classes 0..C−1, whole numbers; or a regression's targets
    objective : what an engine minimises
    step : how far each of its iterations goes
    linear_every : W0 moves at iterations t with (t + 1) % linear_every == 0; 0 is never
    start : the iteration number t of the first iteration
    weight : positive sample weights of shape (N,), or None; they matter for a mean only
    rng : randomness of stages that draw or shuffle samples
    """

    X: NDArray
    y: NDArray
    objective: Objective = field(default_factory=MaxLoss)
    step: StepRule = field(default_factory=polyak)
    linear_every: int = 1
    start: int = 0
    weight: NDArray | None = None
    rng: np.random.Generator | None = None

    def __post_init__(self) -> None:
        """Freeze the samples: they are only read."""
        object.__setattr__(self, "X", frozen(self.X))
        object.__setattr__(self, "y", frozen(self.y))

    def model_of(self, state: TrainingState, prefix: str, kind: type[M]) -> M:
        """A model whose weights a state holds; StateError if it is none, or not for X."""
        try:
            model = kind.of_weights(state.part(prefix))
        except ValueError as error:
            raise StateError(str(error)) from None
        if (model.n_features, model.dtype) != (self.X.shape[1], self.X.dtype):
            raise StateError(
                f"its weights are for {model.n_features} features of {model.dtype}, but X has "
                f"{self.X.shape[1]} of {self.X.dtype}"
            )
        return model
