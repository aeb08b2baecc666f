"""Certified robustness: exact bounds, attacks, linear programs and what the estimator reports."""

import os
import signal
from contextlib import contextmanager
from fractions import Fraction
from itertools import pairwise, product
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import linprog
from sklearn.exceptions import NotFittedError

from maxplus import LMMClassifier, SubgradientLMMClassifier, datasets
from maxplus.certify import Bounds, box_bounds, certified_at, certified_radius
from maxplus.certify.bounds import check_box, steepest
from maxplus.certify.radius import ROWS_AS_ONE, _largest_values
from maxplus.models import LMM
from strategies import DTYPES, SEEDS, grid_array, quick

pytestmark = pytest.mark.slow

SHARED = os.environ.get("MAXPLUS_DATA", "")
# A radius may fall short of the largest certified eps by this share of it.
SHORT = 1e-6
# Rounding that a bound may contain, relative to the largest number that occurs.
ROUNDING = {np.dtype(np.float64): 1e-14, np.dtype(np.float32): 2e-6}

BOTH_TYPES = pytest.mark.parametrize("dtype", [np.float64, np.float32])


def cast(model, dtype):
    """The same weights, rounded to another float type."""
    return LMM(model.W0.astype(dtype), model.W1.astype(dtype), model.W2.astype(dtype))


def cones(centres, slope=1.0):
    """One unit per class, z_d(x) = −slope·‖x − centres[d]‖∞."""
    W0 = slope * np.tile([1.0, -1.0], centres.shape[1])
    W1 = -W0[:, None] * np.repeat(centres.T, 2, axis=0)
    return LMM(W0, W1, np.where(np.eye(len(centres)), 0.0, -999.0))


def random_model(rng, P, H, C):
    """Slopes of all signs, a few of them zero."""
    W0 = rng.normal(size=2 * P) * (rng.random(2 * P) < 0.9)
    return LMM(W0, rng.normal(size=(2 * P, H)), rng.normal(size=(H, C)))


ROUGH = random_model(np.random.default_rng(1), 4, 6, 3)


def predict(model, X):
    return model.scores(X).argmax(axis=1)


def two_best(model, X):
    """The highest score and the one after it."""
    Z = np.sort(model.scores(X).astype(float), axis=1)
    return Z[:, -1], Z[:, -2]


def lipschitz_radius(model, X, scale=1.0):
    """(z₁ − z₂) / (2·max |W0|·scale): sound, because no score is steeper than that."""
    first, second = two_best(model, X)
    slopes = np.abs(model.W0.astype(float)) * np.repeat(np.broadcast_to(scale, X.shape[1]), 2)
    return (first - second) / (2.0 * slopes.max())


def size(model, X, eps, scale=1.0):
    """The largest number that occurs in a box, per row, roughly: what rounding is relative to."""
    inputs = np.abs(X.astype(float)).max(axis=1) + np.max(eps * np.asarray(scale, float))
    largest = [float(np.abs(W).max()) for W in (model.W0, model.W1, model.W2)]
    return largest[0] * inputs + largest[1] + largest[2]


# -- slow, obvious and without any rounding ---------------------------------------------------


def exact(values):
    """Nested lists of the same numbers as fractions."""
    return [exact(v) if np.ndim(v) else Fraction(float(v)) for v in values]


