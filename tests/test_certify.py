"""Certificates and radii of single networks against exact bounds and linear programs."""

from fractions import Fraction
from itertools import product

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
from maxplus.certify import box_bounds, certified_at, certified_radius
from maxplus.certify.margins import Margins
from maxplus.models import LMM
from strategies import DTYPES, SEEDS, quick

pytestmark = pytest.mark.slow


@given(cases())
@quick(150)
def test_score_bounds_are_exact(case):
    """Bounds contain the exact bounds, and differ from them by rounding errors only."""
    model, X, eps, scale = case
    bounds = box_bounds(*case)
    for bound in bounds:
        assert (bound.dtype, bound.shape) == (np.float64, (len(X), model.n_classes))
    slack = ROUNDING[model.dtype] * size(model, X, eps, scale)
    for n, x in enumerate(X):
        low, high = exact_bounds(model, x, eps, scale)
        for d in range(model.n_classes):
            assert 0 <= low[d] - Fraction(bounds.low[n, d]) <= slack[n]
            assert 0 <= Fraction(bounds.high[n, d]) - high[d] <= slack[n]


@given(cases(), DTYPES, SEEDS)
@quick(150)
def test_scores_lie_between_their_bounds(case, dtype, seed):
    """The rows and the model may have different float types."""
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


def test_score_bounds_take_eps_per_row(iris):
    eps = np.linspace(0.0, 2.0, 150)
    low, high = box_bounds(ROUGH, iris.X, eps)
    certified = certified_at(ROUGH, iris.X, eps)
    for n in range(150):
        one = box_bounds(ROUGH, iris.X[n : n + 1], eps[n])
        assert_allclose(low[n], one.low[0], rtol=1e-13)
        assert_allclose(high[n], one.high[0], rtol=1e-13)
        assert certified[n] == certified_at(ROUGH, iris.X[n : n + 1], eps[n])[0]


def test_certify_accepts_any_layout_and_leaves_arguments_unchanged(iris):
    model, X, scale = ROUGH.copy(), iris.X.copy(), np.array([1.0, 0.5, 0.0, 2.0])
    X.flags.writeable = scale.flags.writeable = False
    expected = certified_radius(model, X, scale)
    doubled = np.repeat(iris.X, 2, axis=1)[:, ::2]
    for other in (np.asfortranarray(X), doubled):
        assert_array_equal(certified_radius(model, other, scale), expected)
        assert_array_equal(box_bounds(model, other, 0.1, scale), box_bounds(model, X, 0.1, scale))
    assert_array_equal(certified_radius(model, X.tolist(), list(scale)), expected)
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
    """Certification by the difference of the two highest scores agrees with the radius."""
    model, X, _, scale = case
    Z = np.sort(model.scores(X).astype(float), axis=1)
    lead, slope = Z[:, -1] - Z[:, -2], Margins(model, X, predict(model, X), scale).slope
    # Values of eps around the largest one that this difference certifies.
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
    """In both float types, and from rows that the model has to round."""
    model, X, _, scale = case
    for rows in (X.astype(np.float32), X.astype(np.float64)):
        radius = np.minimum(certified_radius(model, rows, scale), 1e9)
        certain = radius > 0
        for other in (model, cast(model, np.float64)):
            wrong = attack(other, rows[certain], radius[certain], scale, rounds=2, seed=seed)
            assert not wrong.any()


def test_certified_radius_ignores_features_that_never_decide():
    """The second feature is ten times as steep, but far above the minimum."""
    steep = np.array([1.0, -1.0, 10.0, -10.0])
    offsets = np.array([[0.0, -2.0], [0.0, 2.0], [90.0, 90.0], [90.0, 90.0]])
    model = LMM(steep, offsets, np.array([[0.0, -999.0], [-999.0, 0.0]]))
    X = np.array([[0.25, 0.0]])
    assert lipschitz_radius(model, X) == 0.075
    assert_allclose(certified_radius(model, X), 0.75, rtol=SHORT)


def test_certified_radius_of_unit_at_its_maximum():
    """Above a common centre, only the lower bounds change."""
    model = cones(np.zeros((2, 3)), slope=2.0)
    model.W2[:] += [10.0, 2.0]
    X = np.zeros((1, 3))
    assert lipschitz_radius(model, X) == 2.0
    low, high = box_bounds(model, X, 4.0)
    assert_allclose([low[0, 0], high[0, 1]], [2.0, 2.0], rtol=1e-11)
    assert certified_radius(model, X)[0] > 1e6


# -- exact distances --------------------------------------------------------------------------


