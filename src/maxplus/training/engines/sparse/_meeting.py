"""Ranks meet in each iteration: who has the worst samples, and what a step on them moves.

Every rank has searched its own samples. First all hear of the k worst of each; everybody ranks
them alike, ties by the numbers that samples have among all. Then whoever has one of the k worst
of all tells its path, and every rank takes the same step on the same weights. With k = 1 everybody
tells the path of its own worst sample at once: it would wait in that time anyway.
"""

import math

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from maxplus._compile.jit import inner
from maxplus.training.engines.sparse._state import NOBODY, NONE
from maxplus.training.engines.sparse._worst import comes_before
from maxplus.training.engines.sparse.sizes import FOUND, PATH

# What the function that carries messages is asked for.
TELL_FOUND, TELL_PATHS = 0, 1


@intrinsic
def call_python(typingctx, address, argument):
    """The answer of a function at an address, as ctypes makes them of Python's."""

    def codegen(context, builder, signature, args):
        kind = ir.FunctionType(ir.IntType(64), [ir.IntType(64)])
        return builder.call(builder.inttoptr(args[0], kind.as_pointer()), [args[1]])

    return types.int64(types.int64, types.int64), codegen


@inner
def write_path(x, label, grad, path):
    """All that a step on a sample takes, whose scores and winners are in ``grad``; O(C)."""
    path[0] = label
    for d in range(grad.z.size):
        at = 1 + PATH * d
        path[at], path[at + 1], path[at + 2] = grad.z[d], grad.h_star[d], grad.i_star[d]
        path[at + 3] = x[grad.i_star[d] // 2]


@inner
def read_path(path, grad, x):
    """The other way round; returns the label. ``x`` is the sample as far as winners read it."""
    for d in range(grad.z.size):
        at = 1 + PATH * d
        grad.z[d], grad.h_star[d] = path[at], np.int64(path[at + 1])
        i = np.int64(path[at + 2])
        grad.i_star[d] = i
        x[i // 2] = path[at + 3]
    return np.int64(path[0])


@inner
def tell_found(meeting, worst):
    """Tell the k worst samples of this rank; False if messages cannot be carried."""
    for rank in range(worst.rank.shape[0]):
        finder, place = worst.rank[rank, 0], worst.rank[rank, 1]
        n, at = worst.sample[finder, place], FOUND * rank
        meeting.told[at] = worst.loss[finder, place]
        # Nobody's number is larger than anybody's.
        meeting.told[at + 1] = np.float64(NOBODY if n == NOBODY else meeting.first + n)
    return call_python(meeting.address, TELL_FOUND) == 0


@inner
def tell_overflow(meeting):
    """Tell that this rank cannot search any more."""
    meeting.told[0] = np.nan
    return call_python(meeting.address, TELL_FOUND) == 0


@inner
def rank_heard(meeting):
    """Rank the k worst samples of all ranks; (their mean loss, the worst one); O(k·T).

    As `rank_found` does for one rank. NaN if some rank could not search.
    """
    T, k = meeting.taken.size, meeting.rank.shape[0]
    for r in range(T):
        meeting.taken[r] = 0
        if math.isnan(meeting.heard[r, 0]):
            return np.nan, np.int64(NONE)
    total = 0.0
    for rank in range(k):
        best, at = 0, FOUND * meeting.taken[0]
        loss, sample = meeting.heard[0, at], meeting.heard[0, at + 1]
        for r in range(1, T):
            at = FOUND * meeting.taken[r]
            if comes_before(meeting.heard[r, at], meeting.heard[r, at + 1], loss, sample):
                best, loss, sample = r, meeting.heard[r, at], meeting.heard[r, at + 1]
        meeting.rank[rank, 0], meeting.rank[rank, 1] = best, meeting.taken[best]
        meeting.taken[best] += 1
        total += loss
    at = FOUND * meeting.rank[0, 1]
    first = meeting.heard[meeting.rank[0, 0], at + 1]
    return total / k, np.int64(NONE) if first >= np.float64(NOBODY) else np.int64(first)
