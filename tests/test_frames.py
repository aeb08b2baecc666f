"""Data frames with categories, dates and missing values: encoding, and feature attributes."""

import datetime

import numpy as np
import pandas as pd
import pyarrow
import pytest
from sklearn.base import clone, is_regressor
from sklearn.model_selection import cross_val_predict, cross_val_score

import maxplus
from maxplus import LMMClassifier, LMMEnsembleClassifier, LMMRegressor, SubgradientLMMClassifier
from maxplus.tables import TableEncoder, TableError, is_frame, read_table, table_of
from messy import DROPPED, HEADER, expected, is_missing, messy_rows, written
from table_helpers import encoder_of, opened

QUICK = {"slope": 1.0, "warmup_epochs": 2, "random_state": 0}
# Columns that commands use. `fit` uses all columns.
USED = [name for name in HEADER[:-1] if name not in DROPPED]
LIBRARIES = ("pandas", "polars", "pyarrow")
ESTIMATORS = [
    LMMClassifier(4, **QUICK),
    LMMEnsembleClassifier(LMMClassifier(4, slope=1.0, warmup_epochs=2), 2, random_state=0),
    SubgradientLMMClassifier(4, max_iter=20, random_state=0),
    LMMRegressor(epochs=1, random_state=0),
]
each_estimator = pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)


def columns_of(rows, names=USED):
    """Return the columns of messy rows with the types of a data frame."""
    columns = {name: [None if is_missing(r[name]) else r[name] for r in rows] for name in names}
    for name in {"age", "weight", "nr"} & set(names):
        columns[name] = [None if cell is None else float(cell) for cell in columns[name]]
    if "visit" in names:
        columns["visit"] = [datetime.date.fromisoformat(cell) for cell in columns["visit"]]
    return columns


def frame_of(columns, library):
    """Return a data frame of a library; skip the test if it is not installed."""
    if library == "pyarrow":
        return pyarrow.table(columns)
    return pytest.importorskip(library).DataFrame(columns)


@pytest.fixture(scope="module")
def rows():
    return messy_rows(120)


@pytest.fixture(scope="module")
def y(rows):
    return np.array([row["class"] for row in rows])


@pytest.fixture(scope="module")
def fitted(rows, y):
    return LMMClassifier(8, **QUICK).fit(frame_of(columns_of(rows), "pyarrow"), y)


@pytest.mark.parametrize("library", LIBRARIES)
def test_data_frame_is_encoded_as_its_file(write, rows, y, fitted, library):
    frame = frame_of(columns_of(rows, HEADER[:-1]), library)
    assert is_frame(frame)
    names, X = expected(rows)
    found = TableEncoder(drop="auto").fit(frame, y)
    assert found.feature_names == names
    assert found.encode(table_of(frame)).X.tolist() == X
    assert found.columns_ == encoder_of(read_table(write(written(rows)))).columns_
    frame = frame_of(columns_of(rows), library)
    again = LMMClassifier(8, **QUICK).fit(frame, y)
    assert again.encoder_.feature_names == names
    assert np.array_equal(again.predict_proba(X), fitted.predict_proba(X))
    assert np.array_equal(again.predict_proba(frame), fitted.predict_proba(X))


def test_every_method_accepts_the_raw_frame(rows, y, fitted):
    frame = frame_of(columns_of(rows, ["town", *reversed(HEADER[2:8])]), "pandas")
    X = fitted.encoder_.transform(table_of(frame))
    assert fitted.n_features_in_ == len(USED)
    assert fitted.feature_names_in_.tolist() == USED
    methods = "predict predict_proba predict_log_proba decision_function certified_radius"
    for method in methods.split():
        assert np.array_equal(getattr(fitted, method)(frame), getattr(fitted, method)(X))
    assert fitted.score(frame, y) == fitted.score(X, y) > 0.7
    box = 0.1, fitted.certificate_scale()
    assert fitted.certified_accuracy(frame, y, *box) == fitted.certified_accuracy(X, y, *box)
    assert fitted.explain(frame.iloc[:2]).text(0) == fitted.explain(X[:2]).text(0)
    assert set(np.array(fitted.units()["feature"])) >= {"age", "colour = rot"}


