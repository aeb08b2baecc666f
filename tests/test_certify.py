"""Certificates and radii against exact bounds, linear programs and fine grids."""

from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import linprog

from certified import (
    BOTH_TYPES,
    ROUGH,
    ROUNDING,
    SHORT,
    attack,
    cases,
    cast,
    cones,
    exact_bounds,
    exact_gap,
    inside,
    lipschitz_radius,
    peaks,
    predict,
    random_model,
    size,
)
from maxplus.certify import Bounds, box_bounds, certified_at, certified_radius
from maxplus.certify.margins import Margins
from maxplus.models import LMM
from strategies import DTYPES, SEEDS, quick

pytestmark = pytest.mark.slow


@given(cases())
@quick(150)
def test_score_bounds_are_exact(case):
    """Never inside the exact bounds, and outside by no more than rounding."""
    model, X, eps, scale = case
    bounds = box_bounds(*case)
    assert isinstance(bounds, Bounds)
    slack = ROUNDING[model.dtype] * size(model, X, eps, scale)
    for n, x in enumerate(X):
        low, high = exact_bounds(model, x, eps, scale)
        for d in range(model.n_classes):
            assert 0 <= low[d] - Fraction(bounds.low[n, d]) <= slack[n]
            assert 0 <= Fraction(bounds.high[n, d]) - high[d] <= slack[n]


@given(cases(), DTYPES, SEEDS)
@quick(150)
def test_scores_lie_between_their_bounds(case, dtype, seed):
    """Of rows in either float type, which the model may have to round first."""
    model, X, eps, scale = case
    X = X.astype(dtype)
    low, high = box_bounds(model, X, eps, scale)
    rng = np.random.default_rng(seed)
    steps = np.concatenate([rng.uniform(-1, 1, (8, *X.shape)), rng.choice([-1, 1], (8, *X.shape))])
    best = np.clip(peaks(model)[:, None] - X, -eps * scale, eps * scale)
    for step in [*(eps * scale * steps), *best]:
        Z = model.scores(inside(X, step))
        assert (low <= Z).all()
        assert (high >= Z).all()


@given(cases(st.just(np.float64)))
@quick(60)
def test_score_upper_bounds_are_attained(case):
    model, X, eps, scale = case
    best = np.clip(peaks(model)[:, None] - X, -eps * scale, eps * scale)
    attained = np.max([model.scores(X + step) for step in best], axis=0)
    slack = 2e-14 * size(model, X, eps, scale)[:, None]
    assert (np.abs(box_bounds(*case).high - attained) <= slack).all()


@BOTH_TYPES
def test_score_bounds_at_eps_zero_are_the_scores(iris, dtype):
    model, X = cast(ROUGH, dtype), iris.X.astype(dtype)
    bounds = box_bounds(model, X, 0.0)
    slack = ROUNDING[model.dtype] * size(model, X, 0.0)[:, None]
    for bound in bounds:
        assert bound.dtype == np.float64
        assert bound.shape == (150, 3)
        assert (np.abs(bound - model.scores(X)) <= slack).all()


def test_score_bounds_take_eps_per_row(iris):
    eps = np.linspace(0.0, 2.0, 150)
    low, high = box_bounds(ROUGH, iris.X, eps)
    certified = certified_at(ROUGH, iris.X, eps)
    for n in range(150):
        one = box_bounds(ROUGH, iris.X[n : n + 1], eps[n])
        assert_allclose(low[n], one.low[0], rtol=1e-13)
        assert_allclose(high[n], one.high[0], rtol=1e-13)
        assert certified[n] == certified_at(ROUGH, iris.X[n : n + 1], eps[n])[0]


def test_score_bounds_widen_with_eps(iris):
    grown = [box_bounds(ROUGH, iris.X, eps) for eps in (0.0, 0.1, 0.5, 3.0, 50.0)]
    for inner, outer in pairwise(grown):
        assert (outer.low < inner.low).all()
        assert (outer.high >= inner.high).all()


