"""Model files: exact round trips, damaged files, what cannot be saved."""

import os
import pickle

import joblib
import numpy as np
import pytest
from numpy.testing import assert_array_equal
from safetensors.numpy import save_file
from sklearn.base import clone, is_classifier, is_regressor

import maxplus
from file_mutations import damaged_copies, tamper
from maxplus import (
    LinearMaxPlusClassifier,
    LipschitzInterpolator,
    LMMClassifier,
    LMMEnsembleClassifier,
    LMMRegressor,
    MaxPlusClassifier,
    SubgradientLMMClassifier,
)
from maxplus._files import write_whole
from maxplus.io import FileError, container
from maxplus.io.models import load_with_notes, save
from maxplus.tables import RawTable
from table_helpers import opened

CLASSIFIERS = [
    SubgradientLMMClassifier(8, max_iter=60, random_state=0),
    SubgradientLMMClassifier(
        8, init="gaussian", slope=2.0, objective="mean", max_iter=60, random_state=0
    ),
    MaxPlusClassifier(max_iter=20, random_state=0),
    LinearMaxPlusClassifier(6, max_iter=20, random_state=0),
]
LABELS = [
    np.array([0, 1, 2]),
    np.array([-7, 3, 2**40]),
    np.array([0.0, 1.0, 2.0]),
    np.array(["a", "<b>", "Übergröße"]),
    np.array(["x", "yy", "zzz"], object),
]


@pytest.mark.parametrize("labels", LABELS, ids=lambda labels: str(labels.dtype))
@pytest.mark.parametrize("model", CLASSIFIERS, ids=lambda model: type(model).__name__)
def test_round_trip_is_exact(tmp_path, iris, model, labels):
    model.fit(iris.X, labels[iris.y])
    model.save(tmp_path / "model", remember_rows=True)
    again = maxplus.load(tmp_path / "model")
    assert type(again) is type(model)
    assert again.get_params() == model.get_params()
    assert again.classes_.dtype == model.classes_.dtype
    assert np.array_equal(again.predict(iris.X), model.predict(iris.X))
    assert np.array_equal(again.predict_proba(iris.X), model.predict_proba(iris.X))
    for name in model.model_.layers:
        assert np.array_equal(getattr(again.model_, name), getattr(model.model_, name))
    for name in ("n_iter_", "status_", "max_loss_", "mean_loss_", "perfect_fit_", "n_features_in_"):
        assert getattr(again, name) == getattr(model, name)
    for name in model.history_:
        assert np.array_equal(again.history_[name], model.history_[name])
    assert np.array_equal(again.training_losses_, model.training_losses_, equal_nan=True)
    assert np.array_equal(again.training_labels_, model.training_labels_)
    assert {*again.__dict__} == {*model.__dict__} - {"_rng"}


def test_round_trip_of_two_classes_float32_names_and_weights(tmp_path, iris):
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame(iris.X[:100].astype(np.float32), columns=list("abcd"))
    weight = np.ones(100)
    weight[3] = 0.0
    model = SubgradientLMMClassifier(5, max_iter=30, random_state=0).fit(
        X, iris.y[:100] > 0, weight
    )
    model.save(tmp_path / "model", remember_rows=True)
    again = maxplus.load(tmp_path / "model")
    assert again.model_.dtype == np.float32
    assert list(again.feature_names_in_) == list("abcd")
    assert np.array_equal(again.predict(X), model.predict(X))
    assert np.isnan(again.training_losses_[3])
    assert np.array_equal(again.certified_radius(X), model.certified_radius(X))
    assert str(again.explain(X[:3])) == str(model.explain(X[:3]))


def test_interpolating_regressor_round_trips(tmp_path, iris):
    model = LipschitzInterpolator(30, random_state=0).fit(iris.X[:, 1:], iris.X[:, 0])
    model.save(tmp_path / "model")
    again = maxplus.load(tmp_path / "model")
    assert np.array_equal(again.predict(iris.X[:, 1:]), model.predict(iris.X[:, 1:]))
    assert (again.slope_, again.interpolates_) == (model.slope_, model.interpolates_)
    assert np.array_equal(again.prototypes_, model.prototypes_)


