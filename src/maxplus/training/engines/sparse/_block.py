"""Iterations of the sparse engine, a whole block in one compiled call."""

import numpy as np
from numba import njit

from maxplus.models._lmm_kernels import active_path
from maxplus.training.engines._descent import descend
from maxplus.training.engines.sparse._audit import GOOD, audit
from maxplus.training.engines.sparse._growth import record_step
from maxplus.training.engines.sparse._search import worst_sample
from maxplus.training.result import Signal

_GOES_ON, _TARGET, _STATIONARY = (
    int(Signal.GOES_ON), int(Signal.TARGET), int(Signal.STATIONARY)
)  # fmt: skip


@njit(cache=True)
def sparse_block(
    samples, weights, log, minima, maxima, events, search, scale, scratch,
    grad, rule, linear_every, t0, auditing, journal, loss, sample, step,
):  # fmt: skip
    """Fill loss, sample and step, one iteration each; returns (iterations done, signal, audit)."""
    lam = np.empty(weights.W0.size, weights.W0.dtype)
    g = np.empty(weights.W1T.shape[0], weights.W0.dtype)
    C = weights.W2T.shape[0]
    rise, fall = np.empty(C), np.empty(C)
    for k in range(loss.size):
        t = t0 + k
        loss[k], n = worst_sample(
            t, samples, weights, log, minima, maxima, events, search, scale, scratch
        )
        sample[k], step[k] = n, 0.0
        if auditing:
            code = audit(t, samples, weights, log, minima, maxima, search, scale)
            if code != GOOD:
                return k + 1, _GOES_ON, code
        if loss[k] <= rule.target:
            return k + 1, _TARGET, GOOD
        # One forward pass gives the winners, ties included, from the weights alone.
        active_path(samples.X[n], weights, lam, g, grad.z, grad.h_star, grad.i_star)
        first = journal.n[0]
        step[k] = descend(
            weights, grad, samples.X[n], samples.y[n], loss[k], t, rule, linear_every, journal, k
        )
        if step[k] == 0.0:
            return k + 1, _STATIONARY, GOOD
        record_step(t, weights, journal, first, samples, log, events, search, scale, rise, fall)
    return loss.size, _GOES_ON, GOOD
