"""Attacks on trained models: none succeeds inside a radius, and outside they do."""

from typing import NamedTuple

import numpy as np
import pytest

from certified import ROUNDING, SHORT, attack, cast, cones, lipschitz_radius, size
from maxplus import SubgradientLMMClassifier, datasets
from maxplus.certify import certified_radius
from maxplus.models import LMM
from mnist_files import HAS_MNIST, NO_MNIST

pytestmark = pytest.mark.slow


class Trained(NamedTuple):
    """A trained model, rows that it has not seen (but for Iris), and their radii."""

    model: LMM
    X: np.ndarray
    radius: np.ndarray


def train(data, X, dtype, **parameters):
    clf = SubgradientLMMClassifier(**parameters, random_state=0).fit(data[0].astype(dtype), data[1])
    assert clf.model_.dtype == dtype
    X = X.astype(dtype)
    return Trained(clf.model_, X, clf.certified_radius(X))


MEAN = {"n_hidden": 40, "objective": "mean", "max_iter": 10_000}


@pytest.fixture(scope="module", params=["iris", "digits", "mnist"])
def source(request):
    """Training data, other rows, hyper-parameters."""
    if request.param == "iris":
        data = request.getfixturevalue("iris")
        return data, data.X, {"n_hidden": 20, "max_iter": 2000, "w0_update_interval": 10}
    if request.param == "digits":
        X, y = request.getfixturevalue("digits")
        return (X[:400], y[:400]), X[400:], MEAN
    if not HAS_MNIST:
        pytest.skip(NO_MNIST)
    data = datasets.load_mnist()
    few = data.X_train[:1000], data.y_train[:1000]
    return few, data.X_test[:50], {**MEAN, "w0_update_interval": 5}


@pytest.fixture(scope="module", params=[np.float64, np.float32], ids=["float64", "float32"])
def trained(source, request):
    data, X, parameters = source
    return train(data, X, request.param, **parameters)


def test_certified_radius_is_at_least_the_lipschitz_radius(trained):
    model, X, radius = trained
    rounding = ROUNDING[model.dtype] * size(model, X, radius.max()) / np.abs(model.W0).max()
    expected = lipschitz_radius(model, X)
    assert (radius >= expected * (1 - SHORT) - rounding).all()


def test_certified_radius_survives_attacks(trained):
    assert np.isfinite(trained.radius).all()
    assert (trained.radius > 0).mean() > 0.9
    assert not attack(*trained).any()


def test_attacks_beyond_certified_radius_succeed(trained):
    """The same attack finds points just outside for some rows, three times as far for many."""
    assert attack(trained.model, trained.X, 1.01 * trained.radius).mean() > 0.05
    assert attack(trained.model, trained.X, 3.0 * trained.radius).mean() > 0.4


def test_certified_radius_with_scales_survives_attacks(trained):
    model, X, _ = trained
    scale = np.random.default_rng(3).choice([0.0, 0.3, 1.0, 5.0], size=X.shape[1])
    radius = certified_radius(model, X, scale)
    assert (radius > 0).mean() > 0.9
    assert not attack(model, X, radius, scale).any()
    assert attack(model, X, 3.0 * radius, scale).mean() > 0.3


def test_attacks_detect_unsound_radius(digits):
    """(z₁ − z₂) / max |W0|, without the 2: one score falls while the other rises."""
    centres = digits.X[:10]
    model, X = cones(centres), digits.X[10:200]
    sound = lipschitz_radius(model, X)
    assert not attack(model, X, sound * (1 - 1e-9)).any()
    assert attack(model, X, 2 * sound).mean() > 0.5


def test_certified_radius_needs_its_rounding_allowance():
    """A radius for exact arithmetic does not hold for scores in float32; the model's own does."""
    rng = np.random.default_rng(5)
    model = cones(rng.normal(size=(6, 3)))
    model.W1[:] += 1e4
    model = cast(model, np.float32)
    X = rng.normal(size=(300, 3)).astype(np.float32)
    naive = certified_radius(cast(model, np.float64), X)
    assert attack(model, X, naive, tries=50).any()
    assert not attack(model, X, certified_radius(model, X), tries=50).any()
