"""The smallest change of one column that changes the prediction of a sum of terms."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from explained import HIGH, LOW, fixed, flips_within, random_map, random_sum, random_terms
from maxplus.explain import Domain, OneHotGroup, nearest_counterfactuals
from maxplus.models import LMM, AdditiveLMM, FeatureMap, Term
from strategies import DTYPES, SEEDS


@st.composite
def sums(draw):
    rng, dtype = np.random.default_rng(draw(SEEDS)), draw(DTYPES)
    P, C = draw(st.integers(1, 4)), draw(st.integers(2, 3))
    model = random_sum(rng, P, C, is_mapped=draw(st.booleans()), dtype=dtype)
    return model, rng.uniform(LOW, HIGH, (3, P)).astype(dtype).astype(float)


def lead_along(model, x, y, p, values):
    """Return the best other score minus that of y, for these values of feature p."""
    rows = np.repeat(x[None], values.size, axis=0)
    rows[:, p] = values
    z = model.scores(rows).astype(float)
    return np.delete(z, y, axis=1).max(axis=1) - z[:, y]


def changed(x, p, value):
    row = x.copy()
    row[p] = value
    return row[None]


@given(sums())
@fixed(150)
def test_counterfactuals_of_sums_change_the_class_and_are_the_nearest(drawn):
    model, X = drawn
    tolerance = 1e-9 if model.dtype == np.float64 else 1e-4
    flips = nearest_counterfactuals(
        model, X, Domain.unrestricted(model.n_features).within(LOW, HIGH)
    )
    y = model.scores(X).argmax(axis=1)
    steps = np.linspace(LOW, HIGH, 4001)
    for n, x in enumerate(X):
        leads = np.array([lead_along(model, x, y[n], p, steps) for p in range(x.size)])
        away = np.abs(steps - x[:, None])
        nearest = away[leads > tolerance].min(initial=np.inf)
        assert flips.distance[n] <= nearest + tolerance
        p = flips.feature[n]
        if p < 0:
            assert nearest == np.inf
            continue
        for value in (flips.value[n], flips.shown[n]):
            assert model.scores(changed(x, p, value)).argmax() == flips.new_class[n] != y[n]
        assert flips.distance[n] == pytest.approx(abs(flips.value[n] - x[p]))
        # No grid point that is clearly nearer is of another class, and the value is a crossing.
        assert leads[away < flips.distance[n] * (1 - 1e-6)].max(initial=-1.0) <= tolerance
        if model.dtype == np.float64:
            before = changed(x, p, x[p] + (flips.value[n] - x[p]) * (1 - 1e-6))
            assert model.scores(before).argmax() == y[n]


@given(SEEDS, st.booleans())
@fixed(20)
def test_counterfactuals_of_one_term_over_all_features_equal_those_of_its_lmm(seed, has_limits):
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=8), rng.normal(size=(8, 5)), rng.normal(size=(5, 3))
    lmm = LMM(*weights)
    model, X = AdditiveLMM([Term(np.arange(4), lmm)], 4), rng.normal(size=(6, 4))
    limits = (-3.0, 3.0) if has_limits else ()
    found, expected = (flips_within(one, X, *limits) for one in (model, lmm))
    assert np.array_equal(found.feature, expected.feature)
    assert np.array_equal(found.new_class, expected.new_class)
    np.testing.assert_allclose(found.value, expected.value, rtol=1e-9)


@given(sums())
@fixed(40)
def test_integer_counterfactuals_of_sums_are_the_nearest(drawn):
    model, X = drawn
    P, X = model.n_features, np.round(5 * drawn[1])
    wide = FeatureMap(
        [(10.0 * x, u) for x, u in map(random_map(np.random.default_rng(P), P).knots, range(P))]
    )
    model = AdditiveLMM(model.terms, P, wide, model.intercept)
    whole = replace(Domain.unrestricted(P).within(-40.0, 40.0), is_integer=np.ones(P, bool))
    assert whole.is_unlisted.all()
    flips = nearest_counterfactuals(model, X, whole)
    y = model.scores(X).argmax(axis=1)
    values = np.arange(-40.0, 41.0)
    for n, x in enumerate(X):
        is_other = np.array([lead_along(model, x, y[n], p, values) for p in range(P)]) > 1e-12
        nearest = np.abs(values - x[:, None])[is_other].min(initial=np.inf)
        assert flips.distance[n] == nearest


def two_steps(intercept=(0.0, 0.0), **others):
    """z_1 − z_0 = 2·φ(x_0) − 1 + (2·φ(x_1) − 1) + b, between 0 and 1."""
    steps = LMM.from_boxes([[0.0], [1.0]], 0.5, np.eye(2), slope=1.0)
    return AdditiveLMM([Term([0], steps), Term([1], steps)], 2, intercept=intercept, **others)


PERCENT = FeatureMap([([0.0, 100.0], [0.0, 1.0]), ([0.0, 10.0], [0.0, 1.0])])


def test_counterfactual_of_sum_is_in_raw_units():
    model = two_steps(feature_map=PERCENT)
    found = nearest_counterfactuals(model, [[10.0, 7.0]], Domain.unrestricted(2, [50.0, 5.0]))
    # 2·0.1 − 1 + 2·0.7 − 1 = −0.4: either needs 0.2 more, that is 20 or 2, and 0.4 units each.
    assert found.new_class.tolist() == [1]
    assert found.distance == pytest.approx(0.4)
    assert found.shown.tolist() == [31.0 if found.feature[0] == 0 else 9.1]


def test_counterfactual_from_outside_the_knots_crosses_the_flat_part():
    model = two_steps(feature_map=PERCENT)
    found = nearest_counterfactuals(model, [[-500.0, 5.0]], Domain.unrestricted(2).with_fixed([1]))
    assert found.feature.tolist() == [0]
    assert found.value == pytest.approx(50.0)
    assert found.distance == pytest.approx(550.0)


def test_row_outside_its_domain_may_have_counterfactual_where_map_is_flat():
    """From −5 the nearest value that is allowed lies where the map has ended."""
    model = two_steps(feature_map=PERCENT)
    domain = Domain.unrestricted(2).within([200.0, 5.0], [300.0, 5.0])
    found = nearest_counterfactuals(model, [[-5.0, 5.0]], domain)
    assert (found.feature[0], found.value[0], found.new_class[0]) == (0, 200.0, 1)


def test_counterfactuals_of_sums_change_categories_and_missing_values_as_a_whole():
    """Features 0 and 1 are categories; feature 2 is a number with the indicator 3."""
    steps = LMM.from_boxes([[0.0], [1.0]], 0.5, np.eye(2), slope=1.0)
    against = LMM.from_boxes([[0.0], [1.0]], 0.5, 3.0 * np.eye(2)[::-1], slope=1.0)
    terms = [Term([1], steps), Term([2], steps), Term([3], against)]
    model = AdditiveLMM(terms, 4, intercept=[0.5, 0.0])
    names = ["red", "blue", "age", "age missing"]
    domain = replace(
        Domain.unrestricted(4, [1.0, 1.0, 0.01, 1.0], names).within(0.0, 1.0),
        categories=(OneHotGroup("colour", (0, 1), ("red", "blue")),),
        indicators={2: 3},
    ).with_fixed([3])
    X = np.array([[1.0, 0.0, 0.6, 0.0], [0.0, 1.0, 0.3, 1.0]])
    rows = [[0.0, 1.0, 0.6, 0.0], [0.0, 1.0, 0.3, 0.0]]
    y = model.scores(X).argmax(axis=1)
    found = nearest_counterfactuals(model, X, domain)
    for n, feature in enumerate((1, 2)):
        assert found.feature[n] == feature
        row = domain.changed(X[n], found.feature[n], found.value[n])
        assert row.tolist() == [rows[n]]
        assert model.scores(row).argmax() == found.new_class[n] != y[n]


def test_counterfactuals_of_trained_sums_are_the_nearest_on_a_grid():
    """Heavy tails, an outlier of 10^6 deviations, and terms over one, two and all features."""
    rng = np.random.default_rng(0)
    train = rng.normal(size=(200, 3)) * [1.0, 100.0, 1e-3]
    train[:, 2] = np.sinh(3000 * train[:, 2])
    train[0, 0] = 1e6
    feature_map = FeatureMap.fit(train)
    model = AdditiveLMM(random_terms(rng, 3, 3, n_terms=8), 3, feature_map)
    domain = Domain.from_rows(train)
    X = train[:30]
    flips = nearest_counterfactuals(model, X, domain)
    assert (flips.feature >= 0).sum() > 10
    y = model.scores(X).argmax(axis=1)
    for n, x in enumerate(X):
        for p in range(3):
            reach = min(flips.distance[n], 5.0) * domain.unit[p] * (1 - 1e-9)
            values = np.clip(
                np.linspace(x[p] - reach, x[p] + reach, 2001), train[:, p].min(), train[:, p].max()
            )
            assert lead_along(model, x, y[n], p, values).max() <= 1e-9
