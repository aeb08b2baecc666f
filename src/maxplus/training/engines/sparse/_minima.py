"""The minimum layer: witnesses, runners-up, and the replay of changed rows."""

import numpy as np

from maxplus._compile.intrinsics import fmax, fmin, imin, select, use_widest_vectors
from maxplus._compile.jit import inner
from maxplus.algebra._kernels import first_index, minplus_cell
from maxplus.training.engines.sparse._state import LOG_SIZE, NONE


@inner
def lane_max(values):
    """Return the largest value of a vector."""
    use_widest_vectors()
    m = values[0]
    for q in range(values.size):
        m = fmax(m, values[q])
    return m


@inner
def lane_min(values):
    """Return the smallest value of a vector."""
    use_widest_vectors()
    m = values[0]
    for q in range(values.size):
        m = fmin(m, values[q])
    return m


@inner
def insert_row(x, slope, offset, i, g, g2, a, a2):
    """Add row i to the rows seen so far, for all lanes; O(B)."""
    use_widest_vectors()
    row = a.dtype.type(i)
    for q in range(x.size):
        v = slope * x[q] + offset
        G, S, A = g[q], g2[q], a[q]
        least, second = v < G, v < S
        g2[q] = fmin(S, fmax(v, G))
        a2[q] = select(least, A, select(second, row, a2[q]))
        g[q] = fmin(v, G)
        a[q] = select(least, row, A)


@inner
def change_row(x, slope, offset, i, g, g2, a, a2):
    """Update the value of row i, for all lanes; keep the invariants of `Minima`; O(B).

    A row wins if it is below its rival, the smallest known value of the other rows. The rival is g,
    or, for the witness, g2 of the runner-up; without a runner-up there is no rival, and g follows
    the row as an upper bound. The loser, of the row and the previous witness, becomes the runner-up
    if it is below g2. A runner-up that does not fall, or becomes the witness, is removed. In
    all cases every row except the witness has a value of at least g2.
    """
    use_widest_vectors()
    row, none, unknown = a.dtype.type(i), a.dtype.type(NONE), g.dtype.type(np.inf)
    for q in range(x.size):
        v = slope * x[q] + offset
        G, S, A, R = g[q], g2[q], a[q], a2[q]
        witness = row == A
        rival = select(witness, select(none == R, unknown, S), G)
        wins, loser = v < rival, fmax(v, G)
        follows = (loser < S) & (row != A)
        removed = (row == R) | (witness & (v >= rival))
        g[q] = fmin(v, rival)
        g2[q] = select(witness, S, fmin(S, loser))
        a[q] = select(wins, row, select(witness, R, A))
        a2[q] = select(follows, select(wins, A, row), select(removed, none, R))


@inner
def scan_unit(columns, W0, w1, g, g2, a, a2):
    """Scan all rows of one unit for all lanes of a chunk; O(P·B)."""
    g[:] = np.inf
    g2[:] = np.inf
    a[:] = NONE
    a2[:] = NONE
    for i in range(W0.size):
        insert_row(columns[i // 2], W0[i], w1[i], i, g, g2, a, a2)


@inner
def _min_except(lam, w1, skip):
    """Return the minimum of all rows except one, by two loops: a condition would not vectorise."""
    after = skip + 1
    return min(minplus_cell(lam[:skip], w1[:skip]), minplus_cell(lam[after:], w1[after:]))


@inner
def _index_except(lam, w1, value, skip):
    use_widest_vectors()
    none = np.int32(lam.size)
    first = none
    for i in range(lam.size):
        hit = (lam[i] + w1[i] == value) & (i != skip)
        first = imin(first, np.int32(i) if hit else none)
    # With NaN, no row is found; the index must be valid nevertheless.
    return imin(first, np.int32(lam.size - 1))


@inner
def scan_lane(c, h, q, lam, weights, minima):
    """Scan all rows of one unit for one lane, whose sample has the linear layer ``lam``; O(P)."""
    w1 = weights.W1T[h]
    g = minplus_cell(lam, w1)
    a = first_index(lam, w1, g)
    g2 = _min_except(lam, w1, a)
    minima.g[c, h, q], minima.a[c, h, q] = g, a
    minima.g2[c, h, q], minima.a2[c, h, q] = g2, _index_except(lam, w1, g2, a)
    minima.cap[c, h] = max(minima.cap[c, h], g2)


@inner
def exact_minimum(c, h, q, lam, weights, minima):
    """Return the minimum of an up-to-date unit; scan the lane if it is not exact; O(P)."""
    if minima.g[c, h, q] > minima.g2[c, h, q]:
        scan_lane(c, h, q, lam, weights, minima)
    return minima.g[c, h, q]


@inner
def replay(state, c, h):
    """Bring unit h of chunk c up to date with its changed rows, if there are any.

    Each row is applied once, with its current value: intermediate values have no effect. Most rows
    are too high to matter: a row that is above ``cap`` in all lanes, and that was so before
    (accounting for rises), is neither witness nor runner-up of any lane, and does not become one.
    O(1) for such a row, O(B) for other rows, O(P·B) if the log has overflowed.
    """
    samples, weights, log, minima = state.samples, state.weights, state.log, state.minima
    seen, n = minima.seen[c, h], log.n[h]
    if seen == n:
        return
    g, g2, a, a2 = minima.g[c, h], minima.g2[c, h], minima.a[c, h], minima.a2[c, h]
    W0, w1 = weights.W0, weights.W1T[h]
    if n - seen > LOG_SIZE:
        scan_unit(samples.columns[c], W0, w1, g, g2, a, a2)
    else:
        cap = minima.cap[c, h] + (log.raised[h] - minima.raised_seen[c, h]) + state.scale.noise[0]
        # Read outside the loop: each read updates Numba's reference counts.
        rows, offsets, columns = log.row[h], log.offset[h], samples.columns[c]
        low, high = samples.low[c], samples.high[c]
        for entry in range(seen, n):
            i = rows[entry % LOG_SIZE]
            if i < 0:
                continue
            p, offset = i // 2, offsets[entry % LOG_SIZE]
            lowest = min(W0[i] * low[p], W0[i] * high[p]) + offset
            if lowest <= cap:
                change_row(columns[p], W0[i], offset, i, g, g2, a, a2)
    minima.seen[c, h] = n
    minima.raised_seen[c, h] = log.raised[h]
    minima.g_max[c, h] = lane_max(g)
    minima.cap[c, h] = max(minima.g_max[c, h], lane_max(g2))


@inner
def log_row(log, h, i, offset):
    """Log a change of row i of unit h, and invalidate its previous entry; O(1).

    So every valid entry holds the current offset W1T[h, i].
    """
    n, before = log.n[h], log.last[h, i]
    if before >= 0 and n - before <= LOG_SIZE:
        log.row[h, before % LOG_SIZE] = -1
    log.row[h, n % LOG_SIZE], log.offset[h, n % LOG_SIZE] = i, offset
    log.last[h, i] = n
    log.n[h] = n + 1