def nearest_flip(model, x, scale):
    """Return the smallest r with another class at a point |x'_p − x_p| ≤ r·scale_p.

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


# -- scales -----------------------------------------------------------------------------------


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


def test_feature_of_scale_zero_is_constant(iris):
    """It is equivalent to a feature with slopes of 0 and other offsets."""
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


# -- extreme values ---------------------------------------------------------------------------


@BOTH_TYPES
def test_equal_scores_have_radius_zero(iris, dtype):
    model = cast(ROUGH, dtype)
    model.W2[:, 2] = model.W2[:, 0] = model.W2.max(axis=1)
    X = iris.X.astype(dtype)
    assert_array_equal(certified_radius(model, X), 0.0)
    assert not certified_at(model, X, 1e-9).any()


def test_only_rows_with_equal_scores_have_radius_zero():
    model = cones(np.array([[0.0], [2.0]]))
    assert_allclose(certified_radius(model, np.array([[0.5], [1.0], [1.5]])), [0.5, 0, 0.5], SHORT)


@BOTH_TYPES
def test_radius_is_infinite_without_influence(iris, dtype):
    X = iris.X.astype(dtype)
    flat = cast(LMM(np.zeros(8), ROUGH.W1, ROUGH.W2), dtype)
    half = cast(LMM(ROUGH.W0 * np.repeat([1, 0, 1, 0], 2), ROUGH.W1, ROUGH.W2), dtype)
    for model, scale in [
        (flat, None),
        (flat, np.arange(4.0)),
        (cast(ROUGH, dtype), np.zeros(4)),
        (half, np.array([0.0, 1.0, 0.0, 2.0])),
    ]:
        assert_array_equal(certified_radius(model, X, scale), np.inf)
        assert certified_at(model, X, 1e3, scale).all()
        assert certified_at(model, X, np.inf, scale).all()


@BOTH_TYPES
def test_radius_of_row_does_not_depend_on_other_rows(digits, dtype):
    """Of one row, of none, and of many rows on several threads."""
    model = cast(random_model(np.random.default_rng(2), 64, 30, 10), dtype)
    X = digits.X.astype(dtype)
    radius, bounds = certified_radius(model, X), box_bounds(model, X, 0.1)
    for n in range(0, 500, 50):
        assert_allclose(certified_radius(model, X[n : n + 1]), radius[n : n + 1], rtol=2 * SHORT)
        for one, all_ in zip(box_bounds(model, X[n : n + 1], 0.1), bounds, strict=True):
            assert_allclose(one[0], all_[n], rtol=1e-13)
    none = X[:0]
    assert certified_radius(model, none).shape == (0,)
    assert certified_at(model, none, 0.1).shape == (0,)
    for bound in (*box_bounds(model, none, 0.1), *box_bounds(model, none, np.empty(0))):
        assert bound.shape == (0, 10)


@pytest.mark.parametrize(
    ("dtype", "far"),
    [
        (np.float64, 1e9),
        (np.float64, 1e15),
        (np.float64, 1e250),
        (np.float32, 1e6),
        (np.float32, 1e30),
    ],
)
def test_radius_of_huge_inputs_is_sound(dtype, far):
    """Radii become smaller and finally 0, but no point in a box has another class."""
    rng = np.random.default_rng(0)
    model = cast(ROUGH, dtype)
    X = (far * rng.choice([-1, 0, 1], size=(200, 4)) + rng.normal(size=(200, 4))).astype(dtype)
    radius = certified_radius(model, X)
    assert np.isfinite(radius).all()
    assert not attack(model, X, radius).any()
    low, high = box_bounds(model, X, 1.0)
    for Z in (model.scores(X), model.scores(inside(X, 1.0)), model.scores(inside(X, -1.0))):
        assert (low <= Z).all()
        assert (high >= Z).all()


@BOTH_TYPES
def test_radius_of_smallest_floats_is_sound(dtype):
    """Products of tiny weights underflow."""
    rng = np.random.default_rng(0)
    tiny = 100 * np.finfo(dtype).smallest_subnormal
    model = cast(LMM(tiny * ROUGH.W0, tiny * ROUGH.W1, tiny * ROUGH.W2), dtype)
    X = rng.normal(size=(200, 4)).astype(dtype)
    low, high = box_bounds(model, X, 0.5)
    for _ in range(10):
        Z = model.scores(inside(X, rng.uniform(-0.5, 0.5, size=X.shape)))
        assert (low <= Z).all()
        assert (high >= Z).all()
    assert not attack(model, X, certified_radius(model, X)).any()


@BOTH_TYPES
def test_columns_of_very_different_scales_have_radii(dtype):
    """Rounding is relative to the products of each column, not to the largest slope or value."""
    scale = np.array([1e-6, 1e9])
    W0 = np.repeat(1.0 / scale, 2) * [1.0, -1.0, 1.0, -1.0]
    centres = np.array([[0.0, 0.0], [2.0, 2.0]])
    W1 = np.repeat(centres.T, 2, axis=0) * [[-1.0], [1.0], [-1.0], [1.0]]
    model = cast(LMM(W0, W1, np.where(np.eye(2), 0.0, -999.0)), dtype)
    X = (scale * np.array([[0.25, 0.5], [1.75, 1.5]])).astype(dtype)
    assert_allclose(certified_radius(model, X, scale), 0.625, rtol=2e-3)


@pytest.mark.parametrize("scale", [1e300, 1e308, 1e-300, 1e-308])
def test_radius_with_extreme_scales_is_sound(scale):
    """The radius is 0.8 / scale, close to the smallest or the largest float."""
    model = cones(np.array([[0.0], [2.0]]))
    radius = certified_radius(model, np.array([[0.2]]), [scale])[0]
    assert radius == pytest.approx(0.8 / scale, rel=2 * SHORT)


def test_nan_rows_are_not_certified():
    X = np.random.default_rng(0).normal(size=(6, 4))
    X[1], X[2, 3] = np.nan, np.nan
    assert not certified_at(ROUGH, X, 0.1)[1:3].any()
    assert_array_equal(certified_radius(ROUGH, X)[1:3], [0.0, 0.0])


def test_radius_is_invariant_to_scaled_weights():
    X = np.random.default_rng(0).normal(size=(30, 4))
    expected = certified_radius(ROUGH, X)
    assert (expected > 0).all()
    for factor in (0.125, 3.0):
        assert_allclose(certified_radius(ROUGH.scaled(factor), X), expected, rtol=3 * SHORT)


@pytest.mark.parametrize("function", [box_bounds, certified_at, certified_radius])
@pytest.mark.parametrize("shape", [(5, 3), (5, 5), (0, 3), (4,), (5, 4, 1), ()])
def test_certify_rejects_rows_of_wrong_shape(function, shape):
    arguments = () if function is certified_radius else (0.1,)
    with pytest.raises(ValueError, match=r"X must have 4 columns.* got shape \("):
        function(ROUGH, np.zeros(shape), *arguments)
