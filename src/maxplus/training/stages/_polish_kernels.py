"""Jitted sweeps of the polish."""

from collections.abc import Callable

from maxplus._compile.jit import njit
from maxplus._compile.patience import soonest
from maxplus._compile.references import referenced
from maxplus.models import _lmm_small
from maxplus.models._lmm_kernels import LMMWeights, active_path, squared_norm, subgradient_entries
from maxplus.models._softmax import sample_loss
from maxplus.training.engines.step import move
from maxplus.training.steps import step_size

# Python takes as long for the rest of a visit as for so many additions; and for each pair of
# classes, which may share a path.
VISIT, PAIR = 10_000, 60


@njit(cache=True)
def sweep(X, y, order, weights, lam, g, grad, rule, damping, moved):
    """Take a damped Polyak step on each sample of ``order`` whose loss is above the rule's target.

    W0 stays. Losses are those of the present weights, not of the sweep's beginning. ``moved`` marks
    the samples of ``order`` with a step; lam (2P) and g (H) are scratch space. O(P·H) per sample.
    """
    grad, rule = referenced(grad), referenced(rule)
    for k in range(order.size):
        n = order[k]
        active_path(X[n], weights, lam, g, grad.z, grad.h_star, grad.i_star)
        loss = sample_loss(grad.z, y[n])
        moved[k] = loss > rule.target
        if moved[k]:
            damped = rule.target + damping * (loss - rule.target)
            subgradient_entries(X[n], y[n], False, grad)
            alpha = step_size(rule, 0, damped, squared_norm(grad))
            if alpha != 0.0:
                move(weights, grad, alpha, None, 0)


def _same(fields):
    """Return a tuple itself: interpreted code needs no reference to it."""
    return fields


def sweep_for(weights: LMMWeights, n_visits: int) -> Callable:
    """`sweep`, or the same interpreted if it is done sooner."""
    cost = n_visits * (VISIT + PAIR * len(weights.W2T) ** 2 + weights.W1T.size)
    return soonest(cost, sweep, active_path=_lmm_small.active_path_of_row, referenced=_same)
