"""The search for the worst sample: bounds first, exact values only where they decide."""

import math

import numpy as np
from numba import njit

from maxplus._jit import inner
from maxplus.models._softmax import sample_loss
from maxplus.training.engines.sparse._growth import net_growth
from maxplus.training.engines.sparse._losses import RESOLVED, loss_bound, odds_bounds
from maxplus.training.engines.sparse._maxima import leader_value, merge, refresh, scan_units
from maxplus.training.engines.sparse._minima import lane_max, replay
from maxplus.training.engines.sparse._reference import referenced
from maxplus.training.engines.sparse._state import (
    MERGE_CLASS,
    MERGE_NOW,
    MERGE_UNIT,
    MERGES,
    NONE,
    RING,
    ROW_ROSE,
    ROW_UNIT,
    ROWS,
    SLOPE_CHANGE,
    SLOPE_ROW,
    SLOPES,
)
from maxplus.training.engines.sparse._team import LINE, STOP, atomic_load, atomic_store, wait_for
from maxplus.trees._kernels import root, update, winner


@inner
def _loosen(c, since, t, samples, events, maxima, scale, shift):
    """Moved slopes: widen the chunk's bounds by what they can do to each lane; O(B·C).

    Within an iteration a minimum changes by no more than the largest change of a
    row; over several iterations the changes add up.
    """
    up, down = shift[0], shift[1]
    shift[:] = 0.0
    moved = False
    for s in range(since, t):
        slot = s % RING
        if events.n[slot, SLOPES] == 0:
            continue
        moved = True
        for q in range(up.size):
            most = least = 0.0
            for j in range(events.n[slot, SLOPES]):
                x = np.float64(samples.columns[c, events.number[slot, SLOPE_ROW, j] // 2, q])
                change = events.value[slot, SLOPE_CHANGE, j] * x
                most, least = max(most, change), min(least, change)
            up[q] += most + 2.0 * scale.noise[0]
            down[q] += 2.0 * scale.noise[0] - least
    if not moved:
        return
    for d in range(maxima.lead.shape[1]):
        lead, rest = maxima.lead[c, d], maxima.rest[c, d]
        if d == samples.label[c]:
            for q in range(up.size):
                rest[q] = max(rest[q], lead[q]) + up[q]
                lead[q] -= down[q]
        else:
            for q in range(up.size):
                rest[q] += up[q]
                lead[q] += up[q]


@inner
def visit(c, t, w, samples, weights, log, minima, maxima, events, search, scale, scratch):
    """Bring the chunk's bounds up to date with all steps since its last visit.

    What must be heard of: units with a row that rose (a score may be higher than
    its bound), and anything that lowers a leader of the own class. Small falls
    in wrong classes only make bounds better and may wait.
    """
    since, label = search.visited[c], samples.label[c]
    scratch.counts[w, 0] += 1
    mark = scratch.counts[w, 0]
    unit_mark, pair_mark = scratch.unit_mark[w], scratch.pair_mark[w]
    C = weights.W2T.shape[0]
    if since < 0 or t - since > RING:
        for d in range(C):
            refresh(c, d, samples, weights, log, minima, maxima, scale, scratch.bound[w])
            search.refreshed[c, d] = t
    else:
        _loosen(c, since, t, samples, events, maxima, scale, scratch.shift[w])
        leads_own = maxima.leads_own[c]
        for s in range(since, t):
            number = events.number[s % RING]
            for j in range(events.n[s % RING, ROWS]):
                h = number[ROW_UNIT, j]
                if number[ROW_ROSE, j] == 0 or unit_mark[h] == mark:
                    continue
                unit_mark[h] = mark
                if minima.seen[c, h] < log.n[h]:
                    replay(c, h, samples, weights, log, minima)
                for d in range(C):
                    top = minima.g_max[c, h] + weights.W2T[d, h] + scale.noise[0]
                    own = d == label and leads_own[h] != 0
                    if (own or top > maxima.rest_min[c, d]) and pair_mark[h, d] != mark:
                        pair_mark[h, d] = mark
                        merge(c, d, h, samples, weights, log, minima, maxima)
        for s in range(since, t):
            number = events.number[s % RING]
            for j in range(events.n[s % RING, ROWS]):
                h = number[ROW_UNIT, j]
                if leads_own[h] != 0 and pair_mark[h, label] != mark:
                    pair_mark[h, label] = mark
                    merge(c, label, h, samples, weights, log, minima, maxima)
            for j in range(events.n[s % RING, MERGES]):
                h, d = number[MERGE_UNIT, j], number[MERGE_CLASS, j]
                own = d == label and leads_own[h] != 0
                if (own or number[MERGE_NOW, j] != 0) and pair_mark[h, d] != mark:
                    pair_mark[h, d] = mark
                    merge(c, d, h, samples, weights, log, minima, maxima)
    odds_bounds(label, samples.lanes[c], maxima.lead[c], maxima.rest[c], search.odds[c])
    search.visited[c] = t
    search.worst[c] = -np.inf


@inner
def _exact_score(c, d, q, w, samples, weights, log, minima, maxima, search, scale, scratch):
    """The score of class d in one lane.

    Where the leader is in doubt, the class is refreshed for the whole chunk, once
    per iteration: other lanes are likely to be in doubt as well.
    """
    lam, bound = scratch.lam[w], scratch.bound[w]
    score = leader_value(c, d, q, samples, weights, log, minima, maxima, lam)
    if score >= maxima.rest[c, d, q]:
        return score
    if search.refreshed[c, d] != search.visited[c]:
        refresh(c, d, samples, weights, log, minima, maxima, scale, bound)
        search.refreshed[c, d] = search.visited[c]
        scratch.counts[w, 3] += 1
        score = leader_value(c, d, q, samples, weights, log, minima, maxima, lam)
        if score >= maxima.rest[c, d, q]:
            return score
    scratch.counts[w, 4] += 1
    return scan_units(c, d, q, samples, weights, log, minima, maxima, scale, bound, lam)


@inner
def _odds_of(label, z):
    """Σ_{d≠label} exp(z_d − z_label), rounded up."""
    total = 0.0
    for d in range(z.size):
        if d != label:
            total += math.exp(min(np.float64(z[d]) - np.float64(z[label]), 700.0))
    return np.float32(total * (1.0 + 1e-6))


@inner
def _resolve(c, w, threshold, samples, weights, log, minima, maxima, search, scale, scratch):
    """Look closely at the chunk's most suspicious lane: class by class, until it is cleared.

    The true class first, then the wrong ones, the largest bound first: the bounds
    of a lane that is not the worst soon fall below the threshold. Returns (loss,
    sample) if all scores had to be computed, else (−inf, NONE). Exact scores stay
    as bounds of the lane.
    """
    odds, label = search.odds[c], samples.label[c]
    top = lane_max(odds)
    q = 0
    while odds[q] != top:
        q += 1
    before = scratch.counts[w, 3]
    z, known = scratch.z[w], scratch.known[w]
    for d in range(z.size):
        z[d] = max(maxima.lead[c, d, q], maxima.rest[c, d, q])
        known[d] = 0
    d = label
    cleared = False
    for _ in range(z.size):
        z[d] = _exact_score(
            c, d, q, w, samples, weights, log, minima, maxima, search, scale, scratch
        )
        known[d] = 1
        odds[q] = _odds_of(label, z)
        # With room for the rounding of keys: what is cleared here must stay cleared there.
        loss = loss_bound(odds[q])
        cleared = loss + 2e-15 * (loss + search.growth[label]) < threshold
        if cleared:
            break
        d = NONE
        for k in range(z.size):
            if known[k] == 0 and (d == NONE or z[k] > z[d]):
                d = k
    if scratch.counts[w, 3] > before:
        fresh = np.empty(odds.size, odds.dtype)
        odds_bounds(label, samples.lanes[c], maxima.lead[c], maxima.rest[c], fresh)
        for k in range(odds.size):
            odds[k] = min(odds[k], fresh[k])
    if cleared:
        return -np.inf, np.int64(NONE)
    odds[q] = RESOLVED
    return sample_loss(z, label), samples.sample[c, q]


@inner
def _set_key(c, loss, w, samples, search):
    """The chunk's bound is now ``loss``; O(log K)."""
    label = samples.label[c]
    growth = search.growth[label]
    key = loss - growth
    if loss > -np.inf:
        # Taking growth away and adding it again must not round the bound down.
        key += 4e-16 * (loss + growth)
    update(search.keys[w, label], search.offsets, search.leaf[c], key, True)


@inner
def search_worker(
    w, t, polyak_until, samples, weights, log, lift, minima, maxima, events, search, scale, scratch
):
    """The worst of one worker's samples, unless another worker has a worse one.

    Take the chunk with the largest bound; look at it more closely; until the
    largest bound is below the worst loss found. Then no sample left can be
    worse, and none as bad has been left out.
    """
    best, best_sample = -np.inf, np.int64(np.iinfo(np.int64).max)
    W, C = search.keys.shape[0], search.growth.size
    counts = scratch.counts[w]
    while True:
        label, bound = 0, -np.inf
        for d in range(C):
            top = root(search.keys[w, d], search.offsets) + search.growth[d]
            if top > bound:
                label, bound = d, top
        # Any value another worker has written is a loss that really occurs.
        threshold = best
        for other in range(W):
            threshold = max(threshold, atomic_load(search.best_loss, LINE * other))
        if bound < threshold or bound == -np.inf:
            break
        c = search.chunk[w, label, winner(search.keys[w, label], search.offsets)]
        missed = t - search.visited[c]
        if missed == 0:
            loss, n = _resolve(
                c, w, threshold, samples, weights, log, minima, maxima, search, scale, scratch
            )
            counts[2] += 1
            search.worst[c] = max(search.worst[c], loss)
            if loss > best or (loss == best and n < best_sample):
                best, best_sample = loss, n
                atomic_store(search.best_loss, LINE * w, best)
        elif missed > 1 and search.base[c] < np.inf and search.narrowed[c] != t:
            # Keys grow by the sum of what each step can do. The net effect of all
            # steps since the visit is often a small part of that.
            search.narrowed[c] = t
            narrow = search.base[c] + net_growth(c, missed, samples, weights, lift, maxima, scale)
            counts[5] += 1
            _set_key(c, min(bound, narrow), w, samples, search)
            continue
        else:
            visit(c, t, w, samples, weights, log, minima, maxima, events, search, scale, scratch)
            counts[1] += 1
        _set_key(c, loss_bound(lane_max(search.odds[c])), w, samples, search)
    search.best_sample[LINE * w] = best_sample
    for label in range(C):
        for leaf in range(search.chunk.shape[2]):
            c = search.chunk[w, label, leaf]
            if c != NONE and search.visited[c] == t:
                exact = max(loss_bound(lane_max(search.odds[c])), search.worst[c])
                _set_key(c, exact, w, samples, search)
                search.base[c] = np.inf
                # Polyak steps are so large that every chunk is visited anyway.
                if t >= polyak_until:
                    search.base[c] = exact
                    lift.seen[c] = lift.begin
                    lift.W2T[c] = weights.W2T


@njit(cache=True, nogil=True)
def help_search(
    w, t, polyak_until, flags,
    samples, weights, log, lift, minima, maxima, events, search, scale, scratch,
):  # fmt: skip
    """Helper w's part: its share of the searches of iterations t, t + 1, … until told to stop."""
    samples, weights, log = referenced(samples), referenced(weights), referenced(log)
    lift, minima, maxima = referenced(lift), referenced(minima), referenced(maxima)
    events, search = referenced(events), referenced(search)
    scale, scratch = referenced(scale), referenced(scratch)
    while wait_for(flags, 0, t) != STOP:
        search_worker(
            w, t, polyak_until,
            samples, weights, log, lift, minima, maxima, events, search, scale, scratch,
        )  # fmt: skip
        atomic_store(flags, LINE * w, t)
        t += 1


@inner
def worst_sample(
    t, polyak_until, flags,
    samples, weights, log, lift, minima, maxima, events, search, scale, scratch,
):  # fmt: skip
    """(loss, sample) of the worst sample, the lowest one among equals."""
    # What the others found last time must not pass for a loss of this iteration.
    search.best_loss[:] = -np.inf
    atomic_store(flags, 0, t)
    search_worker(
        0, t, polyak_until,
        samples, weights, log, lift, minima, maxima, events, search, scale, scratch,
    )  # fmt: skip
    loss, sample = -np.inf, np.int64(NONE)
    for w in range(search.keys.shape[0]):
        if w > 0:
            wait_for(flags, LINE * w, t)
        mine, n = search.best_loss[LINE * w], search.best_sample[LINE * w]
        if mine > loss or (mine == loss and n < sample):
            loss, sample = mine, n
    return loss, sample
