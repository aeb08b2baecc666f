"""Adam's memory of one array of weights."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from maxplus.training.smooth._adam_kernels import adam_step, move_serial

# A shorter memory of squares than usual: the temperature, and with it the gradient's size, changes.
BETA2 = 0.99


class Adam:
    """Moves an array in place (Kingma & Ba, 2015)."""

    def __init__(self, weights: NDArray, mean: NDArray, square: NDArray, steps: int) -> None:
        self._theta = weights.reshape(-1)
        self.mean, self.square, self.steps = mean, square, steps

    @classmethod
    def begin(cls, weights: NDArray) -> Adam:
        """With no memory yet."""
        mean, square = (np.zeros(weights.size, weights.dtype) for _ in range(2))
        return cls(weights, mean, square, 0)

    def move(self, gradient: NDArray, rate: float) -> None:
        """One step; O(weights)."""
        self.steps += 1
        step = adam_step(self.steps, rate, self._theta.dtype, BETA2)
        move_serial(self._theta, self.mean, self.square, gradient.reshape(-1), step)
