"""`fit` on data frames keeps every column and follows scikit-learn's feature attributes."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

import maxplus
from maxplus import LMMClassifier, LMMEnsembleClassifier, LMMRegressor, SubgradientLMMClassifier

QUICK = {"slope": 1.0, "warmup_epochs": 2, "random_state": 0}
ESTIMATORS = [
    LMMClassifier(4, **QUICK),
    LMMEnsembleClassifier(LMMClassifier(4, slope=1.0, warmup_epochs=2), 2, random_state=0),
    SubgradientLMMClassifier(4, max_iter=20, random_state=0),
    LMMRegressor(epochs=1, random_state=0),
]
each_estimator = pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    n = 80
    return pd.DataFrame(
        {
            "id": np.arange(n),
            "constant": np.full(n, 3.0),
            "size": rng.normal(size=n),
            "copy": np.arange(n) * 2.0,
            "word": ["same"] * n,
        }
    )


@pytest.fixture
def y(frame):
    return (frame["size"] > 0).astype(int)


def with_nan(frame):
    """Return the same frame with one missing value."""
    frame = frame.copy()
    frame.loc[5, "size"] = np.nan
    return frame


def test_column_named_like_y_is_a_feature():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"price": rng.normal(size=200), "noise": rng.normal(size=200)})
    target = pd.Series(3.0 * frame["price"] + rng.normal(0, 0.1, 200), name="price")
    frame.loc[7, "noise"] = np.nan
    model = LMMRegressor(random_state=0).fit(frame, target)
    assert "price" in model.encoder_.feature_names
    assert model.encoder_.target_.name != "price"
    assert model.score(frame, target) > 0.9
    assert maxplus.validate(LMMRegressor(random_state=0), frame, target, cv=2).metrics.r2 > 0.8


@each_estimator
def test_feature_attributes_are_those_of_the_frame(tmp_path, frame, y, estimator):
    frame["colour"] = np.resize(["red", "green", "blue"], len(frame))
    found = clone(estimator).fit(with_nan(frame), y)
    names = ["id", "constant", "size", "copy", "word = same"]
    assert found.encoder_.feature_names[:5] == names
    found.save(tmp_path / "model")
    for model in (found, maxplus.load(tmp_path / "model")):
        assert model.n_features_in_ == 6
        assert model.feature_names_in_.tolist() == list(frame.columns)
        assert model.model_.n_features == len(model.encoder_.feature_names) == 8
        X = model.encoder_.transform(with_nan(frame))
        assert np.array_equal(model.predict(with_nan(frame)), model.predict(X))
        with pytest.raises(ValueError, match=r"X has 6 features, but .* is expecting 8"):
            model.predict(X[:, :6])


def test_feature_names_are_not_set_for_numbered_columns(tmp_path, y):
    cells = np.random.default_rng(0).normal(size=(80, 3))
    cells[3, 1] = np.nan
    found = LMMClassifier(4, **QUICK).fit(pd.DataFrame(cells), y)
    found.save(tmp_path / "model")
    for model in (found, maxplus.load(tmp_path / "model")):
        assert model.n_features_in_ == 3
        assert not hasattr(model, "feature_names_in_")


def test_partial_fit_takes_the_same_frame_again(frame, y):
    frame["colour"] = np.resize(["red", "green", "blue"], len(frame))
    found = SubgradientLMMClassifier(4, max_iter=10, random_state=0)
    found.partial_fit(with_nan(frame), y, classes=[0, 1])
    found.partial_fit(with_nan(frame), y)
    assert found.n_features_in_ == 6
    found.partial_fit(found.encoder_.transform(with_nan(frame)), y)
    assert found.n_features_in_ == 6


@each_estimator
def test_cross_val_score_survives_columns_without_values_in_a_fold(frame, y, estimator):
    frame["late"] = np.where(np.arange(80) < 40, np.nan, np.arange(80))
    frame["late word"] = [None] * 40 + ["a", "b"] * 20
    frame["late constant"] = [1.0] * 40 + [2.0] * 40
    folds = [(np.arange(40), np.arange(40, 80)), (np.arange(40, 80), np.arange(40))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scores = cross_val_score(estimator, frame, y, cv=folds, error_score="raise")
    assert np.isfinite(scores).all()


def test_uninformative_columns_warn_and_are_explained(tmp_path, frame, y):
    frame["empty"] = np.nan
    frame["name"] = [f"person {k}" for k in range(len(frame))]
    with pytest.warns(UserWarning, match="the column") as caught:
        found = LMMClassifier(4, **QUICK).fit(frame, y)
    text = "\n".join(str(warning.message) for warning in caught)
    assert "'empty'" in text
    assert "'name'" in text
    assert "'id'" not in text
    names = found.encoder_.feature_names
    assert "empty is missing" in names
    assert "name = other" in names
    # A value in a column without training values is ignored, except by the missing indicator.
    with pytest.warns(UserWarning, match="'empty'"):
        X = found.encoder_.transform(frame.assign(empty=1e6))
    assert X[:, names.index("empty is missing")].tolist() == [0.0] * len(frame)
    assert not (X == 1e6).any()
    found.save(tmp_path / "model")
    again = maxplus.load(tmp_path / "model")
    assert again.encoder_.to_json() == found.encoder_.to_json()
    assert str(again.explain(frame.iloc[:3])) == str(found.explain(frame.iloc[:3]))
    assert found.certified_radius(frame.iloc[:3]).shape == (3,)


def test_overrides_drop_columns_only_by_name(frame, y):
    chosen = maxplus.tables.TableEncoder(drop=["copy"]).attach(with_nan(frame))
    found = LMMClassifier(4, **QUICK).fit(chosen, y)
    assert found.encoder_.feature_names == ["id", "constant", "size", "word = same"]
    assert found.feature_names_in_.tolist() == list(frame.columns)
