"""Jitted min-plus and max-plus products of row blocks, A (n × m) with Bᵀ (k × m).

Both operands are contiguous along the reduced axis, so the inner loop reads
vectors straight from memory. A 4 × 4 tile keeps sixteen running minima in
registers: eight vector loads feed sixteen sums (see `plus`) and sixteen minima.
"""

import numpy as np
from numba import prange

from maxplus._compile.intrinsics import fmax, fmin, imin, one_like, plus, use_widest_vectors
from maxplus._compile.jit import njit

# One parallel task: 32 rows of A (200 kB at 1568 float32) stay in the second-level cache.
ROWS_PER_TASK = 32
# Below this many additions a product is done before a second thread has woken up.
PARALLEL_FROM = 4_000_000


@njit(cache=True)
def minplus_cell(a, b):
    """min_j (a_j + b_j) for two vectors; +inf when they are empty."""
    use_widest_vectors()
    m = a.dtype.type(np.inf)
    for j in range(a.size):
        m = fmin(m, a[j] + b[j])
    return m


@njit(cache=True)
def maxplus_cell(a, b):
    """max_j (a_j + b_j) for two vectors; −inf when they are empty."""
    use_widest_vectors()
    m = a.dtype.type(-np.inf)
    for j in range(a.size):
        m = fmax(m, a[j] + b[j])
    return m


@njit(cache=True)
def first_index(a, b, value):
    """The lowest j with a_j + b_j == value; the last j if there is none (a value that is NaN).

    Looking for the index after the value is known costs less than carrying an
    index through the reduction. The whole vector is read: a loop that may stop
    early would not vectorise.
    """
    use_widest_vectors()
    none = np.int32(a.size)
    first = none
    for j in range(a.size):
        first = imin(first, np.int32(j) if a[j] + b[j] == value else none)
    # Callers index arrays by it: whatever the numbers are, it must be a valid index.
    return imin(first, np.int32(a.size - 1))


@njit(cache=True)
def _minplus_tile(a0, a1, a2, a3, b0, b1, b2, b3, out):
    """4 × 4 cells of the min-plus product into out[4, 4]."""
    use_widest_vectors()
    inf = a0.dtype.type(np.inf)
    one = one_like(inf)
    m00 = m01 = m02 = m03 = m10 = m11 = m12 = m13 = inf
    m20 = m21 = m22 = m23 = m30 = m31 = m32 = m33 = inf
    for j in range(a0.size):
        x0, x1, x2, x3 = a0[j], a1[j], a2[j], a3[j]
        y0, y1, y2, y3 = b0[j], b1[j], b2[j], b3[j]
        m00, m01 = fmin(m00, plus(x0, y0, one)), fmin(m01, plus(x0, y1, one))
        m02, m03 = fmin(m02, plus(x0, y2, one)), fmin(m03, plus(x0, y3, one))
        m10, m11 = fmin(m10, plus(x1, y0, one)), fmin(m11, plus(x1, y1, one))
        m12, m13 = fmin(m12, plus(x1, y2, one)), fmin(m13, plus(x1, y3, one))
        m20, m21 = fmin(m20, plus(x2, y0, one)), fmin(m21, plus(x2, y1, one))
        m22, m23 = fmin(m22, plus(x2, y2, one)), fmin(m23, plus(x2, y3, one))
        m30, m31 = fmin(m30, plus(x3, y0, one)), fmin(m31, plus(x3, y1, one))
        m32, m33 = fmin(m32, plus(x3, y2, one)), fmin(m33, plus(x3, y3, one))
    out[0, 0], out[0, 1], out[0, 2], out[0, 3] = m00, m01, m02, m03
    out[1, 0], out[1, 1], out[1, 2], out[1, 3] = m10, m11, m12, m13
    out[2, 0], out[2, 1], out[2, 2], out[2, 3] = m20, m21, m22, m23
    out[3, 0], out[3, 1], out[3, 2], out[3, 3] = m30, m31, m32, m33


