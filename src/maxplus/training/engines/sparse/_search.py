"""The search for the worst samples, which updates chunks and computes exact values on demand.

An iteration may take a few hundred microseconds. So helper threads are started once per block and
spin until the number of the next iteration is published; worker 0 spins until all helpers have
published it. Parallel loops of Numba dispatch work to threads at every call and, with the many
arrays of the engine, take several times as long to compile as all kernels together.
"""

import math
import os

import numpy as np
from numba import types

from maxplus._compile.intrinsics import atomic_load, atomic_store, fmax, fmin, use_widest_vectors
from maxplus._compile.jit import inner
from maxplus.models._lmm_kernels import linear
from maxplus.models._softmax import sample_loss
from maxplus.training.engines.sparse._bounds import (
    RESOLVED,
    loss_bound,
    net_growth,
    odds_bounds,
    quick_growth,
    share_bounds,
    slot_of,
    store_floors,
    store_weights,
)
from maxplus.training.engines.sparse._maxima import leader_value, merge, refresh, scan_units
from maxplus.training.engines.sparse._minima import lane_max, lane_min
from maxplus.training.engines.sparse._state import LINE, NONE
from maxplus.training.engines.sparse._worst import (
    offer,
    reset_heaps,
    reset_thresholds,
    search_threshold,
    sort_heap,
)
from maxplus.training.engines.step import LAYER_0, LAYER_1, LAYER_2
from maxplus.trees._kernels import root, update, winner

# Bound on the relative rounding error of subtracting growth from a loss and adding it again.
KEY_ROUNDING = 4e-16
# Published instead of an iteration number to end a block. flags[0] is the iteration of worker
# 0, flags[LINE·w] that of helper w.
STOP = -(2**62)
# Spins before the processor is yielded, about 20 µs.
_MAX_SPINS = 20_000


@inner
def _add_shift(x, change, most, least):
    """Include the effect of a changed slope on a row in the extremes of each lane; O(B)."""
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
def _widen_bounds(state, w, c, since, t):
    """Widen the bounds of a chunk by the possible effect of changed slopes on each lane.

    In one iteration, a minimum changes at most by the largest change of a row; changes of several
    iterations are added. O(B) for each changed slope, and O(B·C) once.
    """
    samples, events, maxima = state.samples, state.events, state.maxima
    shift = state.scratch.shift[w]
    up, down, most, least = shift[0], shift[1], shift[2], shift[3]
    F = up.dtype.type
    noise = F(2.0 * state.scale.noise[0])
    shift[:] = 0.0
    has_changed_slopes = False
    for s in range(since, t):
        slot = slot_of(s, events)
        for j in range(events.n[slot, LAYER_0]):
            has_changed_slopes = True
            p, change = events.row0[slot, j] // 2, F(events.change0[slot, j])
            _add_shift(samples.columns[c, p], change, most, least)
        if events.n[slot, LAYER_0] > 0:
            _add_noise(most, least, noise, up, down)
            most[:] = 0.0
            least[:] = 0.0
    if not has_changed_slopes:
        return
    for d in range(maxima.lead.shape[1]):
        lead, second, rest = maxima.lead[c, d], maxima.second[c, d], maxima.rest[c, d]
        if d == samples.label[c]:
            _widen_own(up, down, lead, second, rest)
        else:
            _widen_wrong(up, lead, second, rest)