def exact_bounds(model, x, eps, scale):
    """Lowest and highest g_h over the box, feature by feature, and what follows for the scores.

    Inside a unit, a feature contributes min(a·t + A, b·t + B). Over an interval that
    is lowest and highest at an end point or where the two lines cross.
    """
    W0, W1, W2 = exact(model.W0), exact(model.W1), exact(model.W2)
    lowest, highest = [], []
    for h in range(model.n_hidden):
        bottoms, tops = [], []
        for p in range(model.n_features):
            a, b, A, B = W0[2 * p], W0[2 * p + 1], W1[2 * p][h], W1[2 * p + 1][h]
            reach = Fraction(float(eps)) * Fraction(float(scale[p]))
            left, right = Fraction(float(x[p])) - reach, Fraction(float(x[p])) + reach
            points = [left, right]
            if a != b and left < (B - A) / (a - b) < right:
                points.append((B - A) / (a - b))
            values = [min(a * t + A, b * t + B) for t in points]
            bottoms.append(min(values))
            tops.append(max(values))
        lowest.append(min(bottoms))
        highest.append(min(tops))
    units, classes = range(model.n_hidden), range(model.n_classes)
    low = [max(lowest[h] + W2[h][d] for h in units) for d in classes]
    high = [max(highest[h] + W2[h][d] for h in units) for d in classes]
    return low, high


def exact_gap(model, x, eps, scale):
    """How far the lower bound of the predicted class exceeds all other upper bounds."""
    y = int(predict(model, x[None])[0])
    low, high = exact_bounds(model, x, eps, scale)
    return low[y] - max(high[d] for d in range(model.n_classes) if d != y)


class Case(NamedTuple):
    model: LMM
    X: np.ndarray
    eps: float
    scale: np.ndarray


@st.composite
def cases(draw, dtypes=DTYPES):
    """A small model, rows and a box: values on a grid with many ties, or any, some of them large.

    The scales are powers of two and 0, so that eps·scale_p is not rounded.
    """
    P, H, C, N = (draw(st.integers(low, 4)) for low in (1, 1, 2, 1))
    rng = np.random.default_rng(draw(SEEDS))
    dtype = draw(dtypes)
    signs = draw(st.sampled_from(["paper", "any", "equal", "some zero"]))
    shapes = [(2 * P,), (2 * P, H), (H, C), (N, P)]
    if draw(st.booleans()):
        arrays = [grid_array(rng, shape) for shape in shapes]
        eps = draw(st.sampled_from([0.0, 0.25, 0.5, 1.0, 3.0]))
    else:
        arrays = [rng.normal(size=shape) for shape in shapes]
        for array in arrays:
            if draw(st.booleans()):
                array += 1e4 * rng.choice([-1, 0, 1], size=array.shape[-1])
        eps = draw(st.sampled_from([1e-5, 0.3, 2.0])) * rng.uniform(0.5, 1.0)
    W0, W1, W2, X = arrays
    pair = np.tile([1.0, -1.0], P)
    W0 = {
        "paper": np.abs(W0) * pair,
        "any": W0,
        "equal": np.abs(W0) * np.repeat(np.sign(W0[::2]), 2),
        "some zero": W0 * (rng.random(2 * P) < 0.5),
    }[signs]
    scale = rng.choice([0.0, 0.5, 1.0, 1.0, 4.0], size=P) if draw(st.booleans()) else np.ones(P)
    return Case(cast(LMM(W0, W1, W2), dtype), X.astype(dtype), eps, scale)


# -- attacks ----------------------------------------------------------------------------------


def inside(X, step):
    """X + step, rounded towards X: what lies in the box exactly also does after rounding."""
    return np.nextafter((X + step).astype(X.dtype), X)


def peaks(model):
    """Where each unit is highest, feature by feature: crossings, or ±∞ if it rises for ever."""
    W0, W1 = model.W0.astype(float)[:, None], model.W1.astype(float)
    a, b = W0[::2], W0[1::2]
    roof = np.sign(a) * np.sign(b) < 0
    with np.errstate(divide="ignore", invalid="ignore"):
        crossing = (W1[1::2] - W1[::2]) / (a - b)
    return np.where(roof, crossing, np.where((a > 0) | (b > 0), np.inf, -np.inf)).T


def assess(model, points, y):
    """Of all points[n, k]: whether y[n] is not predicted, and how far it is ahead."""
    Z = model.scores(points.reshape(-1, points.shape[2])).reshape(*points.shape[:2], -1)
    index = y[:, None, None]
    lost = Z.argmax(axis=2) != y[:, None]
    own = np.take_along_axis(Z, index, axis=2)[..., 0]
    np.put_along_axis(Z, index, -np.inf, axis=2)
    return lost, own - Z.max(axis=2)


