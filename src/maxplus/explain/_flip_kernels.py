"""The nearest change of one feature that lets another class win."""

from typing import NamedTuple

import numpy as np
from numba import njit, prange

# A search along a feature ends here at the latest; most take a few dozen steps.
MAX_STEPS = 2_000
HALVINGS = 60


class Line(NamedTuple):
    """One feature's part in all units, as the feature moves by δ from where it is.

    g_h(δ) = min(A[h] + a·δ, B[h] + b·δ, rest[h]).
    """

    A: np.ndarray
    B: np.ndarray
    rest: np.ndarray
    a: float
    b: float


@njit(cache=True)
def _two_lowest_features(x, weights, lowest, second, feature):
    """Per unit: the lowest value of a feature, whose it is, the lowest of the others; O(P·H)."""
    for h in range(lowest.size):
        m1, m2, f = np.inf, np.inf, -1
        for p in range(x.size):
            v = min(
                weights.W0[2 * p] * x[p] + weights.W1T[h, 2 * p],
                weights.W0[2 * p + 1] * x[p] + weights.W1T[h, 2 * p + 1],
            )
            if v < m1:
                m1, m2, f = v, m1, p
            elif v < m2:
                m2 = v
        lowest[h], second[h], feature[h] = m1, m2, f


@njit(cache=True)
def _gap(line, delta, W2T, y, g):
    """(z_y − the highest other score, that class) with the feature moved by delta; O(H·C)."""
    for h in range(g.size):
        g[h] = min(min(line.A[h] + line.a * delta, line.B[h] + line.b * delta), line.rest[h])
    own, best, other = -np.inf, -np.inf, -1
    for d in range(W2T.shape[0]):
        z = -np.inf
        for h in range(g.size):
            z = max(z, g[h] + W2T[d, h])
        if d == y:
            own = z
        elif z > best:
            best, other = z, d
    return own - best, other


@njit(cache=True)
def _end(line, sign):
    """How far to look: beyond, every unit is on the line that falls most, and no gap changes."""
    a, b = line.a * sign, line.b * sign
    far = 0.0
    for h in range(line.A.size):
        for v, s, w, t in (
            (line.A[h], a, line.B[h], b),
            (line.A[h], a, line.rest[h], 0.0),
            (line.B[h], b, line.rest[h], 0.0),
        ):
            if s != t and np.isfinite(v) and np.isfinite(w):
                far = max(far, (w - v) / (s - t))
    return far


@njit(cache=True)
def _walk(line, sign, limit, W2T, y, tolerance, g):
    """The least δ in [0, limit] from which on another class is ahead, and which; (inf, −1) if none.

    No score falls or rises faster than the lines allow, so a step of gap / (steepest
    rise + steepest fall) cannot pass a change, and what is left of the gap shrinks by a
    constant factor. Where two classes are equal over a stretch, steps double until
    they are not; the way back is halved.
    """
    a, b = line.a * sign, line.b * sign
    speed = max(a, b, 0.0) - min(a, b, 0.0)
    limit = min(limit, _end(line, sign))
    if speed == 0.0:
        return np.inf, -1
    nudge, stalled = tolerance / speed, 1.0
    delta, before = 0.0, 0.0
    for _ in range(MAX_STEPS):
        gap, other = _gap(line, sign * delta, W2T, y, g)
        if gap < 0.0:
            return _way_back(line, sign, before, delta, W2T, y, g), other
        if delta > limit:
            break
        stalled = 2.0 * stalled if gap <= tolerance else 1.0
        before, delta = delta, delta + max(gap / speed, stalled * nudge)
    return np.inf, -1


@njit(cache=True)
def _way_back(line, sign, good, bad, W2T, y, g):
    """Where between good, with the class still ahead, and bad it is overtaken."""
    for _ in range(HALVINGS):
        middle = 0.5 * (good + bad)
        if _gap(line, sign * middle, W2T, y, g)[0] < 0.0:
            bad = middle
        else:
            good = middle
    return bad


@njit(cache=True)
def _flip(x, y, weights, low, high, tolerance):
    """(feature, change, class) of the smallest change of one feature that flips x's class y."""
    H = weights.W1T.shape[0]
    lowest, second, g = np.empty(H), np.empty(H), np.empty(H)
    feature = np.empty(H, np.int64)
    _two_lowest_features(x, weights, lowest, second, feature)
    A, B, rest = np.empty(H), np.empty(H), np.empty(H)
    best, best_p, best_d = np.inf, -1, -1
    for p in range(x.size):
        a, b = weights.W0[2 * p], weights.W0[2 * p + 1]
        for h in range(H):
            A[h] = a * x[p] + weights.W1T[h, 2 * p]
            B[h] = b * x[p] + weights.W1T[h, 2 * p + 1]
            rest[h] = second[h] if feature[h] == p else lowest[h]
        line = Line(A, B, rest, a, b)
        for sign, room in ((1.0, high[p] - x[p]), (-1.0, x[p] - low[p])):
            # No need to look farther than what another feature has achieved already.
            delta, d = _walk(line, sign, min(room, abs(best)), weights.W2T, y, tolerance, g)
            if delta <= room and delta < abs(best):
                best, best_p, best_d = sign * delta, p, d
    return best_p, best, best_d


@njit(cache=True, parallel=True)
def flips(X, y, weights, low, high, tolerance, feature, change, becomes):
    """Fill feature, change and becomes for every row; O(P·H·C) per step of a search."""
    for n in prange(X.shape[0]):
        feature[n], change[n], becomes[n] = _flip(X[n], y[n], weights, low, high, tolerance[n])
