"""Iterations of the sparse engine, a whole block in one compiled call."""

import math

import numpy as np

from maxplus._jit import inner, njit
from maxplus.algebra._kernels import first_index, minplus_cell
from maxplus.models._lmm_kernels import linear, subgradient_entries
from maxplus.training.engines._descent import linear_moves
from maxplus.training.engines.sparse._growth import record_lift, record_step, step_growth
from maxplus.training.engines.sparse._mean import add_sample, descend_along
from maxplus.training.engines.sparse._reference import referenced
from maxplus.training.engines.sparse._search import begin_search, end_search, search_worker
from maxplus.training.engines.sparse._state import NONE
from maxplus.training.engines.sparse._worst import rank_found
from maxplus.training.result import Signal

_GOES_ON, _TARGET, _STATIONARY, _OVERFLOW = (
    int(Signal.GOES_ON), int(Signal.TARGET), int(Signal.STATIONARY), int(Signal.OVERFLOW)
)  # fmt: skip


@inner
def _winners(state, x, finder, place):
    """Winning units and rows of a sample that was found, the lowest among equals; O(C·(H + P)).

    The search has left its exact scores. A unit attains one of them only if its
    bound does; of those few, minima are computed from the weights.
    """
    weights, log, minima, worst = state.weights, state.log, state.minima, state.worst
    lam, grad = state.scratch.lam[0], state.grad
    c, q = worst.seat[finder, place, 0], worst.seat[finder, place, 1]
    C = grad.z.size
    for d in range(C):
        grad.z[d], grad.h_star[d] = worst.scores[finder, place, d], NONE
    linear(x, weights.W0, lam)
    missing = C
    for h in range(log.raised.size):
        rise = log.raised[h] - minima.raised_seen[c, h] + state.scale.noise[0]
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
def _is_bounded(state):
    """Whether weights and sums are finite: with an infinite bound nothing can be told apart."""
    total = state.scale.noise[0]
    for label in range(state.search.growth.size):
        total += state.search.growth[label]
    return math.isfinite(total)


@inner
def take_step(state, k, t, loss, rule, linear_every, journal):
    """The step on the worst samples and what follows for all bounds; returns α.

    O(C·(H + P)) for each sample: all subgradients are taken before anything moves.
    """
    samples, worst, grad, total = state.samples, state.worst, state.grad, state.total
    n_samples = worst.rank.shape[0]
    for rank in range(n_samples):
        finder, place = worst.rank[rank, 0], worst.rank[rank, 1]
        n = worst.sample[finder, place]
        x = samples.X[n]
        _winners(state, x, finder, place)
        subgradient_entries(x, samples.y[n], linear_moves(t, linear_every), grad)
        add_sample(grad, total)
    first = journal.n[0]
    alpha = descend_along(state.weights, total, n_samples, loss, t, rule, journal, k)
    record_step(state, t, journal, first)
    record_lift(state, t)
    step_growth(state, t)
    return alpha


@njit(cache=True, nogil=True)
def sparse_block(w, flags, state, rule, linear_every, t0, journal, loss, sample, step):
    """Worker w's part of a block of iterations from t0 on; returns (iterations done, signal).

    All search; worker 0 takes the steps and fills loss, sample and step.
    """
    state, journal = referenced(state), referenced(journal)
    for k in range(loss.size):
        t = t0 + k
        if w == 0 and not _is_bounded(state):
            loss[k], sample[k], step[k] = np.nan, NONE, 0.0
            return k + 1, _OVERFLOW
        if not begin_search(state, w, t, flags):
            return k, _GOES_ON
        search_worker(state, w, t, rule.small_from)
        end_search(state, w, t, flags)
        if w > 0:
            continue
        loss[k], sample[k] = rank_found(state.worst)
        step[k] = 0.0
        if not math.isfinite(loss[k]):
            return k + 1, _OVERFLOW
        if loss[k] <= rule.target:
            return k + 1, _TARGET
        step[k] = take_step(state, k, t, loss[k], rule, linear_every, journal)
        if step[k] == 0.0:
            return k + 1, _STATIONARY
    return loss.size, _GOES_ON
