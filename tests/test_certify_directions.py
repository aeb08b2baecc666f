"""Certificates of models that see weighted sums of features."""

from itertools import product
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from certified import BOTH_TYPES, ROUNDING, SHORT, cases, inside, predict, random_model, size
from maxplus.certify import box_bounds, certified_radius
from maxplus.models import LMM
from strategies import DTYPES, SEEDS, quick

pytestmark = pytest.mark.slow


class Viewed(NamedTuple):
    """A model that sees views of its rows, rows, and the features' scales."""

    model: LMM
    X: np.ndarray
    scale: np.ndarray


@st.composite
def viewed(draw):
    """Directions that share features, or have each its own; some numbers are large."""
    P, M, H, C, N = (draw(st.integers(low, 5)) for low in (1, 1, 1, 2, 1))
    rng, dtype = np.random.default_rng(draw(SEEDS)), draw(DTYPES)
    D = rng.normal(size=(M, P)) * (rng.random((M, P)) < draw(st.sampled_from([0.5, 1.0])))
    if draw(st.booleans()):
        D *= np.arange(P) % M == np.arange(M)[:, None]
    plain = random_model(rng, M, H, C)
    X = rng.normal(size=(N, P)) + 1e3 * draw(st.booleans())
    scale = rng.choice([0.0, 0.5, 1.0, 4.0], size=P) if draw(st.booleans()) else np.ones(P)
    # Some rows of D are of another size than the others.
    size_of = rng.choice([1.0, 1.0, 1e3, 1e-3], size=(M, 1))
    plain = plain.astype(dtype)
    return Viewed(LMM(plain.W0, plain.W1, plain.W2, D * size_of), X.astype(dtype), scale)


def uphill(model, points, y, d):
    """Per row: the sign with which each feature takes class y down and class d up, by slopes."""
    path, D = model.active_path(points), model.directions
    rows = np.arange(len(points))
    lines = [model.W0[path.row[rows, c], None] * D[path.row[rows, c] // 2] for c in (y, d)]
    return np.sign(lines[1] - lines[0])


def corner_attack(model, X, radius, scale, seed=0, tries=24, rounds=6):
    """Whether a point in a row's box is classified differently.

    Tried are random points and corners, the corners where a view is lowest or highest,
    and towards every class the corner that both scores' slopes point to, again and again.
    """
    rng = np.random.default_rng(seed)
    y, reach = predict(model, X), radius[:, None] * scale
    signs = [*rng.choice([-1.0, 1.0], (tries, *X.shape)), *rng.uniform(-1, 1, (tries, *X.shape))]
    signs += [sign * np.sign(row) for row in model.directions for sign in (-1.0, 1.0)]
    flipped = np.zeros(len(X), bool)
    for sign in signs:
        flipped |= predict(model, inside(X, reach * sign)) != y
    for d in range(model.n_classes):
        points = X
        for _ in range(rounds):
            sign = uphill(model, points, y, np.full(len(X), d))
            flipped |= predict(model, inside(X, reach * sign)) != y
            points = inside(X, reach * sign * rng.uniform(0, 1, (len(X), 1)))
    return flipped


@given(viewed(), SEEDS)
@quick(150)
def test_no_corner_inside_the_radius_flips_a_model_with_directions(case, seed):
    model, X, scale = case
    radius = certified_radius(model, X, scale)
    assert (radius >= 0).all()
    finite = np.minimum(radius, 1e3)
    assert not corner_attack(model, X, finite, scale, seed).any()


@BOTH_TYPES
def test_attacks_on_directions_succeed_farther_out(dtype):
    rng = np.random.default_rng(0)
    plain = random_model(rng, 6, 12, 3).astype(dtype)
    model = LMM(plain.W0, plain.W1, plain.W2, rng.normal(size=(6, 4)))
    X, ones = rng.normal(size=(300, 4)).astype(dtype), np.ones(4)
    radius = certified_radius(model, X)
    assert (radius > 0).all()
    assert not corner_attack(model, X, radius, ones, rounds=12).any()
    assert corner_attack(model, X, 1.5 * radius, ones, rounds=12).mean() > 0.1
    assert corner_attack(model, X, 4.0 * radius, ones, rounds=12).mean() > 0.5


@given(viewed(), st.sampled_from([0.0, 1e-3, 0.3, 5.0]), SEEDS)
@quick(150)
def test_scores_of_views_lie_between_the_bounds(case, eps, seed):
    model, X, scale = case
    low, high = box_bounds(model, X, eps, scale)
    rng = np.random.default_rng(seed)
    corners = [*rng.choice([-1.0, 1.0], (16, *X.shape)), np.zeros(X.shape)]
    corners += [sign * np.sign(row) for row in model.directions for sign in (-1.0, 1.0)]
    for corner in corners:
        Z = model.scores(inside(X, eps * scale * corner))
        assert (low <= Z).all()
        assert (high >= Z).all()


@given(cases())
@quick(100)
def test_a_diagonal_of_directions_is_a_scale(case):
    """|D_pp|·scale_p is the scale of view p, and nothing else happens to the bounds."""
    model, X, eps, scale = case
    D = np.diag(2.0 ** np.arange(model.n_features) * (-1.0) ** np.arange(model.n_features))
    seen = LMM(model.W0, model.W1, model.W2, D)
    V, factors = X @ D.astype(X.dtype), np.abs(np.diag(D)) * scale
    expected = box_bounds(model, V, eps, factors)
    slack = 10 * ROUNDING[model.dtype] * size(model, V, eps, factors)[:, None]
    for got, bound in zip(box_bounds(seen, X, eps, scale), expected, strict=True):
        assert (np.abs(got - bound) <= slack).all()
    if model.dtype == np.float64:
        radii = certified_radius(seen, X, scale), certified_radius(model, V, factors)
        atol = 1e-9 * size(model, V, 1.0, factors).max()
        steep = np.abs(model.slopes * factors[:, None]).max()
        if steep > 0.1:
            assert_allclose(*radii, rtol=3 * SHORT, atol=atol)


def test_the_rounding_of_views_is_allowed_for():
    """In float32 a sum of 1 and 199 numbers below half a unit in its last place is 1."""
    P = 200
    x = np.full((1, P), 2.0**-25, np.float32)
    x[0, 0] = 1.0
    zero = np.zeros((2, 1), np.float32)
    model = LMM(np.array([1, 1], np.float32), zero, zero.T, np.ones((1, P)))
    exact_score = x.astype(np.float64).sum()
    assert model.scores(x).tolist() == [[1.0, 1.0]]
    assert exact_score - 1.0 > 10 * 4 * np.finfo(np.float32).eps
    low, high = box_bounds(model, x, 0.0)
    assert (low <= 1.0).all()
    assert (high >= exact_score).all()


def test_lowest_values_are_exact_with_directions():
    """One unit, one class of interest: some corner of the box reaches the lower bound."""
    rng = np.random.default_rng(2)
    for _ in range(20):
        plain = random_model(rng, 3, 1, 2)
        model = LMM(plain.W0, plain.W1, plain.W2, rng.normal(size=(3, 4)))
        x = rng.normal(size=(1, 4))
        corners = np.array(list(product([-1.0, 1.0], repeat=4)))
        lowest = model.scores(x + 0.3 * corners).min(axis=0)
        assert_allclose(box_bounds(model, x, 0.3).low[0], lowest, rtol=1e-12, atol=1e-12)
