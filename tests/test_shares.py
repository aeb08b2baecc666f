"""Tables that ranks read in parts: the same rows, columns and decisions as one process has."""

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from maxplus.ranks import current
from maxplus.tables import Preparation, TableError, open_source
from teams import run_ranks


def messy_columns(n=203):
    """Numbers with holes, words that appear late, a quoted line's end, an id, labels."""
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


def write_csv(path, columns):
    def cell(value):
        text = "" if value is None else str(value)
        return '"' + text.replace('"', '""') + '"' if set(text) & set('",\n') else text

    lines = [",".join(columns)]
    lines += [",".join(map(cell, row)) for row in zip(*columns.values(), strict=True)]
    path.write_text("\n".join(lines) + "\n")


def write_parquet(path, columns, rows_per_group):
    table = pyarrow.table({name: pyarrow.array(list(cells)) for name, cells in columns.items()})
    parquet.write_table(table, path, row_group_size=rows_per_group)


def opened(path):
    samples = open_source(str(path))
    preparation = Preparation.of(samples, scale=True)
    return current().rank, samples, preparation


def same_as_alone(path, size):
    _, alone, prepared = opened(path)
    found = run_ranks(size, lambda _: opened(path))
    assert sum(len(samples.X) for _, samples, _ in found) == len(alone.X)
    np.testing.assert_array_equal(np.concatenate([s.X for _, s, _ in found]), alone.X)
    np.testing.assert_array_equal(np.concatenate([s.y for _, s, _ in found]), alone.y)
    np.testing.assert_array_equal(np.concatenate([s.rows for _, s, _ in found]), alone.rows)
    for _, samples, preparation in found:
        assert samples.decisions == alone.decisions
        assert preparation.to_json() == prepared.to_json()
    return [len(samples.X) for _, samples, _ in found]


@pytest.mark.parametrize("size", [2, 3, 5])
def test_csv_files_are_cut_between_rows(tmp_path, size):
    write_csv(tmp_path / "messy.csv", messy_columns())
    counts = same_as_alone(tmp_path / "messy.csv", size)
    assert max(counts) < 1.5 * min(counts)


def test_a_csv_file_of_fewer_rows_than_ranks(tmp_path):
    (tmp_path / "few.csv").write_text("a,b,y\n1,2,p\n3,4,q\n5,7,p\n")
    assert min(same_as_alone(tmp_path / "few.csv", 5)) == 0


@pytest.mark.parametrize("cut", range(1, 12))
def test_every_cut_of_quoted_lines_is_right(tmp_path, cut):
    rows = [f'{k},"{"a" * cut}\n""{k % 3}""\n","{"xy"[k % 2]}"' for k in range(20)]
    (tmp_path / "q.csv").write_text("n,words,y\n" + "\r\n".join(rows))
    same_as_alone(tmp_path / "q.csv", 3)


@pytest.mark.parametrize("rows_per_group", [17, 1000])
def test_parquet_files_are_cut_by_rows(tmp_path, rows_per_group):
    write_parquet(tmp_path / "messy.parquet", messy_columns(), rows_per_group)
    counts = same_as_alone(tmp_path / "messy.parquet", 3)
    assert max(counts) - min(counts) <= 1


def test_a_folder_of_parquet_files_is_one_table(tmp_path):
    columns = messy_columns()
    folder = tmp_path / "parts"
    folder.mkdir()
    for k, part in enumerate((slice(0, 90), slice(90, 100), slice(100, None))):
        own = {name: cells[part] for name, cells in columns.items()}
        write_parquet(folder / f"{k}.parquet", own, 25)
    write_parquet(tmp_path / "whole.parquet", columns, 50)
    alone = opened(tmp_path / "whole.parquet")[1]
    found = run_ranks(3, lambda _: opened(folder))
    np.testing.assert_array_equal(np.concatenate([s.X for _, s, _ in found]), alone.X)

    (folder / "9.parquet").write_bytes(b"no Parquet")
    with pytest.raises(TableError, match="not readable as Parquet"):
        run_ranks(2, lambda _: opened(folder))


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz_files_are_mapped_or_read(tmp_path, save):
    rng = np.random.default_rng(0)
    y = np.array(["a", "b"])[rng.integers(0, 2, 50)]
    save(tmp_path / "data.npz", X=rng.normal(size=(50, 3)).astype(np.float32), y=y)
    assert same_as_alone(tmp_path / "data.npz", 4) == [12, 13, 12, 13]


def test_a_missing_file_is_told_once_by_all(tmp_path):
    with pytest.raises(FileNotFoundError):
        run_ranks(2, lambda _: opened(tmp_path / "none.csv"))