def test_trained_regressor_round_trips(tmp_path, iris):
    X, y = iris.X[:, 1:], iris.X[:, 0]
    model = LMMRegressor(epochs=3, random_state=0).fit(X, y)
    model.save(tmp_path / "model", remember_rows=True)
    again = maxplus.load(tmp_path / "model")
    assert np.array_equal(again.predict_interval(X), model.predict_interval(X))
    assert again.status_ == model.status_
    assert set(again.search_) == set(model.search_)
    for name, column in model.search_.items():
        np.testing.assert_array_equal(again.search_[name], column)
    assert set(vars(again)) == set(vars(model))


@pytest.mark.parametrize("step", ["two-phase", "level"])
def test_loaded_model_continues_training(tmp_path, iris, step):
    model = SubgradientLMMClassifier(8, max_iter=50, step=step, random_state=0, keep="last")
    model.fit(iris.X, iris.y)
    model.save(tmp_path / "model")
    again = maxplus.load(tmp_path / "model").partial_fit(iris.X, iris.y)
    model.partial_fit(iris.X, iris.y)
    assert again.n_iter_ == 100
    assert np.array_equal(again.W1_, model.W1_)


def test_load_refuses_unknown_status(tmp_path, fitted):
    path = tmp_path / "model"
    fitted.save(path)
    tamper(path, lambda d, a: d["attributes"].update(status_="nonsense"))
    with pytest.raises(FileError, match="the fact 'status_' cannot be 'nonsense'"):
        maxplus.load(path)


def test_notes_round_trip(tmp_path, fitted):
    save(fitted, tmp_path / "model", notes={"columns": ["a", None, 1.5]})
    assert load_with_notes(tmp_path / "model")[1] == {"columns": ["a", None, 1.5]}


@pytest.mark.parametrize("way", ["joblib", "pickle", "skops"])
def test_pickle_joblib_and_skops_round_trip(tmp_path, fitted, iris, way):
    if way == "joblib":
        joblib.dump(fitted, tmp_path / "m")
        again = joblib.load(tmp_path / "m")
    elif way == "pickle":
        again = pickle.loads(pickle.dumps(fitted))
    else:
        skops = pytest.importorskip("skops.io", reason="skops is not installed")
        skops.dump(fitted, tmp_path / "m")
        types = skops.get_untrusted_types(file=tmp_path / "m")
        assert all(name.startswith(("maxplus.", "numpy.")) for name in types)
        again = skops.load(tmp_path / "m", trusted=types)
    assert np.array_equal(again.predict_proba(iris.X), fitted.predict_proba(iris.X))


@pytest.fixture(scope="module")
def fitted(iris):
    return SubgradientLMMClassifier(8, max_iter=60, random_state=0).fit(iris.X, iris.y)


