"""Files and results of all experiments at a small scale."""

import csv
import json
import math
import re
from functools import cache, partial

import pytest
from sklearn.datasets import load_digits
from typer.testing import CliRunner

from experiments import (
    EXPERIMENTS,
    certificate,
    init,
    iris,
    mnist,
    noise,
    quality,
    sparsity,
    timing,
    zero_hidden,
)
from experiments.__main__ import app
from maxplus import LMMClassifier, datasets
from mnist_files import HAS_MNIST, NEEDS_MNIST
from processes import answered_here
from sharing import made_once

pytestmark = pytest.mark.slow

runner = CliRunner()


ON_IMAGES = ("sparsity", "zero-hidden", "mnist", "timing", "quality")

NAMES = [name for name in EXPERIMENTS if HAS_MNIST or name not in ON_IMAGES]

# Number of digits for the experiment on wrong labels; two thirds of them are training rows.
FEW_DIGITS = 450


def few_digits(return_X_y):
    """Return the first rows of the data set."""
    X, y = load_digits(return_X_y=return_X_y)
    return X[:FEW_DIGITS], y[:FEW_DIGITS]


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    """Return the folder and the output of a quick run with one seed.

    Experiments are made smaller still; ``make reproduce-quick`` runs them as they are.
    """
    out = made_once(tmp_path_factory, "everything", reproduce_all)
    printed = out / "printed.txt"
    return out, printed.read_text(encoding="utf-8")


def reproduce_all(out):
    """Run all experiments at a small scale."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (noise, quality):
            patch.setattr(module, "LMMClassifier", partial(LMMClassifier, warmup_epochs=10))
        patch.setattr(noise, "load_digits", few_digits)
        patch.setattr(datasets, "load_mnist", cache(datasets.load_mnist))
        patch.setattr(timing, "in_a_process", answered_here)
        patch.setattr(sparsity, "QUICK_IMAGES", 60)
        patch.setattr(zero_hidden, "QUICK_IMAGES", 300)
        patch.setattr(zero_hidden, "QUICK_ITERATIONS", 60)
        patch.setattr(mnist, "QUICK_IMAGES", 300)
        patch.setattr(mnist, "QUICK_ITERATIONS", 60)
        patch.setattr(quality, "QUICK_IMAGES", 100)
        patch.setattr(timing, "QUICK", timing.Sizes((40, 80), (10, 20), 20))
        patch.setattr(timing, "VARIANTS", (timing.DENSE, *timing.VARIANTS[-2:]))
        for module, seeds in (
            (certificate, "QUICK_SEEDS"),
            (init, "QUICK_RUNS"),
            (iris, "QUICK_SEEDS"),
        ):
            patch.setattr(module, seeds, 1)
        result = runner.invoke(app, [*NAMES, "--quick", "--out", str(out)])
    assert result.exit_code == 0, result.output
    (out / "printed.txt").write_text(result.output, encoding="utf-8")


def values(out, name):
    return json.loads((out / name / f"{name}.json").read_text(encoding="utf-8"))["values"]


def test_experiments_write_all_files(everything):
    out, _ = everything
    for name in NAMES:
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


def test_report_contains_all_experiments(everything):
    out, printed = everything
    report = (out / "REPORT.md").read_text(encoding="utf-8")
    for name in NAMES:
        title = json.loads((out / name / f"{name}.json").read_text(encoding="utf-8"))["title"]
        assert title in report
        assert title in printed
    for path in re.findall(r"\]\(([^)]+)\)", report):
        assert (out / path).is_file()
    assert report.count("reduced scale") > 1


def test_theorem_and_certificate_hold(everything):
    out, _ = everything
    cases = values(out, "approximation")["cases"]
    assert all(case["error"] <= case["bound"] * (1 + 1e-9) for case in cases)
    runs = values(out, "certificate")["runs"]
    reached = [run for run in runs if run["iteration"] is not None]
    assert reached
    assert all(run["accuracy"] == 1.0 and run["loss"] < 0.6932 for run in reached)


def test_one_unit_per_sample_interpolates(everything):
    results = values(everything[0], "iris")["one_unit_each"]
    assert min(result["best"] for result in results) < 1e-3


@NEEDS_MNIST
def test_mnist_tables_are_consistent(everything):
    out, _ = everything
    found = values(out, "mnist")
    with open(out / "mnist" / "mnist-3.csv", newline="", encoding="utf-8") as file:
        rows = [[int(cell) for cell in row[1:]] for row in list(csv.reader(file))[1:]]
    right = sum(row[i] for i, row in enumerate(rows)) / sum(map(sum, rows))
    assert right == pytest.approx(found["LMM (max)"]["test_accuracy"], abs=1e-12)
    assert 0.0 < found["macro_f1"]["LMM (max)"] <= 1.0
    assert len(found["seeds"]) == 1
    assert not (out / "mnist" / "parts-quick").exists()


@NEEDS_MNIST
def test_single_subgradients_are_sparser_than_mean(everything):
    found = values(everything[0], "sparsity")
    models = [g for g in found.values() if isinstance(g, dict)]
    assert len(models) == 5
    for gamma in models:
        assert 0 < gamma["of_single"] <= gamma["of_mean"] <= 1


def test_resumed_run_keeps_finished_experiments(everything):
    out, _ = everything
    path = out / "init" / "init.json"
    before = path.stat().st_mtime_ns
    args = ["init", "--quick", "--resume", "--out", str(out)]
    result = runner.invoke(app, args)
    assert "finished before" in result.output
    assert path.stat().st_mtime_ns == before


def test_noise_compares_the_objectives(everything):
    found = values(everything[0], "noise")
    assert len(found) == len(noise.MODELS)
    for runs in found.values():
        for run in runs:
            assert 0 <= run["noisy"] <= 100
            assert 0 <= run["found"] <= 100
    # The polish excludes no more suspects than allowed.
    allowed = math.ceil(0.05 * FEW_DIGITS * 2 / 3)
    assert found["warm-up, polish: gentle, 5 % suspects"][0]["suspects"] <= allowed


def test_regression_experiment_has_all_models_and_coverage(everything):
    out, _ = everything
    found = values(out, "regression")
    assert set(found["scores"]) == {"diabetes", "friedman1", "friedman2", "friedman3", "waves"}
    for name, own in found["scores"].items():
        assert {"LMMRegressor()", "ridge", "nearest neighbours", "forest", "boosting"} == set(own)
        assert all(len(scores) == 1 and scores[0] <= 1.0 for scores in own.values())
        assert 0.6 < found["covered"][name][0] <= 1.0


@NEEDS_MNIST
def test_quality_lists_all_recipes(everything):
    out, printed = everything
    found = values(out, "quality")
    assert set(found["recipes"]) == {recipe.name for recipe in quality.RECIPES}
    for runs in found["recipes"].values():
        (run,) = runs
        assert run["certified"] == sorted(run["certified"], reverse=True)
        assert run["certified"][0] <= run["test"]
        if run["max_loss"] < math.log(2):
            assert run["train"] == 100.0
    with open(out / "quality" / "quality.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["recipe"] for row in rows] == [recipe.name for recipe in quality.RECIPES]
    first = found["recipes"][quality.RECIPES[0].name][0]
    assert rows[0]["test %"] == f"{first['test']:.2f}"
    assert "Label noise" in printed
