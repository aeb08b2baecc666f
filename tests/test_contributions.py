"""Contributions, shape functions and importances of sums of terms."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from numpy.testing import assert_allclose, assert_array_equal

from maxplus.explain import (
    Domain,
    OneHotGroup,
    contributions,
    feature_importances,
    shape_function,
    term_means,
)
from maxplus.models import LMM, AdditiveLMM, FeatureMap, Term
from strategies import DTYPES, SEEDS, quick

P = 4


def random_lmm(rng, n_features, n_hidden, n_classes, dtype=np.float64):
    shapes = (2 * n_features, (2 * n_features, n_hidden), (n_hidden, n_classes))
    return LMM(*(rng.normal(size=shape).astype(dtype) for shape in shapes))


def random_model(rng, groups, n_classes=3, dtype=np.float64, *, mapped=True):
    terms = [
        Term(group, random_lmm(rng, len(group), int(rng.integers(1, 7)), n_classes, dtype))
        for group in groups
    ]
    feature_map = FeatureMap.fit(rng.normal(size=(60, P)) ** 3) if mapped else None
    return AdditiveLMM(terms, P, feature_map, rng.normal(size=n_classes))


def random_groups(rng):
    """Return a few terms over one, two, or all features, some of them over the same ones."""
    sizes = rng.choice([1, 1, 1, 2, P], size=7)
    return [np.sort(rng.choice(P, size, replace=False)) for size in sizes]


# -- contributions ----------------------------------------------------------------------------


@quick(60)
@given(seed=SEEDS, dtype=DTYPES)
def test_contributions_add_up_to_the_margin(seed, dtype):
    rng = np.random.default_rng(seed)
    model = random_model(rng, random_groups(rng), dtype=dtype)
    X = rng.normal(size=(30, P))
    found = contributions(model, X, term_means(model, rng.normal(size=(20, P))))
    Z = np.sort(model.scores(X).astype(float), axis=1)
    assert_array_equal(found.predicted, model.scores(X).argmax(axis=1))
    assert_array_equal(found.margin, Z[:, -1] - Z[:, -2])
    assert found.contribution.dtype == np.float64
    size = np.abs(found.baseline) + np.abs(found.contribution).sum(axis=1)
    apart = np.abs(found.baseline + found.contribution.sum(axis=1) - found.margin)
    tolerance = 1e-12 * size if dtype == np.float64 else 1e-5 * (1.0 + size)
    assert (apart <= tolerance).all()


@quick(20)
@given(seed=SEEDS)
def test_contributions_have_mean_zero_over_the_reference_rows(seed):
    rng = np.random.default_rng(seed)
    model = random_model(rng, random_groups(rng), n_classes=2)
    X = rng.normal(size=(40, P))
    found = contributions(model, X, term_means(model, X))
    sign = np.where(found.predicted == 1, 1.0, -1.0)[:, None]
    assert_allclose((sign * found.contribution).mean(axis=0), 0.0, atol=1e-12)
    assert_allclose(sign[:, 0] * found.baseline, np.diff(model.scores(X)).mean(), atol=1e-12)


def test_terms_over_the_same_features_are_one_group():
    rng = np.random.default_rng(1)
    model = random_model(rng, [[0, 1, 2, 3], [2], [0], [1, 3], [2], [0, 1, 2, 3]])
    X = rng.normal(size=(5, P))
    means = term_means(model, X)
    found = contributions(model, X, means)
    assert found.groups == ((0,), (2,), (1, 3), (0, 1, 2, 3))
    assert found.group_names == ["x0", "x2", "x1 × x3", "all features"]
    centred = model.term_scores(X) - means[:, None]
    n, A, B = np.arange(5), found.predicted, found.rival
    expected = (centred[1] + centred[4])[n, A] - (centred[1] + centred[4])[n, B]
    assert_allclose(found.contribution[:, 1], expected, atol=1e-13)
    assert_array_equal(found.order[:, 0], np.abs(found.contribution).argmax(axis=1))


def test_against_names_the_rival_except_where_it_is_predicted():
    rng = np.random.default_rng(3)
    model = random_model(rng, [[p] for p in range(P)])
    X = 3 * rng.normal(size=(60, P))
    order = np.argsort(-model.scores(X), axis=1)
    against = int(order[0, 0])
    found = contributions(model, X, term_means(model, X), against=against)
    is_rival = order[:, 0] == against
    assert 0 < is_rival.sum() < 60
    assert (found.rival[~is_rival] == against).all()
    assert_array_equal(found.rival[is_rival], order[is_rival, 1])
    assert (found.margin >= 0).all()


def test_text_is_a_sum_in_raw_units():
    tent = LMM.from_boxes([[0.0], [1.0]], 0.5, np.eye(2), slope=1.0)
    terms = [Term([p], tent) for p in range(7)]
    raw = FeatureMap([([0.0, 100.0], [0.0, 1.0])] * 7)
    model = AdditiveLMM(terms, 7, raw)
    means = np.full((7, 2), 1.0)
    X = np.array([[100.0, 75.5, 50, 50, 50, 50, 50], [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 10.0]])
    names = ["age", "bp", "a", "b", "c", "d", "e"]
    found = contributions(model, X, means, feature_names=names, class_names=["no", "yes"])
    assert found.text(0) == (
        "class yes rather than no, margin +1.51 = 0.00 (baseline) + 1.00 from age = 100 "
        "+ 0.51 from bp = 75.5 + 0.00 from 5 more columns"
    )
    assert found.text(1).endswith("+ 1.80 from 2 more columns")
    assert str(found) == found.text(0) + "\n" + found.text(1)


def test_text_names_the_values_of_a_pair_and_signs():
    rng = np.random.default_rng(3)
    model = random_model(rng, [[0, 2], [0, 1, 2, 3]], mapped=False)
    found = contributions(model, [[1.0, 2.0, 3.5, 4.0]], np.zeros((2, 3)))
    text = found.text(0)
    assert "from x0 = 1 and x2 = 3.5" in text
    assert "from all features" in text
    for value in found.contribution[0]:
        assert f"{'−' if value < 0 else '+'} {abs(value):.2f} from" in text


def mixed_domain():
    """Return a category of three words, a number, and whether it was missing."""
    free = Domain.unrestricted(5, names=["red", "green", "blue", "age", "age is missing"])
    colour = OneHotGroup("colour", (0, 1, 2), ("red", "green", "blue"))
    return dataclasses.replace(free, categories=(colour,), indicators={3: 4})


def test_terms_over_features_of_one_column_are_one_group():
    rng = np.random.default_rng(15)
    groups = [[0], [1], [2], [3], [4], [1, 3], [2, 4], [0, 2], [0, 1, 2, 3, 4]]
    terms = [Term(group, random_lmm(rng, len(group), 3, 2)) for group in groups]
    model = AdditiveLMM(terms, 5)
    X = np.array([[0.0, 1.0, 0.0, 54.0, 0.0], [1.0, 0.0, 0.0, 40.0, 1.0]])
    found = contributions(model, X, np.zeros((9, 2)), domain=mixed_domain())
    assert found.groups == ((0,), (3,), (0, 3))
    assert found.group_names == ["colour", "age", "colour × age"]
    assert_allclose(found.contribution.sum(axis=1), found.margin)
    assert "from colour = 'green' and age = 54" in found.text(0)
    assert "from colour = 'red' and age missing" in found.text(1)
    assert "from age missing" in found.text(1)


def test_features_with_equal_names_are_not_merged():
    rng = np.random.default_rng(16)
    model = random_model(rng, [[p] for p in range(P)])
    X = rng.normal(size=(3, P))
    found = contributions(model, X, term_means(model, X), feature_names=["a"] * P)
    assert found.contribution.shape == (3, P)


def test_term_means_are_weighted_means_of_term_scores():
    rng = np.random.default_rng(4)
    model = random_model(rng, random_groups(rng))
    X, weight = rng.normal(size=(25, P)), rng.random(25)
    scores = model.term_scores(X)
    assert_allclose(term_means(model, X), scores.mean(axis=1))
    assert_allclose(term_means(model, X, weight), np.average(scores, axis=1, weights=weight))


# -- shape functions --------------------------------------------------------------------------


@quick(80)
@given(seed=SEEDS)
def test_shape_function_is_the_sum_of_the_one_feature_terms(seed):
    """It is linear between breakpoints, and constant outside a map."""
    rng = np.random.default_rng(seed)
    mapped = bool(rng.integers(2))
    model = random_model(rng, [*random_groups(rng), [1], [1]], mapped=mapped)
    reference = rng.normal(size=(30, P))
    means = term_means(model, reference)
    curve = shape_function(model, 1, means)
    beyond = 1.0 if mapped else 0.0
    X = np.zeros((200, P))
    X[:, 1] = rng.uniform(curve.x[0] - beyond, curve.x[-1] + beyond, 200)
    own = [t for t, term in enumerate(model.terms) if term.features.tolist() == [1]]
    direct = (model.term_scores(X)[own] - means[own, None]).sum(axis=0)
    drawn = np.stack([np.interp(X[:, 1], curve.x, z) for z in curve.scores.T], axis=1)
    assert_allclose(drawn, direct, rtol=1e-9, atol=1e-9)
    at_reference = np.zeros_like(reference)
    at_reference[:, 1] = reference[:, 1]
    assert_allclose(
        (model.term_scores(at_reference)[own] - means[own, None]).sum(axis=0).mean(axis=0),
        0.0,
        atol=1e-12,
    )


def test_shape_function_has_no_more_points_than_bends():
    """Units that are never the maximum have no breakpoints."""
    covered = LMM.from_boxes([[0.0], [0.1], [2.0]], [[2.0], [0.2], [2.0]], np.ones((3, 1)), 1.0)
    model = AdditiveLMM([Term([0], covered)], 1)
    assert_allclose(shape_function(model, 0).x, [-2.0, 0.0, 1.0, 2.0, 4.0])


@pytest.mark.parametrize("mapped", [False, True])
def test_shape_function_without_terms_is_zero(mapped):
    rng = np.random.default_rng(5)
    model = random_model(rng, [[0], [1, 2]], mapped=mapped)
    curve = shape_function(model, 1)
    assert not curve.scores.any()
    assert curve.scores.shape == (curve.x.size, 3)


# -- importances ------------------------------------------------------------------------------


def test_importance_of_an_unused_feature_is_zero():
    rng = np.random.default_rng(6)
    model = random_model(rng, [[0], [1], [0, 1]])
    importance = feature_importances(model, rng.normal(size=(50, P)))
    assert_array_equal(importance[2:], 0.0)
    assert (importance[:2] > 0.0).all()
    assert_allclose(importance.sum(), 1.0)


def test_importances_of_one_feature_terms_are_mean_contributions():
    rng = np.random.default_rng(7)
    model = random_model(rng, [[3], [0], [1], [2], [3]])
    X = rng.normal(size=(40, P))
    size = np.abs(contributions(model, X, term_means(model, X)).contribution).mean(axis=0)
    assert_allclose(feature_importances(model, X), size / size.sum())


def test_importance_of_a_box_goes_to_the_feature_of_the_deciding_wall():
    """The walls of feature 1 are too far away to determine a score."""
    boxes = LMM.from_boxes([[-1.0, 0.0], [1.0, 0.0]], [[1.0, 1e3]] * 2, 5 * np.eye(2), 1.0)
    model = AdditiveLMM([Term([0, 1], boxes)], 2)
    X = np.random.default_rng(8).normal(size=(60, 2))
    assert_array_equal(feature_importances(model, X), [1.0, 0.0])


def test_importances_of_a_constant_model_are_zeros():
    flat = LMM(np.zeros(2), np.ones((2, 1)), np.ones((1, 2)))
    importance = feature_importances(AdditiveLMM([Term([0], flat)], 2), np.eye(2))
    assert_array_equal(importance, [0.0, 0.0])


# -- invalid arguments ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"X": np.zeros((3, 2))}, "X must have 4 columns"),
        ({"baseline": np.zeros((2, 3))}, r"baseline .* shape \(1, 3\)"),
        ({"baseline": np.full((1, 3), np.nan)}, "baseline must hold finite"),
        ({"against": 3}, r"against must be an integer 0\.\.2"),
        ({"feature_names": ["a"]}, "feature_names must name 4"),
        ({"class_names": ["a"]}, "class_names must name 3"),
        ({"domain": Domain.unrestricted(3)}, "domain must have 4"),
        (
            {"domain": Domain.unrestricted(4), "feature_names": list("abcd")},
            "feature_names must not be given",
        ),
    ],
)
def test_contributions_reject_invalid_arguments(arguments, message):
    model = random_model(np.random.default_rng(0), [[0]])
    given = {"X": np.zeros((1, P)), "baseline": np.zeros((1, 3)), **arguments}
    with pytest.raises(ValueError, match=message):
        contributions(model, **given)


def test_invalid_models_rows_and_weights_are_rejected():
    rng = np.random.default_rng(0)
    model, X = random_model(rng, [[0], [1, 2, 3]]), np.zeros((3, P))
    with pytest.raises(TypeError, match="AdditiveLMM; got a str"):
        term_means("model", X)
    with pytest.raises(ValueError, match="at least one row"):
        term_means(model, X[:0])
    for weight in ([1.0], [1.0, -1.0, 1.0], [0.0, 0.0, 0.0], [np.nan, 1.0, 1.0]):
        with pytest.raises(ValueError, match="weight must hold 3"):
            term_means(model, X, weight)
    with pytest.raises(ValueError, match="at least two classes"):
        contributions(random_model(rng, [[0]], n_classes=1), X, np.zeros((1, 1)))
    with pytest.raises(ValueError, match=r"p must be an integer 0\.\.3"):
        shape_function(model, 4)
