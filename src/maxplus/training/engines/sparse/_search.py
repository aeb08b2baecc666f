"""The search for the worst samples: bounds first, exact values only where they decide."""

import math

import numpy as np

from maxplus._compile.jit import inner
from maxplus.models._lmm_kernels import linear
from maxplus.models._softmax import sample_loss
from maxplus.training.engines.sparse._growth import (
    net_growth,
    quick_growth,
    remember_floors,
    remember_weights,
)
from maxplus.training.engines.sparse._losses import RESOLVED, loss_bound, odds_bounds, share_bounds
from maxplus.training.engines.sparse._maxima import leader_value, refresh, scan_units
from maxplus.training.engines.sparse._minima import lane_max
from maxplus.training.engines.sparse._state import NONE
from maxplus.training.engines.sparse._team import LINE, STOP, atomic_store, wait_for
from maxplus.training.engines.sparse._visit import visit
from maxplus.training.engines.sparse._worst import (
    forget_found,
    forget_thresholds,
    offer,
    sort_found,
    threshold_found,
)
from maxplus.trees._kernels import root, update, winner

# Taking growth away from a loss and adding it again rounds by less than this part of both.
KEY_ROUNDING = 4e-16


@inner
def _exact_score(state, w, c, d, q):
    """The score of class d in one lane.

    Where the leader is in doubt, the class is refreshed for the whole chunk, once
    per iteration: other lanes are likely to be in doubt as well.
    """
    maxima, search, counts = state.maxima, state.search, state.scratch.counts[w]
    score = leader_value(state, w, c, d, q)
    if score >= maxima.rest[c, d, q]:
        return score
    if search.refreshed[c, d] != search.visited[c]:
        refresh(state, w, c, d)
        search.refreshed[c, d] = search.visited[c]
        counts[3] += 1
        score = leader_value(state, w, c, d, q)
        if score >= maxima.rest[c, d, q]:
            return score
    counts[4] += 1
    return scan_units(state, w, c, d, q)


@inner
def _odds_of(label, z):
    """Σ_{d≠label} exp(z_d − z_label), rounded up."""
    total = 0.0
    for d in range(z.size):
        if d != label:
            total += math.exp(min(np.float64(z[d]) - np.float64(z[label]), 700.0))
    # Below the smallest normal number float32 would lose the margin, and then the loss.
    return np.float32(max(total * (1.0 + 1e-6), 2e-38))


@inner
def _resolve(state, w, c, threshold):
    """Look closely at the chunk's most suspicious lane: class by class, until it is cleared.

    The true class first, then the wrong ones, the largest bound first: the bounds
    of a lane that is not the worst soon fall below the threshold. Returns (loss,
    lane) if all scores had to be computed, which z then holds, else (−inf, NONE).
    Exact scores stay as bounds of the lane.
    """
    samples, maxima, search, scratch = state.samples, state.maxima, state.search, state.scratch
    odds, label = search.odds[c], samples.label[c]
    top = lane_max(odds)
    q = 0
    while odds[q] != top:
        q += 1
    linear(samples.X[samples.sample[c, q]], state.weights.W0, scratch.lam[w])
    before = scratch.counts[w, 3]
    z, known = scratch.z[w], scratch.known[w]
    for d in range(z.size):
        z[d] = max(maxima.lead[c, d, q], maxima.rest[c, d, q])
        known[d] = 0
    d = label
    cleared = False
    for _ in range(z.size):
        z[d] = _exact_score(state, w, c, d, q)
        known[d] = 1
        odds[q] = _odds_of(label, z)
        # With room for the rounding of keys: what is cleared here must stay cleared there.
        loss = loss_bound(odds[q])
        cleared = loss + 5.0 * KEY_ROUNDING * (loss + search.growth[label]) < threshold
        if cleared:
            break
        d = NONE
        for k in range(z.size):
            if known[k] == 0 and (d == NONE or z[k] > z[d]):
                d = k
    if scratch.counts[w, 3] > before:
        fresh = scratch.odds[w]
        odds_bounds(label, samples.lanes[c], maxima.lead[c], maxima.rest[c], fresh)
        for k in range(odds.size):
            odds[k] = min(odds[k], fresh[k])
    if cleared:
        return -np.inf, np.int64(NONE)
    odds[q] = RESOLVED
    return sample_loss(z, label), q


