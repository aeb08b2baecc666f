"""The k worst samples found so far: a heap for each worker, and one ranking in the end.

When may a worker stop? When its largest bound is below k losses that were found: the k
worst of one worker, or the k / S worst of each of S workers. So everybody publishes two
thresholds, where all threads and, if memory is shared, all ranks see them; with k = 1 both are
the worst loss found.
"""

import numpy as np

from maxplus._compile.jit import inner
from maxplus.training.engines.sparse._state import NOBODY, NONE
from maxplus.training.engines.sparse._team import LINE, atomic_load, atomic_store


@inner
def comes_before(loss, sample, other_loss, other_sample):
    """Whether a sample is worse than another; the lower one among equals."""
    return loss > other_loss or (loss == other_loss and sample < other_sample)


@inner
def _is_worse(worst, w, place, other):
    return comes_before(
        worst.loss[w, place], worst.sample[w, place], worst.loss[w, other], worst.sample[w, other]
    )


@inner
def _sink(worst, w, size):
    """The place on top of the heap goes down, below all that are milder; O(log k)."""
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
    """The least of a heap of losses gives way to a larger one; O(log k)."""
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
def forget_found(worst, w):
    """Worker w begins: its places stand for nobody, who is milder than anybody; O(k)."""
    for place in range(worst.loss.shape[1]):
        worst.loss[w, place], worst.sample[w, place] = -np.inf, NOBODY
    for at in range(worst.quota.shape[1]):
        worst.quota[w, at] = -np.inf


@inner
def offer(worst, w, t, loss, n, c, q, z):
    """Worker w has found the loss and scores of sample n, in lane q of chunk c; O(C + log k).

    The mildest of its k worst gives way to a worse one.
    """
    # A score that overflowed is worse than any number.
    loss = loss if loss == loss else np.inf
    threshold, seat = worst.threshold[t & 1], LINE * (worst.first_seat + w)
    if loss > worst.quota[w, 0]:
        _replace_least(worst.quota[w], loss)
        atomic_store(threshold, seat + 1, worst.quota[w, 0])
    place = worst.heap[w, 0]
    if not comes_before(loss, n, worst.loss[w, place], worst.sample[w, place]):
        return
    worst.loss[w, place], worst.sample[w, place] = loss, n
    worst.seat[w, place, 0], worst.seat[w, place, 1] = c, q
    for d in range(z.size):
        worst.scores[w, place, d] = z[d]
    _sink(worst, w, worst.heap.shape[1])
    atomic_store(threshold, seat, worst.loss[w, worst.heap[w, 0]])


@inner
def forget_thresholds(worst, t):
    """Before iteration t: what this rank's workers have published is forgotten; O(W).

    It is called one iteration ahead. Then nobody reads the thresholds of t − 2 any more, which
    are in the same place, and everybody meets once more before anybody reads those of t.
    """
    threshold = worst.threshold[t & 1]
    for w in range(worst.heap.shape[0]):
        seat = LINE * (worst.first_seat + w)
        atomic_store(threshold, seat, -np.inf)
        atomic_store(threshold, seat + 1, -np.inf)


@inner
def threshold_found(worst, t):
    """A loss that k samples are known to reach in iteration t, whoever has found them; O(S)."""
    threshold = worst.threshold[t & 1]
    alone, each = -np.inf, np.inf
    for seat in range(0, threshold.size, LINE):
        alone = max(alone, atomic_load(threshold, seat))
        each = min(each, atomic_load(threshold, seat + 1))
    return max(alone, each)


@inner
def sort_found(worst, w):
    """Put worker w's samples in order, the worst first; O(k·log k)."""
    heap = worst.heap[w]
    for last in range(heap.size - 1, 0, -1):
        heap[0], heap[last] = heap[last], heap[0]
        _sink(worst, w, last)


@inner
def rank_found(worst):
    """Rank the k worst of all workers' samples; (their mean loss, the worst one); O(k·W).

    Losses are added from the worst on: the order in which the objective adds them.
    """
    W, k = worst.loss.shape
    worst.taken[:] = 0
    total = 0.0
    for rank in range(k):
        finder, place = 0, worst.heap[0, worst.taken[0]]
        for w in range(1, W):
            other = worst.heap[w, worst.taken[w]]
            if comes_before(
                worst.loss[w, other], worst.sample[w, other],
                worst.loss[finder, place], worst.sample[finder, place],
            ):  # fmt: skip
                finder, place = w, other
        worst.taken[finder] += 1
        worst.rank[rank, 0], worst.rank[rank, 1] = finder, place
        total += worst.loss[finder, place]
    first = worst.sample[worst.rank[0, 0], worst.rank[0, 1]]
    # Bounds that overflowed can hide every sample: then the mean is −inf and the step is not taken.
    return total / k, np.int64(NONE) if first == NOBODY else first
