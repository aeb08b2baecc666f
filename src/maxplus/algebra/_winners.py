"""Jitted products that also tell which j has won each cell, the lowest of equals.

Columns are taken in blocks of 64. At the end of a block each cell notes whether it has become
better, and so ends with its value and the first block that holds it; the winner is then looked for
in that block alone. All that winners cost is a comparison for each 64 sums, and the look.
"""

import numpy as np
from numba import prange

from maxplus._compile.intrinsics import use_widest_vectors
from maxplus._compile.jit import njit
from maxplus.algebra._kernels import PARALLEL_FROM, first_index, maxplus_cell, minplus_cell
from maxplus.algebra._tiles import (
    BLOCK,
    PANEL_BYTES,
    ROWS,
    first_of_block,
    maxplus_tile,
    minplus_tile,
)

# One parallel task: 64 rows of A (400 kB at 1568 float32) stay in the second-level cache.
ROWS_PER_TASK = 64


@njit(cache=True)
def _cells(A, BT, smallest, values, winners):
    """The product cell by cell, on one thread; O(n·k·m)."""
    for r in range(A.shape[0]):
        for c in range(BT.shape[0]):
            v = minplus_cell(A[r], BT[c]) if smallest else maxplus_cell(A[r], BT[c])
            values[r, c], winners[r, c] = v, first_index(A[r], BT[c], v)


@njit(cache=True)
def _pack(BT, zero, panel):
    """Some rows of BT as a panel (m, width); zeros of the semiring where there are none."""
    for j in range(panel.shape[0]):
        for c in range(panel.shape[1]):
            panel[j, c] = BT[c, j] if c < BT.shape[0] else zero


@njit(cache=True)
def _tile_row(tile, n_rows):
    """Where a tile begins: the last one has four rows, too, some of them once more."""
    return min(ROWS * tile, n_rows - ROWS)


@njit(cache=True)
def _block_of_rows(A, panel, lo, smallest, best, block):
    """Columns lo.. of one block, for all rows of a task and one panel."""
    use_widest_vectors()
    hi = min(lo + BLOCK, A.shape[1])
    for tile in range(best.shape[0]):
        r = _tile_row(tile, A.shape[0])
        if smallest:
            minplus_tile(A, r, lo, hi, panel, best[tile], block[tile], lo)
        else:
            maxplus_tile(A, r, lo, hi, panel, best[tile], block[tile], lo)


@njit(cache=True)
def _look(A, BT, best, block, values, winners):
    """Values of a panel, and the winner of each, in the block that it is known to be in."""
    use_widest_vectors()
    none = np.int64(BLOCK - 1)
    last = A.shape[1] - BLOCK
    for tile in range(best.shape[0]):
        for row in range(ROWS):
            r = _tile_row(tile, A.shape[0]) + row
            a, own, begin = A[r], best[tile, row], block[tile, row]
            for c in range(BT.shape[0]):
                # The last block may be short. What it has in common with the one before it has
                # not won: then that block would have been the first.
                lo = min(np.int64(begin[c]), last)
                values[r, c] = own[c]
                # Callers index arrays by it: whatever the numbers are, it must be a valid index.
                winners[r, c] = lo + min(first_of_block(a, BT[c], lo, own[c]), none)


@njit(cache=True, parallel=True)
def _tiled(A, BT, smallest, values, winners):
    """The product of at least 4 rows and 64 columns, tile by tile, over the threads; O(n·k·m)."""
    n, m, k = A.shape[0], A.shape[1], BT.shape[0]
    width = PANEL_BYTES // A.itemsize
    zero = A.dtype.type(np.inf if smallest else -np.inf)
    panels = np.empty(((k + width - 1) // width, m, width), A.dtype)
    for p in prange(panels.shape[0]):
        _pack(BT[p * width : (p + 1) * width], zero, panels[p])
    tasks = max(1, n // ROWS_PER_TASK)
    for task in prange(tasks):
        # The last task has what is left, too, so that none has fewer rows than a tile.
        rows = slice(task * ROWS_PER_TASK, (task + 1) * ROWS_PER_TASK if task < tasks - 1 else n)
        own = A[rows]
        best = np.empty(((len(own) + ROWS - 1) // ROWS, ROWS, width), A.dtype)
        block = np.empty(best.shape, np.int32)
        for p in range(panels.shape[0]):
            best[:], block[:] = zero, 0
            for lo in range(0, m, BLOCK):
                _block_of_rows(own, panels[p], lo, smallest, best, block)
            columns = slice(p * width, min((p + 1) * width, k))
            _look(own, BT[columns], best, block, values[rows, columns], winners[rows, columns])


def winners_into(A, BT, smallest, values, winners):
    """A product of checked operands, min-plus if ``smallest``, and the lowest j of each cell.

    Columns are at least one. O(n·k·m), a tenth more than the values alone where there are many.
    """
    is_large = A.size * BT.shape[0] >= PARALLEL_FROM
    has_tiles = A.shape[0] >= ROWS and A.shape[1] >= BLOCK
    (_tiled if is_large and has_tiles else _cells)(A, BT, smallest, values, winners)


def maxplus_winners(A, BT):
    """The max-plus product of checked operands, (n, k), and the lowest j that gives each cell."""
    values = np.empty((A.shape[0], BT.shape[0]), A.dtype)
    winners = np.empty(values.shape, np.int64)
    winners_into(A, BT, False, values, winners)
    return values, winners
