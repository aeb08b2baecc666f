"""The maximum layer: leading units, and bounds on all other units."""

import numpy as np

from maxplus._compile.intrinsics import fmax, fmin, prefetch, select, use_widest_vectors
from maxplus._compile.jit import inner
from maxplus.training.engines.sparse._minima import exact_minimum, lane_max, lane_min, replay
from maxplus.training.engines.sparse._state import NONE


@inner
def _merge_lanes(g, g2, w2, h, lead, unit, second, unit2, rest):
    """Merge unit h, whose minimum is at least min(g, g2) and at most g, for all lanes; O(B).

    Of the two known units and unit h, the two with the larger lower bounds become the known units;
    the third is included in rest. If the bounds of the minimum differ, the upper one is included in
    rest even for a known unit, so that rest bounds displaced units. Written without branches.
    """
    use_widest_vectors()
    new_unit = unit.dtype.type(h)
    for q in range(g.size):
        v, upper = fmin(g[q], g2[q]) + w2, g[q] + w2
        L, S, R, U, V = lead[q], second[q], rest[q], unit[q], unit2[q]
        leads, known, above = new_unit == U, (new_unit == U) | (new_unit == V), v > S
        # The known unit that is kept for any v, and the candidate for the other position.
        kept, kept_unit = select(leads, S, L), select(leads, V, U)
        candidate, candidate_unit = select(known | above, v, S), select(known | above, new_unit, V)
        swap = candidate > kept
        lead[q], second[q] = fmax(candidate, kept), fmin(candidate, kept)
        unit[q] = select(swap, candidate_unit, kept_unit)
        unit2[q] = select(swap, kept_unit, candidate_unit)
        left = select(known, R, fmax(R, fmin(v, S)))
        rest[q] = select(g2[q] < g[q], fmax(left, upper), left)


@inner
def merge(state, c, d, h):
    """Update the lanes of class d after a possible change of unit h's score; O(B).

    For a wrong class an upper bound is sufficient: falls of rows need no replay, and a small total
    rise is added to the stored g.
    """
    weights, minima, maxima, scale = state.weights, state.minima, state.maxima, state.scale
    w2 = weights.W2T[d, h]
    lead, unit = maxima.lead[c, d], maxima.unit[c, d]
    second, unit2, rest = maxima.second[c, d], maxima.unit2[c, d], maxima.rest[c, d]
    if d == state.samples.label[c]:
        replay(state, c, h)
        maxima.leads_own[c, h] = 1
        _merge_lanes(minima.g[c, h], minima.g2[c, h], w2, h, lead, unit, second, unit2, rest)
    else:
        rise = state.log.raised[h] - minima.raised_seen[c, h]
        if rise > scale.small_rise:
            replay(state, c, h)
        elif rise > 0.0:
            w2 = weights.W2T.dtype.type(w2 + rise + scale.noise[0])
        g = minima.g[c, h]
        _merge_lanes(g, g, w2, h, lead, unit, second, unit2, rest)


@inner
def _unit_bounds(state, c, d, bound):
    """Compute bound[h] ≥ every lane's score of unit h in class d; O(H).

    A row that rose by r raises the minimum by at most r, so the sum of g_max at the last replay and
    all later rises bounds the current minimum.
    """
    use_widest_vectors()
    w2, g_max, noise = state.weights.W2T[d], state.minima.g_max[c], state.scale.noise[0]
    raised, raised_seen = state.log.raised, state.minima.raised_seen[c]
    for h in range(bound.size):
        rise = raised[h] - raised_seen[h] + noise
        bound[h] = g_max[h] + rise + w2[h]


# Number of units by which minima are prefetched ahead, to hide the latency of memory.
_PREFETCH_DISTANCE = 3


