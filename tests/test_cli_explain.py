"""``maxplus explain`` and ``rules``, compared with the Python interface."""

import csv
import ctypes
import re

import numpy as np
import pytest

import maxplus
from commands import IRIS, ORCHARD, bad, document, good, read_csv, train
from maxplus.cli import explain as explain_module
from maxplus.explain import changes
from table_helpers import opened

pytestmark = pytest.mark.slow


def test_explain_writes_every_row_by_default(orchard_model, tmp_path, monkeypatch):
    monkeypatch.setattr(explain_module, "ROWS_AT_ONCE", 100)
    printed = good("explain", orchard_model, ORCHARD, "--table", tmp_path / "t.csv")
    assert [n for n in range(1, 20) if f"Row {n}:" in printed] == [1, 2, 3]
    assert "decided by" in printed
    assert "initialised at training row" in printed
    rows = read_csv(tmp_path / "t.csv")
    assert [int(row["row"]) for row in rows] == [n for n in range(1, 241) for _ in range(3)]
    model = maxplus.load(orchard_model)
    X = opened(ORCHARD, "goes to").X
    table = model.explain(X).to_records()
    assert np.allclose([float(row["score"]) for row in rows], table["score"])
    assert [int(row["prototype"]) - 1 for row in rows] == table["prototype"].tolist()


STRUCTURES = {"sum": {}, "network": {"n_hidden": 12}, "ensemble": {"n_estimators": 2}}


@pytest.fixture(scope="module", params=STRUCTURES)
def flowers_model(request, tmp_path_factory):
    """Model file of each structure: a sum of terms, a single network, an ensemble."""
    path = tmp_path_factory.mktemp("models") / "flowers.maxplus"
    good(*train(IRIS, path, **STRUCTURES[request.param], warmup_epochs=4))
    return request.param, path


def test_explain_equals_python_for_all_structures(flowers_model, tmp_path, monkeypatch):
    kind, path = flowers_model
    monkeypatch.setattr(explain_module, "ROWS_AT_ONCE", 60)
    model, X = maxplus.load(path), opened(IRIS, "species").X
    good("explain", path, IRIS, "--table", tmp_path / "t.csv")
    rows, records = read_csv(tmp_path / "t.csv"), model.explain(X).to_records()
    assert tuple(rows[0]) == records.dtype.names
    assert [int(row["row"]) for row in rows] == (records["row"] + 1).tolist()
    name = "score" if kind == "network" else "contribution"
    assert [float(row[name]) for row in rows] == pytest.approx(records[name].tolist())
    X = X[[69, 0]]
    result = document("explain", path, IRIS, "--row", 70, "--row", 1)
    assert [row["row"] for row in result["rows"]] == [70, 1]
    records = model.explain(X).to_records()
    for n, row in enumerate(result["rows"]):
        assert row["predicted"] == model.predict(X)[n]
        assert row["text"].startswith(f"Row {row['row']}: {row['predicted']} (probability ")
        assert row["counterfactual"]["class"] in row["text"]
        own = records[records["row"] == n]
        assert [line[name] for line in row["lines"]] == pytest.approx(own[name].tolist())
        if kind == "network":
            probability = [line["probability"] for line in row["lines"]]
            assert probability == pytest.approx(model.predict_proba(X)[n].tolist())
        else:
            margin = row["lines"][0]["baseline"] + own["contribution"].sum()
            assert margin == pytest.approx(row["lines"][0]["margin"])


def test_explain_draws_sums_of_terms_and_images(flowers_model, digits_model, tmp_path):
    pytest.importorskip("matplotlib")
    kind, path = flowers_model
    out = tmp_path / "p.png"
    if kind == "network":
        message = bad("explain", path, IRIS, "--picture", out)
        assert "--picture requires a sum of terms or a model for images" in message
        good("explain", digits_model, "digits", "--picture", out)
    else:
        good("explain", path, IRIS, "--row", 70, "--picture", out)
    assert out.read_bytes().startswith(b"\x89PNG")


