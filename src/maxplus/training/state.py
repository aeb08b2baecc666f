"""A training in the middle: all that is needed to go on as if it had never stopped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from maxplus.training.result import Signal

# The stages of a training.
WARM_UP, ITERATIONS, POLISH = "warm-up", "iterations", "polish"


@dataclass(frozen=True)
class TrainingState:
    """The engine's iteration, present and best weights, what led there, and if it ended by itself.

    ``step_memory`` is what the step rule remembers. Bounds, trees and groups of
    samples are left out: engines make them anew, and iterates do not depend on them. In
    another ``stage`` than the engine's iterations, ``more`` holds what that stage
    needs beside the weights.
    """

    iteration: int
    weights: dict[str, NDArray]
    best_weights: dict[str, NDArray]
    best_loss: float
    history: dict[str, NDArray]
    signal: Signal
    step_memory: NDArray
    generator: Mapping[str, Any] | None
    stage: str = ITERATIONS
    more: Mapping[str, NDArray] = field(default_factory=dict)
