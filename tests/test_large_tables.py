"""Large tables: limits of memory, many columns, and prefetching."""

import gzip
import subprocess
import sys
import threading
import time
import tracemalloc

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet as arrow_parquet

from commands import bad
from maxplus.tables import RawTable, csv_files, files, read_table, stream_dataset
from maxplus.tables.dataset import prefetch
from maxplus.training import memory
from table_helpers import encoder_of, opened, refused


def test_stream_memory_does_not_grow_with_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_files, "BLOCK_BYTES", 1 << 16)
    line = "1.25,7.5,red,0\n2.5,1.5,blue,1\n"
    path = tmp_path / "long.csv"
    path.write_text("a,b,c,y\n" + line * 500)
    encoder = encoder_of(read_table(path))

    def peak(n):
        path.write_text("a,b,c,y\n" + line * n)
        tracemalloc.start()
        n_rows = arrow = 0
        for part in stream_dataset(str(path), encoder):
            n_rows += len(part.X)
            arrow = max(arrow, pyarrow.total_allocated_bytes())
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert n_rows == 2 * n
        return most + arrow

    # Both files are longer than what pyarrow reads ahead.
    small, large = peak(200_000), peak(800_000)
    assert large < 2 * small


# -- limits ---------------------------------------------------------------------------------------


@pytest.fixture
def little_memory(monkeypatch):
    """Limit the available memory to four megabytes, including for small tables."""
    monkeypatch.setattr(files, "ALWAYS_READ", 1 << 16)
    monkeypatch.setattr(memory, "available_bytes", lambda: 4_000_000)


def compressed_csv(path, n_rows=400_000):
    """Write a file of some kilobytes that is decompressed to many rows."""
    path.write_bytes(gzip.compress(b"a,class\n" + b"1,0\n2,1\n" * (n_rows // 2)))
    return path


def run_lengths(path, n_rows=400_000):
    """Write a Parquet file of some kilobytes with long runs of values."""
    columns = {name: np.repeat([0.0, 1.0], n_rows // 2) for name in ("a", "class")}
    arrow_parquet.write_table(pyarrow.table(columns), path)
    return path


@pytest.mark.parametrize(
    ("make", "name"), [(compressed_csv, "data.csv.gz"), (run_lengths, "data.parquet")]
)
def test_tables_larger_than_memory_are_rejected(tmp_path, little_memory, monkeypatch, make, name):
    assert read_table(make(tmp_path / name, 4000)).n_rows == 4000
    path = make(tmp_path / name)
    assert path.stat().st_size < 100_000
    # Parquet files are rejected before any rows are read.
    monkeypatch.setattr(arrow_parquet.ParquetFile, "iter_batches", None)
    with refused("needs at least", "MB of memory", "available"):
        read_table(path)
    assert "fewer rows or columns" in bad("train", path)


def test_features_larger_than_memory_are_rejected(little_memory):
    words = np.array([f"w{k % 25}" for k in range(60_000)], object)
    with refused("t needs at least 12.0 MB of memory"):
        opened(RawTable("t", {"a": words, "y": np.arange(60_000.0) % 2}))


@pytest.mark.parametrize("kind", [MemoryError, pyarrow.ArrowMemoryError])
@pytest.mark.parametrize("name", ["data.csv", "data.parquet"])
def test_failed_allocations_are_table_errors(tmp_path, monkeypatch, kind, name):
    def fail(*_, **__):
        raise kind("malloc of size 64 failed")

    path = run_lengths(tmp_path / name, 100)
    if name.endswith("csv"):
        path.write_text("a,class\n1,2\n")
    monkeypatch.setattr("maxplus.tables.csv_files._numbers", fail)
    monkeypatch.setattr(arrow_parquet.ParquetFile, "iter_batches", fail)
    with refused("does not fit into memory"):
        read_table(path)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_available_memory_respects_address_space_limit():
    program = (
        "import resource; from maxplus.training.memory import available_bytes\n"
        "used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (used + 50_000_000, resource.RLIM_INFINITY))\n"
        "assert available_bytes() <= 50_000_000, available_bytes()\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


def test_cyclic_links_are_table_errors(tmp_path):
    loop = tmp_path / "loop.csv"
    loop.symlink_to(tmp_path / "loop2.csv")
    (tmp_path / "loop2.csv").symlink_to(loop)
    (tmp_path / "self.parquet").symlink_to(tmp_path)
    for path, message in ((loop, "symbolic link"), (tmp_path, "self.parquet is not a file")):
        with refused(message):
            read_table(path)
        assert message in bad("train", path)


def test_text_without_line_breaks_is_rejected(tmp_path):
    path = tmp_path / "data.csv.gz"
    path.write_bytes(gzip.compress(b"a" * (1 << 23)))
    with refused("no header"):
        read_table(path)


def test_reading_many_columns_is_not_quadratic(tmp_path):
    def seconds(n):
        """Return the least processor time of three attempts."""
        path = tmp_path / f"{n}.csv"
        names = ",".join(f"c{k}" for k in range(n))
        path.write_text(f"{names}\n" + f"{','.join(['0.5'] * n)}\n" * 3)
        found = []
        for _ in range(3):
            began = time.process_time()
            read_table(path)
            found.append(time.process_time() - began)
        return min(found)

    # Linear time is 4 times as long, quadratic time 16 times.
    assert seconds(12_000) < 8.0 * seconds(3_000)


# -- prefetch -------------------------------------------------------------------------------------


def test_prefetch_computes_one_item_ahead():
    assert list(prefetch([])) == []
    made = [threading.Event() for _ in range(3)]

    def parts():
        for event in made:
            event.set()
            yield event

    for k, event in enumerate(prefetch(parts())):
        assert event is made[k]
        assert all(event.wait(5.0) for event in made[: k + 2])
        # Two parts at most are in memory.
        assert not any(event.is_set() for event in made[k + 2 :])


def test_prefetch_raises_error_at_its_item():
    def parts():
        yield 1
        raise ValueError("line 7 is damaged")

    found = prefetch(parts())
    assert next(found) == 1
    with pytest.raises(ValueError, match="line 7"):
        next(found)


def test_prefetch_can_be_stopped_early():
    closed = threading.Event()

    def parts():
        try:
            yield from range(100)
        finally:
            closed.set()

    made = parts()
    found = prefetch(made)
    next(found)
    found.close()
    made.close()
    assert closed.is_set()
