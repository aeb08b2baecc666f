"""Flips of the mean of several models: as exact as those of one."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from explained import fixed
from maxplus.explain import Domain, single_flips, smallest_change
from maxplus.models import LMM
from strategies import SEEDS

pytestmark = pytest.mark.slow


class Mean:
    """The mean of members' scores."""

    def __init__(self, *members):
        self.members = members
        self.n_features, self.n_classes = members[0].n_features, members[0].n_classes
        self.dtype = members[0].dtype

    def scores(self, X):
        return np.mean([member.scores(X) for member in self.members], axis=0, dtype=self.dtype)


def random_member(rng, P, C, dtype=np.float64):
    """Units, views and slopes of its own."""
    H, M = rng.integers(1, 5), rng.integers(1, 4)
    has_directions = rng.random() < 0.5
    M = M if has_directions else P
    slopes = rng.uniform(0.3, 2.0, 2 * M) * rng.choice([-1.0, 1.0], 2 * M)
    D = rng.normal(size=(M, P)) if has_directions else None
    weights = slopes, rng.normal(size=(2 * M, H)), rng.normal(size=(H, C))
    return LMM(*(W.astype(dtype) for W in weights), D)


@st.composite
def committees(draw):
    rng = np.random.default_rng(draw(SEEDS))
    P, C, T = draw(st.integers(1, 3)), draw(st.integers(2, 3)), draw(st.integers(1, 4))
    X = rng.normal(size=(3, P))
    return Mean(*(random_member(rng, P, C) for _ in range(T))), X


@given(committees())
@fixed(60)
def test_flips_of_committees_are_real_and_the_nearest(drawn):
    """A fine grid along each feature finds none that is nearer, and the flip itself flips."""
    model, X = drawn
    low, high = -4.0, 4.0
    domain = Domain.free(model.n_features).within(low, high)
    flips = single_flips(model, X, domain)
    y = model.scores(X).argmax(axis=1)
    steps = np.linspace(low, high, 4001)
    for n, x in enumerate(X):
        nearest = np.inf
        for p in range(x.size):
            rows = np.repeat(x[None], steps.size, axis=0)
            rows[:, p] = steps
            z = model.scores(rows)
            lead = np.delete(z, y[n], axis=1).max(axis=1) - z[:, y[n]]
            nearest = min(nearest, np.abs(steps - x[p])[lead > 1e-9].min(initial=np.inf))
        assert flips.distance[n] <= nearest + 1e-9
        p = flips.feature[n]
        if p < 0:
            assert nearest == np.inf
            continue
        for value in (flips.value[n], flips.shown[n]):
            row = x.copy()
            row[p] = value
            assert model.scores(row[None]).argmax() == flips.becomes[n] != y[n]
        assert flips.distance[n] == pytest.approx(abs(flips.value[n] - x[p]))
        # Just before the value the class is still y: it is a crossing and not beyond it.
        row = x.copy()
        row[p] += (flips.value[n] - x[p]) * (1 - 1e-6)
        assert model.scores(row[None]).argmax() == y[n]


@given(SEEDS, st.integers(1, 3))
@fixed(40)
def test_equal_members_flip_as_one(seed, n_members):
    rng = np.random.default_rng(seed)
    member = random_member(rng, 3, 3)
    X, domain = rng.normal(size=(4, 3)), Domain.free(3, rng.uniform(0.5, 2.0, 3))
    domain = domain.within(-3.0, 3.0)
    found, expected = (
        single_flips(model, X, domain) for model in (Mean(*[member] * n_members), member)
    )
    assert np.array_equal(found.feature, expected.feature)
    np.testing.assert_allclose(found.value, expected.value, rtol=1e-9)
    assert np.array_equal(found.becomes, expected.becomes)


@given(committees())
@fixed(40)
def test_whole_numbers_of_committees_are_all_of_them(drawn):
    model, X = drawn
    P, X = model.n_features, np.round(3 * drawn[1])
    whole = replace(Domain.free(P).within(-40.0, 40.0), whole=np.ones(P, bool))
    flips = single_flips(model, X, whole)
    y = model.scores(X).argmax(axis=1)
    values = np.arange(-40.0, 41.0)
    for n, x in enumerate(X):
        nearest = np.inf
        for p in range(P):
            rows = np.repeat(x[None], values.size, axis=0)
            rows[:, p] = values
            flipped = model.scores(rows).argmax(axis=1) != y[n]
            nearest = min(nearest, np.abs(values - x[p])[flipped].min(initial=np.inf))
        assert flips.distance[n] == nearest


def test_float32_committees_flip_when_typed_in():
    rng = np.random.default_rng(0)
    model = Mean(*(random_member(rng, 3, 2, np.float32) for _ in range(3)))
    X = rng.normal(size=(40, 3)).astype(np.float32)
    flips = single_flips(model, X, Domain.free(3).within(-5.0, 5.0))
    some = flips.feature >= 0
    assert some.sum() > 10
    for value in (flips.value, flips.shown):
        changed = X[some].astype(float)
        changed[np.arange(some.sum()), flips.feature[some]] = value[some]
        assert np.array_equal(model.scores(changed).argmax(axis=1), flips.becomes[some])


def test_several_columns_are_for_one_model():
    rng = np.random.default_rng(0)
    with pytest.raises(TypeError, match="got a Mean; single_flips takes it"):
        smallest_change(Mean(random_member(rng, 2, 2)), np.zeros(2), Domain.free(2))
