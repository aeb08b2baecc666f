"""Pipelines: scalers folded into the weights of a model."""

from copy import deepcopy

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    RobustScaler,
    StandardScaler,
)

import maxplus
from maxplus import LMMClassifier, LMMEnsembleClassifier, SubgradientLMMClassifier

NAMES = ["sepal length", "sepal width", "petal length", "petal width"]


def classifier(kind=SubgradientLMMClassifier):
    if kind is SubgradientLMMClassifier:
        return kind(8, engine="dense", max_iter=60, random_state=0)
    own = LMMClassifier(9, slope=3.0, warmup_epochs=3)
    if kind is LMMEnsembleClassifier:
        return kind(own, 2, random_state=0)
    return own.set_params(random_state=0)


STEPS = {
    "nothing": [],
    "standard": [StandardScaler()],
    "centred": [StandardScaler(with_std=False)],
    "scaled": [StandardScaler(with_mean=False)],
    "robust": [RobustScaler(quantile_range=(10, 90))],
    "robust, not centred": [RobustScaler(with_centering=False)],
    "largest": [MaxAbsScaler()],
    "range": [MinMaxScaler((-1, 3))],
    "identity": [FunctionTransformer()],
    "none at all": ["passthrough", None],
    "one behind the other": [RobustScaler(), MinMaxScaler(), StandardScaler()],
}


@pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS)
def test_pipeline_scalers_are_folded_into_weights(iris, steps):
    pipeline = make_pipeline(*steps, classifier()).fit(*iris)
    before = pipeline[-1].W1_.copy()
    clf = maxplus.from_pipeline(pipeline)
    assert_allclose(clf.decision_function(iris.X), pipeline.decision_function(iris.X), rtol=1e-6)
    assert np.array_equal(pipeline[-1].W1_, before)
    # Certificates in raw units also hold for the pipeline.
    radius = clf.certified_radius(iris.X)
    for sign in (-1, 1):
        moved = iris.X + sign * 0.999 * radius[:, None]
        assert np.array_equal(pipeline.predict(moved), pipeline.predict(iris.X))


@pytest.mark.parametrize("kind", [LMMClassifier, LMMEnsembleClassifier])
def test_counterfactuals_equal_those_of_pipeline(iris, kind):
    pipeline = make_pipeline(StandardScaler(), classifier(kind)).fit(*iris)
    rows = iris.X[50:60]
    flips = maxplus.from_pipeline(pipeline).explain(rows).counterfactuals
    found = np.flatnonzero(flips.feature >= 0)
    assert found.size
    changed, feature = rows[found].copy(), flips.feature[found]
    # Slightly larger changes, because the scaler rounds.
    by = flips.value[found] - changed[np.arange(found.size), feature]
    changed[np.arange(found.size), feature] += (1 + 1e-6) * by
    assert np.array_equal(pipeline.predict(changed), flips.new_class[found])


def test_folded_pipeline_keeps_column_names(iris):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(iris.X, columns=NAMES)
    for output in ("default", "pandas"):
        scaler = StandardScaler().set_output(transform=output)
        pipeline = make_pipeline(scaler, classifier()).fit(frame, iris.y)
        clf = maxplus.from_pipeline(pipeline)
        assert clf.feature_names_in_.tolist() == NAMES
        assert "petal" in clf.explain(frame[:1]).text(0)
    # Feature names that a step generated are not those of the input.
    pipeline = make_pipeline(scaler, classifier()).fit(*iris)
    assert not hasattr(maxplus.from_pipeline(pipeline), "feature_names_in_")


def test_grid_search_and_bare_classifier_are_accepted(iris):
    grid = {"subgradientlmmclassifier__max_iter": [5, 60]}
    search = GridSearchCV(make_pipeline(StandardScaler(), classifier()), grid, cv=2).fit(*iris)
    assert np.array_equal(maxplus.from_pipeline(search).predict(iris.X), search.predict(iris.X))
    alone = classifier().fit(*iris)
    assert np.array_equal(maxplus.from_pipeline(alone).W1_, alone.W1_)


@pytest.mark.parametrize(
    ("steps", "error", "words"),
    [
        (
            [PCA(2), classifier()],
            ValueError,
            r"step 'pca' .* a PCA, is not affine .* pipeline\[-1\]",
        ),
        ([MinMaxScaler(clip=True), classifier()], ValueError, "step 'minmaxscaler'"),
        ([FunctionTransformer(np.sqrt), classifier()], ValueError, "a FunctionTransformer"),
        ([StandardScaler(), LogisticRegression()], TypeError, "got LogisticRegression"),
    ],
)
def test_unsupported_pipeline_step_is_named(iris, steps, error, words):
    pipeline = make_pipeline(*steps).fit(*iris)
    with pytest.raises(error, match=words):
        maxplus.from_pipeline(pipeline)


# -- folding a scaler into a model -----------------------------------------------------------------


RECIPES = {
    "stages": LMMClassifier(30, standardize=False, random_state=0),
    "paper": SubgradientLMMClassifier(20, max_iter=300, random_state=0),
}


def stretched(X):
    """Return features with different scales and locations."""
    return X * [1e3, 1e-3, 1.0, 7.0] + [5e3, 0.0, -1.0, 100.0]


