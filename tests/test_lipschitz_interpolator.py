"""LipschitzInterpolator: formula, bounds of the approximation theorem, input."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from maxplus import LipschitzInterpolator
from strategies import SEEDS, quick

# Functions of rows of points in [−2, 2]^P with their Lipschitz constants in the L∞ norm.
ONE_D = {
    "sine": (lambda X: np.sin(X[:, 0]), 1.0),
    "roof": (lambda X: -np.abs(X[:, 0]), 1.0),
    "waves": (lambda X: 2 * np.abs(np.sin(3 * X[:, 0])), 6.0),
    "constant": (lambda X: np.full(len(X), 3.0), 1.0),
}
TWO_D = {
    "hills": (lambda X: np.sin(X[:, 0]) + np.cos(X[:, 1]), 2.0),
    "well": (lambda X: np.abs(X).max(axis=1), 1.0),
    "saddle": (lambda X: X[:, 0] * X[:, 1], 4.0),
}
FUNCTIONS = [(1, *f) for f in ONE_D.values()] + [(2, *f) for f in TWO_D.values()]
NAMES = [*ONE_D, *TWO_D]
ROUNDING = 1e-12


def distances(A, B):
    """Return ‖a − b‖∞ for all pairs of rows."""
    return np.abs(np.asarray(A)[:, None] - np.asarray(B)[None]).max(axis=2)


@st.composite
def samples(draw):
    """Draw different points on a grid and values, both multiples of 1/8."""
    n_features = draw(st.integers(1, 3))
    coordinate = st.integers(-40, 40).map(lambda k: k / 8)
    point = st.tuples(*[coordinate] * n_features)
    points = draw(st.lists(point, min_size=1, max_size=20, unique=True))
    values = draw(st.lists(coordinate, min_size=len(points), max_size=len(points)))
    return np.array(points), np.array(values)


# -- model ------------------------------------------------------------------------------------


@quick(40)
@given(data=samples(), slope=st.sampled_from([0.1, 1.0, 7.5]), seed=SEEDS)
@pytest.mark.filterwarnings("ignore:the envelopes cross", "ignore:no function with slope")
def test_interpolator_matches_the_formula(data, slope, seed):
    X, y = data
    new = np.random.default_rng(seed).uniform(-6, 6, (9, X.shape[1]))
    reg = LipschitzInterpolator(slope=slope).fit(X, y)
    lower, upper = reg.envelopes(new)
    far = slope * distances(new, X)
    assert_allclose(lower, (y - far).max(axis=1), atol=ROUNDING)
    assert_allclose(upper, (y + far).min(axis=1), atol=ROUNDING)
    assert_array_equal(reg.predict(new), lower)


@quick(60)
@given(data=samples(), margin=st.sampled_from(["auto", 1e-6, 0.5, 10.0]))
def test_interpolator_is_exact_if_slope_suffices(data, margin):
    X, y = data
    slope = "auto"
    if margin != "auto":
        slope = max(LipschitzInterpolator().fit(X, y).lipschitz_, 0.1) * (1 + margin)
    reg = LipschitzInterpolator(slope=slope).fit(X, y)
    assert reg.interpolates_
    assert_array_equal(reg.predict(X), y)
    assert_array_equal(reg.envelopes(X)[1], y)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n_features", [1, 5])
def test_interpolator_is_exact_for_any_data(n_features, dtype):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, n_features)).astype(dtype)
    y = rng.normal(size=300).astype(dtype)
    reg = LipschitzInterpolator().fit(X, y)
    prediction = reg.predict(X)
    assert prediction.dtype == dtype
    assert_array_equal(prediction, y)


@quick(40)
@given(data=samples())
def test_interpolator_slope_is_the_lipschitz_constant(data):
    X, y = data
    reg = LipschitzInterpolator().fit(X, y)
    run, rise = distances(X, X), np.abs(y[:, None] - y[None])
    expected = (rise[run > 0] / run[run > 0]).max(initial=0.0)
    assert reg.lipschitz_ == pytest.approx(expected, rel=1e-14, abs=0)
    assert reg.lipschitz_ <= reg.slope_ <= reg.lipschitz_ * (1 + 1e-7)


def test_interpolator_warns_of_too_small_slope():
    X, y = [[0.0], [1.0], [2.0]], [0.0, 3.0, 0.0]
    message = r"slope 1 .* Lipschitz constant is 3.*larger slope"
    with pytest.warns(ConvergenceWarning, match=message):
        reg = LipschitzInterpolator(slope=1.0).fit(X, y)
    assert reg.lipschitz_ == 3.0
    assert reg.slope_ == 1.0
    assert not reg.interpolates_
    assert_array_equal(reg.predict(X), [2.0, 3.0, 2.0])
    with pytest.warns(ConvergenceWarning, match="envelopes cross at 1 of 1 samples"):
        lower, upper = reg.envelopes([[0.5]])
    assert lower[0] > upper[0]
    assert LipschitzInterpolator(slope=3.0).fit(X, y).interpolates_


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("offset", [0.0, 1e4, 1e6])
def test_interpolates_attribute_is_correct(offset, dtype):
    """Far from the origin, cancellation in K·x − K·x_j may prevent interpolation."""
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(200, 1)) + offset).astype(dtype)
    X, first = np.unique(X, axis=0, return_index=True)
    y = rng.normal(size=200).astype(dtype)[first]
    reg = LipschitzInterpolator().fit(X, y)
    assert reg.interpolates_ == np.array_equal(reg.predict(X), y)


def test_interpolator_envelopes_do_not_cross_by_rounding():
    """If the slope is the Lipschitz constant, the bounds of a line differ only by rounding."""
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(-1, 1, (40, 1)), axis=0).astype(np.float32)
    reg = LipschitzInterpolator().fit(x, 3.7 * x[:, 0])
    lower, upper = reg.envelopes(rng.uniform(-1, 1, (2000, 1)).astype(np.float32))
    assert (lower <= upper).all()


# -- the theorem ------------------------------------------------------------------------------


@pytest.mark.parametrize(("n_features", "f", "K"), FUNCTIONS, ids=NAMES)
@quick(15)
@given(seed=SEEDS, n_samples=st.integers(1, 40))
def test_interpolator_interval_contains_the_function(n_features, f, K, seed, n_samples):
    rng = np.random.default_rng(seed)
    X, new = (rng.uniform(-2, 2, (n, n_features)) for n in (n_samples, 50))
    lower, upper = LipschitzInterpolator(slope=K).fit(X, f(X)).envelopes(new)
    assert (lower <= f(new) + ROUNDING).all()
    assert (upper >= f(new) - ROUNDING).all()
    assert (upper - lower <= 2 * K * distances(new, X).min(axis=1) + ROUNDING).all()


@pytest.mark.parametrize("n_steps", [2, 8, 32])
@pytest.mark.parametrize(("n_features", "f", "K"), FUNCTIONS, ids=NAMES)
def test_interpolator_error_on_a_grid_is_bounded(n_features, f, K, n_steps):
    axis = np.linspace(-2, 2, n_steps + 1)
    grid = np.stack(np.meshgrid(*[axis] * n_features), axis=-1).reshape(-1, n_features)
    new = np.random.default_rng(n_steps).uniform(-2, 2, (2000, n_features))
    delta = 2 / n_steps
    assert distances(new, grid).min(axis=1).max() <= delta
    error = f(new) - LipschitzInterpolator(slope=K).fit(grid, f(grid)).predict(new)
    assert error.min() >= -ROUNDING
    assert error.max() <= 2 * K * delta + ROUNDING


# -- samples at one point, subsets, weights ---------------------------------------------------


@pytest.mark.parametrize(
    ("weight", "expected"), [(None, [2.0, 5.0]), ([1, 1, 3], [2.5, 5.0]), ([1, 9, 0], [1.0, 5.0])]
)
def test_interpolator_averages_duplicate_points(weight, expected):
    X, y = [[0.0], [4.0], [-0.0]], [1.0, 5.0, 3.0]
    reg = LipschitzInterpolator().fit(X, y, sample_weight=weight)
    assert_allclose(reg.predict([[0.0], [4.0]]), expected, rtol=1e-15)
    assert_array_equal(reg.prototypes_, [0, 1])
    assert reg.n_hidden_ == 2


def test_interpolator_ignores_samples_of_weight_zero():
    rng = np.random.default_rng(0)
    X, y, new = rng.normal(size=(30, 2)), rng.normal(size=30), rng.normal(size=(10, 2))
    weight = np.arange(30) % 3
    used = weight > 0
    some = LipschitzInterpolator().fit(X, y, sample_weight=weight)
    assert_array_equal(
        some.predict(new), LipschitzInterpolator().fit(X[used], y[used]).predict(new)
    )
    assert_array_equal(some.prototypes_, np.flatnonzero(used))


@pytest.mark.parametrize("n_hidden", [1, 7, 30, 31, None])
def test_interpolator_accepts_a_subset_of_points(n_hidden):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 2)), rng.normal(size=30)
    reg, again, other = (
        LipschitzInterpolator(n_hidden or "auto", random_state=seed).fit(X, y) for seed in (0, 0, 1)
    )
    assert_array_equal(again.prototypes_, reg.prototypes_)
    size = min(n_hidden or 30, 30)
    assert reg.n_hidden_ == size == np.unique(reg.prototypes_).size
    assert_array_equal(reg.predict(X[reg.prototypes_]), y[reg.prototypes_])
    assert reg.W0_.shape == (4,)
    assert reg.W1_.shape == (4, size)
    assert reg.W2_.shape == (size, 1)
    assert np.array_equal(other.prototypes_, reg.prototypes_) == (size == 30)


def test_interpolator_reports_slope_sufficient_for_chosen_points():
    """``interpolates_`` refers to the selected points; a single one is always interpolated."""
    X, y = [[0.0], [1.0], [2.0]], [0.0, 3.0, 0.0]
    reg = LipschitzInterpolator(1, slope=1.0, random_state=0).fit(X, y)
    chosen = reg.prototypes_[0]
    assert reg.predict([X[chosen]]) == [y[chosen]]
    assert reg.interpolates_


# -- input ------------------------------------------------------------------------------------


def test_interpolator_accepts_integers_and_single_samples():
    reg = LipschitzInterpolator().fit(np.arange(5)[:, None], np.arange(5) ** 2)
    assert_array_equal(reg.predict([[2], [4]]), [4.0, 16.0])
    assert reg.predict([[2]]).dtype == np.float64
    reg = LipschitzInterpolator().fit([[1.0, 2.0]], [7.0])
    assert_array_equal(reg.predict([[1.0, 2.0], [50.0, -3.0]]), [7.0, 7.0])
