"""NPZ, NPY and Parquet files: contents, invalid and hostile files, and partition over ranks."""

import gc
import io
import pickle
import zipfile
from contextlib import suppress

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet as arrow_parquet

from file_mutations import damaged_copies
from maxplus.distributed import current
from maxplus.tables import TableError, files, load_dataset, read_table, stream_dataset
from memory_used import most_memory
from table_helpers import encoder_of, opened, refused, same
from thread_communicator import run_ranks

NAN = np.nan
SQUARE = np.array([[1.0, 2.0], [3.0, 4.0]])


@pytest.fixture
def npz(tmp_path):
    """Write arrays as an NPZ file and return its path."""

    def write(**arrays):
        path = tmp_path / "data.npz"
        np.savez(path, **arrays)
        return path

    return write


def rejected(path, *words):
    with refused(path, *words):
        read_table(path)


# -- NPZ ------------------------------------------------------------------------------------------


def test_npz_columns(npz):
    path = npz(X=SQUARE, y=["u", "v"], feature_names=["p", "q r"])
    found = read_table(path)
    same(found, {"p": [1.0, 3.0], "q r": [2.0, 4.0], "y": ["u", "v"]})
    assert found.name == str(path)
    encoder = encoder_of(found)
    assert encoder.target_.name == "y"
    assert np.array_equal(encoder.transform(found), SQUARE)
    assert encoder.target_.labels(found).tolist() == ["u", "v"]
    same(read_table(npz(X=SQUARE)), {"feature 0": [1.0, 3.0], "feature 1": [2.0, 4.0]})


@pytest.mark.parametrize("kind", [bool, np.int8, np.uint16, np.int64, np.float16, np.float32])
def test_npz_numbers_of_any_type(npz, kind):
    found = read_table(npz(X=np.array([[0, 1], [1, 1]], kind), y=np.array([1, 0], kind)))
    same(found, {"feature 0": [0.0, 1.0], "feature 1": [1.0, 1.0], "y": [1.0, 0.0]})


WRONG_ARRAYS = {
    "X is a vector": ({"X": np.ones(3)}, ["X"]),
    "X has three dimensions": ({"X": np.ones((2, 2, 2))}, ["X"]),
    "X is a number": ({"X": np.float64(1.0)}, ["X"]),
    "X is text": ({"X": [["a", "b"]]}, ["X"]),
    "X is complex": ({"X": SQUARE * 1j}, ["X"]),
    "X has another name": ({"Z": SQUARE, "y": [0, 1]}, ["X", "Z"]),
    "no arrays": ({}, ["X"]),
    "no rows": ({"X": np.zeros((0, 3))}, ["no rows"]),
    "y is too long": ({"X": SQUARE, "y": [0, 1, 2]}, ["y", "2"]),
    "y is a matrix": ({"X": SQUARE, "y": [[0], [1]]}, ["y", "2"]),
    "y is a number": ({"X": SQUARE, "y": 1}, ["y", "2"]),
    "a feature is named y": ({"X": SQUARE, "y": [7, 9], "feature_names": ["x", "y"]}, ["'y'"]),
    "too few names": ({"X": SQUARE, "feature_names": ["a"]}, ["feature_names", "2"]),
    "a name twice": ({"X": SQUARE, "feature_names": ["a", "a"]}, ["feature_names", "2"]),
    "names are a matrix": ({"X": SQUARE, "feature_names": [["a", "b"]]}, ["feature_names", "2"]),
    "names are a string": ({"X": SQUARE, "feature_names": "ab"}, ["feature_names", "2"]),
    "X has objects": ({"X": np.array([[1, None]], object)}, ["'X'", "astype(str)"]),
    "y has objects": ({"X": SQUARE, "y": np.array(["a", None], object)}, ["'y'", "astype(str)"]),
    "names are objects": ({"X": SQUARE, "feature_names": np.array(["a"], object)}, ["objects"]),
}


@pytest.mark.parametrize(("arrays", "words"), WRONG_ARRAYS.values(), ids=WRONG_ARRAYS)
def test_npz_rejects_invalid_arrays(npz, arrays, words):
    rejected(npz(**arrays), *words)


