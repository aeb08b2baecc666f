"""The kernels of the sparse engine that Python calls: blocks of iterations, and replays."""

import math

import numpy as np

from maxplus._compile.jit import inner, njit
from maxplus._compile.references import referenced
from maxplus.algebra._kernels import first_index, minplus_cell
from maxplus.models._lmm_kernels import linear, subgradient_entries
from maxplus.training.engines.sparse._bounds import record_lift, record_step, step_growth
from maxplus.training.engines.sparse._minima import replay
from maxplus.training.engines.sparse._search import begin_search, end_search, search_worker
from maxplus.training.engines.sparse._state import NONE
from maxplus.training.engines.sparse._worst import (
    exchange_paths,
    exchange_worst,
    merge_sorted,
    order_received,
    read_path,
    send_overflow,
    write_path,
)
from maxplus.training.engines.step import add_sample, descend_mean, updates_w0
from maxplus.training.result import Signal


@inner
def _find_winners(state, x, worker, place):
    """Find the winning units and rows of one of the k worst samples, the lowest among equals.

    The search has stored its exact scores. Minima are computed only for units whose bound reaches
    one of them: O(C·H) for the bounds, O(P) for each minimum.
    """
    weights, log, minima, worst = state.weights, state.log, state.minima, state.worst
    lam, grad = state.scratch.lam[0], state.grad
    c, q = worst.lane[worker, place, 0], worst.lane[worker, place, 1]
    C = grad.z.size
    for d in range(C):
        grad.z[d], grad.h_star[d] = worst.scores[worker, place, d], NONE
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
def _has_finite_bounds(state):
    """Return whether all bounds are finite, as the search requires."""
    total = state.scale.noise[0]
    for label in range(state.search.growth.size):
        total += state.search.growth[label]
    return math.isfinite(total)


@inner
def _find_path(state, j):
    """Find the path of the j-th worst sample of this rank; return the sample; O(C·(H + P))."""
    worst = state.worst
    worker, place = worst.order[j, 0], worst.order[j, 1]
    n = worst.sample[worker, place]
    _find_winners(state, state.samples.X[n], worker, place)
    return n


@inner
def _write_own_path(state, j, path):
    """Write the path of the j-th worst sample of this rank into a message."""
    n = _find_path(state, j)
    write_path(state.samples.X[n], state.samples.y[n], state.grad, path)


@inner
def find_worst(state):
    """Order the k worst samples of all ranks.

    Return (the objective, its worst sample, whether the communication between ranks succeeded).
    """
    worst, exchange = state.worst, state.exchange
    loss, sample = merge_sorted(
        worst.loss, worst.sample, worst.heap, worst.n_ignored, worst.taken, worst.order
    )
    if exchange.address == 0:
        return loss, sample, True
    if worst.order.shape[0] == 1 and sample != NONE and math.isfinite(loss):
        _write_own_path(state, 0, exchange.sent[2:])
    if not exchange_worst(exchange, worst):
        return loss, sample, False
    loss, sample = order_received(exchange, worst.n_ignored)
    return loss, sample, True


@inner
def _collect_paths(state):
    """Collect the paths of all samples to step on; return False if communication fails.

    O(C·(H + P)) for each sample of this rank.
    """
    exchange, n_ignored = state.exchange, state.worst.n_ignored
    if exchange.order.shape[0] == 1:
        owner = exchange.order[0, 0]
        for i in range(exchange.path.shape[1]):
            exchange.path[0, i] = exchange.received[owner, 2 + i]
        return True
    for j in range(exchange.path.shape[0]):
        owner, place = exchange.order[n_ignored + j, 0], exchange.order[n_ignored + j, 1]
        if owner == exchange.rank:
            _write_own_path(state, place, exchange.path[j])
        else:
            exchange.path[j, :] = 0.0
    return exchange_paths(exchange)


@inner
def add_worst(state, t, w0_update_interval):
    """Add up the subgradients of the samples to step on; O(C·(H + P + C)) for each.

    Return False if the communication between ranks fails.
    """
    samples, exchange, grad, total = state.samples, state.exchange, state.grad, state.total
    n_ignored = state.worst.n_ignored
    is_single, has_slopes = exchange.address == 0, updates_w0(t, w0_update_interval)
    if not is_single and not _collect_paths(state):
        return False
    for j in range(state.worst.order.shape[0] - n_ignored):
        if is_single:
            n = _find_path(state, n_ignored + j)
            subgradient_entries(samples.X[n], samples.y[n], has_slopes, grad)
        else:
            label = read_path(exchange.path[j], grad, exchange.x)
            subgradient_entries(exchange.x, label, has_slopes, grad)
        add_sample(grad, total)
    return True


@inner
def take_step(state, k, t, loss, rule, journal):
    """Step along the mean of the subgradients in ``state.total`` and update bounds; return α."""
    first, n_samples = journal.n[0], state.worst.order.shape[0] - state.worst.n_ignored
    alpha = descend_mean(state.weights, state.total, n_samples, loss, t, rule, journal, k)
    record_step(state, t, journal, first)
    record_lift(state, t)
    step_growth(state, t)
    return alpha


@inner
def audit(state, t):
    """Return 0; `_audit.audited_block` checks all bounds instead and returns a code."""
    return 0


@njit(cache=True, nogil=True)
def sparse_block(w, flags, state, rule, w0_update_interval, t0, journal, loss, sample, step):
    """Run a block of iterations from t0 on as worker w; return (iterations done, signal).

    All workers search; worker 0 takes the steps and fills loss, sample and step. The signal is the
    code of `audit` if it is not 0.
    """
    state, journal = referenced(state), referenced(journal)
    for k in range(loss.size):
        t = t0 + k
        if w == 0 and not _has_finite_bounds(state):
            loss[k], sample[k], step[k] = np.nan, NONE, 0.0
            if state.exchange.address != 0:
                send_overflow(state.exchange)
            return k + 1, Signal.OVERFLOW.value
        if not begin_search(state, w, t, flags):
            return k, Signal.CONTINUE.value
        search_worker(state, w, t, rule.small_from)
        end_search(state, w, t, flags)
        if w > 0:
            continue
        loss[k], sample[k], is_exchanged = find_worst(state)
        step[k] = 0.0
        code = audit(state, t)
        if code != 0:
            return k, code
        if not is_exchanged:
            return k, Signal.CONTINUE.value
        if not math.isfinite(loss[k]):
            return k + 1, Signal.OVERFLOW.value
        if loss[k] <= rule.target:
            return k + 1, Signal.TARGET.value
        if not add_worst(state, t, w0_update_interval):
            return k, Signal.CONTINUE.value
        step[k] = take_step(state, k, t, loss[k], rule, journal)
        if step[k] == 0.0:
            return k + 1, Signal.STATIONARY.value
    return loss.size, Signal.CONTINUE.value


@njit(cache=True, nogil=True)
def replay_chunks(state, first, step):
    """Bring all units of every ``step``-th chunk up to date, starting with ``first``."""
    state = referenced(state)
    for c in range(first, state.samples.label.size, step):
        for h in range(state.log.n.size):
            replay(state, c, h)
