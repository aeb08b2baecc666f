"""Kernels of min-plus and max-plus products of row blocks, A (n × m) with Bᵀ (k × m).

Both operands are contiguous along the reduced axis, so that the inner loop reads vectors directly
from memory. A 4 × 4 tile has sixteen running minima in registers: eight vector loads are used in
sixteen sums (see `plus`) and sixteen minima.

Products with the winning j process columns in blocks of 64. After each block, the cells that have
improved store the block, so that the winner is searched in one block only. The index costs one
comparison per 64 sums, and the search.

Cells and rows are written for min-plus, and compiled for max-plus from the same code, with other
values of the global names in `_MAXPLUS`. One more level of calls, or both semirings in one kernel,
would nearly double the time of the first call.
"""

import numpy as np
from numba import prange

from maxplus._compile.intrinsics import fmax, fmin, imin, one_like, plus, use_widest_vectors
from maxplus._compile.jit import compile_variant, inner, njit
from maxplus._compile.tiles import (
    BLOCK,
    PANEL_BYTES,
    ROWS,
    first_of_block,
    maxplus_tile,
    minplus_tile,
)

# Rows of A in a parallel task, which fit into the second-level cache (200 kB for 1568 float32).
ROWS_PER_TASK = 32
# The same for products with the index, whose panels of columns are read again for each task.
_ROWS_PER_INDEX_TASK = 64
# Number of additions from which a parallel product is faster.
PARALLEL_FROM = 4_000_000
# The zero of the min-plus semiring.
_ZERO = np.inf
# The values of global names in max-plus kernels.
_MAXPLUS = {"fmin": fmax, "_ZERO": -_ZERO}


# -- one cell ------------------------------------------------------------------------------------


@njit(cache=True)
def minplus_cell(a, b):
    """Return min_j (a_j + b_j) of two vectors; +inf if they are empty."""
    use_widest_vectors()
    m = a.dtype.type(_ZERO)
    for j in range(a.size):
        m = fmin(m, a[j] + b[j])
    return m


# max_j (a_j + b_j); −inf when the vectors are empty.
maxplus_cell = compile_variant(_MAXPLUS, minplus_cell, "maxplus_cell")


@njit(cache=True)
def first_index(a, b, value):
    """Return the lowest j with a_j + b_j == value; the last j if no sum is equal (NaN).

    Searching for the index after the reduction costs less than updating it in the reduction.
    The whole vector is read, since a loop that may stop early does not vectorise.
    """
    use_widest_vectors()
    none = np.int32(a.size)
    first = none
    for j in range(a.size):
        first = imin(first, np.int32(j) if a[j] + b[j] == value else none)
    # Callers index arrays with it, so it must be valid even for NaN.
    return imin(first, np.int32(a.size - 1))


# -- values --------------------------------------------------------------------------------------


@inner
def _tile(better, zero, a0, a1, a2, a3, b0, b1, b2, b3, out):
    """Compute 4 × 4 cells of a product into out[4, 4].

    ``better`` is `fmin` or `fmax`, and ``zero`` the zero of the semiring, +inf or −inf.
    """
    use_widest_vectors()
    one = one_like(zero)
    m00 = m01 = m02 = m03 = m10 = m11 = m12 = m13 = zero
    m20 = m21 = m22 = m23 = m30 = m31 = m32 = m33 = zero
    for j in range(a0.size):
        x0, x1, x2, x3 = a0[j], a1[j], a2[j], a3[j]
        y0, y1, y2, y3 = b0[j], b1[j], b2[j], b3[j]
        m00, m01 = better(m00, plus(x0, y0, one)), better(m01, plus(x0, y1, one))
        m02, m03 = better(m02, plus(x0, y2, one)), better(m03, plus(x0, y3, one))
        m10, m11 = better(m10, plus(x1, y0, one)), better(m11, plus(x1, y1, one))
        m12, m13 = better(m12, plus(x1, y2, one)), better(m13, plus(x1, y3, one))
        m20, m21 = better(m20, plus(x2, y0, one)), better(m21, plus(x2, y1, one))
        m22, m23 = better(m22, plus(x2, y2, one)), better(m23, plus(x2, y3, one))
        m30, m31 = better(m30, plus(x3, y0, one)), better(m31, plus(x3, y1, one))
        m32, m33 = better(m32, plus(x3, y2, one)), better(m33, plus(x3, y3, one))
    out[0, 0], out[0, 1], out[0, 2], out[0, 3] = m00, m01, m02, m03
    out[1, 0], out[1, 1], out[1, 2], out[1, 3] = m10, m11, m12, m13
    out[2, 0], out[2, 1], out[2, 2], out[2, 3] = m20, m21, m22, m23
    out[3, 0], out[3, 1], out[3, 2], out[3, 3] = m30, m31, m32, m33


