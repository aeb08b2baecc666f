"""Kernels of trees that are stored level by level in a flat array.

Level l starts at ``offsets[l]``; level 0 contains the n leaves, level l + 1 has half as many nodes,
rounded up, and the last level is the root. Node j of a level has the children 2j and 2j + 1 of the
level below; if that level has an odd number of nodes, the last node has a single child and the same
value. Any n ≥ 1 works with fewer than 2n + log₂ n nodes, and leaves are in order: descending to the
left child first finds the lowest index.
"""

import numpy as np

from maxplus._compile.jit import njit


def level_offsets(n_leaves: int) -> np.ndarray:
    """Return the start of each level, followed by the number of nodes; O(log n)."""
    offsets = [0]
    width = n_leaves
    while True:
        offsets.append(offsets[-1] + width)
        if width == 1:
            return np.array(offsets, np.int64)
        width = (width + 1) // 2


@njit(cache=True)
def _better(a, b, maximum):
    """Return the better of two nodes; a, the left one, if they are equal."""
    if maximum:
        return a if a >= b else b
    return a if a <= b else b


@njit(cache=True)
def build(nodes, offsets, maximum):
    """Fill the inner nodes from the leaves nodes[:n]; O(n)."""
    for level in range(offsets.size - 2):
        lo, mid, hi = offsets[level], offsets[level + 1], offsets[level + 2]
        width = mid - lo
        for j in range(hi - mid):
            left = nodes[lo + 2 * j]
            if 2 * j + 1 < width:
                left = _better(left, nodes[lo + 2 * j + 1], maximum)
            nodes[mid + j] = left


@njit(cache=True)
def update(nodes, offsets, leaf, value, maximum):
    """Set one leaf and update its path to the root; return whether the root changed.

    O(log n); it stops at an ancestor whose value does not change.
    """
    if nodes[leaf] == value:
        return False
    nodes[leaf] = value
    j = leaf
    for level in range(offsets.size - 2):
        lo, mid = offsets[level], offsets[level + 1]
        j //= 2
        new = nodes[lo + 2 * j]
        if lo + 2 * j + 1 < mid:
            new = _better(new, nodes[lo + 2 * j + 1], maximum)
        if nodes[mid + j] == new:
            return False
        nodes[mid + j] = new
    return True


@njit(cache=True)
def root(nodes, offsets):
    """Return the maximum (minimum) of all leaves; O(1)."""
    return nodes[offsets[-1] - 1]


@njit(cache=True)
def winner(nodes, offsets):
    """Return the lowest leaf that attains the root's value; O(log n)."""
    value = root(nodes, offsets)
    j = 0
    for level in range(offsets.size - 3, -1, -1):
        j *= 2
        if nodes[offsets[level] + j] != value:
            j += 1
    return j


@njit(cache=True)
def build_all(nodes, offsets, maximum):
    """Apply `build` to each row of nodes (n_trees × n_nodes)."""
    for tree in range(nodes.shape[0]):
        build(nodes[tree], offsets, maximum)


@njit(cache=True)
def update_column(nodes, offsets, leaf, values, maximum):
    """Set one leaf of every tree; O(n_trees · log n)."""
    for tree in range(nodes.shape[0]):
        update(nodes[tree], offsets, leaf, values[tree], maximum)


@njit(cache=True)
def winners(nodes, offsets, out):
    """Fill ``out`` with `winner` of each row of nodes."""
    for tree in range(nodes.shape[0]):
        out[tree] = winner(nodes[tree], offsets)
