"""Model files: round trips to the last bit, and what cannot be saved."""

import json
import pickle
from collections.abc import Mapping

import joblib
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import BaseEstimator, clone, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

import maxplus
from maxplus import (
    LinearMaxPlusClassifier,
    LipschitzInterpolator,
    LMMClassifier,
    LMMEnsembleClassifier,
    LMMRegressor,
    MaxPlusClassifier,
    SubgradientLMMClassifier,
    TableEncoder,
)
from maxplus.io import FileError, container, schema
from maxplus.io.models import load_with_notes, save, serialize
from maxplus.models import AdditiveLMM, Network
from maxplus.tables import RawTable
from sums import classifier, mapped_sum, random_sum, regressor
from table_helpers import opened

LABELS = [
    np.array([0, 1, 2]),
    np.array([-7, 3, 2**40]),
    np.array([0.0, 1.0, 2.0]),
    np.array([False, True]),
    np.array(["a", "<b>", "Übergröße"]),
    np.array(["x", "yy", "zzz"], object),
]
MODELS = {
    "sum": LMMClassifier(random_state=0),
    "sum chosen by a scorer": LMMClassifier(
        structure="shapes",
        scoring="balanced_accuracy",
        class_weight={0: 2.0, 1: 1.0, 2: 1.0},
        random_state=0,
    ),
    "single network": LMMClassifier(9, standardize=False, random_state=0),
    "ensemble of sums": LMMEnsembleClassifier(n_estimators=2, random_state=0),
    "ensemble of single networks": LMMEnsembleClassifier(
        LMMClassifier(9, class_weight={0: 2.0}), 2, bootstrap=True, random_state=0
    ),
    "regression": LMMRegressor(random_state=0),
    "interpolation": LipschitzInterpolator(random_state=0),
    "subgradient": SubgradientLMMClassifier(8, max_iter=60, random_state=0),
    "random weights": SubgradientLMMClassifier(
        8, init="gaussian", slope=2.0, objective="mean", max_iter=60, random_state=0
    ),
    "max-plus": MaxPlusClassifier(max_iter=20, random_state=0),
    "linear max-plus": LinearMaxPlusClassifier(6, max_iter=20, random_state=0),
}


def assert_same(found, expected):
    """Check that two estimators, or two attributes of estimators, are equal to the last bit."""
    assert type(found) is type(expected)
    if isinstance(expected, TableEncoder):
        assert found.to_json() == expected.to_json()
    elif isinstance(expected, (BaseEstimator, Network)):
        own, other = dict(vars(found)), dict(vars(expected))
        # Generators are not saved.
        own.pop("_rng", None)
        other.pop("_rng", None)
        assert_same(own, other)
    elif isinstance(expected, Mapping):
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            assert_same(found[name], value)
    elif isinstance(expected, tuple):
        for own, other in zip(found, expected, strict=True):
            assert_same(own, other)
    elif isinstance(expected, np.ndarray):
        assert_array_equal(found, expected, strict=True)
    else:
        assert found == expected


def saved(estimator, path):
    """Save an estimator with all attributes and return the one that is loaded."""
    estimator.save(path, remember_rows=True)
    return maxplus.load(path)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_loaded_model_equals_saved_model_and_refits_the_same_bits(tmp_path, iris, model, dtype):
    X, y = iris.X[::3].astype(dtype), iris.y[::3]
    if is_regressor(model):
        X, y = X[:, 1:], X[:, 0]
    model = clone(model).fit(X, y)
    again = saved(model, tmp_path / "m")
    assert_same(again, model)
    refitted = clone(again).fit(X, y)
    for method in ("predict", "decision_function", "predict_interval"):
        if hasattr(model, method):
            expected = getattr(model, method)(X)
            assert_array_equal(getattr(again, method)(X), expected, strict=True)
            assert_array_equal(getattr(refitted, method)(X), expected, strict=True)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("is_mapped", [True, False])
def test_made_sums_round_trip(dtype, is_mapped, tmp_path):
    for make, n_classes in ((classifier, 3), (regressor, 2)):
        model, X = mapped_sum(n_classes=n_classes, dtype=dtype)
        if not is_mapped:
            model = random_sum(n_classes=n_classes, dtype=dtype)
        again = saved(make(model, X), tmp_path / "sum")
        assert_same(again.model_, model)
        assert_array_equal(again.model_.scores(X), model.scores(X), strict=True)
        if make is classifier:
            assert_same(again, classifier(model, X))


def test_number_of_arrays_in_file_does_not_depend_on_terms(tmp_path):
    model, X = mapped_sum()
    many = AdditiveLMM.mean([model] * 40)
    few, lots = (serialize(classifier(m, X))[1] for m in (model, many))
    assert few.keys() == lots.keys()
    assert_same(saved(classifier(many, X), tmp_path / "sum").model_, many)


def test_two_classes_feature_names_and_sample_weights_round_trip(tmp_path, iris):
    X = pd.DataFrame(iris.X[:100].astype(np.float32), columns=list("abcd"))
    weight = np.ones(100)
    weight[3] = 0.0
    model = SubgradientLMMClassifier(5, max_iter=30, random_state=0)
    model.fit(X, iris.y[:100] > 0, weight)
    again = saved(model, tmp_path / "model")
    assert_same(again, model)
    assert list(again.feature_names_in_) == list("abcd")
    assert np.isnan(again.training_losses_[3])
    assert_array_equal(again.certified_radius(X), model.certified_radius(X))
    assert str(again.explain(X[:3])) == str(model.explain(X[:3]))


