"""The experiments of ``maxplus reproduce``: their files, their honesty, how they are resumed."""

import csv
import importlib
import json
import math
import os
import re
import tokenize
import zlib
from dataclasses import asdict
from functools import cache, partial

import numpy as np
import pytest
from typer.testing import CliRunner

from maxplus import LMMClassifier, LMMCommittee, datasets
from maxplus.cli.app import app
from maxplus.datasets import DataNotFoundError
from maxplus.lab import BENCHMARKS, EXPERIMENTS, Finding, Settings, Table, limits, measure, registry
from maxplus.lab.comparison import TrainedModel
from maxplus.lab.experiments import (
    answers,
    first_use,
    iris_torch,
    long_run,
    million,
    mnist,
    noise,
    products,
    quality,
    sparsity,
    streams,
    timing,
    zero_hidden,
)
from maxplus.lab.metrics import Evaluation
from maxplus.lab.parts import Parts
from maxplus.lab.process import in_a_process
from maxplus.lab.timed_run import TimedRun
from maxplus.lab.write import is_finished, write_finding, write_report
from maxplus.models import LinearMaxPlus
from maxplus.training.result import Signal
from sharing import made_once

pytestmark = pytest.mark.slow

runner = CliRunner()


HAS_IMAGES = "MAXPLUS_DATA" in os.environ
ON_IMAGES = ("sparsity", "zero-hidden", "mnist", "timing", "quality")
NAMES = [name for name in EXPERIMENTS if HAS_IMAGES or name not in ON_IMAGES]


# Rows of digits that the experiment on wrong labels has here; two thirds of them to train on.
FEW_DIGITS = 450


def few_digits(load=datasets.load_digits):
    """The first of them."""
    data = load()
    return data._replace(X=data.X[:FEW_DIGITS], y=data.y[:FEW_DIGITS])


def here(function, arguments):
    """What a process of its own would answer, without the seconds until it has imported all."""
    return json.loads(json.dumps(function(**arguments)))


def only_beside_elsewhere(function, arguments):
    """One of the many measurements in a process of its own."""
    return (in_a_process if function is timing.measure_beside else here)(function, arguments)


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    """The folder of a quick run with one seed, and what was printed.

    Experiments are made smaller still; ``make reproduce-quick`` runs them as they are.
    """
    out = made_once(tmp_path_factory, "everything", reproduce_all)
    printed = out / "printed.txt"
    return out, printed.read_text(encoding="utf-8")


