"""Jitted single-sample subgradient descent on an LMM."""

import numpy as np

from maxplus._compile.jit import njit
from maxplus.models._lmm_kernels import active_path
from maxplus.models._softmax import sample_loss
from maxplus.training.engines._descent import descend


@njit(cache=True)
def sgd_block(X, y, weights, grad, rule, linear_every, t, journal, loss, sample, step):
    """One step on each of the drawn samples; fills loss and step; O(P·H) per step."""
    lam = np.empty(weights.W0.size, X.dtype)
    g = np.empty(weights.W1T.shape[0], X.dtype)
    for k in range(loss.size):
        n = sample[k]
        active_path(X[n], weights, lam, g, grad.z, grad.h_star, grad.i_star)
        loss[k] = sample_loss(grad.z, y[n])
        step[k] = 0.0
        # A sample at its target has nothing to teach; a Polyak step would go backwards.
        if loss[k] > rule.target:
            journal.n[0] = 0
            step[k] = descend(
                weights, grad, X[n], y[n], loss[k], t + k, rule, linear_every, journal, 0
            )
