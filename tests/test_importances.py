"""Feature importances, and scikit-learn's inspection functions."""

import numpy as np
import pytest
from hypothesis import given
from sklearn.inspection import PartialDependenceDisplay, permutation_importance

from explained import fixed, smooth_models
from maxplus import LMMClassifier
from maxplus.explain import feature_importances, importances
from maxplus.models import LMM
from memory_used import most_memory


@pytest.fixture(scope="module")
def two_informative_features():
    """Five features: the second has a large effect, the fourth a small one, the others none."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 5)) * [1.0, 10.0, 1.0, 0.1, 1.0]
    y = np.where(X[:, 1] / 10 + 3.0 * X[:, 3] > 0, "yes", "no")
    clf = LMMClassifier(12, slope=2.0, warmup_epochs=8, random_state=0).fit(X, y)
    return clf, X, y


def slopes_of_leads(model, X, step=1e-6):
    """Return |∂(z₁ − z₂) / ∂x| by finite differences, (N, P)."""
    order = np.argsort(-model.scores(X), axis=1)[:, :2]

    def lead(Z):
        return np.subtract(*np.take_along_axis(Z, order, axis=1).T)

    moved = [
        (lead(model.scores(X + step * e)), lead(model.scores(X - step * e)))
        for e in np.eye(X.shape[1])
    ]
    return np.abs([(up - down) / (2 * step) for up, down in moved]).T


@given(smooth_models())
@fixed(60)
def test_importances_are_mean_slopes_of_margins(drawn):
    model, X = drawn[:2]
    rng = np.random.default_rng(0)
    X = np.concatenate([X, rng.normal(size=(5, X.shape[1]))])
    scale = rng.uniform(0.5, 2.0, X.shape[1])
    found = feature_importances(model, X, scale)
    sizes = slopes_of_leads(model, X).mean(axis=0) * scale
    expected = sizes / sizes.sum() if sizes.sum() > 1e-6 else np.zeros_like(sizes)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_importances_sum_to_one_and_rank_informative_features_first(two_informative_features):
    clf, X, y = two_informative_features
    found = clf.feature_importances_
    assert found.shape == (5,)
    assert found.sum() == pytest.approx(1.0)
    np.testing.assert_array_equal(found, feature_importances(clf.model_, X))
    permuted = permutation_importance(clf, X, y, n_repeats=3, random_state=0).importances_mean
    for importance in (found, permuted):
        assert importance.argmax() == 1
        assert importance[[1, 3]].min() > importance[[0, 2, 4]].max()


def test_importances_are_invariant_to_feature_units(two_informative_features):
    clf, X, y = two_informative_features
    other = LMMClassifier(12, slope=2.0, warmup_epochs=8, random_state=0)
    other.fit(X * [1e3, 1.0, 1e-3, 7.0, 1.0], y)
    np.testing.assert_allclose(other.feature_importances_, clf.feature_importances_, atol=0.02)


def test_importances_subsample_many_rows(monkeypatch, two_informative_features):
    clf, X, _ = two_informative_features
    monkeypatch.setattr(importances, "MAX_ROWS", 100)
    some = feature_importances(clf.model_, X, np.ones(5))
    np.testing.assert_array_equal(some, feature_importances(clf.model_, X[::4], np.ones(5)))
    with pytest.raises(ValueError, match="at least one row"):
        feature_importances(clf.model_, X[:0])


def test_partial_dependence_display_accepts_classifiers(two_informative_features, iris):
    pytest.importorskip("matplotlib")
    clf, X, _ = two_informative_features
    display = PartialDependenceDisplay.from_estimator(clf, X, [1, (1, 3)], grid_resolution=5)
    curve = display.pd_results[0]["average"][0]
    assert curve.shape == (5,)
    # The second class, "yes", is likelier the larger the feature.
    assert curve[-1] > curve[0] + 0.3
    flowers = LMMClassifier(9, slope=2.0, warmup_epochs=2, random_state=0).fit(iris.X, iris.y)
    for target in range(3):
        PartialDependenceDisplay.from_estimator(
            flowers, iris.X, [2], target=target, kind="both", grid_resolution=4
        )


def test_importances_memory_is_not_quadratic_in_features():
    n_features = 3000
    rng = np.random.default_rng(0)
    model = LMM.from_boxes(rng.normal(size=(4, n_features)), 0.0, 4.0 * np.eye(4) - 2.0, 1.0)
    taken = most_memory(lambda: feature_importances(model, rng.normal(size=(10, n_features))))
    # One array of features by features would be 72 MB.
    assert taken < 10_000_000
