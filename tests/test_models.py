"""The three models: scores, losses and active paths."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import oracles
from maxplus.algebra._kernels import PARALLEL_FROM as SCORES_PARALLEL_FROM
from maxplus.models import LMM
from maxplus.models._softmax import PARALLEL_FROM as LOSSES_PARALLEL_FROM
from maxplus.models.initialization import prototype_lmm
from model_cases import (
    CASES,
    EVERY_MODEL,
    FLOATS,
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
def test_forward_pass_on_several_threads(case, dtype):
    """Equal to the pass in fifty parts, each on one thread, and to the oracle in some rows."""
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
    some = slice(None, None, 100)
    assert_array_equal(Z[some], [z for z, *_ in paths(case, X[some], model)])
    expected = [oracles.loss(z, label) for z, label in zip(Z[some], y[some], strict=True)]
    assert_allclose(losses[some], expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("n", [0, 1, 5])
@FLOATS
def test_lmm_hidden_units(n, dtype):
    rng = np.random.default_rng(1)
    model, X = grid_model(CASES["LMM"], rng, (3, 7, 2), dtype), grid_array(rng, (n, 3), dtype)
    expected = table([oracles.lmm_hidden(x, model.W0, model.W1) for x in X], 7, dtype)
    assert_array_equal(model.hidden(X), expected, strict=True)


def test_linear_max_plus_hidden_units():
    rng = np.random.default_rng(2)
    model, X = grid_model(CASES["LinearMaxPlus"], rng, (3, 7, 2)), grid_array(rng, (5, 3))
    raw = np.array([oracles.linear_max_plus_preactivation(x, model.A, model.b) for x in X])
    assert (raw < 0).any()
    assert_array_equal(model.hidden(X), np.where(raw > 0, raw, 0))


@EVERY_MODEL
def test_all_ties_go_to_index_zero(case):
    model = case.draw(np.zeros, 5, 6, 3)
    assert not np.any(model.active_path(np.zeros((2, 5))))


@FLOATS
def test_lmm_path_leads_to_the_score(dtype):
    rng = np.random.default_rng(3)
    model, X = grid_model(CASES["LMM"], rng, (4, 9, 5), dtype), grid_array(rng, (8, 4), dtype)
    unit, row = model.active_path(X)
    lam = model.W0[row] * np.take_along_axis(X, row // 2, axis=1)
    assert_array_equal(lam + model.W1[row, unit] + model.W2[unit, np.arange(5)], model.scores(X))


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
def test_samples_in_any_layout(case, layout):
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
def test_a_model_knows_its_shape(case, dtype, order):
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
def test_a_copy_moves_alone(case):
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
def test_losses_and_errors_of_any_finite_scores(case):
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
def test_extreme_scores(dtype, huge, y, expected):
    lmm = LMM(np.zeros(2, dtype), np.zeros((2, 1), dtype), np.array([[huge, -huge]], dtype))
    for model, x in (
        (score_model(2, dtype), np.array([huge, -huge], dtype)),
        (lmm, np.zeros(1, dtype)),
    ):
        assert_array_equal(model.probabilities(x[None]), [[1.0, 0.0]])
        assert_allclose(model.losses(x[None], np.array([y])), [expected * float(dtype(huge))])
        assert model.subgradient(x, y).squared_norm() < math.inf


def test_small_losses_keep_their_digits():
    z, tiny = np.array([50.0, 0.0]), math.exp(-50)
    model = score_model(2)
    assert_allclose(model.losses(z[None], np.array([0])), [tiny], rtol=1e-12)
    assert_allclose(model.subgradient(z, 0)["W"].value, [-tiny, tiny], rtol=1e-12)


def test_a_single_class_is_certain():
    model = score_model(1)
    assert_array_equal(model.losses(np.array([[-3.0]]), np.array([0])), [0.0])
    assert_array_equal(model.subgradient(np.array([-3.0]), 0)["W"].value, [0.0])


# The paper's proposition: where every loss is below log 2, every sample is classified correctly.


def worst_loss_and_all_correct(model, X, y):
    return model.losses(X, y).max(), np.array_equal(model.scores(X).argmax(axis=1), y)


@st.composite
def labelled_scores(draw):
    """Scores in which the label is ahead by a margin that may or may not be enough."""
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
    worst, correct = worst_loss_and_all_correct(score_model(Z.shape[1]), Z, y)
    assume(worst < math.log(2))
    assert correct


def test_proposition_on_models_of_both_kinds():
    """Prototype models, from hopeless to perfect: both sides of the implication occur often."""
    rng = np.random.default_rng(7)
    premise = wrong = 0
    for _ in range(300):
        P, H, C = rng.integers(1, 5), rng.integers(3, 9), rng.integers(2, 4)
        X, y = rng.normal(size=(H, P)), rng.integers(C, size=H)
        model = prototype_lmm(X, y, C, slope=rng.uniform(0.5, 20), init_margin=rng.uniform(0, 3))
        seen = X + rng.normal(size=X.shape) * rng.choice([0.0, 0.5])
        worst, correct = worst_loss_and_all_correct(model, seen, y)
        premise += worst < math.log(2)
        wrong += not correct
        assert correct or worst >= math.log(2)
    assert premise > 50
    assert wrong > 50


@pytest.mark.parametrize("gap", [0.0, 5e-324, 1e-17, *(k * 2.0**-52 for k in range(1, 40)), 1e-9])
def test_log_2_is_the_exact_border(gap):
    """Of two classes, one that is behind or level never has a loss below log 2."""
    worst, correct = worst_loss_and_all_correct(
        score_model(2), np.array([[gap, 0.0]]), np.array([1])
    )
    assert not correct
    assert worst >= math.log(2)
