"""Hostile model files: refused with one line, and without much memory."""

import json
import os

import numpy as np
import pytest
from safetensors.numpy import save as to_bytes

import maxplus
from maxplus import LMMClassifier
from maxplus.io import FileError, container, schema
from maxplus.io.checkpoints import read_checkpoint
from maxplus.io.models import KIND, describe, save
from memory_used import most_memory


@pytest.fixture(scope="module")
def described(fitted):
    return describe(fitted)


@pytest.fixture
def refusal(tmp_path, described):
    """Return the message about a model file after a change of its document and arrays."""

    def refusal(change):
        document, own = json.loads(json.dumps(described[0])), dict(described[1])
        change(document, own)
        container.write_container(tmp_path / "m", KIND, document, own)
        return message(tmp_path / "m")

    return refusal


def message(path):
    with pytest.raises(FileError) as caught:
        maxplus.load(path)
    text = str(caught.value)
    assert str(path) in text
    assert "\n" not in text
    assert len(text) <= container.MESSAGE
    return text


HUGE = 10**399
NUMBERS = {
    "parameter": lambda d: d["parameters"].update(slope=HUGE),
    "fact": lambda d: d["attributes"].update(slope_=HUGE),
    "features": lambda d: d.update(n_features=HUGE),
    "class": lambda d: d["classes"].update(values=[0, 1, HUGE]),
    "notes": lambda d: d.update(notes=[HUGE]),
}


@pytest.mark.parametrize("change", NUMBERS.values(), ids=NUMBERS)
def test_load_refuses_integers_of_hundreds_of_digits(refusal, change):
    assert "400 digits" in refusal(lambda document, own: change(document))


def test_fit_refuses_slope_beyond_all_floats():
    with pytest.raises(ValueError, match="slope must be a finite number > 0"):
        LMMClassifier(slope=HUGE).fit([[0.0], [1.0]], [0, 1])


@pytest.mark.parametrize("value", ["x", [], 1.5, 0, [["a", "b"]]])
def test_load_refuses_n_jobs_of_wrong_type(refusal, value):
    assert "n_jobs must be" in refusal(lambda d, a: d["parameters"].update(n_jobs=value))


def header_of(path):
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    return json.loads(content[8 : 8 + length]), content[8 + length :]


def put(path, header, data):
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


HEADERS = {
    "BF16": lambda h: h["model.W0"].update(dtype="BF16"),
    "F8": lambda h: h["model.W0"].update(dtype="F8_E4M3"),
    "no type": lambda h: h["model.W0"].update(dtype=None),
    "a list for a type": lambda h: h["model.W0"].update(dtype=["F64"]),
    "shape": lambda h: h["model.W0"].update(shape=[2**62, 2**62]),
    "negative shape": lambda h: h["model.W0"].update(shape=[-1, -8]),
    "shape in words": lambda h: h["model.W0"].update(shape="8"),
    "many axes": lambda h: h["model.W0"].update(shape=[1] * 1000),
    "place": lambda h: h["model.W0"].update(data_offsets=[0, 10**12]),
    "place of three": lambda h: h["model.W0"].update(data_offsets=[0, 1, 2]),
    "an array twice": lambda h: h.update(again=h["model.W0"]),
    "a missing array": lambda h: h.pop("model.W0"),
    "a word for an array": lambda h: h.update({"model.W0": "F64"}),
    "metadata": lambda h: h.update(__metadata__=[1]),
    "numbers for metadata": lambda h: h["__metadata__"].update(version=1),
    "half a letter": lambda h: h["__metadata__"].update(document="\ud800"),
}
ARRAY_HEADERS = [name for name in HEADERS if "metadata" not in name and name != "half a letter"]


@pytest.mark.parametrize("change", HEADERS.values(), ids=HEADERS)
def test_load_refuses_damaged_header(tmp_path, fitted, change):
    path = tmp_path / "m"
    fitted.save(path)
    header, data = header_of(path)
    change(header)
    put(path, header, data)
    message(path)


@pytest.mark.parametrize("change", [HEADERS[name] for name in ARRAY_HEADERS], ids=ARRAY_HEADERS)
def test_load_refuses_damaged_header_with_right_digest(tmp_path, fitted, change):
    path = tmp_path / "m"
    fitted.save(path)
    header, data = header_of(path)
    change(header)
    metadata = header.pop("__metadata__")
    arrays = json.dumps(header, sort_keys=True)
    metadata["digest"] = container._digest(KIND, metadata["document"], arrays, [data])
    put(path, header | {"__metadata__": metadata}, data)
    assert "not a readable maxplus-model file" in message(path)


def test_safetensors_reads_the_same_arrays(tmp_path, fitted):
    from safetensors.numpy import load_file

    fitted.save(tmp_path / "m")
    _, own = container.read_container(tmp_path / "m", KIND)
    others = load_file(tmp_path / "m")
    assert own.keys() == others.keys()
    for name, array in own.items():
        assert array.dtype == others[name].dtype
        assert np.array_equal(array, others[name], equal_nan=True)
        assert array.flags.writeable
    again = {
        "a": np.zeros((0, 3), np.float32),
        "b": np.array([True]),
        "c": np.arange(3, dtype="u2"),
    }
    container.write_container(tmp_path / "n", KIND, {}, again)
    _, found = container.read_container(tmp_path / "n", KIND)
    for name, array in again.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        assert np.array_equal(found[name], array)


