"""Validation of the arguments of explanations, and networks as sums with one term."""

from types import SimpleNamespace

import numpy as np
import pytest

from maxplus.explain import (
    Domain,
    active_paths,
    contributions,
    explain_predictions,
    feature_importances,
    nearest_counterfactuals,
    smallest_change,
    strongest_rules,
    term_boxes,
    term_means,
    unit_boxes,
)
from maxplus.models import LMM, AdditiveLMM, Term

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(5, 4)), np.arange(5) % 3
PLAIN = LMM(RNG.normal(size=8), RNG.normal(size=(8, 6)), RNG.normal(size=(6, 3)))
STEP = LMM.from_boxes([[0.0]], 0.5, [[1.0, 0.0, 0.0]], 1.0)
SUM = AdditiveLMM([Term(range(4), PLAIN), Term([1], STEP)], 4)
FREE, WORDS = Domain.unrestricted(4), ["a", "b", "c"]


@pytest.mark.parametrize("shape", [(5, 3), (5, 5), (0, 3), (4,), (5, 4, 1), (5, 0)])
@pytest.mark.parametrize("model", [PLAIN, SUM], ids=["plain", "sum"])
def test_explain_functions_reject_rows_of_wrong_shape(model, shape):
    rows = np.zeros(shape)
    calls = [
        lambda: nearest_counterfactuals(model, rows),
        lambda: feature_importances(model, rows),
        lambda: strongest_rules(model, rows, np.zeros(len(rows), int), FREE, WORDS),
    ]
    if model is PLAIN:
        calls.append(lambda: active_paths(model, rows))
    for call in calls:
        with pytest.raises(ValueError, match=r"X must have 4 columns.* got shape \("):
            call()


@pytest.mark.parametrize(
    ("domain", "names", "message"),
    [
        (Domain.unrestricted(3), WORDS, "^domain must have 4 features; got 3"),
        (Domain.unrestricted(5), WORDS, "^domain must have 4 features; got 5"),
        (FREE, ["a"], "^class_names must name 3 classes; got 1"),
        (FREE, list("abcd"), "^class_names must name 3 classes; got 4"),
    ],
)
@pytest.mark.parametrize("model", [PLAIN, SUM], ids=["plain", "sum"])
def test_explain_functions_reject_domains_and_names_of_other_sizes(model, domain, names, message):
    for call in (
        lambda: smallest_change(model, X[0], domain, class_names=names),
        lambda: strongest_rules(model, X, Y, domain, names),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    if domain is not FREE:
        with pytest.raises(ValueError, match=message):
            nearest_counterfactuals(model, X, domain)


def test_explain_functions_reject_other_models():
    for call in (
        lambda: nearest_counterfactuals("model", X),
        lambda: smallest_change("model", X[0], FREE),
        lambda: strongest_rules("model", X, Y, FREE, WORDS),
    ):
        with pytest.raises(TypeError, match=r"^model must be an LMM or an AdditiveLMM; got a str"):
            call()
    estimator = SimpleNamespace(model_=SUM)
    with pytest.raises(TypeError, match=r"got a SimpleNamespace; pass its attribute model_$"):
        nearest_counterfactuals(estimator, X)
    with pytest.raises(TypeError, match="use contributions for sums of terms"):
        active_paths(SUM, X)
    with pytest.raises(TypeError, match="use term_boxes for sums of terms"):
        unit_boxes(SUM)


@pytest.mark.parametrize("scale", [[1.0, 1.0, -1.0, 1.0], [1.0, np.inf, 1.0, 1.0], -1.0])
def test_importances_reject_invalid_units(scale):
    with pytest.raises(ValueError, match=r"^scale must be finite and >= 0; got"):
        feature_importances(PLAIN, X, scale)


def test_a_network_has_the_contributions_flips_and_boxes_of_a_sum_with_one_term():
    one = AdditiveLMM([Term(range(4), PLAIN)], 4)
    means = term_means(PLAIN, X)
    np.testing.assert_array_equal(means, term_means(one, X))
    found, expected = (contributions(model, X, means) for model in (PLAIN, one))
    np.testing.assert_array_equal(found.contribution, expected.contribution)
    assert str(found) == str(expected)
    explained = [explain_predictions(model, X, means, WORDS, FREE) for model in (PLAIN, one)]
    assert str(explained[0]) == str(explained[1])
    for flips in zip(*(nearest_counterfactuals(model, X) for model in (PLAIN, one)), strict=True):
        np.testing.assert_array_equal(*flips)
    (boxes,) = term_boxes(PLAIN)
    for arrays in zip(boxes, unit_boxes(PLAIN), strict=True):
        np.testing.assert_array_equal(*arrays)


def test_explain_predictions_needs_a_baseline_for_a_sum():
    with pytest.raises(
        TypeError, match="without a baseline requires a single LMM; got AdditiveLMM"
    ):
        explain_predictions(SUM, X, None, WORDS, FREE)
    why = explain_predictions(SUM, X, term_means(SUM, X), WORDS, FREE)
    assert why.paths is None
    with pytest.raises(AttributeError, match="no active units; see its contributions"):
        _ = why.cancels
    single = explain_predictions(PLAIN, X, None, WORDS, FREE)
    assert single.contributions is None
    with pytest.raises(AttributeError, match="no contributions; see its paths"):
        _ = single.linear_range


def test_explain_predictions_rejects_row_numbers_of_wrong_length():
    with pytest.raises(ValueError, match=r"^row_numbers must hold 5 numbers, .* got 2"):
        explain_predictions(PLAIN, X, None, WORDS, FREE, row_numbers=[1, 2])


@pytest.mark.parametrize("model", [PLAIN, SUM], ids=["plain", "sum"])
def test_importances_use_sample_weights(model):
    kept = np.array([True, False, True, True, False])
    scale = np.ones(4)
    found = feature_importances(model, X, scale, weight=2.0 * kept)
    np.testing.assert_allclose(found, feature_importances(model, X[kept], scale), atol=1e-12)
