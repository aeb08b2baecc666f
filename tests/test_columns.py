"""Columns as features and labels: inference, encoding, storage and errors."""

import json

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

from maxplus.tables import (
    Number,
    RawTable,
    TableEncoder,
    TableError,
    UnknownValues,
    load_dataset,
    read_table,
)
from mnist_files import NEEDS_MNIST
from table_helpers import decided, encoder_of, opened, refused

BUILT_IN = {
    "iris": load_iris,
    "digits": load_digits,
    "wine": load_wine,
    "breast_cancer": load_breast_cancer,
}


# -- target and column types ------------------------------------------------------------------


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
    encoding = encoder_of(table(f"{names}\n1,2,3\n"))
    assert encoding.target_.name == target
    others = [name for name in names.split(",") if name != target]
    assert all(isinstance(column, Number) for column in encoding.columns_)
    assert encoding.feature_names == others


def test_target_can_be_named(table):
    read = table("a,y,c\n1,2,3\n4,5,6\n")
    encoding = encoder_of(read, target="a")
    assert encoding.feature_names == ["y", "c"]
    assert encoding.target_.labels(read).tolist() == [1, 4]
    assert encoding.transform(read).tolist() == [[2.0, 3.0], [5.0, 6.0]]
    assert encoding.transform(read).dtype == np.float64


WORDS = "colour,size,n,the shape,y\nred,2,0.5,round,u\nblue,10,1.5,flat,v\nred,1,2.5,flat,u\n"


def test_categories_are_one_hot_encoded(table):
    read = table(WORDS)
    encoding = encoder_of(read, categorical=["the shape", "colour"])
    assert encoding.feature_names == [
        *("colour = blue", "colour = red", "size", "n"),
        *("the shape = flat", "the shape = round"),
    ]
    assert encoding.transform(read).tolist() == [
        [0.0, 1.0, 2.0, 0.5, 0.0, 1.0],
        [1.0, 0.0, 10.0, 1.5, 1.0, 0.0],
        [0.0, 1.0, 1.0, 2.5, 1.0, 0.0],
    ]
    assert encoding.target_.labels(read).tolist() == ["u", "v", "u"]


def test_numbers_can_be_categories(table):
    read = table("size,half,y\n2,0.5,1\n10,1,2\n2,0.5,1\n")
    encoding = encoder_of(read, categorical=["size", "half"])
    assert set(encoding.feature_names) == {"size = 2", "size = 10", "half = 0.5", "half = 1"}
    where = [encoding.feature_names.index(name) for name in ("size = 2", "half = 1")]
    assert encoding.transform(read)[:, where].tolist() == [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]
    assert encoding.transform(read).sum(axis=1).tolist() == [2.0, 2.0, 2.0]
    later = table("size,half\n10.0,0.50\n", "later.csv")
    assert encoding.transform(later).sum() == 2.0


def test_missing_values_are_counted_per_column(write):
    path = write("a,b,kind,c,y\n1,,x,1,0\n?,,NA,2,1\n2,3,x,3,1\n")
    with pytest.raises(TableError) as caught:
        encoder_of(read_table(path), missing="error")
    counts = ["1 in 'a' (first in line 3)", "2 in 'b' (first in line 2)", "1 in 'kind'"]
    for words in (str(path), "missing", *counts):
        assert words in str(caught.value)
    assert "'c'" not in str(caught.value)


@pytest.mark.parametrize("text", ["a,b,y\n1,inf,0\n2,3,1\n", "a,b,y\n1,-inf,0\n2,inf,1\n"])
def test_encoder_rejects_infinite_values(write, text):
    path = write(text)
    with refused(path, "'b'", "infinite", "line 2"):
        encoder_of(read_table(path))
    with refused(path, "'b'", "infinite"):
        fitted = encoder_of(
            RawTable("t", {"a": np.arange(4.0), "b": np.ones(4), "y": np.ones(4)}), keep=["b"]
        )
        fitted.transform(read_table(path))


