"""Crossings along a feature of the mean of several LMMs' scores.

A sum of piecewise linear functions is linear between the breakpoints of all of them. Members are
held in one array each, with room for the largest: rows that a member has not are +inf and decide
no minimum, units that it has not have heights of −inf and decide no maximum.
"""

from typing import NamedTuple

import numpy as np
from numba import prange

from maxplus._compile.jit import njit
from maxplus.explain._flip_kernels import Room, lowest_line, nearest_change, span, stretch


class Members(NamedTuple):
    """T members' weights in float64, with views of up to M sums and up to H units each."""

    slopes: np.ndarray  # (T, 2M)
    offsets: np.ndarray  # (T, H, 2M)
    W2T: np.ndarray  # (T, C, H)
    directions: np.ndarray  # (T, M, P)


@njit(cache=True)
def _lines_along(p, at, members, values, slopes, n_lines):
    """Fill the lines of each member's units as feature p moves: values, slopes, how many."""
    for t in range(at.shape[0]):
        K = 1
        slopes[t, 0] = 0.0
        values[t, :, 0] = np.inf
        for i in range(at.shape[2]):
            slope = members.slopes[t, i] * members.directions[t, i // 2, p]
            if slope == 0.0:
                for h in range(at.shape[1]):
                    values[t, h, 0] = min(values[t, h, 0], at[t, h, i])
            else:
                slopes[t, K] = slope
                for h in range(at.shape[1]):
                    values[t, h, K] = at[t, h, i]
                K += 1
        n_lines[t] = K


@njit(cache=True)
def _top(g, rate, heights, delta):
    """The unit that gives a score just beyond delta, and up to where no other can.

    Of equal ones the steepest is ahead from there on. A unit is never above the line that it is
    on, so none overtakes before those lines meet.
    """
    best = 0
    for h in range(1, g.size):
        v, top = g[h] + heights[h], g[best] + heights[best]
        if v > top or (v == top and rate[h] > rate[best]):
            best = h
    while True:
        end, then = np.inf, best
        for h in range(g.size):
            if rate[h] > rate[best] and heights[h] > -np.inf:
                gap = g[best] + heights[best] - g[h] - heights[h]
                meet = delta + gap / (rate[h] - rate[best])
                if meet < end:
                    end, then = meet, h
        # So near that no number lies between: the other is ahead already.
        if end > delta:
            return best, end
        best = then


@njit(cache=True)
def _walk(values, slopes, n_lines, W2T, sign, begin, limit, y, lead):
    """The least δ in [begin, limit] beyond which another class's mean score wins by the lead.

    (inf, −1) if none does. A step goes to the nearest end of a line of any member's score, or
    as far as no mean can change by the present gap. O(T·H·(K + C)) per step.
    """
    T, H, C = values.shape[0], values.shape[1], W2T.shape[1]
    speed = 0.0
    signed = np.empty(slopes.shape)
    for t in range(T):
        for k in range(n_lines[t]):
            signed[t, k] = sign * slopes[t, k]
        lowest, highest = span(signed[t, : n_lines[t]])
        speed += (highest - lowest) / T
    g, rate, ends = np.empty(H), np.empty(H), np.empty(H)
    Z, S = np.empty(C), np.empty(C)
    delta = begin
    while delta <= limit and delta < np.inf and speed > 0.0:
        Z[:], S[:], end = 0.0, 0.0, np.inf
        for t in range(T):
            own = signed[t, : n_lines[t]]
            for h in range(H):
                k, g[h], ends[h] = lowest_line(values[t, h, : n_lines[t]], own, delta)
                rate[h] = own[k]
            for d in range(C):
                h, piece_end = _top(g, rate, W2T[t, d], delta)
                end = min(end, piece_end, ends[h])
                Z[d] += (g[h] + W2T[t, d, h]) / T
                S[d] += rate[h] / T
        first, winner, highest = np.inf, -1, -np.inf
        for d in range(C):
            if d == y:
                continue
            highest = max(highest, Z[d])
            ahead, faster = Z[y] + lead - Z[d], S[d] - S[y]
            passed = np.inf
            if faster > 0.0:
                passed = max(0.0, ahead / faster)
            elif ahead < 0.0:
                passed = 0.0
            if passed < first:
                first, winner = passed, d
        if delta + first <= end and first < np.inf:
            return delta + first, winner
        if end == np.inf:
            break
        delta = max(end, delta + (Z[y] + lead - highest) / speed)
    return np.inf, -1


@njit(cache=True)
def all_member_flips(x, v, y, members, room, only_nearest, lead, change, becomes):
    """`_flip_kernels.all_flips` of a row x with each member's views v (T, M); O(P·T·H·M)."""
    T, H, rows = members.offsets.shape
    at = np.empty((T, H, rows))
    for t in range(T):
        for h in range(H):
            for i in range(rows):
                at[t, h, i] = members.slopes[t, i] * v[t, i // 2] + members.offsets[t, h, i]
    values, slopes = np.empty((T, H, rows + 1)), np.empty((T, rows + 1))
    n_lines = np.empty(T, np.int64)
    nearest = np.inf
    change[:], becomes[:] = np.inf, -1
    for p in range(x.size):
        if not room.moves[p]:
            continue
        _lines_along(p, at, members, values, slopes, n_lines)
        for side in range(2):
            begin, end = stretch(x, p, side, room)
            limit = min(end, nearest * room.unit[p]) if only_nearest else end
            sign = 1.0 if side == 0 else -1.0
            delta, d = _walk(values, slopes, n_lines, members.W2T, sign, begin, limit, y, lead)
            if delta <= end:
                change[p, side], becomes[p, side] = delta, d
                nearest = min(nearest, delta / room.unit[p])


@njit(cache=True, parallel=True)
def nearest_member_flips(X, V, y, members, low, high, unit, moves, feature, change, becomes):
    """`_flip_kernels.nearest_flips` of rows X with each member's views V (N, T, M)."""
    for n in prange(X.shape[0]):
        P = X.shape[1]
        deltas, classes = np.empty((P, 2)), np.empty((P, 2), np.int64)
        room = Room(low, high, unit, moves[n])
        all_member_flips(X[n], V[n], y[n], members, room, True, 0.0, deltas, classes)
        feature[n], change[n], becomes[n] = nearest_change(deltas, classes, unit)
