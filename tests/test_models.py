"""The three models: scores, losses, active paths and input validation."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import oracles
from maxplus.algebra._kernels import PARALLEL_FROM as SCORES_PARALLEL_FROM
from maxplus.models import LMM, LOG2, LinearMaxPlus, ZeroHidden
from maxplus.models._softmax import PARALLEL_FROM as LOSSES_PARALLEL_FROM
from model_cases import (
    CASES,
    EVERY_MODEL,
    FLOATS,
    C,
    H,
    P,
    assert_same_layers,
    dense,
    grid_model,
    normal_model,
    paths,
    problems,
    score_model,
    table,
)
from strategies import SEEDS, grid_array, quick


@EVERY_MODEL
@quick(50)
@given(problem=problems())
def test_forward_pass_matches_the_oracle(case, problem):
    rng, (P, H, C), X, y = problem
    model = grid_model(case, rng, (P, H, C), X.dtype)
    expected = paths(case, X, model)
    Z = table([z for z, *_ in expected], C, X.dtype)
    assert_array_equal(model.scores(X), Z, strict=True)
    chances = table([oracles.softmax(z) for z in Z], C, X.dtype)
    got = model.probabilities(X)
    assert_allclose(got, chances, rtol=20 * np.finfo(X.dtype).eps)
    assert got.dtype == X.dtype
    losses = np.array([oracles.loss(z, label) for z, label in zip(Z, y, strict=True)])
    got = model.losses(X, y)
    assert_allclose(got, losses, rtol=1e-12, atol=1e-14, strict=True)
    got = model.active_path(X)
    for part, winners in enumerate(got if isinstance(got, tuple) else [got]):
        rows = table([path[1 + part] for path in expected], C, int)
        assert_array_equal(winners, rows, strict=True)


@EVERY_MODEL
@FLOATS
def test_forward_pass_is_the_same_on_several_threads(case, dtype):
    """Compare with fifty parts, each on one thread, and some rows with the oracle."""
    n, (P, H, C) = 4001, (33, 45, 33)
    assert n * P * C >= SCORES_PARALLEL_FROM > (n // 50 + 1) * 2 * P * H
    assert n * C >= LOSSES_PARALLEL_FROM > (n // 50 + 1) * C
    rng = np.random.default_rng(0)
    model, X = grid_model(case, rng, (P, H, C), dtype), grid_array(rng, (n, P), dtype)
    y = rng.integers(C, size=n)
    Z, losses = model.scores(X), model.losses(X, y)
    parts = list(zip(np.array_split(X, 50), np.array_split(y, 50), strict=True))
    expected = np.concatenate([model.scores(part) for part, _ in parts])
    assert_array_equal(Z, expected, strict=True)
    assert_array_equal(losses, np.concatenate([model.losses(*part) for part in parts]))
    some = slice(None, None, 1000)
    assert_array_equal(Z[some], [z for z, *_ in paths(case, X[some], model)])
    expected = [oracles.loss(z, label) for z, label in zip(Z[some], y[some], strict=True)]
    assert_allclose(losses[some], expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("n", [0, 1, 5])
@FLOATS
def test_lmm_hidden_units_match_the_formula(n, dtype):
    rng = np.random.default_rng(1)
    model, X = grid_model(CASES["LMM"], rng, (3, 7, 2), dtype), grid_array(rng, (n, 3), dtype)
    expected = table([oracles.lmm_hidden(x, model.W0, model.W1) for x in X], 7, dtype)
    assert_array_equal(model.hidden(X), expected, strict=True)


def test_linear_max_plus_hidden_units_match_the_formula():
    rng = np.random.default_rng(2)
    model, X = grid_model(CASES["LinearMaxPlus"], rng, (3, 7, 2)), grid_array(rng, (5, 3))
    raw = np.array([oracles.linear_max_plus_preactivation(x, model.A, model.b) for x in X])
    assert (raw < 0).any()
    assert_array_equal(model.hidden(X), np.where(raw > 0, raw, 0))


def fortran(X):
    return np.asfortranarray(X)


def strided(X):
    return np.repeat(X, 2, axis=1)[:, ::2]


def read_only(X):
    X = X.copy()
    X.flags.writeable = False
    return X


@EVERY_MODEL
@pytest.mark.parametrize("layout", [fortran, strided, read_only])
def test_forward_pass_accepts_any_memory_layout(case, layout):
    rng = np.random.default_rng(4)
    model, X = normal_model(case, rng, (5, 6, 3)), rng.normal(size=(9, 5))
    same = layout(X)
    assert_array_equal(model.scores(same), model.scores(X))
    assert_array_equal(model.active_path(same), model.active_path(X))
    got, expected = model.subgradient(same[1], 2), model.subgradient(X[1], 2)
    assert_same_layers(dense(model, got), dense(model, expected), rtol=0)


@EVERY_MODEL
@FLOATS
@pytest.mark.parametrize("order", ["C", "F"])
def test_model_shape_attributes(case, dtype, order):
    rng = np.random.default_rng(5)
    weights = [
        np.array(rng.normal(size=shape), dtype, order=order) for shape in case.shapes(4, 6, 3)
    ]
    model = case.model(*weights)
    assert (model.n_features, model.n_classes, model.dtype) == (4, 3, dtype)
    assert getattr(model, "n_hidden", 6) == 6
    assert model.n_weights() == sum(W.size for W in weights)
    assert model.scores(np.zeros((2, 4), dtype)).dtype == dtype


@EVERY_MODEL
def test_model_copy_is_independent(case):
    rng = np.random.default_rng(6)
    model, x = normal_model(case, rng, (4, 6, 3)), rng.normal(size=4)
    before = {name: getattr(model, name).copy() for name in model.layers}
    twin = model.copy()
    assert type(twin) is type(model)
    assert_array_equal(twin.scores(x[None]), model.scores(x[None]))
    twin.move(twin.mean_subgradient(x[None], np.array([0])), 1.0)
    assert_same_layers({name: getattr(model, name) for name in before}, before, rtol=0)
    assert np.any(twin.scores(x[None]) != model.scores(x[None]))


# -- losses -----------------------------------------------------------------------------------

ANY_SCORE = st.floats(-1e300, 1e300) | st.sampled_from([0.0, 1.0, 1e4, -1e4, 1e300, -1e300])


@st.composite
def scores_and_label(draw):
    z = draw(st.lists(ANY_SCORE, min_size=1, max_size=5))
    return np.array(z), draw(st.integers(0, len(z) - 1))


@quick(150)
@given(case=scores_and_label())
def test_losses_and_errors_are_finite_for_finite_scores(case):
    z, y = case
    model = score_model(z.size)
    assert_array_equal(model.scores(z[None]), z[None])
    chances = model.probabilities(z[None])[0]
    assert np.isfinite(chances).all()
    assert (chances >= 0).all()
    assert math.isclose(chances.sum(), 1.0, rel_tol=1e-12)
    loss = model.losses(z[None], np.array([y]))[0]
    assert 0 <= loss < math.inf
    assert_allclose(loss, oracles.loss(z, y), rtol=1e-12, atol=1e-14)
    e = model.subgradient(z, y)["W"].value
    assert_allclose(e, oracles.errors(z, y), rtol=1e-12, atol=1e-14)
    assert e[y] <= 0


@pytest.mark.parametrize(
    ("dtype", "huge"),
    [(np.float64, 1e4), (np.float64, 1e300), (np.float32, 1e4), (np.float32, 1e30)],
)
@pytest.mark.parametrize(("y", "expected"), [(0, 0.0), (1, 2.0)])
def test_losses_of_extreme_scores(dtype, huge, y, expected):
    lmm = LMM(np.zeros(2, dtype), np.zeros((2, 1), dtype), np.array([[huge, -huge]], dtype))
    for model, x in (
        (score_model(2, dtype), np.array([huge, -huge], dtype)),
        (lmm, np.zeros(1, dtype)),
    ):
        assert_array_equal(model.probabilities(x[None]), [[1.0, 0.0]])
        assert_allclose(model.losses(x[None], np.array([y])), [expected * float(dtype(huge))])
        assert model.subgradient(x, y).squared_norm() < math.inf


def test_small_losses_are_accurate():
    z, tiny = np.array([50.0, 0.0]), math.exp(-50)
    model = score_model(2)
    assert_allclose(model.losses(z[None], np.array([0])), [tiny], rtol=1e-12)
    assert_allclose(model.subgradient(z, 0)["W"].value, [-tiny, tiny], rtol=1e-12)


# The paper's proposition: if all losses are below log 2, all samples are classified correctly.


@st.composite
def labelled_scores(draw):
    """Draw scores and labels; the score of the label is the largest, by various margins."""
    n, C = draw(st.integers(1, 6)), draw(st.integers(2, 5))
    rng = np.random.default_rng(draw(SEEDS))
    y = rng.integers(C, size=n)
    Z = rng.normal(size=(n, C))
    Z[np.arange(n), y] = Z.max(axis=1) + draw(st.floats(0.5, 3.0))
    return Z, y


@quick(100)
@given(case=labelled_scores())
def test_all_losses_below_log_2_means_all_correct(case):
    Z, y = case
    assume(score_model(Z.shape[1]).losses(Z, y).max() < LOG2)
    assert_array_equal(Z.argmax(axis=1), y)


@pytest.mark.parametrize("gap", [0.0, 5e-324, 1e-17, *(k * 2.0**-52 for k in range(1, 40)), 1e-9])
def test_log_2_is_the_exact_threshold(gap):
    """A class whose score is not the larger of two has a loss of at least log 2."""
    assert math.log(2) == LOG2
    assert score_model(2).losses(np.array([[gap, 0.0]]), np.array([1]))[0] >= LOG2


# -- input validation ---------------------------------------------------------------------

METHODS = [
    "scores",
    "active_path",
    "probabilities",
    "hidden",
    "activation_counts",
    "losses",
    "mean_subgradient",
]


def call(model, method, X, y=None):
    """Call a public method with samples, and with labels if it takes labels."""
    if method in ("losses", "mean_subgradient"):
        return getattr(model, method)(X, np.zeros(len(X), int) if y is None else y)
    return getattr(model, method)(X)


def methods(model):
    return [method for method in METHODS if hasattr(model, method)]


@EVERY_MODEL
@pytest.mark.parametrize("shape", [(5, 3), (5, 5), (0, 3), (4,), (5, 4, 1), (5, 0)])
def test_methods_reject_samples_of_wrong_shape(case, shape):
    model = normal_model(case, np.random.default_rng(0), (P, H, C))
    for method in methods(model):
        with pytest.raises(ValueError, match=r"X must have 4 columns.* got shape \(") as caught:
            call(model, method, np.zeros(shape))
        assert str(shape) in str(caught.value)


@EVERY_MODEL
def test_methods_reject_samples_of_wrong_type(case):
    model = normal_model(case, np.random.default_rng(0), (P, H, C))
    for method in methods(model):
        with pytest.raises(ValueError, match="X must hold real numbers; got dtype"):
            call(model, method, np.full((2, P), "a"))


def test_methods_accept_zero_samples():
    """The oracle is compared with the other methods for zero samples, too."""
    model = normal_model(CASES["LMM"], np.random.default_rng(0), (P, H, C))
    assert model.losses(np.empty((0, P)), []).shape == (0,)
    assert_array_equal(model.activation_counts(np.empty((0, P))), np.zeros(H))


@EVERY_MODEL
def test_methods_accept_lists(case):
    model = normal_model(case, np.random.default_rng(0), (P, H, C))
    X, y = np.random.default_rng(1).normal(size=(5, P)), np.array([0, 1, 2, 1, 0])
    for method in methods(model):
        if method != "mean_subgradient":
            assert_array_equal(
                call(model, method, X.tolist(), y.tolist()), call(model, method, X, y)
            )


@EVERY_MODEL
@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0, 1], r"one label for each of the 3 rows of X; got shape \(2,\)"),
        ([[0], [1], [2]], r"got shape \(3, 1\)"),
        (0, r"got shape \(\)"),
        ([0, 1, 3], r"labels 0\.\.2; got 3"),
        ([0, -1, 2], r"labels 0\.\.2; got -1"),
        (np.array([0, 2**63, 2], np.uint64), r"labels 0\.\.2; got 9223372036854775808"),
        ([0.0, 1.0, 2.0], r"integers 0\.\.2; got dtype float64"),
        (["a", "b", "c"], r"integers 0\.\.2; got dtype <U1"),
    ],
)
def test_losses_reject_invalid_labels(case, y, message):
    model = normal_model(case, np.random.default_rng(0), (P, H, C))
    X = np.zeros((3, P))
    for method in ("losses", "mean_subgradient"):
        with pytest.raises(ValueError, match=f"y must hold .*{message}"):
            call(model, method, X, np.asarray(y))


@EVERY_MODEL
@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int32, np.uint64])
def test_losses_accept_labels_of_any_integer_type(case, kind):
    model = normal_model(case, np.random.default_rng(0), (P, H, C))
    X, y = np.random.default_rng(1).normal(size=(5, P)), np.array([0, 1, 2, 1, 0])
    assert_array_equal(model.losses(X, y.astype(kind)), model.losses(X, y))
    assert_array_equal(model.losses(X, np.repeat(y.astype(kind), 2)[::2]), model.losses(X, y))


@EVERY_MODEL
def test_subgradient_rejects_invalid_sample(case):
    model = normal_model(case, np.random.default_rng(0), (P, H, C))
    for shape in ((3,), (5,), (1, 4), ()):
        with pytest.raises(ValueError, match=r"x must hold 4 numbers.* got shape"):
            model.subgradient(np.zeros(shape), 0)
    for y in (-1, 3, 1.0, "a", None):
        with pytest.raises(ValueError, match=r"y must be an integer 0\.\.2; got"):
            model.subgradient(np.zeros(P), y)
    model.subgradient(np.zeros(P), np.int64(2))


@EVERY_MODEL
def test_mean_subgradient_rejects_weights_of_wrong_length(case):
    model = normal_model(case, np.random.default_rng(0), (P, H, C))
    with pytest.raises(ValueError, match=r"weight must hold one number .* 2 rows"):
        model.mean_subgradient(np.zeros((2, P)), np.array([0, 1]), np.ones(3))


@pytest.mark.parametrize(
    ("model", "shapes"),
    [
        (LMM, [(8,), (6, 5), (5, 3)]),
        (LMM, [(8,), (8, 5), (4, 3)]),
        (LMM, [(4, 2), (8, 5), (5, 3)]),
        (LMM, [(8,), (8, 5), (5,)]),
        (LMM, [(8,), (5, 8), (5, 3)]),
        (LMM, [(7,), (7, 5), (5, 3)]),
        (LMM, [(0,), (0, 5), (5, 3)]),
        (LMM, [(8,), (8, 0), (0, 3)]),
        (LMM, [(8,), (8, 5), (5, 0)]),
        (ZeroHidden, [(3,)]),
        (ZeroHidden, [(3, 0)]),
        (ZeroHidden, [(0, 4)]),
        (LinearMaxPlus, [(4, 5), (4,), (5, 3)]),
        (LinearMaxPlus, [(4, 5), (5, 1), (5, 3)]),
        (LinearMaxPlus, [(4, 5), (5,), (4, 3)]),
        (LinearMaxPlus, [(0, 5), (5,), (5, 3)]),
    ],
)
def test_models_reject_weights_of_wrong_shape(model, shapes):
    with pytest.raises(ValueError, match=f"{model.__name__} requires weights of shapes") as caught:
        model(*(np.ones(shape) for shape in shapes))
    assert all(str(shape) in str(caught.value) for shape in shapes)


@EVERY_MODEL
def test_models_reject_weights_of_wrong_type(case):
    good = [np.ones(shape) for shape in case.shapes(P, H, C)]
    for k in range(len(good)):
        if len(good) > 1:
            mixed = [W.astype(np.float32) if i == k else W for i, W in enumerate(good)]
            with pytest.raises(ValueError, match=r"all float32 or all float64; got .*float32"):
                case.model(*mixed)
    for dtype in (int, bool, np.float16, complex, object):
        with pytest.raises(ValueError, match="all float32 or all float64; got"):
            case.model(*(W.astype(dtype) for W in good))


# -- NaN --------------------------------------------------------------------------------------


@EVERY_MODEL
@FLOATS
def test_nan_gives_valid_indices(case, dtype):
    """Kernels do not check bounds, so that winners must be valid indices."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, P)).astype(dtype)
    with_nan = X.copy()
    with_nan[::3] = np.nan
    sizes = {"LMM": (H, 2 * P), "ZeroHidden": (P,), "LinearMaxPlus": (H,)}[case.model.__name__]
    for share in (0.0, 0.2, 1.0):
        model = normal_model(case, rng, (P, H, C), dtype)
        for name in model.layers:
            W = getattr(model, name)
            W[rng.random(W.shape) < share] = np.nan
        for rows in (X, with_nan):
            path = model.active_path(rows)
            for winners, size in zip(path if case.model is LMM else [path], sizes, strict=True):
                assert 0 <= winners.min() <= winners.max() < size
            model.losses(rows, np.zeros(len(rows), int))
            for entries in model.subgradient(rows[0], 0).values():
                assert all((index >= 0).all() for index in entries.index)
            if case.model is LMM:
                assert model.activation_counts(rows).sum() == len(rows) * C
