"""A scaling folded into the weights: the same predictions, and facts that fit the raw features."""

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

from maxplus import LMMClassifier, SubgradientLMMClassifier

RECIPES = {
    "stages": LMMClassifier(30, standardize=False, random_state=0),
    "paper": SubgradientLMMClassifier(20, max_iter=300, random_state=0),
}


def stretched(X):
    """Features of very different sizes and places."""
    return X * [1e3, 1e-3, 1.0, 7.0] + [5e3, 0.0, -1.0, 100.0]


@pytest.fixture(params=RECIPES)
def trained(request, iris):
    """A scaler, and a classifier that was trained behind it."""
    scaler = StandardScaler().fit(stretched(iris.X))
    recipe = RECIPES[request.param]
    return scaler, type(recipe)(**recipe.get_params()).fit(
        scaler.transform(stretched(iris.X)), iris.y
    )


def test_predictions_are_the_pipeline_s(trained, iris):
    scaler, clf = trained
    X, rng = stretched(iris.X), np.random.default_rng(0)
    rows = np.vstack([X, X + rng.normal(size=X.shape) * X.std(axis=0)])
    before = clf.predict_log_proba(scaler.transform(rows))
    radius = clf.certified_radius(scaler.transform(X))
    assert clf.fold(scaler.mean_, scaler.scale_, X) is clf
    np.testing.assert_allclose(clf.predict_log_proba(rows), before, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(clf.certified_radius(X, scaler.scale_), radius, rtol=1e-4)


def test_every_fact_follows(trained, iris):
    scaler, clf = trained
    X = stretched(iris.X)
    slope, losses, suspects = clf.slope_, clf.training_losses_, getattr(clf, "suspects_", None)
    clf.fold(scaler.mean_, scaler.scale_, X)
    own = -clf.predict_log_proba(X)[np.arange(len(X)), iris.y]
    np.testing.assert_allclose(clf.training_losses_, own, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(clf.training_losses_, losses, rtol=1e-6, atol=1e-9)
    assert clf.max_loss_ == clf.training_losses_.max()
    assert clf.mean_loss_ == pytest.approx(clf.training_losses_.mean(), rel=1e-12)
    assert clf.slope_ == slope
    assert np.array_equal(clf.scale_, scaler.scale_)
    assert clf.n_features_in_ == 4
    assert getattr(clf, "suspects_", None) is suspects


def test_slopes_are_per_unit_of_scale(iris):
    # One iteration moves no slope: all of them are the one that training began with.
    clf = SubgradientLMMClassifier(20, max_iter=1, w0_update_interval=0, random_state=0).fit(
        iris.X, iris.y
    )
    assert np.allclose(np.abs(clf.W0_), clf.slope_)
    clf.fold(1.0, [1.0, 2.0, 3.0, 4.0])
    assert np.allclose(np.abs(clf.W0_), np.repeat(clf.slope_ / clf.scale_, 2))
    clf.fold(0.0, 10.0)
    assert clf.scale_.tolist() == [10.0, 20.0, 30.0, 40.0]
    assert np.allclose(np.abs(clf.W0_), np.repeat(clf.slope_ / clf.scale_, 2))


def test_without_samples_the_losses_stay(trained):
    scaler, clf = trained
    losses, worst = clf.training_losses_.copy(), clf.max_loss_
    clf.fold(scaler.mean_, scaler.scale_)
    assert np.array_equal(clf.training_losses_, losses)
    assert clf.max_loss_ == worst


def test_left_out_samples_stay_left_out_and_weights_count(iris):
    weight = np.linspace(0.0, 3.0, len(iris.y))
    Z = (iris.X - 2.0) / 3.0
    clf = SubgradientLMMClassifier(20, max_iter=100, random_state=0).fit(Z, iris.y, weight)
    mean = clf.mean_loss_
    assert np.flatnonzero(np.isnan(clf.training_losses_)).tolist() == [0]
    clf.fold(2.0, 3.0, iris.X, weight)
    assert np.flatnonzero(np.isnan(clf.training_losses_)).tolist() == [0]
    assert clf.mean_loss_ == pytest.approx(mean, rel=1e-9)
    assert clf.mean_loss_ != pytest.approx(np.nanmean(clf.training_losses_), rel=1e-3)


def test_float32_rows(iris):
    X = iris.X.astype(np.float32)
    clf = SubgradientLMMClassifier(20, max_iter=100, random_state=0).fit(
        X / np.float32(4.0), iris.y
    )
    before = clf.predict(X / np.float32(4.0))
    clf.fold(0.0, 4.0, X)
    assert clf.model_.dtype == np.float32
    assert np.array_equal(clf.predict(X), before)


BAD = {
    "too few": ({"centre": [0.0, 1.0]}, "centre must be a number or 4 numbers"),
    "categories": ({"spread": "wide"}, "spread must be a number"),
    "nothing": ({"centre": None}, "centre must be a number or 4 numbers"),
    "zero": ({"spread": [1.0, 0.0, 1.0, 1.0]}, "spread must be finite and > 0"),
    "negative": ({"spread": -1.0}, "spread must be finite and > 0; got -1.0"),
    "NaN": ({"spread": float("nan")}, "spread must be a number or 4 numbers"),
    "overflow": ({"spread": 1e-320}, "do not fit into float64"),
    "rows": ({"X": np.zeros((3, 4))}, "X must be the 150 training samples"),
    "width": ({"X": np.zeros((150, 5))}, "5 features"),
    "weights": ({"X": np.zeros((150, 4)), "sample_weight": [1.0]}, "sample_weight"),
}


@pytest.mark.parametrize(("change", "words"), BAD.values(), ids=BAD)
def test_what_cannot_be_folded_changes_nothing(iris, change, words):
    clf = SubgradientLMMClassifier(8, max_iter=10, random_state=0).fit(iris.X, iris.y)
    before = dict(vars(clf))
    with pytest.raises(ValueError, match=words):
        clf.fold(**{"centre": 0.0, "spread": 1.0} | change)
    assert vars(clf).keys() == before.keys()
    assert all(vars(clf)[name] is value for name, value in before.items())
