"""``maxplus explain`` and ``rules``: what decided, and what would change it."""

import csv
import ctypes
import re

import numpy as np
import pytest

import maxplus
from commands import IRIS, ORCHARD, bad, document, good, read_csv, settings
from maxplus.cli import explain as explain_module
from maxplus.explain import changes
from table_helpers import opened

pytestmark = pytest.mark.slow


def test_evaluate_explain_and_certify_equal_python(orchard_model):
    model = maxplus.load(orchard_model)
    samples = opened(ORCHARD, "goes to")
    accuracy = model.score(samples.X, samples.y)
    assert f"accuracy       {accuracy:.2%}" in good("evaluate", orchard_model, ORCHARD)
    why = good("explain", orchard_model, ORCHARD, "--row", 5, "--row", 1)
    assert why.index("Row 5:") < why.index("Row 1:")
    assert "decided by" in why
    assert "like training row" in why
    everything = ("--eps", 0.1, "--move-categories")
    printed = good("certify", orchard_model, ORCHARD, *everything, "--raw-units")
    assert f"{model.certified_accuracy(samples.X, samples.y, 0.1):.2%}" in printed
    scale = samples.X.std(axis=0)
    printed = good("certify", orchard_model, ORCHARD, *everything)
    assert f"{model.certified_accuracy(samples.X, samples.y, 0.1, scale):.2%}" in printed


def test_explain_draws_images_and_no_tables(digits_model, orchard_model, tmp_path):
    pytest.importorskip("matplotlib")
    good("explain", digits_model, "digits", "--picture", tmp_path / "p.png")
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    assert "--picture is for models of images" in bad(
        "explain", orchard_model, ORCHARD, "--picture", tmp_path / "q.png"
    )


def test_explain_writes_every_row_by_default(orchard_model, tmp_path, monkeypatch):
    monkeypatch.setattr(explain_module, "ROWS_AT_ONCE", 100)
    printed = good("explain", orchard_model, ORCHARD, "--table", tmp_path / "t.csv")
    assert [n for n in range(1, 20) if f"Row {n}:" in printed] == [1, 2, 3]
    rows = read_csv(tmp_path / "t.csv")
    assert [int(row["row"]) for row in rows] == [n for n in range(1, 241) for _ in range(3)]
    model = maxplus.load(orchard_model)
    X = opened(ORCHARD, "goes to").X
    table = model.explain(X).to_records()
    assert np.allclose([float(row["score"]) for row in rows], table["score"])
    assert [int(row["prototype"]) - 1 for row in rows] == table["prototype"].tolist()


TRAININGS = {"sum": (), "network": settings("n_hidden=12"), "ensemble": settings("n_estimators=2")}


@pytest.fixture(scope="module", params=TRAININGS)
def flowers_model(request, tmp_path_factory):
    """Return a model file of each structure: a sum of terms, a single network, an ensemble."""
    path = tmp_path_factory.mktemp("models") / "flowers.maxplus"
    options = (*TRAININGS[request.param], *settings("warmup_epochs=4"), "--validate", "none")
    good("train", IRIS, *options, "-o", path)
    return request.param, path


def test_explain_equals_python_for_all_structures(flowers_model):
    kind, path = flowers_model
    model, X = maxplus.load(path), opened(IRIS, "species").X[[69, 0]]
    result = document("explain", path, IRIS, "--row", 70, "--row", 1)
    assert [row["row"] for row in result["rows"]] == [70, 1]
    why = model.explain(X)
    records = why.to_records()
    for n, row in enumerate(result["rows"]):
        assert row["predicted"] == model.predict(X)[n]
        assert row["text"].startswith(f"Row {row['row']}: {row['predicted']} (probability ")
        assert row["flip"]["class"] in row["text"]
        own = records[records["row"] == n]
        name = "score" if kind == "network" else "contribution"
        assert [line[name] for line in row["lines"]] == pytest.approx(own[name].tolist())
        if kind == "network":
            probability = [line["probability"] for line in row["lines"]]
            assert probability == pytest.approx(model.predict_proba(X)[n].tolist())
        if kind != "network":
            margin = row["lines"][0]["baseline"] + own["contribution"].sum()
            assert margin == pytest.approx(row["lines"][0]["margin"])


def test_explain_writes_a_table_of_all_structures(flowers_model, tmp_path, monkeypatch):
    kind, path = flowers_model
    monkeypatch.setattr(explain_module, "ROWS_AT_ONCE", 60)
    good("explain", path, IRIS, "--table", tmp_path / "t.csv")
    rows = read_csv(tmp_path / "t.csv")
    records = maxplus.load(path).explain(opened(IRIS, "species").X).to_records()
    assert tuple(rows[0]) == records.dtype.names
    assert [int(row["row"]) for row in rows] == (records["row"] + 1).tolist()
    name = "score" if kind == "network" else "contribution"
    assert [float(row[name]) for row in rows] == pytest.approx(records[name].tolist())


def test_explain_draws_sums_of_terms_without_images(flowers_model, tmp_path):
    pytest.importorskip("matplotlib")
    kind, path = flowers_model
    picture = ("explain", path, IRIS, "--row", 70, "--picture", tmp_path / "p.png")
    if kind == "network":
        assert "this model is a single network" in bad(*picture)
        return
    good(*picture)
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")


