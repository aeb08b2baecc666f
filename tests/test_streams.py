"""Streams: tables larger than memory, read in batches."""

import threading
import tracemalloc

import numpy as np
import pyarrow
import pytest

from maxplus.tables import (
    Number,
    UnknownValues,
    csv_files,
    read_batches,
    read_table,
    stream_dataset,
)
from maxplus.tables import encoder as encoder_module
from maxplus.tables.dataset import prefetch
from messy import DIALECTS, HEADER, expected, messy_rows, written
from table_helpers import encoder_of, opened, refused


@pytest.fixture(scope="module")
def rows():
    return messy_rows()


@pytest.fixture
def path(write, rows):
    return write(written(rows))


@pytest.fixture
def encoder(path):
    return opened(read_table(path)).encoder


@pytest.mark.parametrize("rows_at_once", [1, 7, 1000])
@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
def test_stream_batches_equal_the_table(
    write, rows, encoder, stdin, monkeypatch, rows_at_once, dialect
):
    monkeypatch.setattr(csv_files, "BLOCK_BYTES", 2000)
    # In the last rows: one warning for all batches, at the end.
    training = rows
    rows = [*rows[:-2], rows[-2] | {"sex": "?"}, rows[-1] | {"colour": "lila"}]
    content = written(rows, **dialect)
    names = encoder.feature_names
    path = write(content, "new.csv" + ".gz" * dialect.get("packed", False))
    sources = [str(path)]
    if not dialect.get("packed"):
        stdin(content)
        sources.append("-")
    for source in sources:
        with pytest.warns(UserWarning, match="1 in 'colour'.* 1 in 'sex'") as caught:
            parts = list(stream_dataset(source, encoder, rows_at_once, also=["patient"]))
        assert len(caught) == 1
        assert max(len(part.X) for part in parts) <= rows_at_once
        X = np.concatenate([part.X for part in parts])
        assert X[:-2].tolist() == expected(rows, training)[1][:-2]
        assert X[-1, [names.index(f"colour = {word}") for word in ("rot", "weiß")]].sum() == 0.0
        assert np.concatenate([part.y for part in parts]).tolist() == [r["class"] for r in rows]
        assert np.concatenate([part.rows for part in parts]).tolist() == list(range(len(rows)))
        ids = [word for part in parts for word in part.table.columns["patient"]]
        assert ids == [row["patient"] for row in rows]
        assert "note" not in parts[0].table.columns


def test_standard_input_is_read_as_table(stdin, rows):
    stdin(written(rows))
    assert opened("-").X.tolist() == expected(rows)[1]
    stdin(b"a,b\n1,2,3\n")
    with refused("standard input", "3 values"):
        opened("-")


def test_stream_raises_the_errors_of_the_table(write, rows, encoder, stdin):
    with refused("'size'", "--keep-columns"):
        list(stream_dataset(str(write(written(rows))), encoder, also=["size"]))
    fewer = [{name: cell for name, cell in row.items() if name != "age"} for row in rows]
    with refused("lacks column 'age'", "'town'"):
        list(stream_dataset(str(write(written(fewer))), encoder))
    others = [dict(row) for row in rows]
    others[100]["age"] = "x"
    stdin(written(others))
    with refused("standard input, row 101", "'age'", "'x'"):
        list(stream_dataset("-", encoder))
    with refused("no rows"):
        list(stream_dataset(str(write(",".join(HEADER) + "\n")), encoder))


def test_stream_encodes_rows_in_batches(path, rows, monkeypatch):
    monkeypatch.setattr(encoder_module, "ENCODING_ROWS", 7)
    found = opened(str(path))
    assert found.X.tolist() == expected(rows)[1]
    with refused(path, "line 5", "'weight'"):
        Number("weight").encode(found.table, np.zeros((150, 1)), UnknownValues())


def test_stream_finds_text_late_in_a_file(write, monkeypatch):
    monkeypatch.setattr(csv_files, "BLOCK_BYTES", 300)
    lines = [f"{k}.5,{'x' if k % 2 else 7},{k % 2}" for k in range(200)]
    encoder = encoder_of(read_table(write("\n".join(["a,b,y", *lines]))))
    lines[150] = lines[150].replace("150.5", " NA ")
    lines[:100] = [line.replace("x", "7") for line in lines[:100]]
    path = write("\n".join(["a,b,y", *lines]))
    with pytest.warns(UserWarning, match="1 in 'a'"):
        X = np.concatenate([part.X for part in stream_dataset(str(path), encoder)])
    assert encoder.feature_names == ["a", "b = 7", "b = x"]
    assert X[:100, 1].all()
    assert X[150:, 1].tolist() == [1.0, 0.0] * 25
    assert X[150, 0] == sorted(k + 0.5 for k in range(200))[99]


def test_stream_memory_does_not_grow_with_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_files, "BLOCK_BYTES", 1 << 16)
    line = "1.25,7.5,red,0\n2.5,1.5,blue,1\n"
    path = tmp_path / "long.csv"
    path.write_text("a,b,c,y\n" + line * 500)
    encoder = opened(read_table(path)).encoder

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

    # Both are longer than what pyarrow reads ahead.
    small, large = peak(100_000), peak(500_000)
    assert large < 2 * small


def test_stream_batches_without_schema_equal_the_table(path, monkeypatch):
    monkeypatch.setattr(csv_files, "BLOCK_BYTES", 2000)
    whole = read_table(path)
    parts = list(read_batches(path))
    assert len(parts) > 3
    for name, cells in whole.columns.items():
        together = [cell for part in parts for cell in part.columns[name].tolist()]
        assert str(together) == str(cells.tolist())


# -- prefetch --------------------------------------------------------------------------------------


def test_prefetch_keeps_order():
    assert list(prefetch(range(5))) == [0, 1, 2, 3, 4]
    assert list(prefetch([])) == []


def test_prefetch_computes_next_item_concurrently():
    made = [threading.Event() for _ in range(3)]

    def parts():
        for event in made:
            event.set()
            yield event

    for k, _ in enumerate(prefetch(parts())):
        assert all(event.wait(5.0) for event in made[: k + 2])
        # One ahead, and no more: memory holds two parts.
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
