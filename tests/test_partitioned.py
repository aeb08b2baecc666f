"""Tables that ranks read in parts: the same rows, columns and decisions as one process has."""

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from maxplus.distributed import current
from maxplus.tables import TableError, load_dataset, stream_dataset
from table_helpers import opened
from thread_communicator import run_ranks


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
    parquet.write_table(table, path, row_group_size=rows_per_group)


def read(path):
    samples = opened(str(path))
    return current().rank, samples, samples.encoder


def same_as_alone(path, size):
    _, alone, prepared = read(path)
    found = run_ranks(size, lambda _: read(path))
    assert sum(len(samples.X) for _, samples, _ in found) == len(alone.X)
    np.testing.assert_array_equal(np.concatenate([s.X for _, s, _ in found]), alone.X)
    np.testing.assert_array_equal(np.concatenate([s.y for _, s, _ in found]), alone.y)
    np.testing.assert_array_equal(np.concatenate([s.rows for _, s, _ in found]), alone.rows)
    for _, samples, encoder in found:
        assert samples.decisions == alone.decisions
        assert encoder.to_json() == prepared.to_json()
    return [len(samples.X) for _, samples, _ in found]


def test_partitioned_reader_rejects_csv(tmp_path):
    (tmp_path / "data.csv").write_text("a,y\n1,x\n2,z\n")
    with pytest.raises(TableError, match=r"data\.csv cannot be read by several ranks.*Parquet"):
        run_ranks(2, lambda _: read(tmp_path / "data.csv"))


@pytest.mark.parametrize("rows_per_group", [17, 1000])
def test_parquet_is_partitioned_by_rows(tmp_path, rows_per_group):
    write_parquet(tmp_path / "messy.parquet", messy_columns(), rows_per_group)
    counts = same_as_alone(tmp_path / "messy.parquet", 3)
    assert max(counts) - min(counts) <= 1


def test_parquet_folder_is_one_table(tmp_path):
    columns = messy_columns()
    folder = tmp_path / "parts"
    folder.mkdir()
    for k, part in enumerate((slice(0, 90), slice(90, 100), slice(100, None))):
        own = {name: cells[part] for name, cells in columns.items()}
        write_parquet(folder / f"{k}.parquet", own, 25)
    write_parquet(tmp_path / "whole.parquet", columns, 50)
    alone = read(tmp_path / "whole.parquet")[1]
    found = run_ranks(3, lambda _: read(folder))
    np.testing.assert_array_equal(np.concatenate([s.X for _, s, _ in found]), alone.X)
    # One process reads it as well, whole and in parts.
    _, samples, encoder = read(folder)
    np.testing.assert_array_equal(samples.X, alone.X)
    parts = stream_dataset(str(folder), encoder, rows_at_once=40)
    np.testing.assert_array_equal(np.concatenate([part.X for part in parts]), alone.X)

    write_parquet(folder / "8.parquet", {"class": columns["class"]}, 50)
    for size in (1, 2):
        with pytest.raises(TableError, match=r"8\.parquet has other columns"):
            run_ranks(size, lambda _: read(folder))
    (folder / "8.parquet").unlink()
    (folder / "9.parquet").write_bytes(b"no Parquet")
    with pytest.raises(TableError, match="is not a readable Parquet file"):
        run_ranks(2, lambda _: read(folder))


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz_is_partitioned_by_rows(tmp_path, save):
    rng = np.random.default_rng(0)
    y = np.array(["a", "b"])[rng.integers(0, 2, 50)]
    save(tmp_path / "data.npz", X=rng.normal(size=(50, 3)).astype(np.float32), y=y)
    assert same_as_alone(tmp_path / "data.npz", 4) == [12, 13, 12, 13]