def attack(model, X, radius, scale=1.0, tries=20, rounds=8, width=16, seed=0):
    """Whether some point in each row's box was found that is classified differently.

    Tried are random points, random corners, the best point of the box for every
    unit, and from the best of all these a pattern search: one feature at a time goes
    to one of its ends, among them always the feature that decides the class's score.
    """
    rng = np.random.default_rng(seed)
    (N, P), y, rows = X.shape, predict(model, X), np.arange(len(X))
    if N == 0:
        return np.zeros(0, bool)
    reach = np.broadcast_to(radius, N)[:, None] * np.broadcast_to(scale, P)
    centre, span = X[:, None], reach[:, None]
    steps = [
        span * rng.uniform(-1.0, 1.0, (N, tries, P)),
        span * rng.choice([-1.0, 1.0], (N, tries, P)),
        np.clip(peaks(model) - centre, -span, span),
    ]
    points = inside(centre, np.concatenate(steps, axis=1))
    lost, ahead = assess(model, points, y)
    flipped, best = lost.any(axis=1), points[rows, ahead.argmin(axis=1)]
    ends = np.stack([inside(X, -reach), X, inside(X, reach)])
    for _ in range(rounds):
        feature = rng.integers(P, size=(N, width))
        feature[:, 0] = model.active_path(best).row[rows, y] // 2
        points = np.tile(best[:, None], (1, 1 + 3 * width, 1))
        for k in range(width):
            points[rows, 1 + 3 * k + np.arange(3)[:, None], feature[:, k]] = ends[
                :, rows, feature[:, k]
            ]
        lost, ahead = assess(model, points, y)
        flipped |= lost.any(axis=1)
        best = points[rows, ahead.argmin(axis=1)]
    return flipped


class Trained(NamedTuple):
    """A trained model, rows that it has not seen (but for Iris), and their radii."""

    model: LMM
    X: np.ndarray
    radius: np.ndarray


def train(data, X, dtype, **parameters):
    clf = SubgradientLMMClassifier(**parameters, random_state=0).fit(data[0].astype(dtype), data[1])
    assert clf.model_.dtype == dtype
    X = X.astype(dtype)
    return Trained(clf.model_, X, clf.certified_radius(X))


MEAN = {"n_hidden": 40, "objective": "mean", "max_iter": 10_000}


@pytest.fixture(scope="module", params=["iris", "digits", "mnist"])
def source(request):
    """Training data, other rows, hyper-parameters."""
    if request.param == "iris":
        data = request.getfixturevalue("iris")
        return data, data.X, {"n_hidden": 20, "max_iter": 2000, "linear_every": 10}
    if request.param == "digits":
        X, y = request.getfixturevalue("digits")
        return (X[:400], y[:400]), X[400:], MEAN
    if not SHARED:
        pytest.skip("MAXPLUS_DATA is not set: no MNIST files")
    data = datasets.load_mnist()
    few = data.X_train[:1000], data.y_train[:1000]
    return few, data.X_test[:50], {**MEAN, "linear_every": 5}


@pytest.fixture(scope="module", params=[np.float64, np.float32], ids=["float64", "float32"])
def trained(source, request):
    data, X, parameters = source
    return train(data, X, request.param, **parameters)


# -- bounds of the scores ---------------------------------------------------------------------


@given(cases())
@quick(150)
def test_bounds_are_exact(case):
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
def test_computed_scores_lie_between_the_bounds(case, dtype, seed):
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
def test_every_upper_bound_is_attained(case):
    model, X, eps, scale = case
    best = np.clip(peaks(model)[:, None] - X, -eps * scale, eps * scale)
    attained = np.max([model.scores(X + step) for step in best], axis=0)
    slack = 2e-14 * size(model, X, eps, scale)[:, None]
    assert (np.abs(box_bounds(*case).high - attained) <= slack).all()


