"""Data sets: sources of files, checksums and the cache."""

import gzip
import hashlib
import http.server
import os
import stat
import threading
from functools import partial

import numpy as np
import pytest

from maxplus import datasets
from maxplus.datasets import DamagedFileError, DataNotFoundError
from mnist_files import NEEDS_MNIST


def compose(array):
    """Return an array in idx format."""
    return bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes() + array.tobytes()


def arrays():
    """Twelve tiny training images and five test images, with labels."""
    rng = np.random.default_rng(0)
    return {
        "train-images-idx3-ubyte": rng.integers(0, 256, (12, 28, 28), np.uint8),
        "train-labels-idx1-ubyte": rng.integers(0, 10, 12, np.uint8),
        "t10k-images-idx3-ubyte": rng.integers(0, 256, (5, 28, 28), np.uint8),
        "t10k-labels-idx1-ubyte": rng.integers(0, 10, 5, np.uint8),
    }


@pytest.fixture
def tiny(monkeypatch, tmp_path):
    """Replace the data set by tiny files that no source has, and return their contents."""
    contents = {name: compose(array) for name, array in arrays().items()}
    digests = {name: hashlib.md5(content).hexdigest() for name, content in contents.items()}
    collection = datasets.Collection("mnist", digests, ())
    monkeypatch.setattr(datasets, "MNIST", collection)
    monkeypatch.delenv("MAXPLUS_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "cache"))
    return contents


def write(folder, contents, zipped):
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        path = folder / (f"{name}.gz" if zipped else name)
        path.write_bytes(gzip.compress(content) if zipped else content)


def assert_tiny(data):
    expected = arrays()
    np.testing.assert_array_equal(data.y_train, expected["train-labels-idx1-ubyte"])
    np.testing.assert_array_equal(data.y_test, expected["t10k-labels-idx1-ubyte"])
    pixels = expected["train-images-idx3-ubyte"].reshape(12, 784)
    np.testing.assert_array_equal(np.rint(255 * data.X_train), pixels)
    assert data.X_train.dtype == np.float32
    assert data.X_test.shape == (5, 784)
    assert data.X_train.max() <= 1.0


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("subfolder", ["", "mnist"])
def test_mnist_is_read_from_folder(tiny, tmp_path, monkeypatch, zipped, subfolder):
    write(tmp_path / "data" / subfolder, tiny, zipped)
    assert_tiny(datasets.load_mnist(tmp_path / "data"))
    monkeypatch.setenv("MAXPLUS_DATA", str(tmp_path / "data"))
    assert_tiny(datasets.load_mnist())


def test_mnist_folder_without_files_is_rejected(tiny, tmp_path):
    with pytest.raises(DataNotFoundError, match=r"folder=.*train-images.*or omit it"):
        datasets.load_mnist(tmp_path)


@pytest.mark.parametrize("damage", ["truncated", "changed", "longer"])
def test_damaged_dataset_file_is_reported(tiny, tmp_path, damage):
    folder = tmp_path / "data"
    write(folder, tiny, True)
    path = folder / "t10k-labels-idx1-ubyte.gz"
    content = tiny["t10k-labels-idx1-ubyte"]
    path.write_bytes(
        {
            "truncated": path.read_bytes()[:-9],
            "changed": gzip.compress(content[:-1] + bytes([content[-1] ^ 1])),
            "longer": gzip.compress(content + b"x"),
        }[damage]
    )
    with pytest.raises(DamagedFileError, match=r"t10k-labels.*damaged.*delete it"):
        datasets.load_mnist(folder)


def test_damaged_dataset_cache_is_ignored(tiny):
    folder = datasets.cache_folder("mnist")
    write(folder, {**tiny, "train-labels-idx1-ubyte": b"nonsense"}, False)
    with (
        pytest.warns(UserWarning, match="train-labels.*damaged"),
        pytest.raises(DataNotFoundError, match="damaged"),
    ):
        datasets.load_mnist()


def test_missing_dataset_error_lists_sources(tiny, monkeypatch):
    offline = datasets.MNIST._replace(mirrors=("http://127.0.0.1:9/mnist",))
    monkeypatch.setattr(datasets, "MNIST", offline)
    with pytest.raises(DataNotFoundError) as caught:
        datasets.load_mnist()
    message = str(caught.value)
    for part in ("MAXPLUS_DATA", "not found", "127.0.0.1:9", "folder="):
        assert part in message


@pytest.fixture
def mirror(tmp_path):
    """Start a server on loopback and return (address, folder that it serves)."""
    folder = tmp_path / "served"
    folder.mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args):
            pass

    handler = partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", folder
        server.shutdown()


def test_download_is_verified_and_cached(tiny, monkeypatch, mirror):
    address, folder = mirror
    write(folder / "good", tiny, True)
    write(folder / "bad", {**tiny, "t10k-images-idx3-ubyte": b"something else"}, True)
    mirrors = (f"{address}/nowhere", f"{address}/bad", f"{address}/good")
    monkeypatch.setattr(datasets, "MNIST", datasets.MNIST._replace(mirrors=mirrors))
    assert_tiny(datasets.load_mnist())
    kept = sorted(path.name for path in datasets.cache_folder("mnist").iterdir())
    assert kept == sorted(f"{name}.gz" for name in tiny)
    monkeypatch.setattr(datasets, "MNIST", datasets.MNIST._replace(mirrors=()))
    assert_tiny(datasets.load_mnist())


def test_partial_download_is_not_cached(tiny, monkeypatch, mirror):
    address, folder = mirror
    write(folder, tiny, True)
    path = folder / "train-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:1000])
    monkeypatch.setattr(datasets, "MNIST", datasets.MNIST._replace(mirrors=(address,)))
    with pytest.raises(DataNotFoundError, match=address):
        datasets.load_mnist()
    assert not datasets.cache_folder("mnist").exists()


def test_unwritable_dataset_cache_is_ignored(tiny, monkeypatch, mirror):
    address, folder = mirror
    write(folder, tiny, True)
    monkeypatch.setattr(datasets, "MNIST", datasets.MNIST._replace(mirrors=(address,)))

    def full(*args):
        raise OSError("no space left")

    monkeypatch.setattr(datasets, "store", full)
    with pytest.warns(UserWarning, match="no space left"):
        assert_tiny(datasets.load_mnist())


@NEEDS_MNIST
@pytest.mark.parametrize("name", ["mnist", "fashion_mnist"])
def test_real_mnist_files_have_pinned_digests(name):
    data = getattr(datasets, f"load_{name}")()
    assert data.X_train.shape == (60_000, 784)
    assert data.X_test.shape == (10_000, 784)
    assert np.bincount(data.y_test).size == 10


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such permissions")
def test_cached_datasets_are_readable_by_others(tiny, tmp_path):
    before = os.umask(0o022)
    try:
        datasets.store(tmp_path / "cache", tiny)
    finally:
        os.umask(before)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "cache").iterdir()}
    assert modes == {0o644}
