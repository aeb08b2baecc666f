"""Damaged and hostile containers: refused with one line, without a crash or much memory."""

import json
import os

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from safetensors.numpy import load_file, save_file

import maxplus
from file_mutations import damaged_copies, tamper
from maxplus import LMMClassifier
from maxplus.io import FileError, container
from maxplus.io.checkpoints import read_checkpoint
from maxplus.io.models import KIND, save
from memory_used import most_memory


@pytest.fixture
def path(tmp_path, fitted):
    fitted.save(tmp_path / "model", remember_rows=True)
    return tmp_path / "model"


def message(path):
    """Return the message about a file that cannot be loaded: one line that names the file."""
    with pytest.raises(FileError) as caught:
        maxplus.load(path)
    text = str(caught.value)
    assert str(path) in text
    assert "\n" not in text
    assert len(text) <= container.MAX_MESSAGE
    return text


def test_load_refuses_randomly_mutated_files(path, fitted, iris):
    expected = fitted.predict_proba(iris.X)
    refused = 0
    for data in damaged_copies(path.read_bytes(), 200):
        path.write_bytes(data)
        try:
            model = maxplus.load(path)
        except FileError:
            refused += 1
        else:
            # A mutated file that loads must give the same model.
            assert_array_equal(model.predict_proba(iris.X), expected)
    assert refused > 150


def test_load_accepts_rewritten_file(path):
    tamper(path, lambda document, arrays: None)
    maxplus.load(path)


def test_load_refuses_foreign_files(tmp_path, path, monkeypatch):
    save_file({"x": np.zeros(3)}, tmp_path / "foreign")
    assert "was not written by maxplus" in message(tmp_path / "foreign")
    for content in (b"", b"hello", b"hello, this is a text"):
        (tmp_path / "text").write_bytes(content)
        assert "not a readable maxplus-model file" in message(tmp_path / "text")
    monkeypatch.setattr(container, "MAX_BYTES", 100)
    assert "at most 100 are read" in message(path)


@pytest.mark.parametrize("length", [2**20, 2**40, 2**63 - 1, 2**64 - 1])
def test_load_refuses_header_longer_than_file(path, length):
    path.write_bytes(length.to_bytes(8, "little") + path.read_bytes()[8:])
    assert "not a readable maxplus-model file" in message(path)


HEADERS = {
    "BF16": lambda h: h["model.W0"].update(dtype="BF16"),
    "F8": lambda h: h["model.W0"].update(dtype="F8_E4M3"),
    "no type": lambda h: h["model.W0"].update(dtype=None),
    "list as type": lambda h: h["model.W0"].update(dtype=["F64"]),
    "shape": lambda h: h["model.W0"].update(shape=[2**62, 2**62]),
    "negative shape": lambda h: h["model.W0"].update(shape=[-1, -8]),
    "string as shape": lambda h: h["model.W0"].update(shape="8"),
    "many axes": lambda h: h["model.W0"].update(shape=[1] * 1000),
    "offsets": lambda h: h["model.W0"].update(data_offsets=[0, 10**12]),
    "three offsets": lambda h: h["model.W0"].update(data_offsets=[0, 1, 2]),
    "an array twice": lambda h: h.update(again=h["model.W0"]),
    "a missing array": lambda h: h.pop("model.W0"),
    "string as array": lambda h: h.update({"model.W0": "F64"}),
    "list as metadata": lambda h: h.update(__metadata__=[1]),
    "number as metadata": lambda h: h["__metadata__"].update(version=1),
    "lone surrogate": lambda h: h["__metadata__"].update(document="\ud800"),
}


@pytest.mark.parametrize("has_digest", [False, True])
@pytest.mark.parametrize("name", HEADERS)
def test_load_refuses_damaged_header(path, name, has_digest):
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header, data = json.loads(content[8 : 8 + length]), content[8 + length :]
    HEADERS[name](header)
    if has_digest and isinstance(header["__metadata__"], dict):
        metadata = header.pop("__metadata__")
        metadata["digest"] = container._digest(KIND, metadata["document"], header, data)
        header["__metadata__"] = metadata
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    assert "readable maxplus-model file" in message(path) or not has_digest


NUMBERS = {
    "parameter": lambda d: d["parameters"].update(slope=10**399),
    "attribute": lambda d: d["attributes"].update(slope_=10**399),
    "features": lambda d: d.update(n_features=10**399),
    "class": lambda d: d["classes"].update(values=[0, 1, 10**399]),
    "notes": lambda d: d.update(notes=[10**399]),
}


