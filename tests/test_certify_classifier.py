"""Certificates of trained classifiers: radii, certified accuracy, argument checks and attacks."""

from typing import NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError

from certified import ROUNDING, SHORT, attack, cast, cones, lipschitz_radius, size
from maxplus import LMMClassifier, SubgradientLMMClassifier, datasets
from maxplus.certify import CertifiedRows, certified_at, certified_radius
from maxplus.models import LMM
from mnist_files import HAS_MNIST, NO_MNIST

pytestmark = pytest.mark.slow

SOME_EPS = [0.53, 0.0, 100.0, 0.013, 0.21, 0.057, 0.87]


@pytest.fixture(scope="module")
def named(iris):
    """Return a classifier of named flowers, their data and their names."""
    names = np.array(["setosa", "versicolor", "virginica"])[iris.y]
    clf = SubgradientLMMClassifier(20, max_iter=2000, random_state=0).fit(iris.X, names)
    return clf, iris.X, names


@pytest.mark.parametrize("scale", [None, [1.0, 0.5, 0.0, 2.0]])
def test_classifier_radii_equal_those_of_its_model(named, scale):
    clf, X, _ = named
    radius = clf.certified_radius(X, scale=scale)
    assert radius.shape == (150,)
    expected = certified_radius(clf.model_, X, None if scale is None else np.array(scale))
    assert_allclose(radius, expected, rtol=2 * SHORT)


@pytest.mark.parametrize("scale", [None, [1.0, 0.5, 0.0, 2.0]])
def test_certified_accuracy_by_hand(named, scale):
    clf, X, names = named
    right = clf.predict(X) == names
    radius = clf.certified_radius(X, scale=scale)
    assert not right.all()
    shares = clf.certified_accuracy(X, names, SOME_EPS, scale=scale)
    assert isinstance(shares, np.ndarray)
    assert_allclose(shares, [np.mean(right & (radius >= eps)) for eps in SOME_EPS], rtol=1e-15)
    for eps, share in zip(SOME_EPS, shares, strict=True):
        certified = certified_at(clf.model_, X, eps, np.ones(4) if scale is None else scale)
        assert share == pytest.approx(np.mean(right & certified), rel=1e-15)
        alone = clf.certified_accuracy(X, names, eps, scale=scale)
        assert isinstance(alone, float)
        assert alone == share


def test_certified_accuracy_falls_from_accuracy_to_zero(named):
    clf, X, names = named
    shares = clf.certified_accuracy(X, names, np.linspace(0.0, 3.0, 40))
    assert shares[0] == clf.score(X, names)
    assert (np.diff(shares) <= 0).all()
    assert len(set(shares)) > 10
    assert shares[-1] == 0.0


def test_certified_accuracy_counts_unknown_labels_as_wrong(named):
    clf, X, names = named
    unknown = np.where(names == "setosa", "tulip", names)
    expected = np.mean(clf.predict(X) == unknown)
    assert 0 < expected < clf.score(X, names)
    assert clf.certified_accuracy(X, unknown, 0.0) == expected
    assert clf.certified_accuracy(X, np.roll(names, 50), 0.0) == np.mean(
        clf.predict(X) == np.roll(names, 50)
    )


def test_certified_accuracy_counts_equal_scores_at_eps_zero_only(iris):
    clf = SubgradientLMMClassifier(5, max_iter=10, random_state=0).fit(*iris)
    clf.model_.W2[:] = 0.0
    assert (
        clf.certified_accuracy(iris.X, iris.y, 0.0)
        == clf.score(iris.X, iris.y)
        == pytest.approx(1 / 3)
    )
    assert_array_equal(clf.certified_accuracy(iris.X, iris.y, [0, 1e-6]), [1 / 3, 0])
    assert_array_equal(clf.certified_radius(iris.X), 0.0)


@pytest.mark.parametrize("eps", [-0.1, -1e-300, np.nan, [0.1, -0.1], [np.nan], [[0.1, 0.2]]])
def test_certified_accuracy_rejects_invalid_eps(named, eps):
    clf, X, names = named
    with pytest.raises(ValueError, match="eps"):
        clf.certified_accuracy(X, names, eps)


