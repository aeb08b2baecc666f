"""Monotone maps of features: values, inverses, rounding and outliers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from maxplus.models import FeatureMap
from strategies import SEEDS, quick


def random_knots(rng, n):
    x = np.unique(rng.normal(size=n) * 10.0 ** rng.integers(-6, 7))
    u = np.cumsum(rng.choice([0.0, 1.0], size=x.size) * rng.random(x.size)) - 1.0
    return x, u


@quick(50)
@given(seed=SEEDS, n=st.integers(1, 9))
def test_map_interpolates_between_knots_and_is_constant_outside(seed, n):
    rng = np.random.default_rng(seed)
    x, u = random_knots(rng, n)
    reach = 1.0 + np.abs(x).max()
    points = np.concatenate([x, rng.uniform(-2 * reach, 2 * reach, 50)])
    got = FeatureMap([(x, u)])(points[:, None])[:, 0]
    assert_allclose(got, np.interp(points, x, u), rtol=1e-12, atol=1e-12)
    assert_array_equal(got[: x.size], u)


@quick(50)
@given(seed=SEEDS, n=st.integers(1, 9))
def test_map_is_monotone_for_neighbouring_floats(seed, n):
    rng = np.random.default_rng(seed)
    x, u = random_knots(rng, n)
    points = np.concatenate([x, rng.choice(x, 200) + rng.normal(size=200) * np.ptp(x)])
    for _ in range(3):
        points = np.concatenate([points, np.nextafter(points, np.inf)])
    points = np.sort(points)
    assert (np.diff(FeatureMap([(x, u)])(points[:, None])[:, 0]) >= 0).all()


@quick(50)
@given(seed=SEEDS, n=st.integers(1, 9))
def test_inverse_is_the_smallest_argument_that_reaches_a_value(seed, n):
    rng = np.random.default_rng(seed)
    x, u = random_knots(rng, n)
    feature_map = FeatureMap([(x, u)])
    wanted = rng.uniform(u[0] - 0.1, u[-1] + 0.1, 20)
    found = feature_map.inverse(0, wanted)
    assert_array_equal(np.isneginf(found), wanted <= u[0])
    assert_array_equal(np.isposinf(found), wanted > u[-1])
    inside = np.isfinite(found)
    step = 1e-9 * (1.0 + np.abs(found[inside]))
    above = feature_map((found[inside] + step)[:, None])[:, 0]
    below = feature_map((found[inside] - step)[:, None])[:, 0]
    assert (above >= wanted[inside] - 1e-9).all()
    assert (below <= wanted[inside] + 1e-9).all()


def test_mapped_columns_are_standardised():
    rng = np.random.default_rng(0)
    X = np.column_stack(
        [rng.normal(5, 3, 1000), rng.integers(0, 2, 1000), rng.exponential(size=1000)]
    )
    U = FeatureMap.fit(X)(X)
    assert_allclose(U.mean(axis=0), 0, atol=1e-12)
    assert_allclose(U.std(axis=0), 0.5, rtol=1e-12)


@pytest.mark.parametrize("n_levels", [1, 2, 3, 5])
def test_map_of_few_levels_has_equal_distances(n_levels):
    rng = np.random.default_rng(1)
    levels = np.sort(rng.normal(size=n_levels) * 10.0 ** np.arange(n_levels))
    column = rng.choice(levels, 200)
    steps = np.diff(np.unique(FeatureMap.fit(column[:, None])(column[:, None])))
    assert steps.size == n_levels - 1
    assert_allclose(steps, steps[:1].repeat(n_levels - 1))


@pytest.mark.parametrize(
    "column",
    [
        np.random.default_rng(2).normal(size=50),
        np.random.default_rng(3).exponential(size=50) ** 4,
        np.concatenate([np.zeros(45), np.arange(1.0, 6.0)]),
    ],
)
def test_fit_does_not_depend_on_how_far_an_outlier_lies(column):
    maps = []
    for far in (1e3, 1e6, 1e300):
        X = np.append(column, far)[:, None]
        maps.append(FeatureMap.fit(X))
        assert_array_equal(maps[-1].x, maps[0].x)
        assert_array_equal(maps[-1].u, maps[0].u)


def test_map_keeps_rare_values_of_mostly_constant_column_distinct():
    column = np.zeros(1000)
    column[:8] = [1, 1, 2, 3, 3, 5, 8, 9]
    U = FeatureMap.fit(column[:, None])(column[:, None])[:, 0]
    assert np.unique(U).size >= 5
    assert np.abs(U).max() < 20


def test_map_keeps_missing_values():
    assert np.isnan(FeatureMap([([0.0, 1.0], [0.0, 1.0])])([[np.nan]])).all()


@pytest.mark.parametrize(
    ("knots", "message"),
    [
        ([], "got none"),
        ([([], [])], "length >= 1"),
        ([([0.0, 1.0], [0.0])], r"shapes \(2,\) and \(1,\)"),
        ([([0.0, np.inf], [0.0, 1.0])], "finite"),
        ([([0.0, 0.0], [0.0, 1.0])], "increasing positions"),
        ([([0.0, 1.0], [1.0, 0.0])], "do not decrease"),
    ],
)
def test_map_rejects_invalid_knots(knots, message):
    with pytest.raises(ValueError, match=message):
        FeatureMap(knots)


@quick(50)
@given(seed=SEEDS, n=st.integers(1, 9))
def test_folded_map_takes_values_before_the_scaling(seed, n):
    rng = np.random.default_rng(seed)
    x = np.cumsum(rng.random(n) + 0.01)
    u = np.sort(rng.normal(size=n))
    centre, spread = rng.normal() * 10, rng.random() + 0.1
    folded = FeatureMap([(x, u)] * 2).folded([centre, 0.0], [spread, 1.0])
    points = rng.uniform(-1, x[-1] + 1, 50)
    got = folded(np.column_stack([points * spread + centre, points]))
    expected = FeatureMap([(x, u)])(points[:, None])
    assert_allclose(got, np.repeat(expected, 2, axis=1), atol=1e-10)


def test_folded_map_keeps_the_last_of_knots_that_meet():
    folded = FeatureMap([([0.0, 1e-9, 1.0], [0.0, 0.5, 2.0])]).folded(1e9, 1.0)
    assert_array_equal(folded.x, [1e9, 1e9 + 1])
    assert_array_equal(folded.u, [0.5, 2.0])


def test_folded_map_rejects_knots_out_of_range():
    with pytest.raises(ValueError, match="knots of feature 0 must be finite"):
        FeatureMap([([1e300], [0.0])]).folded(0.0, 1e300)


def test_maps_with_the_same_knots_are_equal():
    knots = [([0.0, 1.0], [0.0, 1.0]), ([0.0], [1.0])]
    assert FeatureMap(knots) == FeatureMap(knots)
    assert FeatureMap(knots) != FeatureMap(knots[::-1])
    assert FeatureMap(knots) != FeatureMap([([0.0, 1.0], [0.0, 2.0]), ([0.0], [1.0])])
    assert FeatureMap(knots) != knots


def test_clip_to_range_maps_each_column_onto_one_interval():
    X = np.array([[0.0, -3.0, 7.0], [4.0, 5.0, 7.0]])
    clipped = FeatureMap.clip(X)
    assert_allclose(clipped(X), [[-0.5, -0.5, 0.0], [0.5, 0.5, 0.0]])
    assert_allclose(clipped([[2.0, 9.0, 8.0]]), [[0.0, 0.5, 0.0]])


def test_clip_to_levels_is_constant_between_them():
    clipped = FeatureMap.clip(np.zeros((1, 2)), [(0.1, 0.2), (0.6, 0.8)])
    x = np.array([0.0, 0.1, 0.15, 0.2, 0.4, 0.6, 0.7, 0.8, 1.0])
    expected = [-0.5, -0.5, -0.25, 0.0, 0.0, 0.0, 0.25, 0.5, 0.5]
    assert_allclose(clipped(np.stack([x, x], axis=1)), np.stack([expected] * 2, axis=1), atol=1e-12)


def test_clip_accepts_intervals_that_touch():
    positions, values = FeatureMap.clip(np.zeros((1, 1)), [(0, 1), (1, 3)]).knots(0)
    assert_array_equal(positions, [0.0, 1.0, 3.0])
    assert_array_equal(values, [-0.5, 0.0, 0.5])


@pytest.mark.parametrize(
    "intervals",
    [
        "rnage",
        None,
        3.0,
        (1.0, 2.0, 3.0),
        [],
        (1.0, 1.0),
        [(0, 1), (0.5, 2)],
        (0.0, np.inf),
        ("a", 1),
    ],
)
def test_clip_rejects_invalid_intervals(intervals):
    with pytest.raises(ValueError, match=r"^intervals must"):
        FeatureMap.clip(np.zeros((2, 1)), intervals)
