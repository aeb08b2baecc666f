"""Certificates of sums of LMM terms against grids, attacks and the bounds of single LMMs."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from certified import BOTH_TYPES, ROUNDING, SHORT, attack, inside, predict
from maxplus.certify import box_bounds, certified_at, certified_radius
from maxplus.certify.bounds import caps, mapped_box
from maxplus.certify.margins import Margins, WideTerm, add_term_margins, term_margins
from maxplus.models import LMM, AdditiveLMM, FeatureMap, Term
from maxplus.training.smooth.soft_terms import TERM_ANNEALING, train_terms
from maxplus.training.smooth.structures import Structure, initial_terms
from strategies import DTYPES, SEEDS, quick

KINDS = st.sampled_from(["one", "two", "all", "mixed"])


def random_lmm(rng, n_features, n_classes, dtype):
    """Return an LMM whose slopes have any signs; some are equal or zero."""
    W0 = np.abs(rng.normal(size=2 * n_features))
    W0[1::2] *= -1
    signs = rng.random()
    if signs < 0.3:
        W0 = rng.normal(size=W0.size) * (rng.random(W0.size) < 0.8)
    elif signs < 0.4:
        W0 = np.repeat(W0[::2], 2)
    n_hidden = int(rng.integers(1, 7))
    W1, W2 = rng.normal(size=(W0.size, n_hidden)), 0.5 * rng.normal(size=(n_hidden, n_classes))
    return LMM(W0.astype(dtype), W1.astype(dtype), W2.astype(dtype))


def random_map(rng, n_features):
    """Return a map with flat parts, steep parts and few knots."""
    knots = []
    for _ in range(n_features):
        x = np.unique(rng.normal(size=int(rng.integers(1, 7))) * 2.0)
        rises = rng.choice([0.0, 1.0, 5.0], size=x.size) * rng.random(x.size)
        knots.append((x, np.cumsum(rises) - 0.5 * rises.sum()))
    return FeatureMap(knots)


def random_sum(rng, kind="mixed", dtype=np.float64, has_map=True, n_features=4, n_classes=3):
    terms = []
    for _ in range(int(rng.integers(2, 9))):
        m = {"one": 1, "two": 2, "all": n_features, "mixed": rng.choice([1, 1, 2, n_features])}
        features = np.sort(rng.choice(n_features, int(m[kind]), replace=False))
        terms.append(Term(features, random_lmm(rng, features.size, n_classes, dtype)))
    feature_map = random_map(rng, n_features) if has_map else None
    return AdditiveLMM(terms, n_features, feature_map, 0.1 * rng.normal(size=n_classes))


def margins_of(model, points, y):
    """Return z_y minus the highest other score, for points (…, P) and classes (…)."""
    Z = model.scores(points.reshape(-1, points.shape[-1])).astype(float)
    Z = Z.reshape(*points.shape[:-1], -1)
    own = np.take_along_axis(Z, y[..., None], axis=-1)[..., 0]
    np.put_along_axis(Z, y[..., None], -np.inf, axis=-1)
    return own - Z.max(axis=-1)


def breakpoints(lmm):
    """Return all crossings of two lines of a class, among them the points where slopes change."""
    a, b = lmm.W0.astype(float)
    if a == b:
        return np.empty(0)
    A, B = (lmm.W1[i][:, None].astype(float) + lmm.W2 for i in range(2))
    return ((B[:, None] - A[None]) / (a - b)).ravel()


def size(model, X):
    """Return roughly the sum of the largest magnitudes of all terms; rounding is relative to it."""
    U = np.abs(X if model.feature_map is None else model.feature_map.u).max()
    terms = [[np.abs(W).max() for W in (lmm.W0, lmm.W1, lmm.W2)] for _, lmm in model.terms]
    return np.abs(model.intercept).max() + sum(W0 * U + W1 + W2 for W0, W1, W2 in terms)


def lowest_margins_on_a_grid(model, x, y, low, high):
    """Return Σ_p min over u of the margin z_y − z_d of all terms over feature p, (C,)."""
    total = (model.intercept[y] - model.intercept).astype(float)
    for p in range(model.n_features):
        lmms = [lmm.astype(np.float64) for features, lmm in model.terms if features[0] == p]
        if not lmms:
            continue
        points = np.concatenate([np.linspace(low[p], high[p], 300), *map(breakpoints, lmms)])
        points = points[(points >= low[p]) & (points <= high[p])]
        Z = sum(lmm.scores(points[:, None]) for lmm in lmms)
        total += (Z[:, [y]] - Z).min(axis=0)
    return total


@quick(100)
@given(seed=SEEDS, dtype=DTYPES, has_map=st.booleans(), eps=st.sampled_from([0.01, 0.3, 2.0]))
def test_bounds_of_shape_functions_are_exact(seed, dtype, has_map, eps):
    rng = np.random.default_rng(seed)
    model = random_sum(rng, "one", dtype, has_map)
    X, scale = rng.normal(size=(6, 4)), rng.choice([0.0, 0.5, 1.0, 2.0], size=4)
    X = X.astype(dtype).astype(float)
    y = predict(model, X)
    got = Margins(model, X, y, scale).lower_bounds(np.arange(6), np.full(6, eps))
    for n, x in enumerate(X):
        ends = np.stack([x - eps * scale, x + eps * scale])
        low, high = ends if model.feature_map is None else model.feature_map(ends)
        expected = np.delete(lowest_margins_on_a_grid(model, x, y[n], low, high), y[n]).min()
        slack = 4.0 * ROUNDING[model.dtype] * size(model, ends)
        # The ends of the box are rounded, and the map may be steep there.
        steep = 1.0 if model.feature_map is None else max(1.0, model.feature_map.slopes.max())
        assert_allclose(got.margin[n], expected, rtol=0.0, atol=steep * slack)
        assert got.gap[n] <= expected
        assert got.rounding[n] <= slack


@quick(60)
@given(seed=SEEDS, dtype=DTYPES)
def test_ends_of_boxes_are_rounded_outwards(seed, dtype):
    rng = np.random.default_rng(seed)
    lmm = LMM(*(rng.normal(size=shape).astype(dtype) for shape in (8, (8, 2), (2, 2))))
    X, eps, scale = rng.normal(size=(20, 4)), rng.random(20), rng.random(4)
    # Some ends are close to 0, where the product eps·scale is rounded more than they are.
    X[:10] = eps[:10, None] * scale * rng.choice([-1.0, 1.0], size=(10, 4))
    model = AdditiveLMM([Term(np.arange(4), lmm)], 4)
    low, high = mapped_box(model, X, eps, scale)
    for n, p in np.ndindex(X.shape):
        reach = Fraction(eps[n]) * Fraction(scale[p])
        assert Fraction(low[n, p]) <= Fraction(X[n, p]) - reach
        assert Fraction(high[n, p]) >= Fraction(X[n, p]) + reach
    assert (high - low <= 2.0 * eps[:, None] * scale + 1e-6).all()


@BOTH_TYPES
@pytest.mark.parametrize("has_map", [False, True])
def test_attacks_inside_the_radius_fail(dtype, has_map):
    """With three times the radius, the same attack finds many points of other classes."""
    rng, beyond = np.random.default_rng(7), []
    for k in range(60):
        model = random_sum(rng, ("one", "two", "all", "mixed")[k % 4], dtype, has_map)
        X = (2.0 * rng.normal(size=(12, 4))).astype(rng.choice([np.float32, np.float64]))
        scale = rng.choice([0.0, 0.3, 1.0, 4.0], size=4)
        radius = certified_radius(model, X, scale)
        assert not attack(model, X, radius, scale, seed=k).any()
        limited = np.isfinite(radius) & (radius > 0.0)
        beyond.append(attack(model, X, 3.0 * radius, scale, seed=k)[limited])
    assert np.concatenate(beyond).mean() > 0.15


@quick(60)
@given(seed=SEEDS, kind=KINDS, dtype=DTYPES, has_map=st.booleans())
def test_computed_and_exact_margins_are_above_their_bound(seed, kind, dtype, has_map):
    """Also for inputs so large that float32 models round them."""
    rng = np.random.default_rng(seed)
    model = random_sum(rng, kind, dtype, has_map)
    if has_map:
        far = [(x + 1e6, u) for x, u in map(model.feature_map.knots, range(4))]
        model = AdditiveLMM(model.terms, 4, FeatureMap(far), model.intercept)
    X = 2.0 * rng.normal(size=(8, 4)) + 1e6 * has_map
    y, eps = predict(model, X), rng.choice([1e-3, 0.1, 1.0], size=8)
    gap = Margins(model, X, y, np.ones(4)).lower_bounds(np.arange(8), eps).gap
    for share in [*rng.uniform(-1, 1, (20, 8, 4)), *rng.choice([-1.0, 1.0], (20, 8, 4))]:
        points = inside(X, eps[:, None] * share)
        assert (margins_of(model, points, y) >= gap).all()
        assert (margins_of(model.astype(np.float64), points, y) >= gap).all()


@quick(60)
@given(seed=SEEDS, kind=KINDS, dtype=DTYPES, has_map=st.booleans())
def test_gap_falls_with_eps(seed, kind, dtype, has_map):
    rng = np.random.default_rng(seed)
    model = random_sum(rng, kind, dtype, has_map)
    X = rng.normal(size=(10, 4))
    margins = Margins(model, X, predict(model, X), rng.random(4))
    found = [
        margins.lower_bounds(np.arange(10), np.full(10, eps))
        for eps in (0, 1e-9, 0.01, 0.1, 0.3, 1, 50)
    ]
    for one, next_ in pairwise(found):
        assert (next_.gap <= one.gap + one.rounding).all()
    changed = found[3].gap - found[4].gap
    assert (changed <= 2.0 * margins.slope * 0.2 + found[4].rounding).all()


@quick(60)
@given(seed=SEEDS)
def test_term_margins_are_below_those_of_all_points_and_fall_with_the_box(seed):
    rng = np.random.default_rng(seed)
    lmm = random_lmm(rng, 3, 3, np.float64)
    X, y, reach = rng.normal(size=(6, 3)), rng.integers(0, 3, 6), rng.random((6, 3))
    unit = rng.integers(0, lmm.n_hidden, 6)
    before = np.full((6, 3), np.inf)
    for share in (0.1, 0.5, 1.0):
        low, high = X - share * reach, X + share * reach
        bounds = term_margins(lmm, caps(lmm), low, high, y, unit)
        assert (bounds <= before + 1e-9).all()
        assert (bounds >= term_margins(lmm, caps(lmm), low, high, y) - 1e-9).all()
        points = inside(X, share * reach * rng.uniform(-1.0, 1.0, (200, 6, 3)))
        Z = lmm.scores(points.reshape(-1, 3)).reshape(200, 6, 3)
        own = np.take_along_axis(Z, np.broadcast_to(y[:, None], (200, 6, 1)), axis=2)
        assert (own - Z >= bounds - 1e-9).all()
        before = bounds


def naive_term_margins(lmm, low, high, y, unit):
    """Return the bounds of one row that `term_margins` documents, from all units, (C,)."""
    ends = np.sort([np.repeat(end, 2) * lmm.W0 for end in (low, high)], axis=0)
    bottom, top = ((end[:, None] + lmm.W1).min(axis=0) for end in ends)
    top = np.minimum(top, caps(lmm))
    lead = np.maximum(-lmm.W1, ends[0][:, None] - top) + lmm.W1[:, [unit]]
    ahead = np.maximum((bottom + lmm.W2[:, y]).max() - top, lmm.W2[:, y])
    ahead = np.maximum(ahead, lead.min(axis=0) + lmm.W2[unit, y])
    return (ahead[:, None] - lmm.W2).min(axis=0)


@pytest.mark.parametrize("reach", [0.0, 0.1, 1.0, 5.0])
@pytest.mark.parametrize("n_rows", [3, 1000])
def test_skipped_units_do_not_change_margins(reach, n_rows):
    """Also for many rows, on several threads."""
    rng = np.random.default_rng(n_rows)
    lmm = LMM(*(rng.normal(size=shape) for shape in (12, (12, 400), (400, 4))))
    u, y = rng.normal(size=(n_rows, 6)), rng.integers(0, 4, n_rows)
    low, high = u - reach * rng.random(u.shape), u + reach * rng.random(u.shape)
    term = WideTerm.at(lmm, caps(lmm), np.arange(6), u)
    term = term._replace(unit=rng.integers(0, 400, n_rows))
    rows = np.arange(n_rows)
    before = rng.normal(size=(n_rows, 4))
    sums, lowest = before.copy(), before.copy()
    add_term_margins(term, rows, low, high, y, False, sums)
    add_term_margins(term, rows, low, high, y, True, lowest)
    for n in range(min(n_rows, 40)):
        others = np.arange(4) != y[n]
        expected = before[n] + naive_term_margins(lmm, low[n], high[n], y[n], term.unit[n])
        assert_allclose(sums[n, others], expected[others], rtol=0.0, atol=1e-12)
    sums[rows, y] = lowest[rows, y] = np.inf
    assert_array_equal(lowest.min(axis=1), sums.min(axis=1))


def test_unit_shared_by_both_classes_costs_no_margin():
    """Separate bounds of both scores would be too loose, because one unit decides both."""
    shared = LMM.from_boxes([[0.0, 0.0]], 1.0, [[1.0, 0.0]], slope=1.0)
    low, high = box_bounds(shared, np.zeros((1, 2)), 1.0)
    assert low[0, 0] < high[0, 1]
    for model in (shared, AdditiveLMM([Term([0, 1], shared)], 2)):
        assert certified_radius(model, np.zeros((1, 2))) > 1e6


@quick(60)
@given(seed=SEEDS, kind=KINDS, dtype=DTYPES, has_map=st.booleans())
def test_certified_at_agrees_with_the_radius(seed, kind, dtype, has_map):
    rng = np.random.default_rng(seed)
    model = random_sum(rng, kind, dtype, has_map)
    X, scale = rng.normal(size=(10, 4)), rng.choice([0.0, 1.0, 2.0], size=4)
    radius = certified_radius(model, X, scale)
    assert certified_at(model, X, 0.0, scale).all()
    assert certified_at(model, X, radius, scale).all()
    finite = np.isfinite(radius)
    farther = np.where(finite, (1.0 + 3.0 * SHORT) * radius + 1e-300, 1.0)
    assert_array_equal(certified_at(model, X, farther, scale), ~finite)
    for eps in (0.0, 0.01, 0.1, 1.0, np.inf):
        assert_array_equal(
            certified_at(model, X, eps, scale), (radius >= eps) | (eps == 0.0), str(eps)
        )
    some = rng.random(10) < 0.5
    Z = model.scores(X)
    assert_array_equal(
        certified_at(model, X, 0.1, scale, scores=Z, where=some), some & (radius >= 0.1)
    )


def test_radius_is_infinite_if_mapped_features_cannot_change_the_prediction():
    lmm = LMM.from_boxes([[0.0], [1.0]], 0.0, 3.0 * np.eye(2), 1.0)
    term = Term([0], lmm)
    held = FeatureMap([([0.0, 1.0], [-0.3, 0.3]), ([0.0], [0.0])])
    X = np.array([[0.2, 5.0], [30.0, -2.0]])
    assert_array_equal(certified_radius(AdditiveLMM([term], 2, held), X), np.inf)
    assert certified_at(AdditiveLMM([term], 2, held), X, np.inf).all()
    free = FeatureMap([([0.0, 1.0], [-0.5, 1.5]), ([0.0], [0.0])])
    assert_allclose(certified_radius(AdditiveLMM([term], 2, free), X), [0.3, 29.5], rtol=2e-6)
    # Only the feature without influence changes.
    assert_array_equal(certified_radius(AdditiveLMM([term], 2, free), X, [0.0, 1.0]), np.inf)
    assert_array_equal(certified_radius(AdditiveLMM([term], 2), X, [0.0, 1.0]), np.inf)


def test_bounds_of_terms_over_one_feature_are_joint():
    """Opposite terms over one feature cancel."""
    lmm = LMM.from_boxes([[0.0], [1.0]], 0.0, 3.0 * np.eye(2), 1.0)
    opposite = LMM(lmm.W0, lmm.W1, lmm.W2[:, ::-1])
    model = AdditiveLMM([Term([0], lmm), Term([0], opposite)], 1, intercept=[0.1, 0.0])
    assert (certified_radius(model, np.array([[0.3], [5.0]])) > 1e6).all()


def test_equal_scores_have_radius_zero():
    lmm = LMM.from_boxes([[0.0], [0.0]], 0.0, np.eye(2), 1.0)
    model = AdditiveLMM([Term([0], lmm), Term([1], lmm)], 2)
    X = np.array([[0.3, 1.0]])
    assert_array_equal(certified_radius(model, X), 0.0)
    assert_array_equal(certified_at(model, X, [1e-9]), False)


@BOTH_TYPES
def test_radius_search_ends_for_largest_floats(dtype):
    rng = np.random.default_rng(3)
    big = 0.9 * float(np.finfo(dtype).max)
    X = np.array([[big] * 4, [-big] * 4, [1e-310] * 4, [np.nan] * 4, [1e16] * 4])
    for has_map in (True, False):
        model = random_sum(rng, "mixed", dtype, has_map)
        radius = certified_radius(model, X[[2, 3, 4]])
        assert (radius >= 0.0).all()
        assert radius[1] == 0.0
        with np.errstate(all="ignore"):
            assert not np.isnan(certified_radius(model, X)).any()


@BOTH_TYPES
@pytest.mark.parametrize(
    "structure",
    [Structure(units=2), Structure(units=2, pairs_per_feature=0.5, boxes=2, box_units=2, size=3.0)],
)
def test_attacks_on_trained_sums_fail(iris, dtype, structure):
    rng = np.random.default_rng(0)
    feature_map = FeatureMap.fit(iris.X)
    U = feature_map(iris.X)
    pairs = [(0, 1), (2, 3)][: structure.n_pairs(4)]
    start, scale = initial_terms(structure, U, iris.y, 3, pairs, rng)
    trained = train_terms(start, U, iris.y, TERM_ANNEALING._replace(scale=scale), rng)
    model = AdditiveLMM(trained.terms, 4, feature_map).astype(dtype)
    assert (predict(model, iris.X) == iris.y).mean() > 0.94
    spread = iris.X.std(axis=0)
    radius = certified_radius(model, iris.X, spread)
    assert np.median(radius) > 0.05
    assert not attack(model, iris.X, radius, spread, tries=50).any()
    assert attack(model, iris.X, 1.3 * radius, spread).mean() > 0.2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"X": np.zeros((2, 3))}, "X must have 4 columns"),
        ({"scale": {"age": 1.0}}, "scale must hold 4 finite numbers"),
        ({"scale": [1.0, 2.0]}, "scale must hold 4 finite numbers"),
        ({"scale": [1.0, -1.0, 1.0, 1.0]}, "scale must hold 4 finite numbers"),
        ({"eps": -1.0}, "eps must be a number >= 0"),
        ({"scores": np.zeros((2, 2))}, "scores must have shape"),
        ({"where": np.zeros(3, bool)}, "where must have shape"),
    ],
)
def test_certified_at_rejects_invalid_arguments(arguments, message):
    given_ = {"X": np.zeros((2, 4)), "eps": 0.1, **arguments}
    with pytest.raises(ValueError, match=message):
        certified_at(random_sum(np.random.default_rng(0)), **given_)
