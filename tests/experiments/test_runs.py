"""Runs of experiments: cache, interruption, resuming, list and errors."""

import importlib
import subprocess
import sys
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

ROOT = Path(__file__).resolve().parents[2]
RESULT = Result("First", "W[d, p]", [Table("t", ("a",), [(1,)])], {"a": 1}, scale="small")


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


class Part:
    """Intermediate result that counts how often it is computed."""

    made = 0

    def __call__(self):
        self.made += 1
        return {"x": np.arange(3.0), "name": "a"}


def test_cache_reuses_finished_parts(tmp_path):
    make = Part()
    for _ in range(2):
        assert Cache(tmp_path / "parts").get("a", make)["x"].tolist() == [0.0, 1.0, 2.0]
    assert make.made == 1
    Cache(tmp_path / "parts").clear()
    assert not (tmp_path / "parts").exists()
    Cache().get("a", make)
    assert make.made == 2


@pytest.mark.parametrize(
    "damage", [lambda content: b"damaged", lambda content: content[:-20], lambda content: b""]
)
def test_damaged_part_is_computed_again(tmp_path, damage):
    make = Part()
    Cache(tmp_path).get("a", make)
    (path,) = tmp_path.iterdir()
    path.write_bytes(damage(path.read_bytes()))
    for _ in range(2):
        assert Cache(tmp_path).get("a", make)["name"] == "a"
    assert make.made == 2


def test_interrupted_reading_of_a_part_is_raised(tmp_path, monkeypatch):
    Cache(tmp_path).get("a", Part())

    def interrupt(content):
        raise KeyboardInterrupt

    monkeypatch.setattr(harness.pickle, "loads", interrupt)
    with pytest.raises(KeyboardInterrupt):
        Cache(tmp_path).get("a", Part())


def test_table_of_records_keeps_values_and_formats_texts():
    table = Table.from_records(
        "t", [{"n": 3, "share": 0.25}], {"number": "n", "share": "{share:.1%}"}
    )
    assert table.columns == ("number", "share")
    assert table.rows == [(3, "25.0%")]


def test_missing_images_error_is_one_line(tmp_path, monkeypatch):
    def fail(self, settings):
        raise DataNotFoundError("mnist was not found. Tried: nothing")

    monkeypatch.setattr(harness.Experiment, "run", fail)
    result = run("mnist", "--out", tmp_path)
    assert result.exit_code == 2
    assert "mnist was not found" in result.output
    assert "Traceback" not in result.output


def test_interrupted_run_keeps_finished_experiments(tmp_path, monkeypatch):
    def run_or_interrupt(self, settings):
        if self.name == "init":
            raise KeyboardInterrupt
        return RESULT

    monkeypatch.setattr(harness.Experiment, "run", run_or_interrupt)
    result = run("iris", "init", "--out", tmp_path)
    assert result.exit_code == 130
    assert "--resume" in result.output
    assert "First" in (tmp_path / "REPORT.md").read_text(encoding="utf-8")
    assert is_finished(tmp_path / "iris", "iris", Settings())


def test_results_at_the_same_scale_are_finished(tmp_path):
    settings = Settings(quick=True)
    write_result(tmp_path, "iris", RESULT, settings)
    assert is_finished(tmp_path, "iris", settings)
    assert not is_finished(tmp_path, "iris", Settings())
    assert not is_finished(tmp_path / "elsewhere", "iris", settings)
    path = tmp_path / "iris.json"
    path.write_text(path.read_text(encoding="utf-8")[:40], encoding="utf-8")
    assert not is_finished(tmp_path, "iris", settings)


def test_unknown_experiments_are_rejected(tmp_path):
    result = run("irys", "--out", tmp_path)
    assert result.exit_code == 2
    assert "'irys'" in result.output
    assert "choose from" in result.output


@pytest.mark.parametrize("below", ["", "deeper"])
def test_file_as_folder_is_rejected(below, tmp_path):
    file = tmp_path / "file"
    file.touch()
    result = run("iris", "--out", file / below)
    assert result.exit_code == 2
    assert "--out" in result.stderr


def test_module_runs_from_the_root_of_the_repository():
    command = [sys.executable, "-m", "experiments"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    for name in EXPERIMENTS | BENCHMARKS:
        assert name in done.stdout


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

    def record(self, settings):
        ran.append(self.name)
        return RESULT

    monkeypatch.setattr(harness.Experiment, "run", record)
    monkeypatch.setattr(harness.Experiment, "require", lambda self: None)
    for group, names in (("all", EXPERIMENTS), ("benchmarks", BENCHMARKS)):
        ran.clear()
        result = run(group, "--out", tmp_path)
        assert result.exit_code == 0, result.output
        assert ran == list(names)
        assert result.output.count("W[d, p]") == len(names)
    assert "# Benchmarks" in (tmp_path / "REPORT.md").read_text(encoding="utf-8")


def test_missing_package_error_precedes_all_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(harness, "find_spec", lambda name: None)
    result = run("million", "products", "--out", tmp_path)
    assert result.exit_code == 2
    assert "products needs tropical-gemm: pip install 'maxplus[bench]'" in result.output
    assert not (tmp_path / "million").exists()


def test_every_experiment_has_a_module():
    for name in EXPERIMENTS | BENCHMARKS:
        module = importlib.import_module(f"experiments.{name.replace('-', '_')}")
        assert callable(module.run)
