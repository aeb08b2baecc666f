"""The experiments of ``maxplus reproduce``: their files, their honesty, how they are resumed."""

import csv
import json
import re

import pytest
from typer.testing import CliRunner

from maxplus.cli.app import app
from maxplus.reproduce import EXPERIMENTS, Finding, Settings, Table, registry
from maxplus.reproduce.write import is_finished, write_finding, write_report

runner = CliRunner()


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    """The folder of a whole quick run with one seed, and what was printed."""
    out = tmp_path_factory.mktemp("results")
    result = runner.invoke(app, ["reproduce", "all", "--quick", "--seeds", "1", "--out", str(out)])
    assert result.exit_code == 0, result.output
    return out, result.output


def test_each_experiment_leaves_all_files(everything):
    out, _ = everything
    for name in EXPERIMENTS:
        record = json.loads((out / name / f"{name}.json").read_text(encoding="utf-8"))
        assert record["quick"] is True
        assert record["machine"]["numpy"]
        assert record["seconds"] > 0
        for what in record["figures"]:
            for kind in ("png", "svg"):
                assert (out / name / f"{name}-{what}.{kind}").stat().st_size > 1000
        tables = sorted((out / name).glob("*.csv"))
        assert len(tables) == len(record["tables"])
        with open(tables[0], newline="", encoding="utf-8") as file:
            rows = list(csv.reader(file))
        assert rows[0] == record["tables"][0]["columns"]
        assert len(rows) == 1 + len(record["tables"][0]["rows"])


def test_the_report_gathers_all(everything):
    out, printed = everything
    report = (out / "REPORT.md").read_text(encoding="utf-8")
    page = (out / "report.html").read_text(encoding="utf-8")
    for name in EXPERIMENTS:
        title = json.loads((out / name / f"{name}.json").read_text(encoding="utf-8"))["title"]
        assert title in report
        assert title in page
        assert title in printed
    for path in re.findall(r"\]\(([^)]+)\)", report):
        assert (out / path).is_file()
    # Self-contained: nothing is fetched from anywhere.
    assert "data:image/png;base64," in page
    assert not re.search(r'(src|href)="(?!data:)', page)
    assert page.count("reduced scale") > 1


def test_the_theorem_and_the_certificate_hold(everything):
    out, _ = everything
    cases = json.loads((out / "approximation" / "approximation.json").read_text("utf-8"))["values"]
    assert all(case["error"] <= case["bound"] * (1 + 1e-9) for case in cases["cases"])
    runs = json.loads((out / "certificate" / "certificate.json").read_text("utf-8"))["values"]
    reached = [run for run in runs["runs"] if run["iteration"] is not None]
    assert reached
    assert all(run["accuracy"] == 1.0 and run["loss"] < 0.6932 for run in reached)


def test_resuming_leaves_finished_parts_alone(everything):
    out, _ = everything
    path = out / "init" / "init.json"
    before = path.stat().st_mtime_ns
    args = ["reproduce", "init", "--quick", "--seeds", "1", "--resume", "--out", str(out)]
    result = runner.invoke(app, args)
    assert "finished before" in result.output
    assert path.stat().st_mtime_ns == before


def test_other_settings_are_not_finished(everything):
    out, _ = everything
    assert is_finished(out / "init", "init", Settings(quick=True, seeds=1))
    assert not is_finished(out / "init", "init", Settings(quick=True, seeds=2))
    assert not is_finished(out / "init", "init", Settings(seeds=1))
    assert not is_finished(out / "elsewhere", "init", Settings(quick=True, seeds=1))


def test_an_interrupted_run_keeps_what_is_finished(tmp_path, monkeypatch):
    finding = Finding("First", "Done.", [Table("t", ("a",), [(1,)])], {"a": 1})

    def run(self, settings):
        if self.name == "init":
            raise KeyboardInterrupt
        return finding

    monkeypatch.setattr(registry.Experiment, "run", run)
    result = runner.invoke(app, ["reproduce", "iris", "init", "--out", str(tmp_path)])
    assert result.exit_code == 130
    assert "--resume" in result.output
    assert "First" in (tmp_path / "REPORT.md").read_text(encoding="utf-8")
    assert is_finished(tmp_path / "iris", "iris", Settings())


def test_a_damaged_result_is_not_finished(tmp_path):
    finding = Finding("First", "Done.", [Table("t", ("a",), [(1,)])], {"a": 1})
    write_finding(tmp_path / "iris", "iris", finding, Settings())
    path = tmp_path / "iris" / "iris.json"
    path.write_text(path.read_text(encoding="utf-8")[:40], encoding="utf-8")
    assert not is_finished(tmp_path / "iris", "iris", Settings())


def test_text_is_escaped_in_the_page(tmp_path):
    finding = Finding("a < b & c", "<script>", [Table("<b>", ("<i>",), [("<u>",)])], {})
    write_finding(tmp_path / "iris", "iris", finding, Settings())
    assert write_report(tmp_path) == ["iris"]
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<script>" not in page
    assert "<u>" not in page
    assert "a &lt; b &amp; c" in page


def test_names_without_an_experiment_are_refused(tmp_path):
    result = runner.invoke(app, ["reproduce", "irys", "--out", str(tmp_path)])
    assert result.exit_code == 2
    assert "'irys'" in result.output
    assert "choose from" in result.output


def test_without_names_the_experiments_are_listed():
    result = runner.invoke(app, ["reproduce"])
    assert result.exit_code == 0
    for experiment in EXPERIMENTS.values():
        assert experiment.name in result.output
