"""TableEncoder as a scikit-learn transformer."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from maxplus import LMMClassifier, TableEncoder

FRAME = pd.DataFrame(
    {
        "id": np.arange(60) + 100,
        "age": np.where(np.arange(60) % 7 == 0, np.nan, np.arange(60) % 50),
        "ward": ["north", "south", "west"] * 20,
        "pain": ["low", "high", "medium", "low"] * 15,
        "same": "x",
    }
)
Y = (FRAME["age"].fillna(0) + 20 * (FRAME["ward"] == "south") > 30).to_numpy()
ALL = ["id", "age", "age is missing", "ward = north", "ward = south", "ward = west", "pain"]


@parametrize_with_checks([TableEncoder()])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_default_drops_no_column_and_auto_drops_ids_and_constants():
    names = TableEncoder().fit(FRAME).get_feature_names_out().tolist()
    assert names == [*ALL, "same = x"]
    fitted = TableEncoder(drop="auto").fit(FRAME)
    assert fitted.get_feature_names_out().tolist() == ALL[1:]
    assert fitted.n_features_in_ == 5
    assert fitted.feature_names_in_.tolist() == list(FRAME.columns)
    assert any(line.startswith("left out 'id'") for line in fitted.decisions_)
    fitted = TableEncoder(drop=["auto", "pain"], keep=["id"]).fit(FRAME)
    assert fitted.get_feature_names_out().tolist() == ALL[:-1]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_encoder_set_output(library):
    pytest.importorskip(library)
    found = TableEncoder().set_output(transform=library).fit_transform(FRAME)
    assert list(found.columns) == [*ALL, "same = x"]
    assert np.array_equal(np.asarray(found), TableEncoder().fit_transform(FRAME))


def test_encoder_json_round_trip_without_pickle():
    fitted = TableEncoder(drop=["auto"], categorical=["pain"], standardize=True).fit(FRAME)
    again = TableEncoder.from_json(json.loads(json.dumps(fitted.to_json())))
    assert again.to_json() == fitted.to_json()
    assert np.array_equal(again.transform(FRAME), fitted.transform(FRAME))
    np.testing.assert_allclose(fitted.transform(FRAME).std(axis=0), 1.0)


def test_unknown_categories_are_counted_in_one_warning():
    fitted = TableEncoder().fit(FRAME)
    with pytest.warns(UserWarning, match=r"unknown categories.*: 60 in 'ward' \('east'\)"):
        X = fitted.transform(FRAME.assign(ward="east"))
    assert not X[:, 3:6].any()


def test_encoder_numbers_columns_of_arrays():
    X = np.array([[1.0, np.nan], [2.0, 3.0], [4.0, 1.0]])
    fitted = TableEncoder().fit(X)
    assert fitted.get_feature_names_out().tolist() == ["x0", "x1"]
    assert fitted.transform(X).tolist() == [[1.0, 1.0], [2.0, 3.0], [4.0, 1.0]]


def test_encoder_in_pipelines_and_cross_validation():
    model = make_pipeline(TableEncoder(drop="auto", standardize=True), LogisticRegression())
    assert cross_val_score(model, FRAME, Y, cv=3).mean() > 0.8
    assert clone(model).fit(FRAME, Y).score(FRAME, Y) > 0.8


def test_estimator_fits_a_clone_of_the_encoder():
    encoder = TableEncoder(drop=["id"])
    clf = LMMClassifier(4, slope=2.0, warmup_epochs=2, random_state=0).fit(encoder.attach(FRAME), Y)
    assert not hasattr(encoder, "columns_")
    assert clf.encoder_.feature_names == [*ALL[1:], "same = x"]
    assert clf.n_features_in_ == 5
