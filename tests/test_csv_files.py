"""CSV files: delimiters, quotes, encodings, missing values, damage, errors that name lines."""

import csv
import gzip
import string
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from file_mutations import damaged_copies
from maxplus.tables import TableError, csv_files, files, read_batches, read_table
from strategies import quick
from table_helpers import refused, same

NAN = np.nan


@pytest.fixture(params=[40, 100, 400, 1 << 20])
def block_bytes(request, monkeypatch):
    """Vary the size of the blocks in which pyarrow reads."""
    monkeypatch.setattr(csv_files, "BLOCK_BYTES", request.param)
    return request.param


@pytest.mark.parametrize("ending", ["csv", "tsv", "txt", "CSV"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_delimiter_is_detected(write, delimiter, ending):
    lines = [["a", "b c", "kind"], ["1", "-2.5", "x"], ["3e2", "4", "y z"]]
    path = write("\n".join(delimiter.join(line) for line in lines), f"data.{ending}")
    for name in (path, str(path)):
        found = read_table(name)
        same(found, {"a": [1.0, 300.0], "b c": [-2.5, 4.0], "kind": ["x", "y z"]})
        assert found.name == str(path)


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_line_endings_and_byte_order_mark_are_removed(write, newline):
    content = newline.join(["größe,b", "1,é", "2,x", ""]).encode("utf-8-sig")
    same(read_table(write(content)), {"größe": [1.0, 2.0], "b": ["é", "x"]})


QUOTED = 'a,b,c\n1,"x, y","he said ""no"""\n"2","two\nlines, one cell",;|\n3,"a\r\nb",c\r\n'
FILES = {
    "quoted cells": (
        QUOTED,
        {
            "a": [1.0, 2.0, 3.0],
            "b": ["x, y", "two\nlines, one cell", "a\r\nb"],
            "c": ['he said "no"', ";|", "c"],
        },
    ),
    "comma in a name": ('"a, b",c\n1,2\n', {"a, b": [1.0], "c": [2.0]}),
    "newline in a name": ('a,"two\nlines"\n1,2\n', {"a": [1.0], "two\nlines": [2.0]}),
    "newline and comma in a name": ('a,"x\ny, z"\n1,2\n', {"a": [1.0], "x\ny, z": [2.0]}),
    "blank lines": ("\n\na,b\n\n1,2\n\n\n3,4\n\n", {"a": [1.0, 3.0], "b": [2.0, 4.0]}),
    "spaces": (" a , b\n 1 , x y \n", {"a": [1.0], "b": ["x y"]}),
    "numbers": (
        "a,b,c,d\n1e5,-0.5,inf,+7\n1E-3,.5,-Infinity,1e400\n",
        {"a": [1e5, 1e-3], "b": [-0.5, 0.5], "c": [np.inf, -np.inf], "d": [7.0, np.inf]},
    ),
    **{
        word: (f"a;b\n1.50;1\n{word};2\n", {"a": ["1.50", word], "b": [1.0, 2.0]})
        for word in ("1,5", "0x10", "1 2", "12a", "--1", "1/2", "2020-01-01", "$3", "1_000")
    },
}


@pytest.mark.parametrize(("text", "expected"), FILES.values(), ids=FILES)
def test_cells_are_numbers_or_text(table, text, expected):
    same(table(text), expected)


@pytest.mark.parametrize("word", [*csv_files.NULL_VALUES, "?", '""'])
@pytest.mark.parametrize("around", ["", " "])
def test_missing_value_strings_are_missing(table, word, around):
    cell = f"{around}{word}{around}" if word != '""' else word
    found = table(f"n,w,all\n1,x,{cell}\n{cell},{cell},{cell}\n3,y,{cell}\n")
    same(found, {"n": [1.0, NAN, 3.0], "w": ["x", "", "y"], "all": [NAN, NAN, NAN]})


def test_block_size_does_not_change_table(table, block_bytes):
    cells = ["1.50", "007", "NA", "1e3", "word", "2", "3", "x"] + [""] * 42
    lines = [f"{k},{k / 7},{cell},{k if k < 49 else 'last'}\n\n" for k, cell in enumerate(cells)]
    expected = {
        "n": [float(k) for k in range(50)],
        "share": [k / 7 for k in range(50)],
        "early": ["" if cell == "NA" else cell for cell in cells],
        "late": [*map(str, range(49)), "last"],
    }
    same(table("n,share,early,late\n" + "".join(lines)), expected)


def test_many_columns_may_become_text_late(write):
    rows = [",".join(["1.50"] * 1100)] * 2000 + [",".join(["word"] * 1100)]
    path = write("\n".join([",".join(f"c{k}" for k in range(1100)), *rows]))
    found = read_table(path)
    assert len(found.columns) == 1100
    for cells in found.columns.values():
        assert cells.dtype == object
        assert (cells[0], cells[1999], cells[2000]) == ("1.50", "1.50", "word")


def test_late_text_is_read_again_once(write, monkeypatch):
    n_readings = 0
    whole = files.csv_batches

    def counted(*arguments):
        nonlocal n_readings
        n_readings += 1
        return whole(*arguments)

    monkeypatch.setattr(files, "csv_batches", counted)
    monkeypatch.setattr(csv_files, "BLOCK_BYTES", 400)
    # Each column has its first text in another batch.
    rows = [",".join("w" if i >= 50 + 5 * k else f"{i}" for k in range(40)) for i in range(300)]
    found = read_table(write("\n".join([",".join(f"c{k}" for k in range(40)), *rows])))
    assert n_readings == 2
    assert all(cells.dtype == object for cells in found.columns.values())
    assert found.columns["c7"][[0, 84, 85]].tolist() == ["0", "84", "w"]


@pytest.mark.parametrize("ending", csv_files.COMPRESSED)
def test_compressed_files_are_read(write, ending):
    import pyarrow

    path = write("", f"data.csv{ending}")
    with pyarrow.output_stream(str(path), compression="detect") as file:
        file.write("a,größe\n1,x\n2,ß\n".encode())
    same(read_table(path), {"a": [1.0, 2.0], "größe": ["x", "ß"]})
    content = path.read_bytes()
    path.write_bytes(content[: len(content) - 9])
    with suppress(TableError):  # Only a checksum may be cut off.
        read_table(path)
    path.write_bytes(b"nonsense, not compressed")
    with refused(path, "decompressed"):
        read_table(path)


@pytest.mark.parametrize("packed", [False, True])
def test_damaged_csv_is_read_or_rejected(write, packed):
    content = 'größe;"b ""c""";w\r\n1;2.5;"x;y"\n\n3;NA;z\n4;5;ß\n'.encode()
    content = gzip.compress(content) if packed else content
    for damaged in damaged_copies(content, 300):
        path = write(damaged, "data.csv.gz" if packed else "data.csv")
        with suppress(TableError):
            read_table(path)


def test_batches_equal_the_table(write, parquet, monkeypatch):
    monkeypatch.setattr(csv_files, "BLOCK_BYTES", 64)
    monkeypatch.setattr(files, "BATCH_ROWS", 7)
    columns = {"n": np.arange(60.0), "late": ["1"] * 50 + ["x"] * 10}
    lines = [f"{n:g},{w}" for n, w in zip(*columns.values(), strict=True)]
    for path in (write("\n".join(["n,late", *lines])), parquet(columns)):
        batches = list(read_batches(path))
        assert len(batches) > 3
        assert all(batch.columns["late"].dtype == object for batch in batches)
        for name, cells in read_table(path).columns.items():
            together = np.concatenate([batch.columns[name] for batch in batches])
            assert together.tolist() == cells.tolist() == list(columns[name])


# -- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,b\n1,2,3\n", ["line 2", "3 values", "2 columns"]),
        ("a,b\n1,2\n\n3\n", ["line 4", "1 value", "2 columns"]),
        ('a,b\n\n1,"two\nlines"\n,,\n3,4\n', ["line 5", "3 values", "2 columns"]),
        ("a,b,c,a,b\n1,2,3,4,5\n", ["'a'", "'b'", "rename"]),
        ("a,b,\n1,2,3\n", ["column 3", "name"]),
        ("a, ,c\n1,2,3\n", ["column 2", "name"]),
        ("1,2\n3,4\n", ["header"]),
        ("0.5;-1e3\n3;4\n", ["header"]),
        ("a\n1\n2\n", ["one column"]),
        ("", ["empty"]),
        ("\n\n", ["empty"]),
        ("a,b\n", ["no rows"]),
        ("a,b\n\n\n", ["no rows"]),
        ("a,b\n1,2\n".encode("utf-16"), ["UTF-16"]),
        *((b"a,b\n1,2\n" + cell + b",3\n", ["null"]) for cell in (b"\0", b"\x001", b"1\0")),
        (f'a,b\n1,"{"x" * 200_000}"\n', ["200,000 characters"]),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_error_names_line_and_remedy(write, text, words):
    path = write(text)
    with refused(path, *words):
        read_table(path)
    with refused(path, *words):
        list(read_batches(path))


@pytest.mark.parametrize("at", [1, 5, 11])
def test_ragged_rows_are_found_in_any_batch(write, monkeypatch, at):
    monkeypatch.setattr(csv_files, "BLOCK_BYTES", 16)
    rows = [f"{k},2" for k in range(12)]
    rows[at] = "77,8,99"
    path = write("\n".join(["a,b", *rows]))
    with refused(path, "3 values", "77"):
        read_table(path)


def test_row_longer_than_a_block_is_rejected(write, monkeypatch):
    monkeypatch.setattr(csv_files, "BLOCK_BYTES", 100)
    path = write('a,b\n1,"' + "2,3\n" * 100)
    with refused(path, "quote"):
        read_table(path)


@pytest.mark.parametrize("name", ["data.xls", "data", "data.csv.gz", "csv"])
def test_unknown_or_wrong_suffix_is_rejected(write, name):
    path = write("a,b\n1,2\n", name)
    with refused(path, ".csv", ".parquet", ".npz"):
        read_table(path)


@pytest.mark.parametrize("suffix", ["csv", "tsv", "txt", "parquet", "npz", "npy", "xlsx"])
def test_missing_file_is_reported(tmp_path, suffix):
    for read in (read_table, lambda path: list(read_batches(path))):
        with pytest.raises(FileNotFoundError, match=f"no.{suffix}"):
            read(tmp_path / f"no.{suffix}")


def test_table_errors_are_value_errors_of_one_line():
    assert str(TableError("x.parquet: Invalid data\nat 3\n")) == "x.parquet: Invalid data at 3"
    assert issubclass(TableError, ValueError)


@st.composite
def number_tables(draw):
    """Draw names and rows of numbers, some of them missing."""
    words = st.text(string.ascii_letters + "äß _-.\"'", max_size=6).map(lambda s: f"x{s}".strip())
    names = draw(st.lists(words, min_size=2, max_size=4, unique=True))
    numbers = st.one_of(st.floats(allow_nan=False), st.integers(-(10**6), 10**6), st.none())
    row = st.lists(numbers, min_size=len(names), max_size=len(names))
    return names, draw(st.lists(row, min_size=1, max_size=8)), draw(st.sampled_from(",;\t|"))


@given(number_tables())
@settings(quick(100), derandomize=True)
def test_output_of_csv_module_round_trips(tmp_path_factory, drawn):
    names, rows, delimiter = drawn
    path = tmp_path_factory.getbasetemp() / "round-trip.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter=delimiter).writerows([names, *rows])
    columns = zip(*rows, strict=True)
    expected = [[NAN if v is None else float(v) for v in column] for column in columns]
    same(read_table(path), dict(zip(names, expected, strict=True)))
