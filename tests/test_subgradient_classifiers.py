"""Classifiers trained with the subgradient method: scores, steps, attributes, partial_fit."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.preprocessing import scale

from maxplus import LinearMaxPlusClassifier, MaxPlusClassifier, SubgradientLMMClassifier

# Parameters of all classifiers, independent of the defaults.
COMMON = {"step": "polyak", "learning_rate": 0.1, "max_iter": 60, "random_state": 0}


def max_plus(**parameters):
    return MaxPlusClassifier(**{**COMMON, **parameters})


def linear_max_plus(**parameters):
    return LinearMaxPlusClassifier(12, **{"objective": "max", **COMMON, **parameters})


def lmm(**parameters):
    options = {"init": "gaussian", "slope": 1.0, "w0_update_interval": 1}
    return SubgradientLMMClassifier(12, **{**options, **COMMON, **parameters})


SHAPES = {
    max_plus: {"W": (3, 4)},
    linear_max_plus: {"A": (4, 12), "b": (12,), "W": (12, 3)},
    lmm: {"W0": (8,), "W1": (8, 12), "W2": (12, 3)},
}
ALL = pytest.mark.parametrize("make", SHAPES)
BOTH = pytest.mark.parametrize("make", [max_plus, linear_max_plus])


def weights(clf):
    return {name: getattr(clf, f"{name}_") for name in clf.model_.layers}


def scores(clf, X, W=None):
    """Return the scores according to the formulas of the models."""
    W = W or weights(clf)
    if isinstance(clf, MaxPlusClassifier):
        return (X[:, None] + W["W"][None]).max(axis=2)
    if isinstance(clf, LinearMaxPlusClassifier):
        a = np.maximum(0, X @ W["A"] + W["b"])
        return (a[:, :, None] + W["W"][None]).max(axis=1)
    g = (np.repeat(X, 2, axis=1)[:, :, None] * W["W0"][:, None] + W["W1"]).min(axis=1)
    return (g[:, :, None] + W["W2"][None]).max(axis=1)


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


@ALL
def test_predictions_equal_the_formula(cloud, pair, make):
    clf = make().fit(*cloud)
    Z = scores(clf, cloud.X)
    proba = np.exp(Z) / np.exp(Z).sum(axis=1, keepdims=True)
    assert_allclose(clf.decision_function(cloud.X), Z, atol=1e-12)
    assert_array_equal(clf.predict(cloud.X), np.argmax(Z, axis=1))
    assert_allclose(clf.predict_proba(cloud.X), proba)
    assert_allclose(clf.predict_log_proba(cloud.X), np.log(proba))
    assert losses(clf, *cloud).max() == pytest.approx(clf.max_loss_)
    assert losses(clf, *cloud).mean() == pytest.approx(clf.mean_loss_)

    clf = make().fit(pair.X, np.where(pair.y == 1, "yes", "no"))
    margin = np.diff(scores(clf, pair.X), axis=1)[:, 0]
    assert_allclose(clf.decision_function(pair.X), margin, atol=1e-12)
    assert_array_equal(clf.predict(pair.X), np.where(margin > 0, "yes", "no"))
    assert_allclose(clf.predict_proba(pair.X)[:, 1], 1 / (1 + np.exp(-margin)))


@ALL
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
@ALL
def test_fitted_attributes(cloud, make, dtype):
    X, y = cloud.astype(dtype)
    clf = make().fit(X, np.array(["a", "b", "c"])[y])
    assert {name: W.shape for name, W in weights(clf).items()} == SHAPES[make]
    assert {W.dtype for W in weights(clf).values()} == {np.dtype(dtype)}
    assert clf.predict_proba(X).dtype == clf.decision_function(X).dtype == dtype
    assert_array_equal(clf.classes_, ["a", "b", "c"])
    assert clf.n_features_in_ == 4
    assert {name: values.shape for name, values in clf.history_.items()} == dict.fromkeys(
        ("loss", "sample", "step"), (60,)
    )
    assert_array_equal(clf.loss_curve_, clf.history_["loss"])
    assert clf.n_iter_ == 60
    assert (clf.status_, clf.status_message_) == ("max_iter", "all iterations done")
    assert clf.perfect_fit_ == (clf.max_loss_ < np.log(2))


@pytest.mark.parametrize("init", ["gaussian", "uniform"])
@BOTH
def test_random_initialization(cloud, make, init):
    X = np.tile(cloud.X, 30)
    clf = make(init=init, scale=2.0, max_iter=1).fit(X, cloud.y)
    drawn = weights(clf)["W" if make is max_plus else "A"]
    assert np.std(drawn) == pytest.approx(2.0 if init == "gaussian" else 2 / 3**0.5, rel=0.1)
    assert (np.abs(drawn).max() <= 2.0) == (init == "uniform")
    glorot = linear_max_plus(max_iter=1).fit(*cloud)
    assert 0.8 < np.abs(glorot.A_).max() / np.sqrt(6 / 16) <= 1.0
    assert 0.8 < np.abs(glorot.W_).max() / np.sqrt(6 / 15) <= 1.0
    assert_array_equal(glorot.b_, 0.0)


# -- training ---------------------------------------------------------------------------------


@ALL
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


@ALL
@pytest.mark.parametrize("step", ["polyak", "constant"])
def test_partial_fit_and_warm_start_continue_training(cloud, make, step):
    options = {"step": step, "keep": "last", "engine": "dense"}
    expected = make(**options).fit(*cloud)
    clf = make(**options, max_iter=20).partial_fit(*cloud)
    clf.set_params(max_iter=40).partial_fit(*cloud)
    assert_same(clf, expected)
    assert clf.n_iter_ == 60
    warm = make(**options, warm_start=True, max_iter=30).fit(*cloud).fit(*cloud)
    assert_array_equal(warm.history_["loss"], expected.history_["loss"][30:])
    assert warm.n_iter_ == 30


@ALL
@pytest.mark.parametrize(
    "parameters",
    [
        {"engine": "dense"},
        {"objective": "mean", "engine": "dense"},
        {"objective": "mean", "engine": "sgd"},
    ],
)
def test_sample_weight_of_zero_excludes_sample(cloud, make, parameters):
    used = np.arange(45) % 4 != 1
    some = make(**parameters).fit(*cloud, sample_weight=used)
    less = make(**parameters).fit(cloud.X[used], cloud.y[used])
    for name, W in weights(less).items():
        assert_array_equal(weights(some)[name], W)
    assert some.max_loss_ == less.max_loss_
    # Sample indices refer to the input of fit.
    samples = less.history_["sample"]
    expected = np.where(samples < 0, samples, np.flatnonzero(used)[samples])
    assert_array_equal(some.history_["sample"], expected)


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