def test_npz_rejects_decompression_bomb(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MAX_BYTES", 1_000_000)
    path = tmp_path / "data.npz"
    np.savez_compressed(path, X=np.zeros((2_000, 200)))
    assert path.stat().st_size < 10_000
    assert most_memory(lambda: rejected(path, "3,200,128", "np.savez")) < 500_000
    # An uncompressed file of this size is read.
    np.savez(path, X=np.zeros((2_000, 200)))
    assert read_table(path).n_rows == 2_000


def test_npz_with_wrong_sizes_takes_no_memory(tmp_path):
    """The archive or the header of an array declares another size than the data."""
    path = tmp_path / "data.npz"
    np.savez_compressed(path, X=np.zeros((20_000, 100)))
    with zipfile.ZipFile(path) as archive:
        (member,) = archive.infolist()
    content, size = path.read_bytes(), member.file_size.to_bytes(4, "little")
    assert content.count(size) >= 1
    path.write_bytes(content.replace(size, (1000).to_bytes(4, "little")))
    assert most_memory(lambda: rejected(path)) < 500_000
    for shape in ((0, 10**12), (10**12, 0)):
        header = io.BytesIO()
        np.lib.format.write_array_header_1_0(
            header, {"shape": shape, "fortran_order": False, "descr": "<f8"}
        )
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("X.npy", header.getvalue())
        assert most_memory(lambda: rejected(path)) < 500_000


@pytest.mark.parametrize(
    "content", [b"", b"a,b\n1,2\n", pickle.dumps([1, 2])], ids=["empty", "text", "pickle"]
)
def test_npz_error_does_not_recommend_pickle(tmp_path, content):
    path = tmp_path / "data.npz"
    path.write_bytes(content)
    with refused(path, "np.savez") as caught:
        read_table(path)
    assert "pickle" not in str(caught.value)


# -- Parquet --------------------------------------------------------------------------------------


def test_parquet_columns_become_numbers_and_text(parquet):
    path = parquet(
        {
            "int": pyarrow.array([1, None, -3]),
            "byte": pyarrow.array([1, 2, 255], pyarrow.uint8()),
            "bool": pyarrow.array([True, False, None]),
            "float": pyarrow.array([0.5, None, NAN]),
            "single": pyarrow.array([0.5, 1.5, None], pyarrow.float32()),
            "decimal": pyarrow.array([1, 2, None]).cast(pyarrow.decimal128(21, 2)),
            "text": pyarrow.array(["x", None, "long word"]),
            "codes": pyarrow.array(["u", "v", "u"]).dictionary_encode(),
        }
    )
    expected = {
        "int": [1.0, NAN, -3.0],
        "byte": [1.0, 2.0, 255.0],
        "bool": [1.0, 0.0, NAN],
        "float": [0.5, NAN, NAN],
        "single": [0.5, 1.5, NAN],
        "decimal": [1.0, 2.0, NAN],
        "text": ["x", "", "long word"],
        "codes": ["u", "v", "u"],
    }
    found = read_table(path)
    same(found, expected)
    assert found.name == str(path)


def test_parquet_row_groups_are_all_read(parquet):
    found = read_table(parquet({"n": np.arange(50_000), "w": np.arange(50_000).astype(str)}))
    assert np.array_equal(found.columns["n"], np.arange(50_000.0))
    assert found.columns["w"][-1] == "49999"


def test_parquet_missing_values_are_counted(parquet):
    path = parquet({"a": [None] * 3, "b": [1, 2, 3], "w": ["x", None, "z"], "y": [0, 1, 1]})
    with refused(path, "3 in 'a'", "1 in 'w' (first: row 2)"):
        encoder_of(read_table(path), missing="error")
    assert encoder_of(read_table(path)).feature_names == ["b", "w = x", "w = z"]


def test_parquet_rejects_duplicate_column_names(tmp_path):
    path = tmp_path / "data.parquet"
    column = pyarrow.array([1, 2])
    arrow_parquet.write_table(pyarrow.Table.from_arrays([column] * 3, ["a", "b", "a"]), path)
    rejected(path, "'a'", "rename")


@pytest.mark.parametrize("columns", [{}, {"a": [], "b": []}])
def test_parquet_rejects_empty_table(parquet, columns):
    rejected(parquet(columns), "no rows")


# -- damaged files --------------------------------------------------------------------------------


def binary_file(folder, suffix):
    """Write a valid file of a type."""
    path = folder / f"data.{suffix}"
    if suffix == "parquet":
        write_parquet(path, {"a": [1.0, 2.0, 3.0], "b": ["x", "y", None]}, 2)
    elif suffix == "npy":
        np.save(path, np.eye(20))
    else:
        save = np.savez if suffix == "npz" else np.savez_compressed
        path = folder / "data.npz"
        save(path, X=np.eye(20), y=["a"] * 20, feature_names=[f"c{p}" for p in range(20)])
    return path


@pytest.mark.parametrize("suffix", ["npz", "compressed npz", "npy", "parquet"])
def test_damaged_file_is_rejected(tmp_path, suffix):
    path = binary_file(tmp_path, suffix)
    whole = path.read_bytes()
    damaged = [b"", b"PAR1 nonsense PAR1", b"a,b\n1,2\n", whole[: len(whole) // 2]]
    if "npz" in suffix:
        changed = bytearray(whole)
        changed[100] ^= 255  # in X
        damaged += [bytes(changed), binary_file(tmp_path, "npy").read_bytes()]
    for content in damaged:
        path.write_bytes(content)
        rejected(path)
    for content in damaged_copies(whole, 150):
        path.write_bytes(content)
        with suppress(TableError):
            read_table(path)
    gc.collect()  # An open file is a warning.


# -- ranks ----------------------------------------------------------------------------------------


def messy_columns(n=203):
    """Return numbers with missing values, late text, a quoted newline, an id and labels."""
    rng = np.random.default_rng(0)
    late = np.where(np.arange(n) < 0.8 * n, rng.integers(0, 5, n).astype(str), "many")
    note = np.array(["plain", 'two\nlines, "quoted"', "x"])[rng.integers(0, 3, n)]
    hole = rng.normal(size=n).round(3)
    return {
        "row id": np.arange(n),
        "height": rng.normal(size=n).round(4),
        "hole": np.where(rng.random(n) < 0.2, None, hole),
        "late": late,
        "note": note,
        "class": np.array(["yes", "no", "maybe"])[rng.integers(0, 3, n)],
    }


def write_parquet(path, columns, rows_per_group):
    table = pyarrow.table({name: pyarrow.array(list(cells)) for name, cells in columns.items()})
    arrow_parquet.write_table(table, path, row_group_size=rows_per_group)


def read(path):
    """Return the dataset of this rank."""
    return current().rank, opened(str(path))


def assert_same_as_alone(path, size):
    """Compare the rows of all ranks with those of one process; return the numbers of rows."""
    _, alone = read(path)
    found = [samples for _, samples in run_ranks(size, lambda _: read(path))]
    for name in ("X", "y", "rows"):
        together = np.concatenate([getattr(samples, name) for samples in found])
        np.testing.assert_array_equal(together, getattr(alone, name))
    for samples in found:
        assert samples.decisions == alone.decisions
        assert samples.encoder.to_json() == alone.encoder.to_json()
    return [len(samples.X) for samples in found]


@pytest.mark.parametrize("rows_per_group", [17, 1000])
def test_parquet_is_partitioned_by_rows(tmp_path, rows_per_group):
    write_parquet(tmp_path / "messy.parquet", messy_columns(), rows_per_group)
    assert assert_same_as_alone(tmp_path / "messy.parquet", 3) == [67, 68, 68]


def test_more_ranks_than_rows(tmp_path):
    write_parquet(tmp_path / "few.parquet", {"a": [1.5, 2.0], "y": ["u", "v"]}, 1)
    assert assert_same_as_alone(tmp_path / "few.parquet", 3) == [0, 1, 1]


def test_parquet_folder_is_one_table(tmp_path):
    columns = messy_columns()
    folder = tmp_path / "parts"
    folder.mkdir()
    for k, part in enumerate((slice(0, 90), slice(90, 100), slice(100, None))):
        own = {name: cells[part] for name, cells in columns.items()}
        write_parquet(folder / f"{k}.parquet", own, 25)
    write_parquet(tmp_path / "whole.parquet", columns, 50)
    _, whole = read(tmp_path / "whole.parquet")
    assert_same_as_alone(folder, 3)
    _, samples = read(folder)
    np.testing.assert_array_equal(samples.X, whole.X)
    parts = stream_dataset(str(folder), samples.encoder, batch_size=40)
    np.testing.assert_array_equal(np.concatenate([part.X for part in parts]), whole.X)

    write_parquet(folder / "8.parquet", {"class": columns["class"]}, 50)
    for size in (1, 2):
        with pytest.raises(TableError, match=r"8\.parquet and .*0\.parquet have different columns"):
            run_ranks(size, lambda _: read(folder))
    (folder / "8.parquet").unlink()
    (folder / "9.parquet").write_bytes(b"no Parquet")
    with pytest.raises(TableError, match="is not a readable Parquet file"):
        run_ranks(2, lambda _: read(folder))


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed, np.save])
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_are_partitioned_by_rows(tmp_path, monkeypatch, save, order):
    monkeypatch.setattr(files, "BATCH_ROWS", 7)
    rng = np.random.default_rng(0)
    X = np.asarray(rng.normal(size=(50, 3)), np.float32, order=order)
    y = rng.integers(0, 2, 50)
    if save is np.save:
        path = tmp_path / "data.npy"
        np.save(path, np.asarray(np.column_stack([X, y]), order=order))
    else:
        path = tmp_path / "data.npz"
        save(path, X=X, y=np.array(["a", "b"])[y])
    assert assert_same_as_alone(path, 4) == [12, 13, 12, 13]
    _, samples = read(path)
    np.testing.assert_array_equal(samples.X, X)
    parts = stream_dataset(str(path), samples.encoder)
    np.testing.assert_array_equal(np.concatenate([part.X for part in parts]), X)


def test_invalid_files_are_rejected_over_ranks_as_alone(tmp_path):
    X, y = np.eye(50)[:, :3], np.arange(50) % 2
    (tmp_path / "data.csv").write_text("a,y\n1,x\n2,z\n")
    with pytest.raises(
        TableError, match=r"data\.csv cannot be read in parts by several ranks.*Parquet"
    ):
        run_ranks(2, lambda _: read(tmp_path / "data.csv"))
    np.savez(tmp_path / "objects.npz", X=X.astype(object), y=y)
    np.savez(tmp_path / "half.npz", X=X, y=y)
    whole = (tmp_path / "half.npz").read_bytes()
    (tmp_path / "half.npz").write_bytes(whole[: len(whole) // 2])
    np.savez(tmp_path / "nothing.npz")
    np.save(tmp_path / "flat.npy", y)
    np.save(tmp_path / "objects.npy", np.array([[1, "a"]], object))
    np.save(tmp_path / "empty.npy", np.zeros((0, 3)))
    write_parquet(tmp_path / "empty.parquet", {"a": [], "y": []}, 1)
    for name, message in {
        "objects.npz": "contains Python objects",
        "half.npz": "not a readable NPZ file",
        "nothing.npz": "must contain an array X",
        "flat.npy": r"must contain .* has the shape \(50,\)",
        "objects.npy": "not a readable NPY file",
        "empty.npy": "no rows",
        "empty.parquet": "no rows",
        "absent.npz": "No such file",
        "absent.parquet": "No such file",
    }.items():
        for size in (1, 3):
            with pytest.raises((TableError, FileNotFoundError), match=message) as caught:
                run_ranks(size, lambda _, name=name: read(tmp_path / name))
            assert name in str(caught.value)


@pytest.mark.parametrize("missing", [slice(140, None), slice(0, 90), slice(5, 7)])
def test_all_ranks_drop_rows_without_labels(tmp_path, missing):
    columns = messy_columns()
    columns["class"] = columns["class"].astype(object)
    columns["class"][missing] = None
    write_parquet(tmp_path / "messy.parquet", columns, 50)
    assert_same_as_alone(tmp_path / "messy.parquet", 3)
    columns["class"][:] = None
    write_parquet(tmp_path / "none.parquet", columns, 50)
    encoder = read(tmp_path / "messy.parquet")[1].encoder
    for size in (1, 3):
        with pytest.raises(TableError, match="'class' has no values"):
            run_ranks(
                size,
                lambda _: load_dataset(str(tmp_path / "none.parquet"), encoder, labelled=True),
            )


def test_unknown_values_are_counted_over_all_ranks(tmp_path):
    columns = messy_columns()
    write_parquet(tmp_path / "old.parquet", columns, 50)
    encoder = read(tmp_path / "old.parquet")[1].encoder
    columns["note"][[3, 100, 200]] = "new"
    path = str(tmp_path / "new.parquet")
    write_parquet(path, columns, 50)
    for size in (1, 3):
        with pytest.warns(UserWarning, match=r"unknown cat.*: 3 in 'note' \('new'\)") as caught:
            run_ranks(size, lambda _: load_dataset(path, encoder, labelled=True))
        assert len(caught) == 1
        with pytest.raises(TableError, match="'note' contains the unknown category 'new'"):
            run_ranks(size, lambda _: load_dataset(path, encoder, strict=True))
