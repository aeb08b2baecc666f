"""What steps can do to scores and losses, before anybody looks.

A score z_d is a maximum of minima of rows: it rises at most by the largest rise
of one of its terms, a row's plus that of W2's entry, and falls likewise. The
loss is 1-Lipschitz in the differences z_d − z_y, so it grows by at most (the
rise of a wrong score) + (the fall of the true one).
"""

import numpy as np
from numba import njit

from maxplus.training.engines._descent import LAYER_0, LAYER_1
from maxplus.training.engines.sparse._minima import note_row
from maxplus.training.engines.sparse._state import (
    MERGE_CLASS,
    MERGE_NOW,
    MERGE_OLD,
    MERGE_UNIT,
    MERGES,
    RING,
    ROW_INDEX,
    ROW_OLD,
    ROW_ROSE,
    ROW_UNIT,
    ROWS,
    SLOPE_CHANGE,
    SLOPE_ROW,
    SLOPES,
)


@njit(cache=True)
def update_noise(scale):
    """Rounding errors are a few ulps of the largest number that enters a score."""
    w0, w1, w2 = scale.largest
    scale.noise[0] = 16.0 * scale.eps * (w0 * scale.x_largest + w1 + w2)


@njit(cache=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def slope_effect(slot, samples, events):
    """The largest rise and fall of a row by the moved slopes of one iteration, for any sample."""
    up = down = 0.0
    for j in range(events.n[slot, SLOPES]):
        p = events.number[slot, SLOPE_ROW, j] // 2
        change = events.value[slot, SLOPE_CHANGE, j]
        a, b = change * samples.x_min[p], change * samples.x_max[p]
        up, down = max(up, a, b), max(down, -a, -b)
    return up, down


@njit(cache=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def record_step(t, weights, journal, first, samples, log, events, scale):
    """Write what moved in iteration t (journal entries from ``first`` on) into ring and logs.

    O(C), and O(H) for each slope: it belongs to every unit.
    """
    slot = t % RING
    n, number, value = events.n[slot], events.number[slot], events.value[slot]
    n[:] = 0
    for k in range(first, journal.n[0]):
        layer, row, column, old = (
            journal.layer[k], journal.row[k], journal.column[k], journal.old[k]
        )  # fmt: skip
        if layer == LAYER_0:
            new = np.float64(weights.W0[row])
            number[SLOPE_ROW, n[SLOPES]] = row
            value[SLOPE_CHANGE, n[SLOPES]] = new - old
            n[SLOPES] += 1
            for h in range(log.n.size):
                note_row(log, h, row)
        elif layer == LAYER_1:
            new = np.float64(weights.W1T[row, column])
            j = n[ROWS]
            number[ROW_UNIT, j], number[ROW_INDEX, j] = row, column
            number[ROW_ROSE, j], value[ROW_OLD, j] = new > old, old
            n[ROWS] += 1
            note_row(log, row, column)
            log.raised[row] += max(new - old, 0.0)
        else:
            new = np.float64(weights.W2T[row, column])
            j = n[MERGES]
            events.fall[column, row] += abs(new - old)
            now = new > old or events.fall[column, row] > scale.small
            if now:
                events.fall[column, row] = 0.0
            number[MERGE_UNIT, j], number[MERGE_CLASS, j] = column, row
            number[MERGE_NOW, j], value[MERGE_OLD, j] = now, old
            n[MERGES] += 1
        scale.largest[layer] = max(scale.largest[layer], abs(new))
    up, _ = slope_effect(slot, samples, events)
    if up > 0.0:
        for h in range(log.n.size):
            log.raised[h] += up
    update_noise(scale)


@njit(cache=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def grow(since, t, w, own, samples, weights, events, scale, scratch, rise, fall):
    """How much each class's score can have risen and fallen from iteration ``since`` to t.

    Net changes: of an entry that moved several times, only where it was and where
    it is count. A score falls no more than the units that lead in it, so with
    ``own`` (a flag per unit) only flagged units count for falls. Fills rise and
    fall (C); O(C) per iteration in between.
    """
    scratch.counts[w, 0] += 1
    mark = scratch.counts[w, 0]
    unit_mark, pair_mark, row_mark = (
        scratch.unit_mark[w], scratch.pair_mark[w], scratch.row_mark[w]
    )  # fmt: skip
    up, down = scratch.reach[w, 0], scratch.reach[w, 1]
    W1T, W2T = weights.W1T, weights.W2T
    highest = lowest = 0.0
    slopes_up = slopes_down = 0.0
    for s in range(since, t):
        slot = s % RING
        number, value = events.number[slot], events.value[slot]
        for j in range(events.n[slot, ROWS]):
            h, i = number[ROW_UNIT, j], number[ROW_INDEX, j]
            if unit_mark[h] != mark:
                unit_mark[h] = mark
                up[h] = down[h] = 0.0
            if row_mark[h, i] != mark:
                row_mark[h, i] = mark
                change = np.float64(W1T[h, i]) - value[ROW_OLD, j]
                up[h], down[h] = max(up[h], change), max(down[h], -change)
                highest = max(highest, up[h])
                if own[h] != 0:
                    lowest = max(lowest, down[h])
        if events.n[slot, SLOPES] > 0:
            a, b = slope_effect(slot, samples, events)
            slopes_up += a
            slopes_down += b
    rise[:] = highest
    fall[:] = lowest
    for s in range(since, t):
        slot = s % RING
        number, value = events.number[slot], events.value[slot]
        for j in range(events.n[slot, MERGES]):
            h, d = number[MERGE_UNIT, j], number[MERGE_CLASS, j]
            if pair_mark[h, d] != mark:
                pair_mark[h, d] = mark
                change = np.float64(W2T[d, h]) - value[MERGE_OLD, j]
                # Whoever has a moved entry of W2 has a moved row: up and down are set.
                rise[d] = max(rise[d], up[h] + change)
                if own[h] != 0:
                    fall[d] = max(fall[d], down[h] - change)
    extra = 2.0 * scale.noise[0] * (t - since)
    for d in range(rise.size):
        rise[d] += slopes_up + extra
        fall[d] += slopes_down + extra


@njit(cache=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def loss_growth(label, rise, fall):
    """The most that losses of class ``label`` can have grown; O(C)."""
    wrong = 0.0
    for d in range(rise.size):
        if d != label:
            wrong = max(wrong, rise[d])
    return wrong + fall[label]
