"""The smallest change of several columns for sums of terms, against trying all of them."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from explained import fixed
from maxplus.explain import Category, Domain, nearest_counterfactuals, smallest_change
from maxplus.models import AdditiveLMM, FeatureMap
from strategies import SEEDS
from test_changes import CLOSE, nearest_of_all
from test_sum_flips import HIGH, LOW, random_map, random_sum, random_terms

pytestmark = pytest.mark.slow


@given(SEEDS, st.integers(1, 3), st.booleans())
@fixed(20)
def test_changes_of_listed_values_are_the_smallest(seed, n_columns, has_none):
    rng = np.random.default_rng(seed)
    P = 6
    domain = replace(
        Domain.free(P, rng.uniform(0.5, 2.0, P)).within(-2.0, 3.0),
        whole=np.isin(np.arange(P), [0, 1]), values={2: np.array([-1.5, 0.25, 2.0])},
        categories=(Category("word", (3, 4, 5), ("u", "v", "w"), has_none),),
    )  # fmt: skip
    model = random_sum(rng, P, 3, is_mapped=seed % 2 == 0, n_terms=6)
    x = np.concatenate([rng.integers(-2, 4, 2), [0.25], np.eye(3)[rng.integers(3)]])
    change = smallest_change(model, x, domain, n_columns)
    expected = nearest_of_all(model, domain, x, n_columns)
    assert change.distance == pytest.approx(expected, rel=CLOSE)
    assert change.at_least == pytest.approx(change.distance, rel=CLOSE)
    if expected < np.inf:
        assert change.feature.size <= n_columns
        assert model.scores(change.row[None]).argmax() == change.becomes
        assert change.becomes != model.scores(x[None]).argmax()


@given(SEEDS, st.booleans(), st.sampled_from([np.float32, np.float64]))
@fixed(15)
def test_changes_of_two_free_numbers_are_the_smallest(seed, is_mapped, dtype):
    """No point of a fine grid flips that is nearer, and the change itself does flip."""
    rng = np.random.default_rng(seed)
    model = random_sum(rng, 3, 3, is_mapped=is_mapped, dtype=dtype)
    x, unit = rng.uniform(LOW, HIGH, 3), rng.uniform(0.5, 2.0, 3)
    domain = Domain.free(3, unit).within(LOW, HIGH)
    y = model.scores(x[None]).argmax()
    change = smallest_change(model, x, domain, 2)
    single = nearest_counterfactuals(model, x[None], domain)
    assert change.distance <= single.distance[0] * (1 + 1e-9)
    steps = np.linspace(LOW, HIGH, 81)
    nearest = np.inf
    for p, q in itertools.combinations(range(3), 2):
        rows = np.repeat(x[None], steps.size**2, axis=0)
        rows[:, p], rows[:, q] = (axis.ravel() for axis in np.meshgrid(steps, steps))
        z = model.scores(rows)
        lead = np.delete(z, y, axis=1).max(axis=1) - z[:, y]
        sums = (np.abs(rows - x) / unit).sum(axis=1)
        nearest = min(nearest, sums[lead > 1e-4].min(initial=np.inf))
    assert change.distance <= nearest * (1 + CLOSE)
    assert change.at_least == pytest.approx(change.distance, rel=CLOSE)
    if change.becomes < 0:
        assert nearest == np.inf
        return
    moved = x.copy()
    moved[change.feature] = change.value
    assert (np.abs(moved - x) / unit).sum() == pytest.approx(change.distance)
    assert model.scores(moved[None]).argmax() == change.becomes != y
    assert model.scores(change.row[None]).argmax() == change.becomes


@given(SEEDS)
@fixed(20)
def test_whole_numbers_and_missing_values_are_the_smallest(seed):
    """Feature 0 is whole, feature 1 is whole and was missing, with the indicator 2."""
    rng = np.random.default_rng(seed)
    knots = [(10.0 * x, u) for x, u in map(random_map(rng, 3).knots, range(2))]
    feature_map = FeatureMap([*knots, ([0.0, 1.0], [-0.5, 0.5])])
    model = AdditiveLMM(random_terms(rng, 3, 2, n_terms=5), 3, feature_map)
    domain = replace(
        Domain.free(3, [2.0, 5.0, 1.0]).within(-30.0, 30.0),
        whole=np.array([True, True, False]), indicators={1: 2},
    ).with_fixed([2])  # fmt: skip
    assert domain.is_long[:2].all()
    # A whole number that was filled in by a fraction cannot stay what it is.
    x = np.array([rng.integers(-30, 31), rng.integers(-30, 31) + rng.choice([0.0, 0.4]), 1.0])
    y = model.scores(x[None]).argmax()
    values = np.arange(-30.0, 31.0)
    rows = [[a, x[1], 1.0] for a in values] + [[a, b, 0.0] for a in values for b in values]
    rows = np.array(rows)
    flipped = model.scores(rows).argmax(axis=1) != y
    expected = (np.abs(rows - x) / domain.unit)[:, :2].sum(axis=1)[flipped].min(initial=np.inf)
    change = smallest_change(model, x, domain, 2)
    assert change.distance == pytest.approx(expected, rel=CLOSE)
    if expected < np.inf:
        assert model.scores(change.row[None]).argmax() == change.becomes != y
        assert change.row[2] == (0.0 if 1 in change.feature else 1.0)
        assert (change.value == np.round(change.value)).all()