@pytest.fixture(scope="module")
def model_bytes(fitted, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "model"
    fitted.save(path, remember_rows=True)
    return path.read_bytes()


def test_load_refuses_randomly_mutated_files(tmp_path, model_bytes, fitted, iris):
    path = tmp_path / "model"
    expected = fitted.predict_proba(iris.X)
    refused = 0
    for data in damaged_copies(model_bytes, 200):
        path.write_bytes(data)
        try:
            model = maxplus.load(path)
        except FileError:
            refused += 1
        else:
            # A mutated file that loads must give the same model.
            assert np.array_equal(model.predict_proba(iris.X), expected)
    assert refused > 150


@pytest.mark.parametrize("claimed", [2**20, 2**40, 2**63 - 1, 2**64 - 1])
def test_load_refuses_header_longer_than_file(tmp_path, model_bytes, claimed):
    (tmp_path / "m").write_bytes(claimed.to_bytes(8, "little") + model_bytes[8:])
    with pytest.raises(FileError, match="not a readable maxplus-model file"):
        maxplus.load(tmp_path / "m")


DAMAGE = {
    "estimator": lambda d, a: d.update(estimator="os.system"),
    "parameter": lambda d, a: d["parameters"].update(engine="nonsense"),
    "unknown parameter": lambda d, a: d["parameters"].update(nonsense=1),
    "parameters": lambda d, a: d.update(parameters=[1]),
    "unknown fact": lambda d, a: d["attributes"].update(__class__="x"),
    "fact": lambda d, a: d["attributes"].update(n_iter_=-1),
    "missing fact": lambda d, a: d["attributes"].pop("max_loss_"),
    "classes": lambda d, a: d["classes"].update(values=[0, 1]),
    "class order": lambda d, a: d["classes"].update(values=[2, 1, 0]),
    "class type": lambda d, a: d["classes"].update(type="|O"),
    "huge class type": lambda d, a: d["classes"].update(type="<U999999999"),
    "nested classes": lambda d, a: d["classes"].update(values=[[0], [1], [2]]),
    "features": lambda d, a: d.update(n_features=5),
    "feature names": lambda d, a: d.update(feature_names=["a"]),
    "weight missing": lambda d, a: a.pop("model.W1"),
    "weight shape": lambda d, a: a.update({"model.W2": a["model.W2"][:-1]}),
    "odd rows": lambda d, a: a.update({f"model.{W}": a[f"model.{W}"][:-1] for W in ("W0", "W1")}),
    "weight axes": lambda d, a: a.update({"model.W0": a["model.W0"][None]}),
    "weight type": lambda d, a: a.update({"model.W0": a["model.W0"].astype(np.int64)}),
    "mixed types": lambda d, a: a.update({"model.W0": a["model.W0"].astype(np.float32)}),
    "NaN": lambda d, a: a["model.W1"].__setitem__((0, 0), np.nan),
    "infinity": lambda d, a: a["model.W1"].__setitem__((0, 0), np.inf),
    "prototypes": lambda d, a: a.update(prototypes=a["prototypes"][:-1]),
    "history": lambda d, a: a.update({"history.loss": a["history.loss"][:-1]}),
    "labels": lambda d, a: a["training.labels"].__setitem__(0, 99),
    "losses": lambda d, a: a.update({"training.losses": a["training.losses"][:-1]}),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_load_refuses_wrong_shape_type_or_value(tmp_path, model_bytes, damage):
    path = tmp_path / "model"
    path.write_bytes(model_bytes)
    tamper(path, DAMAGE[damage])
    with pytest.raises(FileError, match="is damaged"):
        maxplus.load(path)


REFITTED = {
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
    "paper": SubgradientLMMClassifier(8, max_iter=60, random_state=0),
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("model", REFITTED.values(), ids=REFITTED)
def test_loaded_model_predicts_and_refits_the_same_bits(tmp_path, iris, model, dtype):
    X, y = iris.X[::3].astype(dtype), iris.y[::3]
    if is_regressor(model):
        X, y = X[:, 1:], X[:, 0]
    model = clone(model).fit(X, y)

    def answers(fitted):
        return fitted.decision_function(X) if is_classifier(fitted) else fitted.predict(X)

    model.save(tmp_path / "m", remember_rows=True)
    loaded = maxplus.load(tmp_path / "m")
    own, expected = loaded.get_params(), model.get_params()
    # Estimators do not compare; the parameters of an ensemble's networks are among all others.
    assert type(own.pop("estimator", None)) is type(expected.pop("estimator", None))
    assert own == expected
    assert_array_equal(answers(loaded), answers(model), strict=True)
    assert_array_equal(answers(clone(loaded).fit(X, y)), answers(model), strict=True)
    assert {*vars(loaded)} == {*vars(model)} - {"_rng"}
    assert getattr(loaded, "search_", {}).keys() == getattr(model, "search_", {}).keys()
    for name, value in getattr(model, "search_", {}).items():
        assert_array_equal(loaded.search_[name], value, strict=True)


@pytest.fixture
def prepared(iris, tmp_path):
    """Return a model of a table with its encoder, in a file."""
    columns = {f"c{p}": column for p, column in enumerate(iris.X.T)} | {"y": iris.y.astype(float)}
    encoder = opened(RawTable("flowers", columns), standardize=True).encoder
    model = SubgradientLMMClassifier(8, max_iter=20, random_state=0)
    model.fit(encoder.standardized(iris.X), iris.y)
    model.fold(encoder.ranges_.mean, encoder.ranges_.deviations, iris.X)
    encoder.standardize = False
    model.encoder_ = encoder
    model.save(tmp_path / "model", remember_rows=True)
    return model, tmp_path / "model"


def test_encoder_round_trips(prepared, iris):
    model, path = prepared
    again = maxplus.load(path)
    assert again.encoder_.to_json() == model.encoder_.to_json()
    assert again.encoder_.to_json()["data"] == "flowers"
    assert np.array_equal(again.scale_, model.scale_)
    assert {*again.__dict__} == {*model.__dict__} - {"_rng"}
    other = {"c3": [0.2], "more": [1.0], "c1": [3.5], "c0": [5.1], "c2": [1.4]}
    table = RawTable("new", {name: np.array(cells) for name, cells in other.items()})
    assert again.predict(again.encoder_.transform(table)).tolist() == [0]
    again.save(path)
    assert maxplus.load(path).encoder_.to_json() == model.encoder_.to_json()


def test_load_sets_no_encoder_if_there_was_none(tmp_path, fitted):
    fitted.save(tmp_path / "m")
    assert not hasattr(maxplus.load(tmp_path / "m"), "encoder_")


ENCODER_DAMAGE = {
    "a word": lambda p, a: "nonsense",
    "a list": lambda p, a: [p],
    "nothing in it": lambda p, a: {},
    "no ranges": lambda p, a: {name: v for name, v in p.items() if name != "ranges"},
    "no deviations": lambda p, a: (
        p | {"ranges": {name: v for name, v in p["ranges"].items() if name != "deviations"}}
    ),
    "zero deviation": lambda p, a: p | {"ranges": p["ranges"] | {"deviations": [0.0] * 4}},
    "short mean": lambda p, a: p | {"ranges": p["ranges"] | {"mean": p["ranges"]["mean"][:3]}},
    "NaN": lambda p, a: p | {"ranges": p["ranges"] | {"deviations": [float("nan")] * 4}},
    "image": lambda p, a: p | {"image_shape": [3, 3]},
    "target": lambda p, a: p | {"target": p["target"] | {"name": None}},
    "a column less": lambda p, a: (
        p
        | {"ranges": {name: values[:3] for name, values in p["ranges"].items()}}
        | {"columns": p["columns"][:3]}
    ),
    "scale": lambda p, a: a.update(scale=-a["scale"]) or p,
    "scale shape": lambda p, a: a.update(scale=a["scale"][:2]) or p,
    "scale type": lambda p, a: a.update(scale=a["scale"].astype(np.float32)) or p,
    "infinite scale": lambda p, a: a.update(scale=a["scale"] * np.inf) or p,
}


@pytest.mark.parametrize("damage", ENCODER_DAMAGE.values(), ids=ENCODER_DAMAGE)
def test_load_refuses_damaged_encoder(prepared, damage):
    _, path = prepared
    tamper(path, lambda d, a: d.update(encoder=damage(d["encoder"], a)))
    with pytest.raises(FileError, match="is damaged") as caught:
        maxplus.load(path)
    assert len(str(caught.value)) < 300


def test_load_accepts_rewritten_file(tmp_path, model_bytes):
    path = tmp_path / "model"
    path.write_bytes(model_bytes)
    tamper(path, lambda d, a: None)
    maxplus.load(path)


def test_load_refuses_foreign_large_and_later_files(tmp_path, fitted, monkeypatch):
    save_file({"x": np.zeros(3)}, tmp_path / "foreign")
    with pytest.raises(FileError, match="was not written by maxplus"):
        maxplus.load(tmp_path / "foreign")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(FileError, match="not a readable maxplus-model file"):
        maxplus.load(tmp_path / "text")
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(FileError, match="not a readable"):
        maxplus.load(tmp_path / "empty")
    monkeypatch.setattr(container, "VERSION", 2)
    fitted.save(tmp_path / "later")
    monkeypatch.undo()
    with pytest.raises(FileError, match=r"version 2 .* up to 1; update maxplus"):
        maxplus.load(tmp_path / "later")
    monkeypatch.setattr(container, "MAX_BYTES", 100)
    with pytest.raises(FileError, match="at most 100 are read"):
        maxplus.load(tmp_path / "later")
    with pytest.raises(FileNotFoundError):
        maxplus.load(tmp_path / "nothing")


def test_save_refuses_unfitted_and_foreign_estimators(tmp_path, iris, fitted):
    from sklearn.exceptions import NotFittedError
    from sklearn.linear_model import LogisticRegression

    with pytest.raises(NotFittedError):
        LMMClassifier().save(tmp_path / "m")
    with pytest.raises(TypeError, match="LogisticRegression"):
        save(LogisticRegression(), tmp_path / "m")
    assert not list(tmp_path.iterdir())


def test_failed_save_keeps_old_file(tmp_path, fitted, monkeypatch):
    path = tmp_path / "model"
    fitted.save(path)
    before = path.read_bytes()
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        fitted.save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


def test_save_keeps_links_and_permissions(tmp_path):
    target = tmp_path / "target"
    target.write_bytes(b"old")
    target.chmod(0o640)
    (tmp_path / "link").symlink_to(target)
    write_whole(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert target.read_bytes() == b"new"
    assert target.stat().st_mode & 0o777 == 0o640
