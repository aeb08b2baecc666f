"""The k worst samples found so far: a heap for each worker, and one ranking in the end.

A worker cannot stop before it has k samples, or before somebody else has k that are
worse than any it has left. So its threshold is the loss of the mildest of its k worst;
with k = 1 that is simply the worst loss found.
"""

import numpy as np

from maxplus._jit import inner
from maxplus.training.engines.sparse._state import NONE
from maxplus.training.engines.sparse._team import LINE, atomic_store


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
def _sink(worst, w, at, size):
    """What stands at position ``at`` of the heap goes down, below all milder ones; O(log k)."""
    heap = worst.heap[w]
    place = heap[at]
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
def _make_heap(worst, w, size):
    """The mildest sample on top, and of any two on a branch the milder one above; O(k)."""
    for at in range(size // 2 - 1, -1, -1):
        _sink(worst, w, at, size)


@inner
def offer(worst, w, loss, n, c, q, z):
    """Worker w has found the loss and scores of sample n, in lane q of chunk c; O(C + log k).

    The first k all stay; then the mildest one gives way to a worse one.
    """
    k, found = worst.loss.shape[1], worst.n[LINE * w]
    # A score that overflowed is worse than any number.
    loss = loss if loss == loss else np.inf
    place = found
    if found == k:
        place = worst.heap[w, 0]
        if not comes_before(loss, n, worst.loss[w, place], worst.sample[w, place]):
            return
    else:
        worst.heap[w, place] = place
        worst.n[LINE * w] = found + 1
    worst.loss[w, place], worst.sample[w, place] = loss, n
    worst.seat[w, place, 0], worst.seat[w, place, 1] = c, q
    for d in range(z.size):
        worst.scores[w, place, d] = z[d]
    if found == k:
        _sink(worst, w, 0, k)
    elif found + 1 == k:
        _make_heap(worst, w, k)
    else:
        return
    atomic_store(worst.threshold, LINE * w, worst.loss[w, worst.heap[w, 0]])


@inner
def sort_found(worst, w):
    """Put worker w's samples in order, the worst first; O(k·log k)."""
    heap, found = worst.heap[w], worst.n[LINE * w]
    if found < heap.size:
        _make_heap(worst, w, found)
    for last in range(found - 1, 0, -1):
        heap[0], heap[last] = heap[last], heap[0]
        _sink(worst, w, 0, last)


@inner
def rank_found(worst):
    """Rank the k worst of all workers' samples; (their mean loss, the worst one); O(k·W).

    Losses are added from the worst on: the order in which the objective adds them.
    """
    W, k = worst.loss.shape
    worst.taken[:] = 0
    total = 0.0
    for rank in range(k):
        finder, place = NONE, NONE
        for w in range(W):
            if worst.taken[w] < worst.n[LINE * w]:
                mine = worst.heap[w, worst.taken[w]]
                if finder == NONE or comes_before(
                    worst.loss[w, mine], worst.sample[w, mine],
                    worst.loss[finder, place], worst.sample[finder, place],
                ):  # fmt: skip
                    finder, place = w, mine
        if finder == NONE:  # bounds that overflowed hide samples
            return np.nan, np.int64(NONE)
        worst.taken[finder] += 1
        worst.rank[rank, 0], worst.rank[rank, 1] = finder, place
        total += worst.loss[finder, place]
    return total / k, worst.sample[worst.rank[0, 0], worst.rank[0, 1]]