def test_explain_accepts_regressors(tmp_path):
    pytest.importorskip("matplotlib")
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (80, 2)).round(3)
    table, path = tmp_path / "t.csv", tmp_path / "m.maxplus"
    lines = ["a,b,y", *(f"{a},{b},{abs(a) + b:.3f}" for a, b in X)]
    table.write_text("\n".join(lines) + "\n", encoding="utf-8")
    good(
        "train",
        table,
        "--task",
        "regression",
        *settings("epochs=30"),
        "--validate",
        "none",
        "-o",
        path,
    )
    files = ("--table", tmp_path / "e.csv", "--picture", tmp_path / "p.png")
    result = document("explain", path, table, "--row", 3, *files)
    why = maxplus.load(path).explain(X[2:3])
    (row,) = result["rows"]
    assert row["text"] == f"Row 3: {why.text(0)}"
    assert row["predicted"] == pytest.approx(maxplus.load(path).predict(X[2:3])[0])
    assert "flip" not in row
    own = [float(line["contribution"]) for line in read_csv(tmp_path / "e.csv")]
    assert own == pytest.approx(why.to_records()["contribution"].tolist())
    assert own == pytest.approx([line["contribution"] for line in row["lines"]])
    assert row["lines"][0]["baseline"] + sum(own) == pytest.approx(why.margin[0])
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    for option in (("--fixed", "a"), ("--range", "free"), ("--max-columns", 2)):
        assert "predicts numbers, which have no counterfactuals" in bad(
            "explain", path, table, *option
        )


def test_printed_counterfactuals_hold_and_fixed_columns_stay(orchard_model, tmp_path):
    names = ["variety", "weight g", "sugar %", "bruise mm"]
    lines = read_csv(ORCHARD)[:25]
    rows = [word for n in range(1, 26) for word in ("--row", n)]
    changed = set()
    for fixed in ((), ("--fixed", "bruise mm,variety")):
        result = document("explain", orchard_model, ORCHARD, *rows, *fixed)["rows"]
        flips = [(n, row["flip"]) for n, row in enumerate(result) if row["flip"]]
        assert flips
        table = tmp_path / "changed.csv"
        with open(table, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, names, extrasaction="ignore")
            writer.writeheader()
            writer.writerows(lines[n] | {flip["feature"]: flip["to"]} for n, flip in flips)
        good("predict", orchard_model, table, "-o", tmp_path / "p.csv")
        now = [row["predicted"] for row in read_csv(tmp_path / "p.csv")]
        assert now == [flip["class"] for _, flip in flips]
        changed = {flip["feature"] for _, flip in flips}
    assert changed <= {"weight g", "sugar %"}
    assert "fixed: column 'colour' does not exist" in bad(
        "explain", orchard_model, ORCHARD, "--fixed", "colour"
    )


def test_counterfactuals_respect_given_ranges(orchard_model):
    options = ("--row", 2, "--fixed", "variety,weight g,sugar %")
    free = document("explain", orchard_model, ORCHARD, *options)["rows"][0]["flip"]
    assert free["feature"] == "bruise mm"
    middle = (11.9 + free["value"]) / 2  # between what row 2 has and what it would need
    limits = f"{middle}:12.5" if free["value"] < 11.9 else f"11:{middle}"
    narrow = document(
        "explain", orchard_model, ORCHARD, *options, "--range", f"bruise mm={limits}"
    )["rows"][0]["flip"]
    assert narrow is None
    anything = ("--row", 2, "--range", "free", "--range", "bruise mm=:")
    assert "flips to" in good("explain", orchard_model, ORCHARD, *anything)
    for text in ("bruise mm", "bruise mm=3", "=1:2", "bruise mm=a:b"):
        assert "--range must be free, or a column" in bad(
            "explain", orchard_model, ORCHARD, "--range", text
        )
    assert "no column 'colour'" in bad("explain", orchard_model, ORCHARD, "--range", "colour=1:2")


def test_explain_discards_what_the_solver_prints(orchard_model, monkeypatch, capfd):
    """HiGHS prints some notes by C's printf, whatever its options."""
    libc, milp = ctypes.CDLL(None), changes.milp

    def noisy(*args, **options):
        libc.puts(b"HighsMipSolverData::transformNewIntegerFeasibleSolution")
        return milp(*args, **options)

    monkeypatch.setattr(changes, "milp", noisy)
    print("before")
    result = document("explain", orchard_model, ORCHARD, "--row", 2, "--max-columns", 2)
    print("after")
    libc.fflush(None)
    assert capfd.readouterr().out == "before\nafter\n"
    assert re.search(r"of up to 2 columns: flips to \w+ if", result["rows"][0]["text"])


def test_rules_command_equals_model_rules(orchard_model):
    model = maxplus.load(orchard_model)
    samples = opened(ORCHARD, "goes to")
    expected = model.rules(samples.X, samples.y, 3)
    assert good("rules", orchard_model, ORCHARD, "-n", 3).strip() == str(expected)
    result = document("rules", orchard_model, ORCHARD, "--number", 3)
    assert [rule["right"] for rule in result["rules"]] == [rule.right for rule in expected]
    assert result["rows"] == 240
