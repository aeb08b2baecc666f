"""Iterations of the sparse engine, a whole block in one compiled call."""

import math

import numpy as np

from maxplus._compile.jit import inner, njit
from maxplus._compile.references import referenced
from maxplus.algebra._kernels import first_index, minplus_cell
from maxplus.models._lmm_kernels import linear, subgradient_entries
from maxplus.training.engines._descent import linear_moves
from maxplus.training.engines.sparse._growth import record_lift, record_step, step_growth
from maxplus.training.engines.sparse._mean import add_sample, descend_along
from maxplus.training.engines.sparse._meeting import (
    TELL_PATHS,
    call_python,
    rank_heard,
    read_path,
    tell_found,
    tell_overflow,
    write_path,
)
from maxplus.training.engines.sparse._search import begin_search, end_search, search_worker
from maxplus.training.engines.sparse._state import NONE
from maxplus.training.engines.sparse._worst import rank_found
from maxplus.training.engines.sparse.sizes import FOUND
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
def _find_path(state, rank, path):
    """The path of one of the worst samples that were found here; O(C·(H + P))."""
    samples, worst = state.samples, state.worst
    finder, place = worst.rank[rank, 0], worst.rank[rank, 1]
    n = worst.sample[finder, place]
    _winners(state, samples.X[n], finder, place)
    write_path(samples.X[n], samples.y[n], state.grad, path)


@inner
def find_worst(state):
    """(Mean loss, worst sample) of the k worst of all ranks, and whether they could be asked."""
    worst, meeting = state.worst, state.meeting
    loss, sample = rank_found(worst)
    if meeting.address == 0:
        return loss, sample, True
    if worst.rank.shape[0] == 1 and sample != NONE and math.isfinite(loss):
        _find_path(state, 0, meeting.told[FOUND:])
    if not tell_found(meeting, worst):
        return loss, sample, False
    loss, sample = rank_heard(meeting)
    return loss, sample, True


@inner
def find_paths(state):
    """The paths of the k worst samples of all ranks; whether those who have them could be asked.

    O(C·(H + P)) for each sample that is this rank's.
    """
    meeting = state.meeting
    n_samples = meeting.rank.shape[0]
    if meeting.address != 0 and n_samples == 1:
        owner = meeting.rank[0, 0]
        for j in range(meeting.path.shape[1]):
            meeting.path[0, j] = meeting.heard[owner, FOUND + j]
        return True
    for rank in range(n_samples):
        if meeting.address == 0:
            _find_path(state, rank, meeting.path[rank])
        elif meeting.rank[rank, 0] == meeting.me:
            _find_path(state, meeting.rank[rank, 1], meeting.path[rank])
        else:
            meeting.path[rank, :] = 0.0
    return meeting.address == 0 or call_python(meeting.address, TELL_PATHS) == 0


@inner
def take_step(state, k, t, loss, rule, linear_every, journal):
    """The step on the worst samples and what follows for all bounds; returns α.

    O(C²) for each sample: all subgradients are taken before anything moves.
    """
    meeting, grad, total = state.meeting, state.grad, state.total
    n_samples = meeting.rank.shape[0]
    for rank in range(n_samples):
        label = read_path(meeting.path[rank], grad, meeting.x)
        subgradient_entries(meeting.x, label, linear_moves(t, linear_every), grad)
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
            if state.meeting.address != 0:
                tell_overflow(state.meeting)
            return k + 1, _OVERFLOW
        if not begin_search(state, w, t, flags):
            return k, _GOES_ON
        search_worker(state, w, t, rule.small_from)
        end_search(state, w, t, flags)
        if w > 0:
            continue
        loss[k], sample[k], was_told = find_worst(state)
        step[k] = 0.0
        if not was_told:
            return k, _GOES_ON
        if not math.isfinite(loss[k]):
            return k + 1, _OVERFLOW
        if loss[k] <= rule.target:
            return k + 1, _TARGET
        if not find_paths(state):
            return k, _GOES_ON
        step[k] = take_step(state, k, t, loss[k], rule, linear_every, journal)
        if step[k] == 0.0:
            return k + 1, _STATIONARY
    return loss.size, _GOES_ON