def test_explain_accepts_regressors(write, tmp_path):
    pytest.importorskip("matplotlib")
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (80, 2)).round(3)
    lines = ["a,b,y", *(f"{a},{b},{abs(a) + b:.3f}" for a, b in X), ""]
    table, path = write("\n".join(lines)), tmp_path / "m.maxplus"
    good(*train(table, path, "--task", "regression", epochs=30))
    files = ("--table", tmp_path / "e.csv", "--picture", tmp_path / "p.png")
    result = document("explain", path, table, "--row", 3, *files)
    explanation = maxplus.load(path).explain(X[2:3])
    (row,) = result["rows"]
    assert row["text"] == f"Row 3: {explanation.text(0)}"
    assert row["predicted"] == pytest.approx(maxplus.load(path).predict(X[2:3])[0])
    assert "flip" not in row
    own = [float(line["contribution"]) for line in read_csv(tmp_path / "e.csv")]
    assert own == pytest.approx(explanation.to_records()["contribution"].tolist())
    assert own == pytest.approx([line["contribution"] for line in row["lines"]])
    assert row["lines"][0]["baseline"] + sum(own) == pytest.approx(explanation.margin[0])
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    good("report", path, table, "-o", tmp_path / "r.html")
    assert '<th scope="row">a</th>' in (tmp_path / "r.html").read_text(encoding="utf-8")
    for option in (("--fixed", "a"), ("--range", "free"), ("--max-columns", 2)):
        message = "is a regressor, and counterfactuals require a classifier"
        assert message in bad("explain", path, table, *option)


def test_printed_counterfactuals_hold_and_fixed_columns_stay(orchard_model, tmp_path):
    names = ["variety", "weight g", "sugar %", "bruise mm"]
    lines = read_csv(ORCHARD)[:25]
    rows = [word for n in range(1, 26) for word in ("--row", n)]
    changed = set()
    for fixed in ((), ("--fixed", "bruise mm,variety")):
        result = document("explain", orchard_model, ORCHARD, *rows, *fixed)["rows"]
        flips = [
            (n, row["counterfactual"]) for n, row in enumerate(result) if row["counterfactual"]
        ]
        assert flips
        table = tmp_path / "changed.csv"
        with open(table, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, names, extrasaction="ignore")
            writer.writeheader()
            writer.writerows(lines[n] | {flip["feature"]: flip["to"]} for n, flip in flips)
        good("predict", orchard_model, table, "-o", tmp_path / "p.csv")
        predicted = [row["predicted"] for row in read_csv(tmp_path / "p.csv")]
        assert predicted == [flip["class"] for _, flip in flips]
        changed = {flip["feature"] for _, flip in flips}
    assert changed <= {"weight g", "sugar %"}
    message = bad("explain", orchard_model, ORCHARD, "--fixed", "colour")
    assert "--fixed: column 'colour' does not exist" in message


def test_counterfactuals_respect_given_ranges(orchard_model):
    options = ("--row", 2, "--fixed", "variety,weight g,sugar %")
    free = document("explain", orchard_model, ORCHARD, *options)["rows"][0]["counterfactual"]
    assert free["feature"] == "bruise mm"
    # Exclude the counterfactual value, but not the value of row 2.
    middle = (11.9 + free["value"]) / 2
    limits = f"{middle}:12.5" if free["value"] < 11.9 else f"11:{middle}"
    narrow = ("explain", orchard_model, ORCHARD, *options, "--range", f"bruise mm={limits}")
    assert document(*narrow)["rows"][0]["counterfactual"] is None
    unlimited = ("--row", 2, "--range", "free", "--range", "bruise mm=:")
    assert "changes to" in good("explain", orchard_model, ORCHARD, *unlimited)
    for text in ("bruise mm", "bruise mm=3", "=1:2", "bruise mm=a:b"):
        message = bad("explain", orchard_model, ORCHARD, "--range", text)
        assert "--range must be free, or a column" in message
    assert "no column 'colour'" in bad("explain", orchard_model, ORCHARD, "--range", "colour=1:2")


def test_explain_discards_output_of_the_solver(orchard_model, monkeypatch, capfd):
    """HiGHS prints some messages with printf even if its output is disabled."""
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
    assert re.search(r"changing up to 2 columns: changes to \w+ if", result["rows"][0]["text"])


def test_rules_command_equals_model_rules(orchard_model):
    model = maxplus.load(orchard_model)
    samples = opened(ORCHARD, "goes to")
    expected = model.rules(samples.X, samples.y, 3)
    assert good("rules", orchard_model, ORCHARD, "-n", 3).strip() == str(expected)
    result = document("rules", orchard_model, ORCHARD, "--number", 3)
    assert [rule["correct"] for rule in result["rules"]] == [rule.n_correct for rule in expected]
    assert result["rows"] == 240
