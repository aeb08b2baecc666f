"""Jitted sweeps of the polish."""

import numpy as np

from maxplus._jit import njit
from maxplus.models._lmm_kernels import active_path
from maxplus.models._softmax import sample_loss
from maxplus.training.engines._descent import descend


@njit(cache=True)
def sweep(X, y, order, weights, grad, rule, damping, journal, moved):
    """A damped Polyak step on each sample of ``order`` whose loss is above the rule's target.

    Losses are those of the present weights, not of the sweep's beginning. ``moved`` tells
    for which samples of ``order`` there was a step; O(P·H) for each sample.
    """
    lam = np.empty(weights.W0.size, X.dtype)
    g = np.empty(weights.W1T.shape[0], X.dtype)
    for k in range(order.size):
        n = order[k]
        active_path(X[n], weights, lam, g, grad.z, grad.h_star, grad.i_star)
        loss = sample_loss(grad.z, y[n])
        moved[k] = loss > rule.target
        if moved[k]:
            journal.n[0] = 0
            damped = rule.target + damping * (loss - rule.target)
            descend(weights, grad, X[n], y[n], damped, 0, rule, 0, journal, 0)