def test_certify_accepts_any_layout_and_leaves_arguments_unchanged(iris):
    model, X, scale = ROUGH.copy(), iris.X.copy(), np.array([1.0, 0.5, 0.0, 2.0])
    X.flags.writeable = scale.flags.writeable = False
    expected = certified_radius(model, X, scale)
    doubled = np.repeat(iris.X, 2, axis=1)[:, ::2]
    for other in (np.asfortranarray(X), doubled):
        assert_array_equal(certified_radius(model, other, scale), expected)
        assert_array_equal(box_bounds(model, other, 0.1, scale), box_bounds(model, X, 0.1, scale))
    assert_array_equal(certified_radius(model, X, list(scale)), expected)
    for name in model.layers:
        assert_array_equal(getattr(model, name), getattr(ROUGH, name))
    whole = np.rint(X)
    assert_array_equal(certified_radius(model, whole.astype(int)), certified_radius(model, whole))


# -- certificates and radii against exact bounds ----------------------------------------------


@given(cases())
@quick(150)
def test_box_is_certified_where_score_bounds_are_disjoint(case):
    model, X, eps, scale = case
    certified = certified_at(*case)
    assert certified.dtype == bool
    slack = 2 * ROUNDING[model.dtype] * size(model, X, eps, scale)
    for n, x in enumerate(X):
        gap = exact_gap(model, x, eps, scale)
        assert gap >= 0 or not certified[n] or eps == 0
        assert certified[n] or gap <= slack[n]


@given(cases(), st.sampled_from([0.0, 1e-3, 0.1, 1.0, 1e3]))
@quick(150)
def test_rows_with_a_large_margin_are_certified_up_to_their_radius(case, share):
    """Rows that are certified by their lead alone are those that bounds certify, and no others."""
    model, X, _, scale = case
    Z = np.sort(model.scores(X).astype(float), axis=1)
    lead, slope = Z[:, -1] - Z[:, -2], Margins(model, X, predict(model, X), scale).slope
    # Around where a lead is just enough.
    eps = share * lead / (2 * slope) if slope > 0 else np.full(len(X), share)
    radius = certified_radius(model, X, scale)
    assert_array_equal(certified_at(model, X, eps, scale), (radius >= eps) | (eps == 0))


@given(cases())
@quick(150)
def test_certified_radius_is_the_largest_certified_eps(case):
    model, X, _, scale = case
    radius = certified_radius(model, X, scale)
    assert radius.shape == (len(X),)
    assert (radius >= 0).all()
    for n, x in enumerate(X):
        if np.isinf(radius[n]):
            assert not (np.repeat(scale, 2) * model.W0).any()
            continue
        beyond = radius[n] * (1 + 2 * SHORT)
        slack = 2 * ROUNDING[model.dtype] * size(model, X[n : n + 1], beyond, scale)[0]
        assert exact_gap(model, x, radius[n], scale) >= 0 or radius[n] == 0
        assert exact_gap(model, x, beyond, scale) <= slack


@given(cases(), SEEDS)
@quick(80)
def test_certified_radius_of_small_model_survives_attacks(case, seed):
    """In the model's float type, in the other one, and from rows that have to be rounded."""
    model, X, _, scale = case
    for rows in (X.astype(np.float32), X.astype(np.float64)):
        radius = np.minimum(certified_radius(model, rows, scale), 1e9)
        certain = radius > 0
        for other in (model, cast(model, np.float64)):
            wrong = attack(other, rows[certain], radius[certain], scale, rounds=2, seed=seed)
            assert not wrong.any()


@given(cases())
@quick(60)
def test_certified_radius_agrees_with_certified_at(case):
    model, X, _, scale = case
    radius = certified_radius(model, X, scale)
    finite = np.isfinite(radius)
    X, radius = X[finite], radius[finite]
    assert certified_at(model, X, radius, scale).all()
    assert certified_at(model, X, 0.5 * radius, scale).all()
    assert not certified_at(model, X, radius * (1 + 2 * SHORT) + 1e-300, scale).any()


def test_certified_radius_ignores_features_that_never_decide():
    """The second feature is ten times as steep, but far above the minimum."""
    steep = np.array([1.0, -1.0, 10.0, -10.0])
    offsets = np.array([[0.0, -2.0], [0.0, 2.0], [90.0, 90.0], [90.0, 90.0]])
    model = LMM(steep, offsets, np.array([[0.0, -999.0], [-999.0, 0.0]]))
    X = np.array([[0.25, 0.0]])
    assert lipschitz_radius(model, X) == 0.075
    assert_allclose(certified_radius(model, X), 0.75, rtol=SHORT)