def reproduce_all(out):
    """All experiments, as small as can be."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (noise, quality):
            patch.setattr(module, "LMMClassifier", partial(LMMClassifier, warmup_epochs=10))
            patch.setattr(module, "LMMCommittee", partial(LMMCommittee, warmup_epochs=10))
        patch.setattr(datasets, "load_digits", few_digits)
        patch.setattr(datasets, "load_mnist", cache(datasets.load_mnist))
        patch.setattr(timing, "in_a_process", only_beside_elsewhere)
        patch.setattr(sparsity, "QUICK_IMAGES", 60)
        patch.setattr(zero_hidden, "QUICK_IMAGES", 300)
        patch.setattr(zero_hidden, "QUICK_ITERATIONS", 60)
        patch.setattr(mnist, "QUICK_IMAGES", 300)
        patch.setattr(mnist, "QUICK_ITERATIONS", 60)
        patch.setattr(quality, "QUICK_IMAGES", 100)
        patch.setattr(quality, "FOLDS", 2)
        patch.setattr(quality, "SMALL", {"iris": 96.0})
        patch.setattr(timing, "QUICK", timing.Sizes((40, 80), (10, 20), 20))
        patch.setattr(timing, "VARIANTS", (timing.DENSE, *timing.VARIANTS[-2:]))
        result = runner.invoke(
            app, ["reproduce", *NAMES, "--quick", "--seeds", "1", "--out", str(out)]
        )
    assert result.exit_code == 0, result.output
    (out / "printed.txt").write_text(result.output, encoding="utf-8")


def values(out, name):
    return json.loads((out / name / f"{name}.json").read_text(encoding="utf-8"))["values"]


def test_each_experiment_leaves_all_files(everything):
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


def test_the_report_gathers_all(everything):
    out, printed = everything
    report = (out / "REPORT.md").read_text(encoding="utf-8")
    page = (out / "report.html").read_text(encoding="utf-8")
    for name in NAMES:
        title = json.loads((out / name / f"{name}.json").read_text(encoding="utf-8"))["title"]
        assert title in report
        assert title in page
        assert title in printed
    for path in re.findall(r"\]\(([^)]+)\)", report):
        assert (out / path).is_file()
    # Self-contained: nothing is fetched from anywhere.
    assert "data:image/png;base64," in page
    assert not re.search(r'(src|href)="(?!data:|#)', page)
    assert page.count("reduced scale") > 1


def test_the_theorem_and_the_certificate_hold(everything):
    out, _ = everything
    cases = values(out, "approximation")["cases"]
    assert all(case["error"] <= case["bound"] * (1 + 1e-9) for case in cases)
    runs = values(out, "certificate")["runs"]
    reached = [run for run in runs if run["iteration"] is not None]
    assert reached
    assert all(run["accuracy"] == 1.0 and run["loss"] < 0.6932 for run in reached)


def test_one_unit_for_each_flower_interpolates(everything):
    results = values(everything[0], "iris")["one_unit_each"]
    assert min(result["best"] for result in results) < 1e-3


@pytest.mark.skipif(not HAS_IMAGES, reason="MAXPLUS_DATA is not set: no MNIST files")
def test_the_mnist_tables_agree_with_each_other(everything):
    out, _ = everything
    found = values(out, "mnist")
    with open(out / "mnist" / "mnist-3.csv", newline="", encoding="utf-8") as file:
        rows = [[int(cell) for cell in row[1:]] for row in list(csv.reader(file))[1:]]
    right = sum(row[i] for i, row in enumerate(rows)) / sum(map(sum, rows))
    assert right == pytest.approx(found["LMM (max)"]["test_accuracy"], abs=1e-12)
    assert 0.0 < found["macro_f1"]["LMM (max)"] <= 1.0
    assert len(found["seeds"]) == 1
    assert not (out / "mnist" / "parts-quick-1").exists()


@pytest.mark.parametrize(
    ("right", "said", "is_missed"),
    [
        ((17, 18, 16), "from 80.00% to 90.00%: the paper's 88.75% lies within", False),
        ((17, 16, 16), "from 80.00% to 85.00%: the paper's 88.75% lies above", True),
        ((19, 18, 20), "from 90.00% to 100.00%: the paper's 88.75% lies below", False),
        ((17,), None, True),
    ],
)
def test_the_main_line_has_every_seed(right, said, is_missed):
    """Twenty images, so many of them right with each seed."""
    labels = np.arange(20) % 10

    def trained(name, n):
        predicted = np.where(np.arange(20) < n, labels, 9 - labels)
        found = Evaluation(np.linspace(0.1, 1.5, 20), labels, predicted)
        return TrainedModel(name, found, found, 1.0, np.array([2.3, 1.5]))

    by_seed = [trained(mnist.MAIN, n) for n in right]
    names = ("MLP (mean)", "LMM (mean)", mnist.AS_WRITTEN, mnist.LEVEL)
    models = {mnist.MAIN: by_seed[0], **{name: trained(name, 15) for name in names}}
    split = mnist.Split(np.empty((20, 1)), np.empty((20, 1)), labels, labels)
    finding = mnist.describe(models, by_seed, split, 2, quick=True)
    assert [v["test_accuracy"] for v in finding.values["seeds"]] == [n / 20 for n in right]
    assert ("test accuracy 0.8" in finding.text) == is_missed
    if said is None:
        assert "seeds" not in finding.text
        assert len(finding.tables) == 3
    else:
        assert said in finding.text
        assert [row[-1] for row in finding.tables[-1].rows] == [f"{n / 20:.2%}" for n in right]


@pytest.mark.skipif(not HAS_IMAGES, reason="MAXPLUS_DATA is not set: no MNIST files")
def test_single_subgradients_are_the_sparser_ones(everything):
    found = values(everything[0], "sparsity")
    models = [g for g in found.values() if isinstance(g, dict)]
    assert len(models) == 5
    for gamma in models:
        assert 0 < gamma["of_single"] <= gamma["of_mean"] <= 1


def test_sparsity_counts_what_the_mean_subgradient_has():
    rng = np.random.default_rng(0)
    X, y = rng.random((9, 6)) * (rng.random((9, 6)) < 0.5), rng.integers(3, size=9)
    model = LinearMaxPlus(rng.normal(size=(6, 4)), np.zeros(4), rng.normal(size=(4, 3)))
    gamma = sparsity.measure(model, X, y)
    assert gamma.of_mean == model.mean_subgradient(X, y).n_nonzero() / model.n_weights()
    single = [model.subgradient(x, int(label)).n_nonzero() for x, label in zip(X, y, strict=True)]
    assert gamma.of_single == pytest.approx(np.mean(single) / model.n_weights())


def test_a_timed_run_measures_its_own_process():
    X, y = np.random.default_rng(0).random((30, 5)), np.arange(30) % 10
    result = TimedRun("dense", 30, 12, 1, 3).measure(X, y)
    assert result["polyak"] > 0
    assert result["constant"] > 0
    assert 1e7 < result["peak"] < 1e11


def test_slopes_that_move_move_minima_everywhere():
    rng = np.random.default_rng(0)
    X, y = rng.random((600, 6)).astype(np.float32), rng.integers(3, size=600)
    always, seldom = (limits.moved_by_a_step(X, y, 20, every, 8) for every in (1, 0))
    for minima, groups in (always, seldom):
        assert 0 < minima <= groups <= 1
    assert seldom[0] < always[0]
    assert seldom[1] < always[1]


def test_a_pass_reads_and_writes_all():
    assert 0 < limits.seconds_of_a_pass(10) < limits.seconds_of_a_pass(3_000_000)


def test_what_an_engine_could_reach_is_beside_what_it_does():
    sizes = timing.Sizes((10, 20), (2, 4), 4)
    seconds = {"dense": 0.6, "tree": 0.5, "sparse": 0.1}
    results = [
        asdict(run) | {"polyak": seconds[run.engine], "constant": 0.01, "peak": 10**6}
        for variant in timing.VARIANTS
        for run in sizes.runs_of(variant)
    ]
    beside = {
        "product": 0.3, "sgd": 1e-5, "pass": 0.05, "minima_always": 0.12, "groups_always": 0.8,
        "minima_seldom": 0.004, "groups_seldom": 0.02,
    }  # fmt: skip
    text = timing.describe(results, beside, sizes).text
    assert "12.0% of all minima over inputs, in 80% of the groups of 256 images" in text
    assert "(without W⁰: 0.4%, in 2.0%)" in text
    assert "takes 40 ms, with nothing computed." in text
    assert "at most 15.0 times as fast as a dense one then; this one takes 100 ms" in text
    assert text.endswith("6.0 times as fast.")


def test_the_largest_tree_just_fits():
    sizes = timing.FULL
    assert timing.tree_bytes(sizes.together, sizes.n_hidden) <= timing.TREE_LIMIT
    assert timing.tree_bytes(sizes.together + 1, sizes.n_hidden) > timing.TREE_LIMIT


def test_finished_parts_are_not_made_again(tmp_path):
    made = []

    def make():
        made.append(1)
        return {"x": np.arange(3)}

    for _ in range(2):
        assert np.array_equal(Parts(tmp_path / "parts").get("a", make)["x"], [0, 1, 2])
    assert len(made) == 1
    (tmp_path / "parts" / "a.npz").write_bytes(b"PK damaged")
    Parts(tmp_path / "parts").get("a", make)
    assert len(made) == 2
    Parts(tmp_path / "parts").forget()
    assert not (tmp_path / "parts").exists()
    Parts().get("a", make)
    assert len(made) == 3


def test_missing_images_are_a_message(tmp_path, monkeypatch):
    def run(self, settings):
        raise DataNotFoundError("mnist was not found. Tried: nothing")

    monkeypatch.setattr(registry.Experiment, "run", run)
    result = runner.invoke(app, ["reproduce", "mnist", "--out", str(tmp_path)])
    assert result.exit_code == 2
    assert "mnist was not found" in result.output
    assert "Traceback" not in result.output


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


def test_flipped_labels_are_as_many_as_asked_and_all_wrong():
    y = np.random.default_rng(0).integers(4, size=400)
    noisy, flipped = noise.flip_labels(y, 0.05, np.random.default_rng(1))
    assert np.array_equal(np.flatnonzero(noisy != y), np.sort(flipped))
    assert flipped.size == 20
    assert set(np.unique(noisy)) == {0, 1, 2, 3}


def test_noise_compares_the_objectives(everything):
    found = values(everything[0], "noise")
    assert len(found) == len(noise.MODELS)
    for runs in found.values():
        for run in runs:
            assert 0 <= run["noisy"] <= 100
            assert 0 <= run["found"] <= 100
    # What may be left alone is left alone: the polish never has more suspects than allowed.
    allowed = math.ceil(0.05 * FEW_DIGITS * 2 / 3)
    assert found["warm-up, polish: gentle, 5 % suspects"][0]["suspects"] <= allowed


def test_regression_is_beside_others_and_says_what_it_covers(everything):
    out, _ = everything
    found = values(out, "regression")
    assert set(found["scores"]) == {"diabetes", "friedman1", "friedman2", "friedman3", "waves"}
    for name, own in found["scores"].items():
        assert {"LMMRegressor()", "ridge", "nearest neighbours", "forest", "boosting"} == set(own)
        assert all(len(scores) == 1 and scores[0] <= 1.0 for scores in own.values())
        assert 0.6 < found["covered"][name][0] <= 1.0


@pytest.mark.skipif(not HAS_IMAGES, reason="needs MNIST and Fashion-MNIST")
def test_quality_says_what_was_reached(everything):
    out, printed = everything
    found = values(out, "quality")
    assert set(found["recipes"]) == {recipe.name for recipe in quality.RECIPES}
    for runs in found["recipes"].values():
        (run,) = runs
        assert run["certified"] == sorted(run["certified"], reverse=True)
        assert run["certified"][0] <= run["test"]
        if run["max_loss"] < math.log(2):
            assert run["train"] == 100.0
    with open(out / "quality" / "quality-1.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["figure"] for row in rows] == [goal.what for goal in quality.GOALS]
    first = found["recipes"][quality.DEFAULT][0]
    assert rows[0]["reached"] == f"{first['test']:.2f} %"
    assert rows[0]["verdict"] == "missed"
    assert "Wrong labels" in printed


def test_verdicts():
    goal = quality.Goal("accuracy", "", "test", "", 90.0, 95.0)
    assert [quality._verdict(v, goal) for v in (89.9, 90.0, 95.0)] == [
        "missed", "reached", "aim reached",
    ]  # fmt: skip
    seconds = quality.Goal("seconds", "", "seconds", "", 90.0, 30.0, False)
    assert [quality._verdict(v, seconds) for v in (29.0, 31.0, 90.0)] == [
        "aim reached", "reached", "missed",
    ]  # fmt: skip
    only_aimed = quality.Goal("accuracy", "", "test", "", 0.0, 95.0)
    assert quality._verdict(94.0, only_aimed) == "aim missed"


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
def test_a_damaged_part_is_made_anew(tmp_path, damage):
    made = []

    def make():
        made.append(1)
        return {"x": np.random.default_rng(0).random(200)}

    Parts(tmp_path).get("a", make)
    path = tmp_path / "a.npz"
    path.write_bytes(damage(path.read_bytes()))
    again = Parts(tmp_path).get("a", make)
    assert len(made) == 2
    assert np.array_equal(again["x"], Parts(tmp_path).get("a", make)["x"])
    assert len(made) == 2


@pytest.mark.parametrize(
    "error", [zlib.error, NotImplementedError, MemoryError, tokenize.TokenError, SyntaxError]
)
def test_whatever_reading_a_part_raises_it_is_made_anew(tmp_path, monkeypatch, error):
    Parts(tmp_path).get("a", lambda: {"x": np.zeros(1)})

    def load(*args, **options):
        raise error("damaged")

    monkeypatch.setattr(np, "load", load)
    assert Parts(tmp_path).get("a", lambda: {"x": np.ones(1)})["x"] == 1


def test_interrupted_reading_of_a_part_is_no_damage(tmp_path, monkeypatch):
    Parts(tmp_path).get("a", lambda: {"x": np.zeros(1)})

    def load(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "load", load)
    with pytest.raises(KeyboardInterrupt):
        Parts(tmp_path).get("a", lambda: {"x": np.ones(1)})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("figures", ["../../secret"]),
        ("figures", ["/etc/passwd"]),
        ("figures", [".."]),
        ("figures", [7]),
        ("name", "../iris"),
        ("tables", [{"caption": "t", "columns": "a", "rows": [[1]]}]),
        ("tables", [{"caption": "t"}]),
        ("seconds", "long"),
        ("more", 1),
    ],
)
def test_a_record_that_is_not_ours_is_left_out(tmp_path, key, value):
    finding = Finding("First", "Done.", [Table("t", ("a",), [(1,)])], {"a": 1})
    write_finding(tmp_path / "iris", "iris", finding, Settings())
    path = tmp_path / "iris" / "iris.json"
    assert write_report(tmp_path) == ["iris"]
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: value}))
    assert not is_finished(tmp_path / "iris", "iris", Settings())
    assert write_report(tmp_path) == []


def test_the_report_names_only_what_all_machines_share(tmp_path):
    for name, load in (("iris", 0.5), ("init", 7.25)):
        finding = Finding(name, "", [], {}, machine={"cpu": "a <fast> one", "load": load})
        write_finding(tmp_path / name, name, finding, Settings())
    write_report(tmp_path)
    report = (tmp_path / "REPORT.md").read_text(encoding="utf-8")
    assert "cpu a <fast> one" in report
    assert "load" not in report
    assert "a &lt;fast&gt; one" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_benchmarks_are_listed_and_chosen_apart(tmp_path, monkeypatch):
    ran = []

    def run(self, settings):
        ran.append(self.name)
        return Finding(self.name, "W[d, p]", [], {})

    monkeypatch.setattr(registry.Experiment, "run", run)
    monkeypatch.setattr(registry.Experiment, "require", lambda self: None)
    printed = runner.invoke(app, ["reproduce"]).output
    assert printed.index("quality") < printed.index("benchmarks") < printed.index("products")
    for group, names in (("all", EXPERIMENTS), ("benchmarks", BENCHMARKS)):
        ran.clear()
        result = runner.invoke(app, ["reproduce", group, "--out", str(tmp_path)])
        assert result.exit_code == 0, result.output
        assert ran == list(names)
        assert result.output.count("W[d, p]") == len(names)
    assert "# Benchmarks" in (tmp_path / "REPORT.md").read_text(encoding="utf-8")


def test_a_missing_package_is_a_message_before_anything_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(registry, "find_spec", lambda name: None)
    result = runner.invoke(app, ["reproduce", "million", "products", "--out", str(tmp_path)])
    assert result.exit_code == 2
    assert "products needs tropical-gemm: pip install 'maxplus[bench]'" in result.output
    assert not (tmp_path / "million").exists()


def test_first_uses_are_measured_in_processes_of_their_own(monkeypatch):
    long = "sum(range(10**7))"
    uses = (
        first_use.Use("whole", long, asked=1e6),
        first_use.Use("rest", "pass", before=long, asked=0.0),
    )
    monkeypatch.setattr(first_use, "USES", uses)
    found = first_use.run(Settings())
    assert found.values["whole"]["first"] > 10 * found.values["rest"]["first"] >= 0
    assert set(found.values["rest"]) == {"first", "later"}
    assert "1 of 2 within" in found.text


def test_every_name_has_its_module():
    for name in EXPERIMENTS | BENCHMARKS:
        module = importlib.import_module(f"maxplus.lab.experiments.{name.replace('-', '_')}")
        assert callable(module.run)


@pytest.mark.skipif(not HAS_IMAGES, reason="MAXPLUS_DATA is not set: no MNIST files")
def test_the_long_run_and_the_million_in_small(monkeypatch):
    monkeypatch.setattr(long_run, "in_a_process", here)
    monkeypatch.setattr(long_run, "QUICK", {"images": 60, "iterations": 40, "every": 20})
    found = long_run.run(Settings(quick=True))
    assert found.values["run"]["checks"] == 2
    assert found.values["run"]["differences"] == found.values["steps"]["differences"] == 0
    monkeypatch.setattr(million, "QUICK", {"samples": 80, "iterations": 10})
    found = million.run(Settings(quick=True))
    assert found.values["samples"] == 80
    assert found.values["polyak"] > 0
    assert "within" in found.text


def test_streams_in_small(monkeypatch):
    """The commands run as they are, but in this process."""
    began = []

    def timed(code, *arguments):
        began.append(arguments[:1])
        if code == streams.BASELINE:
            streams.score(*arguments)
        else:
            brief = ("--slope", "5") if arguments[0] == "train" else ()
            result = runner.invoke(app, [*arguments, *brief])
            assert result.exit_code == 0, result.output
        return streams.Taken(float(len(began)), 2.0 * len(began), 5_000_000)

    monkeypatch.setattr(streams, "in_a_process", lambda call, arguments: call(**arguments))
    monkeypatch.setattr(streams, "_timed", timed)
    monkeypatch.setattr(streams, "QUICK_ROWS", 700)
    monkeypatch.setattr(streams, "TRAINING_ROWS", 300)
    monkeypatch.setattr(streams, "FEW_ROWS", 100)
    monkeypatch.setattr(streams, "ROWS_AT_ONCE", 400)
    found = streams.run(Settings(quick=True))
    # Of every two calls, the later one takes a second more.
    for ratios in found.values["ratios"].values():
        assert ratios == {streams.BASE: 1.0, "predict": 1.0, "certify --eps 0.1": 1.0}
    assert "700 rows" in found.scale
    assert "within" in found.text


def test_answers_in_small(monkeypatch):
    monkeypatch.setattr(answers, "in_a_process", here)
    monkeypatch.setattr(answers, "QUICK", answers.QUICK | {"rows": 500, "rounds": 1})
    found = answers.run(Settings(quick=True))
    assert found.values["shares"][answers.KERNEL] == [1.0, 1.0]
    assert set(found.values["shares"]) == {answers.KERNEL, "predict", "predict_proba"}
    assert all(0 <= beyond < 1_000_000 for beyond in found.values["beyond"].values())


def test_a_failure_of_what_is_timed_is_told(capfd):
    with pytest.raises(RuntimeError, match="x y failed"):
        streams._timed("import sys; sys.exit(3)", "x", "y")
    taken = streams._timed("print('not seen')")
    assert taken.clock > 0
    assert taken.processor > 0
    assert taken.peak > 1_000_000
    assert "not seen" not in capfd.readouterr().out


def test_enlarged_images_are_bytes_with_their_labels():
    rng = np.random.default_rng(0)
    X, y = np.zeros((2, 784), np.float32), np.array([3, 5])
    X[0, 28 * 14 + 14], X[1, 28 * 7 + 7] = 1.0, 0.5
    images, labels = million.enlarge(X, y, 50, rng)
    assert set(labels) == {3, 5}
    np.testing.assert_allclose(255 * images, np.rint(255 * images), atol=1e-4)
    # One pixel each, bright or half bright as the label says, whatever the shift.
    assert (np.count_nonzero(images, axis=1) == 1).all()
    assert np.array_equal(images.max(axis=1) > 0.75, labels == 3)


def test_products_are_described_and_wrong_ones_found():
    A, B = np.arange(6.0).reshape(2, 3), np.ones((3, 2))
    right = products.row_blocks(np.min, 1)(A, B)
    products.check(A, B, {products.OURS: right, "other": right.ravel()})
    with pytest.raises(AssertionError, match="other"):
        products.check(A, B, {products.OURS: right, "other": right + 1})
    names = [products.OURS, *products.GOALS]
    timings = [
        {"case": "min-plus", "contender": name, "first": 1.0, "median": k, "ratio": k}
        for k, name in enumerate(names, 1)
    ]
    assert products.describe(timings, (2, 3, 2)).values["ratios"] == dict(
        zip(names[1:], (2, 3, 4), strict=True)
    )


def test_iris_is_trained_by_both():
    pytest.importorskip("torch")
    found = iris_torch.run(Settings(quick=True)).values
    assert found["ratio"] == found["mlp_seconds"] / found["lmm_seconds"]


def test_a_process_of_its_own_answers_in_json(capfd):
    assert in_a_process(measure.cpu_model, {}) == measure.cpu_model()
    with pytest.raises(RuntimeError, match="cpu_model"):
        in_a_process(measure.cpu_model, {"nonsense": 1})
    assert "nonsense" in capfd.readouterr().err


class Clockwork:
    """An engine whose iterations are counted, and which may end by itself."""

    def __init__(self, last=None):
        self.done, self.last = 0, last

    def advance(self, block):
        for _ in range(block.loss.size):
            self.done += 1
            if self.done == self.last:
                block.end(0.0, 0, Signal.TARGET)
                return
            block.record(1.0, 0, 0.1)


def test_iterations_are_timed_by_number_by_seconds_and_to_their_end():
    engine = Clockwork()
    measure.warm_up(engine)
    assert measure.seconds_per_iteration(engine, 2_345) > 0
    assert engine.done == 2_346
    engine = Clockwork(last=17)
    assert measure.seconds_per_iteration(engine, 1_000) > 0
    assert engine.done == 17
    engine = Clockwork()
    each = measure.seconds_per_iteration(engine, seconds=0.05)
    assert 0.05 <= each * engine.done < 5


def test_machine_facts_name_what_is_installed():
    facts = measure.machine_facts("no-such-package")
    assert facts["numpy"] == np.__version__
    assert facts["cpu"]
    assert "no-such-package" not in facts
