"""scikit-learn's own checks, and its tools around our estimators."""

import io
import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from maxplus import (
    LinearMaxPlusClassifier,
    LipschitzInterpolator,
    LMMClassifier,
    LMMRegressor,
    MaxPlusClassifier,
    SubgradientLMMClassifier,
)

pytestmark = pytest.mark.slow

CHECKED = [
    # Few epochs, so that the capacity is chosen quickly.
    LMMClassifier(warmup_epochs=4),
    LMMClassifier(n_hidden=20, warmup_epochs=10),
    SubgradientLMMClassifier(n_hidden=20, max_iter=300),
    MaxPlusClassifier(max_iter=300),
    LinearMaxPlusClassifier(n_hidden=20, max_iter=300),
    LMMRegressor(epochs=30),
    LipschitzInterpolator(),
    LipschitzInterpolator(n_hidden=10),
]
EXAMPLES = [
    LMMClassifier(warmup_epochs=4, random_state=0),
    SubgradientLMMClassifier(10, max_iter=100, random_state=0),
    MaxPlusClassifier(max_iter=100, random_state=0),
    LinearMaxPlusClassifier(10, max_iter=100, random_state=0),
    LMMRegressor(epochs=4, random_state=0),
    LipschitzInterpolator(10, random_state=0),
]
EACH = pytest.mark.parametrize("estimator", EXAMPLES, ids=lambda e: type(e).__name__)


RANDOM_CHOICE = {
    LMMClassifier: "clusters begin at random samples; repeated ones change them",
    SubgradientLMMClassifier: "prototypes are random samples; repeated ones change them",
    LinearMaxPlusClassifier: "sgd draws random samples; repeated samples change which are drawn",
    LMMRegressor: "batches are drawn at random; repeated samples change them",
}


def expected_failures(estimator):
    reason = RANDOM_CHOICE.get(type(estimator))
    checks = ("dense", "sparse") if reason else ()
    return {f"check_sample_weight_equivalence_on_{kind}_data": reason for kind in checks}


# A check sets n_iter_no_change whether or not that counts.
@pytest.mark.filterwarnings("ignore::maxplus.estimators.NoEffectWarning")
@parametrize_with_checks(CHECKED, expected_failed_checks=expected_failures)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def through_pickle(model):
    return pickle.loads(pickle.dumps(model))


def through_joblib(model):
    file = io.BytesIO()
    joblib.dump(model, file)
    file.seek(0)
    return joblib.load(file)


@EACH
@pytest.mark.parametrize("travel", [through_pickle, through_joblib])
def test_a_model_can_be_stored(iris, estimator, travel):
    model = clone(estimator).fit(*iris)
    back = travel(model)
    assert_array_equal(back.predict(iris.X), model.predict(iris.X), strict=True)
    assert back.get_params() == model.get_params()
    if is_classifier(model):
        assert_array_equal(back.loss_curve_, model.loss_curve_)
    if hasattr(model, "partial_fit"):
        back.partial_fit(*iris)
        model.partial_fit(*iris)
        assert_array_equal(back.predict_proba(iris.X), model.predict_proba(iris.X))


@EACH
def test_a_clone_has_the_parameters_and_nothing_else(iris, estimator):
    twin = clone(clone(estimator).fit(*iris))
    assert twin.get_params() == estimator.get_params()
    assert set(vars(twin)) == set(estimator.get_params())


@EACH
def test_kinds(estimator):
    assert (
        is_regressor(estimator)
        == ("Classifier" not in type(estimator).__name__)
        != is_classifier(estimator)
    )


@EACH
def test_columns_have_names(iris, estimator):
    names = ["sepal length", "sepal width", "petal length", "petal width"]
    frame = pd.DataFrame(iris.X, columns=names)
    model = clone(estimator).fit(frame, pd.Series(iris.y))
    assert_array_equal(model.feature_names_in_, names)
    plain = clone(estimator).fit(*iris)
    assert_array_equal(model.predict(frame), plain.predict(iris.X))
    assert not hasattr(plain, "feature_names_in_")
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[names[::-1]])


def test_a_frame_of_words_as_labels(iris):
    y = pd.Series(np.array(["setosa", "versicolor", "virginica"])[iris.y], dtype="category")
    model = clone(EXAMPLES[0]).fit(pd.DataFrame(iris.X), y)
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


def test_training_in_two_threads_at_once(iris):
    """Each has its own random state and its own number of Numba threads."""
    model = SubgradientLMMClassifier(20, max_iter=200, random_state=0)
    with joblib.parallel_backend("threading", n_jobs=2):
        together = cross_val_score(model, *iris, cv=4, error_score="raise")
    assert_array_equal(together, cross_val_score(model, *iris, cv=4))
