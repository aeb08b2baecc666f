"""The k worst samples: a heap for each worker, their order, and messages between ranks.

A worker may stop when its largest bound is below k losses that were found: the k worst of one
worker, or the k / S worst of each of S workers. So each worker publishes two thresholds, which are
visible to all threads and to all ranks that share memory. With k = 1 both are the worst loss that
the worker has found.

Every rank searches its samples. First, all ranks receive the k worst samples of each rank and
order them; ties are broken by the numbers of the samples in the whole training set. Then the ranks
that have one of the k worst samples send its path, and all ranks take the same step. With k = 1,
each rank sends the path of its worst sample in the first message. A single process sends no
messages.
"""

import math

import numpy as np

from maxplus._compile.intrinsics import atomic_load, atomic_store, call_python
from maxplus._compile.jit import inner
from maxplus.training.engines.sparse._state import LINE, NONE, PATH, SENTINEL

# Messages that kernels request from `ExchangeCallback`.
WORST, PATHS = 0, 1

# -- samples of one rank -----------------------------------------------------------------------


@inner
def _comes_before(loss, sample, other_loss, other_sample):
    """Return whether a sample is worse than another; ties are broken by the lower number."""
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
def _replace_smallest(losses, loss):
    """Replace the smallest loss of a heap by a larger one; O(log k)."""
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
def reset_heaps(worst, w):
    """Reset the heaps of worker w to sentinel entries, which come after every sample; O(k)."""
    for place in range(worst.loss.shape[1]):
        worst.loss[w, place], worst.sample[w, place] = -np.inf, SENTINEL
    for at in range(worst.quota.shape[1]):
        worst.quota[w, at] = -np.inf


@inner
def offer(worst, w, t, loss, n, c, q, z):
    """Add sample n, in lane q of chunk c, to the k worst of worker w; O(C + log k).

    The sample replaces the last of these if it is worse.
    """
    # NaN, after an overflow, counts as infinite.
    loss = loss if loss == loss else np.inf
    threshold, slot = worst.threshold[t & 1], LINE * (worst.first_slot + w)
    if loss > worst.quota[w, 0]:
        _replace_smallest(worst.quota[w], loss)
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

    It is called one iteration ahead: the thresholds of t − 2, which have the same address, are no
    longer read, and all ranks synchronise once before the thresholds of t are read.
    """
    threshold = worst.threshold[t & 1]
    for w in range(worst.heap.shape[0]):
        slot = LINE * (worst.first_slot + w)
        atomic_store(threshold, slot, -np.inf)
        atomic_store(threshold, slot + 1, -np.inf)


@inner
def search_threshold(worst, t):
    """Return a loss that at least k samples found in iteration t reach; O(S)."""
    threshold = worst.threshold[t & 1]
    of_one, of_each = -np.inf, np.inf
    for slot in range(0, threshold.size, LINE):
        of_one = max(of_one, atomic_load(threshold, slot))
        of_each = min(of_each, atomic_load(threshold, slot + 1))
    return max(of_one, of_each)


@inner
def sort_heap(worst, w):
    """Sort the samples of worker w by decreasing loss; O(k·log k)."""
    heap = worst.heap[w]
    for last in range(heap.size - 1, 0, -1):
        heap[0], heap[last] = heap[last], heap[0]
        _sift_down(worst, w, last)


@inner
def merge_sorted(loss, sample, place, n_ignored, taken, order):
    """Find the k worst entries of several sorted lists; O(k·lists).

    Return (the mean loss of all but the first ``n_ignored``, the worst sample of these). Entry j of
    list l is at ``place[l, j]``. ``order`` becomes (list, place) of the k worst, the worst first;
    losses are added in that order, as the objective adds them.
    """
    n_lists, k = place.shape
    taken[:] = 0
    total = 0.0
    for j in range(k):
        best, at = 0, place[0, taken[0]]
        for other in range(1, n_lists):
            entry = place[other, taken[other]]
            if _comes_before(
                loss[other, entry], sample[other, entry], loss[best, at], sample[best, at]
            ):
                best, at = other, entry
        taken[best] += 1
        order[j, 0], order[j, 1] = best, at
        # A loss that is not finite is not ignored.
        if j >= n_ignored or not math.isfinite(loss[best, at]):
            total += loss[best, at]
    first = sample[order[n_ignored, 0], order[n_ignored, 1]]
    # If bounds have overflowed, it is possible that no sample is found: then the mean is −inf.
    return total / (k - n_ignored), np.int64(NONE) if first >= SENTINEL else np.int64(first)


# -- messages between ranks --------------------------------------------------------------------


@inner
def write_path(x, label, grad, path):
    """Write the path of a sample, whose scores and winners are in ``grad``, to a message; O(C)."""
    path[0] = label
    for d in range(grad.z.size):
        at = 1 + PATH * d
        path[at], path[at + 1], path[at + 2] = grad.z[d], grad.h_star[d], grad.i_star[d]
        path[at + 3] = x[grad.i_star[d] // 2]


@inner
def read_path(path, grad, x):
    """Read a path into ``grad`` and the features of ``x`` that it uses; return the label; O(C)."""
    for d in range(grad.z.size):
        at = 1 + PATH * d
        grad.z[d], grad.h_star[d] = path[at], np.int64(path[at + 1])
        i = np.int64(path[at + 2])
        grad.i_star[d] = i
        x[i // 2] = path[at + 3]
    return np.int64(path[0])


@inner
def exchange_worst(exchange, worst):
    """Exchange the k worst samples of each rank; return False if communication fails."""
    k = worst.order.shape[0]
    for j in range(k):
        worker, place = worst.order[j, 0], worst.order[j, 1]
        n = worst.sample[worker, place]
        exchange.sent[j] = worst.loss[worker, place]
        exchange.sent[k + j] = np.float64(SENTINEL if n == SENTINEL else exchange.first_sample + n)
    return call_python(exchange.address, WORST) == 0


@inner
def exchange_paths(exchange):
    """Exchange the paths of the k worst samples of all ranks; return False after a failure."""
    return call_python(exchange.address, PATHS) == 0


@inner
def send_overflow(exchange):
    """Inform the other ranks that the bounds of this rank have overflowed."""
    exchange.sent[0] = np.nan
    return call_python(exchange.address, WORST) == 0


@inner
def order_received(exchange, n_ignored):
    """Order the k worst samples of all ranks as `merge_sorted` does; O(k·T).

    The loss is NaN if the bounds of a rank have overflowed.
    """
    k = exchange.order.shape[0]
    for r in range(exchange.taken.size):
        if math.isnan(exchange.received[r, 0]):
            return np.nan, np.int64(NONE)
    loss, sample = exchange.received[:, :k], exchange.received[:, k : 2 * k]
    return merge_sorted(loss, sample, exchange.place, n_ignored, exchange.taken, exchange.order)
