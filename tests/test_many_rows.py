"""Predictions in batches: the same results as for all rows, in little memory."""

import warnings

import numpy as np
import pytest

from maxplus import LipschitzInterpolator, SubgradientLMMClassifier
from maxplus.estimators import _training_data
from maxplus.models._softmax import softmax
from memory_used import most_memory

N_ROWS, N_FEATURES = 60_000, 16
METHODS = ("predict", "predict_proba", "predict_log_proba", "decision_function")


@pytest.fixture(scope="module")
def rows():
    """Return integers, which all types represent exactly; many are 0."""
    rng = np.random.default_rng(0)
    return rng.integers(-3, 4, (N_ROWS, N_FEATURES)) * (rng.random((N_ROWS, N_FEATURES)) < 0.3)


def trained(dtype, classes=3):
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(60, N_FEATURES)).astype(dtype), np.arange(60) % classes
    names = np.array(["a", "bee", "c"])
    return SubgradientLMMClassifier(6, max_iter=5, random_state=0).fit(X, names[y])


@pytest.fixture(scope="module", params=[np.float64, np.float32], ids=["float64", "float32"])
def classifier(request):
    return trained(request.param)


FORMS = {
    "float64": np.float64,
    "float32": np.float32,
    "bytes": np.int8,
    "columns": lambda X: np.asfortranarray(X, np.float64),
    "list": np.ndarray.tolist,
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_predict_in_batches_equals_predict_of_whole(classifier, rows, form, monkeypatch):
    few = rows[:97]
    Z = classifier.model_.scores(few)
    odds = np.exp(Z.astype(np.float64))
    total = odds.sum(axis=1, keepdims=True)
    expected = [classifier.classes_[Z.argmax(axis=1)], odds / total, np.log(odds / total), Z]
    X = few.astype(form) if isinstance(form, type) else form(few)
    for at_once in (10**6, 200, 1):
        monkeypatch.setattr(_training_data, "BATCH_VALUES", at_once)
        found = [getattr(classifier, name)(X) for name in METHODS]
        assert np.array_equal(found[0], expected[0])
        assert np.array_equal(found[3], expected[3])
        for one, other in zip(found[1:3], expected[1:3], strict=True):
            assert one.dtype == Z.dtype
            np.testing.assert_allclose(one, other, rtol=2e-6, atol=1e-6)


def test_decision_function_in_batches_is_1d_for_two_classes(rows, monkeypatch):
    classifier = trained(np.float64, classes=2)
    monkeypatch.setattr(_training_data, "BATCH_VALUES", 100)
    Z = classifier.model_.scores(rows[:50])
    assert np.array_equal(classifier.decision_function(rows[:50]), Z[:, 1] - Z[:, 0])


@pytest.mark.parametrize("form", ["float64", "float32", "bytes", "columns"])
def test_predict_in_batches_memory_does_not_grow(classifier, rows, form, monkeypatch):
    monkeypatch.setattr(_training_data, "BATCH_VALUES", 1 << 14)
    make = FORMS[form]
    X = rows.astype(make) if isinstance(make, type) else make(rows)
    for name in ("predict", "predict_proba"):
        result = getattr(classifier, name)(X)
        taken = most_memory(lambda name=name: getattr(classifier, name)(X))
        # All rows in float64 would be 7.7 MB, and all scores up to 1.4 MB.
        assert taken < result.nbytes + 900_000, name


def test_regressor_predicts_in_batches(rows, monkeypatch):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(30, N_FEATURES))
    curve = LipschitzInterpolator(slope=4.0).fit(X, X[:, 0])
    expected = curve.model_.scores(rows[:50])[:, 0]
    monkeypatch.setattr(_training_data, "BATCH_VALUES", 100)
    assert np.array_equal(curve.predict(rows[:50]), expected)


def test_predict_rejects_invalid_shapes_in_batches(classifier, rows, monkeypatch):
    monkeypatch.setattr(_training_data, "BATCH_VALUES", 100)
    with pytest.raises(ValueError, match="15 features"):
        classifier.predict(rows[:, 1:])
    with pytest.raises(ValueError, match="0 sample"):
        classifier.predict(rows[:0])


def test_feature_names_are_checked_once(rows, monkeypatch):
    pandas = pytest.importorskip("pandas")
    names = [f"x{p}" for p in range(N_FEATURES)]
    rng = np.random.default_rng(1)
    frame = pandas.DataFrame(rng.normal(size=(60, N_FEATURES)), columns=names)
    classifier = SubgradientLMMClassifier(6, max_iter=5, random_state=0).fit(
        frame, np.arange(60) % 3
    )
    monkeypatch.setattr(_training_data, "BATCH_VALUES", 100)
    expected = classifier.model_.scores(rows[:50]).argmax(axis=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = classifier.predict(pandas.DataFrame(rows[:50], columns=names))
    assert np.array_equal(found, expected)
    with pytest.warns(UserWarning, match="feature names") as caught:
        classifier.predict(rows[:50])
    assert len(caught) == 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_classes", [2, 9, 40])
def test_probabilities_of_sample_do_not_depend_on_other_samples(n_classes, dtype):
    Z = np.random.default_rng(0).normal(size=(50, n_classes)).astype(dtype) * 3
    whole = softmax(Z)
    for size in (1, 2, 7):
        parts = [softmax(Z[k : k + size]) for k in range(0, len(Z), size)]
        np.testing.assert_array_equal(np.concatenate(parts), whole)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_predict_rejects_non_finite_values_in_any_batch(classifier, monkeypatch, value):
    monkeypatch.setattr(_training_data, "BATCH_VALUES", 40)
    X = np.zeros((50, N_FEATURES))
    X[37, 1] = value
    nan = r"Input X contains NaN\. Missing values are imputed .* maxplus\.TableEncoder\(\)"
    message = nan if np.isnan(value) else "Input X contains infinity"
    for method in (classifier.predict, classifier.predict_proba, classifier.decision_function):
        with pytest.raises(ValueError, match=message):
            method(X)
