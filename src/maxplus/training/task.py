"""What is to be trained on, and how: everything an engine needs besides the model."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maxplus._jit import frozen
from maxplus.training.objectives import Objective
from maxplus.training.steps import StepRule


@dataclass(frozen=True)
class Task:
    """Samples, objective and step rule.

    Attributes
    ----------
    X : array of shape (N, P), C order, in the model's float type
    y : integer array of shape (N,), classes 0..C−1
    objective : what is minimised
    step : how far each iteration goes
    linear_every : W0 moves at iterations t with (t + 1) % linear_every == 0; 0 is never
    start : the iteration number t of the first iteration
    weight : positive sample weights of shape (N,), or None; they matter for a mean only
    rng : randomness of engines that draw samples
    """

    X: NDArray
    y: NDArray
    objective: Objective
    step: StepRule
    linear_every: int = 1
    start: int = 0
    weight: NDArray | None = None
    rng: np.random.Generator | None = None

    def __post_init__(self) -> None:
        """Freeze the samples: engines only read them."""
        object.__setattr__(self, "X", frozen(self.X))
        object.__setattr__(self, "y", frozen(self.y))