@inner
def _set_key(state, w, c, loss):
    """The chunk's bound is now ``loss``; O(log K)."""
    search, label = state.search, state.samples.label[c]
    growth = search.growth[label]
    key = loss - growth
    if loss > -np.inf:
        key += KEY_ROUNDING * (loss + growth)
    update(search.keys[w, label], search.offsets, search.leaf[c], key, True)


@inner
def _leave(state, w, c, label, steps_are_small):
    """After the search: the key of a visited chunk, and what its growth will be counted from.

    Growth is counted from the bounds in `Maxima`, so the key must come from them
    too. Where no class has been refreshed since lanes were resolved, they agree.
    """
    search, scratch = state.search, state.scratch
    t, lanes = search.visited[c], state.samples.lanes[c]
    lead, rest = state.maxima.lead[c], state.maxima.rest[c]
    remember_floors(state, w, c, label)
    key = max(loss_bound(lane_max(search.odds[c])), search.worst[c])
    renewed = steps_are_small
    for d in range(lead.shape[0]):
        renewed |= search.refreshed[c, d] == t
    if renewed:
        odds = scratch.odds[w]
        odds_bounds(label, lanes, lead, rest, odds)
        key = loss_bound(lane_max(odds))
    search.base[c] = np.inf
    # While steps are large, every chunk is visited anyway.
    if steps_are_small:
        share_bounds(label, lanes, lead, rest, scratch.odds[w, :lanes], state.lift.share[c])
        search.base[c] = key
        remember_weights(state, c, label)
    _set_key(state, w, c, key)


@inner
def begin_search(state, w, t, flags):
    """Worker 0 announces iteration t, helpers wait for it; False if they are told to stop."""
    if w > 0:
        return wait_for(flags, 0, t) != STOP
    forget_thresholds(state.worst, t + 1)
    atomic_store(flags, 0, t)
    return True


@inner
def end_search(state, w, t, flags):
    """Helpers answer; worker 0 waits for all answers."""
    if w > 0:
        atomic_store(flags, LINE * w, t)
        return
    for helper in range(1, state.search.keys.shape[0]):
        wait_for(flags, LINE * helper, t)


@inner
def search_worker(state, w, t, small_from):
    """The k worst of one worker's samples, as far as they can be among the k worst of all.

    Take the chunk with the largest bound; look at it more closely; until the
    largest bound is below k losses that were found. Then no sample left can be
    worse than those k, and none as bad has been left out.
    """
    search, worst, scratch = state.search, state.worst, state.scratch
    forget_found(worst, w)
    C = search.growth.size
    counts = scratch.counts[w]
    while True:
        label, bound = 0, -np.inf
        for d in range(C):
            top = root(search.keys[w, d], search.offsets) + search.growth[d]
            if top > bound:
                label, bound = d, top
        threshold = threshold_found(worst, t)
        if bound < threshold or bound == -np.inf:
            break
        c = search.chunk[w, label, winner(search.keys[w, label], search.offsets)]
        missed = t - search.visited[c]
        if missed == 0:
            loss, q = _resolve(state, w, c, threshold)
            counts[2] += 1
            if q != NONE:
                search.worst[c] = max(search.worst[c], loss)
                offer(worst, w, t, loss, state.samples.sample[c, q], c, q, scratch.z[w])
        elif search.base[c] < np.inf and search.narrowed[c] != t:
            # Keys grow by the most that each step can do to any loss of the class. To
            # this chunk it can do less, and the net effect of all steps is less again.
            search.narrowed[c] = t
            narrow = min(bound, search.base[c] + quick_growth(state.lift, c, label))
            if narrow >= threshold:
                narrow = min(narrow, search.base[c] + net_growth(state, c, label, missed))
                counts[5] += 1
            _set_key(state, w, c, narrow)
            continue
        else:
            visit(state, w, c, t)
            counts[1] += 1
        _set_key(state, w, c, loss_bound(lane_max(search.odds[c])))
    sort_found(worst, w)
    for label in range(C):
        for leaf in range(search.chunk.shape[2]):
            c = search.chunk[w, label, leaf]
            if c != NONE and search.visited[c] == t:
                _leave(state, w, c, label, t >= small_from)
