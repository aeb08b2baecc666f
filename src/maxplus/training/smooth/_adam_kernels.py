"""One step of Adam over all weights."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from maxplus._compile.jit import njit

BETA1, EPSILON = 0.9, 1e-8
# Far below what EPSILON lets through, far above float32's least normal number.
NOTHING = 1e-30


class AdamStep(NamedTuple):
    """A step's numbers in the weights' own type: mixed types would not vectorise."""

    new_m: np.floating  # 1 − β₁
    new_v: np.floating  # 1 − β₂
    unbias_m: np.floating  # 1 − β₁ᵗ
    unbias_v: np.floating  # 1 − β₂ᵗ
    rate: np.floating
    epsilon: np.floating
    nothing: np.floating
    zero: np.floating


def adam_step(t: int, rate: float, dtype: DTypeLike, beta2: float = 0.999) -> AdamStep:
    """The numbers of step t = 1, 2, … (Kingma & Ba, 2015)."""
    number: Any = np.dtype(dtype).type
    values = (1 - BETA1, 1 - beta2, 1 - BETA1**t, 1 - beta2**t, rate, EPSILON, NOTHING, 0.0)
    return AdamStep(*(number(value) for value in values))


@njit(cache=True, error_model="numpy")
def move_serial(theta, m, v, g, step):
    """θ ← θ − rate · m̂ / (√v̂ + ε), in place; O(weights), one pass over memory."""
    for i in range(theta.size):
        mean = m[i] + step.new_m * (g[i] - m[i])
        square = v[i] + step.new_v * (g[i] * g[i] - v[i])
        # Memories of old gradients fade into denormal numbers, which are slow and move nothing.
        m[i] = mean if abs(mean) > step.nothing else step.zero
        v[i] = square if square > step.nothing else step.zero
        size = np.sqrt(v[i] / step.unbias_v) + step.epsilon
        theta[i] -= step.rate * (m[i] / step.unbias_m) / size
