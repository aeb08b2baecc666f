"""Atomicity of `fit`: failed and interrupted calls leave the estimator unchanged. Overflow."""

import os
import re

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from maxplus import (
    LinearMaxPlusClassifier,
    LipschitzInterpolator,
    LMMClassifier,
    LMMEnsembleClassifier,
    MaxPlusClassifier,
    SubgradientLMMClassifier,
)
from maxplus.estimators._base import BaseMaxPlusClassifier
from maxplus.training.result import TrainingOverflowError
from processes import interrupt_second_fits
from trainings import raise_keyboard_interrupt

pytestmark = pytest.mark.slow

QUICK = [
    LMMClassifier(12, warmup_epochs=3, random_state=0),
    SubgradientLMMClassifier(8, max_iter=20, engine="dense", random_state=0),
    MaxPlusClassifier(max_iter=20, random_state=0),
    LinearMaxPlusClassifier(6, max_iter=20, random_state=0),
]
EACH = pytest.mark.parametrize("clf", QUICK, ids=lambda clf: type(clf).__name__)


def snapshot(estimator):
    """Return all attributes of an estimator except callbacks; arrays as bytes."""
    return {
        name: value.tobytes() if isinstance(value, np.ndarray) else value
        for name, value in vars(estimator).items()
        if name not in ("callbacks", "_rng")
    }


class InjectedError(RuntimeError):
    """Error that a test injects."""


def fail(*arguments, **options):
    raise InjectedError


@pytest.mark.parametrize(
    ("clf", "method"),
    [(clf, name) for clf in QUICK for name in ("fit", "partial_fit") if hasattr(clf, name)],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_rejected_fit_leaves_estimator_unchanged(iris, clf, method):
    clf.set_params(callbacks=None).fit(iris.X[:, :2], iris.y)
    before, expected = snapshot(clf), clf.predict(iris.X[:, :2])
    for X, y in (
        (iris.X, np.zeros(150)),  # one class
        (iris.X * np.nan, iris.y),
        (iris.X, iris.y[:100]),
        (iris.X, iris.X[:, 0]),  # no labels
    ):
        with pytest.raises(ValueError, match=r"."):
            getattr(clf, method)(X, y)
        assert snapshot(clf) == before
    assert_array_equal(clf.predict(iris.X[:, :2]), expected)


@EACH
@pytest.mark.parametrize("place", ["_stages", "_fitted_attributes", "_initialize"])
def test_failed_fit_leaves_estimator_unchanged(iris, clf, place, monkeypatch):
    clf.set_params(callbacks=None).fit(iris.X[:, :2], iris.y)
    before = snapshot(clf)
    monkeypatch.setattr(type(clf), place, fail)
    with pytest.raises(InjectedError):
        clf.fit(*iris)
    assert snapshot(clf) == before


def test_failed_partial_fit_leaves_generator_unchanged(iris, monkeypatch):
    one, two = (
        SubgradientLMMClassifier(8, max_iter=30, objective="mean", random_state=0).fit(*iris)
        for _ in range(2)
    )
    with monkeypatch.context() as patch:
        patch.setattr(BaseMaxPlusClassifier, "_fitted_attributes", fail)
        with pytest.raises(InjectedError):
            one.partial_fit(*iris)
    one.partial_fit(*iris)
    two.partial_fit(*iris)
    assert_array_equal(one.W1_, two.W1_)
    assert_array_equal(one.history_["sample"], two.history_["sample"])


@EACH
def test_interrupted_fit_leaves_estimator_unchanged(iris, clf):
    clf.set_params(callbacks=None).fit(iris.X[:, :2], np.array(["a", "b", "c"])[iris.y])
    before = snapshot(clf)
    with pytest.raises(KeyboardInterrupt):
        clf.set_params(callbacks=raise_keyboard_interrupt).fit(*iris)
    assert snapshot(clf) == before
    clf.set_params(callbacks=None)


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_ctrl_c_at_any_time_of_a_second_fit_keeps_old_or_new_model():
    recipe = "LMMClassifier(30, warmup_epochs=4, polish=None, random_state=0)"
    interrupt_second_fits("load_digits", "20:24", recipe, [0.0, 0.05, 0.3, 0.8])


def test_rejected_regression_fit_leaves_estimator_unchanged(iris):
    with pytest.warns(ConvergenceWarning, match="slope 2"):
        reg = LipschitzInterpolator(slope=2.0).fit(iris.X[:, :2], iris.X[:, 3])
    before = snapshot(reg)
    with pytest.raises(ValueError, match="overflows float64"):
        reg.set_params(slope=1e306).fit(iris.X * 1e6, iris.X[:, 3])
    assert snapshot(reg) == before | {"slope": 1e306}


# -- overflow ---------------------------------------------------------------------------------


def assert_fitted_or_rejected(clf, X, y):
    """Assert that all fitted attributes are finite, or that the error contains a remedy."""
    message = None
    try:
        clf.fit(X, y)
    except ValueError as error:
        message = str(error)
    if message is not None:
        assert re.search("scale|slope", message)
        assert not hasattr(clf, "model_")
        return
    for W in clf.model_.weights_by_name().values():
        assert np.isfinite(W).all()
    assert clf.unit_activation_counts_.sum() == len(y) * len(clf.classes_)
    assert np.isfinite(clf.training_losses_).all()
    assert np.isfinite(clf.predict_proba(X)).all()


EXTREME = {
    "large": (np.float32, 1e14),
    "different magnitudes, float32": (np.float32, [1e-11, 1.0, 1e4, 1e11]),
    "different magnitudes, float64": (np.float64, [1e-11, 1.0, 1e4, 1e11]),
    **{f"size {size}": (np.float64, size) for size in (1e-310, 1e-323, 1e-300, 1e-160)},
}


@pytest.mark.parametrize(
    "clf",
    [
        LMMClassifier(2, slope=1.0, warmup_epochs=1, random_state=0),
        LMMClassifier(2, slope=1e8, warmup_epochs=1, random_state=0),
        LMMClassifier(2, warmup_epochs=3, random_state=0),
        LMMClassifier(20, warmup_epochs=3, random_state=0),
        SubgradientLMMClassifier(6, max_iter=5, engine="dense", random_state=0),
    ],
)
@pytest.mark.parametrize(("dtype", "scale"), EXTREME.values(), ids=EXTREME)
def test_fit_on_extreme_features_is_rejected_or_finite(iris, clf, dtype, scale):
    assert_fitted_or_rejected(clone(clf), (iris.X * np.array(scale)).astype(dtype), iris.y)


@pytest.mark.parametrize(
    ("clf", "n_networks"),
    [
        (LMMClassifier(6, warmup_epochs=2, random_state=0), 1),
        (LMMEnsembleClassifier(LMMClassifier(6, warmup_epochs=2, polish=None), 3, n_jobs=2), 2),
    ],
)
def test_overflowing_weights_raise_an_error(iris, clf, n_networks, monkeypatch):
    """The weights of the last one of some networks overflow."""
    from maxplus.training.stages import warm_up

    clf.fit(*iris)
    before = snapshot(clf)
    outcome, calls = warm_up.WarmUpOutcome, []

    def broken(model, *others):
        calls.append(model)
        if len(calls) == n_networks:
            model.W1[0, 0] = np.inf
        return outcome(model, *others)

    monkeypatch.setattr(warm_up, "WarmUpOutcome", broken)
    with pytest.raises(
        TrainingOverflowError, match="weights W1 left the range of float64; scale X"
    ):
        clf.fit(*iris)
    assert snapshot(clf) == before
