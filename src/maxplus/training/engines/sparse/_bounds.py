"""Bounds on losses: of the lanes of a chunk, and their growth by later steps.

Losses are bounded as odds = exp(loss) − 1 = Σ_{d≠y} exp(z_d − z_y). Odds have the same order as
losses, retain the relative precision of tiny losses, and need one exponential per wrong class.

Growth: a score z_d is a maximum of minima of rows. It rises at most by the largest rise of one of
its terms, the sum of the rises of a row and of an entry of W2, and falls at most by the largest
fall. The loss is 1-Lipschitz in the differences z_d − z_y, so it grows by at most (the rise of a
wrong score) + (the fall of the true one). This bound holds for all chunks of a class. The bound of
a single chunk is tighter: if a wrong class with the share s of Σ_d exp(z_d − z_y) rises by r, the
loss grows by log(1 + s·(exp(r) − 1)), and most shares are small.

Only units that can lead count: let V be the bound of a lane on a wrong score at the last update of
its chunk (max of lead and rest). No unit was above V then. In each later step, a changed unit
either stays below ``lowest``, which is at most V for all chunks, or rises by at most the rise of
the class in this step. By induction no unit exceeds V plus the sum of the rises of the class.
"""

import math

import numpy as np

from maxplus._compile.elementary import exp32
from maxplus._compile.intrinsics import fmax, fmin, use_widest_vectors
from maxplus._compile.jit import inner, njit
from maxplus.training.engines.sparse._minima import lane_max, log_row
from maxplus.training.engines.sparse._state import EPOCH
from maxplus.training.engines.step import LAYER_0, LAYER_1, LAYER_2

# -- losses of lanes ---------------------------------------------------------------------------

RESOLVED = np.float32(-1.0)

# Bound on the relative error of one term: of exp32, and of its rounded argument (|x| ≤ 87).
_SLACK = 1.00004


@inner
def _exp(x):
    """Return exp(x) with x clipped to [−80, 87]."""
    return exp32(fmin(fmax(x, np.float32(-80.0)), np.float32(87.0)))


@inner
def _add_odds(lead, rest, own, odds):
    """Add the term of one wrong class; O(B)."""
    use_widest_vectors()
    for q in range(odds.size):
        odds[q] += _exp(np.float32(fmax(lead[q], rest[q]) - own[q]))


@inner
def _slack(n_classes):
    """Return a factor by which odds are increased to cover the errors of their terms and sum."""
    return np.float32(_SLACK + 1.2e-7 * n_classes)


@inner
def odds_bounds(label, lanes, lead, rest, odds):
    """Compute odds[q] ≥ exp(loss) − 1 for each lane of a chunk; O(B·C).

    Odds increase with wrong scores, for which upper bounds are used, and decrease with the true
    score, for which a lower bound is used. They are infinite if their sum reaches exp(86), because
    `_exp` clips differences above 87.
    """
    odds[:] = np.float32(0.0)
    own = lead[label]
    for d in range(lead.shape[0]):
        if d != label:
            _add_odds(lead[d], rest[d], own, odds)
    huge, slack = np.float32(math.exp(86.0)), _slack(lead.shape[0])
    for q in range(odds.size):
        odds[q] = np.float32(np.inf) if odds[q] >= huge else odds[q] * slack
    odds[lanes:] = RESOLVED


@inner
def _largest_share(lead, rest, own, odds):
    """Return the largest share of a wrong class in 1 + odds of a lane; O(B)."""
    use_widest_vectors()
    most = np.float32(0.0)
    for q in range(odds.size):
        term = _exp(np.float32(fmax(lead[q], rest[q]) - own[q]))
        most = fmax(most, term / (np.float32(1.0) + odds[q]))
    return most


@inner
def share_bounds(label, lanes, lead, rest, odds, share):
    """Compute share[d] ≥ exp(z_d − z_y) / (1 + odds) of all lanes, from the same bounds; O(B·C)."""
    finite, slack = lane_max(odds) < np.inf, _slack(lead.shape[0])
    for d in range(lead.shape[0]):
        share[d] = 1.0
        if finite and d != label:
            most = _largest_share(lead[d, :lanes], rest[d, :lanes], lead[label, :lanes], odds)
            share[d] = min(1.0, np.float64(most * slack * slack))