@pytest.mark.parametrize("change", NUMBERS.values(), ids=NUMBERS)
def test_load_refuses_integers_of_hundreds_of_digits(path, change):
    tamper(path, lambda document, arrays: change(document))
    assert "400 digits" in message(path)


def test_fit_refuses_slope_beyond_all_floats():
    with pytest.raises(ValueError, match="slope must be a finite number > 0"):
        LMMClassifier(slope=10**399).fit([[0.0], [1.0]], [0, 1])


@pytest.mark.parametrize("value", ["x", [], 1.5, 0, [["a", "b"]]])
def test_load_refuses_n_jobs_of_wrong_type(path, value):
    tamper(path, lambda document, arrays: document["parameters"].update(n_jobs=value))
    assert "n_jobs must be" in message(path)


def test_load_refuses_wide_labels_without_allocating_them(path):
    labels = {"type": "<U25000", "values": [str(n) for n in range(20_000)]}
    tamper(path, lambda document, arrays: document.update(classes=labels))
    assert "20,000 labels take too much memory" in message(path)
    assert most_memory(lambda: message(path)) < 40_000_000


def test_load_refuses_labels_of_unspecified_length(path):
    """NumPy replaces a length of 0 by that of the longest string, which can be large."""
    labels = {"type": "<U0", "values": ["a", "b", "c"]}
    tamper(path, lambda document, arrays: document.update(classes=labels))
    assert "classes.type cannot be '<U0'" in message(path)


def test_load_refuses_long_names_of_candidates_without_allocating_them(path):
    names = ["a" * 25_000] + ["b"] * 20_000
    search = {"candidates": names, "losses": [[0.5]] * len(names), "chosen": 0}
    tamper(path, lambda document, arrays: document.update(search=search))
    assert "search.candidates take too much memory" in message(path)
    assert most_memory(lambda: message(path)) < 40_000_000


def test_load_refuses_too_many_or_too_deep_lists(path, monkeypatch):
    monkeypatch.setattr(container, "MAX_CONTAINERS", 50_000)
    notes = [{} for _ in range(60_000)]
    tamper(path, lambda document, arrays: document.update(notes=notes))
    assert "lists and objects" in message(path)
    with pytest.raises(ValueError, match="nested too deeply"):
        container.parse("[" * 45_000)


def test_long_headers_are_neither_read_nor_written(tmp_path, fitted, monkeypatch):
    save(fitted, tmp_path / "m", notes="x" * 2000)
    monkeypatch.setattr(container, "MAX_HEADER", 2000)
    assert "at most 2,000 are read" in message(tmp_path / "m")
    with pytest.raises(ValueError, match="shorten the notes"):
        save(fitted, tmp_path / "n", notes="x" * 2000)
    assert not (tmp_path / "n").exists()


def test_load_refuses_file_larger_than_memory(path, monkeypatch):
    monkeypatch.setattr(container.memory, "available_bytes", lambda: 1000)
    assert "only 1.0 kB is available; read it on a larger machine" in message(path)


def test_load_refuses_file_truncated_while_reading(path, monkeypatch):
    monkeypatch.setattr(container.memory, "require", lambda *_: os.truncate(path, 100))
    assert "header is longer than the file" in message(path)


def test_safetensors_reads_the_same_arrays(tmp_path):
    written = {
        "a": np.zeros((0, 3), np.float32),
        "b": np.array([True]),
        "c": np.arange(3, dtype="u2"),
        "d": np.array([[np.nan, 1.0]]),
    }
    container.write_container(tmp_path / "m", KIND, {}, written)
    _, own = container.read_container(tmp_path / "m", KIND)
    others = load_file(tmp_path / "m")
    assert own.keys() == others.keys() == written.keys()
    for name, array in own.items():
        assert array.flags.writeable
        assert_array_equal(array, others[name], strict=True)
        assert_array_equal(array, written[name], strict=True)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
@pytest.mark.parametrize("read", [maxplus.load, read_checkpoint])
def test_load_refuses_pipe_without_reading(tmp_path, read):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    # Both ends are open, so that a reader would not block.
    both_ends = os.open(path, os.O_RDWR)
    try:
        os.write(both_ends, bytes(100))
        with pytest.raises(FileError, match=r"pipe is a device, a pipe or a socket; copy"):
            read(path)
        assert os.read(both_ends, 200) == bytes(100)
    finally:
        os.close(both_ends)


def test_file_error_message_is_one_short_line():
    error = FileError("a\n" * 1000)
    assert str(error).startswith("a a a")
    assert len(str(error)) == container.MAX_MESSAGE
