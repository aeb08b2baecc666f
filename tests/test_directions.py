"""An LMM that sees weighted sums of its features."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from maxplus.models import LMM
from maxplus.models.pruning import with_units
from model_cases import (
    CASES,
    FLOATS,
    C,
    H,
    P,
    assert_same_layers,
    dense,
    normal_model,
)


def seen_model(rng, dtype=np.float64, M=5):
    """A model that looks at M sums of P features."""
    plain = normal_model(CASES["LMM"], rng, (M, H, C), dtype)
    return plain, LMM(plain.W0, plain.W1, plain.W2, rng.normal(size=(M, P)))


def slow_views(model, X):
    """Σ_p D[m, p]·x_p in the model's type, from the first feature to the last."""
    V = np.zeros((len(X), model.n_views), model.dtype)
    for p in range(model.n_features):
        V += X[:, p, None].astype(model.dtype) * model.directions[:, p]
    return V


@FLOATS
def test_a_model_with_directions_is_a_plain_one_of_its_views(dtype):
    rng = np.random.default_rng(0)
    plain, model = seen_model(rng, dtype)
    X, y = rng.normal(size=(70, P)).astype(dtype), rng.integers(C, size=70)
    V = slow_views(model, X)
    assert (model.n_features, model.n_views, model.n_hidden) == (P, 5, H)
    assert (model.directions.dtype, model.directions.flags.c_contiguous) == (dtype, True)
    assert_array_equal(model.views(X), V, strict=True)
    assert_allclose(V, X.astype(float) @ model.directions.T.astype(float), rtol=1e-5, atol=1e-5)
    for door in ("scores", "hidden", "wins", "probabilities"):
        assert_array_equal(getattr(model, door)(X), getattr(plain, door)(V), strict=True)
    assert_array_equal(model.losses(X, y), plain.losses(V, y))
    for one, other in zip(model.active_path(X), plain.active_path(V), strict=True):
        assert_array_equal(one, other)
    assert_same_layers(
        dense(model, model.subgradient(X[3], int(y[3]))),
        dense(plain, plain.subgradient(V[3], int(y[3]))),
    )
    assert_same_layers(
        dense(model, model.mean_subgradient(X, y)), dense(plain, plain.mean_subgradient(V, y))
    )
    assert model.n_weights() == plain.n_weights()


@FLOATS
def test_a_row_has_the_same_scores_alone_and_among_others(dtype):
    rng = np.random.default_rng(1)
    _, model = seen_model(rng, dtype)
    X = rng.normal(size=(101, P)).astype(dtype)
    alone = np.concatenate([model.scores(x[None]) for x in X])
    assert_array_equal(model.scores(X), alone)
    assert_array_equal(model.scores(np.asfortranarray(X)), alone)


def test_without_directions_views_are_the_features():
    model = normal_model(CASES["LMM"], np.random.default_rng(0), (P, H, C))
    X = np.random.default_rng(1).normal(size=(5, P))
    assert model.directions is None
    assert model.n_views == model.n_features == P
    assert np.shares_memory(model.views(X), X)
    assert list(model.weights_by_name()) == ["W2", "W1", "W0"]


def test_directions_stay_with_the_model():
    rng = np.random.default_rng(0)
    _, model = seen_model(rng)
    X, D = rng.normal(size=(30, P)), model.directions
    twin, halved, single = model.copy(), model.scaled(0.5), model.astype(np.float32)
    assert_array_equal(twin.scores(X), model.scores(X))
    assert not np.shares_memory(twin.directions, D)
    assert_array_equal(halved.scores(X), 0.5 * model.scores(X))
    assert single.directions.dtype == np.float32
    assert_allclose(single.scores(X), model.scores(X), atol=1e-5)
    assert model.astype(np.float64).directions is D
    few = with_units(model, np.array([0, 2]))
    assert_array_equal(few.directions, D)
    assert_array_equal(few.hidden(X), model.hidden(X)[:, [0, 2]])
    names = [*model.weights_by_name()]
    assert names == ["W2", "W1", "W0", "directions"]
    again = LMM.of_weights(model.weights_by_name(copy=True))
    assert_array_equal(again.scores(X), model.scores(X))