@pytest.mark.parametrize("option", ["target", "categorical"])
def test_encoder_rejects_unknown_column_names(write, option):
    path = write("a,b,c\n1,2,3\n")
    choice = {"target": "colour"} if option == "target" else {"categorical": ["a", "colour"]}
    with refused(path, "'colour'", f"--{option}", "'a'", "'b'", "'c'"):
        encoder_of(read_table(path), **choice)


def test_target_is_no_feature(write):
    path = write("a,b\n1,2\n")
    with refused(path, "'b'"):
        encoder_of(read_table(path), categorical=["b"])
    with refused("lonely", "'y'"):
        encoder_of(RawTable("lonely", {"y": np.arange(3.0)}))


# -- features and labels ----------------------------------------------------------------------


@pytest.fixture
def encoding(table):
    return encoder_of(table(WORDS, "training.csv"), categorical=["colour", "the shape"])


def test_encoder_accepts_any_column_order_and_extra_columns(table, encoding):
    text = "n,extra,the shape,size,y,colour,empty\n5,word,round,7,v,blue,\n6,,flat,8,u,red,\n"
    read = table(text)
    expected = [[1.0, 0.0, 7.0, 5.0, 0.0, 1.0], [0.0, 1.0, 8.0, 6.0, 1.0, 0.0]]
    assert encoding.transform(read).tolist() == expected
    assert encoding.target_.labels(read).tolist() == ["v", "u"]


def test_encoder_transforms_a_single_row(table, encoding):
    read = table("colour,size,n,the shape\nred,1,2,flat\n")
    assert encoding.transform(read).tolist() == [[0.0, 1.0, 1.0, 2.0, 1.0, 0.0]]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("size,n,the shape\n1,2,flat\n", ["'colour'"]),
        ("size,y\n1,u\n", ["'colour'", "'n'", "'the shape'"]),
        ("colour,size,n,the shape\ngreen,1,2,flat\n", ["'colour'", "'green'", "line 2"]),
        ("colour,size,n,the shape\nRed,1,2,flat\n", ["'colour'", "'Red'"]),
        ("colour,size,n,the shape\n3,1,2,flat\n", ["'colour'", "'3'"]),
        ("colour,size,n,the shape\nred,big,2,flat\n", ["'size'", "'big'", "numbers"]),
        ("colour,size,n,the shape\nred,1,inf,flat\n", ["'n'", "infinite"]),
    ],
)
def test_encoder_rejects_tables_with_other_columns(write, encoding, text, words):
    path = write(text)
    with refused(path, *words):
        encoding.encode(read_table(path), UnknownValues(strict=True))


@pytest.mark.parametrize(
    ("cells", "labels"),
    [
        (["0", "2", "1"], [0, 2, 1]),
        (["-7", "3.0", "1e3"], [-7, 3, 1000]),
        (["a", "b", "3"], ["a", "b", "3"]),
        (["1.50", "x", "007"], ["1.50", "x", "007"]),
        (["True", "False", "True"], ["True", "False", "True"]),
    ],
)
def test_labels_are_integers_or_strings(table, cells, labels):
    read = table("a,y\n" + "".join(f"{k},{cell}\n" for k, cell in enumerate(cells)))
    encoding = encoder_of(read)
    found = encoding.target_.labels(read)
    assert found.tolist() == labels
    assert found.dtype.kind == ("i" if isinstance(labels[0], int) else "U")


@pytest.mark.parametrize("cells", [["0.5", "1", "2"], ["1.25", "2.5", "3.75"]])
def test_continuous_labels_select_regression(table, cells):
    read = table("a,y\n" + "".join(f"{k},{cell}\n" for k, cell in enumerate(cells)))
    encoding, decisions = decided(read)
    assert encoding.target_.task == "regression"
    assert encoding.target_.labels(read).tolist() == [float(cell) for cell in cells]
    assert "'y'" in decisions[0]
    assert "--task classification" in decisions[0]
    classes = encoder_of(read, task="classification")
    assert classes.target_.labels(read).tolist() == cells


