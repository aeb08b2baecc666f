"""Softmax cross-entropy, shared by models and engines.

Losses and errors of float32 scores are computed in float64. Models and engines use the same
functions, so that equal scores have bit-identical losses.
"""

import math

import numpy as np
from numba import prange
from scipy import special

from maxplus._compile.jit import njit

# A sample with a smaller loss is classified correctly: its label has a probability above 1/2.
LOG2 = math.log(2.0)

# Minimum number of scores for which a parallel loop is faster.
PARALLEL_FROM = 50_000


@njit(cache=True)
def sample_loss(z, y):
    """Return logsumexp(z) − z_y ≥ 0 in float64; O(C).

    The largest score is subtracted to avoid overflow, and log1p is applied to the sum of the other
    exponentials, so that small losses are accurate.
    """
    top = 0
    for d in range(1, z.size):
        if z[d] > z[top]:
            top = d
    peak = np.float64(z[top])
    rest = 0.0
    for d in range(z.size):
        if d != top:
            rest += math.exp(np.float64(z[d]) - peak)
    return math.log1p(rest) + (peak - np.float64(z[y]))


@njit(cache=True)
def softmax_error(z, y, e):
    """Compute e_d = ŷ_d − 1{d = y}, the derivative of the loss with respect to z_d; O(C).

    e_y is the negative sum of the other errors, to avoid cancellation.
    """
    top = 0
    for d in range(1, z.size):
        if z[d] > z[top]:
            top = d
    peak = np.float64(z[top])
    total = 0.0
    for d in range(z.size):
        e[d] = math.exp(np.float64(z[d]) - peak)
        total += e[d]
    others = 0.0
    for d in range(z.size):
        e[d] /= total
        if d != y:
            others += e[d]
    e[y] = -others


@njit(cache=True, parallel=True)
def _losses(Z, y, out):
    for n in prange(Z.shape[0]):
        out[n] = sample_loss(Z[n], y[n])


def losses(Z: np.ndarray, y: np.ndarray, out: np.ndarray) -> None:
    """Fill ``out`` with `sample_loss` of each row, in parallel if there are many; O(N·C)."""
    (_losses if Z.size >= PARALLEL_FROM else _losses.serial)(Z, y, out)


def softmax(Z: np.ndarray) -> np.ndarray:
    """Return the probabilities (N, C) of scores (N, C), in the float type of the scores."""
    return np.ascontiguousarray(softmax_by_class(Z).T)


def softmax_by_class(Z: np.ndarray) -> np.ndarray:
    """Return the probabilities (C, N) of scores (N, C).

    The classes are the first axis, because NumPy reductions along a short last axis are several
    times slower. The exponentials are added in a loop, because ``numpy.sum`` adds those of a
    single sample in a different order.
    """
    P = np.ascontiguousarray(Z.T)
    P = P - P.max(axis=0)
    np.exp(P, out=P)
    total = P[0].copy()
    for exponentials in P[1:]:
        total += exponentials
    P /= total
    return P


def log_softmax(Z: np.ndarray) -> np.ndarray:
    """Return the logarithm of `softmax`, finite for finite scores."""
    return special.log_softmax(Z, axis=1)
