"""Min-plus and max-plus products and the morphological perceptron."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import oracles
from maxplus._compile.tiles import BLOCK
from maxplus.algebra import _kernels, maxplus, minplus, morphological_perceptron
from maxplus.algebra._kernels import PARALLEL_FROM, _tiled, maxplus_winners
from processes import run_python
from strategies import DTYPES, GRID, INFINITIES, SEEDS, SIZES_OR_ZERO, grid_array, operands, quick

INF = np.inf
PRODUCTS = {"min": minplus, "max": maxplus}
KINDS = pytest.mark.parametrize("kind", PRODUCTS)


def check_product(kind, A, B):
    """Compare values and winners with the oracle, with and without the index."""
    shape = A.shape[0], B.shape[1]
    values, winners = oracles.product(A, B, B.shape[1], kind)
    expected = np.array(values, np.result_type(A, B)).reshape(shape)
    got = PRODUCTS[kind](A, B)
    assert_array_equal(got, expected, strict=True)
    if A.shape[1]:
        got, got_winners = PRODUCTS[kind](A, B, return_index=True)
        assert_array_equal(got, expected, strict=True)
        assert np.issubdtype(got_winners.dtype, np.integer)
        assert_array_equal(got_winners, np.array(winners, int).reshape(shape))


@KINDS
@quick(80)
@given(AB=operands())
def test_product_matches_the_oracle(kind, AB):
    check_product(kind, *AB)


@pytest.mark.slow
@KINDS
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "shape", [(333, 130, 97), (133_337, 6, 5), (5, 160_001, 5), (5, 6, 133_337)]
)
def test_product_is_the_same_on_several_threads(kind, dtype, shape):
    """Compare with products of five parts on one thread each, and with the oracle (last row)."""
    n, m, k = shape
    assert n * m * k >= PARALLEL_FROM > -(-n // 5) * m * k
    rng = np.random.default_rng(0)
    A, B = grid_array(rng, (n, m), dtype), grid_array(rng, (m, k), dtype)
    parts = [PRODUCTS[kind](part, B, return_index=True) for part in np.array_split(A, 5)]
    last_row = oracles.product(A[-1:], B, k, kind)
    for got, *expected, last in zip(
        PRODUCTS[kind](A, B, return_index=True), *parts, last_row, strict=True
    ):
        assert_array_equal(got, np.concatenate(expected), strict=True)
        assert_array_equal(got[-1:], last)


@KINDS
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_are_rounded_in_the_type_of_the_operands(kind, dtype):
    rng = np.random.default_rng(2)
    A, B = rng.normal(size=(9, 33)).astype(dtype), rng.normal(size=(33, 6)).astype(dtype)
    expected = getattr(A[:, :, None] + B[None], kind)(axis=1)
    assert_array_equal(PRODUCTS[kind](A, B), expected, strict=True)


@KINDS
@pytest.mark.parametrize(
    ("a", "b", "out"),
    [
        (np.float32, np.float32, np.float32),
        (np.float64, np.float64, np.float64),
        (np.float32, np.float64, np.float64),
        (np.float64, np.float32, np.float64),
        (np.float16, np.float16, np.float64),
        (np.int64, np.float32, np.float64),
        (np.uint8, np.int8, np.float64),
        (np.bool_, np.int32, np.float64),
    ],
)
def test_product_has_numpy_result_type(kind, a, b, out):
    A, B = np.array([[0, 1], [1, 1]], a), np.array([[1], [0]], b)
    expected = {"min": [[1], [1]], "max": [[1], [2]]}[kind]
    assert_array_equal(PRODUCTS[kind](A, B), np.array(expected, out), strict=True)


def strided(M):
    wide = np.full((2 * M.shape[0], 3 * M.shape[1]), np.nan)
    wide[::2, 1::3] = M
    return wide[::2, 1::3]


def read_only(M):
    M = M.copy()
    M.flags.writeable = False
    return M


LAYOUTS = {
    "list": np.ndarray.tolist,
    "integer": lambda M: M.astype(int),
    "integer list": lambda M: M.astype(int).tolist(),
    "fortran": np.asfortranarray,
    "strided": strided,
    "reversed": lambda M: M[::-1, ::-1].copy()[::-1, ::-1],
    "read-only": read_only,
    "big-endian": lambda M: M.astype(">f8"),
}


@KINDS
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_product_accepts_any_memory_layout(kind, layout):
    rng = np.random.default_rng(3)
    A, B = 2 * grid_array(rng, (6, 9)), 2 * grid_array(rng, (9, 5))
    expected = oracles.product(A, B, B.shape[1], kind)
    A, B = layout(A), layout(B)
    before = np.array(A), np.array(B)
    got = PRODUCTS[kind](A, B, return_index=True)
    assert_array_equal(got[0], expected[0])
    assert_array_equal(got[1], expected[1])
    assert_array_equal(A, before[0])
    assert_array_equal(B, before[1])


@KINDS
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_product_index_is_correct_in_tiles(kind, dtype):
    """Most values are in several blocks, and some in the last block only."""
    rng = np.random.default_rng(0)
    for n, m, k in product((4, 7, 66, 130), (BLOCK, BLOCK + 1, 3 * BLOCK - 1), (1, 33, 70)):
        A, BT = grid_array(rng, (n, m), dtype), grid_array(rng, (k, m), dtype)
        best = {"min": A.min() + BT.min() - 1.0, "max": A.max() + BT.max() + 1.0}[kind]
        A[3, -1] = best - BT[-1, -1]
        sums = A[:, None, :] + BT
        values, index = np.empty((n, k), dtype), np.empty((n, k), np.int64)
        _tiled(A, BT, kind == "min", values, index)
        assert_array_equal(values, getattr(sums, kind)(axis=2))
        assert_array_equal(index, getattr(sums, f"arg{kind}")(axis=2))
        assert index[3, -1] == m - 1


NARROW = """
import numpy as np
from maxplus._compile import tiles
from maxplus.algebra._kernels import _tiled
assert tiles.PANEL_BYTES == 64
rng = np.random.default_rng(0)
A, BT = rng.integers(-4, 5, (66, 191)).astype("f4"), rng.integers(-4, 5, (70, 191)).astype("f4")
values, index = np.empty((66, 70), "f4"), np.empty((66, 70), np.int64)
_tiled(A, BT, True, values, index)
sums = A[:, None, :] + BT
assert (values == sums.min(axis=2)).all()
assert (index == sums.argmin(axis=2)).all()
"""


@pytest.mark.slow
def test_product_index_is_correct_in_tiles_of_small_registers(tmp_path):
    """Test tiles for processors without vectors of 64 bytes."""
    run_python(
        NARROW,
        NUMBA_CPU_NAME="generic",
        NUMBA_CPU_FEATURES="",
        NUMBA_CACHE_DIR=str(tmp_path),
    )


@pytest.mark.parametrize(
    ("kind", "A", "B", "value", "winner"),
    [
        ("min", [INF, 1.0], [-INF, 2.0], 3.0, 1),
        ("min", [-INF, 1.0], [INF, 2.0], 3.0, 1),
        ("min", [INF, INF], [-INF, 0.0], INF, 0),
        ("min", [5.0, -INF], [-9.0, 2.0], -INF, 1),
        ("max", [INF, 1.0], [-INF, 2.0], 3.0, 1),
        ("max", [-INF, 1.0], [INF, 2.0], 3.0, 1),
        ("max", [-INF, -INF], [INF, 0.0], -INF, 0),
        ("max", [-5.0, INF], [9.0, 2.0], INF, 1),
    ],
)
def test_semiring_zero_absorbs(kind, A, B, value, winner):
    got = PRODUCTS[kind]([A], np.array(B)[:, None], return_index=True)
    assert_array_equal(got[0], [[value]])
    assert_array_equal(got[1], [[winner]])


@KINDS
def test_empty_reduction_has_no_index(kind):
    with pytest.raises(ValueError, match=r"\bA\b"):
        PRODUCTS[kind](np.zeros((3, 0)), np.zeros((0, 2)), return_index=True)


@KINDS
@pytest.mark.parametrize("shape", [(0, 0, 0), (0, 4, 2), (3, 4, 0), (0, 0, 2)])
def test_empty_product_has_an_empty_index(kind, shape):
    n, m, k = shape
    for got in PRODUCTS[kind](np.zeros((n, m)), np.zeros((m, k)), return_index=True):
        assert got.shape == (n, k)


GOOD = [[1.0, 2.0], [3.0, 4.0]]
BAD_OPERANDS = {
    "nan": ([[1.0, np.nan], [3.0, 4.0]], ValueError),
    "float32 nan": (np.array([[1.0, np.nan], [3.0, 4.0]], np.float32), ValueError),
    "vector": ([1.0, 2.0], ValueError),
    "scalar": (1.0, ValueError),
    "cube": (np.zeros((2, 2, 2)), ValueError),
    "complex": ([[1j, 0], [0, 0]], TypeError),
    "text": ([["1", "2"], ["3", "4"]], TypeError),
    "object": ([[None, 2.0], [3.0, 4.0]], TypeError),
}


@KINDS
@pytest.mark.parametrize("name", ["A", "B"])
@pytest.mark.parametrize(("bad", "error"), BAD_OPERANDS.values(), ids=BAD_OPERANDS)
def test_product_error_names_bad_operand(kind, name, bad, error):
    with pytest.raises(error, match=rf"\b{name}\b"):
        PRODUCTS[kind](**({"A": GOOD, "B": GOOD} | {name: bad}))


@KINDS
def test_product_error_names_operands_of_different_shapes(kind):
    with pytest.raises(ValueError, match=r"\bA\b.*\b3\b.*\bB\b.*\b2\b"):
        PRODUCTS[kind](np.zeros((2, 3)), np.zeros((2, 3)))


# -- morphological perceptron -----------------------------------------------------------------

BIASES = st.sampled_from([*GRID.tolist(), INF, -INF])


@quick(60)
@given(n=SIZES_OR_ZERO, m=SIZES_OR_ZERO, seed=SEEDS, dtype=DTYPES, infinities=INFINITIES, b=BIASES)
def test_perceptron_matches_the_oracle(n, m, seed, dtype, infinities, b):
    rng = np.random.default_rng(seed)
    X, w = grid_array(rng, (n, m), dtype, infinities), grid_array(rng, (m,), dtype, infinities)
    expected = [oracles.perceptron(x, w, b) for x in X]
    got = morphological_perceptron(X, w, b)
    assert got.shape == (n,)
    assert_array_equal(got, expected)
    for x, value in zip(X, expected, strict=True):
        got = morphological_perceptron(x, w, b)
        assert np.ndim(got) == 0
        assert got == value
    assert_array_equal(morphological_perceptron(X, w), [oracles.perceptron(x, w, -INF) for x in X])


BAD_PERCEPTRONS = {
    "x nan": ("x", [1.0, np.nan], ValueError),
    "w nan": ("w", [1.0, np.nan], ValueError),
    "b nan": ("b", np.nan, ValueError),
    "x scalar": ("x", 1.0, ValueError),
    "x cube": ("x", np.zeros((1, 1, 2)), ValueError),
    "w matrix": ("w", [[1.0, 2.0]], ValueError),
    "x too long": ("x", [1.0, 2.0, 3.0], ValueError),
    "w too long": ("w", [1.0, 2.0, 3.0], ValueError),
    "x complex": ("x", [1j, 2.0], TypeError),
    "w text": ("w", ["1", "2"], TypeError),
    "b text": ("b", "1", TypeError),
}


@pytest.mark.parametrize(("name", "bad", "error"), BAD_PERCEPTRONS.values(), ids=BAD_PERCEPTRONS)
def test_perceptron_error_names_bad_argument(name, bad, error):
    good = {"x": [1.0, 2.0], "w": [0.0, 1.0], "b": 0.0}
    with pytest.raises(error, match=rf"\b{name}\b"):
        morphological_perceptron(**(good | {name: bad}))


# -- NaN, which public products reject, but weights may become during training ----------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [1, 2, 7, 16, 33, 200])
def test_product_index_is_valid_with_nan(dtype, size):
    rng = np.random.default_rng(size)
    for share in (0.0, 0.3, 1.0):
        a, b = rng.normal(size=(2, size)).astype(dtype)
        a[rng.random(size) < share] = np.nan
        for cell in (_kernels.minplus_cell, _kernels.maxplus_cell):
            assert 0 <= _kernels.first_index(a, b, cell(a, b)) < size
        assert _kernels.first_index(a, b, dtype(np.nan)) == size - 1
    a, b = np.zeros(size, dtype), np.arange(size, dtype=dtype)
    for j in (0, size // 2, size - 1):
        assert _kernels.first_index(a, b, b[j]) == j


@pytest.mark.parametrize("n", [3, 400])
def test_maxplus_winners_are_valid_with_nan(n):
    rng = np.random.default_rng(n)
    A, BT = rng.normal(size=(n, 200)), rng.normal(size=(60, 200))
    assert (A.size * len(BT) >= _kernels.PARALLEL_FROM) == (n == 400)
    A[::2] = np.nan
    BT[3, 4] = np.nan
    _, winners = maxplus_winners(A, BT)
    assert winners.min() >= 0
    assert winners.max() < 200