@FLOATS
def test_a_model_of_centred_views_takes_raw_rows(dtype):
    rng = np.random.default_rng(0)
    plain = normal_model(CASES["LMM"], rng, (5, H, C), dtype)
    D, centre = rng.normal(size=(5, P)), rng.normal(size=P)
    X = rng.normal(size=(40, P)) + centre
    expected = plain.scores((X - centre) @ D.T)
    model = plain.through(D, centre)
    assert model.dtype == dtype
    tolerance = 200 * np.finfo(dtype).eps
    assert_allclose(model.scores(X), expected, rtol=tolerance, atol=tolerance)
    assert_array_equal(model.W0, plain.W0)
    assert_array_equal(model.directions, D.astype(dtype))
    # Directions of directions, and an affine map before them.
    E, spread = rng.normal(size=(P, 3)), rng.uniform(0.5, 2, size=3)
    shift, U = rng.normal(size=3), rng.normal(size=(40, 3))
    both = model.through(E, shift)
    assert both.n_features == 3
    deep = plain.scores(((U - shift) @ E.T - centre) @ D.T)
    assert_allclose(both.scores(U), deep, rtol=5 * tolerance, atol=5 * tolerance)
    folded = both.folded(shift, spread)
    expected = both.scores((U - shift) / spread)
    assert_allclose(folded.scores(U), expected, rtol=5 * tolerance, atol=5 * tolerance)
    assert_allclose(folded.directions, both.directions / spread, rtol=tolerance)


def test_views_of_single_features_are_features():
    """Their weights go into the slopes; a diagonal leaves no directions at all."""
    rng = np.random.default_rng(0)
    plain = normal_model(CASES["LMM"], rng, (P, H, C))
    X, centre, spread = rng.normal(size=(20, P)), rng.normal(size=P), rng.uniform(0.5, 2, size=P)
    model = plain.through(np.diag(1 / spread), centre)
    assert model.directions is None
    assert_allclose(model.scores(X), plain.folded(centre, spread).scores(X), atol=1e-12)
    mixed = np.diag(1 / spread)
    mixed[1], mixed[2] = rng.normal(size=P), -mixed[2]
    model = plain.through(mixed, centre)
    assert_allclose(model.scores(X), plain.scores((X - centre) @ mixed.T), atol=1e-12)
    assert_array_equal(model.directions[[0, 3]], np.eye(P)[[0, 3]])
    assert_array_equal(model.directions[2], -np.eye(P)[2])
    assert_array_equal(model.directions[1], mixed[1])
    assert_allclose(model.slopes[0], plain.slopes[0] / spread[0])


@FLOATS
def test_a_unit_moves_onto_a_row_of_raw_features(dtype):
    rng = np.random.default_rng(0)
    _, model = seen_model(rng, dtype)
    model.W0[:] = np.tile([2, -2], 5)
    point = rng.normal(size=P).astype(dtype)
    model.seat_unit(1, point, np.arange(C))
    assert model.hidden(point[None])[0, 1] == 0.0
    assert (model.hidden(rng.normal(size=(50, P)))[:, 1] < 0).all()


@pytest.mark.parametrize(
    ("directions", "message"),
    [
        (np.ones((4, 3)), r"directions must have shape \(5, P\)"),
        (np.ones(5), r"got shape \(5,\)"),
        (np.ones((5, 0)), r"got shape \(5, 0\)"),
        (np.ones((5, 3), int), "directions must hold floats"),
        (np.full((5, 3), "a"), "directions must hold floats"),
        (np.full((5, 3), math.nan), "directions must be finite"),
        (np.full((5, 3), math.inf), "directions must be finite"),
        (np.full((5, 3), 1e300), "directions must be finite numbers of float32"),
    ],
)
def test_directions_that_are_none(directions, message):
    model = normal_model(CASES["LMM"], np.random.default_rng(0), (5, H, C), np.float32)
    with pytest.raises(ValueError, match=message):
        LMM(model.W0, model.W1, model.W2, directions)


def test_maps_that_cannot_be_taken_in():
    model = normal_model(CASES["LMM"], np.random.default_rng(0), (5, H, C), np.float32)
    D = np.ones((5, 2))
    for arguments, message in [
        ((np.ones((4, 2)), 0.0), r"directions must have shape \(5, P\)"),
        ((D, [0.0, math.inf]), "centre must be finite"),
        ((D, np.zeros(3)), "centre must be a number or 2 numbers"),
        ((1e300 * D, 0.0), "do not fit into float32: scale directions"),
        ((D, 1e300), "do not fit into float32"),
    ]:
        with pytest.raises(ValueError, match=message):
            model.through(*arguments)


@FLOATS
def test_rows_of_views_are_refused_where_features_are_wanted(dtype):
    _, model = seen_model(np.random.default_rng(0), dtype)
    for door in ("scores", "hidden", "wins", "active_path", "views"):
        with pytest.raises(ValueError, match=f"X must have {P} columns"):
            getattr(model, door)(np.zeros((2, 5)))