@pytest.mark.parametrize("labels", LABELS, ids=lambda labels: str(labels.dtype))
def test_labels_round_trip_with_their_type(tmp_path, iris, labels):
    rows = iris.y < len(labels)
    model = MaxPlusClassifier(max_iter=2, random_state=0).fit(iris.X[rows], labels[iris.y[rows]])
    again = saved(model, tmp_path / "model")
    assert_same(again.classes_, model.classes_)
    assert_array_equal(again.training_labels_, model.training_labels_, strict=True)
    assert_array_equal(again.predict(iris.X), model.predict(iris.X), strict=True)


@pytest.mark.parametrize("dtype", [np.int16, np.float32, np.uint8])
def test_types_of_labels_are_kept(dtype):
    written = np.array([3, 5], dtype)
    record = json.loads(json.dumps(schema.labels_to_json(written)))
    assert_array_equal(schema.read_classes(record), written, strict=True)


def test_labels_that_cannot_be_saved_are_rejected(monkeypatch):
    for labels in (np.array([1, "a"], object), np.array(["2020-01-01"], "datetime64[D]")):
        with pytest.raises(TypeError, match="cannot be saved; use strings, numbers or booleans"):
            schema.labels_to_json(labels)
    monkeypatch.setattr(schema, "MAX_LABEL_BYTES", 20)
    with pytest.raises(ValueError, match="use shorter labels"):
        schema.labels_to_json(np.array(["abc", "d"]))


def test_encoder_round_trips(tmp_path, iris):
    columns = {f"c{p}": column for p, column in enumerate(iris.X.T)} | {"y": iris.y.astype(float)}
    encoder = opened(RawTable("flowers", columns), standardize=True).encoder
    model = SubgradientLMMClassifier(8, max_iter=20, random_state=0)
    model.fit(encoder.standardized(iris.X), iris.y)
    model.fold(encoder.ranges_.mean, encoder.ranges_.deviations, iris.X)
    encoder.standardize = False
    model.encoder_ = encoder
    again = saved(model, tmp_path / "model")
    assert_same(again, model)
    assert again.encoder_.to_json()["data"] == "flowers"
    other = {"c3": [0.2], "more": [1.0], "c1": [3.5], "c0": [5.1], "c2": [1.4]}
    table = RawTable("new", {name: np.array(cells) for name, cells in other.items()})
    assert again.predict(again.encoder_.transform(table)).tolist() == [0]
    assert_same(saved(again, tmp_path / "again").encoder_, encoder)


@pytest.mark.parametrize("step", ["two-phase", "level"])
def test_loaded_model_continues_training(tmp_path, iris, step):
    model = SubgradientLMMClassifier(8, max_iter=50, step=step, random_state=0, keep="last")
    model.fit(iris.X, iris.y)
    model.save(tmp_path / "model")
    again = maxplus.load(tmp_path / "model").partial_fit(iris.X, iris.y)
    model.partial_fit(iris.X, iris.y)
    assert again.n_iter_ == 100
    assert_array_equal(again.W1_, model.W1_)


def test_notes_round_trip(tmp_path, fitted):
    save(fitted, tmp_path / "model", notes={"columns": ["a", None, 1.5, "🙂"]})
    again, notes = load_with_notes(tmp_path / "model")
    assert notes == {"columns": ["a", None, 1.5, "🙂"]}
    assert not hasattr(again, "encoder_")


@pytest.mark.parametrize("method", ["joblib", "pickle", "skops"])
def test_pickle_joblib_and_skops_round_trip(tmp_path, fitted, iris, method):
    if method == "joblib":
        joblib.dump(fitted, tmp_path / "m")
        again = joblib.load(tmp_path / "m")
    elif method == "pickle":
        again = pickle.loads(pickle.dumps(fitted))
    else:
        skops = pytest.importorskip("skops.io", reason="skops is not installed")
        skops.dump(fitted, tmp_path / "m")
        types = skops.get_untrusted_types(file=tmp_path / "m")
        assert all(name.startswith(("maxplus.", "numpy.")) for name in types)
        again = skops.load(tmp_path / "m", trusted=types)
    assert_array_equal(again.predict_proba(iris.X), fitted.predict_proba(iris.X))


def test_load_refuses_files_of_later_versions(tmp_path, fitted, monkeypatch):
    monkeypatch.setattr(container, "VERSION", 2)
    fitted.save(tmp_path / "later")
    monkeypatch.undo()
    with pytest.raises(FileError, match=r"version 2 .* up to 1; update maxplus"):
        maxplus.load(tmp_path / "later")
    with pytest.raises(FileNotFoundError):
        maxplus.load(tmp_path / "nothing")


def test_save_refuses_unfitted_and_foreign_estimators(tmp_path):
    with pytest.raises(NotFittedError):
        LMMClassifier().save(tmp_path / "m")
    with pytest.raises(TypeError, match="LogisticRegression"):
        save(LogisticRegression(), tmp_path / "m")
    assert not list(tmp_path.iterdir())