@inner
def update_chunk(state, w, c, t):
    """Bring the chunk's bounds up to date with all steps since its last update.

    Units with a row that rose must be merged, because a score may exceed its bound, and so must
    changes that lower a leader of the chunk's own class. Small falls in wrong classes would
    only tighten bounds and are postponed.
    """
    samples, weights, minima, maxima = state.samples, state.weights, state.minima, state.maxima
    events, search, scratch = state.events, state.search, state.scratch
    since, label = search.updated[c], samples.label[c]
    scratch.counts[w, 0] += 1
    mark = scratch.counts[w, 0]
    unit_mark, pair_mark = scratch.unit_mark[w], scratch.pair_mark[w]
    C = weights.W2T.shape[0]
    if since < 0 or t - since > events.n.shape[0]:
        for d in range(C):
            refresh(state, w, c, d)
            search.refreshed[c, d] = t
    else:
        _widen_bounds(state, w, c, since, t)
        leads_own = maxima.leads_own[c]
        for s in range(since, t):
            slot = slot_of(s, events)
            unit1, rose1 = events.unit1[slot], events.rose1[slot]
            for j in range(events.n[slot, LAYER_1]):
                h = unit1[j]
                if rose1[j] == 0 or unit_mark[h] == mark:
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
            unit1 = events.unit1[slot]
            for j in range(events.n[slot, LAYER_1]):
                h = unit1[j]
                if leads_own[h] != 0 and pair_mark[h, label] != mark:
                    pair_mark[h, label] = mark
                    merge(state, c, label, h)
            unit2, class2, merge2 = events.unit2[slot], events.class2[slot], events.merge2[slot]
            for j in range(events.n[slot, LAYER_2]):
                h, d = unit2[j], class2[j]
                own = d == label and leads_own[h] != 0
                if (own or merge2[j] != 0) and pair_mark[h, d] != mark:
                    pair_mark[h, d] = mark
                    merge(state, c, d, h)
    odds_bounds(label, samples.lanes[c], maxima.lead[c], maxima.rest[c], search.odds[c])
    search.updated[c] = t
    search.worst[c] = -np.inf
    for d in range(C):
        maxima.rest_min[c, d] = lane_min(maxima.rest[c, d])


@inner
def _exact_score(state, w, c, d, q):
    """Return the exact score of class d in one lane.

    If the leader is uncertain, the class is refreshed for all lanes of the chunk, once per
    iteration, because the leaders of other lanes are likely to be uncertain as well.
    """
    maxima, search, counts = state.maxima, state.search, state.scratch.counts[w]
    score = leader_value(state, w, c, d, q)
    if score >= maxima.rest[c, d, q]:
        return score
    if search.refreshed[c, d] != search.updated[c]:
        refresh(state, w, c, d)
        search.refreshed[c, d] = search.updated[c]
        counts[1] += 1
        score = leader_value(state, w, c, d, q)
        if score >= maxima.rest[c, d, q]:
            return score
    return scan_units(state, w, c, d, q)


@inner
def _odds_of(label, z):
    """Return Σ_{d≠label} exp(z_d − z_label), rounded up."""
    total = 0.0
    for d in range(z.size):
        if d != label:
            total += math.exp(min(np.float64(z[d]) - np.float64(z[label]), 700.0))
    # A denormal float32 would lose the margin, and 0 the loss.
    return np.float32(max(total * (1.0 + 1e-6), 2e-38))


@inner
def _resolve(state, w, c, threshold):
    """Compute exact scores of the lane with the largest bound until its loss is below a threshold.

    The true class comes first, then the wrong classes by decreasing bound, so that the bound of
    most lanes soon falls below the threshold. Return (loss, lane) if all scores were computed, and
    store them in ``scratch.z[w]``; otherwise return (−inf, NONE). Exact scores are stored as bounds
    of the lane.
    """
    samples, maxima, search, scratch = state.samples, state.maxima, state.search, state.scratch
    odds, label = search.odds[c], samples.label[c]
    top = lane_max(odds)
    q = 0
    while odds[q] != top:
        q += 1
    linear(samples.X[samples.sample[c, q]], state.weights.W0, scratch.lam[w])
    n_refreshes = scratch.counts[w, 1]
    z, known = scratch.z[w], scratch.known[w]
    for d in range(z.size):
        z[d] = max(maxima.lead[c, d, q], maxima.rest[c, d, q])
        known[d] = 0
    d = label
    is_below = False
    for _ in range(z.size):
        z[d] = _exact_score(state, w, c, d, q)
        known[d] = 1
        odds[q] = _odds_of(label, z)
        # With a margin for the rounding of keys: a lane below the threshold must stay below it.
        loss = loss_bound(odds[q])
        is_below = loss + 5.0 * KEY_ROUNDING * (loss + search.growth[label]) < threshold
        if is_below:
            break
        d = NONE
        for k in range(z.size):
            if known[k] == 0 and (d == NONE or z[k] > z[d]):
                d = k
    if scratch.counts[w, 1] > n_refreshes:
        fresh = scratch.odds[w]
        odds_bounds(label, samples.lanes[c], maxima.lead[c], maxima.rest[c], fresh)
        for k in range(odds.size):
            odds[k] = min(odds[k], fresh[k])
    if is_below:
        return -np.inf, np.int64(NONE)
    odds[q] = RESOLVED
    return sample_loss(z, label), q


