"""Step-size rules: Polyak with a fixed or a moving target, constant, and two-phase.

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

    With an empty ``memory``, steps are Polyak steps at iterations t < ``polyak_until``, and then
    have the constant size ``alpha``. Otherwise the rule is that of `level`: ``memory`` contains the
    lowest loss so far, and ``polyak_until`` is the horizon. ``step_size`` writes to the memory, so
    every fit needs a copy (`with_new_memory`).

    Training ends when the objective is at most ``target``. From iteration ``small_from`` on, steps
    are expected to be small relative to differences between scores. Engines use this to save time;
    iterates do not depend on it.
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
# Fraction of the horizon after which the steps of a level rule are treated as small. Before, the
# bounds that allow the sparse engine to skip chunks took more time than they saved in measurements.
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


def two_phase(first: StepRule, second: StepRule, switch: int) -> StepRule:
    """Return the rule ``first`` for iterations t < ``switch``, followed by ``second``.

    Parameters
    ----------
    first : StepRule
        From `polyak`. Its target is that of both phases.
    second : StepRule
        From `constant`.
    switch : int
        The first iteration of the second phase.

    Returns
    -------
    StepRule

    Raises
    ------
    ValueError
        If ``first`` or ``second`` is a rule of another kind.

    Examples
    --------
    >>> from maxplus.training.steps import constant, polyak, two_phase
    >>> two_phase(polyak(0.0), constant(0.01), switch=100).polyak_until
    100
    """
    if first.polyak_until != MAX_ITERATION or second.polyak_until != 0:
        raise ValueError(
            "two_phase requires a rule from polyak and then one from constant; "
            f"got {first!r:.80} and {second!r:.80}"
        )
    return StepRule(switch, switch, first.target, second.alpha, NO_MEMORY)


def level(horizon: int, target: float = 0.0, best: float = math.inf) -> StepRule:
    """Return Polyak's rule with a target that moves from ``target`` towards the lowest loss.

    With L_best the lowest loss up to iteration t, and the fraction of iterations that remain,
    s_t = max(1 − t / horizon, 1 / horizon),

        level_t = L_best − s_t·(L_best − target)
        α_t = (L(W_t) − level_t) / ‖L'(W_t)‖².

    The first step (t = 0) is a Polyak step with the given target. If the target is not attainable,
    Polyak's rule with a fixed target does not result in small steps. The gap L_best − level_t of
    this rule decreases to (L_best − target) / horizon. It decreases linearly, because subgradient
    methods with linearly decreasing step sizes attain the optimal convergence rate of the last
    iterate (Zamani and Glineur, 2023). In experiments, halving the gap whenever the loss stagnated
    made it small too early.

    Parameters
    ----------
    horizon : int
        Planned number of iterations. Afterwards, s_t stays at 1 / horizon.
    target : float, default=0.0
        Target; training ends when the objective reaches it.
    best : float, default=inf
        The lowest loss of earlier iterations, if training is continued.

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
    """Return the constant step size of the paper, α = ε / (2·√(2C)).

    Parameters
    ----------
    learning_rate : float
        The learning rate ε of the paper.
    n_classes : int
        Number of classes C.

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
    """Return the step size of iteration t, counted from 0; O(1).

    It is 0 if the squared norm is 0 or NaN, and for Polyak steps also if it is infinite. The lowest
    loss in the memory of a level rule is updated.
    """
    if not squared_norm > 0.0:
        return 0.0
    if rule.memory.size > 0:
        best = min(rule.memory[0], loss)
        rule.memory[0] = best
        share = max(1.0 - t / rule.polyak_until, 1.0 / rule.polyak_until)
        # L(W_t) − level_t as a sum of two nonnegative terms, which is not rounded to zero.
        return ((loss - best) + share * (best - rule.target)) / squared_norm
    if t < rule.polyak_until:
        return (loss - rule.target) / squared_norm
    return rule.alpha
