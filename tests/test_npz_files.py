"""NPZ files as they come, whole, wrong, damaged or hostile."""

import gc
import io
import pickle
import zipfile
from contextlib import suppress

import numpy as np
import pytest

from file_mutations import damaged_copies
from maxplus.tables import TableError, files, read_table
from memory_used import most_memory
from table_helpers import encoder_of, refused, same


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
    encoding = encoder_of(read)
    assert encoding.target_.name == "y"
    assert np.array_equal(encoding.transform(read), SQUARE)
    assert encoding.target_.labels(read).tolist() == ["u", "v"]


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
def test_npz_rejects_invalid_arrays(npz, arrays, words):
    path = npz(**arrays)
    with refused(path, *words):
        read_table(path)


def test_npz_feature_named_y_is_kept(npz):
    path = npz(X=SQUARE, y=[7, 9], feature_names=["x", "y"])
    try:
        n_columns = len(read_table(path).columns)
    except TableError:
        return
    assert n_columns == 3


@pytest.mark.parametrize("damage", ["empty", "garbage", "cut", "changed", "npy", "text"])
def test_npz_rejects_damaged_file(npz, damage):
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


def test_npz_rejects_decompression_bomb(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MAX_BYTES", 1_000_000)
    path = tmp_path / "data.npz"
    np.savez_compressed(path, X=np.zeros((2_000, 200)))
    assert path.stat().st_size < 10_000

    def refusal():
        with refused(path, "3,200,128", "np.savez"):
            read_table(path)

    assert most_memory(refusal) < 500_000
    # As it takes memory without being packed, it may.
    np.savez(path, X=np.zeros((2_000, 200)))
    assert read_table(path).n_rows == 2_000


def test_npz_with_false_sizes_takes_no_memory(tmp_path):
    """The archive says little, and the packed bytes go on and on."""
    path = tmp_path / "data.npz"
    np.savez_compressed(path, X=np.zeros((20_000, 100)))
    with zipfile.ZipFile(path) as archive:
        (member,) = archive.infolist()
    content, size = path.read_bytes(), member.file_size.to_bytes(4, "little")
    assert content.count(size) >= 1
    path.write_bytes(content.replace(size, (1000).to_bytes(4, "little")))
    assert most_memory(lambda: refused_read(path)) < 500_000
    # Or an array that claims to be large and holds no row.
    for shape in ((0, 10**12), (10**12, 0)):
        header = io.BytesIO()
        np.lib.format.write_array_header_1_0(
            header, {"shape": shape, "fortran_order": False, "descr": "<f8"}
        )
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("X.npy", header.getvalue())
        assert most_memory(lambda: refused_read(path)) < 500_000


def refused_read(path):
    with refused(path):
        read_table(path)


@pytest.mark.parametrize("what", ["objects", "text", "pickle"])
def test_npz_messages_advise_nothing_dangerous(tmp_path, what):
    """NumPy would have its users load pickles."""
    path = tmp_path / "data.npz"
    if what == "objects":
        np.savez(path, X=SQUARE, y=np.array(["a", None], object))
    else:
        path.write_bytes(b"a,b\n1,2\n" if what == "text" else pickle.dumps([1, 2]))
    with pytest.raises(TableError) as caught:
        read_table(path)
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message
    assert "pickle" not in message
    assert (
        ("'y'" in message and "astype(str)" in message)
        if what == "objects"
        else "np.savez" in message
    )


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_mutated_npz_is_read_or_rejected(tmp_path, save):
    path = tmp_path / "data.npz"
    save(path, X=np.eye(3), y=["a", "b", "c"], feature_names=["p", "q", "r"])
    for content in damaged_copies(path.read_bytes(), 200):
        path.write_bytes(content)
        with suppress(TableError):
            read_table(path)