@BOTH_TYPES
def test_without_a_box_the_bounds_are_the_scores(iris, dtype):
    model, X = cast(ROUGH, dtype), iris.X.astype(dtype)
    bounds = box_bounds(model, X, 0.0)
    slack = ROUNDING[model.dtype] * size(model, X, 0.0)[:, None]
    for bound in bounds:
        assert bound.dtype == np.float64
        assert bound.shape == (150, 3)
        assert (np.abs(bound - model.scores(X)) <= slack).all()


def test_each_row_has_its_own_eps(iris):
    eps = np.linspace(0.0, 2.0, 150)
    low, high = box_bounds(ROUGH, iris.X, eps)
    certified = certified_at(ROUGH, iris.X, eps)
    for n in range(150):
        one = box_bounds(ROUGH, iris.X[n : n + 1], eps[n])
        assert_allclose(low[n], one.low[0], rtol=1e-13)
        assert_allclose(high[n], one.high[0], rtol=1e-13)
        assert certified[n] == certified_at(ROUGH, iris.X[n : n + 1], eps[n])[0]


def test_larger_boxes_have_wider_bounds(iris):
    grown = [box_bounds(ROUGH, iris.X, eps) for eps in (0.0, 0.1, 0.5, 3.0, 50.0)]
    for inner, outer in pairwise(grown):
        assert (outer.low < inner.low).all()
        assert (outer.high >= inner.high).all()


def test_arguments_are_left_alone_and_may_have_any_layout(iris):
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
def test_a_box_is_certified_where_its_bounds_are_apart(case):
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
def test_a_large_lead_says_what_the_bounds_say(case, share):
    """Rows that are certified by their lead alone are those that bounds certify, and no others."""
    model, X, _, scale = case
    Z = np.sort(model.scores(X).astype(float), axis=1)
    lead, slope = Z[:, -1] - Z[:, -2], steepest(model, check_box(model, len(X), 0.0, scale).scale)
    # Around where a lead is just enough.
    eps = share * lead / (2 * slope) if slope > 0 else np.full(len(X), share)
    low, high = box_bounds(model, X, eps, scale)
    y, rows = predict(model, X), np.arange(len(X))
    others = high.copy()
    others[rows, y] = -np.inf
    apart = low[rows, y] > others.max(axis=1)
    assert_array_equal(certified_at(model, X, eps, scale), apart | (eps == 0))


@given(cases())
@quick(150)
def test_the_radius_is_the_largest_certified_eps(case):
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
def test_no_attack_inside_the_radius_of_a_small_model(case, seed):
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
def test_the_radius_and_the_certificate_agree(case):
    model, X, _, scale = case
    radius = certified_radius(model, X, scale)
    finite = np.isfinite(radius)
    X, radius = X[finite], radius[finite]
    assert certified_at(model, X, radius, scale).all()
    assert certified_at(model, X, 0.5 * radius, scale).all()
    assert not certified_at(model, X, radius * (1 + 2 * SHORT) + 1e-300, scale).any()


def test_the_radius_is_no_less_than_lipschitz(trained):
    model, X, radius = trained
    rounding = ROUNDING[model.dtype] * size(model, X, radius.max()) / np.abs(model.W0).max()
    expected = lipschitz_radius(model, X)
    assert (radius >= expected * (1 - SHORT) - rounding).all()


def test_a_feature_that_never_decides_does_not_shorten_the_radius():
    """The second feature is ten times as steep, but far above the minimum."""
    steep = np.array([1.0, -1.0, 10.0, -10.0])
    offsets = np.array([[0.0, -2.0], [0.0, 2.0], [90.0, 90.0], [90.0, 90.0]])
    model = LMM(steep, offsets, np.array([[0.0, -999.0], [-999.0, 0.0]]))
    X = np.array([[0.25, 0.0]])
    assert lipschitz_radius(model, X) == 0.075
    assert_allclose(certified_radius(model, X), 0.75, rtol=SHORT)


