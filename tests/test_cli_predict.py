"""``maxplus predict``: classes and target values of the rows of a table."""

import csv
from functools import partial

import numpy as np
import pandas as pd
import pytest

import maxplus
from commands import ORCHARD, SMALL, bad, document, good, read_csv, run, train
from maxplus.cli import predict as predict_module
from table_helpers import opened

pytestmark = pytest.mark.slow
HEAD = "variety,weight g,sugar %,bruise mm\n"


def test_predict_command_equals_model(orchard_model, tmp_path):
    out = tmp_path / "p.csv"
    options = ("--probabilities", "--radius", "--raw-units", "--move-categories")
    good("predict", orchard_model, ORCHARD, *options, "-o", out)
    rows = read_csv(out)
    model = maxplus.load(orchard_model)
    X = opened(ORCHARD, "goes to").X
    assert [row["row"] for row in rows] == [str(n) for n in range(1, 241)]
    assert [row["predicted"] for row in rows] == model.predict(X).tolist()
    p = np.array([[float(row[f"probability of {c}"]) for c in model.classes_] for row in rows])
    assert np.allclose(p, model.predict_proba(X), atol=1e-6)
    radius = np.array([float(row["certified radius"]) for row in rows])
    assert np.allclose(radius, model.certified_radius(X), rtol=1e-5)


def test_predict_accepts_missing_labels_and_any_column_order(orchard_model, write):
    path = write("note,bruise mm,sugar %,weight g,variety\nhi,20,12,150,Gala\n")
    assert good("predict", orchard_model, path).splitlines() == ["row,predicted", "1,compost"]


def test_radii_are_never_rounded_up():
    rng = np.random.default_rng(0)
    radius = np.r_[rng.lognormal(0, 8, 10_000), 0.0, np.inf, 0.3, 1e-300, 123456.7, 1.0, 1e7 / 3]
    shown = predict_module._round_down(radius)
    assert (shown <= radius).all()
    finite = np.isfinite(radius)
    np.testing.assert_allclose(shown[finite], radius[finite], rtol=2e-5)
    assert [float(f"{r:.6g}") for r in shown] == pytest.approx(shown.tolist(), rel=1e-15)
    assert np.isinf(shown[~finite]).all()


def test_predict_keeps_selected_columns(orchard_model, write, tmp_path):
    out = tmp_path / "p.csv"
    table = write(
        f'id,"note, long",{HEAD}07,"sweet, soft",Gala,157,12.1,1.3\nx9,,Elstar,135,12.6,11.9\n'
    )
    kept = ("--keep-columns", 'id,"note, long"', "--keep-columns", "weight g")
    good("predict", orchard_model, table, *kept, "-o", out)
    first, second = read_csv(out)
    assert list(first) == ["row", "id", "note, long", "weight g", "predicted"]
    assert (first["id"], first["note, long"], first["weight g"]) == ("07", "sweet, soft", "157")
    assert (second["row"], second["id"], second["note, long"]) == ("2", "x9", "")
    result = document("predict", orchard_model, table, "--keep-columns", "id")
    assert [row["id"] for row in result["predictions"]] == ["07", "x9"]
    message = bad("predict", orchard_model, table, "--keep-columns", "name")
    assert "has no column 'name' (--keep-columns)" in message
    # The message lists all columns, although only those of the model are read.
    assert "'id'" in message


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_error_about_missing_columns_lists_all_columns_of_the_file(orchard_model, tmp_path, ending):
    table = tmp_path / f"t.{ending}"
    for columns in ({"Variety": ["Gala"], "weight g": [157.0]}, {"Variety": ["Gala"], "b": [1.0]}):
        frame = pd.DataFrame(columns)
        if ending == "csv":
            frame.to_csv(table, index=False)
        else:
            frame.to_parquet(table)
        message = bad("predict", orchard_model, table)
        assert "lacks columns 'variety'," in message
        assert message.endswith(f"it has {', '.join(map(repr, columns))}")


def test_predict_in_batches_equals_whole_table(orchard_model, tmp_path, monkeypatch):
    options = ("--probabilities", "--radius", "--keep-columns", "variety")
    whole, parts = tmp_path / "whole.csv", tmp_path / "parts.csv"
    good("predict", orchard_model, ORCHARD, *options, "-o", whole)
    certified = document("certify", orchard_model, ORCHARD)
    stream = maxplus.tables.stream_dataset
    monkeypatch.setattr(maxplus.tables, "stream_dataset", partial(stream, batch_size=7))
    good("predict", orchard_model, ORCHARD, *options, "-o", parts)
    assert parts.read_bytes() == whole.read_bytes()
    assert document("certify", orchard_model, ORCHARD) == certified
    result = document("predict", orchard_model, ORCHARD, *options)
    assert [str(row["row"]) for row in result["predictions"]] == [r["row"] for r in read_csv(whole)]


def test_predict_counts_or_rejects_unknown_categories(orchard_model, tmp_path):
    table, out = tmp_path / "t.csv", tmp_path / "p.csv"
    table.write_text(HEAD + "Gala,157,12.1,1.3\n" + "Fuji,157,12.1,1.3\n" * 2)
    result = run("predict", orchard_model, table)
    assert result.exit_code == 0
    assert len(result.stdout.splitlines()) == 4
    (warning,) = result.stderr.splitlines()
    assert warning.startswith("Warning: ")
    assert "2 in 'variety' ('Fuji')" in warning
    assert run("predict", orchard_model, table, "--quiet").stderr == ""
    out.write_text("before\n")
    message = bad("predict", orchard_model, table, "--strict", "-o", out)
    assert "line 3" in message
    assert "'Fuji'" in message
    # The output file is replaced only after all rows have been predicted.
    assert out.read_text() == "before\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p.csv", "t.csv"]


def test_spreadsheet_safe_prefixes_formulas_only(tmp_path):
    labels = ["=1+1", "@b", "plain"]
    notes = ['=HYPERLINK("x")', "+1 more", "-", "-5", "+2.5", "@x", "\tx", "fine", "a=b"]
    rows = [(k % 3 + k / 100, notes[k % len(notes)], labels[k % 3]) for k in range(60)]
    table, model, out = tmp_path / "t.csv", tmp_path / "m", tmp_path / "p.csv"
    with open(table, "w", newline="") as file:
        csv.writer(file).writerows([("size", "=note", "class"), *rows])
    good(*train(table, model, "--drop", "=note", **SMALL))
    options = ("predict", model, table, "--keep-columns", "=note", "-o", out)
    good(*options)
    plain = read_csv(out)
    assert {row["predicted"] for row in plain} == set(labels)
    good(*options, "--spreadsheet-safe")
    safe = read_csv(out)
    assert list(safe[0]) == ["row", "'=note", "predicted"]
    assert {row["predicted"] for row in safe} == {"'=1+1", "'@b", "plain"}
    for before, after in zip(plain, safe, strict=True):
        note = before["=note"]
        is_formula = note[:1] in ("=", "+", "@") and note != "+2.5"
        assert after["'=note"] == ("'" if is_formula else "") + note
    assert {"'+1 more", "-5", "+2.5"} <= {row["'=note"] for row in safe}