def test_labels_beyond_int64_stay_distinct(write):
    path = write("a,y\n1,1e300\n2,2e300\n")
    read = read_table(path)
    with refused(path, "'y'"):
        encoder_of(read).labels(read)


def test_labels_may_be_absent(write, encoding):
    path = write("colour,size\nred,1\n")
    assert encoding.target_.name not in read_table(path).columns
    with refused(path, "'y'"):
        encoding.target_.labels(read_table(path))


def test_encoder_rejects_missing_labels(write, encoding):
    path = write("colour,y\nred,u\nred,\n")
    with refused(path, "1 in 'y' (first in line 3)"):
        encoding.target_.labels(read_table(path))


# -- data by name -----------------------------------------------------------------------------


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
    assert found.y.shape == (n,)
    assert np.unique(found.y).tolist() == list(range(10))
    assert found.y[:5].tolist() == ([7, 2, 1, 0, 4] if n == 10_000 else [5, 0, 4, 1, 9])
    assert found.image_shape == (28, 28)
    assert len(set(found.encoder.feature_names)) == 784


@pytest.mark.parametrize("name", ["irises", "iris:test", "mnist:tests", "folder/data"])
def test_unknown_dataset_is_rejected(name):
    with refused(name, "iris", "digits", "wine", "breast_cancer", "mnist", "fashion_mnist"):
        opened(name)


def test_missing_files_are_not_dataset_names(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"iris\.csv"):
        opened(str(tmp_path / "iris.csv"))


def test_file_named_like_a_dataset_needs_a_folder(write, monkeypatch):
    monkeypatch.chdir(write("a,b\n1,2\n", "iris").parent)
    assert opened("iris").X.shape == (150, 4)
    with refused("iris", ".csv"):
        opened("./iris")


def test_training_file_sets_its_encoding(write):
    path = write(WORDS)
    found = opened(str(path), "size", categorical=["colour", "the shape", "y"])
    assert found.name == str(path)
    assert found.y.tolist() == [2, 10, 1]
    assert found.target.name == "size"
    assert found.encoder.feature_names[-2:] == ["y = u", "y = v"]
    assert found.X.shape == (3, len(found.encoder.feature_names))
    assert found.image_shape is None


def test_prediction_file_needs_no_labels(write, encoder):
    text = "size,colour,the shape,n\n1,blue,flat,2\n"
    found = load_dataset(str(write(text)), encoder)
    assert found.y is None
    assert found.X.tolist() == [[1.0, 0.0, 1.0, 2.0, 1.0, 0.0]]
    assert found.encoder is encoder
    with_labels = text.replace("\n", ",y\n", 1).replace(",2\n", ",2,w\n")
    assert load_dataset(str(write(with_labels)), encoder).y.tolist() == ["w"]
    path = write("size,colour\n1,blue\n")
    with refused(path, "'n'", "'the shape'"):
        load_dataset(str(path), encoder)


# -- encoder ------------------------------------------------------------------------------


@pytest.fixture
def training(table):
    return table(WORDS, "training.csv")


@pytest.fixture
def encoder(training):
    return opened(training).encoder


def test_encoder_standardizes_by_training_data(training, encoder):
    X = encoder.transform(training)
    assert encoder.data_ == training.name
    assert np.array_equal(encoder.standardized(X), X)
    Z = opened(training, standardize=True).X
    np.testing.assert_allclose(Z.mean(axis=0), 0, atol=1e-15)
    np.testing.assert_allclose(Z.std(axis=0), 1)
    np.testing.assert_allclose(encoder.ranges_.deviations, X.std(axis=0))
    np.testing.assert_allclose(encoder.ranges_.mean, X.mean(axis=0))
    samples = opened(training)
    assert np.array_equal(samples.X, X)
    assert samples.y.tolist() == ["u", "v", "u"]


