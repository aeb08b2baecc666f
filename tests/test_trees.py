"""Short Computational Trees and forests: always what a fresh scan would find."""

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
Forest = ShortComputationalForest
KINDS = pytest.mark.parametrize("kind", ["max", "min"])
SIZES = [*range(1, 18), 31, 32, 33, 100]
LEAVES = st.lists(st.sampled_from([*GRID.tolist(), INF, -INF]), min_size=1, max_size=40)


def scan(leaves, kind):
    """Root and winner, by looking at every leaf."""
    return oracles.best([float(leaf) for leaf in leaves], kind)


@st.composite
def leaves_and_updates(draw):
    leaves = draw(LEAVES)
    leaf = st.integers(0, len(leaves) - 1)
    value = st.sampled_from([*GRID.tolist(), INF, -INF])
    return leaves, draw(st.lists(st.tuples(leaf, value), max_size=60))


@KINDS
@quick(60)
@given(leaves=LEAVES, dtype=DTYPES)
def test_new_tree_equals_scan(kind, leaves, dtype):
    tree = ShortComputationalTree(np.array(leaves, dtype), kind)
    assert (tree.value, tree.winner) == scan(leaves, kind)
    assert_array_equal(tree.leaves, np.array(leaves, dtype), strict=True)
    assert len(tree) == len(leaves)
    assert tree.kind == kind


@KINDS
@quick(60)
@given(case=leaves_and_updates())
def test_updated_tree_equals_scan(kind, case):
    leaves, updates = case
    tree = ShortComputationalTree(leaves, kind)
    for leaf, value in updates:
        leaves[leaf] = value
        tree.update(leaf, value)
        assert (tree.value, tree.winner) == scan(leaves, kind)
    assert_array_equal(tree.nodes, ShortComputationalTree(leaves, kind).nodes)


@KINDS
@pytest.mark.parametrize("n", [1, 2, 3, 5, 33, 1000, 1025])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_long_update_sequences_equal_a_rebuild(kind, n, dtype):
    rng = np.random.default_rng(n)
    leaves = rng.normal(size=n).astype(dtype)
    tree = ShortComputationalTree(leaves, kind)
    for leaf, value in zip(rng.integers(n, size=3000), rng.normal(size=3000), strict=True):
        tree.update(leaf, value)
        leaves[leaf] = value
    rebuilt = ShortComputationalTree(leaves, kind)
    assert_array_equal(tree.nodes, rebuilt.nodes, strict=True)
    assert (tree.value, tree.winner) == (rebuilt.value, rebuilt.winner) == scan(leaves, kind)


@KINDS
@pytest.mark.parametrize("n", SIZES)
def test_every_leaf_of_tree_can_win(kind, n):
    best = {"max": 1.0, "min": -1.0}[kind]
    for leaf in range(n):
        tree = ShortComputationalTree(np.zeros(n), kind)
        tree.update(leaf, best)
        assert (tree.value, tree.winner) == (best, leaf)


@KINDS
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("value", [0.0, INF, -INF])
def test_first_leaf_of_tree_wins_a_tie(kind, n, value):
    tree = ShortComputationalTree(np.full(n, value), kind)
    assert (tree.value, tree.winner) == (value, 0)


@KINDS
@pytest.mark.parametrize("order", [(3, 1), (1, 3)])
def test_tree_tie_after_updates_goes_to_the_lowest_leaf(kind, order):
    best = {"max": 5.0, "min": -5.0}[kind]
    tree = ShortComputationalTree(np.zeros(5), kind)
    for leaf in order:
        tree.update(leaf, best)
    assert tree.winner == 1


def test_tree_size():
    for n in range(1, 1100):
        tree = ShortComputationalTree(np.zeros(n))
        assert tree.n_levels == math.ceil(math.log2(n)) + 1
        assert tree.nodes.size == nodes_per_tree(n) < 2 * n + math.log2(n)
        assert tree.nodes.size >= 2 * n - 1
        assert tree.offsets[-1] == tree.nodes.size


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
    tree = ShortComputationalTree(values)
    assert (tree.value, tree.winner) == (8.0, 1)
    assert tree.nodes.dtype == dtype


def test_tree_copies_its_leaves():
    values = np.array([3.0, 8.0, 5.0])
    tree = ShortComputationalTree(values)
    values[2] = 99.0
    tree.leaves[0] = 99.0
    assert_array_equal(tree.leaves, [3.0, 8.0, 5.0])
    assert tree.value == 8.0


BAD_TREES = {
    "empty": ([], ValueError),
    "scalar": (3.0, ValueError),
    "matrix": ([[1.0, 2.0]], ValueError),
    "nan": ([1.0, np.nan], ValueError),
    "float32 nan": (np.array([np.nan], np.float32), ValueError),
    "text": (["a", "b"], (TypeError, ValueError)),
    "complex": ([1j, 2.0], (TypeError, ValueError)),
}


@pytest.mark.parametrize(("values", "error"), BAD_TREES.values(), ids=BAD_TREES)
def test_tree_rejects_invalid_values(values, error):
    with pytest.raises(error, match="values"):
        ShortComputationalTree(values)


