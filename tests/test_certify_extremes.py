"""Certificates at the ends of what numbers can be, and what is refused at the door."""

import signal
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given
from numpy.testing import assert_allclose, assert_array_equal

from certified import BOTH_TYPES, ROUGH, SHORT, attack, cases, cast, cones, inside, random_model
from maxplus.certify import Bounds, box_bounds, certified_at, certified_radius
from maxplus.models import LMM
from strategies import quick

pytestmark = pytest.mark.slow


@given(cases())
@quick(60)
def test_certificate_at_eps_zero_holds(case):
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


def test_infinite_radius_is_certified(iris):
    flat = LMM(np.zeros(8), ROUGH.W1, ROUGH.W2)
    assert certified_at(flat, iris.X, certified_radius(flat, iris.X)).all()


@BOTH_TYPES
def test_radius_of_row_does_not_depend_on_other_rows(digits, dtype):
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
    [
        (np.float64, 1e9),
        (np.float64, 1e15),
        (np.float64, 1e250),
        (np.float32, 1e6),
        (np.float32, 1e30),
    ],
)
def test_radius_of_huge_inputs_is_sound(dtype, far):
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
def test_radius_of_smallest_floats_is_sound(dtype):
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


@BOTH_TYPES
def test_columns_of_very_different_scales_have_radii(dtype):
    """Rounding is that of each column's own products, not of the largest slope and value."""
    scale = np.array([1e-6, 1e9])
    W0 = np.repeat(1.0 / scale, 2) * [1.0, -1.0, 1.0, -1.0]
    centres = np.array([[0.0, 0.0], [2.0, 2.0]])
    W1 = np.repeat(centres.T, 2, axis=0) * [[-1.0], [1.0], [-1.0], [1.0]]
    model = cast(LMM(W0, W1, np.where(np.eye(2), 0.0, -999.0)), dtype)
    X = (scale * np.array([[0.25, 0.5], [1.75, 1.5]])).astype(dtype)
    assert_allclose(certified_radius(model, X, scale), 0.625, rtol=2e-3)


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
def test_radius_with_extreme_scales_is_sound(scale):
    """The radius is 0.8 / scale, near the least or the greatest float."""
    model = cones(np.array([[0.0], [2.0]]))
    with time_limit(2):
        radius = certified_radius(model, np.array([[0.2]]), [scale])[0]
    assert radius == pytest.approx(0.8 / scale, rel=2 * SHORT)


# -- what is refused at the door --------------------------------------------------------------

DOORS = {
    "box_bounds": lambda X: box_bounds(ROUGH, X, 0.1),
    "certified_at": lambda X: certified_at(ROUGH, X, 0.1),
    "certified_radius": lambda X: certified_radius(ROUGH, X),
}
EVERY_DOOR = pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)


@EVERY_DOOR
@pytest.mark.parametrize("shape", [(5, 3), (5, 5), (0, 3), (4,), (5, 4, 1), ()])
def test_certify_rejects_rows_of_wrong_shape(door, shape):
    with pytest.raises(ValueError, match=r"X must have 4 columns.* got shape \("):
        door(np.zeros(shape))


@EVERY_DOOR
def test_certify_accepts_zero_rows(door):
    found = door(np.empty((0, 4)))
    assert all(len(part) == 0 for part in (found if isinstance(found, Bounds) else [found]))


@EVERY_DOOR
def test_certify_accepts_lists(door):
    X = np.random.default_rng(0).normal(size=(5, 4))
    assert_array_equal(door(X.tolist()), door(X))


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
