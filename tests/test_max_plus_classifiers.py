"""MaxPlusClassifier and LinearMaxPlusClassifier: models and training that they share with LMM."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.preprocessing import scale

from maxplus import LinearMaxPlusClassifier, MaxPlusClassifier

COMMON = {"max_iter": 60, "random_state": 0}
# Parameters of both classifiers, independent of the defaults.
PLAIN = {"objective": "max", "step": "polyak", "learning_rate": 0.1, **COMMON}


def max_plus(**parameters):
    return MaxPlusClassifier(**{**PLAIN, **parameters})


def linear_max_plus(**parameters):
    return LinearMaxPlusClassifier(12, **{**PLAIN, **parameters})


BOTH = pytest.mark.parametrize("make", [max_plus, linear_max_plus])


def weights(clf):
    names = ("W_",) if isinstance(clf, MaxPlusClassifier) else ("W_", "A_", "b_")
    return {name: getattr(clf, name) for name in names}


def scores(clf, X, W=None):
    """Scores, from the formulas of the two models."""
    W = W or weights(clf)
    if isinstance(clf, MaxPlusClassifier):
        return (X[:, None] + W["W_"][None]).max(axis=2)
    a = np.maximum(0, X @ W["A_"] + W["b_"])
    return (a[:, :, None] + W["W_"][None]).max(axis=1)


def losses(clf, X, y, W=None):
    Z = scores(clf, X, W)
    return np.log(np.exp(Z).sum(axis=1)) - Z[np.arange(len(y)), y]


def assert_same(a, b):
    for name, W in weights(a).items():
        assert_array_equal(W, weights(b)[name], err_msg=name, strict=True)
    for name in a.history_:
        assert_array_equal(a.history_[name], b.history_[name], err_msg=name)
    assert a.max_loss_ == b.max_loss_


# -- models -----------------------------------------------------------------------------------


@BOTH
def test_decision_function_equals_the_formula(cloud, pair, make):
    clf = make().fit(*cloud)
    Z = scores(clf, cloud.X)
    assert_allclose(clf.decision_function(cloud.X), Z, atol=1e-12)
    assert_array_equal(clf.predict(cloud.X), np.argmax(Z, axis=1))
    assert losses(clf, *cloud).max() == pytest.approx(clf.max_loss_)
    assert losses(clf, *cloud).mean() == pytest.approx(clf.mean_loss_)
    clf = make().fit(*pair)
    Z = scores(clf, pair.X)
    assert_allclose(clf.decision_function(pair.X), Z[:, 1] - Z[:, 0], atol=1e-12)


@BOTH
@pytest.mark.parametrize("objective", ["max", "mean"])
def test_classifier_step_follows_the_subgradient(cloud, make, objective):
    """A step is compared with central differences of the objective."""
    parameters = {"objective": objective, "engine": "dense", "step": "constant", "max_iter": 1}
    start = make(**parameters).fit(*cloud)
    moved = make(**parameters, keep="last").fit(*cloud)
    alpha = 0.1 / (2 * np.sqrt(2 * 3))
    reduce = np.max if objective == "max" else np.mean
    for name, before in weights(start).items():
        slope = np.empty_like(before)
        for index in np.ndindex(before.shape):
            sides = []
            for h in (1e-6, -1e-6):
                W = {key: value.copy() for key, value in weights(start).items()}
                W[name][index] += h
                sides.append(reduce(losses(start, *cloud, W)))
            slope[index] = (sides[0] - sides[1]) / 2e-6
        assert_allclose(weights(moved)[name], before - alpha * slope, atol=1e-8, err_msg=name)
        assert np.any(slope)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@BOTH
def test_fitted_attributes_of_every_classifier(cloud, make, dtype):
    X, y = cloud.astype(dtype)
    clf = make().fit(X, np.array(["a", "b", "c"])[y])
    shapes = {"W_": (3, 4)} if make is max_plus else {"W_": (12, 3), "A_": (4, 12), "b_": (12,)}
    assert {name: W.shape for name, W in weights(clf).items()} == shapes
    assert {W.dtype for W in weights(clf).values()} == {np.dtype(dtype)}
    assert clf.predict_proba(X).dtype == dtype
    assert_array_equal(clf.classes_, ["a", "b", "c"])
    assert clf.n_features_in_ == 4
    assert clf.n_iter_ == clf.loss_curve_.size == 60
    assert (clf.status_, clf.status_message_) == ("max_iter", "all iterations done")
    assert clf.perfect_fit_ == (clf.max_loss_ < np.log(2))


@pytest.mark.parametrize("init", ["gaussian", "uniform"])
@BOTH
def test_random_initialization_of_every_classifier(cloud, make, init):
    X = np.tile(cloud.X, 30)
    clf = make(init=init, scale=2.0, max_iter=1).fit(X, cloud.y)
    drawn = weights(clf)["W_" if make is max_plus else "A_"]
    assert np.std(drawn) == pytest.approx(2.0 if init == "gaussian" else 2 / 3**0.5, rel=0.1)
    assert (np.abs(drawn).max() <= 2.0) == (init == "uniform")
    glorot = linear_max_plus(max_iter=1).fit(*cloud)
    assert 0.8 < np.abs(glorot.A_).max() / np.sqrt(6 / 16) <= 1.0
    assert 0.8 < np.abs(glorot.W_).max() / np.sqrt(6 / 15) <= 1.0
    assert_array_equal(glorot.b_, 0.0)


# -- training ---------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("engine", ["dense", "sgd"])
def test_mean_objective_lowers_the_mean_loss(cloud, make, engine):
    parameters = {"objective": "mean", "step": "constant", "learning_rate": 1.0}
    clf = make(**parameters, engine=engine, max_iter=200).fit(*cloud)
    start = make(max_iter=1).fit(*cloud)
    assert clf.mean_loss_ < 0.97 * start.mean_loss_


def test_linear_max_plus_learns_scaled_iris_by_default(iris):
    X = scale(iris.X)
    clf = LinearMaxPlusClassifier(20, random_state=0).fit(X, iris.y)
    assert clf.score(X, iris.y) > 0.9


@BOTH
def test_partial_fit_and_warm_start_continue_training(cloud, make):
    expected = make(keep="last").fit(*cloud)
    clf = make(keep="last", max_iter=20).fit(*cloud)
    clf.set_params(max_iter=40).partial_fit(*cloud)
    assert_same(clf, expected)
    assert clf.n_iter_ == 60
    warm = make(warm_start=True, keep="last", max_iter=30).fit(*cloud).fit(*cloud)
    assert_array_equal(warm.W_, expected.W_)
    assert warm.n_iter_ == 30


@BOTH
@pytest.mark.parametrize("parameters", [{}, {"objective": "mean"}])
def test_sample_weight_of_zero_excludes_sample(cloud, make, parameters):
    used = np.arange(45) % 4 != 1
    some = make(**parameters).fit(*cloud, sample_weight=used)
    less = make(**parameters).fit(cloud.X[used], cloud.y[used])
    assert_array_equal(some.W_, less.W_)
    assert_array_equal(some.history_["sample"], np.flatnonzero(used)[less.history_["sample"]])


# -- input ------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("value", [1e300, -1e308, 1.7e308, float(np.finfo(np.float32).max)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n_copies", [1, 50])
def test_finite_inputs_have_finite_scores(cloud, make, value, dtype, n_copies):
    X = np.tile(cloud.X, n_copies).astype(dtype)
    clf = make(init="uniform").fit(X, cloud.y)
    huge = np.full((1, X.shape[1]), value)
    assert np.isfinite(clf.decision_function(huge)).all()
    assert clf.predict_proba(huge).sum() == pytest.approx(1.0)


@BOTH
def test_fit_does_not_depend_on_threads(digits, make):
    one, two = (make(n_jobs=n).fit(*digits) for n in (1, 2))
    assert_same(one, two)
    assert_array_equal(one.predict_proba(digits.X), two.predict_proba(digits.X))