def test_a_unit_at_its_peak_does_not_rise():
    """Above a common centre only the predicted class moves: twice the Lipschitz radius."""
    model = cones(np.zeros((2, 3)), slope=2.0)
    model.W2[:] += [10.0, 2.0]
    X = np.zeros((1, 3))
    assert lipschitz_radius(model, X) == 2.0
    assert_allclose(certified_radius(model, X), 4.0, rtol=SHORT)


# -- attacks on trained models ----------------------------------------------------------------


def test_attacks_inside_the_radius_fail(trained):
    assert np.isfinite(trained.radius).all()
    assert (trained.radius > 0).mean() > 0.9
    assert not attack(*trained).any()


def test_attacks_succeed_farther_out(trained):
    """The same attack finds points just outside for some rows, three times as far for many."""
    assert attack(trained.model, trained.X, 1.01 * trained.radius).mean() > 0.05
    assert attack(trained.model, trained.X, 3.0 * trained.radius).mean() > 0.4


def test_attacks_with_scales_fail_inside_the_radius(trained):
    model, X, _ = trained
    scale = np.random.default_rng(3).choice([0.0, 0.3, 1.0, 5.0], size=X.shape[1])
    radius = certified_radius(model, X, scale)
    assert (radius > 0).mean() > 0.9
    assert not attack(model, X, radius, scale).any()
    assert attack(model, X, 3.0 * radius, scale).mean() > 0.3


def test_an_unsound_radius_is_caught(digits):
    """(z₁ − z₂) / max |W0|, without the 2: one score falls while the other rises."""
    centres = digits.X[:10]
    model, X = cones(centres), digits.X[10:200]
    sound = lipschitz_radius(model, X)
    assert not attack(model, X, sound * (1 - 1e-9)).any()
    assert attack(model, X, 2 * sound).mean() > 0.5


def test_the_allowance_for_rounding_is_needed():
    """A radius for exact arithmetic does not hold for scores in float32; the model's own does."""
    rng = np.random.default_rng(5)
    model = cones(rng.normal(size=(6, 3)))
    model.W1[:] += 1e4
    model = cast(model, np.float32)
    X = rng.normal(size=(300, 3)).astype(np.float32)
    naive = certified_radius(cast(model, np.float64), X)
    assert attack(model, X, naive, tries=50).any()
    assert not attack(model, X, certified_radius(model, X), tries=50).any()


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
def test_the_radius_is_at_most_the_exact_distance(seed, H, C):
    rng = np.random.default_rng(seed)
    model, x = random_model(rng, 2, H, C), rng.normal(size=2)
    scale = np.array([[1.0, 1.0], [1.0, 1.0], [2.0, 0.5], [1.0, 0.0]][seed % 4])
    radius = certified_radius(model, x[None], scale)[0]
    assert 0 < radius <= nearest_flip(model, x, scale) + 1e-7


@pytest.mark.parametrize("seed", range(4))
def test_the_radius_is_exact_between_two_centres(seed):
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
def test_a_fine_grid_of_two_features(seed):
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
    nearest = np.array([
        np.abs(grid[labels != y] - x).max(axis=1).min(initial=np.inf)
        for x, y in zip(X, predict(model, X), strict=True)
    ])  # fmt: skip
    assert (radius <= nearest).all()
    assert (nearest <= 1.05 * radius + step).mean() > 0.05


# -- scales -----------------------------------------------------------------------------------


@given(cases(), st.sampled_from([1e-6, 0.3, 7.0, 1e5]))
@quick(60)
def test_scales_divide_the_radius(case, factor):
    model, X, _, scale = case
    radius = certified_radius(model, X, scale)
    finite = np.isfinite(radius)
    scaled = certified_radius(model, X, factor * scale)
    assert_array_equal(np.isfinite(scaled), finite)
    assert_allclose(factor * scaled[finite], radius[finite], rtol=3 * SHORT)