@njit(cache=True)
def minplus_rows(A, BT, out):
    """Compute out[r, c] = min_j (A[r, j] + BT[c, j]) on one thread; O(n·k·m)."""
    zero = A.dtype.type(_ZERO)
    n, k = A.shape[0], BT.shape[0]
    n4, k4 = n - n % 4, k - k % 4
    for c in range(0, k4, 4):
        b0, b1, b2, b3 = BT[c], BT[c + 1], BT[c + 2], BT[c + 3]
        for r in range(0, n4, 4):
            a0, a1, a2, a3 = A[r], A[r + 1], A[r + 2], A[r + 3]
            _tile(fmin, zero, a0, a1, a2, a3, b0, b1, b2, b3, out[r : r + 4, c : c + 4])
    for r in range(n):
        for c in range(k4 if r < n4 else 0, k):
            out[r, c] = minplus_cell(A[r], BT[c])


_MAXPLUS["minplus_cell"] = maxplus_cell
maxplus_rows = compile_variant(_MAXPLUS, minplus_rows, "maxplus_rows")


@njit(cache=True, parallel=True)
def _minplus_parallel(A, BT, out):
    n = A.shape[0]
    for task in prange((n + ROWS_PER_TASK - 1) // ROWS_PER_TASK):
        lo, hi = task * ROWS_PER_TASK, min((task + 1) * ROWS_PER_TASK, n)
        minplus_rows(A[lo:hi], BT, out[lo:hi])


_MAXPLUS["minplus_rows"] = maxplus_rows
_maxplus_parallel = compile_variant(_MAXPLUS, _minplus_parallel, "_maxplus_parallel", parallel=True)


def product_into(A, BT, is_minplus, out):
    """Compute the product of validated operands, min-plus or max-plus; in parallel if large."""
    if A.size * BT.shape[0] >= PARALLEL_FROM:
        (_minplus_parallel if is_minplus else _maxplus_parallel)(A, BT, out)
    else:
        (minplus_rows if is_minplus else maxplus_rows)(A, BT, out)


@njit(cache=True)
def annihilating_sums(A, BT, zero, values, index):
    """Compute a product of operands that contain both infinities, cell by cell.

    ``zero`` is the zero of the semiring (+inf for min-plus, −inf for max-plus). Its sum with any
    number is ``zero``; in IEEE arithmetic, the sum of both infinities is NaN.
    """
    is_minplus = zero > 0
    for r in range(A.shape[0]):
        for c in range(BT.shape[0]):
            best, winner = zero, 0
            for j in range(A.shape[1]):
                a, b = A[r, j], BT[c, j]
                s = zero if a == zero or b == zero else a + b
                if (is_minplus and s < best) or (not is_minplus and s > best):
                    best, winner = s, j
            values[r, c] = best
            index[r, c] = winner


# -- values and winners --------------------------------------------------------------------------


@njit(cache=True)
def _cells(A, BT, is_minplus, values, winners):
    """Compute the product cell by cell, on one thread; O(n·k·m)."""
    for r in range(A.shape[0]):
        for c in range(BT.shape[0]):
            v = minplus_cell(A[r], BT[c]) if is_minplus else maxplus_cell(A[r], BT[c])
            values[r, c], winners[r, c] = v, first_index(A[r], BT[c], v)


@njit(cache=True)
def _pack(BT, zero, panel):
    """Copy rows of BT into a panel (m, width), padded with the zero of the semiring."""
    for j in range(panel.shape[0]):
        for c in range(panel.shape[1]):
            panel[j, c] = BT[c, j] if c < BT.shape[0] else zero


@njit(cache=True)
def _tile_row(tile, n_rows):
    """Return the first row of a tile; the last tile overlaps the previous one."""
    return min(ROWS * tile, n_rows - ROWS)


@njit(cache=True)
def _block_of_rows(A, panel, lo, is_minplus, best, block):
    """Reduce the block of columns at ``lo``, for all rows of a task and one panel."""
    use_widest_vectors()
    hi = min(lo + BLOCK, A.shape[1])
    for tile in range(best.shape[0]):
        r = _tile_row(tile, A.shape[0])
        if is_minplus:
            minplus_tile(A, r, lo, hi, panel, best[tile], block[tile], lo)
        else:
            maxplus_tile(A, r, lo, hi, panel, best[tile], block[tile], lo)


@njit(cache=True)
def _find_winners(A, BT, best, block, values, winners):
    """Copy the values of a panel and find the winner of each in its block."""
    use_widest_vectors()
    none = np.int64(BLOCK - 1)
    last = A.shape[1] - BLOCK
    for tile in range(best.shape[0]):
        for row in range(ROWS):
            r = _tile_row(tile, A.shape[0]) + row
            a, own, begin = A[r], best[tile, row], block[tile, row]
            for c in range(BT.shape[0]):
                # A short last block overlaps the previous one. The overlap cannot contain the
                # winner: the previous block would have been stored.
                lo = min(np.int64(begin[c]), last)
                values[r, c] = own[c]
                # Callers use it as an index, so it must be valid even for NaN.
                winners[r, c] = lo + min(first_of_block(a, BT[c], lo, own[c]), none)


@njit(cache=True, parallel=True)
def _tiled(A, BT, is_minplus, values, winners):
    """Compute a product of at least 4 rows and 64 columns by tiles, in parallel; O(n·k·m)."""
    n, m, k = A.shape[0], A.shape[1], BT.shape[0]
    width = PANEL_BYTES // A.itemsize
    zero = A.dtype.type(np.inf if is_minplus else -np.inf)
    panels = np.empty(((k + width - 1) // width, m, width), A.dtype)
    for p in prange(panels.shape[0]):
        _pack(BT[p * width : (p + 1) * width], zero, panels[p])
    tasks = max(1, n // _ROWS_PER_INDEX_TASK)
    for task in prange(tasks):
        # The last task includes the remainder, so that no task has fewer rows than a tile.
        first = task * _ROWS_PER_INDEX_TASK
        rows = slice(first, first + _ROWS_PER_INDEX_TASK if task < tasks - 1 else n)
        own = A[rows]
        best = np.empty(((len(own) + ROWS - 1) // ROWS, ROWS, width), A.dtype)
        block = np.empty(best.shape, np.int32)
        for p in range(panels.shape[0]):
            best[:], block[:] = zero, 0
            for lo in range(0, m, BLOCK):
                _block_of_rows(own, panels[p], lo, is_minplus, best, block)
            columns = slice(p * width, min((p + 1) * width, k))
            _find_winners(
                own, BT[columns], best, block, values[rows, columns], winners[rows, columns]
            )


def winners_into(A, BT, is_minplus, values, winners):
    """Compute the product of validated operands and the lowest winning j of each cell.

    The operands have at least one column. O(n·k·m); for large products, a tenth slower than without
    the index.
    """
    is_large = A.size * BT.shape[0] >= PARALLEL_FROM
    has_tiles = A.shape[0] >= ROWS and A.shape[1] >= BLOCK
    (_tiled if is_large and has_tiles else _cells)(A, BT, is_minplus, values, winners)


def maxplus_winners(A, BT):
    """Return the max-plus product (n, k) of validated operands and the lowest winning j."""
    values = np.empty((A.shape[0], BT.shape[0]), A.dtype)
    winners = np.empty(values.shape, np.int64)
    winners_into(A, BT, False, values, winners)
    return values, winners