@inner
def _prefetch_lanes(values):
    """Prefetch a unit's lanes, a cache line at a time."""
    for q in range(0, values.size, 64 // values.itemsize):
        prefetch(values, q)


@inner
def _clip_below(values, level):
    use_widest_vectors()
    for q in range(values.size):
        values[q] = fmax(values[q], level)


@inner
def refresh(state, w, c, d):
    """Recompute leaders and rest of class d for all lanes of a chunk.

    First, units whose bound is within a margin of the largest bound are merged, then those whose
    bound reaches the smallest lead found. Rest includes the largest bound of the other units. O(B)
    for each merged unit, O(H) for the bounds.
    """
    minima, maxima = state.minima, state.maxima
    bound, chosen = state.scratch.bound[w], state.scratch.chosen[w]
    is_own = d == state.samples.label[c]
    lead, rest = maxima.lead[c, d], maxima.rest[c, d]
    _unit_bounds(state, c, d, bound)
    lead[:] = -np.inf
    maxima.second[c, d] = -np.inf
    rest[:] = -np.inf
    maxima.unit[c, d] = NONE
    maxima.unit2[c, d] = NONE
    if is_own:
        maxima.leads_own[c] = 0
    left_out = -np.inf
    cut = np.float64(lane_max(bound)) - state.scale.margin
    for _ in range(2):
        left_out = -np.inf
        n = 0
        for h in range(bound.size):
            if bound[h] >= cut:
                chosen[n] = h
                n += 1
                bound[h] = -np.inf
            else:
                left_out = max(left_out, bound[h])
        for k in range(n):
            if k + _PREFETCH_DISTANCE < n:
                _prefetch_lanes(minima.g[c, chosen[k + _PREFETCH_DISTANCE]])
                if is_own:
                    _prefetch_lanes(minima.g2[c, chosen[k + _PREFETCH_DISTANCE]])
            merge(state, c, d, chosen[k])
        cut = np.float64(lane_min(lead))
        if left_out < cut:
            break
    if left_out > -np.inf:
        _clip_below(rest, rest.dtype.type(left_out))
    maxima.rest_min[c, d] = lane_min(rest)


@inner
def leader_value(state, w, c, d, q):
    """Return the exact score of the better of the two known units in a lane; −inf if none is known.

    If the exact score of the leader is below the second, they are swapped and the other one is
    computed: after two rounds both are exact.
    """
    weights, minima, maxima, lam = state.weights, state.minima, state.maxima, state.scratch.lam[w]
    while True:
        h = np.int64(maxima.unit[c, d, q])  # int64 everywhere: callees are compiled once
        if h == NONE:
            return minima.g.dtype.type(-np.inf)
        replay(state, c, h)
        g = exact_minimum(c, h, q, lam, weights, minima)
        value, second = g + weights.W2T[d, h], maxima.second[c, d, q]
        if not value < second:
            maxima.lead[c, d, q] = value
            return value
        maxima.lead[c, d, q], maxima.unit[c, d, q] = second, maxima.unit2[c, d, q]
        maxima.second[c, d, q], maxima.unit2[c, d, q] = value, h


@inner
def scan_units(state, w, c, d, q):
    """Return the exact score of class d in a lane, from the units whose bound reaches the best.

    O(H) for the bounds, O(P) for a minimum that is not known exactly.
    """
    weights, log, minima, maxima = state.weights, state.log, state.minima, state.maxima
    bound, lam, noise = state.scratch.bound[w], state.scratch.lam[w], state.scale.noise[0]
    _unit_bounds(state, c, d, bound)
    leader = np.int64(maxima.unit[c, d, q])
    best, best_unit, rest = minima.g.dtype.type(-np.inf), NONE, minima.g.dtype.type(-np.inf)
    for k in range(-1, bound.size):
        # The leader comes first: with a good first value, fewer units are evaluated.
        h = leader if k < 0 else k
        if h == NONE or (k >= 0 and k == leader):
            continue
        if bound[h] < best:
            rest = max(rest, bound[h])
            continue
        rise = log.raised[h] - minima.raised_seen[c, h] + noise
        upper = minima.g.dtype.type(minima.g[c, h, q] + rise + weights.W2T[d, h])
        if upper < best:
            rest = max(rest, upper)
            continue
        replay(state, c, h)
        value = minima.g[c, h, q] + weights.W2T[d, h]
        if value >= best:
            value = exact_minimum(c, h, q, lam, weights, minima) + weights.W2T[d, h]
        if value > best:
            rest, best, best_unit = max(rest, best), value, h
        else:
            rest = max(rest, value)
    maxima.lead[c, d, q], maxima.unit[c, d, q], maxima.rest[c, d, q] = best, best_unit, rest
    maxima.second[c, d, q], maxima.unit2[c, d, q] = -np.inf, NONE
    maxima.rest_min[c, d] = min(maxima.rest_min[c, d], rest)
    if d == state.samples.label[c]:
        maxima.leads_own[c, best_unit] = 1
    return best