def test_a_scale_is_a_change_of_units(iris):
    scale = np.array([0.5, 2.0, 0.25, 4.0])
    model = LMM(ROUGH.W0 * np.repeat(scale, 2), ROUGH.W1, ROUGH.W2)
    radius = certified_radius(ROUGH, iris.X, scale)
    assert_allclose(radius, certified_radius(model, iris.X / scale), rtol=3 * SHORT)
    for scaled, plain in zip(
        box_bounds(ROUGH, iris.X, 0.3, scale), box_bounds(model, iris.X / scale, 0.3), strict=True
    ):
        assert_allclose(scaled, plain, rtol=1e-12)


def test_only_rows_that_are_asked_about_are_certified(iris):
    some = np.arange(len(iris.X)) % 3 == 0
    for eps in (0.0, 0.05, 0.2):
        every = certified_at(ROUGH, iris.X, eps)
        assert_array_equal(certified_at(ROUGH, iris.X, eps, where=some), every & some)
    with pytest.raises(ValueError, match=r"where must have shape \(150,\).*got \(149,\)"):
        certified_at(ROUGH, iris.X, 0.2, where=some[1:])


def test_largest_values_of_any_number_of_rows():
    rng = np.random.default_rng(0)
    for n in (0, 1, ROWS_AS_ONE - 1, ROWS_AS_ONE, 3 * ROWS_AS_ONE + 5):
        X = rng.normal(size=(n, 3))
        assert_array_equal(_largest_values(X), np.abs(X).max(axis=0, initial=0.0))


def test_all_scales_are_one_by_default(iris):
    ones = np.ones(4)
    assert_array_equal(certified_radius(ROUGH, iris.X), certified_radius(ROUGH, iris.X, ones))
    assert_array_equal(box_bounds(ROUGH, iris.X, 0.2), box_bounds(ROUGH, iris.X, 0.2, ones))
    assert_array_equal(certified_at(ROUGH, iris.X, 0.2), certified_at(ROUGH, iris.X, 0.2, ones))


def test_a_feature_of_scale_zero_is_a_constant(iris):
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


# -- degenerate cases -------------------------------------------------------------------------


@given(cases())
@quick(60)
def test_nothing_changes_without_a_box(case):
    """Not even where scores are equal."""
    assert certified_at(case.model, case.X, 0.0, case.scale).all()
    assert certified_at(case.model, case.X, 0, case.scale).all()


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
def test_without_influence_the_radius_is_infinite(iris, dtype):
    X = iris.X.astype(dtype)
    flat = cast(LMM(np.zeros(8), ROUGH.W1, ROUGH.W2), dtype)
    half = cast(LMM(ROUGH.W0 * np.repeat([1, 0, 1, 0], 2), ROUGH.W1, ROUGH.W2), dtype)
    for model, scale in [
        (flat, None), (flat, np.arange(4.0)), (cast(ROUGH, dtype), np.zeros(4)),
        (half, np.array([0.0, 1.0, 0.0, 2.0])),
    ]:  # fmt: skip
        assert_array_equal(certified_radius(model, X, scale), np.inf)
        assert certified_at(model, X, 1e3, scale).all()


def test_an_infinite_radius_is_certified(iris):
    flat = LMM(np.zeros(8), ROUGH.W1, ROUGH.W2)
    assert certified_at(flat, iris.X, certified_radius(flat, iris.X)).all()


@BOTH_TYPES
def test_rows_do_not_depend_on_each_other(digits, dtype):
    """One row, none and many, which may be shared among threads."""
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
    [(np.float64, 1e9), (np.float64, 1e15), (np.float64, 1e250), (np.float32, 1e6),
     (np.float32, 1e30)],
)  # fmt: skip
def test_huge_inputs(dtype, far):
    """Radii shrink, to 0 at last, but no neighbour of a number is classified differently."""
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
def test_the_least_numbers(dtype):
    """Products of tiny weights underflow, which is rounding too."""
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


