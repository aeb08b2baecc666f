"""Short Computational Trees and forests equal a scan of their leaves."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit
from numpy.testing import assert_array_equal

import oracles
from maxplus.trees import ShortComputationalForest, ShortComputationalTree, _kernels
from maxplus.trees.short_trees import nodes_per_tree
from strategies import DTYPES, GRID, INFINITIES, SEEDS, grid_array, quick

INF = math.inf
Tree, Forest = ShortComputationalTree, ShortComputationalForest
KINDS = pytest.mark.parametrize("kind", ["max", "min"])
VALUES = st.sampled_from([*GRID.tolist(), INF, -INF])


def scan(leaves, kind):
    """Return root and winner by a scan of all leaves."""
    return oracles.best([float(leaf) for leaf in leaves], kind)


def assert_tree_equals_scan(tree, leaves, kind):
    assert (tree.value, tree.winner) == scan(leaves, kind)


@KINDS
@quick(60)
@given(leaves=st.lists(VALUES, min_size=1, max_size=40), dtype=DTYPES, data=st.data())
def test_tree_equals_scan_after_any_updates(kind, leaves, dtype, data):
    tree = Tree(np.array(leaves, dtype), kind)
    assert_tree_equals_scan(tree, leaves, kind)
    assert_array_equal(tree.leaves, np.array(leaves, dtype), strict=True)
    assert (len(tree), tree.kind) == (len(leaves), kind)
    updates = st.lists(st.tuples(st.integers(0, len(leaves) - 1), VALUES), max_size=40)
    for leaf, value in data.draw(updates):
        leaves[leaf] = value
        tree.update(leaf, value)
        assert_tree_equals_scan(tree, leaves, kind)
    assert_array_equal(tree.nodes, Tree(np.array(leaves, dtype), kind).nodes)


@KINDS
@pytest.mark.parametrize("n", [100, 1025])
def test_long_update_sequences_equal_a_rebuild(kind, n):
    rng = np.random.default_rng(n)
    leaves = rng.normal(size=n).astype(np.float32)
    tree = Tree(leaves, kind)
    for leaf, value in zip(rng.integers(n, size=3000), rng.normal(size=3000), strict=True):
        tree.update(leaf, value)
        leaves[leaf] = value
    assert_array_equal(tree.nodes, Tree(leaves, kind).nodes, strict=True)
    assert_tree_equals_scan(tree, leaves, kind)


@KINDS
def test_every_leaf_can_win_and_first_leaf_wins_a_tie(kind):
    best = {"max": 1.0, "min": -1.0}[kind]
    for n in (*range(1, 18), 31, 32, 33, 100):
        tree = Tree(np.zeros(n), kind)
        for leaf in reversed(range(n)):
            tree.update(leaf, best)
            assert (tree.value, tree.winner) == (best, leaf)
        for value in (0.0, INF, -INF):
            tree = Tree(np.full(n, value), kind)
            assert (tree.value, tree.winner) == (value, 0)


def test_tree_size():
    for n in range(1, 1100):
        tree, forest = Tree(np.zeros(n)), Forest(np.zeros((3, n)))
        assert tree.n_levels == forest.n_levels == math.ceil(math.log2(n)) + 1
        assert 2 * n - 1 <= tree.nodes.size == nodes_per_tree(n) < 2 * n + math.log2(n)
        assert tree.offsets[-1] == tree.nodes.size
        assert (forest.n_trees, forest.n_leaves) == (3, n)
        assert forest.nodes.shape == (3, tree.nodes.size)


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([3, 8, 5], np.float64),
        (np.array([3, 8, 5], np.uint8), np.float64),
        (np.array([3, 8, 5], np.float32), np.float32),
        (np.array([3, 0, 8, 0, 5, 0], np.float32)[::2], np.float32),
    ],
)
def test_tree_accepts_any_real_type(values, dtype):
    tree = Tree(values)
    assert (tree.value, tree.winner) == (8.0, 1)
    assert tree.nodes.dtype == dtype


def test_tree_and_forest_copy_their_values():
    values = np.array([[3.0, 8.0, 5.0]])
    tree, forest = Tree(values[0]), Forest(values)
    values[0, 2] = 99.0
    for array in (tree.leaves, forest.leaves, forest.values, forest.winners):
        array[:] = 99
    assert_array_equal(tree.leaves, [3.0, 8.0, 5.0])
    assert tree.value == 8.0
    check_forest(forest, [[3.0, 8.0, 5.0]], "max")


BAD_VALUES = {
    "empty": (Tree, [], ValueError),
    "scalar": (Tree, 3.0, ValueError),
    "matrix": (Tree, [[1.0, 2.0]], ValueError),
    "nan": (Tree, [1.0, np.nan], ValueError),
    "float32 nan": (Tree, np.array([np.nan], np.float32), ValueError),
    "text": (Tree, ["a", "b"], (TypeError, ValueError)),
    "complex": (Tree, [1j, 2.0], (TypeError, ValueError)),
    "forest, vector": (Forest, [1.0, 2.0], ValueError),
    "forest, no leaves": (Forest, np.empty((3, 0)), ValueError),
    "forest, cube": (Forest, np.zeros((1, 1, 1)), ValueError),
    "forest, nan": (Forest, [[1.0, np.nan]], ValueError),
}


@pytest.mark.parametrize(("make", "values", "error"), BAD_VALUES.values(), ids=BAD_VALUES)
def test_invalid_values_are_rejected(make, values, error):
    with pytest.raises(error, match="values"):
        make(values)


@pytest.mark.parametrize("make", [Tree, lambda values, kind: Forest([values], kind)])
@pytest.mark.parametrize("kind", ["MAX", "maximum", "", None])
def test_invalid_kind_is_rejected(make, kind):
    with pytest.raises(ValueError, match="kind"):
        make([1.0], kind)


@pytest.mark.parametrize(
    ("leaf", "value", "error", "message"),
    [
        (-1, 0.0, IndexError, r"leaf -1\b"),
        (3, 0.0, IndexError, r"leaf 3\b"),
        (0, np.nan, ValueError, "NaN"),
    ],
)
def test_rejected_update_changes_nothing(leaf, value, error, message):
    tree, forest = Tree([3.0, 8.0, 5.0]), Forest([[3.0, 8.0, 5.0]] * 2)
    before = [tree.nodes.copy(), forest.nodes.copy()]
    for update in (
        lambda: tree.update(leaf, value),
        lambda: forest.update(1, leaf, value),
        lambda: forest.update_column(leaf, [0.0, value]),
    ):
        with pytest.raises(error, match=message):
            update()
    assert_array_equal(tree.nodes, before[0])
    assert_array_equal(forest.nodes, before[1])


# -- forests ----------------------------------------------------------------------------------


def check_forest(forest, leaves, kind):
    expected = [scan(row, kind) for row in leaves]
    assert_array_equal(forest.values, [value for value, _ in expected])
    assert_array_equal(forest.winners, [winner for _, winner in expected])
    assert_array_equal(forest.leaves, leaves)


@KINDS
@quick(50)
@given(
    n_trees=st.integers(0, 6),
    n_leaves=st.integers(1, 20),
    seed=SEEDS,
    dtype=DTYPES,
    infinities=INFINITIES,
)
def test_forest_equals_scan_of_every_tree(kind, n_trees, n_leaves, seed, dtype, infinities):
    rng = np.random.default_rng(seed)
    leaves = grid_array(rng, (n_trees, n_leaves), dtype, infinities)
    forest = Forest(leaves, kind)
    check_forest(forest, leaves, kind)
    for _ in range(20 if n_trees else 0):
        tree, leaf, value = rng.integers(n_trees), rng.integers(n_leaves), rng.choice(GRID)
        forest.update(tree, leaf, value)
        leaves[tree, leaf] = value
        check_forest(forest, leaves, kind)
        column = grid_array(rng, n_trees, dtype, infinities)
        forest.update_column(leaf, column)
        leaves[:, leaf] = column
        check_forest(forest, leaves, kind)
    assert_array_equal(forest.nodes, Forest(leaves, kind).nodes, strict=True)


def test_forest_accepts_any_memory_layout():
    leaves = np.array([[1, 4, 2], [9, 8, 9]])
    for values in (leaves, leaves.tolist(), np.asfortranarray(leaves), leaves[::-1][::-1]):
        check_forest(Forest(values), leaves, "max")


@pytest.mark.parametrize("tree", [-1, 2])
def test_forest_rejects_invalid_tree_index(tree):
    with pytest.raises(IndexError, match=rf"tree {tree}\b"):
        Forest([[1.0], [2.0]]).update(tree, 0, 0.0)


@pytest.mark.parametrize("column", [[], [1.0], [1.0, 2.0, 3.0], [[1.0, 2.0]], 1.0, [1.0, np.nan]])
def test_forest_column_needs_one_value_per_tree(column):
    with pytest.raises(ValueError, match="values"):
        Forest([[1.0], [2.0]]).update_column(0, column)


# -- kernels ----------------------------------------------------------------------------------


@njit
def replay(nodes, offsets, leaves, values, maximum, roots, winners, changed):
    """Update leaves and read root and winner after each update."""
    for t in range(leaves.size):
        changed[t] = _kernels.update(nodes, offsets, leaves[t], values[t], maximum)
        roots[t] = _kernels.root(nodes, offsets)
        winners[t] = _kernels.winner(nodes, offsets)


@KINDS
@pytest.mark.parametrize("n", [1, 7, 33])
def test_tree_kernels_work_inside_a_compiled_loop(kind, n):
    rng = np.random.default_rng(n)
    leaves, moves, values = grid_array(rng, n), rng.integers(n, size=200), grid_array(rng, 200)
    tree = Tree(leaves, kind)
    roots, winners, changed = np.empty(200), np.empty(200, int), np.empty(200, bool)
    replay(tree.nodes, tree.offsets, moves, values, kind == "max", roots, winners, changed)
    before, _ = scan(leaves, kind)
    for t, (leaf, value) in enumerate(zip(moves, values, strict=True)):
        leaves[leaf] = value
        root, winner = scan(leaves, kind)
        assert (roots[t], winners[t], changed[t]) == (root, winner, root != before)
        before = root
    # The kernel changes the tree in place.
    assert_tree_equals_scan(tree, leaves, kind)