@pytest.fixture(params=RECIPES)
def trained(request, iris):
    """Return a scaler and a classifier trained on scaled features."""
    scaler = StandardScaler().fit(stretched(iris.X))
    recipe = RECIPES[request.param]
    return scaler, type(recipe)(**recipe.get_params()).fit(
        scaler.transform(stretched(iris.X)), iris.y
    )


def test_folded_model_predicts_as_pipeline(trained, iris):
    scaler, clf = trained
    X, rng = stretched(iris.X), np.random.default_rng(0)
    rows = np.vstack([X, X + rng.normal(size=X.shape) * X.std(axis=0)])
    before = clf.predict_log_proba(scaler.transform(rows))
    radius = clf.certified_radius(scaler.transform(X))
    assert clf.fold(scaler.mean_, scaler.scale_, X) is clf
    assert_allclose(clf.predict_log_proba(rows), before, rtol=1e-9, atol=1e-9)
    assert_allclose(clf.certified_radius(X, scaler.scale_), radius, rtol=1e-4)


def test_folded_model_transforms_every_fitted_attribute(trained, iris):
    scaler, clf = trained
    X = stretched(iris.X)
    slope, losses, suspects = clf.slope_, clf.training_losses_, getattr(clf, "suspects_", None)
    kept = deepcopy(clf).fold(scaler.mean_, scaler.scale_)
    assert_array_equal(kept.training_losses_, losses)
    assert kept.max_loss_ == clf.max_loss_
    clf.fold(scaler.mean_, scaler.scale_, X)
    expected = -clf.predict_log_proba(X)[np.arange(len(X)), iris.y]
    assert_allclose(clf.training_losses_, expected, rtol=1e-12, atol=1e-14)
    assert_allclose(clf.training_losses_, losses, rtol=1e-6, atol=1e-9)
    assert clf.max_loss_ == clf.training_losses_.max()
    assert clf.mean_loss_ == pytest.approx(clf.training_losses_.mean(), rel=1e-12)
    assert clf.slope_ == slope
    assert_array_equal(clf.scale_, scaler.scale_)
    assert getattr(clf, "suspects_", None) is suspects


def test_folded_slopes_are_divided_by_scale(iris):
    # With a single iteration, all slopes equal the initial slope.
    clf = SubgradientLMMClassifier(20, max_iter=1, w0_update_interval=0, random_state=0).fit(
        iris.X, iris.y
    )
    assert np.allclose(np.abs(clf.W0_), clf.slope_)
    clf.fold(1.0, [1.0, 2.0, 3.0, 4.0])
    assert np.allclose(np.abs(clf.W0_), np.repeat(clf.slope_ / clf.scale_, 2))
    clf.fold(0.0, 10.0)
    assert clf.scale_.tolist() == [10.0, 20.0, 30.0, 40.0]
    assert np.allclose(np.abs(clf.W0_), np.repeat(clf.slope_ / clf.scale_, 2))


def test_folding_keeps_sample_weights(iris):
    weight = np.linspace(0.0, 3.0, len(iris.y))
    Z = (iris.X - 2.0) / 3.0
    clf = SubgradientLMMClassifier(20, max_iter=100, random_state=0).fit(Z, iris.y, weight)
    mean = clf.mean_loss_
    assert np.flatnonzero(np.isnan(clf.training_losses_)).tolist() == [0]
    clf.fold(2.0, 3.0, iris.X, weight)
    assert np.flatnonzero(np.isnan(clf.training_losses_)).tolist() == [0]
    assert clf.mean_loss_ == pytest.approx(mean, rel=1e-9)
    assert clf.mean_loss_ != pytest.approx(np.nanmean(clf.training_losses_), rel=1e-3)


BAD = {
    "too few": ({"centre": [0.0, 1.0]}, "centre must be a number or 4 numbers"),
    "categories": ({"spread": "wide"}, "spread must be a number"),
    "nothing": ({"centre": None}, "centre must be a number or 4 numbers"),
    "zero": ({"spread": [1.0, 0.0, 1.0, 1.0]}, "spread must be finite and > 0"),
    "negative": ({"spread": -1.0}, "spread must be finite and > 0; got -1.0"),
    "NaN": ({"spread": float("nan")}, "spread must be a number or 4 numbers"),
    "overflow": ({"spread": 1e-320}, "do not fit into float64"),
    "rows": ({"X": np.zeros((3, 4))}, "X must contain the 150 training samples"),
    "width": ({"X": np.zeros((150, 5))}, "5 features"),
    "weights": ({"X": np.zeros((150, 4)), "sample_weight": [1.0]}, "sample_weight"),
}


@pytest.mark.parametrize(("change", "words"), BAD.values(), ids=BAD)
def test_failed_folding_leaves_model_unchanged(iris, change, words):
    clf = SubgradientLMMClassifier(8, max_iter=10, random_state=0).fit(iris.X, iris.y)
    before = dict(vars(clf))
    with pytest.raises(ValueError, match=words):
        clf.fold(**{"centre": 0.0, "spread": 1.0} | change)
    assert vars(clf).keys() == before.keys()
    assert all(vars(clf)[name] is value for name, value in before.items())
