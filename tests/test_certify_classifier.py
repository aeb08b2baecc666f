"""Certificates of classifiers: radii, certified accuracy and argument checks."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError

from certified import SHORT, inside
from maxplus import LMMClassifier, SubgradientLMMClassifier
from maxplus.certify import CertifiedRows, certified_at, certified_radius

pytestmark = pytest.mark.slow


SOME_EPS = [0.0, 0.013, 0.057, 0.21, 0.53, 0.87, 100.0]


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


def test_certified_accuracy_does_not_depend_on_the_order_of_eps(named):
    clf, X, names = named
    assert_array_equal(
        clf.certified_accuracy(X, names, SOME_EPS[::-1])[::-1],
        clf.certified_accuracy(X, names, SOME_EPS),
    )


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


def test_certified_rows_of_classifier_survive_attacks(named):
    clf, X, _ = named
    radius = clf.certified_radius(X)
    rng = np.random.default_rng(0)
    for _ in range(20):
        step = radius[:, None] * rng.choice([-1.0, 1.0], size=X.shape)
        assert_array_equal(clf.predict(inside(X, step)), clf.predict(X))


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
    found = CertifiedRows.of([0.3, 9.0, 0.1, 0.2, 0.4], [True, False, True, True, True])
    assert found == (5, 4, 0.2, 0.1)
    # Half of the right rows, at least, reach the median.
    assert (np.array([0.3, 0.1, 0.2, 0.4]) >= found.median).mean() >= 0.5
    text = found.sentence(held=["sex", "pain", "stage", "thal"])
    for words in (
        "4 of 5 rows are right",
        "half of those 4",
        "0.2 training deviations",
        "up to 0.1",
        "(sex, pain, stage and 1 more held fixed)",
        "1 rows that are wrong",
    ):
        assert words in text
    assert "held" not in found.sentence("raw units")
    nobody = CertifiedRows.of([0.3], [False])
    assert np.isnan(nobody.median)
    assert nobody.sentence() == "None of the 1 rows is right, so nothing is certified."
    with pytest.raises(ValueError, match=r"^radius and right must be"):
        CertifiedRows.of([0.1, 0.2], [True])


def test_certified_accuracy_counts_rows_whose_radius_reaches_eps(iris):
    X = iris.X.astype(np.float32)
    clf = SubgradientLMMClassifier(12, max_iter=300, random_state=0).fit(X, iris.y)
    assert clf.model_.dtype == np.float32
    radius, right = clf.certified_radius(X), clf.predict(X) == iris.y
    eps = np.concatenate([radius, np.nextafter(radius, np.inf), radius * (1 + 5e-7)])
    shares = [np.mean(right & (radius >= step)) for step in eps]
    assert_array_equal(clf.certified_accuracy(X, iris.y, eps), shares)
