"""Iterations of the sparse engine, a whole block in one compiled call."""

import math

from numba import njit

from maxplus._jit import inner
from maxplus.models._lmm_kernels import active_path
from maxplus.training.engines._descent import descend
from maxplus.training.engines.sparse._growth import record_lift, record_step, step_growth
from maxplus.training.engines.sparse._reference import referenced
from maxplus.training.engines.sparse._search import worst_sample
from maxplus.training.result import Signal

_GOES_ON, _TARGET, _STATIONARY, _OVERFLOW = (
    int(Signal.GOES_ON), int(Signal.TARGET), int(Signal.STATIONARY), int(Signal.OVERFLOW)
)  # fmt: skip


@inner
def take_step(
    k, t, n, loss, samples, weights, log, lift, minima, maxima, events, search, scale, scratch,
    grad, rule, linear_every, journal,
):  # fmt: skip
    """The step on the worst sample n and its consequences for all bounds; returns α; O(P·H).

    One forward pass gives the winners, ties included, from the weights alone.
    """
    x = samples.X[n]
    active_path(x, weights, scratch.lam[0], scratch.bound[0], grad.z, grad.h_star, grad.i_star)
    first = journal.n[0]
    alpha = descend(weights, grad, x, samples.y[n], loss, t, rule, linear_every, journal, k)
    record_step(t, weights, journal, first, samples, log, events, scale)
    record_lift(t, weights, samples, events, lift)
    step_growth(t, 0, weights, samples, events, scale, scratch, search.growth)
    return alpha


@njit(cache=True, nogil=True)
def sparse_block(
    flags, samples, weights, log, lift, minima, maxima, events, search, scale, scratch,
    grad, rule, linear_every, t0, journal, loss, sample, step,
):  # fmt: skip
    """Fill loss, sample and step, one iteration each; returns (iterations done, signal)."""
    samples, weights, log = referenced(samples), referenced(weights), referenced(log)
    lift, minima, maxima = referenced(lift), referenced(minima), referenced(maxima)
    events, search = referenced(events), referenced(search)
    scale, scratch = referenced(scale), referenced(scratch)
    grad, journal = referenced(grad), referenced(journal)
    for k in range(loss.size):
        t = t0 + k
        loss[k], n = worst_sample(
            t, rule.polyak_until, flags,
            samples, weights, log, lift, minima, maxima, events, search, scale, scratch,
        )  # fmt: skip
        sample[k], step[k] = n, 0.0
        if loss[k] <= rule.target:
            return k + 1, _TARGET
        if not math.isfinite(loss[k]):
            return k + 1, _OVERFLOW
        step[k] = take_step(
            k, t, n, loss[k],
            samples, weights, log, lift, minima, maxima, events, search, scale, scratch,
            grad, rule, linear_every, journal,
        )  # fmt: skip
        if step[k] == 0.0:
            return k + 1, _STATIONARY
    return loss.size, _GOES_ON
