"""The network of a committee: mean scores, and their certificates."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from committees import QUICK, WORDS, committees, random_lmm
from maxplus import LMMCommittee
from maxplus.certify import box_bounds, certified_at, certified_radius
from maxplus.models import Committee
from strategies import SEEDS, quick


@given(committees())
@quick(60)
def test_scores_are_the_mean_in_the_order_of_the_members(case):
    committee, X = case
    expected = np.zeros((len(X), committee.n_classes), committee.dtype)
    for n in range(len(X)):
        for d in range(committee.n_classes):
            total = committee.members[0].scores(X)[n, d]
            for member in committee.members[1:]:
                total = total + member.scores(X)[n, d]
            expected[n, d] = total / total.dtype.type(len(committee.members))
    assert_array_equal(committee.scores(X), expected, strict=True)
    one = Committee(committee.members[:1])
    assert_array_equal(one.scores(X), committee.members[0].scores(X), strict=True)


@given(committees(), st.integers(0, 1))
@quick(40)
def test_a_loss_is_at_most_the_mean_of_the_members(case, label):
    committee, X = case
    y = np.full(len(X), label)
    most = np.mean([member.losses(X, y) for member in committee.members], axis=0)
    assert (committee.losses(X, y) <= most + 1e-5 * (1 + most)).all()


def test_members_must_fit_each_other():
    rng = np.random.default_rng(0)
    one = random_lmm(rng, 3, 4, 2)
    with pytest.raises(ValueError, match="at least one member"):
        Committee([])
    with pytest.raises(ValueError, match="the same n_features; got 3, 2"):
        Committee([one, random_lmm(rng, 2, 4, 2)])
    with pytest.raises(ValueError, match="the same n_classes; got 2, 3"):
        Committee([one, random_lmm(rng, 3, 4, 3)])
    with pytest.raises(ValueError, match="the same dtype; got float64, float32"):
        Committee([one, one.astype(np.float32)])


def test_affine_maps_and_factors_go_into_the_members(mixed_trio, iris):
    centre, spread = iris.X.mean(axis=0), iris.X.std(axis=0)
    Z = mixed_trio.scores((iris.X - centre) / spread)
    assert_allclose(mixed_trio.folded(centre, spread).scores(iris.X), Z, atol=1e-10)
    D = np.diag(1 / spread)
    assert_allclose(mixed_trio.through(D, centre).scores(iris.X), Z, atol=1e-10)
    assert_array_equal(mixed_trio.scaled(2.0).scores(iris.X), 2.0 * mixed_trio.scores(iris.X))
    assert mixed_trio.astype(np.float32).dtype == np.float32
    assert mixed_trio.n_hidden == 15
    assert mixed_trio.first_units.tolist() == [0, 5, 9, 15]
    expected = [member.wins(iris.X) for member in mixed_trio.members]
    assert_array_equal(mixed_trio.wins(iris.X), np.concatenate(expected))
    assert len(mixed_trio.weights_by_name()) == 3 * 3 + 2
    assert mixed_trio.weights_by_name()["2.W1"] is mixed_trio.members[2].W1


# -- certificates -----------------------------------------------------------------------------


@given(committees(), st.sampled_from([0.0, 0.25, 1.0]), SEEDS)
@quick(80)
def test_bounds_are_means_of_the_members_and_hold(case, eps, seed):
    committee, X = case
    rng = np.random.default_rng(seed)
    scale = rng.choice([0.0, 0.5, 2.0], size=X.shape[1])
    low, high = box_bounds(committee, X, eps, scale)
    own = [box_bounds(member, X, eps, scale) for member in committee.members]
    for side, sign, found in ((0, 1, low), (1, -1, high)):
        for n, d in np.ndindex(*found.shape):
            mean = sum(Fraction(bounds[side][n, d]) for bounds in own) / len(own)
            # Outside the mean of the members' bounds, by no more than rounding.
            assert 0 <= sign * (mean - Fraction(found[n, d])) <= 1e-4 * (1 + abs(mean))
    for _ in range(20):
        steps = eps * scale * rng.choice([-1.0, 1.0, rng.uniform(-1, 1)], size=X.shape)
        Z = committee.scores(np.nextafter((X + steps).astype(X.dtype), X))
        assert (low <= Z).all()
        assert (high >= Z).all()


def attack(model, X, radius, rng, rounds=30):
    """Whether a point in some row's box is classified differently: corners, and greedy walks."""
    y, rows = model.scores(X).argmax(axis=1), np.arange(len(X))
    best = X.copy()

    def lead(points):
        Z = model.scores(points).astype(float)
        own = Z[rows, y]
        Z[rows, y] = -np.inf
        return own - Z.max(axis=1)

    low, high = X - radius[:, None], X + radius[:, None]
    for _ in range(rounds):
        corner = np.where(rng.random(X.shape) < 0.5, low, high)
        walk = np.where(rng.random(X.shape) < 0.3, corner, best)
        for points in (corner, walk):
            better = lead(points) < lead(best)
            best[better] = points[better]
    return model.scores(best).argmax(axis=1) != y


@pytest.mark.parametrize("bagging", [False, True])
def test_no_attack_inside_the_radius(iris, bagging):
    X, rng = iris.X.astype(np.float32), np.random.default_rng(0)
    clf = LMMCommittee(3, bagging=bagging, **QUICK).fit(X, iris.y)
    radius = clf.certified_radius(X)
    assert (radius > 0).mean() > 0.9
    inside = np.nextafter(radius.astype(np.float32), np.float32(0))
    assert not attack(clf.model_, X, inside, rng).any()
    assert certified_at(clf.model_, X, radius).all()
    assert not certified_at(clf.model_, X, radius * (1 + 1e-5)).any()
    # An attack that finds nothing anywhere would prove nothing.
    assert attack(clf.model_, X, 20 * inside, rng).mean() > 0.5


def test_certificates_hold_for_members_that_see_different_sums(mixed_trio, iris):
    radius = certified_radius(mixed_trio, iris.X)
    certain = radius > 0
    assert certain.mean() > 0.9
    rng = np.random.default_rng(1)
    assert not attack(mixed_trio, iris.X[certain], 0.999999 * radius[certain], rng).any()
    assert attack(mixed_trio, iris.X, 30 * radius, rng).mean() > 0.3


def test_certified_accuracy(trio, iris):
    shares = trio.certify(iris.X, WORDS[iris.y], [0.0, 0.05, 5.0])
    right = trio.predict(iris.X) == WORDS[iris.y]
    assert shares[0] == right.mean()
    assert shares[1] == (right & certified_at(trio.model_, iris.X, 0.05)).mean()
    assert shares[0] >= shares[1] > 0.5 > shares[2]
