"""Step sizes: Polyak's, a constant, and one after the other.

A rule is plain data, so that the same definition serves Python and compiled
loops; `step_size` is the only place where a step is computed.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

FOREVER = int(np.iinfo(np.int64).max)


class StepRule(NamedTuple):
    """Polyak steps at iterations t < ``polyak_until``, the constant ``alpha`` from there.

    Training ends where the objective is at or below ``target``.
    """

    polyak_until: int
    target: float
    alpha: float


def polyak(target: float = 0.0) -> StepRule:
    """α_t = (L(W_t) − L*) / ‖L'(W_t)‖² with the target L* (the paper's section 4.2)."""
    return StepRule(FOREVER, target, 0.0)


def constant(alpha: float, target: float = 0.0) -> StepRule:
    """α_t = alpha."""
    return StepRule(0, target, alpha)


def two_phase(first: StepRule, then: StepRule, switch: int) -> StepRule:
    """Polyak rule ``first`` at iterations t < ``switch``, constant rule ``then`` after.

    Examples
    --------
    >>> from maxplus.training.steps import constant, polyak, two_phase
    >>> two_phase(polyak(0.0), constant(0.01), switch=100)
    StepRule(polyak_until=100, target=0.0, alpha=0.01)
    """
    return StepRule(min(switch, first.polyak_until), first.target, then.alpha)


def paper_alpha(learning_rate: float, n_classes: int) -> float:
    """The paper's constant step, α = ε / (2·√(2C))."""
    return learning_rate / (2.0 * math.sqrt(2.0 * n_classes))


@njit(cache=True)
def step_size(rule, t, loss, squared_norm):
    """The step of iteration t, counted from 0; O(1)."""
    if t < rule.polyak_until:
        return (loss - rule.target) / squared_norm
    return rule.alpha