@inner
def _set_key(state, w, c, loss):
    """Set the chunk's bound to ``loss``; O(log K)."""
    search, label = state.search, state.samples.label[c]
    growth = search.growth[label]
    key = loss - growth
    if loss > -np.inf:
        key += KEY_ROUNDING * (loss + growth)
    update(search.keys[w, label], search.offsets, search.leaf[c], key, True)


@inner
def _finish_chunk(state, w, c, label, steps_are_small):
    """After the search, set the key of an updated chunk and the values its growth is relative to.

    Growth is relative to the bounds in `Maxima`, so the key must be derived from them. They agree
    with the odds if no class has been refreshed since lanes were resolved.
    """
    search, scratch = state.search, state.scratch
    t, lanes = search.updated[c], state.samples.lanes[c]
    lead, rest = state.maxima.lead[c], state.maxima.rest[c]
    store_floors(state, w, c, label)
    key = max(loss_bound(lane_max(search.odds[c])), search.worst[c])
    renewed = steps_are_small
    for d in range(lead.shape[0]):
        renewed |= search.refreshed[c, d] == t
    if renewed:
        odds = scratch.odds[w]
        odds_bounds(label, lanes, lead, rest, odds)
        key = loss_bound(lane_max(odds))
    search.base[c] = np.inf
    # While steps are large, every chunk is updated in every iteration.
    if steps_are_small:
        share_bounds(label, lanes, lead, rest, scratch.odds[w, :lanes], state.lift.share[c])
        search.base[c] = key
        store_weights(state, c, label)
    _set_key(state, w, c, key)


if hasattr(os, "sched_yield"):
    _yield_processor = types.ExternalFunction("sched_yield", types.int32())
else:  # Windows: only spin

    @inner
    def _yield_processor():
        return 0


@inner
def _wait_for(flags, index, value):
    """Wait until flags[index] is ``value`` or `STOP`; return it."""
    spins = 0
    while True:
        seen = atomic_load(flags, index)
        if seen in (value, STOP):
            return seen
        spins += 1
        if spins > _MAX_SPINS:
            _yield_processor()


@inner
def begin_search(state, w, t, flags):
    """Start iteration t: worker 0 publishes it, helpers wait for it; return False after a stop."""
    if w > 0:
        return _wait_for(flags, 0, t) != STOP
    reset_thresholds(state.worst, t + 1)
    atomic_store(flags, 0, t)
    return True


@inner
def end_search(state, w, t, flags):
    """End iteration t: helpers publish it, worker 0 waits for all of them."""
    if w > 0:
        atomic_store(flags, LINE * w, t)
        return
    for helper in range(1, state.search.keys.shape[0]):
        _wait_for(flags, LINE * helper, t)


@inner
def search_worker(state, w, t, small_from):
    """Find those of the k worst samples that belong to worker w.

    The bound of the chunk with the largest bound is tightened until the largest bound is below k
    losses that were found, so that no other sample can be among the k worst.
    """
    search, worst, scratch = state.search, state.worst, state.scratch
    reset_heaps(worst, w)
    C = search.growth.size
    while True:
        label, bound = 0, -np.inf
        for d in range(C):
            top = root(search.keys[w, d], search.offsets) + search.growth[d]
            if top > bound:
                label, bound = d, top
        threshold = search_threshold(worst, t)
        if bound < threshold or bound == -np.inf:
            break
        c = search.chunk[w, label, winner(search.keys[w, label], search.offsets)]
        missed = t - search.updated[c]
        if missed == 0:
            loss, q = _resolve(state, w, c, threshold)
            if q != NONE:
                search.worst[c] = max(search.worst[c], loss)
                offer(worst, w, t, loss, state.samples.sample[c, q], c, q, scratch.z[w])
        elif search.base[c] < np.inf and search.narrowed[c] != t:
            # Keys grow by the largest effect of each step on any loss of the class. The bound of
            # the effect on this chunk is tighter, and that of the net effect tighter still.
            search.narrowed[c] = t
            narrow = min(bound, search.base[c] + quick_growth(state.lift, c, label))
            if narrow >= threshold:
                narrow = min(narrow, search.base[c] + net_growth(state, c, label, missed))
            _set_key(state, w, c, narrow)
            continue
        else:
            update_chunk(state, w, c, t)
        _set_key(state, w, c, loss_bound(lane_max(search.odds[c])))
    sort_heap(worst, w)
    for label in range(C):
        for leaf in range(search.chunk.shape[2]):
            c = search.chunk[w, label, leaf]
            if c != NONE and search.updated[c] == t:
                _finish_chunk(state, w, c, label, t >= small_from)
