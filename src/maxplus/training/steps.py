"""Step sizes: Polyak's with a fixed or a rising target, a constant, and one after the other.

A rule is plain data, so that the same definition serves Python and compiled
loops; `step_size` is the only place where a step is computed.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

FOREVER = int(np.iinfo(np.int64).max)


class StepRule(NamedTuple):
    """Polyak steps at iterations t < ``polyak_until``, the constant ``alpha`` from there.

    Training ends where the objective is at or below ``target``. A rule with a
    ``memory`` is `level`'s: it holds the lowest loss so far, and `step_size` writes
    to it, so every training needs its own (`for_one_training`). Other rules have an
    empty one: all are of one type, and kernels compile once.
    """

    polyak_until: int
    target: float
    alpha: float
    memory: NDArray

    def for_one_training(self) -> StepRule:
        """The same rule with a memory of its own."""
        return self._replace(memory=self.memory.copy())


NO_MEMORY = np.empty(0)


def polyak(target: float = 0.0) -> StepRule:
    """α_t = (L(W_t) − L*) / ‖L'(W_t)‖² with the target L* (the paper's section 4.2)."""
    return StepRule(FOREVER, target, 0.0, NO_MEMORY)


def constant(alpha: float, target: float = 0.0) -> StepRule:
    """α_t = alpha."""
    return StepRule(0, target, alpha, NO_MEMORY)


def two_phase(first: StepRule, then: StepRule, switch: int) -> StepRule:
    """Polyak rule ``first`` at iterations t < ``switch``, constant rule ``then`` after.

    Examples
    --------
    >>> from maxplus.training.steps import constant, polyak, two_phase
    >>> two_phase(polyak(0.0), constant(0.01), switch=100).polyak_until
    100
    """
    return StepRule(min(switch, first.polyak_until), first.target, then.alpha, NO_MEMORY)


def level(horizon: int, target: float = 0.0, best: float = math.inf) -> StepRule:
    """Polyak steps whose target rises from ``target`` to the lowest loss so far.

    With L_best the lowest loss so far, this one's included, and the share
    s_t = max(1 − t / horizon, 1 / horizon) of the iterations that are left,

        level_t = L_best − s_t·(L_best − target)
        α_t = (L(W_t) − level_t) / ‖L'(W_t)‖².

    The first step is Polyak's with the target L*. Where L* can be attained, L_best and
    with it the gap go to it, as with Polyak's rule. Where it cannot, a fixed target
    would keep the steps long for ever; here the gap closes with the iterations, and
    steps end as short as they must for the loss to settle. The gap shrinks linearly
    because linear schedules give subgradient steps the best last iterate (Zamani and
    Glineur, 2023); in trials, gaps that halve when descent stalls became small
    too soon: long steps prepare a descent that shows only when they become shorter.

    Parameters
    ----------
    horizon : how many iterations are planned; from there on the gap stays at its last share
    target : where training ends
    best : the lowest loss seen before, when a training goes on
    """
    return StepRule(max(horizon, 1), target, 0.0, np.array([max(best, target)]))


def paper_alpha(learning_rate: float, n_classes: int) -> float:
    """The paper's constant step, α = ε / (2·√(2C))."""
    return learning_rate / (2.0 * math.sqrt(2.0 * n_classes))


@njit(cache=True)
def _above_level(rule, t, loss):
    """L(W_t) − level_t, after the memory has taken note of the loss.

    As a sum of two terms, none of them negative, it cannot be rounded to zero.
    """
    best = min(rule.memory[0], loss)
    rule.memory[0] = best
    left = max(1.0 - t / rule.polyak_until, 1.0 / rule.polyak_until)
    return (loss - best) + left * (best - rule.target)


@njit(cache=True)
def step_size(rule, t, loss, squared_norm):
    """The step of iteration t, counted from 0; called once per iteration; O(1)."""
    if rule.memory.size > 0:
        return _above_level(rule, t, loss) / squared_norm
    if t < rule.polyak_until:
        return (loss - rule.target) / squared_norm
    return rule.alpha