@contextmanager
def time_limit(seconds):
    """Turns an endless loop into a failure, where there are signals."""

    def stop(*_):
        raise TimeoutError(f"not done after {seconds} s")

    if not hasattr(signal, "setitimer"):
        yield
        return
    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("scale", [1e300, 1e308, 1e-300, 1e-308])
def test_scales_at_the_ends_of_the_range(scale):
    """The radius is 0.8 / scale, near the least or the greatest float."""
    model = cones(np.array([[0.0], [2.0]]))
    with time_limit(2):
        radius = certified_radius(model, np.array([[0.2]]), [scale])[0]
    assert radius == pytest.approx(0.8 / scale, rel=2 * SHORT)


# -- the classifier ---------------------------------------------------------------------------

SOME_EPS = [0.0, 0.013, 0.057, 0.21, 0.53, 0.87, 100.0]


@pytest.fixture(scope="module")
def named(iris):
    """A classifier of named flowers, their data and their names."""
    names = np.array(["setosa", "versicolor", "virginica"])[iris.y]
    clf = SubgradientLMMClassifier(20, max_iter=2000, random_state=0).fit(iris.X, names)
    return clf, iris.X, names


@pytest.mark.parametrize("scale", [None, [1.0, 0.5, 0.0, 2.0]])
def test_the_classifier_has_the_radii_of_its_model(named, scale):
    clf, X, _ = named
    radius = clf.certified_radius(X, scale=scale)
    assert radius.shape == (150,)
    expected = certified_radius(clf.model_, X, None if scale is None else np.array(scale))
    assert_allclose(radius, expected, rtol=2 * SHORT)


@pytest.mark.parametrize("scale", [None, [1.0, 0.5, 0.0, 2.0]])
def test_certified_accuracy_by_hand(named, scale):
    clf, X, names = named
    right = clf.predict(X) == names
    radius = clf.certified_radius(X, scale=scale)
    assert not right.all()
    shares = clf.certify(X, names, SOME_EPS, scale=scale)
    assert isinstance(shares, np.ndarray)
    assert_allclose(shares, [np.mean(right & (radius >= eps)) for eps in SOME_EPS], rtol=1e-15)
    for eps, share in zip(SOME_EPS, shares, strict=True):
        certified = certified_at(clf.model_, X, eps, np.ones(4) if scale is None else scale)
        assert share == pytest.approx(np.mean(right & certified), rel=1e-15)
        alone = clf.certify(X, names, eps, scale=scale)
        assert isinstance(alone, float)
        assert alone == share


def test_certified_accuracy_falls_from_accuracy_to_zero(named):
    clf, X, names = named
    shares = clf.certify(X, names, np.linspace(0.0, 3.0, 40))
    assert shares[0] == clf.score(X, names)
    assert (np.diff(shares) <= 0).all()
    assert len(set(shares)) > 10
    assert shares[-1] == 0.0


def test_certified_accuracy_does_not_depend_on_the_order_of_eps(named):
    clf, X, names = named
    assert_array_equal(clf.certify(X, names, SOME_EPS[::-1])[::-1], clf.certify(X, names, SOME_EPS))


def test_labels_that_are_wrong_or_unknown_count_as_wrong(named):
    clf, X, names = named
    unknown = np.where(names == "setosa", "tulip", names)
    expected = np.mean(clf.predict(X) == unknown)
    assert 0 < expected < clf.score(X, names)
    assert clf.certify(X, unknown, 0.0) == expected
    assert clf.certify(X, np.roll(names, 50), 0.0) == np.mean(clf.predict(X) == np.roll(names, 50))


def test_equal_scores_count_at_eps_zero_only(iris):
    clf = SubgradientLMMClassifier(5, max_iter=10, random_state=0).fit(*iris)
    clf.model_.W2[:] = 0.0
    assert clf.certify(iris.X, iris.y, 0.0) == clf.score(iris.X, iris.y) == pytest.approx(1 / 3)
    assert_array_equal(clf.certify(iris.X, iris.y, [0, 1e-6]), [1 / 3, 0])
    assert_array_equal(clf.certified_radius(iris.X), 0.0)