@pytest.mark.parametrize("make", [ShortComputationalTree, lambda v, k: Forest([v], k)])
@pytest.mark.parametrize("kind", ["MAX", "maximum", "", None])
def test_tree_rejects_invalid_kind(make, kind):
    with pytest.raises(ValueError, match="kind"):
        make([1.0], kind)


BAD_UPDATES = pytest.mark.parametrize(
    ("leaf", "value", "error", "message"),
    [
        (-1, 0.0, IndexError, r"leaf -1\b"),
        (3, 0.0, IndexError, r"leaf 3\b"),
        (0, np.nan, ValueError, "NaN"),
    ],
)


@KINDS
@BAD_UPDATES
def test_rejected_tree_update_changes_nothing(kind, leaf, value, error, message):
    tree = ShortComputationalTree([3.0, 8.0, 5.0], kind)
    before = tree.nodes.copy()
    with pytest.raises(error, match=message):
        tree.update(leaf, value)
    assert_array_equal(tree.nodes, before)


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
def test_forest_equals_scan_of_every_row(kind, n_trees, n_leaves, seed, dtype, infinities):
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


def test_forest_from_fortran_order_and_integers():
    leaves = np.array([[1, 4, 2], [9, 8, 9]])
    for values in (leaves, leaves.tolist(), np.asfortranarray(leaves), leaves[::-1][::-1]):
        check_forest(Forest(values), leaves, "max")


@pytest.mark.parametrize("n_leaves", SIZES)
def test_forest_size(n_leaves):
    forest = Forest(np.zeros((3, n_leaves)))
    assert (forest.n_trees, forest.n_leaves) == (3, n_leaves)
    assert forest.n_levels == math.ceil(math.log2(n_leaves)) + 1
    assert forest.nodes.shape == (3, nodes_per_tree(n_leaves))


def test_forest_returns_copies():
    forest = Forest([[1.0, 4.0], [9.0, 8.0]])
    forest.values[:] = 99.0
    forest.leaves[:] = 99.0
    check_forest(forest, [[1.0, 4.0], [9.0, 8.0]], "max")


@pytest.mark.parametrize(
    "values",
    [[1.0, 2.0], np.empty((3, 0)), np.zeros((1, 1, 1)), [[1.0, np.nan]]],
    ids=["vector", "no leaves", "cube", "nan"],
)
def test_forest_rejects_invalid_values(values):
    with pytest.raises(ValueError, match="values"):
        Forest(values)


@BAD_UPDATES
def test_rejected_forest_update_changes_nothing(leaf, value, error, message):
    forest = Forest([[3.0, 8.0, 5.0]] * 2)
    before = forest.nodes.copy()
    with pytest.raises(error, match=message):
        forest.update(1, leaf, value)
    with pytest.raises(error, match=message):
        forest.update_column(leaf, [0.0, value])
    assert_array_equal(forest.nodes, before)


@pytest.mark.parametrize("tree", [-1, 2])
def test_forest_rejects_invalid_tree_index(tree):
    with pytest.raises(IndexError, match=rf"tree {tree}\b"):
        Forest([[1.0], [2.0]]).update(tree, 0, 0.0)


@pytest.mark.parametrize("column", [[], [1.0], [1.0, 2.0, 3.0], [[1.0, 2.0]], 1.0])
def test_forest_column_needs_one_value_per_tree(column):
    with pytest.raises(ValueError, match="values"):
        Forest([[1.0], [2.0]]).update_column(0, column)


# -- kernels ----------------------------------------------------------------------------------


@njit
def replay(nodes, offsets, leaves, values, maximum, roots, winners, changed):
    """Change leaves and read root and winner, as a training loop does."""
    for t in range(leaves.size):
        changed[t] = _kernels.update(nodes, offsets, leaves[t], values[t], maximum)
        roots[t] = _kernels.root(nodes, offsets)
        winners[t] = _kernels.winner(nodes, offsets)


def replayed(kind, n):
    """Return a tree after 200 changes by `replay`, what that reported, and what scans find."""
    rng = np.random.default_rng(n)
    leaves = grid_array(rng, n)
    moves, values = rng.integers(n, size=200), grid_array(rng, 200)
    tree = ShortComputationalTree(leaves, kind)
    roots, winners, changed = np.empty(200), np.empty(200, int), np.empty(200, bool)
    replay(tree.nodes, tree.offsets, moves, values, kind == "max", roots, winners, changed)
    expected = [scan(leaves, kind)]
    for leaf, value in zip(moves, values, strict=True):
        leaves[leaf] = value
        expected.append(scan(leaves, kind))
    return tree, (roots, winners, changed), expected


@KINDS
@pytest.mark.parametrize("n", [1, 2, 3, 7, 33])
def test_trees_work_inside_a_jitted_loop(kind, n):
    tree, (roots, winners, _), expected = replayed(kind, n)
    assert_array_equal(roots, [root for root, _ in expected[1:]])
    assert_array_equal(winners, [winner for _, winner in expected[1:]])
    assert (tree.value, tree.winner) == expected[-1], "the kernel must change the tree itself"


@KINDS
@pytest.mark.parametrize("n", [1, 2, 3, 7, 33])
def test_update_returns_whether_the_root_changed(kind, n):
    _, (_, _, changed), expected = replayed(kind, n)
    roots = np.array([root for root, _ in expected])
    assert_array_equal(changed, roots[1:] != roots[:-1])
