"""Runs of experiments: cache, interruption, resuming, list and errors."""

import importlib
import subprocess
import sys
import tokenize
import zlib
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from experiments import BENCHMARKS, EXPERIMENTS, Result, Settings, Table, harness
from experiments.__main__ import app
from experiments.harness import Cache
from experiments.records import is_finished, write_report, write_result
from maxplus.datasets import DataNotFoundError

pytestmark = pytest.mark.slow

runner = CliRunner()
ROOT = Path(__file__).resolve().parents[2]


def test_cache_reuses_finished_parts(tmp_path):
    made = []

    def make():
        made.append(1)
        return {"x": np.arange(3)}

    for _ in range(2):
        assert np.array_equal(Cache(tmp_path / "parts").get("a", make)["x"], [0, 1, 2])
    assert len(made) == 1
    (tmp_path / "parts" / "a.npz").write_bytes(b"PK damaged")
    Cache(tmp_path / "parts").get("a", make)
    assert len(made) == 2
    Cache(tmp_path / "parts").clear()
    assert not (tmp_path / "parts").exists()
    Cache().get("a", make)
    assert len(made) == 3


def test_missing_images_error_is_one_line(tmp_path, monkeypatch):
    def run(self, settings):
        raise DataNotFoundError("mnist was not found. Tried: nothing")

    monkeypatch.setattr(harness.Experiment, "run", run)
    result = runner.invoke(app, ["mnist", "--out", str(tmp_path)])
    assert result.exit_code == 2
    assert "mnist was not found" in result.output
    assert "Traceback" not in result.output


def test_interrupted_run_keeps_finished_experiments(tmp_path, monkeypatch):
    result = Result("First", "Done.", [Table("t", ("a",), [(1,)])], {"a": 1})

    def run(self, settings):
        if self.name == "init":
            raise KeyboardInterrupt
        return result

    monkeypatch.setattr(harness.Experiment, "run", run)
    result = runner.invoke(app, ["iris", "init", "--out", str(tmp_path)])
    assert result.exit_code == 130
    assert "--resume" in result.output
    assert "First" in (tmp_path / "REPORT.md").read_text(encoding="utf-8")
    assert is_finished(tmp_path / "iris", "iris", Settings())


def test_damaged_result_is_not_finished(tmp_path):
    result = Result("First", "Done.", [Table("t", ("a",), [(1,)])], {"a": 1})
    write_result(tmp_path / "iris", "iris", result, Settings())
    path = tmp_path / "iris" / "iris.json"
    path.write_text(path.read_text(encoding="utf-8")[:40], encoding="utf-8")
    assert not is_finished(tmp_path / "iris", "iris", Settings())


def test_unknown_experiments_are_rejected(tmp_path):
    result = runner.invoke(app, ["irys", "--out", str(tmp_path)])
    assert result.exit_code == 2
    assert "'irys'" in result.output
    assert "choose from" in result.output


def test_module_runs_from_the_root_of_the_repository():
    command = [sys.executable, "-m", "experiments"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "iris" in done.stdout


def test_experiments_are_listed_without_names():
    result = runner.invoke(app, [])
    assert result.exit_code == 0
    for experiment in EXPERIMENTS.values():
        assert experiment.name in result.output


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"PK damaged",
        lambda content: content[: len(content) // 2],
        lambda content: b"",
        # Flipped bits among the deflated bytes, where only the decompressor looks.
        lambda content: content[:80] + bytes(b ^ 255 for b in content[80:160]) + content[160:],
    ],
)
def test_damaged_part_is_computed_again(tmp_path, damage):
    made = []

    def make():
        made.append(1)
        return {"x": np.random.default_rng(0).random(200)}

    Cache(tmp_path).get("a", make)
    path = tmp_path / "a.npz"
    path.write_bytes(damage(path.read_bytes()))
    again = Cache(tmp_path).get("a", make)
    assert len(made) == 2
    assert np.array_equal(again["x"], Cache(tmp_path).get("a", make)["x"])
    assert len(made) == 2


@pytest.mark.parametrize(
    "error", [zlib.error, NotImplementedError, MemoryError, tokenize.TokenError, SyntaxError]
)
def test_unreadable_part_is_computed_again(tmp_path, monkeypatch, error):
    Cache(tmp_path).get("a", lambda: {"x": np.zeros(1)})

    def load(*args, **options):
        raise error("damaged")

    monkeypatch.setattr(np, "load", load)
    assert Cache(tmp_path).get("a", lambda: {"x": np.ones(1)})["x"] == 1


def test_interrupted_reading_of_a_part_is_raised(tmp_path, monkeypatch):
    Cache(tmp_path).get("a", lambda: {"x": np.zeros(1)})

    def load(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "load", load)
    with pytest.raises(KeyboardInterrupt):
        Cache(tmp_path).get("a", lambda: {"x": np.ones(1)})


def test_report_has_common_machine_facts(tmp_path):
    for name, load in (("iris", 0.5), ("init", 7.25)):
        result = Result(name, "", [], {}, machine={"cpu": "a <fast> one", "load": load})
        write_result(tmp_path / name, name, result, Settings())
    write_report(tmp_path)
    report = (tmp_path / "REPORT.md").read_text(encoding="utf-8")
    assert "cpu a <fast> one" in report
    assert "load" not in report


def test_benchmarks_are_a_group(tmp_path, monkeypatch):
    ran = []

    def run(self, settings):
        ran.append(self.name)
        return Result(self.name, "W[d, p]", [], {})

    monkeypatch.setattr(harness.Experiment, "run", run)
    monkeypatch.setattr(harness.Experiment, "require", lambda self: None)
    printed = runner.invoke(app, []).output
    assert printed.index("quality") < printed.index("benchmarks") < printed.index("products")
    for group, names in (("all", EXPERIMENTS), ("benchmarks", BENCHMARKS)):
        ran.clear()
        result = runner.invoke(app, [group, "--out", str(tmp_path)])
        assert result.exit_code == 0, result.output
        assert ran == list(names)
        assert result.output.count("W[d, p]") == len(names)
    assert "# Benchmarks" in (tmp_path / "REPORT.md").read_text(encoding="utf-8")


def test_missing_package_error_precedes_all_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(harness, "find_spec", lambda name: None)
    result = runner.invoke(app, ["million", "products", "--out", str(tmp_path)])
    assert result.exit_code == 2
    assert "products needs tropical-gemm: pip install 'maxplus[bench]'" in result.output
    assert not (tmp_path / "million").exists()


def test_every_experiment_has_a_module():
    for name in EXPERIMENTS | BENCHMARKS:
        module = importlib.import_module(f"experiments.{name.replace('-', '_')}")
        assert callable(module.run)
