"""Iterations of the sparse engine, a whole block in one compiled call."""

import math

import numpy as np
from numba import njit

from maxplus._jit import inner
from maxplus.algebra._kernels import first_index, minplus_cell
from maxplus.models._lmm_kernels import linear, subgradient_entries
from maxplus.training.engines._descent import linear_moves
from maxplus.training.engines.sparse._growth import record_lift, record_step, step_growth
from maxplus.training.engines.sparse._mean import add_sample, descend_along
from maxplus.training.engines.sparse._reference import referenced
from maxplus.training.engines.sparse._search import share_search
from maxplus.training.engines.sparse._state import NONE
from maxplus.training.engines.sparse._worst import rank_found
from maxplus.training.result import Signal

_GOES_ON, _TARGET, _STATIONARY, _OVERFLOW = (
    int(Signal.GOES_ON), int(Signal.TARGET), int(Signal.STATIONARY), int(Signal.OVERFLOW)
)  # fmt: skip


@inner
def _winners(x, finder, place, weights, log, minima, worst, scale, lam, grad):
    """Winning units and rows of a sample that was found, the lowest among equals; O(C·(H + P)).

    The search has left its exact scores. A unit attains one of them only if its
    bound does; of those few, minima are computed from the weights.
    """
    c, q = worst.seat[finder, place, 0], worst.seat[finder, place, 1]
    C = grad.z.size
    for d in range(C):
        grad.z[d], grad.h_star[d] = worst.scores[finder, place, d], NONE
    linear(x, weights.W0, lam)
    missing = C
    for h in range(log.raised.size):
        rise = log.raised[h] - minima.raise_seen[c, h] + scale.noise[0]
        upper = np.float64(minima.g[c, h, q]) + rise
        known = False
        g = minima.g.dtype.type(0)
        for d in range(C):
            w2 = weights.W2T[d, h]
            if grad.h_star[d] == NONE and upper + np.float64(w2) >= np.float64(grad.z[d]):
                if not known:
                    g, known = minplus_cell(lam, weights.W1T[h]), True
                if g + w2 == grad.z[d]:
                    grad.h_star[d] = h
                    grad.i_star[d] = first_index(lam, weights.W1T[h], g)
                    missing -= 1
        if missing == 0:
            break


@inner
def _is_bounded(search, scale):
    """Whether weights and sums are finite: with an infinite bound nothing can be told apart."""
    total = scale.noise[0]
    for label in range(search.growth.size):
        total += search.growth[label]
    return math.isfinite(total)


@inner
def take_step(
    k, t, loss,
    samples, weights, log, lift, minima, events, search, worst, scale, scratch,
    grad, total, rule, linear_every, journal,
):  # fmt: skip
    """The step on the worst samples and what follows for all bounds; returns α.

    O(C·(H + P)) for each sample: all subgradients are taken before anything moves.
    """
    n_samples = worst.rank.shape[0]
    for rank in range(n_samples):
        finder, place = worst.rank[rank, 0], worst.rank[rank, 1]
        n = worst.sample[finder, place]
        x = samples.X[n]
        _winners(x, finder, place, weights, log, minima, worst, scale, scratch.lam[0], grad)
        subgradient_entries(x, samples.y[n], linear_moves(t, linear_every), grad)
        add_sample(grad, total)
    first = journal.n[0]
    alpha = descend_along(weights, total, n_samples, loss, t, rule, journal, k)
    record_step(t, weights, journal, first, samples, log, events, scale)
    record_lift(t, weights, samples, events, lift)
    step_growth(t, 0, weights, samples, log, events, lift, scale, scratch, search.growth)
    return alpha


@njit(cache=True, nogil=True)
def sparse_block(
    w, flags, samples, weights, log, lift, minima, maxima, events, search, worst, scale, scratch,
    grad, total, rule, linear_every, t0, journal, loss, sample, step,
):  # fmt: skip
    """Worker w's part of a block of iterations from t0 on; returns (iterations done, signal).

    All search; worker 0 takes the steps and fills loss, sample and step.
    """
    samples, weights, log = referenced(samples), referenced(weights), referenced(log)
    lift, minima, maxima = referenced(lift), referenced(minima), referenced(maxima)
    events, search, worst = referenced(events), referenced(search), referenced(worst)
    scale, scratch = referenced(scale), referenced(scratch)
    grad, total, journal = referenced(grad), referenced(total), referenced(journal)
    for k in range(loss.size):
        t = t0 + k
        if w == 0 and not _is_bounded(search, scale):
            loss[k], sample[k], step[k] = np.nan, NONE, 0.0
            return k + 1, _OVERFLOW
        goes_on = share_search(
            w, t, rule.polyak_until, flags,
            samples, weights, log, lift, minima, maxima, events, search, worst, scale, scratch,
        )  # fmt: skip
        if w > 0:
            if goes_on:
                continue
            return k, _GOES_ON
        loss[k], sample[k] = rank_found(worst)
        step[k] = 0.0
        if not math.isfinite(loss[k]):
            return k + 1, _OVERFLOW
        if loss[k] <= rule.target:
            return k + 1, _TARGET
        step[k] = take_step(
            k, t, loss[k],
            samples, weights, log, lift, minima, events, search, worst, scale, scratch,
            grad, total, rule, linear_every, journal,
        )  # fmt: skip
        if step[k] == 0.0:
            return k + 1, _STATIONARY
    return loss.size, _GOES_ON