@each_estimator
def test_encoder_and_feature_attributes_are_saved(tmp_path, rows, y, estimator):
    """Columns without information are features, too."""
    frame, is_regression = frame_of(columns_of(rows), "pandas"), is_regressor(estimator)
    frame = frame.assign(id=np.arange(len(rows)), constant=3.0, word="same")
    found = clone(estimator).fit(frame, np.arange(len(rows)) / 7 if is_regression else y)
    found.save(tmp_path / "model")
    for model in (found, maxplus.load(tmp_path / "model")):
        names = model.encoder_.feature_names
        assert names[-3:] == ["id", "constant", "word = same"]
        assert model.encoder_.to_json() == found.encoder_.to_json()
        assert model.encoder_.target_.task == ("regression" if is_regression else "classification")
        assert model.n_features_in_ == len(frame.columns)
        assert model.feature_names_in_.tolist() == list(frame.columns)
        assert model.model_.n_features == len(names)
        X = model.encoder_.transform(frame)
        assert np.array_equal(model.predict(frame), found.predict(X))
        with pytest.raises(ValueError, match=rf"X has 6 features, but .* expecting {len(names)}"):
            model.predict(X[:, :6])


def test_labels_take_the_name_of_their_series(rows, y):
    frame = pd.DataFrame(columns_of(rows))
    series = pd.Series(y, name="class")
    found = LMMClassifier(4, **QUICK).fit(frame, series).encoder_
    assert found.target_.name == "class"
    # A column of X with the name of the series is a feature.
    same_name = LMMClassifier(4, **QUICK).fit(frame.assign(**{"class": y}), series).encoder_
    assert same_name.feature_names == [*found.feature_names, "class = ill", "class = well"]
    assert same_name.target_.name == "y"
    chosen = TableEncoder(drop=["class"]).attach(frame.assign(**{"class": y}))
    by_choice = LMMClassifier(4, **QUICK).fit(chosen, series).encoder_
    assert by_choice.feature_names == found.feature_names
    clash = LMMClassifier(4, **QUICK).fit(frame.rename(columns={"age": "y"}), y).encoder_
    assert clash.target_.name == "class"
    assert "y" in clash.feature_names


def test_numeric_frame_is_not_encoded(rows, y):
    plain = pd.DataFrame({"nr": range(len(rows)), "b": [len(r["town"]) for r in rows]})
    found = LMMClassifier(4, **QUICK).fit(plain, y)
    assert found.feature_names_in_.tolist() == ["nr", "b"]
    assert not hasattr(found, "encoder_")
    # A second fit with an array removes the encoder.
    found.fit(pd.DataFrame(columns_of(rows)), y)
    assert hasattr(found, "encoder_")
    found.fit(plain.to_numpy(float), y)
    assert not hasattr(found, "encoder_")


@pytest.mark.filterwarnings("ignore")
def test_partial_fit_keeps_the_encoder(rows, y):
    frame = frame_of(columns_of(rows), "pandas")
    found = SubgradientLMMClassifier(4, max_iter=10, random_state=0)
    found.partial_fit(frame.iloc[:60], y[:60], classes=np.unique(y))
    encoder = found.encoder_
    for X in (frame, encoder.transform(frame)):
        found.partial_fit(X[60:], y[60:])
        assert found.encoder_ is encoder
        assert found.n_features_in_ == len(USED)


def test_cross_validation_accepts_frames(rows, y):
    columns = columns_of(rows, ["age", "sex", "colour"])
    frame = frame_of(columns, "pandas")
    frame.index = np.arange(len(rows))[::-1] * 3
    predicted = cross_val_predict(LMMClassifier(4, **QUICK), frame, y, cv=2)
    assert (predicted == y).mean() > 0.6


def test_frame_error_names_the_column(rows, fitted):
    frame = frame_of(columns_of(rows), "pandas")
    with pytest.raises(TableError, match="the data frame lacks column 'age'"):
        fitted.predict(frame.drop(columns="age"))
    with pytest.raises(TableError, match="row 1: 'age' contains 'old'"):
        fitted.predict(frame.assign(age="old"))
    with pytest.raises(TableError, match=r"row 4: 'age' contains infinite"):
        fitted.predict(frame.assign(age=[*[1.0] * 3, np.inf, *[1.0] * 116]))
    with pytest.warns(UserWarning, match="120 in 'sex'"):
        fitted.predict(frame.assign(sex="x"))


