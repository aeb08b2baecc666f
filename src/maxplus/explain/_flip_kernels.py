"""The nearest change of one feature that lets another class win.

Along a feature every unit is a minimum of lines, and every score a maximum of units. Without
directions a unit has three lines, of two rows and of all other features, and `_walk` holds
their slopes in registers. With directions all views that a feature is in move together, a
unit has as many lines as those have rows, and `_walk_views` takes any number.
"""

from typing import NamedTuple

import numpy as np
from numba import prange

from maxplus._compile.jit import njit

# From so many (row, feature, unit) on, a second thread is worth waking: a tenth of a second.
PARALLEL_FROM = 1_000_000
# Slopes that a unit can have along one feature: of its two rows, and none.
N_SLOPES = 3


class Units(NamedTuple):
    """An LMM's weights, in float64: its two slopes and offsets for each view, its heights."""

    slopes: np.ndarray  # (M, 2)
    offsets: np.ndarray  # (H, M, 2)
    W2T: np.ndarray  # (C, H)


class Room(NamedTuple):
    """What features may do: their limits, the units of distances, and which of them move."""

    low: np.ndarray  # (P,)
    high: np.ndarray  # (P,)
    unit: np.ndarray  # (P,)
    moves: np.ndarray  # (P,) of bool


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
def span(values):
    """The least and the largest number: as loops, because Numba's own take long to compile."""
    low, high = values[0], values[0]
    for k in range(1, values.size):
        low, high = min(low, values[k]), max(high, values[k])
    return low, high


@njit(cache=True)
def _two_lowest_features(x, units, lowest, second, feature):
    """Per unit: the lowest value of a feature, whose it is, the lowest of the others; O(P·H)."""
    for h in range(lowest.size):
        m1, m2, f = np.inf, np.inf, -1
        for p in range(x.size):
            v = min(
                units.slopes[p, 0] * x[p] + units.offsets[h, p, 0],
                units.slopes[p, 1] * x[p] + units.offsets[h, p, 1],
            )
            if v < m1:
                m1, m2, f = v, m1, p
            elif v < m2:
                m2 = v
        lowest[h], second[h], feature[h] = m1, m2, f


@njit(cache=True)
def _piece(line, slopes, h, delta, sign):
    """The line that unit h is on just beyond delta: (its number, its value, where it ends).

    Among equal lines the one that falls most is the minimum from there on. It ends where
    a line that falls more comes down to it.
    """
    at = (line.A[h] + line.a * sign * delta, line.B[h] + line.b * sign * delta, line.rest[h])
    k = 0
    for j in range(1, N_SLOPES):
        if at[j] < at[k] or (at[j] == at[k] and slopes[j] < slopes[k]):
            k = j
    while True:
        end, then = np.inf, k
        for j in range(N_SLOPES):
            if slopes[j] < slopes[k] and at[j] < np.inf:
                meet = delta + (at[j] - at[k]) / (slopes[k] - slopes[j])
                if meet < end:
                    end, then = meet, j
        # So near that no number lies between: the unit is on the next line already.
        if end > delta:
            return k, at[k], end
        k = then


@njit(cache=True)
def _overtaken(own, other, slopes):
    """The least t ≥ 0 beyond which a line of ``other`` is above all of ``own``, and which line.

    Line k has the value own[k] or other[k] at t = 0 and the slope slopes[k].
    """
    first, which = np.inf, -1
    for j in range(len(slopes)):
        low, high = 0.0, np.inf
        for k in range(len(slopes)):
            ahead = own[k] - other[j]
            faster = slopes[j] - slopes[k]
            if faster > 0.0:
                low = max(low, ahead / faster)
            elif faster < 0.0:
                high = min(high, ahead / faster)
            elif ahead >= 0.0:
                high = -1.0
        if other[j] > -np.inf and low < high and low < first:
            first, which = low, j
    return first, which


@njit(cache=True)
def stretch(x, p, side, room):
    """How far feature p may rise (side 0) or fall: at least, where x is outside, and at most."""
    if side == 0:
        return max(0.0, room.low[p] - x[p]), room.high[p] - x[p]
    return max(0.0, x[p] - room.high[p]), x[p] - room.low[p]


