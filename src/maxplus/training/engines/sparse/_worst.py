"""The k worst samples found so far: a heap per worker, and the order of all of them.

A worker may stop when its largest bound is below k losses that were found: the k worst of one
worker, or the k / S worst of each of S workers. So each worker publishes two thresholds, which
all threads see and, where ranks share memory, all ranks. With k = 1 both are the worst loss found.
"""

import numpy as np

from maxplus._compile.intrinsics import atomic_load, atomic_store
from maxplus._compile.jit import inner
from maxplus.training.engines.sparse._state import NONE, SENTINEL
from maxplus.training.engines.sparse._threads import LINE


@inner
def _comes_before(loss, sample, other_loss, other_sample):
    """Return whether a sample is worse than another; the lower number wins ties."""
    return loss > other_loss or (loss == other_loss and sample < other_sample)


@inner
def _is_worse(worst, w, place, other):
    return _comes_before(
        worst.loss[w, place], worst.sample[w, place], worst.loss[w, other], worst.sample[w, other]
    )


@inner
def _sift_down(worst, w, size):
    """Restore the heap order after its top entry changed; O(log k)."""
    heap = worst.heap[w]
    place, at = heap[0], 0
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and _is_worse(worst, w, heap[child], heap[child + 1]):
            child += 1
        if not _is_worse(worst, w, place, heap[child]):
            break
        heap[at] = heap[child]
        at = child
    heap[at] = place


@inner
def _replace_least(losses, loss):
    """Replace the least loss of a heap by a larger one; O(log k)."""
    at = 0
    while 2 * at + 1 < losses.size:
        child = 2 * at + 1
        if child + 1 < losses.size and losses[child + 1] < losses[child]:
            child += 1
        if loss <= losses[child]:
            break
        losses[at] = losses[child]
        at = child
    losses[at] = loss


@inner
def reset_found(worst, w):
    """Reset the heaps of worker w to sentinel entries, which precede no sample; O(k)."""
    for place in range(worst.loss.shape[1]):
        worst.loss[w, place], worst.sample[w, place] = -np.inf, SENTINEL
    for at in range(worst.quota.shape[1]):
        worst.quota[w, at] = -np.inf


@inner
def offer(worst, w, t, loss, n, c, q, z):
    """Add sample n, in lane q of chunk c, to the k worst of worker w; O(C + log k).

    It replaces the mildest of them, unless it is milder still.
    """
    # A score that overflowed is worse than any number.
    loss = loss if loss == loss else np.inf
    threshold, slot = worst.threshold[t & 1], LINE * (worst.first_slot + w)
    if loss > worst.quota[w, 0]:
        _replace_least(worst.quota[w], loss)
        atomic_store(threshold, slot + 1, worst.quota[w, 0])
    place = worst.heap[w, 0]
    if not _comes_before(loss, n, worst.loss[w, place], worst.sample[w, place]):
        return
    worst.loss[w, place], worst.sample[w, place] = loss, n
    worst.lane[w, place, 0], worst.lane[w, place, 1] = c, q
    for d in range(z.size):
        worst.scores[w, place, d] = z[d]
    _sift_down(worst, w, worst.heap.shape[1])
    atomic_store(threshold, slot, worst.loss[w, worst.heap[w, 0]])


@inner
def reset_thresholds(worst, t):
    """Reset the thresholds of this rank's workers before iteration t; O(W).

    It is called one iteration ahead. At that time the thresholds of t − 2, which are in the same
    place, are read no more, and all ranks synchronise once before those of t are read.
    """
    threshold = worst.threshold[t & 1]
    for w in range(worst.heap.shape[0]):
        slot = LINE * (worst.first_slot + w)
        atomic_store(threshold, slot, -np.inf)
        atomic_store(threshold, slot + 1, -np.inf)


@inner
def threshold_found(worst, t):
    """Return a loss that at least k samples found in iteration t reach; O(S)."""
    threshold = worst.threshold[t & 1]
    of_one, of_each = -np.inf, np.inf
    for slot in range(0, threshold.size, LINE):
        of_one = max(of_one, atomic_load(threshold, slot))
        of_each = min(of_each, atomic_load(threshold, slot + 1))
    return max(of_one, of_each)


@inner
def sort_found(worst, w):
    """Sort the samples of worker w, the worst first; O(k·log k)."""
    heap = worst.heap[w]
    for last in range(heap.size - 1, 0, -1):
        heap[0], heap[last] = heap[last], heap[0]
        _sift_down(worst, w, last)


@inner
def merge_sorted(loss, sample, place, taken, order):
    """Find the k worst entries of several sorted lists; (their mean loss, the worst); O(k·lists).

    Entry j of list l is at ``place[l, j]``. ``order`` becomes (list, place) of the k worst, the
    worst first; losses are added in that order, as the objective adds them.
    """
    n_lists, k = place.shape
    taken[:] = 0
    total = 0.0
    for j in range(k):
        best, at = 0, place[0, taken[0]]
        for other in range(1, n_lists):
            there = place[other, taken[other]]
            if _comes_before(
                loss[other, there], sample[other, there], loss[best, at], sample[best, at]
            ):
                best, at = other, there
        taken[best] += 1
        order[j, 0], order[j, 1] = best, at
        total += loss[best, at]
    first = sample[order[0, 0], order[0, 1]]
    # Bounds that overflowed can hide every sample: then the mean is −inf and no step is taken.
    return total / k, np.int64(NONE) if first >= SENTINEL else np.int64(first)