@inner
def loss_bound(odds):
    """Return the loss for given odds, rounded up; −inf for resolved lanes."""
    if odds < 0:
        return -np.inf
    return math.log1p(np.float64(odds)) * (1.0 + 1e-12)


# -- growth by steps ---------------------------------------------------------------------------

# Bound on the relative error of two roundings in float64.
SUM_ROUNDING = 4.5e-16


@inner
def rounded_up_sum(total, amount):
    """Return the sum of two non-negative numbers, rounded up, so that long sums are bounds."""
    return (total + amount) * (1.0 + SUM_ROUNDING)


@njit(cache=True)
def update_noise(scale):
    """Set the bound on rounding errors: 16 ulps of the largest possible score."""
    w0, w1, w2 = scale.largest
    scale.noise[0] = 16.0 * scale.eps * (w0 * scale.x_largest + w1 + w2)


@inner
def _copy(values, target):
    """Copy by a loop: Numba takes seconds to compile an assignment to a slice."""
    for h in range(values.size):
        target[h] = values[h]


@inner
def slot_of(t, events):
    """Return the slot of iteration t in the ring, whose length is a power of two."""
    return t & (events.n.shape[0] - 1)


@inner
def slope_effect(slot, samples, events):
    """Return the largest rise and fall of a row by the changed slopes of one iteration."""
    up = down = 0.0
    for j in range(events.n[slot, LAYER_0]):
        p, change = events.row0[slot, j] // 2, events.change0[slot, j]
        a, b = change * samples.x_min[p], change * samples.x_max[p]
        up, down = max(up, a, b), max(down, -a, -b)
    return up, down


@inner
def record_step(state, t, journal, first):
    """Record the changes of iteration t, journal entries from ``first`` on, in ring and logs.

    O(1) for each entry, and O(H) for each slope, which belongs to all units.
    """
    weights, log, events, scale = state.weights, state.log, state.events, state.scale
    slot = slot_of(t, events)
    n = events.n[slot]
    n[:] = 0
    for k in range(first, journal.n[0]):
        layer, row, column = journal.layer[k], journal.row[k], journal.column[k]
        old, j = journal.old[k], n[layer]
        n[layer] += 1
        if layer == LAYER_0:
            new = np.float64(weights.W0[row])
            events.row0[slot, j], events.change0[slot, j] = row, new - old
            for h in range(log.n.size):
                log_row(log, h, row, weights.W1T[h, row])
        elif layer == LAYER_1:
            new = np.float64(weights.W1T[row, column])
            events.unit1[slot, j], events.row1[slot, j] = row, column
            events.rose1[slot, j], events.old1[slot, j] = new > old, old
            log_row(log, row, column, weights.W1T[row, column])
            log.raised[row] = rounded_up_sum(log.raised[row], max(new - old, 0.0))
        else:
            new = np.float64(weights.W2T[row, column])
            events.pending[column, row] += abs(new - old)
            merge = new > old or events.pending[column, row] > scale.small_fall
            if merge:
                events.pending[column, row] = 0.0
            events.unit2[slot, j], events.class2[slot, j] = column, row
            events.merge2[slot, j], events.old2[slot, j] = merge, old
        scale.largest[layer] = max(scale.largest[layer], abs(new))
    up, _ = slope_effect(slot, state.samples, events)
    if up > 0.0:
        for h in range(log.n.size):
            log.raised[h] = rounded_up_sum(log.raised[h], up)
    update_noise(scale)


