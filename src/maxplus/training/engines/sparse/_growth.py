"""What a step can do to scores and losses, before anybody looks."""

import numpy as np
from numba import njit

from maxplus.training.engines._descent import LAYER_0, LAYER_1
from maxplus.training.engines.sparse._minima import note_row
from maxplus.training.engines.sparse._state import RING

MERGES, RAISED, FALLEN, SLOPES = 0, 1, 2, 3


@njit(cache=True)
def update_noise(scale):
    """Rounding errors are a few ulps of the largest number that enters a score."""
    w0, w1, w2 = scale.largest
    scale.noise[0] = 16.0 * scale.eps * (w0 * scale.x_largest + w1 + w2)


@njit(cache=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _append_once(ring, slot, n, kind, unit):
    for j in range(n[slot, kind]):
        if ring[slot, j] == unit:
            return
    ring[slot, n[slot, kind]] = unit
    n[slot, kind] += 1


@njit(cache=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _slope_effect(delta, low, high):
    """The largest rise and fall of delta·x for x in [low, high]."""
    a, b = delta * low, delta * high
    return max(a, b, 0.0), max(-a, -b, 0.0)


@njit(cache=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def record_step(t, weights, journal, first, samples, log, events, search, scale):
    """Note what moved in iteration t (journal entries from ``first`` on) for all chunks.

    Returns nothing; logs rows, writes events, and lets the bounds of all chunks
    grow. O(C² + H·(slopes moved)).

    A score of class d is a maximum of minima of rows: it rises at most by the
    largest rise of one of its terms, the row's plus the entry of W2's, and falls
    likewise. The loss is 1-Lipschitz in the differences z_d − z_y, so it grows by
    at most (rise of a wrong score) + (fall of the true one).
    """
    slot = t % RING
    n = events.n
    n[slot] = 0
    C = weights.W2T.shape[0]
    up0 = down0 = 0.0
    rise, fall = np.zeros(C), np.zeros(C)
    for k in range(first, journal.n[0]):
        layer, row, column, old = (
            journal.layer[k], journal.row[k], journal.column[k], journal.old[k]
        )  # fmt: skip
        if layer == LAYER_0:
            new = np.float64(weights.W0[row])
            events.slope_row[slot, n[slot, SLOPES]] = row
            events.slope_old[slot, n[slot, SLOPES]] = old
            events.slope_new[slot, n[slot, SLOPES]] = new
            n[slot, SLOPES] += 1
            p = row // 2
            up, down = _slope_effect(new - old, samples.x_min[p], samples.x_max[p])
            up0, down0 = max(up0, up), max(down0, down)
            for h in range(log.n.size):
                note_row(log, h, row)
        elif layer == LAYER_1:
            new = np.float64(weights.W1T[row, column])
            note_row(log, row, column)
            if new > old:
                log.raised[row] += new - old
                _append_once(events.raised, slot, n, RAISED, row)
            elif new < old:
                _append_once(events.fallen, slot, n, FALLEN, row)
        else:
            new = np.float64(weights.W2T[row, column])
            j = n[slot, MERGES]
            events.merge_unit[slot, j], events.merge_class[slot, j] = column, row
            events.fall[column, row] += abs(new - old)
            now = new > old or events.fall[column, row] > scale.small
            events.merge_now[slot, j] = now
            if now:
                events.fall[column, row] = 0.0
            n[slot, MERGES] += 1
        scale.largest[layer] = max(scale.largest[layer], abs(new))
    if up0 > 0.0:
        for h in range(log.n.size):
            log.raised[h] += up0
    update_noise(scale)

    # Every unit with a moved entry of W2 has a moved row and the other way round.
    for k in range(first, journal.n[0]):
        if journal.layer[k] != LAYER_1:
            continue
        h = journal.row[k]
        up = down = 0.0
        for j in range(first, journal.n[0]):
            if journal.layer[j] == LAYER_1 and journal.row[j] == h:
                delta = np.float64(weights.W1T[h, journal.column[j]]) - journal.old[j]
                up, down = max(up, delta), max(down, -delta)
        for d in range(C):
            shift = 0.0
            for j in range(n[slot, MERGES]):
                if events.merge_unit[slot, j] == h and events.merge_class[slot, j] == d:
                    shift = np.float64(weights.W2T[d, h]) - _old_w2(journal, first, d, h)
            rise[d] = max(rise[d], up + shift)
            fall[d] = max(fall[d], down - shift)
    for label in range(C):
        wrong = 0.0
        for d in range(C):
            if d != label:
                wrong = max(wrong, rise[d])
        search.growth[label] += wrong + fall[label] + up0 + down0 + 4.0 * scale.noise[0]


@njit(cache=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _old_w2(journal, first, d, h):
    for k in range(first, journal.n[0]):
        if journal.layer[k] > LAYER_1 and journal.row[k] == d and journal.column[k] == h:
            return journal.old[k]
    return np.nan