@njit(cache=True)
def _walk(line, sign, begin, limit, W2T, y, lead):
    """The least δ in [begin, limit] beyond which another class wins by the lead, and which.

    (inf, −1) if none does.
    Up to the nearest end of a unit's line every score is the highest of three lines, one
    for each slope, so that crossings there are exact. A step goes to that end, or as
    far as no score can change by the present gap, if that is farther. O(H·C) per step.
    """
    slopes = (sign * line.a, sign * line.b, 0.0)
    speed = max(slopes) - min(slopes)
    own, other = np.empty(N_SLOPES), np.empty(N_SLOPES)
    winner = np.empty(N_SLOPES, np.int64)
    delta = begin
    while delta <= limit and delta < np.inf and speed > 0.0:
        own[:], other[:] = -np.inf, -np.inf
        end = np.inf
        for h in range(line.A.size):
            k, value, unit_end = _piece(line, slopes, h, delta, sign)
            end = min(end, unit_end)
            own[k] = max(own[k], value + W2T[y, h])
            for d in range(W2T.shape[0]):
                if d != y and value + W2T[d, h] > other[k]:
                    other[k], winner[k] = value + W2T[d, h], d
        for k in range(N_SLOPES):
            own[k] += lead
        t, j = _overtaken(own, other, slopes)
        if delta + t <= end and t < np.inf:
            return delta + t, winner[j]
        if end == np.inf:
            break
        delta = max(end, delta + (span(own)[1] - span(other)[1]) / speed)
    return np.inf, -1


@njit(cache=True)
def _line(x, p, units, lowest, second, feature, A, B, rest):
    """Feature p's part in all units, in the arrays given; O(H)."""
    a, b = units.slopes[p, 0], units.slopes[p, 1]
    for h in range(A.size):
        A[h] = a * x[p] + units.offsets[h, p, 0]
        B[h] = b * x[p] + units.offsets[h, p, 1]
        rest[h] = second[h] if feature[h] == p else lowest[h]
    return Line(A, B, rest, a, b)


@njit(cache=True)
def all_flips(x, y, units, room, only_nearest, lead, change, becomes):
    """Fill change and becomes (P, 2): how far each feature must rise, or fall, to flip x's class.

    Infinite where it cannot; another class has to win by the lead. With ``only_nearest``, what
    is farther than the nearest found so far, in units, is not looked for. O(P·H·C) and as many
    steps.
    """
    H = units.offsets.shape[0]
    lowest, second, feature = np.empty(H), np.empty(H), np.empty(H, np.int64)
    _two_lowest_features(x, units, lowest, second, feature)
    A, B, rest = np.empty(H), np.empty(H), np.empty(H)
    nearest = np.inf
    change[:], becomes[:] = np.inf, -1
    for p in range(x.size):
        if not room.moves[p]:
            continue
        line = _line(x, p, units, lowest, second, feature, A, B, rest)
        for side in range(2):
            begin, end = stretch(x, p, side, room)
            limit = min(end, nearest * room.unit[p]) if only_nearest else end
            sign = 1.0 if side == 0 else -1.0
            delta, d = _walk(line, sign, begin, limit, units.W2T, y, lead)
            if delta <= end:
                change[p, side], becomes[p, side] = delta, d
                nearest = min(nearest, delta / room.unit[p])


@njit(cache=True)
def nearest_change(deltas, classes, unit):
    """The feature, signed change and class of the least of all changes (P, 2), in units."""
    feature, change, becomes, least = -1, np.inf, -1, np.inf
    for p in range(deltas.shape[0]):
        for side in range(2):
            if deltas[p, side] / unit[p] < least:
                least = deltas[p, side] / unit[p]
                feature, becomes = p, classes[p, side]
                change = deltas[p, side] if side == 0 else -deltas[p, side]
    return feature, change, becomes


@njit(cache=True, parallel=True)
def nearest_flips(X, y, units, low, high, unit, moves, feature, change, becomes):
    """Fill, for every row, the feature, signed change and class of the nearest flip, or −1.

    Of row n the features moves[n] move.
    """
    for n in prange(X.shape[0]):
        P = X.shape[1]
        deltas, classes = np.empty((P, 2)), np.empty((P, 2), np.int64)
        room = Room(low, high, unit, moves[n])
        all_flips(X[n], y[n], units, room, True, 0.0, deltas, classes)
        feature[n], change[n], becomes[n] = nearest_change(deltas, classes, unit)