def test_partitioned_reader_rejects_damaged_npz_as_one_process(tmp_path):
    """Columns that lie one after the other; what is no table is refused over ranks as alone."""
    rng = np.random.default_rng(0)
    X, y = np.asfortranarray(rng.normal(size=(50, 3))), rng.integers(0, 2, 50)
    np.savez(tmp_path / "columns.npz", X=X, y=y)
    assert same_as_alone(tmp_path / "columns.npz", 4) == [12, 13, 12, 13]
    np.savez(tmp_path / "objects.npz", X=X.astype(object), y=y)
    whole = (tmp_path / "columns.npz").read_bytes()
    (tmp_path / "half.npz").write_bytes(whole[: len(whole) // 2])
    for name in ("objects.npz", "half.npz", "absent.npz"):
        words = []
        for size in (1, 3):
            with pytest.raises((TableError, OSError)) as refused:
                run_ranks(size, lambda _, name=name: read(tmp_path / name))
            words.append((refused.type, str(refused.value)))
        assert words[0] == words[1]
        assert name in words[0][1]
    np.savez(tmp_path / "nothing.npz")
    for size in (1, 3):
        with pytest.raises(TableError, match=r"nothing\.npz must contain an array X"):
            run_ranks(size, lambda _: read(tmp_path / "nothing.npz"))


def test_npy_is_memory_mapped(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 3)).astype(np.float32), rng.integers(0, 2, 50)
    np.save(tmp_path / "data.npy", np.column_stack([X, y]))
    assert same_as_alone(tmp_path / "data.npy", 4) == [12, 13, 12, 13]
    _, samples, encoder = read(tmp_path / "data.npy")
    np.testing.assert_array_equal(samples.X, X)
    np.testing.assert_array_equal(samples.y, y)
    (part,) = stream_dataset(str(tmp_path / "data.npy"), encoder)
    np.testing.assert_array_equal(part.X, X)

    np.save(tmp_path / "flat.npy", y)
    with pytest.raises(TableError, match=r"flat\.npy must contain .* has the shape \(50,\)"):
        read(tmp_path / "flat.npy")
    np.save(tmp_path / "objects.npy", np.array([[1, "a"]], object))
    with pytest.raises(TableError, match="not a readable NPY file"):
        read(tmp_path / "objects.npy")
    np.save(tmp_path / "empty.npy", np.zeros((0, 3)))
    for size in (1, 2):
        with pytest.raises(TableError, match="no rows"):
            run_ranks(size, lambda _: read(tmp_path / "empty.npy"))


@pytest.mark.parametrize("lacking", [slice(140, None), slice(0, 90), slice(5, 7)])
def test_all_ranks_drop_rows_without_labels(tmp_path, lacking):
    columns = messy_columns()
    columns["class"] = columns["class"].astype(object)
    columns["class"][lacking] = None
    write_parquet(tmp_path / "messy.parquet", columns, 50)
    same_as_alone(tmp_path / "messy.parquet", 3)
    columns["class"][:] = None
    write_parquet(tmp_path / "none.parquet", columns, 50)
    encoder = read(tmp_path / "messy.parquet")[2]
    for size in (1, 3):
        with pytest.raises(TableError, match="'class' has no values"):
            run_ranks(size, lambda _: reopened(tmp_path / "none.parquet", encoder))


def reopened(path, encoder, **options):
    return load_dataset(str(path), encoder, labelled=True, **options)


def test_unknown_values_are_counted_over_all_ranks(tmp_path):
    columns = messy_columns()
    write_parquet(tmp_path / "old.parquet", columns, 50)
    encoder = read(tmp_path / "old.parquet")[2]
    columns["note"][[3, 100, 200]] = "new"
    write_parquet(tmp_path / "new.parquet", columns, 50)
    for size in (1, 3):
        with pytest.warns(
            UserWarning, match=r"unknown categories.*: 3 in 'note' \('new'\)"
        ) as caught:
            run_ranks(size, lambda _: reopened(tmp_path / "new.parquet", encoder))
        assert len(caught) == 1
        with pytest.raises(TableError, match="'note' contains the unknown category 'new'"):
            run_ranks(size, lambda _: reopened(tmp_path / "new.parquet", encoder, strict=True))


def test_missing_file_is_reported_once_over_ranks(tmp_path):
    with pytest.raises(FileNotFoundError):
        run_ranks(2, lambda _: read(tmp_path / "none.parquet"))
