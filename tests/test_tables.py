"""Users' tables: files as they come, columns as features and labels, errors that name both."""

import csv
import gc
import gzip
import json
import os
import random
import string
import zipfile
from contextlib import contextmanager, suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

from maxplus.tables import (
    Column,
    Encoding,
    Preparation,
    RawTable,
    Samples,
    TableError,
    csv_files,
    open_source,
    parquet_files,
    read_batches,
    read_table,
    reading,
)
from strategies import quick

BUILT_IN = {
    "iris": load_iris,
    "digits": load_digits,
    "wine": load_wine,
    "breast_cancer": load_breast_cancer,
}


@pytest.fixture
def write(tmp_path):
    """Write a file and return its path."""

    def write(content, name="data.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


@pytest.fixture
def table(write):
    """Read what a CSV file of this text holds."""
    return lambda text, name="data.csv": read_table(write(text, name))


@contextmanager
def refused(*words):
    """Expect a TableError that says all these words; the file's name among them."""
    with pytest.raises(TableError) as caught:
        yield
    for word in words:
        assert str(word) in str(caught.value)


def same(found, expected):
    """Check names, their order, values and kinds of columns: numbers or words."""
    assert list(found.columns) == list(expected)
    assert found.n_rows == len(next(iter(expected.values())))
    for name, values in expected.items():
        column = found.columns[name]
        if isinstance(values[0], str):
            assert column.dtype == object
            assert column.tolist() == values
        else:
            assert column.dtype == np.float64
            np.testing.assert_array_equal(column, np.array(values, np.float64))


def mutations(content, n):
    """N damaged versions: flipped, cut, doubled, missing and overwritten bytes."""
    rng = random.Random(0)
    for k in range(n):
        data = bytearray(content)
        at, length = rng.randrange(len(data)), rng.randrange(1, 50)
        if k % 5 == 0:
            data[at] ^= 1 << rng.randrange(8)
        elif k % 5 == 1:
            del data[at:]
        elif k % 5 == 2:
            data[at:at] = data[at : at + length]
        elif k % 5 == 3:
            del data[at : at + length]
        else:
            data[at : at + 4] = rng.randbytes(4)
        yield bytes(data)


# -- CSV --------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["csv", "tsv", "txt", "CSV"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_any_delimiter(write, delimiter, ending):
    lines = [["a", "b c", "kind"], ["1", "-2.5", "x"], ["3e2", "4", "y z"]]
    path = write("\n".join(delimiter.join(line) for line in lines), f"data.{ending}")
    for name in (path, str(path)):
        found = read_table(name)
        same(found, {"a": [1.0, 300.0], "b c": [-2.5, 4.0], "kind": ["x", "y z"]})
        assert found.name == str(path)


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_any_line_end_and_a_byte_order_mark(write, newline):
    content = newline.join(["größe,b", "1,é", "2,x", ""]).encode("utf-8-sig")
    same(read_table(write(content)), {"größe": [1.0, 2.0], "b": ["é", "x"]})


def test_quoted_cells_keep_commas_newlines_and_quotes(table):
    text = 'a,b,c\n1,"x, y","he said ""no"""\n"2","two\nlines, one cell",;|\n3,"a\r\nb",c\r\n'
    expected = {
        "a": [1.0, 2.0, 3.0],
        "b": ["x, y", "two\nlines, one cell", "a\r\nb"],
        "c": ['he said "no"', ";|", "c"],
    }
    same(table(text), expected)


def test_quoted_names_keep_commas(table):
    same(table('"a, b",c\n1,2\n'), {"a, b": [1.0], "c": [2.0]})


@pytest.mark.parametrize("name", ["two\nlines", "two\nlines, one cell"])
def test_quoted_names_keep_newlines(table, name):
    same(table(f'a,"{name}"\n1,2\n'), {"a": [1.0], name: [2.0]})


def test_blank_lines_are_no_rows(table):
    same(table("a,b\n\n1,2\n\n\n3,4\n\n"), {"a": [1.0, 3.0], "b": [2.0, 4.0]})


def test_blank_lines_before_the_names_are_skipped(table):
    same(table("\n\na,b\n1,2\n"), {"a": [1.0], "b": [2.0]})


def test_spaces_around_cells_do_not_count(table):
    same(table(" a , b\n 1 , x y \n"), {"a": [1.0], "b": ["x y"]})


@pytest.mark.parametrize("word", ["", "NA", "na", "nan", "NaN", "?", " ", '""'])
def test_missing_values_have_many_names(table, word):
    found = table(f"n,w,all\n1,x,{word}\n{word},{word},{word}\n3,y,{word}\n")
    nan = np.nan
    same(found, {"n": [1.0, nan, 3.0], "w": ["x", "", "y"], "all": [nan, nan, nan]})


def test_numbers_are_numbers(table):
    text = "a,b,c,d\n1e5,-0.5,inf,+7\n1E-3,.5,-Infinity,1e400\n"
    expected = {"a": [1e5, 1e-3], "b": [-0.5, 0.5], "c": [np.inf, -np.inf], "d": [7.0, np.inf]}
    same(table(text), expected)


@pytest.mark.parametrize("word", ["1,5", "0x10", "1 2", "12a", "--1", "1/2", "2020-01-01", "$3"])
def test_what_is_no_number_is_a_word(table, word):
    same(table(f"a;b\n1.50;1\n{word};2\n"), {"a": ["1.50", word], "b": [1.0, 2.0]})


@pytest.mark.parametrize("at_once", [16, 20, 35, 60, 1000])
def test_a_column_may_turn_into_words_late(table, monkeypatch, at_once):
    monkeypatch.setattr(csv_files, "BLOCK_BYTES", at_once)
    cells = ["1.50", "007", "NA", "1e3", "word", "2", "3", "x"]
    late = ["1.0"] * 7 + ["last"]
    rows = [f"{k},{cell},{other}" for k, (cell, other) in enumerate(zip(cells, late, strict=True))]
    found = table("\n".join(["n,early,late", *rows]))
    expected = {
        "n": [float(k) for k in range(8)],
        "early": ["1.50", "007", "", "1e3", "word", "2", "3", "x"],
        "late": late,
    }
    same(found, expected)


def test_rows_at_once_do_not_show(table, monkeypatch):
    text = "a,b,c\n" + "".join(f"{k},{k / 7},{'x' if k % 3 else ''}\n\n" for k in range(50))
    expected = {
        "a": [float(k) for k in range(50)],
        "b": [k / 7 for k in range(50)],
        "c": ["x" if k % 3 else "" for k in range(50)],
    }
    for at_once in (40, 100, 10_000):
        monkeypatch.setattr(csv_files, "BLOCK_BYTES", at_once)
        same(table(text), expected)


@pytest.mark.parametrize("word", csv_files.SPELLINGS)
@pytest.mark.parametrize("around", ["", " "])
def test_any_case_of_a_missing_value(table, word, around):
    found = table(f"n,w\n1,x\n{around}{word}{around},{around}{word}{around}\n")
    same(found, {"n": [1.0, np.nan], "w": ["x", ""]})


def test_many_columns_may_turn_into_words_late(write):
    rows = [",".join(["1.50"] * 1100)] * 2000 + [",".join(["word"] * 1100)]
    path = write("\n".join([",".join(f"c{k}" for k in range(1100)), *rows]))
    found = read_table(path)
    assert len(found.columns) == 1100
    for cells in found.columns.values():
        assert cells.dtype == object
        assert (cells[0], cells[1999], cells[2000]) == ("1.50", "1.50", "word")


def test_late_words_are_read_again_once(write, monkeypatch):
    n_readings = 0
    whole = reading.csv_batches

    def counted(*arguments):
        nonlocal n_readings
        n_readings += 1
        return whole(*arguments)

    monkeypatch.setattr(reading, "csv_batches", counted)
    monkeypatch.setattr(csv_files, "BLOCK_BYTES", 400)
    # Each column has its first word in another batch.
    rows = [",".join("w" if i >= 50 + 5 * k else f"{i}" for k in range(40)) for i in range(300)]
    found = read_table(write("\n".join([",".join(f"c{k}" for k in range(40)), *rows])))
    assert n_readings == 2
    assert all(cells.dtype == object for cells in found.columns.values())
    assert found.columns["c7"][[0, 84, 85]].tolist() == ["0", "84", "w"]


@pytest.mark.parametrize("ending", csv_files.PACKED)
def test_packed_files_are_unpacked(write, ending):
    pyarrow = pytest.importorskip("pyarrow")
    path = write("", f"data.csv{ending}")
    with pyarrow.output_stream(str(path), compression="detect") as file:
        file.write("a,größe\n1,x\n2,ß\n".encode())
    same(read_table(path), {"a": [1.0, 2.0], "größe": ["x", "ß"]})
    content = path.read_bytes()
    path.write_bytes(content[: len(content) - 9])
    with suppress(TableError):  # what was cut off may be a checksum only
        read_table(path)
    path.write_bytes(b"nonsense, not packed")
    with refused(path, "unpacked"):
        read_table(path)


@pytest.mark.parametrize("packed", [False, True])
def test_csv_with_any_damage_is_read_or_refused(write, packed):
    content = 'größe;"b ""c""";w\r\n1;2.5;"x;y"\n\n3;NA;z\n4;5;ß\n'.encode()
    content = gzip.compress(content) if packed else content
    for damaged in mutations(content, 300):
        path = write(damaged, "data.csv.gz" if packed else "data.csv")
        with suppress(TableError):
            read_table(path)


def test_batches_are_the_table_in_parts(write, parquet, monkeypatch):
    monkeypatch.setattr(csv_files, "BLOCK_BYTES", 64)
    monkeypatch.setattr(parquet_files, "ROWS_AT_ONCE", 7)
    columns = {"n": np.arange(60.0), "late": ["1"] * 50 + ["x"] * 10}
    lines = [f"{n:g},{w}" for n, w in zip(*columns.values(), strict=True)]
    for path in (write("\n".join(["n,late", *lines])), parquet(columns)):
        batches = list(read_batches(path))
        assert len(batches) > 3
        assert all(batch.columns["late"].dtype == object for batch in batches)
        for name, cells in read_table(path).columns.items():
            together = np.concatenate([batch.columns[name] for batch in batches])
            assert together.tolist() == cells.tolist() == list(columns[name])


@pytest.mark.parametrize("name", ["data.xls", "no.csv", "empty.csv"])
def test_batches_have_the_table_s_errors(tmp_path, name):
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises((TableError, FileNotFoundError), match=name):
        list(read_batches(tmp_path / name))


def test_a_ragged_row_is_found_by_its_line(write):
    path = write('a,b\n\n1,"two\nlines"\n,,\n3,4\n')
    with refused(path, "line 5", "3 values", "2 columns"):
        read_table(path)


def test_a_row_longer_than_a_block_is_refused(write, monkeypatch):
    monkeypatch.setattr(csv_files, "BLOCK_BYTES", 100)
    path = write('a,b\n1,"' + "2,3\n" * 100)
    with refused(path, "quote"):
        read_table(path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,b\n1,2,3\n", ["3 values", "2 columns"]),
        ("a,b\n1,2\n\n3\n", ["1 value", "2 columns"]),
        ("a,b,c,a,b\n1,2,3,4,5\n", ["'a'", "'b'", "rename"]),
        ("a,b,\n1,2,3\n", ["column 3", "name"]),
        ("a, ,c\n1,2,3\n", ["column 2", "name"]),
        ("1,2\n3,4\n", ["header"]),
        ("0.5;-1e3\n3;4\n", ["header"]),
        ("a\n1\n2\n", ["one column"]),
        ("", []),
        ("\n\n", []),
        ("a,b\n", ["no rows"]),
        ("a,b\n\n\n", ["no rows"]),
        (b"a,b\n1,\xe9t\xe9\n", ["UTF-8"]),
        ("a,b\n1,2\n".encode("utf-16"), ["UTF-8"]),
        (f'a,b\n1,"{"x" * 200_000}"\n', []),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_unusable_files_are_refused_by_name(write, text, words):
    path = write(text)
    with refused(path, *words):
        read_table(path)


@pytest.mark.parametrize("at", [1, 5, 11])
def test_ragged_rows_are_found_in_any_batch(write, monkeypatch, at):
    monkeypatch.setattr(csv_files, "BLOCK_BYTES", 16)
    rows = [f"{k},2" for k in range(12)]
    rows[at] = "77,8,99"
    path = write("\n".join(["a,b", *rows]))
    with refused(path, "3 values", "77"):
        read_table(path)


@pytest.mark.parametrize("cell", [b"\x00", b"\x001", b"1\x00", b"1\x002"])
def test_bytes_of_zero_are_no_numbers(write, cell):
    path = write(b"a,b\n1,2\n" + cell + b",3\n")
    with refused(path):
        Encoding.of(read_table(path), target="b")


@pytest.mark.parametrize("name", ["data.xls", "data", "data.csv.gz", "csv"])
def test_unknown_endings_are_refused(write, name):
    path = write("a,b\n1,2\n", name)
    with refused(path, ".csv", ".parquet", ".npz"):
        read_table(path)


@pytest.mark.parametrize("name", ["no.csv", "no.tsv", "no.txt", "no.parquet", "no.npz"])
def test_missing_files_are_missing(tmp_path, name):
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    with pytest.raises(FileNotFoundError, match=name):
        read_table(tmp_path / name)


def test_table_errors_are_value_errors():
    assert issubclass(TableError, ValueError)


@st.composite
def number_tables(draw):
    """Names and rows of numbers, some of them missing."""
    words = st.text(string.ascii_letters + "äß _-.\"'", max_size=6).map(lambda s: f"x{s}".strip())
    names = draw(st.lists(words, min_size=2, max_size=4, unique=True))
    numbers = st.one_of(st.floats(allow_nan=False), st.integers(-(10**6), 10**6), st.none())
    row = st.lists(numbers, min_size=len(names), max_size=len(names))
    return names, draw(st.lists(row, min_size=1, max_size=8)), draw(st.sampled_from(",;\t|"))


@given(number_tables())
@settings(quick(100), derandomize=True)
def test_what_the_csv_module_writes_is_read_back(tmp_path_factory, drawn):
    names, rows, delimiter = drawn
    path = tmp_path_factory.getbasetemp() / "round-trip.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter=delimiter).writerows([names, *rows])
    columns = zip(*rows, strict=True)
    expected = [[np.nan if v is None else float(v) for v in column] for column in columns]
    same(read_table(path), dict(zip(names, expected, strict=True)))


# -- Parquet ----------------------------------------------------------------------------------


@pytest.fixture
def parquet(tmp_path):
    """Write columns as a Parquet file and return its path."""
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")

    def write(columns):
        path = tmp_path / "data.parquet"
        parquet.write_table(pyarrow.table(columns), path)
        return path

    return write


def test_parquet_columns_become_numbers_and_words(parquet):
    import pyarrow

    path = parquet(
        {
            "int": pyarrow.array([1, None, -3]),
            "byte": pyarrow.array([1, 2, 255], pyarrow.uint8()),
            "bool": pyarrow.array([True, False, None]),
            "float": pyarrow.array([0.5, None, float("nan")]),
            "single": pyarrow.array([0.5, 1.5, None], pyarrow.float32()),
            "words": pyarrow.array(["x", None, "long word"]),
            "codes": pyarrow.array(["u", "v", "u"]).dictionary_encode(),
        }
    )
    nan = np.nan
    expected = {
        "int": [1.0, nan, -3.0],
        "byte": [1.0, 2.0, 255.0],
        "bool": [1.0, 0.0, nan],
        "float": [0.5, nan, nan],
        "single": [0.5, 1.5, nan],
        "words": ["x", "", "long word"],
        "codes": ["u", "v", "u"],
    }
    found = read_table(path)
    same(found, expected)
    assert found.name == str(path)


def test_parquet_is_read_in_whole(parquet):
    found = read_table(parquet({"n": np.arange(50_000), "w": np.arange(50_000).astype(str)}))
    assert found.n_rows == 50_000
    assert np.array_equal(found.columns["n"], np.arange(50_000.0))
    assert found.columns["w"][-1] == "49999"


def test_missing_values_of_parquet_are_counted(parquet):
    path = parquet({"a": [1.0, None, None], "w": ["x", None, "x"], "y": [0, 1, 1]})
    with refused(path, "2 in 'a'", "1 in 'w'"):
        Encoding.of(read_table(path), categorical=["w"])


def test_a_parquet_column_of_nothing_is_missing_values(parquet):
    path = parquet({"a": [None, None, None], "b": [1, 2, 3], "y": [0, 1, 1]})
    with refused(path, "missing", "3 in 'a'"):
        Encoding.of(read_table(path))


def test_parquet_columns_of_one_name_are_refused(tmp_path):
    import pyarrow
    from pyarrow import parquet

    path = tmp_path / "data.parquet"
    column = pyarrow.array([1, 2])
    parquet.write_table(pyarrow.Table.from_arrays([column] * 3, ["a", "b", "a"]), path)
    with refused(path, "'a'", "rename"):
        read_table(path)


@pytest.mark.parametrize("rows", [[], None])
def test_parquet_without_rows_is_refused(parquet, rows):
    path = parquet({} if rows is None else {"a": rows, "b": rows})
    with refused(path):
        read_table(path)


@pytest.mark.parametrize("damage", ["empty", "garbage", "cut", "footer"])
def test_damaged_parquet_is_refused(parquet, damage):
    path = parquet({"a": [1, 2], "b": [3, 4]})
    content = path.read_bytes()
    damaged = {
        "empty": b"",
        "garbage": b"PAR1 nonsense PAR1",
        "cut": content[: len(content) // 2],
        "footer": content[:4] + bytes(len(content) - 12) + content[-8:],
    }
    path.write_bytes(damaged[damage])
    with refused(path):
        read_table(path)


def test_parquet_with_any_damage_is_read_or_refused(parquet):
    path = parquet({"a": [1.0, 2.0, 3.0], "b": ["x", "y", None]})
    for content in mutations(path.read_bytes(), 100):
        path.write_bytes(content)
        with suppress(TableError):
            read_table(path)


# -- NPZ --------------------------------------------------------------------------------------


@pytest.fixture
def npz(tmp_path):
    """Write arrays as an NPZ file and return its path."""

    def write(**arrays):
        path = tmp_path / "data.npz"
        np.savez(path, **arrays)
        return path

    return write


SQUARE = np.array([[1.0, 2.0], [3.0, 4.0]])


def test_npz_columns_have_names(npz):
    path = npz(X=SQUARE, y=["u", "v"], feature_names=["p", "q r"])
    found = read_table(path)
    same(found, {"p": [1.0, 3.0], "q r": [2.0, 4.0], "y": ["u", "v"]})
    assert found.name == str(path)
    found = read_table(npz(X=SQUARE, y=[7, 9]))
    same(found, {"feature 0": [1.0, 3.0], "feature 1": [2.0, 4.0], "y": [7.0, 9.0]})
    same(read_table(npz(X=SQUARE)), {"feature 0": [1.0, 3.0], "feature 1": [2.0, 4.0]})


@pytest.mark.parametrize("kind", [bool, np.int8, np.uint16, np.int64, np.float16, np.float32])
def test_npz_numbers_of_any_kind(npz, kind):
    X = np.array([[0, 1], [1, 1]], kind)
    found = read_table(npz(X=X, y=np.array([1, 0], kind)))
    same(found, {"feature 0": [0.0, 1.0], "feature 1": [1.0, 1.0], "y": [1.0, 0.0]})


def test_npz_labels_are_the_target(npz):
    read = read_table(npz(X=SQUARE, y=["u", "v"]))
    encoding = Encoding.of(read)
    assert encoding.target == "y"
    assert np.array_equal(encoding.features(read), SQUARE)
    assert encoding.labels(read).tolist() == ["u", "v"]


WRONG_ARRAYS = {
    "X is a vector": ({"X": np.ones(3)}, ["X"]),
    "X is a cube": ({"X": np.ones((2, 2, 2))}, ["X"]),
    "X is a number": ({"X": np.float64(1.0)}, ["X"]),
    "X is words": ({"X": [["a", "b"]]}, ["X"]),
    "X is complex": ({"X": SQUARE * 1j}, ["X"]),
    "X has another name": ({"Z": SQUARE, "y": [0, 1]}, ["X", "Z"]),
    "nothing": ({}, ["X"]),
    "no rows": ({"X": np.zeros((0, 3))}, ["no rows"]),
    "y is too long": ({"X": SQUARE, "y": [0, 1, 2]}, ["y", "2"]),
    "y is a matrix": ({"X": SQUARE, "y": [[0], [1]]}, ["y", "2"]),
    "y is a number": ({"X": SQUARE, "y": 1}, ["y", "2"]),
    "too few names": ({"X": SQUARE, "feature_names": ["a"]}, ["feature_names", "2"]),
    "a name twice": ({"X": SQUARE, "feature_names": ["a", "a"]}, ["feature_names", "2"]),
    "names are a matrix": ({"X": SQUARE, "feature_names": [["a", "b"]]}, ["feature_names", "2"]),
    "names are a word": ({"X": SQUARE, "feature_names": "ab"}, ["feature_names", "2"]),
    "X is objects": ({"X": np.array([[1, None]], object)}, []),
    "y is objects": ({"X": SQUARE, "y": np.array(["a", None], object)}, []),
    "names are objects": ({"X": SQUARE, "feature_names": np.array(["a", "b"], object)}, []),
}


@pytest.mark.parametrize(("arrays", "words"), WRONG_ARRAYS.values(), ids=WRONG_ARRAYS)
def test_wrong_npz_arrays_are_refused(npz, arrays, words):
    path = npz(**arrays)
    with refused(path, *words):
        read_table(path)


def test_a_feature_called_y_is_not_lost(npz):
    path = npz(X=SQUARE, y=[7, 9], feature_names=["x", "y"])
    try:
        n_columns = len(read_table(path).columns)
    except TableError:
        return
    assert n_columns == 3


@pytest.mark.parametrize("damage", ["empty", "garbage", "cut", "changed", "npy", "text"])
def test_damaged_npz_is_refused(npz, damage):
    path = npz(X=np.eye(20))
    content = bytearray(path.read_bytes())
    if damage == "npy":
        with path.open("wb") as file:
            np.save(file, SQUARE)
    elif damage == "text":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("X", "1 2")
    else:
        changed = content.copy()
        changed[600] ^= 255
        damaged = {"empty": b"", "garbage": b"nonsense", "cut": content[:300], "changed": changed}
        path.write_bytes(damaged[damage])
    with refused(path):
        read_table(path)
    gc.collect()  # a file that was left open warns now


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz_with_any_damage_is_read_or_refused(tmp_path, save):
    path = tmp_path / "data.npz"
    save(path, X=np.eye(3), y=["a", "b", "c"], feature_names=["p", "q", "r"])
    for content in mutations(path.read_bytes(), 200):
        path.write_bytes(content)
        with suppress(TableError):
            read_table(path)


# -- which column is what ---------------------------------------------------------------------


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
def test_the_target_is_named_so_or_last(table, names, target):
    encoding = Encoding.of(table(f"{names}\n1,2,3\n"))
    assert encoding.target == target
    others = [name for name in names.split(",") if name != target]
    assert encoding.columns == tuple(Column(name) for name in others)
    assert encoding.feature_names == others


def test_the_target_can_be_chosen(table):
    read = table("a,y,c\n1,2,3\n4,5,6\n")
    encoding = Encoding.of(read, target="a")
    assert encoding.feature_names == ["y", "c"]
    assert encoding.labels(read).tolist() == [1, 4]
    assert encoding.features(read).tolist() == [[2.0, 3.0], [5.0, 6.0]]
    assert encoding.features(read).dtype == np.float64


WORDS = "colour,size,n,the shape,y\nred,2,0.5,round,u\nblue,10,1.5,flat,v\nred,1,2.5,flat,u\n"


def test_words_need_categories(write):
    path = write(WORDS)
    remedy = '--categorical colour --categorical "the shape"'
    with refused(path, "'colour'", "'the shape'", "'red'", remedy):
        Encoding.of(read_table(path))
    with refused(path, "'the shape'", '--categorical "the shape"'):
        Encoding.of(read_table(path), categorical=["colour"])


def test_categories_become_columns_of_zeros_and_ones(table):
    read = table(WORDS)
    encoding = Encoding.of(read, categorical=["the shape", "colour"])
    assert encoding.feature_names == [
        *("colour = blue", "colour = red", "size", "n"),
        *("the shape = flat", "the shape = round"),
    ]
    assert encoding.features(read).tolist() == [
        [0.0, 1.0, 2.0, 0.5, 0.0, 1.0],
        [1.0, 0.0, 10.0, 1.5, 1.0, 0.0],
        [0.0, 1.0, 1.0, 2.5, 1.0, 0.0],
    ]
    assert encoding.labels(read).tolist() == ["u", "v", "u"]


def test_numbers_can_be_categories(table):
    read = table("size,half,y\n2,0.5,1\n10,1,2\n2,0.5,1\n")
    encoding = Encoding.of(read, categorical=["size", "half"])
    assert set(encoding.feature_names) == {"size = 2", "size = 10", "half = 0.5", "half = 1"}
    where = [encoding.feature_names.index(name) for name in ("size = 2", "half = 1")]
    assert encoding.features(read)[:, where].tolist() == [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]
    assert encoding.features(read).sum(axis=1).tolist() == [2.0, 2.0, 2.0]
    later = table("size,half\n10.0,0.50\n", "later.csv")
    assert encoding.features(later).sum() == 2.0


def test_missing_values_are_counted_per_column(write):
    path = write("a,b,kind,c,y\n1,,x,1,0\n?,,NA,2,\n2,3,x,3,1\n")
    with refused(path, "missing", "1 in 'a'", "2 in 'b'", "1 in 'kind'", "1 in 'y'"):
        Encoding.of(read_table(path), categorical=["kind"])
    with pytest.raises(TableError) as caught:
        Encoding.of(read_table(path), categorical=["kind"])
    assert "'c'" not in str(caught.value)


@pytest.mark.parametrize("text", ["a,b,y\n1,inf,0\n2,3,1\n", "a,b,y\n1,-inf,0\n2,inf,1\n"])
def test_infinite_values_are_refused(write, text):
    path = write(text)
    with refused(path, "'b'", "infinite"):
        Encoding.of(read_table(path))
    with refused(path, "'b'", "infinite"):
        Encoding("y", (Column("a"), Column("b"))).features(read_table(path))


@pytest.mark.parametrize("option", ["target", "categorical"])
def test_unknown_names_are_refused(write, option):
    path = write("a,b,c\n1,2,3\n")
    choice = {"target": "colour"} if option == "target" else {"categorical": ["a", "colour"]}
    with refused(path, "'colour'", f"--{option}", "'a'", "'b'", "'c'"):
        Encoding.of(read_table(path), **choice)


def test_a_target_is_no_feature(write):
    path = write("a,b\n1,2\n")
    with refused(path, "'b'"):
        Encoding.of(read_table(path), categorical=["b"])
    with refused("lonely", "'y'"):
        Encoding.of(RawTable("lonely", {"y": np.arange(3.0)}))


# -- features and labels ----------------------------------------------------------------------


@pytest.fixture
def encoding(table):
    return Encoding.of(table(WORDS, "training.csv"), categorical=["colour", "the shape"])


def test_columns_come_in_any_order_and_others_do_not_matter(table, encoding):
    text = "n,extra,the shape,size,y,colour,empty\n5,word,round,7,v,blue,\n6,,flat,8,u,red,\n"
    read = table(text)
    expected = [[1.0, 0.0, 7.0, 5.0, 0.0, 1.0], [0.0, 1.0, 8.0, 6.0, 1.0, 0.0]]
    assert encoding.features(read).tolist() == expected
    assert encoding.labels(read).tolist() == ["v", "u"]


def test_a_single_row_with_one_of_the_categories_is_enough(table, encoding):
    read = table("colour,size,n,the shape\nred,1,2,flat\n")
    assert encoding.features(read).tolist() == [[0.0, 1.0, 1.0, 2.0, 1.0, 0.0]]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("size,n,the shape\n1,2,flat\n", ["'colour'"]),
        ("size,y\n1,u\n", ["'colour'", "'n'", "'the shape'"]),
        ("colour,size,n,the shape\ngreen,1,2,flat\n", ["'colour'", "'green'", "'blue'", "'red'"]),
        ("colour,size,n,the shape\nRed,1,2,flat\n", ["'colour'", "'Red'"]),
        ("colour,size,n,the shape\n3,1,2,flat\n", ["'colour'", "'3'"]),
        ("colour,size,n,the shape\nred,big,2,flat\n", ["'size'", "'big'", "numbers"]),
        ("colour,size,n,the shape\nred,,2,flat\nred,1,2,\n", ["1 in 'size'", "1 in 'the shape'"]),
        ("colour,size,n,the shape\nred,1,inf,flat\n", ["'n'", "infinite"]),
    ],
)
def test_tables_that_do_not_fit_are_refused(write, encoding, text, words):
    path = write(text)
    with refused(path, *words):
        encoding.features(read_table(path))


def test_categories_lie_between_zero_and_one(encoding):
    low, high = encoding.feature_range
    inf = np.inf
    assert low.tolist() == [0.0, 0.0, -inf, -inf, 0.0, 0.0]
    assert high.tolist() == [1.0, 1.0, inf, inf, 1.0, 1.0]


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
    read = table("a,y\n" + "".join(f"1,{cell}\n" for cell in cells))
    encoding = Encoding.of(read)
    found = encoding.labels(read)
    assert found.tolist() == labels
    assert found.dtype.kind == ("i" if isinstance(labels[0], int) else "U")
    assert encoding.has_labels(read)


@pytest.mark.parametrize("cells", [["0.5", "1", "2"], ["1.25", "2.5", "3.75"]])
def test_measurements_are_no_labels(write, cells):
    path = write("a,y\n" + "".join(f"1,{cell}\n" for cell in cells))
    read = read_table(path)
    with refused(path, "'y'", "--target"):
        Encoding.of(read).labels(read)


def test_labels_beyond_integers_are_not_mixed_up(write):
    path = write("a,y\n1,1e300\n2,2e300\n")
    read = read_table(path)
    with refused(path, "'y'"):
        Encoding.of(read).labels(read)


def test_labels_may_be_absent(write, encoding):
    path = write("colour,size\nred,1\n")
    assert not encoding.has_labels(read_table(path))
    with refused(path, "'y'"):
        encoding.labels(read_table(path))


def test_missing_labels_are_refused(write, encoding):
    path = write("colour,y\nred,u\nred,\n")
    with refused(path, "1 in 'y'"):
        encoding.labels(read_table(path))


# -- kept with a model ------------------------------------------------------------------------


def test_encodings_survive_json(table, encoding):
    record = json.loads(json.dumps(encoding.to_json()))
    again = Encoding.from_json(record)
    assert again == encoding
    assert again.feature_names == encoding.feature_names
    assert np.array_equal(again.features(table(WORDS)), encoding.features(table(WORDS)))
    plain = Encoding("Übergröße", (Column('a "b"'), Column("c", ("", "x", "ß"))))
    assert Encoding.from_json(json.loads(json.dumps(plain.to_json()))) == plain


GARBAGE = {
    "nothing": lambda record: None,
    "number": lambda record: 3,
    "word": lambda record: "columns",
    "list": lambda record: [record],
    "empty": lambda record: {},
    "no target": lambda record: {"columns": record["columns"]},
    "no columns": lambda record: {"target": record["target"]},
    "columns are a number": lambda record: record | {"columns": 3},
    "columns are a word": lambda record: record | {"columns": "ab"},
    "columns are numbers": lambda record: record | {"columns": [1, 2]},
    "columns are lists": lambda record: record | {"columns": [["a", None]]},
    "columns are a mapping": lambda record: record | {"columns": {}},
    "column without name": lambda record: record | {"columns": [{"values": None}]},
    "name is a number": lambda record: record | {"columns": [{"name": 1, "values": None}]},
    "values are a number": lambda record: record | {"columns": [{"name": "a", "values": 7}]},
    "values are a word": lambda record: record | {"columns": [{"name": "a", "values": "xy"}]},
    "target is nothing": lambda record: record | {"target": None},
    "target is a list": lambda record: record | {"target": ["y"]},
}


@pytest.mark.parametrize("change", GARBAGE.values(), ids=GARBAGE)
def test_garbage_is_no_encoding(encoding, change):
    with pytest.raises(ValueError, match="columns"):
        Encoding.from_json(change(encoding.to_json()))


# -- data by name -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_data_is_scikit_learn_s(name):
    data = BUILT_IN[name]()
    found = open_source(name)
    assert found.name == name
    assert np.array_equal(found.X, data.data)
    assert found.y.astype(str).tolist() == data.target_names[data.target].astype(str).tolist()
    assert found.encoding.feature_names == list(data.feature_names)
    assert found.image_shape == ((8, 8) if name == "digits" else None)
    again = open_source(name, encoding=found.encoding)
    assert np.array_equal(again.X, found.X)
    assert np.array_equal(again.y, found.y)


@pytest.mark.parametrize(("name", "n"), [("mnist", 60_000), ("mnist:test", 10_000)])
def test_mnist_is_read_as_images(name, n):
    if "MAXPLUS_DATA" not in os.environ:
        pytest.skip("MAXPLUS_DATA is not set")
    found = open_source(name)
    assert found.X.shape == (n, 784)
    assert found.X.dtype == np.float32
    assert (found.X.min(), found.X.max()) == (0.0, 1.0)
    assert found.y.shape == (n,)
    assert np.unique(found.y).tolist() == list(range(10))
    assert found.y[:5].tolist() == ([7, 2, 1, 0, 4] if n == 10_000 else [5, 0, 4, 1, 9])
    assert found.image_shape == (28, 28)
    assert len(set(found.encoding.feature_names)) == 784


@pytest.mark.parametrize("name", ["irises", "iris:test", "mnist:tests", "folder/data"])
def test_unknown_data_is_refused(name):
    with refused(name, "iris", "digits", "wine", "breast_cancer", "mnist", "fashion_mnist"):
        open_source(name)


def test_missing_files_are_not_taken_for_names(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"iris\.csv"):
        open_source(str(tmp_path / "iris.csv"))


def test_a_file_called_like_built_in_data_needs_its_folder(write, monkeypatch):
    monkeypatch.chdir(write("a,b\n1,2\n", "iris").parent)
    assert open_source("iris").X.shape == (150, 4)
    with refused("iris", ".csv"):
        open_source("./iris")


def test_a_file_for_training_brings_its_encoding(write):
    path = write(WORDS)
    found = open_source(str(path), target="size", categorical=["colour", "the shape", "y"])
    assert found.name == str(path)
    assert found.y.tolist() == [2, 10, 1]
    assert found.encoding.target == "size"
    assert found.encoding.feature_names[-2:] == ["y = u", "y = v"]
    assert found.X.shape == (3, len(found.encoding.feature_names))
    assert found.image_shape is None
    with refused(path, "--categorical"):
        open_source(str(path))


def test_a_file_for_prediction_needs_no_labels(write, encoding):
    text = "size,colour,the shape,n\n1,blue,flat,2\n"
    found = open_source(str(write(text)), encoding=encoding)
    assert found.y is None
    assert found.X.tolist() == [[1.0, 0.0, 1.0, 2.0, 1.0, 0.0]]
    assert found.encoding == encoding
    with_labels = text.replace("\n", ",y\n", 1).replace(",2\n", ",2,w\n")
    assert open_source(str(write(with_labels)), encoding=encoding).y.tolist() == ["w"]
    path = write("size,colour\n1,blue\n")
    with refused(path, "'n'", "'the shape'"):
        open_source(str(path), encoding=encoding)


# -- preparation ------------------------------------------------------------------------------


@pytest.fixture
def training(table):
    return table(WORDS, "training.csv")


@pytest.fixture
def preparation(training):
    return Preparation.of(training, categorical=["colour", "the shape"])


def test_a_preparation_scales_by_the_training_data(training, preparation):
    X = preparation.features(training)
    Z = preparation.scaled(X)
    assert preparation.feature_names == preparation.encoding.feature_names
    assert preparation.data == training.name
    np.testing.assert_allclose(Z.mean(axis=0), 0, atol=1e-15)
    np.testing.assert_allclose(Z.std(axis=0), 1)
    np.testing.assert_allclose(preparation.deviations, X.std(axis=0))
    samples = preparation.samples(training)
    assert np.array_equal(samples.X, X)
    assert samples.y.tolist() == ["u", "v", "u"]
    raw = Preparation.of(training, categorical=["colour", "the shape"], scale=False)
    assert raw.centre is raw.spread is None
    assert np.array_equal(raw.scaled(X), X)
    assert np.array_equal(raw.deviations, preparation.deviations)


def test_images_are_not_scaled_and_know_their_deviations():
    samples = open_source("digits")
    found = Preparation.of(samples)
    assert (found.centre, found.image_shape) == (None, (8, 8))
    assert Preparation.of(samples, scale=True).centre is not None
    assert found.feature_range(samples.X[:3]) == (samples.X[:3].min(), samples.X[:3].max())
    X = samples.X.astype(np.float32)
    single = Preparation.of(Samples("digits", X, samples.y, samples.encoding, (8, 8)))
    np.testing.assert_allclose(single.deviations, found.deviations, rtol=1e-12)
    assert single.deviations.dtype == np.float64


@pytest.mark.parametrize("value", [0.0, 5.0, 0.1, 1e9 + 0.3])
def test_a_constant_column_has_the_unit_one(value):
    # The rounded mean of ten times 0.1 is not 0.1.
    columns = {"a": np.full(10, value), "b": np.arange(10.0), "y": np.arange(10.0) % 2}
    found = Preparation.of(RawTable("t", columns))
    assert found.deviations.tolist() == [1.0, columns["b"].std()]
    assert found.spread.tolist() == found.deviations.tolist()


def test_numbers_too_large_for_a_deviation_are_refused():
    with refused("t", "'a'", "1e+200"):
        Preparation.of(
            RawTable("t", {"a": np.array([0.0, 1e200]), "b": np.zeros(2), "y": np.arange(2.0)})
        )


def test_preparations_survive_json(training, preparation):
    for found in (preparation, Preparation.of(open_source("digits"))):
        record = json.loads(json.dumps(found.to_json()))
        again = Preparation.from_json(record)
        assert again.to_json() == record
        for name in ("centre", "spread", "deviations"):
            assert np.array_equal(getattr(again, name), getattr(found, name))
        assert again.image_shape == found.image_shape
        assert again.encoding == found.encoding


WRONG_FIELDS = {
    "centre": [None, 3, "abc", [1.0], [1.0] * 7, [float("nan")] * 6, ["1"] * 6, [[1.0]] * 6],
    "spread": [None, [0.0] * 6, [-1.0] * 6, [float("inf")] * 6, [10**400] * 6, [True] * 6, {}],
    "deviations": [None, [], [0.0] * 6, [1.0] * 5, [1.0] * 5 + [None], [1.0] * 5 + [-1e-300]],
    "image_shape": [6, [6], [2, 2], [0, 6], [-2, -3], [2.0, 3.0], "23", [2, 3, 1], [True, 6]],
    "directions": [[[1.0] * 6], []],
    "data": [None, 3, ["a"]],
    "encoding": [None, {}, {"target": "y", "columns": []}, "x" * 10_000],
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in WRONG_FIELDS.items() for value in values]
)
def test_garbage_is_no_preparation(preparation, name, value):
    with pytest.raises(ValueError, match=r"preparation|columns") as caught:
        Preparation.from_json(preparation.to_json() | {name: value})
    assert name in str(caught.value) or name == "encoding" or "deviations" in str(caught.value)
    assert len(str(caught.value)) < 200


def test_a_preparation_has_all_its_fields(preparation):
    for record in (None, 3, [], "preparation", {}):
        with pytest.raises(ValueError, match="preparation"):
            Preparation.from_json(record)
    for name in preparation.to_json():
        record = preparation.to_json()
        del record[name]
        with pytest.raises(ValueError, match=f"lacks {name}"):
            Preparation.from_json(record)