@pytest.mark.parametrize(
    "scale", [[1.0] * 3, [1.0] * 5, [], [-1.0, 1, 1, 1], [np.nan, 1, 1, 1], np.ones((4, 1))]
)
def test_certified_radius_rejects_invalid_scale(named, scale):
    clf, X, names = named
    with pytest.raises(ValueError, match="scale"):
        clf.certified_accuracy(X, names, 0.1, scale=scale)
    with pytest.raises(ValueError, match="scale"):
        clf.certified_radius(X, scale=scale)


def test_certified_accuracy_rejects_invalid_labels_and_samples(named):
    clf, X, names = named
    with pytest.raises(ValueError, match=r"\by\b"):
        clf.certified_accuracy(X, names[:-1], 0.1)
    for bad in (X[:, :3], np.full_like(X, np.nan)):
        with pytest.raises(ValueError, match=r"\bX\b"):
            clf.certified_accuracy(bad, names, 0.1)
        with pytest.raises(ValueError, match=r"\bX\b"):
            clf.certified_radius(bad)


def test_certified_radius_requires_fitted_classifier(iris):
    for call in (
        lambda: LMMClassifier().certified_radius(iris.X),
        lambda: LMMClassifier().certified_accuracy(*iris, 0.1),
    ):
        with pytest.raises(NotFittedError, match="LMMClassifier"):
            call()


# -- certified rows -----------------------------------------------------------------------------


def test_certified_rows_are_correct_rows():
    found = CertifiedRows.from_radii([0.3, 9.0, 0.1, 0.2, 0.4], [True, False, True, True, True])
    assert found == (5, 4, 0.2, 0.1)
    # At least half of the correct rows have the median radius or a larger one.
    assert (np.array([0.3, 0.1, 0.2, 0.4]) >= found.median_radius).mean() >= 0.5
    text = found.sentence(held=["sex", "pain", "stage", "thal"])
    for words in (
        "Correct predictions: 4 of 5 rows.",
        "half of these 4",
        "if each numeric feature changes by up to 0.2",
        "0.2 standard deviations of the training data",
        "up to 0.1",
        "(sex, pain, stage and 1 more held fixed)",
        "No other row is certified.",
    ):
        assert words in text
    assert "held" not in found.sentence("raw units")
    none = CertifiedRows.from_radii([0.3], [False])
    assert np.isnan(none.median_radius)
    assert none.sentence() == ("None of the 1 rows is predicted correctly: no row is certified.")
    with pytest.raises(ValueError, match=r"^radius and correct must have the same shape"):
        CertifiedRows.from_radii([0.1, 0.2], [True])


def test_certified_accuracy_counts_rows_whose_radius_reaches_eps(iris):
    X = iris.X.astype(np.float32)
    clf = SubgradientLMMClassifier(12, max_iter=300, random_state=0).fit(X, iris.y)
    assert clf.model_.dtype == np.float32
    radius, right = clf.certified_radius(X), clf.predict(X) == iris.y
    eps = np.concatenate([radius, np.nextafter(radius, np.inf), radius * (1 + 5e-7)])
    shares = [np.mean(right & (radius >= step)) for step in eps]
    assert_array_equal(clf.certified_accuracy(X, iris.y, eps), shares)


# -- attacks on trained models ----------------------------------------------------------------


class Trained(NamedTuple):
    """A trained model, rows that were not used for training (except Iris), and their radii."""

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
    """The attack finds other classes outside the box: for few rows nearby, for many far away."""
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
    """Twice the Lipschitz radius is too large, because one score falls while the other rises."""
    centres = digits.X[:10]
    model, X = cones(centres), digits.X[10:200]
    sound = lipschitz_radius(model, X)
    assert not attack(model, X, sound * (1 - 1e-9)).any()
    assert attack(model, X, 2 * sound).mean() > 0.5


def test_certified_radius_needs_its_rounding_allowance():
    """A radius for exact arithmetic does not hold for scores in float32."""
    rng = np.random.default_rng(5)
    model = cones(rng.normal(size=(6, 3)))
    model.W1[:] += 1e4
    model = cast(model, np.float32)
    X = rng.normal(size=(300, 3)).astype(np.float32)
    naive = certified_radius(cast(model, np.float64), X)
    assert attack(model, X, naive, tries=50).any()
    assert not attack(model, X, certified_radius(model, X), tries=50).any()