def test_encoder_of_images_has_float64_deviations():
    samples = opened("digits")
    found = samples.encoder
    assert (found.standardize, found.image_shape_) == (False, (8, 8))
    single = TableEncoder.of_images(samples.X.astype(np.float32), "digits", (8, 8))
    np.testing.assert_allclose(single.ranges_.deviations, found.ranges_.deviations, rtol=1e-12)
    assert single.ranges_.deviations.dtype == np.float64


@pytest.mark.parametrize("value", [0.0, 5.0, 0.1, 1e9 + 0.3])
def test_constant_column_has_unit_one(value):
    # The rounded mean of ten times 0.1 is not 0.1.
    columns = {"a": np.full(10, value), "b": np.arange(10.0), "y": np.arange(10.0) % 2}
    found = opened(RawTable("t", columns), keep=["a"]).encoder
    assert found.ranges_.deviations.tolist() == [1.0, columns["b"].std()]


def test_encoder_rejects_numbers_too_large_for_a_deviation():
    with refused("t", "'a'", "1e+200"):
        opened(RawTable("t", {"a": np.array([0.0, 1e200]), "b": np.zeros(2), "y": np.arange(2.0)}))


def test_encoder_is_restored_from_json(training, encoder):
    columns = {
        'a "b"': np.arange(6.0) ** 2,
        "c": np.array(["x", "ß"] * 3),
        "Übergröße": np.arange(6),
    }
    plain = RawTable("t", columns)
    for found, table in (
        (encoder, training),
        (encoder_of(training, categorical=["colour", "the shape"]), training),
        (encoder_of(plain, "Übergröße"), plain),
        (opened("digits").encoder, None),
    ):
        record = json.loads(json.dumps(found.to_json()))
        again = TableEncoder.from_json(record)
        assert again.to_json() == record
        for name in ("mean", "deviations"):
            assert np.array_equal(getattr(again.ranges_, name), getattr(found.ranges_, name))
        assert again.image_shape_ == found.image_shape_
        assert again.columns_ == found.columns_
        assert again.feature_names == found.feature_names
        assert again.get_params() == {
            n: v if v != () else [] for n, v in found.get_params().items()
        } | {"drop": list(found.drop)}
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
    "decisions": [None, "left out", [1], [["a"]]],
    "image_shape": [6, [6], [2, 2], [0, 6], [-2, -3], [2.0, 3.0], "23", [2, 3, 1], [True, 6]],
    "data": [None, 3, ["a"]],
    "target": [
        *(None, {}, "y", ["y"], "x" * 10_000),
        {"name": 1, "task": "regression", "is_text": False},
        {"name": "y", "task": "poetry", "is_text": False},
    ],
    "columns": [None, {}, 3, "ab", [1], [["a", None]], [{"values": None}], "x" * 10_000],
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in WRONG_FIELDS.items() for value in values]
)
def test_encoder_from_json_rejects_invalid_values(encoder, name, value):
    with pytest.raises(ValueError, match="the encoder") as caught:
        TableEncoder.from_json(encoder.to_json() | {name: value})
    assert name in str(caught.value)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in WRONG_RANGES.items() for value in values]
)
def test_range_from_json_rejects_invalid_values(encoder, name, value):
    record = encoder.to_json()
    with pytest.raises(ValueError, match=rf"the encoder.*({name}|low)"):
        TableEncoder.from_json(record | {"ranges": record["ranges"] | {name: value}})


def test_encoder_json_has_all_fields(encoder):
    for record in (None, 3, [], "encoder", {}, [encoder.to_json()]):
        with pytest.raises(ValueError, match="the encoder"):
            TableEncoder.from_json(record)
    for name in encoder.to_json():
        record = encoder.to_json()
        del record[name]
        with pytest.raises(ValueError, match=f"lacks {name}"):
            TableEncoder.from_json(record)