@inner
def record_lift(state, t):
    """Add the changed rows of iteration t to the lifts; O(1) for each, and O(H) once per epoch."""
    weights, events, lift = state.weights, state.events, state.lift
    slot, epoch = slot_of(t, events), t // EPOCH
    if t % EPOCH == 0:
        _copy(lift.now[0], lift.begin[0])
        _copy(lift.now[1], lift.begin[1])
    for j in range(events.n[slot, LAYER_1]):
        h, i = events.unit1[slot, j], events.row1[slot, j]
        if lift.epoch[h, i] != epoch:
            lift.epoch[h, i] = epoch
            lift.value[h, i] = events.old1[slot, j]
        change = np.float64(weights.W1T[h, i]) - np.float64(lift.value[h, i])
        lift.now[0, h] = max(lift.now[0, h], rounded_up_sum(lift.begin[0, h], max(change, 0.0)))
        lift.now[1, h] = max(lift.now[1, h], rounded_up_sum(lift.begin[1, h], max(-change, 0.0)))
    if events.n[slot, LAYER_0] > 0:
        up, down = slope_effect(slot, state.samples, events)
        for h in range(lift.now.shape[1]):
            lift.now[0, h] = rounded_up_sum(lift.now[0, h], up)
            lift.begin[0, h] = rounded_up_sum(lift.begin[0, h], up)
            lift.now[1, h] = rounded_up_sum(lift.now[1, h], down)
            lift.begin[1, h] = rounded_up_sum(lift.begin[1, h], down)


@inner
def _can_lead(state, d, h):
    """Return whether unit h may reach the bound of any lane on class d; O(workers).

    No minimum of the unit is above reach + raised, and no bound of a chunk is below ``lowest``. A
    unit below ``lowest`` raises no bound.
    """
    lift, w2 = state.lift, np.float64(state.weights.W2T[d, h])
    score = lift.reach[h] + state.log.raised[h] + w2 + state.scale.noise[0]
    lowest = lift.lowest[0, d]
    for w in range(lift.lowest.shape[0]):
        lowest = min(lowest, lift.lowest[w, d])
    return score >= lowest


@inner
def step_growth(state, t):
    """Add the largest possible effect of iteration t on losses and scores; O(C) per entry."""
    weights, events, lift, growth = state.weights, state.events, state.lift, state.search.growth
    slot = slot_of(t, events)
    up, down = state.scratch.unit_change[0, 0], state.scratch.unit_change[0, 1]
    rise, fall = state.scratch.class_change[0, 0], state.scratch.class_change[0, 1]
    noise = state.scale.noise[0]
    rise[:] = 0.0
    fall[:] = 0.0
    for j in range(events.n[slot, LAYER_1]):
        h = events.unit1[slot, j]
        up[h] = down[h] = 0.0
    for j in range(events.n[slot, LAYER_1]):
        h = events.unit1[slot, j]
        change = np.float64(weights.W1T[h, events.row1[slot, j]]) - events.old1[slot, j]
        up[h], down[h] = max(up[h], change), max(down[h], -change)
        for d in range(rise.size):
            fall[d] = max(fall[d], down[h])
            if up[h] > rise[d] and _can_lead(state, d, h):
                rise[d] = up[h]
    for j in range(events.n[slot, LAYER_2]):
        h, d = events.unit2[slot, j], events.class2[slot, j]
        change = np.float64(weights.W2T[d, h]) - events.old2[slot, j]
        # A unit with a changed entry of W2 has a changed row: up and down are set.
        fall[d] = max(fall[d], down[h] - change)
        if up[h] + change > rise[d] and _can_lead(state, d, h):
            rise[d] = up[h] + change
    slopes_up, slopes_down = slope_effect(slot, state.samples, events)
    for d in range(growth.size):
        rise[d] += slopes_up + 2.0 * noise
        fall[d] += slopes_down + 2.0 * noise
        lift.raised[d] = rounded_up_sum(lift.raised[d], rise[d])
        lift.fallen[d] = rounded_up_sum(lift.fallen[d], fall[d])
    for label in range(growth.size):
        wrong = 0.0
        for d in range(growth.size):
            if d != label:
                wrong = max(wrong, rise[d])
        growth[label] = rounded_up_sum(growth[label], wrong + fall[label])


@inner
def _largest_rise(now, seen, w2, w2_seen, top, floor):
    """Return the largest amount by which a unit can exceed the bound of the last update; O(H).

    At that time, no unit was above the bound, or above top + W2, which for most units is far below
    ``floor``, the lowest bound of any lane.
    """
    use_widest_vectors()
    most = 0.0
    for h in range(now.size):
        most = fmax(
            most,
            (now[h] - seen[h]) + np.float64(w2[h]) + fmin(-np.float64(w2_seen[h]), top[h] - floor),
        )
    return most


