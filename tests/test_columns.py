"""Columns as features and labels: `TableEncoder`, built-in datasets, storage and errors."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from maxplus.tables import (
    Category,
    Number,
    Ordinal,
    RawTable,
    TableEncoder,
    UnknownValues,
    load_dataset,
    read_table,
)
from mnist_files import NEEDS_MNIST
from table_helpers import decided, encoder_of, opened, refused, restored

BUILT_IN = {
    "iris": load_iris,
    "digits": load_digits,
    "wine": load_wine,
    "breast_cancer": load_breast_cancer,
}
TEXT = "colour,size,n,the shape,y\nred,2,0.5,round,u\nblue,10,1.5,flat,v\nred,1,2.5,flat,u\n"


# -- target ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "target"),
    [
        ("a,b,c", "c"),
        ("target,b,c", "target"),
        ("a,label,c", "label"),
        ("a,class,c", "class"),
        ("y,b,c", "y"),
        ("y,label,c", "c"),
        ("a,b,target", "target"),
    ],
)
def test_target_is_column_named_target_or_last(table, names, target):
    encoder = encoder_of(table(f"{names}\n1,2,3\n"))
    assert encoder.target_.name == target
    assert encoder.feature_names == [name for name in names.split(",") if name != target]


def test_target_can_be_named(table):
    read = table("a,y,c\n1,2,3\n4,5,6\n")
    encoder = encoder_of(read, target="a")
    assert encoder.feature_names == ["y", "c"]
    assert encoder.target_.labels(read).tolist() == [1, 4]
    assert encoder.transform(read).tolist() == [[2.0, 3.0], [5.0, 6.0]]


@pytest.mark.parametrize(
    ("cells", "labels"),
    [
        (["0", "2", "1"], [0, 2, 1]),
        (["-7", "3.0", "1e3"], [-7, 3, 1000]),
        (["a", "b", "3"], ["a", "b", "3"]),
        (["1.50", "x", "007"], ["1.50", "x", "007"]),
        (["True", "False", "True"], ["True", "False", "True"]),
        (["0.5", "1", "2"], [0.5, 1.0, 2.0]),
        (["1.25", "2.5", "3.75"], [1.25, 2.5, 3.75]),
    ],
)
def test_labels_are_integers_strings_or_floats(table, cells, labels):
    read = table("a,y\n" + "".join(f"{k},{cell}\n" for k, cell in enumerate(cells)))
    encoder, decisions = decided(read)
    found = encoder.target_.labels(read)
    assert found.tolist() == labels
    assert found.dtype.kind == {int: "i", str: "U", float: "f"}[type(labels[0])]
    if isinstance(labels[0], float):
        assert encoder.target_.task == "regression"
        assert "'y'" in decisions[0]
        assert "`task='classification'`" in decisions[0]
        classes = encoder_of(read, task="classification")
        assert classes.target_.labels(read).tolist() == cells


# -- encoding -------------------------------------------------------------------------------------


@pytest.fixture
def training(table):
    return table(TEXT, "training.csv")


@pytest.fixture
def encoder(training):
    return encoder_of(training, categorical=["colour", "the shape"])


def test_categories_are_one_hot_encoded(training, encoder):
    assert encoder.feature_names == [
        *("colour = blue", "colour = red", "size", "n"),
        *("the shape = flat", "the shape = round"),
    ]
    X = encoder.transform(training)
    assert X.dtype == np.float64
    assert X.tolist() == [
        [0.0, 1.0, 2.0, 0.5, 0.0, 1.0],
        [1.0, 0.0, 10.0, 1.5, 1.0, 0.0],
        [0.0, 1.0, 1.0, 2.5, 1.0, 0.0],
    ]


def test_numbers_can_be_categories(table):
    read = table("size,half,y\n2,0.5,1\n10,1,2\n2,0.5,1\n")
    encoder = encoder_of(read, categorical=["size", "half"])
    assert set(encoder.feature_names) == {"size = 2", "size = 10", "half = 0.5", "half = 1"}
    where = [encoder.feature_names.index(name) for name in ("size = 2", "half = 1")]
    assert encoder.transform(read)[:, where].tolist() == [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]
    assert encoder.transform(table("size,half\n10.0,0.50\n", "later.csv")).sum() == 2.0


def test_standardization_uses_training_data(training):
    found = opened(training)
    encoder, X = found.encoder, found.X
    assert encoder.data_ == training.name
    assert np.array_equal(encoder.standardized(X), X)
    Z = opened(training, standardize=True).X
    np.testing.assert_allclose(Z.mean(axis=0), 0, atol=1e-15)
    np.testing.assert_allclose(Z.std(axis=0), 1)
    np.testing.assert_allclose(encoder.ranges_.deviations, X.std(axis=0))
    np.testing.assert_allclose(encoder.ranges_.mean, X.mean(axis=0))


@pytest.mark.parametrize("value", [0.0, 5.0, 0.1, 1e9 + 0.3])
def test_deviation_of_constant_column_is_one(value):
    # The rounded mean of ten times 0.1 is not 0.1.
    columns = {"a": np.full(10, value), "b": np.arange(10.0), "y": np.arange(10.0) % 2}
    found = encoder_of(RawTable("t", columns), keep=["a"])
    assert found.ranges_.deviations.tolist() == [1.0, columns["b"].std()]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("size,n,the shape\n1,2,flat\n", ["'colour'"]),
        ("size,y\n1,u\n", ["'colour'", "'n'", "'the shape'"]),
        ("colour,size,n,the shape\ngreen,1,2,flat\n", ["'colour'", "'green'", "line 2"]),
        ("colour,size,n,the shape\nRed,1,2,flat\n", ["'colour'", "'Red'"]),
        ("colour,size,n,the shape\n3,1,2,flat\n", ["'colour'", "'3'"]),
        ("colour,size,n,the shape\nred,big,2,flat\n", ["'size'", "'big'", "numbers"]),
        ("colour,size,n,the shape\nred,1,inf,flat\n", ["'n'", "infinite", "line 2"]),
    ],
)
def test_encoder_rejects_other_tables(write, encoder, text, words):
    path = write(text)
    with refused(path, *words):
        encoder.encode(read_table(path), UnknownValues(strict=True))


@pytest.mark.parametrize(
    ("text", "choices", "words"),
    [
        ("a,b,y\n1,inf,0\n2,3,1\n", {}, ["'b'", "infinite", "line 2"]),
        ("a,b,y\n1,-inf,0\n2,inf,1\n", {}, ["'b'", "infinite", "line 2"]),
        ("a,b,y\n1,2,3\n", {"target": "z"}, ["'z'", "`target`", "'a'", "'b'", "'y'"]),
        ("a,b,y\n1,2,3\n", {"categorical": ["a", "z"]}, ["'z'", "`categorical`", "'b'", "'y'"]),
        ("a,y\n1,2\n", {"categorical": ["y"]}, ["'y' is the target"]),
        ("a,y\n1,1e300\n2,2e300\n", {"task": "classification"}, ["'y'", "2^53"]),
        ("a,b,y\n0,0,0\n1e200,0,1\n", {}, ["'a'", "1e+200"]),
    ],
)
def test_training_tables_are_validated(write, text, choices, words):
    path = write(text)
    with refused(path, *words):
        opened(str(path), **choices)


def test_table_with_a_target_only_is_rejected():
    with refused("lonely", "'y'"):
        encoder_of(RawTable("lonely", {"y": np.arange(3.0)}))


def test_missing_values_are_counted_per_column(write):
    path = write("a,b,kind,c,y\n1,,x,1,0\n?,,NA,2,1\n2,3,x,3,1\n")
    counts = ["1 in 'a' (first: line 3)", "2 in 'b' (first: line 2)", "1 in 'kind'"]
    with refused(path, "missing", *counts) as caught:
        encoder_of(read_table(path), missing="error")
    assert "'c'" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [("a,b\n1,2\n", ["'y'"]), ("a,y\n1,u\n2,\n", ["1 in 'y' (first: line 3)"])],
)
def test_missing_labels_are_rejected(table, encoder, text, words):
    with refused("data.csv", *words):
        encoder.target_.labels(table(text))


# -- data by name ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_datasets_equal_scikit_learn(name):
    data = BUILT_IN[name]()
    found = opened(name)
    assert found.name == name
    assert np.array_equal(found.X, data.data)
    assert found.y.astype(str).tolist() == data.target_names[data.target].astype(str).tolist()
    assert found.encoder.feature_names == list(data.feature_names)
    assert found.image_shape == ((8, 8) if name == "digits" else None)
    again = load_dataset(name, found.encoder)
    assert np.array_equal(again.X, found.X)
    assert np.array_equal(again.y, found.y)


@NEEDS_MNIST
@pytest.mark.parametrize(("name", "n"), [("mnist", 60_000), ("mnist:test", 10_000)])
def test_mnist_is_read_as_images(name, n):
    found = opened(name)
    assert found.X.shape == (n, 784)
    assert found.X.dtype == np.float32
    assert (found.X.min(), found.X.max()) == (0.0, 1.0)
    assert np.unique(found.y).tolist() == list(range(10))
    assert found.y[:5].tolist() == ([7, 2, 1, 0, 4] if n == 10_000 else [5, 0, 4, 1, 9])
    assert found.image_shape == (28, 28)
    assert len(set(found.encoder.feature_names)) == 784


def test_encoder_of_float32_images_has_float64_deviations():
    found = opened("digits")
    single = TableEncoder.from_images(found.X.astype(np.float32), "digits", (8, 8))
    deviations = found.encoder.ranges_.deviations
    np.testing.assert_allclose(single.ranges_.deviations, deviations, rtol=1e-12)
    assert single.ranges_.deviations.dtype == np.float64


@pytest.mark.parametrize("name", ["irises", "iris:test", "mnist:tests", "folder/data"])
def test_unknown_dataset_is_rejected(name):
    with refused(name, *BUILT_IN, "mnist", "fashion_mnist"):
        opened(name)


def test_file_named_like_a_dataset_needs_a_folder(write, monkeypatch):
    monkeypatch.chdir(write("a,b\n1,2\n", "iris").parent)
    assert opened("iris").X.shape == (150, 4)
    with refused("iris", ".csv"):
        opened("./iris")
    with pytest.raises(FileNotFoundError, match=r"iris\.csv"):
        opened("iris.csv")


def test_file_without_labels_can_be_predicted(write, encoder):
    # The order of the columns is irrelevant, and others are ignored.
    text = "size,extra,colour,the shape,empty,n\n1,word,blue,flat,,2\n"
    found = load_dataset(str(write(text)), encoder)
    assert found.y is None
    assert found.X.tolist() == [[1.0, 0.0, 1.0, 2.0, 1.0, 0.0]]
    assert found.encoder is encoder
    with_labels = text.replace("\n", ",y\n", 1).replace(",2\n", ",2,w\n")
    assert load_dataset(str(write(with_labels)), encoder).y.tolist() == ["w"]


# -- scikit-learn transformer ---------------------------------------------------------------------

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
    assert any(line.startswith("dropped 'id'") for line in fitted.decisions_)
    fitted = TableEncoder(drop=["auto", "pain"], keep=["id"]).fit(FRAME)
    assert fitted.get_feature_names_out().tolist() == ALL[:-1]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_set_output_returns_named_columns(library):
    pytest.importorskip(library)
    found = TableEncoder().set_output(transform=library).fit_transform(FRAME)
    assert list(found.columns) == [*ALL, "same = x"]
    assert np.array_equal(np.asarray(found), TableEncoder().fit_transform(FRAME))


def test_columns_of_arrays_are_numbered():
    X = np.array([[1.0, np.nan], [2.0, 3.0], [4.0, 1.0]])
    fitted = TableEncoder().fit(X)
    assert fitted.get_feature_names_out().tolist() == ["x0", "x1"]
    assert fitted.transform(X).tolist() == [[1.0, 1.0], [2.0, 3.0], [4.0, 1.0]]


def test_encoder_supports_pipelines_and_cross_validation():
    model = make_pipeline(TableEncoder(drop="auto", standardize=True), LogisticRegression())
    assert cross_val_score(model, FRAME, Y, cv=3).mean() > 0.8
    assert clone(model).fit(FRAME, Y).score(FRAME, Y) > 0.8


# -- JSON -----------------------------------------------------------------------------------------


def test_encoder_is_restored_from_json(training, encoder):
    columns = {'a "b"': np.arange(6.0) ** 2, "c": ["x", "ß"] * 3, "Übergröße": np.arange(6)}
    plain = RawTable("t", columns)
    chosen = TableEncoder(drop=["auto"], categorical=["pain"], standardize=True).fit(FRAME)
    np.testing.assert_allclose(chosen.transform(FRAME).std(axis=0), 1.0)
    for found, table in (
        (encoder, training),
        (encoder_of(plain, "Übergröße"), plain),
        (opened("digits").encoder, None),
        (chosen, FRAME),
    ):
        again = restored(found)
        for name, value in found.get_params().items():
            assert getattr(again, name) == (list(value) if isinstance(value, tuple) else value)
        if table is not None:
            assert np.array_equal(again.transform(table), found.transform(table))


WRONG_RANGES = {
    "mean": [None, 3, "abc", [1.0], [1.0] * 7, [float("nan")] * 6, ["1"] * 6, [10**400] * 6],
    "deviations": [None, [], [0.0] * 6, [1.0] * 5, [1.0] * 5 + [None], [1.0] * 5 + [-1e-300]],
    "low": [None, [0.0] * 5, [float("nan")] * 6, [1e300] * 6],
    "high": [None, ["1"] * 6, [-1e300] * 6],
    "whole": [None, [1] * 6, [True] * 5, "yes"],
    "two_valued": [None, [0.0] * 6, [None] * 6],
}
WRONG_FIELDS = {
    "parameters": [None, 3, {}, {"drop": "auto"}],
    "inputs": [3, "abc", ["a"], [1] * 4],
    "n_inputs": [None, 0, -1, True, 2.0],
    "ranges": [None, [], {}, {"low": [1.0] * 6}],
    "decisions": [None, "dropped", [1], [["a"]]],
    "image_shape": [6, [6], [2, 2], [0, 6], [-2, -3], [2.0, 3.0], "23", [2, 3, 1], [True, 6]],
    "data": [None, 3, ["a"]],
    "target": [
        *(None, {}, "y", ["y"], "x" * 10_000),
        {"name": 1, "task": "regression", "is_text": False},
        {"name": "y", "task": "poetry", "is_text": False},
    ],
    "columns": [None, {}, 3, "ab", [1], [["a", None]], [{"values": None}], "x" * 10_000],
}


def pairs(values):
    return [(name, value) for name, wrong in values.items() for value in wrong]


@pytest.mark.parametrize(("name", "value"), pairs(WRONG_FIELDS))
def test_from_json_rejects_invalid_fields(encoder, name, value):
    with pytest.raises(ValueError, match="the encoder") as caught:
        TableEncoder.from_json(encoder.to_json() | {name: value})
    assert name in str(caught.value)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(("name", "value"), pairs(WRONG_RANGES))
def test_from_json_rejects_invalid_ranges(encoder, name, value):
    record = encoder.to_json()
    with pytest.raises(ValueError, match=rf"the encoder.*({name}|low)"):
        TableEncoder.from_json(record | {"ranges": record["ranges"] | {name: value}})


def test_from_json_requires_all_fields(encoder):
    for record in (None, 3, [], "encoder", {}, [encoder.to_json()]):
        with pytest.raises(ValueError, match="the encoder"):
            TableEncoder.from_json(record)
    for name in encoder.to_json():
        record = encoder.to_json()
        del record[name]
        with pytest.raises(ValueError, match=f"lacks {name}"):
            TableEncoder.from_json(record)


NUMBER, ORDINAL, CATEGORY = (
    column.to_json()
    for column in (
        Number("a", 0.0),
        Ordinal("a", "x", categories=("x", "y")),
        Category("a", "x", categories=("x", "y"), other=True),
    )
)
WRONG_COLUMNS = {
    "no kind": {name: value for name, value in NUMBER.items() if name != "kind"},
    "unknown kind": NUMBER | {"kind": "date"},
    "kind is a list": NUMBER | {"kind": []},
    "name is a number": NUMBER | {"name": 1},
    "fill is a string": NUMBER | {"fill": "1"},
    "fill is not finite": NUMBER | {"fill": float("inf")},
    "fill is too large": NUMBER | {"fill": 10**400},
    "indicator without fill": NUMBER | {"fill": None, "indicator": True},
    "indicator is a number": NUMBER | {"indicator": 1},
    "had_missing is a number": NUMBER | {"had_missing": 3},
    "from_text is a string": NUMBER | {"from_text": "no"},
    "other is None": CATEGORY | {"other": None},
    "a category twice": CATEGORY | {"categories": ["x", "x"]},
    "a category named other": CATEGORY | {"categories": ["x", "other"]},
    "ordinal without fill": ORDINAL | {"fill": None},
    "a category is a number": CATEGORY | {"categories": ["x", 1]},
    "no categories": ORDINAL | {"categories": []},
    "categories are a string": ORDINAL | {"categories": "x"},
    "fill is an unknown category": ORDINAL | {"fill": "z"},
    "an additional field": NUMBER | {"categories": []},
}


@pytest.mark.parametrize("column", WRONG_COLUMNS.values(), ids=WRONG_COLUMNS)
def test_column_from_json_rejects_invalid_values(encoder, column):
    with pytest.raises(ValueError, match="columns cannot be read"):
        TableEncoder.from_json(encoder.to_json() | {"columns": [column]})
