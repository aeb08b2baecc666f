"""The maximum layer: leading units and bounds on the rest."""

import numpy as np

from maxplus._jit import inner
from maxplus.algebra._intrinsics import fmax, fmin, use_widest_vectors
from maxplus.training.engines.sparse._minima import lane_min, replay, scan_lane
from maxplus.training.engines.sparse._state import NONE


@inner
def _merge_wrong(g, w2, h, lead, unit, rest):
    """Unit h has the score bound g + w2 in a wrong class, for all lanes; O(B).

    lead follows its own unit; a larger newcomer takes the lead and the old
    leader's bound passes into rest; a smaller one can only raise rest.
    """
    use_widest_vectors()
    name = unit.dtype.type(h)
    for q in range(g.size):
        v, L, R, U = g[q] + w2, lead[q], rest[q], unit[q]
        own, ahead = name == U, v > L
        lead[q] = v if own | ahead else L
        rest[q] = R if own else fmax(R, L if ahead else v)
        unit[q] = name if ahead else U


@inner
def _merge_own(g, g2, w2, h, lead, unit, rest):
    """The same in the chunk's own class, where lead is a lower bound; O(B).

    The minimum is at least min(g, g2) and at most g. Where the two differ, the
    upper one goes into rest even for the leader itself: so rest bounds whatever
    a displaced leader may have been.
    """
    use_widest_vectors()
    name = unit.dtype.type(h)
    for q in range(g.size):
        low, v, L, R, U = fmin(g[q], g2[q]) + w2, g[q] + w2, lead[q], rest[q], unit[q]
        own, ahead, unsure = name == U, low > L, g2[q] < g[q]
        other = L if ahead else v
        other = fmax(other, v) if unsure else other
        lead[q] = low if own | ahead else L
        rest[q] = (fmax(R, v) if unsure else R) if own else fmax(R, other)
        unit[q] = name if ahead else U


@inner
def merge(c, d, h, samples, weights, log, minima, maxima):
    """Unit h's score in class d may have changed: bring the class's lanes up to date; O(B).

    For a wrong class an upper bound suffices, so falls of rows need no replay.
    """
    w2 = weights.W2T[d, h]
    lead, unit, rest = maxima.lead[c, d], maxima.unit[c, d], maxima.rest[c, d]
    if d == samples.label[c]:
        if minima.seen[c, h] < log.n[h]:
            replay(c, h, samples, weights, log, minima)
        maxima.leads_own[c, h] = 1
        _merge_own(minima.g[c, h], minima.g2[c, h], w2, h, lead, unit, rest)
    else:
        if minima.raise_seen[c, h] < log.raised[h]:
            replay(c, h, samples, weights, log, minima)
        _merge_wrong(minima.g[c, h], w2, h, lead, unit, rest)


@inner
def unit_bounds(c, d, weights, log, minima, noise, bound):
    """bound[h] ≥ every lane's score of unit h in class d; O(H).

    A row that rose by r raises the minimum by at most r, so g_max at the last
    replay plus all rises since bounds the present minimum.
    """
    w2 = weights.W2T[d]
    for h in range(bound.size):
        rise = log.raised[h] - minima.raise_seen[c, h] + noise
        bound[h] = minima.g_max[c, h] + rise + w2[h]


@inner
def refresh(c, d, samples, weights, log, minima, maxima, scale, bound):
    """Leaders and rest of class d for a whole chunk, from all units that can matter.

    Units are merged from the top bound down to a margin; then those whose bound
    reaches the smallest lead found. The others go into rest with their largest
    bound. O(B) for each unit merged, O(H) for the bounds.
    """
    lead, unit, rest = maxima.lead[c, d], maxima.unit[c, d], maxima.rest[c, d]
    unit_bounds(c, d, weights, log, minima, scale.noise[0], bound)
    lead[:] = -np.inf
    rest[:] = -np.inf
    unit[:] = NONE
    if d == samples.label[c]:
        maxima.leads_own[c] = 0
    left_out = -np.inf
    cut = np.float64(bound.max()) - scale.margin
    for _ in range(2):
        left_out = -np.inf
        for h in range(bound.size):
            if bound[h] >= cut:
                merge(c, d, h, samples, weights, log, minima, maxima)
                bound[h] = -np.inf
            else:
                left_out = max(left_out, bound[h])
        cut = np.float64(lane_min(lead))
        if left_out < cut:
            break
    if left_out > -np.inf:
        for q in range(rest.size):
            rest[q] = max(rest[q], left_out)
    maxima.rest_min[c, d] = lane_min(rest)


@inner
def leader_value(c, d, q, samples, weights, log, minima, maxima, lam):
    """The leader's exact score in one lane, which becomes lead; −inf without a leader."""
    h = maxima.unit[c, d, q]
    if h == NONE:
        return -np.inf
    if minima.seen[c, h] < log.n[h]:
        replay(c, h, samples, weights, log, minima)
    if minima.g[c, h, q] > minima.g2[c, h, q]:
        scan_lane(c, h, q, samples.sample[c, q], samples, weights, minima, lam)
    value = minima.g[c, h, q] + weights.W2T[d, h]
    maxima.lead[c, d, q] = value
    return value


@inner
def scan_units(c, d, q, samples, weights, log, minima, maxima, scale, bound, lam):
    """The exact score of class d in one lane: any unit whose bound reaches the best is looked at.

    O(H) for the bounds, O(P) for a minimum that is not known exactly.
    """
    noise = scale.noise[0]
    unit_bounds(c, d, weights, log, minima, noise, bound)
    leader = maxima.unit[c, d, q]
    best, best_unit, rest = minima.g.dtype.type(-np.inf), NONE, minima.g.dtype.type(-np.inf)
    for k in range(-1, bound.size):
        # The leader first: the better the first value, the fewer units are looked at.
        h = leader if k < 0 else k
        if h == NONE or (k >= 0 and k == leader):
            continue
        if bound[h] < best:
            rest = max(rest, bound[h])
            continue
        rise = log.raised[h] - minima.raise_seen[c, h] + noise
        upper = minima.g.dtype.type(minima.g[c, h, q] + rise + weights.W2T[d, h])
        if upper < best:
            rest = max(rest, upper)
            continue
        if minima.seen[c, h] < log.n[h]:
            replay(c, h, samples, weights, log, minima)
        value = minima.g[c, h, q] + weights.W2T[d, h]
        if value >= best and minima.g[c, h, q] > minima.g2[c, h, q]:
            scan_lane(c, h, q, samples.sample[c, q], samples, weights, minima, lam)
            value = minima.g[c, h, q] + weights.W2T[d, h]
        if value > best:
            rest, best, best_unit = max(rest, best), value, h
        else:
            rest = max(rest, value)
    maxima.lead[c, d, q], maxima.unit[c, d, q], maxima.rest[c, d, q] = best, best_unit, rest
    maxima.rest_min[c, d] = min(maxima.rest_min[c, d], rest)
    if d == samples.label[c]:
        maxima.leads_own[c, best_unit] = 1
    return best
