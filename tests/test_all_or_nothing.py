"""A fit sets all of its attributes or none, whatever ends it; overflow ends it with an error."""

import os
import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from maxplus import (
    LinearMaxPlusClassifier,
    LipschitzInterpolator,
    LMMClassifier,
    MaxPlusClassifier,
    SubgradientLMMClassifier,
)
from maxplus.estimators._base import BaseMaxPlusClassifier
from maxplus.training import KeepBestOnInterrupt
from maxplus.training.result import TrainingOverflowError
from processes import interrupt_second_fits

pytestmark = pytest.mark.slow

QUICK = [
    LMMClassifier(12, warmup_epochs=3, random_state=0),
    SubgradientLMMClassifier(8, max_iter=20, engine="dense", random_state=0),
    MaxPlusClassifier(max_iter=20, random_state=0),
    LinearMaxPlusClassifier(6, max_iter=20, random_state=0),
]
EACH = pytest.mark.parametrize("clf", QUICK, ids=lambda clf: type(clf).__name__)


def snapshot(estimator):
    """Everything an estimator knows; arrays by their content."""
    return {
        name: value.tobytes() if isinstance(value, np.ndarray) else value
        for name, value in vars(estimator).items()
        if name not in ("callbacks", "_rng")
    }


class Wound(RuntimeError):
    """A failure that a test injects."""


def fail(*arguments, **options):
    raise Wound


def interrupt(progress):
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("clf", "method"),
    [(clf, name) for clf in QUICK for name in ("fit", "partial_fit") if hasattr(clf, name)],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_a_refused_fit_changes_nothing(iris, clf, method):
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
def test_a_failure_anywhere_changes_nothing(iris, clf, place, monkeypatch):
    clf.set_params(callbacks=None).fit(iris.X[:, :2], iris.y)
    before = snapshot(clf)
    monkeypatch.setattr(type(clf), place, fail)
    with pytest.raises(Wound):
        clf.fit(*iris)
    assert snapshot(clf) == before


def test_a_failed_partial_fit_draws_nothing(iris, monkeypatch):
    """The next one goes on as if the failed one had not been."""
    one, two = (
        SubgradientLMMClassifier(8, max_iter=30, objective="mean", random_state=0).fit(*iris)
        for _ in range(2)
    )
    with monkeypatch.context() as patch:
        patch.setattr(BaseMaxPlusClassifier, "_fitted_attributes", fail)
        with pytest.raises(Wound):
            one.partial_fit(*iris)
    one.partial_fit(*iris)
    two.partial_fit(*iris)
    assert_array_equal(one.W1_, two.W1_)
    assert_array_equal(one.history_["sample"], two.history_["sample"])


@EACH
def test_an_interruption_that_does_not_wait_keeps_old_or_new(iris, clf):
    """Never some of both: the labels fit the model that is there."""
    clf.set_params(callbacks=None).fit(iris.X[:, :2], np.array(["a", "b", "c"])[iris.y])
    before = snapshot(clf)
    clf.set_params(callbacks=interrupt)
    with pytest.raises(KeyboardInterrupt):
        clf.fit(*iris)
    assert snapshot(clf) == before
    if not isinstance(clf, LMMClassifier):
        clf.set_params(callbacks=[interrupt, KeepBestOnInterrupt()])
        with pytest.warns(UserWarning, match="interrupted"):
            clf.fit(*iris)
        assert clf.n_features_in_ == clf.model_.n_features == 4
        assert clf.predict(iris.X[:1]).dtype.kind == "i"
    clf.set_params(callbacks=None)


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_ctrl_c_at_any_moment_of_a_second_fit():
    recipe = "LMMClassifier(30, warmup_epochs=4, polish=None, random_state=0)"
    interrupt_second_fits("load_digits", "20:24", recipe, [0.0, 0.05, 0.3, 0.8])


REFUSED = """
import numpy as np
from sklearn.datasets import load_digits
from maxplus import LMMClassifier
X, y = load_digits(return_X_y=True)
clf = LMMClassifier(30, warmup_epochs=2, random_state=0).fit(X[:, 20:24], y)
try:
    clf.fit(X, np.zeros(len(y)))
except ValueError:
    pass
try:
    clf.predict(X)
except ValueError as error:
    assert "64 features" in str(error), error
clf.predict(X[:, 20:24])
"""


def test_a_refused_fit_cannot_corrupt_memory():
    done = subprocess.run([sys.executable, "-c", REFUSED], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_refused_regression_changes_nothing(iris):
    with pytest.warns(ConvergenceWarning, match="slope 2"):
        reg = LipschitzInterpolator(slope=2.0).fit(iris.X[:, :2], iris.X[:, 3])
    before = snapshot(reg)
    with pytest.raises(ValueError, match="does not fit into"):
        reg.set_params(slope=1e306).fit(iris.X * 1e6, iris.X[:, 3])
    assert snapshot(reg) == before | {"slope": 1e306}


# -- overflow ---------------------------------------------------------------------------------


def fitted_or_refused(clf, X, y):
    """All of the fitted classifier is finite, or the fit is refused with a remedy."""
    try:
        clf.fit(X, y)
    except ValueError as error:
        message = str(error)
    else:
        message = ""
    if message:
        assert "scale" in message or "slope" in message
        assert not hasattr(clf, "model_")
        return
    for W in clf.model_.weights_by_name().values():
        assert np.isfinite(W).all()
    assert clf.unit_activation_counts_.sum() == len(y) * len(clf.classes_)
    assert np.isfinite(clf.training_losses_).all()
    assert np.isfinite(clf.predict_proba(X)).all()


def test_a_steep_slope_on_large_features_is_refused_or_survived(iris):
    X = (iris.X * 1e14).astype(np.float32)
    for slope in (1.0, 1e8):
        fitted_or_refused(LMMClassifier(2, slope=slope, warmup_epochs=1, random_state=0), X, iris.y)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_features_of_very_different_sizes_are_refused_or_survived(iris, dtype):
    X = (iris.X * np.array([1e-11, 1.0, 1e4, 1e11])).astype(dtype)
    for n_hidden in (2, 20):
        fitted_or_refused(LMMClassifier(n_hidden, warmup_epochs=3, random_state=0), X, iris.y)


@pytest.mark.parametrize("size", [1e-310, 1e-323, 1e-300, 1e-160])
def test_features_near_zero_are_refused_or_survived(iris, size):
    for clf in (
        LMMClassifier(6, warmup_epochs=2, random_state=0),
        SubgradientLMMClassifier(6, max_iter=5, engine="dense", random_state=0),
    ):
        fitted_or_refused(clf, iris.X * size, iris.y)


def test_weights_that_overflow_end_a_training_with_an_error(iris, monkeypatch):
    """Whatever stage they come from."""
    from maxplus.training.stages import warm_up

    clf = LMMClassifier(6, warmup_epochs=2, random_state=0).fit(*iris)
    before = snapshot(clf)
    kept = warm_up._Run.kept

    def broken(run, model):
        hard = kept(run, model)
        hard.W1[0, 0] = np.inf
        return hard

    monkeypatch.setattr(warm_up._Run, "kept", broken)
    with pytest.raises(
        TrainingOverflowError, match="weights W1 left the range of float64; scale X"
    ):
        clf.fit(*iris)
    assert snapshot(clf) == before