def test_certified_radius_of_unit_at_its_maximum():
    """Above a common centre only lower bounds move, and one unit's height never changes order."""
    model = cones(np.zeros((2, 3)), slope=2.0)
    model.W2[:] += [10.0, 2.0]
    X = np.zeros((1, 3))
    assert lipschitz_radius(model, X) == 2.0
    low, high = box_bounds(model, X, 4.0)
    assert_allclose([low[0, 0], high[0, 1]], [2.0, 2.0], rtol=1e-11)
    assert certified_radius(model, X)[0] > 1e6


# -- exact distances --------------------------------------------------------------------------


def nearest_flip(model, x, scale):
    """The least r such that another class reaches the prediction at |x'_p − x_p| ≤ r·scale_p.

    Linear programs in x', the level v and r, one for each class d, unit h and choice
    of rows: all rows of unit h raise class d to v, and in every unit one chosen row
    holds the predicted class at v or below.
    """
    W1, W2, P, H = model.W1, model.W2, x.size, model.n_hidden
    y = int(predict(model, x[None])[0])
    lines = np.zeros((2 * P, P))
    lines[np.arange(2 * P), np.arange(2 * P) // 2] = model.W0
    zero, one = np.zeros(2 * P), np.ones(2 * P)
    box = np.c_[np.vstack([np.eye(P), -np.eye(P)]), zero, -np.tile(scale, 2)]
    above, below = np.c_[-lines, one, zero], np.c_[lines, -one, zero]
    distance = np.inf
    for d, h in product(range(model.n_classes), range(H)):
        if d == y or W2[h, y] > W2[h, d]:
            continue  # unit h itself would hold the predicted class above v
        for rows in product(range(2 * P), repeat=H):
            rows = list(rows)
            program = linprog(
                np.r_[np.zeros(P + 1), 1.0],
                A_ub=np.vstack([box, above, below[rows]]),
                b_ub=np.r_[x, -x, W1[:, h] + W2[h, d], -W1[rows, np.arange(H)] - W2[:, y]],
                bounds=[(None, None)] * (P + 1) + [(0, None)],
            )
            if program.success and program.fun < distance:
                distance = program.fun
                z = model.scores(program.x[None, :P])[0]
                assert np.delete(z, y).max() >= z[y] - 1e-7
    return distance


@pytest.mark.parametrize(
    ("seed", "H", "C"), [*((seed, 2, 2 + seed % 2) for seed in range(12)), (20, 3, 2), (21, 3, 3)]
)
def test_certified_radius_is_at_most_the_exact_distance(seed, H, C):
    rng = np.random.default_rng(seed)
    model, x = random_model(rng, 2, H, C), rng.normal(size=2)
    scale = np.array([[1.0, 1.0], [1.0, 1.0], [2.0, 0.5], [1.0, 0.0]][seed % 4])
    radius = certified_radius(model, x[None], scale)[0]
    assert 0 < radius <= nearest_flip(model, x, scale) + 1e-7


@pytest.mark.parametrize("seed", range(4))
def test_certified_radius_is_exact_between_two_centres(seed):
    """There the same steps move away from one centre and towards the other."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(2, 2))
    x = centres[0] + rng.uniform(0.0, 0.4, size=2) * (centres[1] - centres[0])
    near, far = np.abs(x - centres).max(axis=1)
    model = cones(centres, slope=3.0)
    radius = certified_radius(model, x[None])[0]
    assert radius == pytest.approx((far - near) / 2, rel=SHORT)
    assert radius == pytest.approx(nearest_flip(model, x, np.ones(2)), rel=1e-5)
    towards = np.sign(centres[1] - centres[0])
    assert_array_equal(predict(model, x + np.outer([1, 1 + 1e-5], radius * towards)), [0, 1])


@pytest.mark.parametrize("seed", range(3))
def test_certified_radius_survives_fine_grid_of_two_features(seed):
    """No grid point nearer than the radius is classified differently; some just beyond are."""
    rng = np.random.default_rng(seed)
    model = cones(rng.uniform(-1, 1, size=(8, 2)))
    if seed > 0:
        model.W0[:] *= rng.uniform(0.5, 2.0, size=4)
        model.W2 = np.asfortranarray(rng.normal(scale=0.3, size=(8, 3)))
    step = 0.02
    axis = np.arange(-3, 3, step)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    labels = predict(model, grid)
    X = rng.uniform(-1.5, 1.5, size=(40, 2))
    radius = certified_radius(model, X)
    nearest = np.array(
        [
            np.abs(grid[labels != y] - x).max(axis=1).min(initial=np.inf)
            for x, y in zip(X, predict(model, X), strict=True)
        ]
    )
    assert (radius <= nearest).all()
    assert (nearest <= 1.05 * radius + step).mean() > 0.05


# -- scales -----------------------------------------------------------------------------------


@given(cases(), st.sampled_from([1e-6, 0.3, 7.0, 1e5]))
@quick(60)
def test_scale_divides_certified_radius(case, factor):
    model, X, _, scale = case
    radius = certified_radius(model, X, scale)
    finite = np.isfinite(radius)
    scaled = certified_radius(model, X, factor * scale)
    assert_array_equal(np.isfinite(scaled), finite)
    assert_allclose(factor * scaled[finite], radius[finite], rtol=3 * SHORT)


def test_scale_is_a_change_of_units(iris):
    scale = np.array([0.5, 2.0, 0.25, 4.0])
    model = LMM(ROUGH.W0 * np.repeat(scale, 2), ROUGH.W1, ROUGH.W2)
    radius = certified_radius(ROUGH, iris.X, scale)
    assert_allclose(radius, certified_radius(model, iris.X / scale), rtol=3 * SHORT)
    for scaled, plain in zip(
        box_bounds(ROUGH, iris.X, 0.3, scale), box_bounds(model, iris.X / scale, 0.3), strict=True
    ):
        assert_allclose(scaled, plain, rtol=1e-12)


def test_certified_at_checks_selected_rows_only(iris):
    some = np.arange(len(iris.X)) % 3 == 0
    for eps in (0.0, 0.05, 0.2):
        every = certified_at(ROUGH, iris.X, eps)
        assert_array_equal(certified_at(ROUGH, iris.X, eps, where=some), every & some)
    with pytest.raises(ValueError, match=r"where must have shape \(150,\).*got \(149,\)"):
        certified_at(ROUGH, iris.X, 0.2, where=some[1:])


def test_scale_is_one_by_default(iris):
    ones = np.ones(4)
    assert_array_equal(certified_radius(ROUGH, iris.X), certified_radius(ROUGH, iris.X, ones))
    assert_array_equal(box_bounds(ROUGH, iris.X, 0.2), box_bounds(ROUGH, iris.X, 0.2, ones))
    assert_array_equal(certified_at(ROUGH, iris.X, 0.2), certified_at(ROUGH, iris.X, 0.2, ones))


def test_feature_of_scale_zero_is_constant(iris):
    """Only the others move: its lines become two constants, which a feature without slopes has."""
    scale = np.array([1.0, 0.0, 1.0, 0.0])
    radius = certified_radius(ROUGH, iris.X, scale)
    assert (radius > certified_radius(ROUGH, iris.X) * (1 - SHORT)).all()
    fixed = np.repeat(scale, 2) == 0
    for n in range(0, 150, 10):
        x = iris.X[n]
        W1 = ROUGH.W1 + np.where(fixed, ROUGH.W0 * np.repeat(x, 2), 0.0)[:, None]
        frozen = LMM(np.where(fixed, 0.0, ROUGH.W0), W1, ROUGH.W2)
        assert certified_radius(frozen, x[None])[0] == pytest.approx(radius[n], rel=3 * SHORT)


@pytest.mark.parametrize("seed", range(8))
@BOTH_TYPES
def test_certified_at_holds_exactly_up_to_the_certified_radius(dtype, seed, iris):
    rng = np.random.default_rng(seed)
    model = cast(random_model(rng, 4, 6, 3), dtype)
    radius = certified_radius(model, iris.X)
    finite = np.where(np.isfinite(radius), radius, 1.0)
    for eps in (
        finite,
        np.nextafter(finite, np.inf),
        np.nextafter(finite, 0.0),
        *(finite * (1.0 + share) for share in (1e-7, 5e-7, 1e-6, 4e-6, -1e-7, -1e-6)),
    ):
        assert_array_equal(certified_at(model, iris.X, eps), radius >= eps)
