"""``python -m experiments robust``: splits, results, and attacks on certified rows."""

import gzip
import json

import numpy as np
import pytest
from typer.testing import CliRunner

from experiments import robust
from experiments.__main__ import app
from maxplus.datasets import DataNotFoundError

pytestmark = pytest.mark.slow

runner = CliRunner()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Folder with a table with folds and a table in a fixed order, both with two features."""
    rng = np.random.default_rng(0)
    y = np.arange(100) % 2
    X = np.column_stack([0.6 * y + 0.2 * rng.random(100), rng.random(100)]).round(4)
    rows = [f"{a},{b},c{c},{n % 5}" for n, ((a, b), c) in enumerate(zip(X, y, strict=True))]
    text = "\n".join(["a,b,class,fold", *rows])
    (tmp_path / "haberman.csv.gz").write_bytes(gzip.compress(text.encode()))
    lines = ["a,b,label", *(f"{10 * a},{b},{c}" for (a, b), c in zip(X, y, strict=True))]
    (tmp_path / "ah-diabetes.csv.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    monkeypatch.setenv("MAXPLUS_ROBUST", str(tmp_path))
    return tmp_path


def test_splits_follow_the_files(folder):
    splits = robust.table_splits("haberman")
    assert len(splits) == 5
    assert all(split.X_train.shape == (80, 2) and split.y_test.size == 20 for split in splits)
    (split,) = robust.boosting_split("ah-diabetes")
    assert split.X_train.shape == (80, 2)
    assert split.X_train.min() == 0.0
    assert split.X_train.max() == 1.0
    assert robust.boosting_split("ah-diabetes", 1)[0].X_train.shape == (80, 1)


def test_missing_folder_raises(monkeypatch):
    monkeypatch.delenv("MAXPLUS_DATA", raising=False)
    monkeypatch.setenv("MAXPLUS_ROBUST", "no-such-folder")
    with pytest.raises(DataNotFoundError, match="MAXPLUS_ROBUST"):
        robust.find_folder()


def test_quick_run_writes_all_files(folder, monkeypatch):
    monkeypatch.setattr(robust, "QUICK_TASKS", ("haberman", "A&H diabetes"))
    result = runner.invoke(app, ["robust", "--quick", "--out", str(folder / "out")])
    assert result.exit_code == 0, result.output
    record = json.loads((folder / "out/robust/robust.json").read_text(encoding="utf-8"))
    assert [*record["values"]["tasks"]] == ["haberman", "A&H diabetes"]
    for one in record["values"]["tasks"].values():
        assert 0.0 <= one["error"] <= one["certified"] <= 100.0
        assert one["flips"] == 0
    assert (folder / "out/robust/robust-errors.png").stat().st_size > 1000


def test_some_images_are_not_shifted():
    images = np.random.default_rng(0).random((200, 784))
    moved = robust.shift_some(images, np.random.default_rng(1))
    same = (moved == images).all(axis=1).mean()
    assert 0.5 < same < 0.8
