"""Checks of scikit-learn for all estimators, and use of its tools with them."""

import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from maxplus import (
    LinearMaxPlusClassifier,
    LipschitzInterpolator,
    LMMClassifier,
    LMMEnsembleClassifier,
    LMMRegressor,
    MaxPlusClassifier,
    SubgradientLMMClassifier,
)

pytestmark = pytest.mark.slow

CHECKED = [
    # Few epochs, so that the capacity is chosen quickly.
    LMMClassifier(warmup_epochs=4),
    LMMClassifier(n_hidden=20, warmup_epochs=10),
    LMMEnsembleClassifier(LMMClassifier(n_hidden=12, warmup_epochs=8), 2),
    SubgradientLMMClassifier(n_hidden=20, max_iter=300),
    MaxPlusClassifier(max_iter=300),
    LinearMaxPlusClassifier(n_hidden=20, max_iter=300),
    LMMRegressor(epochs=30),
    LipschitzInterpolator(),
    LipschitzInterpolator(n_hidden=10),
]
CLUSTERS = "clusters are initialised at random samples, which depend on repeated samples"
RANDOM_CHOICE = {
    LMMClassifier: CLUSTERS,
    LMMEnsembleClassifier: CLUSTERS,
    SubgradientLMMClassifier: "prototypes are random samples, which depend on repeated samples",
    LinearMaxPlusClassifier: "sgd draws random samples, which depend on repeated samples",
    LMMRegressor: "batches are random samples, which depend on repeated samples",
}


def expected_failures(estimator):
    reason = RANDOM_CHOICE.get(type(estimator))
    checks = ("dense", "sparse") if reason else ()
    return {f"check_sample_weight_equivalence_on_{kind}_data": reason for kind in checks}


# A check sets n_iter_no_change, which has no effect without early stopping.
@pytest.mark.filterwarnings("ignore::maxplus.estimators.NoEffectWarning")
@parametrize_with_checks(CHECKED, expected_failed_checks=expected_failures)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    "estimator",
    [
        SubgradientLMMClassifier(10, max_iter=100, random_state=0),
        MaxPlusClassifier(max_iter=100, random_state=0),
        LinearMaxPlusClassifier(10, max_iter=100, random_state=0),
    ],
    ids=lambda e: type(e).__name__,
)
def test_unpickled_classifier_continues_training(iris, estimator):
    model = clone(estimator).fit(*iris)
    copy = pickle.loads(pickle.dumps(model)).partial_fit(*iris)
    model.partial_fit(*iris)
    assert_array_equal(copy.predict_proba(iris.X), model.predict_proba(iris.X))
    assert_array_equal(copy.loss_curve_, model.loss_curve_)


def test_fit_accepts_frame_of_string_labels(iris):
    y = pd.Series(np.array(["setosa", "versicolor", "virginica"])[iris.y], dtype="category")
    model = LMMClassifier(12, warmup_epochs=2).fit(pd.DataFrame(iris.X), y)
    assert set(model.predict(iris.X)) == set(y)


def test_grid_search_over_a_pipeline_in_two_processes(iris):
    clf = SubgradientLMMClassifier(max_iter=200, random_state=0)
    pipeline = make_pipeline(StandardScaler(), clf)
    name = "subgradientlmmclassifier"
    grid = {f"{name}__n_hidden": [5, 30], f"{name}__slope": ["auto", 3.0]}
    search = GridSearchCV(pipeline, grid, cv=3, n_jobs=2, error_score="raise").fit(*iris)
    assert search.best_score_ > 0.9
    assert search.best_estimator_.score(*iris) > 0.9
    alone = GridSearchCV(pipeline, grid, cv=3, error_score="raise").fit(*iris)
    assert_array_equal(search.cv_results_["mean_test_score"], alone.cv_results_["mean_test_score"])


def test_concurrent_fits_in_two_threads(iris):
    model = SubgradientLMMClassifier(20, max_iter=200, random_state=0)
    with joblib.parallel_backend("threading", n_jobs=2):
        together = cross_val_score(model, *iris, cv=4, error_score="raise")
    assert_array_equal(together, cross_val_score(model, *iris, cv=4))
