"""Parquet files as they come, whole or damaged."""

from contextlib import suppress

import numpy as np
import pytest

from damage import mutations
from maxplus.tables import TableError, read_table
from table_helpers import encoder_of, refused, same


def test_parquet_columns_become_numbers_and_words(parquet):
    import pyarrow

    path = parquet(
        {
            "int": pyarrow.array([1, None, -3]),
            "byte": pyarrow.array([1, 2, 255], pyarrow.uint8()),
            "bool": pyarrow.array([True, False, None]),
            "float": pyarrow.array([0.5, None, float("nan")]),
            "single": pyarrow.array([0.5, 1.5, None], pyarrow.float32()),
            "categories": pyarrow.array(["x", None, "long word"]),
            "codes": pyarrow.array(["u", "v", "u"]).dictionary_encode(),
        }
    )
    nan = np.nan
    expected = {
        "int": [1.0, nan, -3.0],
        "byte": [1.0, 2.0, 255.0],
        "bool": [1.0, 0.0, nan],
        "float": [0.5, nan, nan],
        "single": [0.5, 1.5, nan],
        "categories": ["x", "", "long word"],
        "codes": ["u", "v", "u"],
    }
    found = read_table(path)
    same(found, expected)
    assert found.name == str(path)


def test_parquet_is_read_in_whole(parquet):
    found = read_table(parquet({"n": np.arange(50_000), "w": np.arange(50_000).astype(str)}))
    assert found.n_rows == 50_000
    assert np.array_equal(found.columns["n"], np.arange(50_000.0))
    assert found.columns["w"][-1] == "49999"


def test_missing_values_of_parquet_are_counted(parquet):
    path = parquet({"a": [1.0, None, None], "w": ["x", None, "x"], "y": [0, 1, 1]})
    with refused(path, "2 in 'a'", "1 in 'w' (first in row 2)"):
        encoder_of(read_table(path), missing="error")


def test_a_parquet_column_of_nothing_is_missing_values(parquet):
    path = parquet({"a": [None, None, None], "b": [1, 2, 3], "y": [0, 1, 1]})
    with refused(path, "missing", "3 in 'a'"):
        encoder_of(read_table(path), missing="error")
    assert encoder_of(read_table(path)).feature_names == ["b"]


def test_parquet_columns_of_one_name_are_refused(tmp_path):
    import pyarrow
    from pyarrow import parquet

    path = tmp_path / "data.parquet"
    column = pyarrow.array([1, 2])
    parquet.write_table(pyarrow.Table.from_arrays([column] * 3, ["a", "b", "a"]), path)
    with refused(path, "'a'", "rename"):
        read_table(path)


@pytest.mark.parametrize("rows", [[], None])
def test_parquet_without_rows_is_refused(parquet, rows):
    path = parquet({} if rows is None else {"a": rows, "b": rows})
    with refused(path):
        read_table(path)


@pytest.mark.parametrize("damage", ["empty", "garbage", "cut", "footer"])
def test_damaged_parquet_is_refused(parquet, damage):
    path = parquet({"a": [1, 2], "b": [3, 4]})
    content = path.read_bytes()
    damaged = {
        "empty": b"",
        "garbage": b"PAR1 nonsense PAR1",
        "cut": content[: len(content) // 2],
        "footer": content[:4] + bytes(len(content) - 12) + content[-8:],
    }
    path.write_bytes(damaged[damage])
    with refused(path):
        read_table(path)


def test_parquet_with_any_damage_is_read_or_refused(parquet):
    path = parquet({"a": [1.0, 2.0, 3.0], "b": ["x", "y", None]})
    for content in mutations(path.read_bytes(), 100):
        path.write_bytes(content)
        with suppress(TableError):
            read_table(path)
