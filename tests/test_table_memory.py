"""Tables that do not fit into memory, links that lead nowhere, and very many columns."""

import gzip
import subprocess
import sys
import time

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from commands import bad
from maxplus.tables import RawTable, TableError, read_table
from maxplus.tables import files as table_memory
from maxplus.training import memory
from table_helpers import opened

N_ROWS = 400_000


@pytest.fixture
def little_memory(monkeypatch):
    """Four megabytes are left, and every table is checked."""
    monkeypatch.setattr(table_memory, "ALWAYS_READ", 1 << 16)
    monkeypatch.setattr(memory, "available_bytes", lambda: 4_000_000)


def packed_csv(path, n_rows=N_ROWS):
    """Return a file of some kilobytes that unpacks to many rows."""
    path.write_bytes(gzip.compress(b"a,class\n" + b"1,0\n2,1\n" * (n_rows // 2)))
    return path


def run_lengths(path, n_rows=N_ROWS):
    """Return a file of some kilobytes whose columns are long runs."""
    columns = {name: np.repeat([0.0, 1.0], n_rows // 2) for name in ("a", "class")}
    parquet.write_table(pyarrow.table(columns), path)
    return path


@pytest.mark.parametrize(
    ("make", "name"), [(packed_csv, "data.csv.gz"), (run_lengths, "data.parquet")]
)
def test_tables_larger_than_memory_are_rejected(tmp_path, little_memory, make, name):
    path = make(tmp_path / name)
    assert path.stat().st_size < 100_000
    with pytest.raises(TableError, match=r"needs at least .* MB of memory, but only .* available"):
        read_table(path)
    assert "fewer rows or columns" in bad("train", path)


def test_too_large_parquet_is_rejected_before_reading(tmp_path, little_memory, monkeypatch):
    path = run_lengths(tmp_path / "data.parquet")
    monkeypatch.setattr(parquet.ParquetFile, "iter_batches", None)
    with pytest.raises(TableError, match="of memory"):
        read_table(path)


def test_tables_that_fit_are_read(tmp_path, little_memory):
    assert read_table(packed_csv(tmp_path / "data.csv.gz", 4000)).n_rows == 4000
    assert read_table(run_lengths(tmp_path / "data.parquet", 4000)).n_rows == 4000


def test_features_larger_than_memory_are_rejected(little_memory):
    words = np.array([f"w{k % 25}" for k in range(60_000)], object)
    table = RawTable("t", {"a": words, "y": np.arange(60_000.0) % 2})
    with pytest.raises(TableError, match=r"t needs at least 12\.0 MB of memory"):
        opened(table)


@pytest.mark.parametrize("kind", [MemoryError, pyarrow.ArrowMemoryError])
@pytest.mark.parametrize("name", ["data.csv", "data.parquet"])
def test_failed_allocations_are_table_errors(tmp_path, monkeypatch, kind, name):
    def fail(*_, **__):
        raise kind("malloc of size 64 failed")

    path = tmp_path / name
    if name.endswith("csv"):
        path.write_text("a,class\n1,2\n")
        monkeypatch.setattr("maxplus.tables.csv_files._numbers", fail)
    else:
        run_lengths(path, 100)
        monkeypatch.setattr(parquet.ParquetFile, "iter_batches", fail)
    with pytest.raises(TableError, match="does not fit into memory"):
        read_table(path)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_available_memory_respects_address_space_limit():
    program = (
        "import resource; from maxplus.training.memory import available_bytes\n"
        "used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (used + 50_000_000, resource.RLIM_INFINITY))\n"
        "assert available_bytes() <= 50_000_000, available_bytes()\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


def test_link_loops_are_table_errors(tmp_path):
    loop = tmp_path / "loop.csv"
    loop.symlink_to(tmp_path / "loop2.csv")
    (tmp_path / "loop2.csv").symlink_to(loop)
    with pytest.raises(TableError, match="symbolic link"):
        read_table(loop)
    assert "symbolic link" in bad("train", loop)


def test_folders_that_contain_themselves_are_table_errors(tmp_path):
    (tmp_path / "self.parquet").symlink_to(tmp_path)
    with pytest.raises(TableError, match=r"self\.parquet is not a file"):
        read_table(tmp_path)
    assert "is not a file" in bad("train", tmp_path)


def test_text_without_line_breaks_is_rejected(tmp_path):
    path = tmp_path / "data.csv.gz"
    path.write_bytes(gzip.compress(b"a" * (1 << 23)))
    with pytest.raises(TableError, match="no header"):
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
