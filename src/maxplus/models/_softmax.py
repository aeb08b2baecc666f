"""Softmax cross-entropy, shared by models and engines.

Scores may be float32; losses and errors are always computed in float64, so
that two engines with equal scores have equal losses to the last bit.
"""

import math

import numpy as np
from numba import prange
from scipy import special

from maxplus._compile.jit import njit

# A sample whose loss is below this is classified correctly: its label has more than half.
LOG2 = math.log(2.0)

# Below this many scores the losses are done before a second thread has woken up.
PARALLEL_FROM = 50_000


@njit(cache=True)
def sample_loss(z, y):
    """logsumexp(z) − z_y ≥ 0 in float64; O(C).

    The largest score is taken out of the sum, so nothing overflows, and the
    sum of the others goes through log1p, so small losses keep their digits.
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
    """e_d = ŷ_d − 1{d = y}, the derivative of the loss by z_d; O(C).

    e_y is minus the sum of the others, not a difference of nearly equal numbers.
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
    """Fill ``out`` with `sample_loss` of each row; O(N·C), parallel where that pays."""
    (_losses if Z.size >= PARALLEL_FROM else _losses.serial)(Z, y, out)


def softmax(Z: np.ndarray) -> np.ndarray:
    """Return rows of probabilities, in the float type of the scores."""
    return np.ascontiguousarray(softmax_by_class(Z).T)


def softmax_by_class(Z: np.ndarray) -> np.ndarray:
    """Return the probabilities (C, N) of scores (N, C).

    NumPy takes several times as long along rows of a few numbers as it takes across them. It adds
    in another order where there is a single row, which would be another sum: classes are added one
    by one.
    """
    P = np.ascontiguousarray(Z.T)
    P = P - P.max(axis=0)
    np.exp(P, out=P)
    total = P[0].copy()
    for own in P[1:]:
        total += own
    P /= total
    return P


def log_softmax(Z: np.ndarray) -> np.ndarray:
    """Return the logarithm of `softmax`, finite wherever the scores are."""
    return special.log_softmax(Z, axis=1)