def test_load_refuses_wide_labels_without_taking_memory(refusal):
    def change(document, own):
        document["classes"] = {"type": "<U25000", "values": [str(n) for n in range(20_000)]}

    assert most_memory(lambda: refusal(change)) < 40_000_000
    assert "20,000 labels have the type '<U25000'" in refusal(change)


def test_save_refuses_labels_too_large_to_load(monkeypatch):
    monkeypatch.setattr(schema, "MAX_LABEL_BYTES", 20)
    with pytest.raises(ValueError, match="use shorter labels"):
        schema.labels_to_json(np.array(["abc", "d"]))


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (["a", "b"], "not a list with a type"),
        ({"type": "<U1", "values": "ab"}, "not a list with a type"),
        ({"type": "object", "values": ["a", 1]}, "not all strings"),
        ({"values": ["a", "b"]}, "no known type: None"),
        ({"type": "<U" + "9" * 50, "values": ["a", "b"]}, "no known type"),
        ({"type": "O", "values": ["a", "b"]}, "2 labels have the type 'O'"),
        ({"type": "|i1", "values": [1, 300]}, "do not fit their type"),
        ({"type": "<i8", "values": [1, 2.5]}, "do not fit their type"),
        ({"type": "<i8", "values": [[1], [2]]}, "do not fit their type"),
    ],
)
def test_labels_from_json_refuses_wrong_types_and_values(record, words):
    with pytest.raises(ValueError, match=words):
        schema.labels_from_json(record)


def test_labels_round_trip_with_their_type():
    for written in (
        np.array(["b", "ä"]),
        np.array([True, False]),
        np.array([3, 5], np.int16),
        np.array([0.1, 2.0], np.float32),
        np.array(["b", "a longer one"], object),
    ):
        record = json.loads(json.dumps(schema.labels_to_json(written)))
        again = schema.labels_from_json(record)
        assert again.dtype == written.dtype
        assert again.tolist() == written.tolist()
    for kind in (np.array([1, "a"], object), np.array(["2020-01-01"], "datetime64[D]")):
        with pytest.raises(TypeError, match="cannot be saved; use strings, numbers or booleans"):
            schema.labels_to_json(kind)


def test_load_refuses_notes_with_too_many_or_too_deep_lists(refusal, monkeypatch):
    monkeypatch.setattr(container, "MAX_NESTS", 50_000)
    notes = [{} for _ in range(60_000)]
    assert "lists and objects" in refusal(lambda d, a: d.update(notes=notes))
    with pytest.raises(ValueError, match="nested too deeply"):
        container.parse("[" * 45_000)


def test_long_headers_are_neither_read_nor_written(tmp_path, fitted, monkeypatch):
    save(fitted, tmp_path / "m", notes="x" * 2000)
    monkeypatch.setattr(container, "MAX_HEADER", 2000)
    assert "at most 2,000 are read" in message(tmp_path / "m")
    with pytest.raises(ValueError, match="shorten the notes"):
        save(fitted, tmp_path / "n", notes="x" * 2000)
    assert not (tmp_path / "n").exists()


def sparse_file(path, n_bytes):
    """A file of zeros with a wrong digest, none of which is on the disk."""
    metadata = {"format": KIND, "version": "1", "document": "{}", "digest": "0" * 64}
    content = to_bytes({}, metadata=metadata)
    header = json.loads(content[8:])
    header["x"] = {"dtype": "U8", "shape": [n_bytes], "data_offsets": [0, n_bytes]}
    put(path, header, b"")
    os.truncate(path, path.stat().st_size + n_bytes)


def test_load_checks_digest_of_large_file_before_taking_memory(tmp_path):
    sparse_file(tmp_path / "m", 200_000_000)
    assert most_memory(lambda: message(tmp_path / "m")) < 10_000_000
    assert "does not match its digest" in message(tmp_path / "m")


def test_load_refuses_file_larger_than_memory(tmp_path, fitted, monkeypatch):
    fitted.save(tmp_path / "m")
    monkeypatch.setattr(container, "LARGE", 10)
    maxplus.load(tmp_path / "m")
    monkeypatch.setattr(container, "available_bytes", lambda: 1000)
    assert "only 1.0 kB are available" in message(tmp_path / "m")


@pytest.mark.parametrize("stage", ["header", "arrays"])
def test_load_refuses_file_truncated_while_reading(tmp_path, fitted, monkeypatch, stage):
    path = tmp_path / "m"
    fitted.save(path)
    read, size = container.read_header, path.stat().st_size

    def cut(file, size):
        if stage == "header":
            os.truncate(path, 100)
            return read(file, size)
        found = read(file, size)
        os.truncate(path, size - 1000)
        return found

    monkeypatch.setattr(container, "read_header", cut)
    message(path)
    assert path.stat().st_size < size


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
@pytest.mark.parametrize("read", [maxplus.load, read_checkpoint])
def test_load_refuses_pipe_without_reading(tmp_path, read):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    # Whoever opened it would not hang here, but read what is in it.
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
    assert len(str(error)) == container.MESSAGE