@inner
def _largest_fall(now, seen, w2, w2_seen, leads):
    use_widest_vectors()
    most = 0.0
    for h in range(now.size):
        drop = (now[h] - seen[h]) - (np.float64(w2[h]) - np.float64(w2_seen[h]))
        most = fmax(most, drop if leads[h] != 0 else 0.0)
    return most


@inner
def _lowest_bound(lead, rest):
    use_widest_vectors()
    least = fmax(lead[0], rest[0])
    for q in range(lead.size):
        least = fmin(least, fmax(lead[q], rest[q]))
    return least


@inner
def store_floors(state, w, c, label):
    """Store the lowest bounds of chunk c on wrong scores after an update; O(B·C)."""
    lift, lanes = state.lift, state.samples.lanes[c]
    lead, rest = state.maxima.lead[c], state.maxima.rest[c]
    for d in range(lead.shape[0]):
        if d != label:
            lift.floor[c, d] = _lowest_bound(lead[d, :lanes], rest[d, :lanes])
            lift.lowest[w, d] = min(lift.lowest[w, d], lift.floor[c, d])


@inner
def _store_lifts(up, up_begin, down, down_begin, seen):
    use_widest_vectors()
    up_seen, down_seen = seen[0], seen[1]
    for h in range(up.size):
        # Rounded down, to compensate for the rounding of the subtractions.
        slack = SUM_ROUNDING * (up[h] + down[h])
        up_seen[h] = up_begin[h] - (down[h] - down_begin[h]) - slack
        down_seen[h] = down_begin[h] - (up[h] - up_begin[h]) - slack


@inner
def _store_top(g_max, raised_seen, raised, noise, top):
    use_widest_vectors()
    for h in range(top.size):
        top[h] = np.float64(g_max[h]) + (raised[h] - raised_seen[h]) + noise


@inner
def store_weights(state, c, label):
    """Store the values to which the growth of chunk c is relative, after an update; O(C·H).

    Lifts are relative to the beginning of the epoch. A row that has fallen by f at the update and
    ends r above its initial value has risen by f + r in between. So the change of the epoch in the
    opposite direction is added.
    """
    weights, lift, minima = state.weights, state.lift, state.minima
    _store_lifts(lift.now[0], lift.begin[0], lift.now[1], lift.begin[1], lift.seen[c])
    _store_top(
        minima.g_max[c], minima.raised_seen[c], state.log.raised, state.scale.noise[0], lift.top[c]
    )
    for d in range(weights.W2T.shape[0]):
        lift.raised_seen[c, d] = lift.raised[d]
        _copy(weights.W2T[d], lift.W2T[c, d])
    lift.fallen_seen[c] = lift.fallen[label]


@inner
def quick_growth(lift, c, label):
    """Bound the growth of the losses of chunk c since its update by sums of all steps; O(C)."""
    odds = 0.0
    for d in range(lift.raised.size):
        if d != label:
            odds += lift.share[c, d] * math.expm1(lift.raised[d] - lift.raised_seen[c, d])
    return math.log1p(odds) + (lift.fallen[label] - lift.fallen_seen[c])


@inner
def net_growth(state, c, label, missed):
    """Bound the same growth by net changes; O(C·H).

    A true score falls at most by the fall of its leading unit, so only leaders count.
    """
    weights, lift = state.weights, state.lift
    noise = 2.0 * state.scale.noise[0] * missed
    odds = 0.0
    for d in range(weights.W2T.shape[0]):
        if d != label:
            rise = _largest_rise(
                lift.now[0],
                lift.seen[c, 0],
                weights.W2T[d],
                lift.W2T[c, d],
                lift.top[c],
                lift.floor[c, d],
            )
            odds += lift.share[c, d] * math.expm1(rise + noise)
    fall = _largest_fall(
        lift.now[1],
        lift.seen[c, 1],
        weights.W2T[label],
        lift.W2T[c, label],
        state.maxima.leads_own[c],
    )
    return math.log1p(odds) + fall + noise