@njit(cache=True)
def _maxplus_tile(a0, a1, a2, a3, b0, b1, b2, b3, out):
    """4 × 4 cells of the max-plus product into out[4, 4]."""
    use_widest_vectors()
    zero = a0.dtype.type(-np.inf)
    one = one_like(zero)
    m00 = m01 = m02 = m03 = m10 = m11 = m12 = m13 = zero
    m20 = m21 = m22 = m23 = m30 = m31 = m32 = m33 = zero
    for j in range(a0.size):
        x0, x1, x2, x3 = a0[j], a1[j], a2[j], a3[j]
        y0, y1, y2, y3 = b0[j], b1[j], b2[j], b3[j]
        m00, m01 = fmax(m00, plus(x0, y0, one)), fmax(m01, plus(x0, y1, one))
        m02, m03 = fmax(m02, plus(x0, y2, one)), fmax(m03, plus(x0, y3, one))
        m10, m11 = fmax(m10, plus(x1, y0, one)), fmax(m11, plus(x1, y1, one))
        m12, m13 = fmax(m12, plus(x1, y2, one)), fmax(m13, plus(x1, y3, one))
        m20, m21 = fmax(m20, plus(x2, y0, one)), fmax(m21, plus(x2, y1, one))
        m22, m23 = fmax(m22, plus(x2, y2, one)), fmax(m23, plus(x2, y3, one))
        m30, m31 = fmax(m30, plus(x3, y0, one)), fmax(m31, plus(x3, y1, one))
        m32, m33 = fmax(m32, plus(x3, y2, one)), fmax(m33, plus(x3, y3, one))
    out[0, 0], out[0, 1], out[0, 2], out[0, 3] = m00, m01, m02, m03
    out[1, 0], out[1, 1], out[1, 2], out[1, 3] = m10, m11, m12, m13
    out[2, 0], out[2, 1], out[2, 2], out[2, 3] = m20, m21, m22, m23
    out[3, 0], out[3, 1], out[3, 2], out[3, 3] = m30, m31, m32, m33


@njit(cache=True)
def minplus_rows(A, BT, out):
    """out[n, k] = min_j (A[n, j] + BT[k, j]) on one thread; O(n·k·m)."""
    n, k = A.shape[0], BT.shape[0]
    n4, k4 = n - n % 4, k - k % 4
    for c in range(0, k4, 4):
        for r in range(0, n4, 4):
            _minplus_tile(
                A[r], A[r + 1], A[r + 2], A[r + 3],
                BT[c], BT[c + 1], BT[c + 2], BT[c + 3],
                out[r : r + 4, c : c + 4],
            )  # fmt: skip
    for r in range(n):
        for c in range(k4 if r < n4 else 0, k):
            out[r, c] = minplus_cell(A[r], BT[c])


@njit(cache=True)
def maxplus_rows(A, BT, out):
    """out[n, k] = max_j (A[n, j] + BT[k, j]) on one thread; O(n·k·m)."""
    n, k = A.shape[0], BT.shape[0]
    n4, k4 = n - n % 4, k - k % 4
    for c in range(0, k4, 4):
        for r in range(0, n4, 4):
            _maxplus_tile(
                A[r], A[r + 1], A[r + 2], A[r + 3],
                BT[c], BT[c + 1], BT[c + 2], BT[c + 3],
                out[r : r + 4, c : c + 4],
            )  # fmt: skip
    for r in range(n):
        for c in range(k4 if r < n4 else 0, k):
            out[r, c] = maxplus_cell(A[r], BT[c])


@njit(cache=True, parallel=True)
def minplus_parallel(A, BT, out):
    """`minplus_rows` with blocks of rows spread over the threads."""
    n = A.shape[0]
    for task in prange((n + ROWS_PER_TASK - 1) // ROWS_PER_TASK):
        lo = task * ROWS_PER_TASK
        hi = min(lo + ROWS_PER_TASK, n)
        minplus_rows(A[lo:hi], BT, out[lo:hi])


@njit(cache=True, parallel=True)
def maxplus_parallel(A, BT, out):
    """`maxplus_rows` with blocks of rows spread over the threads."""
    n = A.shape[0]
    for task in prange((n + ROWS_PER_TASK - 1) // ROWS_PER_TASK):
        lo = task * ROWS_PER_TASK
        hi = min(lo + ROWS_PER_TASK, n)
        maxplus_rows(A[lo:hi], BT, out[lo:hi])


def minplus_into(A, BT, out):
    """The min-plus product of checked operands, threaded where that pays."""
    large = A.size * BT.shape[0] >= PARALLEL_FROM
    (minplus_parallel if large else minplus_rows)(A, BT, out)


def maxplus_into(A, BT, out):
    """The max-plus product of checked operands, threaded where that pays."""
    large = A.size * BT.shape[0] >= PARALLEL_FROM
    (maxplus_parallel if large else maxplus_rows)(A, BT, out)


@njit(cache=True)
def annihilating_sums(A, BT, zero, values, index):
    """The product when both infinities occur, cell by cell: zero + anything = zero.

    ``zero`` is the semiring's own zero (+inf for min-plus, −inf for max-plus);
    IEEE addition would give NaN where it meets the other infinity.
    """
    smallest = zero > 0
    for r in range(A.shape[0]):
        for c in range(BT.shape[0]):
            best, winner = zero, 0
            for j in range(A.shape[1]):
                a, b = A[r, j], BT[c, j]
                s = zero if a == zero or b == zero else a + b
                if (smallest and s < best) or (not smallest and s > best):
                    best, winner = s, j
            values[r, c] = best
            index[r, c] = winner
