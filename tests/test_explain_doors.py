"""Arguments of explanations: which are refused, and which models are taken."""

import numpy as np
import pytest

from maxplus.certify import certified_at
from maxplus.explain import (
    Domain,
    contributions,
    decisive_paths,
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
STEP = LMM.of_boxes([[0.0]], 0.5, [[1.0, 0.0, 0.0]], 1.0)
SUM = AdditiveLMM([Term(range(4), PLAIN), Term([1], STEP)], 4)
FREE, WORDS = Domain.free(4), ["a", "b", "c"]


@pytest.mark.parametrize("shape", [(5, 3), (5, 5), (0, 3), (4,), (5, 4, 1), (5, 0)])
@pytest.mark.parametrize("model", [PLAIN, SUM], ids=["plain", "sum"])
def test_rows_of_another_shape(model, shape):
    rows = np.zeros(shape)
    calls = [
        lambda: nearest_counterfactuals(model, rows),
        lambda: feature_importances(model, rows),
        lambda: strongest_rules(model, rows, np.zeros(len(rows), int), FREE, WORDS),
    ]
    if model is PLAIN:
        calls.append(lambda: decisive_paths(model, rows))
    for call in calls:
        with pytest.raises(ValueError, match=r"X must have 4 columns.* got shape \("):
            call()


@pytest.mark.parametrize("n", [3, 5])
@pytest.mark.parametrize("model", [PLAIN, SUM], ids=["plain", "sum"])
def test_domains_of_other_features(model, n):
    domain = Domain.free(n)
    for call in (
        lambda: nearest_counterfactuals(model, X, domain),
        lambda: smallest_change(model, X[0], domain),
        lambda: strongest_rules(model, X, Y, domain, WORDS),
    ):
        with pytest.raises(ValueError, match=rf"^domain must be of 4 features; got one of {n}"):
            call()


@pytest.mark.parametrize("names", [["a"], ["a", "b", "c", "d"]])
def test_words_for_other_classes(names):
    for call in (
        lambda: smallest_change(PLAIN, X[0], FREE, class_names=names),
        lambda: strongest_rules(PLAIN, X, Y, FREE, names),
    ):
        with pytest.raises(
            ValueError, match=rf"^class_names must name 3 classes; got {len(names)}"
        ):
            call()


def test_other_models_are_refused():
    for call in (
        lambda: nearest_counterfactuals("model", X),
        lambda: smallest_change("model", X[0], FREE),
        lambda: strongest_rules("model", X, Y, FREE, WORDS),
    ):
        with pytest.raises(TypeError, match=r"^model must be an LMM or an AdditiveLMM; got a str"):
            call()


@pytest.mark.parametrize("scale", [[1.0, 1.0, -1.0, 1.0], [1.0, np.inf, 1.0, 1.0], -1.0])
def test_importances_in_units_that_are_none(scale):
    with pytest.raises(ValueError, match=r"^scale must be finite and >= 0; got"):
        feature_importances(PLAIN, X, scale)


def test_scores_that_were_known_may_be_a_list():
    expected = certified_at(PLAIN, X, 0.1)
    assert (
        certified_at(PLAIN, X, 0.1, scores=PLAIN.scores(X).tolist()).tolist() == expected.tolist()
    )


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
    with pytest.raises(TypeError, match="without a baseline is of one LMM; got a AdditiveLMM"):
        explain_predictions(SUM, X, None, WORDS, FREE)
    why = explain_predictions(SUM, X, term_means(SUM, X), WORDS, FREE)
    assert why.paths is None
    with pytest.raises(AttributeError, match="no deciding units; see its contributions"):
        _ = why.cancels
    single = explain_predictions(PLAIN, X, None, WORDS, FREE)
    assert single.contributions is None
    with pytest.raises(AttributeError, match="no contributions; see its paths"):
        _ = single.walls


@pytest.mark.parametrize("model", [PLAIN, SUM], ids=["plain", "sum"])
def test_importances_weigh_rows(model):
    kept = np.array([True, False, True, True, False])
    scale = np.ones(4)
    found = feature_importances(model, X, scale, weight=2.0 * kept)
    np.testing.assert_allclose(found, feature_importances(model, X[kept], scale))