@njit(cache=True)
def _lines_along(p, at, units, directions, values, slopes):
    """Fill values (H, K) and slopes (K,): the lines of each unit as feature p moves; K.

    Row i of view m is at[h, i] now and has the slope W0[i]·D[m, p]. Line 0 is the lowest of
    all rows that stay where they are.
    """
    K = 1
    slopes[0] = 0.0
    values[:, 0] = np.inf
    for i in range(at.shape[1]):
        slope = units.slopes[i // 2, i % 2] * directions[i // 2, p]
        if slope == 0.0:
            for h in range(at.shape[0]):
                values[h, 0] = min(values[h, 0], at[h, i])
        else:
            slopes[K] = slope
            for h in range(at.shape[0]):
                values[h, K] = at[h, i]
            K += 1
    return K


@njit(cache=True)
def lowest_line(values, slopes, delta):
    """`_piece` for any number of lines, values[k] + slopes[k]·δ; O(K)."""
    k, lowest = 0, values[0] + slopes[0] * delta
    for j in range(1, slopes.size):
        v = values[j] + slopes[j] * delta
        if v < lowest or (v == lowest and slopes[j] < slopes[k]):
            k, lowest = j, v
    while True:
        end, then = np.inf, k
        for j in range(slopes.size):
            if slopes[j] < slopes[k]:
                v = values[j] + slopes[j] * delta
                meet = delta + (v - lowest) / (slopes[k] - slopes[j])
                if meet < end:
                    end, then = meet, j
        if end > delta:
            return k, lowest, end
        k, lowest = then, values[then] + slopes[then] * delta


@njit(cache=True)
def _walk_views(values, slopes, begin, limit, own_height, other_height, other_class, lead):
    """`_walk` where unit h is min_k (values[h, k] + slopes[k]·δ).

    A unit is concave: it is never above the line that it is on. So, as long as the highest
    line of each slope has not ended, no end of a lower one with that slope matters: only ends
    of the highest are stepped to. O(H·K + K²) per step.
    """
    K = slopes.size
    lowest, highest = span(slopes)
    speed = highest - lowest
    own, other = np.empty(K), np.empty(K)
    own_end, other_end = np.empty(K), np.empty(K)
    winner = np.empty(K, np.int64)
    delta = begin
    while delta <= limit and delta < np.inf and speed > 0.0:
        own[:], other[:] = -np.inf, -np.inf
        own_end[:], other_end[:] = np.inf, np.inf
        for h in range(values.shape[0]):
            k, value, unit_end = lowest_line(values[h], slopes, delta)
            v = value + own_height[h]
            if v > own[k]:
                own[k], own_end[k] = v, unit_end
            v = value + other_height[h]
            if v > other[k]:
                other[k], other_end[k], winner[k] = v, unit_end, other_class[h]
        for k in range(K):
            own[k] += lead
        t, j = _overtaken(own, other, slopes)
        end = min(span(own_end)[0], span(other_end)[0])
        if delta + t <= end and t < np.inf:
            return delta + t, winner[j]
        if end == np.inf:
            break
        delta = max(end, delta + (span(own)[1] - span(other)[1]) / speed)
    return np.inf, -1


@njit(cache=True)
def all_view_flips(x, v, y, units, directions, room, only_nearest, lead, change, becomes):
    """`all_flips` of a row x whose views are v; O(P·H·M) and O(H·K) per step."""
    H, M = units.offsets.shape[0], v.size
    at = np.empty((H, 2 * M))
    other_height, other_class = np.empty(H), np.empty(H, np.int64)
    other_height[:] = -np.inf
    for h in range(H):
        for i in range(2 * M):
            at[h, i] = units.slopes[i // 2, i % 2] * v[i // 2] + units.offsets[h, i // 2, i % 2]
        for d in range(units.W2T.shape[0]):
            if d != y and units.W2T[d, h] > other_height[h]:
                other_height[h], other_class[h] = units.W2T[d, h], d
    values, slopes, signed = np.empty((H, 2 * M + 1)), np.empty(2 * M + 1), np.empty(2 * M + 1)
    nearest = np.inf
    change[:], becomes[:] = np.inf, -1
    for p in range(x.size):
        if not room.moves[p]:
            continue
        K = _lines_along(p, at, units, directions, values, slopes)
        for side in range(2):
            begin, end = stretch(x, p, side, room)
            limit = min(end, nearest * room.unit[p]) if only_nearest else end
            for k in range(K):
                signed[k] = slopes[k] if side == 0 else -slopes[k]
            delta, d = _walk_views(
                values[:, :K], signed[:K], begin, limit, units.W2T[y], other_height, other_class,
                lead,
            )  # fmt: skip
            if delta <= end:
                change[p, side], becomes[p, side] = delta, d
                nearest = min(nearest, delta / room.unit[p])


@njit(cache=True, parallel=True)
def nearest_view_flips(
    X, V, y, units, directions, low, high, unit, moves, feature, change, becomes
):
    """`nearest_flips` of rows X with views V."""
    for n in prange(X.shape[0]):
        P = X.shape[1]
        deltas, classes = np.empty((P, 2)), np.empty((P, 2), np.int64)
        room = Room(low, high, unit, moves[n])
        all_view_flips(X[n], V[n], y[n], units, directions, room, True, 0.0, deltas, classes)
        feature[n], change[n], becomes[n] = nearest_change(deltas, classes, unit)
