"""Step-size rules: Polyak with a fixed or a rising target, constant, and two-phase.

A rule is plain data, so that Python and compiled loops share one definition; only `step_size`
computes step sizes.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxplus._compile.jit import njit

MAX_ITERATION = int(np.iinfo(np.int64).max)


class StepRule(NamedTuple):
    """A step-size rule as data; all rules have one type, so that kernels are compiled once.

    Without ``memory``: Polyak steps at iterations t < ``polyak_until``, then the constant
    ``alpha``. With ``memory``, which holds the lowest loss so far: see `level`; ``polyak_until`` is
    the horizon. ``step_size`` writes to the memory, so every fit needs a copy (`with_new_memory`).

    Training ends when the objective is at or below ``target``. From iteration ``small_from`` on,
    steps are estimated to be small relative to differences of scores. Engines may use this to save
    time; iterates do not depend on it.
    """

    polyak_until: int
    small_from: int
    target: float
    alpha: float
    memory: NDArray

    def with_new_memory(self) -> StepRule:
        """Return the rule with a copy of its memory."""
        return self._replace(memory=self.memory.copy())


NO_MEMORY = np.empty(0)
# Share of the horizon after which the steps of a level rule count as small. Until then, the bounds
# that allow the sparse engine to skip chunks take more time than they save (measured).
LEVEL_SMALL_FROM = 0.95


def polyak(target: float = 0.0) -> StepRule:
    """Return Polyak's rule, α_t = (L(W_t) − L*) / ‖L'(W_t)‖² (section 4.2 of the paper).

    Parameters
    ----------
    target : float, default=0.0
        Target L*; training ends when it is reached.

    Returns
    -------
    StepRule

    Examples
    --------
    >>> from maxplus.training import polyak
    >>> polyak(0.5).target
    0.5
    """
    return StepRule(MAX_ITERATION, MAX_ITERATION, target, 0.0, NO_MEMORY)


def constant(alpha: float, target: float = 0.0) -> StepRule:
    """Return the rule of constant steps, α_t = alpha.

    Parameters
    ----------
    alpha : float
        Step size.
    target : float, default=0.0
        Target; training ends when the objective reaches it.

    Returns
    -------
    StepRule

    Examples
    --------
    >>> from maxplus.training import constant
    >>> constant(0.01).alpha
    0.01
    """
    return StepRule(0, 0, target, alpha, NO_MEMORY)


def two_phase(first: StepRule, then: StepRule, switch: int) -> StepRule:
    """Return the rule ``first`` for iterations t < ``switch``, followed by ``then``.

    Parameters
    ----------
    first : StepRule
        From `polyak`.
    then : StepRule
        From `constant`.
    switch : int
        The first iteration of the second phase.

    Returns
    -------
    StepRule

    Examples
    --------
    >>> from maxplus.training.steps import constant, polyak, two_phase
    >>> two_phase(polyak(0.0), constant(0.01), switch=100).polyak_until
    100
    """
    switch = min(switch, first.polyak_until)
    return StepRule(switch, switch, first.target, then.alpha, NO_MEMORY)


def level(horizon: int, target: float = 0.0, best: float = math.inf) -> StepRule:
    """Return Polyak's rule with a target that rises from ``target`` to the lowest loss so far.

    With L_best the lowest loss up to iteration t, and the share
    s_t = max(1 − t / horizon, 1 / horizon) of the remaining iterations,

        level_t = L_best − s_t·(L_best − target)
        α_t = (L(W_t) − level_t) / ‖L'(W_t)‖².

    The first step is a Polyak step with the target L*. If L* is attainable, L_best converges to
    it, as with Polyak's rule. Otherwise, steps towards a fixed target would not become small; here
    the gap closes with the iterations, and the loss converges. The gap shrinks linearly because
    linear schedules give subgradient methods the best last iterate (Zamani and Glineur, 2023). In
    experiments, halving the gap whenever the loss stagnated made it small too early.

    Parameters
    ----------
    horizon : planned number of iterations; afterwards the share stays at 1 / horizon
    target : the loss at which training ends
    best : the lowest loss of earlier iterations, if training is continued

    Returns
    -------
    StepRule

    Examples
    --------
    >>> from maxplus.training import level
    >>> level(1000, target=0.1).polyak_until
    1000
    """
    horizon = max(horizon, 1)
    small_from = math.ceil(LEVEL_SMALL_FROM * horizon)
    memory = np.array([max(best, target)])
    return StepRule(horizon, small_from, target, 0.0, memory)


def paper_alpha(learning_rate: float, n_classes: int) -> float:
    """Return the constant step of the paper, α = ε / (2·√(2C)).

    Parameters
    ----------
    learning_rate : float
        The paper's ε.
    n_classes : int
        C.

    Returns
    -------
    float

    Examples
    --------
    >>> from maxplus.training import paper_alpha
    >>> paper_alpha(0.1, 8)
    0.0125
    """
    return learning_rate / (2.0 * math.sqrt(2.0 * n_classes))


@njit(cache=True)
def step_size(rule, t, loss, squared_norm):
    """Return the step size of iteration t, counted from 0, or 0 for a zero subgradient; O(1).

    It must be called once per iteration, since a level rule stores the loss.
    """
    if not squared_norm > 0.0:
        return 0.0
    if rule.memory.size > 0:
        best = min(rule.memory[0], loss)
        rule.memory[0] = best
        left = max(1.0 - t / rule.polyak_until, 1.0 / rule.polyak_until)
        # L(W_t) − level_t as a sum of two nonnegative terms, which is not rounded to zero.
        return ((loss - best) + left * (best - rule.target)) / squared_norm
    if t < rule.polyak_until:
        return (loss - rule.target) / squared_norm
    return rule.alpha