def test_no_certified_row_of_the_classifier_moves_to_another_class(named):
    clf, X, _ = named
    radius = clf.certified_radius(X)
    rng = np.random.default_rng(0)
    for _ in range(20):
        step = radius[:, None] * rng.choice([-1.0, 1.0], size=X.shape)
        assert_array_equal(clf.predict(inside(X, step)), clf.predict(X))


@pytest.mark.parametrize("eps", [-0.1, -1e-300, np.nan, [0.1, -0.1], [np.nan], [[0.1, 0.2]]])
def test_bad_eps(named, eps):
    clf, X, names = named
    with pytest.raises(ValueError, match="eps"):
        clf.certify(X, names, eps)


@pytest.mark.parametrize(
    "scale", [[1.0] * 3, [1.0] * 5, [], [-1.0, 1, 1, 1], [np.nan, 1, 1, 1], np.ones((4, 1))]
)
def test_bad_scale(named, scale):
    clf, X, names = named
    with pytest.raises(ValueError, match="scale"):
        clf.certify(X, names, 0.1, scale=scale)
    with pytest.raises(ValueError, match="scale"):
        clf.certified_radius(X, scale=scale)


def test_bad_labels_and_samples(named):
    clf, X, names = named
    with pytest.raises(ValueError, match=r"\by\b"):
        clf.certify(X, names[:-1], 0.1)
    for bad in (X[:, :3], np.full_like(X, np.nan)):
        with pytest.raises(ValueError, match=r"\bX\b"):
            clf.certify(bad, names, 0.1)
        with pytest.raises(ValueError, match=r"\bX\b"):
            clf.certified_radius(bad)


def test_certificates_need_a_fitted_classifier(iris):
    for call in (
        lambda: LMMClassifier().certified_radius(iris.X),
        lambda: LMMClassifier().certify(*iris, 0.1),
    ):
        with pytest.raises(NotFittedError, match="LMMClassifier"):
            call()


# -- what is refused at the door --------------------------------------------------------------

DOORS = {
    "box_bounds": lambda X: box_bounds(ROUGH, X, 0.1),
    "certified_at": lambda X: certified_at(ROUGH, X, 0.1),
    "certified_radius": lambda X: certified_radius(ROUGH, X),
}
EVERY_DOOR = pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)


@EVERY_DOOR
@pytest.mark.parametrize("shape", [(5, 3), (5, 5), (0, 3), (4,), (5, 4, 1), ()])
def test_rows_of_another_shape(door, shape):
    with pytest.raises(ValueError, match=r"X must have 4 columns.* got shape \("):
        door(np.zeros(shape))


@EVERY_DOOR
def test_no_rows_at_all(door):
    found = door(np.empty((0, 4)))
    assert all(len(part) == 0 for part in (found if isinstance(found, Bounds) else [found]))


@EVERY_DOOR
def test_lists_are_rows_too(door):
    X = np.random.default_rng(0).normal(size=(5, 4))
    assert_array_equal(door(X.tolist()), door(X))


def test_nothing_is_certified_for_rows_that_are_no_numbers():
    X = np.random.default_rng(0).normal(size=(6, 4))
    X[1], X[2, 3] = np.nan, np.nan
    assert not certified_at(ROUGH, X, 0.1)[1:3].any()
    assert_array_equal(certified_radius(ROUGH, X)[1:3], [0.0, 0.0])


def test_scaled_weights_have_the_same_radii():
    X = np.random.default_rng(0).normal(size=(30, 4))
    expected = certified_radius(ROUGH, X)
    assert (expected > 0).all()
    for factor in (0.125, 3.0):
        assert_allclose(certified_radius(ROUGH.scaled(factor), X), expected, rtol=3 * SHORT)


# -- linear directions ------------------------------------------------------------------------


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
