"""A visit: the bounds of one chunk are brought up to date with all steps it has missed."""

import numpy as np

from maxplus._compile.intrinsics import fmax, fmin, use_widest_vectors
from maxplus._compile.jit import inner
from maxplus.training.engines.sparse._growth import slot_of
from maxplus.training.engines.sparse._losses import odds_bounds
from maxplus.training.engines.sparse._maxima import merge, refresh
from maxplus.training.engines.sparse._minima import lane_min
from maxplus.training.engines.sparse._state import (
    MERGE_CLASS,
    MERGE_NOW,
    MERGE_UNIT,
    MERGES,
    ROW_ROSE,
    ROW_UNIT,
    ROWS,
    SLOPE_CHANGE,
    SLOPE_ROW,
    SLOPES,
)


@inner
def _add_shift(x, change, most, least):
    """A moved slope: its effect on a row, lane by lane; O(B)."""
    use_widest_vectors()
    for q in range(x.size):
        effect = change * x[q]
        most[q], least[q] = fmax(most[q], effect), fmin(least[q], effect)


@inner
def _add_noise(most, least, noise, up, down):
    use_widest_vectors()
    for q in range(up.size):
        up[q] += most[q] + noise
        down[q] += noise - least[q]


@inner
def _widen_wrong(up, lead, second, rest):
    use_widest_vectors()
    for q in range(up.size):
        rest[q] += up[q]
        lead[q] += up[q]
        second[q] += up[q]


@inner
def _widen_own(up, down, lead, second, rest):
    use_widest_vectors()
    for q in range(up.size):
        rest[q] = fmax(rest[q], lead[q]) + up[q]
        lead[q] -= down[q]
        second[q] -= down[q]


@inner
def _loosen(state, w, c, since, t):
    """Moved slopes: widen the chunk's bounds by what they can do to each lane; O(B·C).

    Within an iteration a minimum changes by no more than the largest change of a
    row; over several iterations the changes add up.
    """
    samples, events, maxima = state.samples, state.events, state.maxima
    shift = state.scratch.shift[w]
    up, down, most, least = shift[0], shift[1], shift[2], shift[3]
    F = up.dtype.type
    noise = F(2.0 * state.scale.noise[0])
    shift[:] = 0.0
    moved = False
    for s in range(since, t):
        slot = slot_of(s, events)
        for j in range(events.n[slot, SLOPES]):
            moved = True
            p = events.number[slot, SLOPE_ROW, j] // 2
            change = F(events.value[slot, SLOPE_CHANGE, j])
            _add_shift(samples.columns[c, p], change, most, least)
        if events.n[slot, SLOPES] > 0:
            _add_noise(most, least, noise, up, down)
            most[:] = 0.0
            least[:] = 0.0
    if not moved:
        return
    for d in range(maxima.lead.shape[1]):
        lead, second, rest = maxima.lead[c, d], maxima.second[c, d], maxima.rest[c, d]
        if d == samples.label[c]:
            _widen_own(up, down, lead, second, rest)
        else:
            _widen_wrong(up, lead, second, rest)


@inner
def visit(state, w, c, t):
    """Bring the chunk's bounds up to date with all steps since its last visit.

    What must be heard of: units with a row that rose (a score may be higher than
    its bound), and anything that lowers a leader of the own class. Small falls
    in wrong classes only make bounds better and may wait.
    """
    samples, weights, minima, maxima = state.samples, state.weights, state.minima, state.maxima
    events, search, scratch = state.events, state.search, state.scratch
    since, label = search.visited[c], samples.label[c]
    scratch.counts[w, 0] += 1
    mark = scratch.counts[w, 0]
    unit_mark, pair_mark = scratch.unit_mark[w], scratch.pair_mark[w]
    C = weights.W2T.shape[0]
    if since < 0 or t - since > events.n.shape[0]:
        for d in range(C):
            refresh(state, w, c, d)
            search.refreshed[c, d] = t
    else:
        _loosen(state, w, c, since, t)
        leads_own = maxima.leads_own[c]
        for s in range(since, t):
            slot = slot_of(s, events)
            number = events.number[slot]
            for j in range(events.n[slot, ROWS]):
                h = number[ROW_UNIT, j]
                if number[ROW_ROSE, j] == 0 or unit_mark[h] == mark:
                    continue
                unit_mark[h] = mark
                rise = state.log.raised[h] - minima.raised_seen[c, h] + state.scale.noise[0]
                for d in range(C):
                    top = minima.g_max[c, h] + weights.W2T[d, h] + rise
                    own = d == label and leads_own[h] != 0
                    if (own or top > maxima.rest_min[c, d]) and pair_mark[h, d] != mark:
                        pair_mark[h, d] = mark
                        merge(state, c, d, h)
        for s in range(since, t):
            slot = slot_of(s, events)
            number = events.number[slot]
            for j in range(events.n[slot, ROWS]):
                h = number[ROW_UNIT, j]
                if leads_own[h] != 0 and pair_mark[h, label] != mark:
                    pair_mark[h, label] = mark
                    merge(state, c, label, h)
            for j in range(events.n[slot, MERGES]):
                h, d = number[MERGE_UNIT, j], number[MERGE_CLASS, j]
                own = d == label and leads_own[h] != 0
                if (own or number[MERGE_NOW, j] != 0) and pair_mark[h, d] != mark:
                    pair_mark[h, d] = mark
                    merge(state, c, d, h)
    odds_bounds(label, samples.lanes[c], maxima.lead[c], maxima.rest[c], search.odds[c])
    search.visited[c] = t
    search.worst[c] = -np.inf
    for d in range(C):
        maxima.rest_min[c, d] = lane_min(maxima.rest[c, d])