def test_object_columns_are_categories(y, rows):
    cells = [("a", 1, 2.5, None, True)[k % 5] for k in range(120)]
    categories = pd.Categorical(["lo", "hi"] * 60, ["lo", "hi"], ordered=True)
    frame = pd.DataFrame({"any": pd.Series(cells, dtype=object), "level": categories})
    found = LMMClassifier(4, **QUICK).fit(frame, y).encoder_
    words = ["any = 1", "any = 2.5", "any = True", "any = a", "any is missing"]
    assert found.feature_names == [*words, "level"]
    assert found.columns_[1].categories == ("lo", "hi")


def test_excel_sheet_is_read(tmp_path, rows):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    columns = columns_of(rows) | {"class": [row["class"] for row in rows]}
    book.active.append([])
    book.active.append(list(columns))
    for cells in zip(*columns.values(), strict=True):
        book.active.append(cells)
    book.create_sheet("more")
    path = tmp_path / "data.xlsx"
    book.save(path)
    table = read_table(path)
    found = opened(table).encoder
    assert found.feature_names == expected(rows)[0]
    assert found.encode(table).X.tolist() == expected(rows)[1]
    assert "2 sheets" in found.decisions_[0]
    with pytest.raises(TableError, match=r"\(first: row 6 of the sheet\)"):
        opened(table, missing="error", drop=["age", "colour", "grade"])
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(TableError, match="not a readable Excel workbook"):
        read_table(path)


def test_excel_error_names_missing_package(tmp_path, monkeypatch):
    (tmp_path / "data.xlsx").touch()
    monkeypatch.setitem(__import__("sys").modules, "openpyxl", None)
    with pytest.raises(ImportError, match=r"maxplus\[excel\]"):
        read_table(tmp_path / "data.xlsx")


# -- columns without information ---------------------------------------------------------------


@pytest.fixture
def noise():
    """Return a data frame with one informative column, which has a missing value, and labels."""
    rng = np.random.default_rng(0)
    n = 80
    frame = pd.DataFrame(
        {
            "id": np.arange(n),
            "constant": np.full(n, 3.0),
            "size": rng.normal(size=n),
            "copy": np.arange(n) * 2.0,
            "word": ["same"] * n,
        }
    )
    labels = (frame["size"] > 0).astype(int)
    frame.loc[5, "size"] = np.nan
    return frame, labels


def test_column_named_like_y_is_a_feature():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"price": rng.normal(size=200), "noise": rng.normal(size=200)})
    target = pd.Series(3.0 * frame["price"] + rng.normal(0, 0.1, 200), name="price")
    frame.loc[7, "noise"] = np.nan
    regressor = LMMRegressor(epochs=20, random_state=0)
    model = clone(regressor).fit(frame, target)
    assert "price" in model.encoder_.feature_names
    assert model.encoder_.target_.name != "price"
    assert model.score(frame, target) > 0.9
    assert maxplus.validate(regressor, frame, target, cv=2).metrics.r2 > 0.8


def test_feature_names_are_not_set_for_numbered_columns(tmp_path):
    cells = np.random.default_rng(0).normal(size=(80, 3))
    cells[3, 1] = np.nan
    found = LMMClassifier(4, **QUICK).fit(pd.DataFrame(cells), np.arange(80) % 2)
    found.save(tmp_path / "model")
    for model in (found, maxplus.load(tmp_path / "model")):
        assert model.n_features_in_ == 3
        assert not hasattr(model, "feature_names_in_")


@pytest.mark.filterwarnings("ignore")
@each_estimator
def test_cross_val_score_accepts_columns_without_values_in_a_fold(noise, estimator):
    frame, y = noise
    frame["late"] = np.where(np.arange(80) < 40, np.nan, np.arange(80))
    frame["late word"] = [None] * 40 + ["a", "b"] * 20
    frame["late constant"] = [1.0] * 40 + [2.0] * 40
    folds = [(np.arange(40), np.arange(40, 80)), (np.arange(40, 80), np.arange(40))]
    scores = cross_val_score(estimator, frame, y, cv=folds, error_score="raise")
    assert np.isfinite(scores).all()


def test_uninformative_columns_warn_and_are_explained(tmp_path, noise):
    frame, y = noise
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


def test_overrides_drop_columns_only_by_name(noise):
    frame, y = noise
    chosen = TableEncoder(drop=["copy"]).attach(frame)
    found = LMMClassifier(4, **QUICK).fit(chosen, y)
    assert found.encoder_.feature_names == ["id", "constant", "size", "word = same"]
    assert found.feature_names_in_.tolist() == list(frame.columns)
