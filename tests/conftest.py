"""Data that several test modules train on."""

import gc
import io
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris

from browsers import browser, keys, session  # noqa: F401

# Threads that wait for each other sleep, because spinning makes small parallel loops fifty times
# slower on a busy machine. The variable is read when Numba loads OpenMP.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# Temporary files are kept in memory where there is space, because ext4 flushes each file that is
# replaced, which takes milliseconds.
SHARED_MEMORY = Path("/dev/shm")
if os.access(SHARED_MEMORY, os.W_OK) and shutil.disk_usage(SHARED_MEMORY).free > 4e9:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(SHARED_MEMORY))

# Shells start background processes with SIGINT ignored; tests of Ctrl-C need the default handler.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A source distribution contains the library and its tests, but no documentation and no results.
if not (Path(__file__).parents[1] / "docs").is_dir():
    collect_ignore = ["documentation/test_documents.py", "documentation/test_site.py"]

# Files of MNIST beside the project; without them, tests that need them are skipped.
BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"
if BESIDE.is_dir():
    os.environ.setdefault("MAXPLUS_DATA", str(BESIDE))


def pytest_collection():
    """Disable garbage collection during collection of tests, which creates no garbage."""
    gc.disable()


def pytest_collection_finish():
    """Exclude modules and tests from garbage collection, because they live until the end."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def _unannounced():
    """Make the output of commands independent of which kernels are compiled."""
    from maxplus.training import monitor

    monitor._announced.set()


class Data(NamedTuple):
    """Samples and labels 0..C−1."""

    X: np.ndarray
    y: np.ndarray

    def astype(self, dtype):
        return Data(self.X.astype(dtype), self.y)


@pytest.fixture(scope="session")
def iris():
    """Return three classes, two of which overlap, with many equal values."""
    return Data(*load_iris(return_X_y=True))


@pytest.fixture(scope="session")
def digits():
    """Return ten classes with 64 features of few values, some of them constant."""
    X, y = load_digits(return_X_y=True)
    # C-contiguous, because kernels would be compiled again for other layouts.
    return Data(np.ascontiguousarray(X[:500]), y[:500])


@pytest.fixture(scope="session")
def cloud():
    """Return 45 samples of noise, which are hard for every model."""
    rng = np.random.default_rng(7)
    return Data(rng.normal(size=(45, 4)), np.arange(45) % 3)


@pytest.fixture(scope="session")
def pair(cloud):
    """Return the cloud with two classes."""
    return Data(cloud.X, cloud.y % 2)


@pytest.fixture(scope="session")
def without_prototypes(iris):
    """Return a classifier on iris with random initial weights and string labels."""
    from maxplus import SubgradientLMMClassifier

    model = SubgradientLMMClassifier(8, init="gaussian", max_iter=60, random_state=0)
    return model.fit(iris.X, np.array(["setosa", "versicolor", "virginica"])[iris.y])


@pytest.fixture(scope="session")
def few_digits(digits):
    """Return the digits 0 to 4."""
    chosen = digits.y < 5
    return Data(digits.X[chosen], digits.y[chosen])


@pytest.fixture(scope="session")
def reader(few_digits):
    """Return a classifier of the digits 0 to 4."""
    from maxplus import SubgradientLMMClassifier

    return SubgradientLMMClassifier(10, max_iter=300, random_state=0).fit(
        few_digits.X, few_digits.y
    )


@pytest.fixture
def small_chunks(monkeypatch):
    """Set chunks of sixteen lanes that are regrouped at once."""
    from maxplus.training.engines.sparse import engine

    monkeypatch.setattr("maxplus.training.engines.sparse._state.MAX_LANES", 16)
    monkeypatch.setattr(engine, "REGROUP_FROM", 2)


@pytest.fixture
def two_workers(small_chunks, monkeypatch):
    """Search small chunks with two threads, which is slow if processors are busy."""
    import numba

    from maxplus.training.engines.sparse import engine

    monkeypatch.setattr(engine, "PARALLEL_FROM", 0)
    before = numba.get_num_threads()
    numba.set_num_threads(min(2, numba.config.NUMBA_NUM_THREADS))
    yield
    numba.set_num_threads(before)


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
    """Read a CSV file with this text."""
    from maxplus.tables import read_table

    return lambda text, name="data.csv": read_table(write(text, name))


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


@pytest.fixture(scope="session")
def train_subgradient(tmp_path_factory):
    """Train a classifier with the command and return its file."""
    from commands import good, settings

    def train(source, n_iter, *options):
        path = tmp_path_factory.mktemp("models") / "model.maxplus"
        options += ("--algorithm", "subgradient", "--validate", "none", "-o", path)
        good("train", source, *settings("n_hidden=30", f"max_iter={n_iter}"), *options)
        return path

    return train


@pytest.fixture(scope="session")
def orchard_model(train_subgradient):
    """Return a model file trained on a table with a categorical column."""
    from commands import ORCHARD

    return train_subgradient(ORCHARD, 2000, "--categorical", "variety", "--remember-rows")


@pytest.fixture(scope="session")
def digits_model(train_subgradient):
    """Return a model file of small images."""
    return train_subgradient("digits", 300)


@pytest.fixture
def stdin(monkeypatch):
    """Give bytes to standard input."""

    def give(content):
        monkeypatch.setattr(sys, "stdin", type("In", (), {"buffer": io.BytesIO(content)}))

    return give


@pytest.fixture(scope="session")
def fitted(iris):
    """Return a classifier on iris with eight units at training samples."""
    from maxplus import SubgradientLMMClassifier

    return SubgradientLMMClassifier(8, max_iter=200, random_state=0).fit(iris.X, iris.y)


@pytest.fixture(scope="module")
def onnx():
    return pytest.importorskip("onnx", reason="onnx is not installed")


@pytest.fixture(scope="module")
def torch():
    """Import PyTorch with one thread, because its threads block each other on busy cores."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield torch
    torch.set_num_threads(threads)
