"""``maxplus certify`` and ``report``: units, fixed columns and certified rows."""

import html
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import maxplus
import maxplus.cli.certify
from commands import IRIS, ORCHARD, SMALL, bad, document, good, read_csv, train
from table_helpers import opened

pytestmark = pytest.mark.slow
DEVIATIONS = "standard deviations of the training data"


def test_certify_unit_is_standard_deviation_of_training_data(orchard_model, tmp_path):
    model = maxplus.load(orchard_model)
    samples = opened(ORCHARD, "goes to")
    deviations = samples.X.std(axis=0)
    assert np.array_equal(model.encoder_.ranges_.deviations, deviations)
    out, column = tmp_path / "p.csv", f"certified radius in {DEVIATIONS}"
    options = ("--radius", "--move-categories", "-o", out)
    good("predict", orchard_model, ORCHARD, *options)
    radius = [float(row[column]) for row in read_csv(out)]
    assert np.allclose(radius, model.certified_radius(samples.X, deviations), rtol=1e-5)
    # The deviations of a table with one row are 0 and must not be used.
    lines = Path(ORCHARD).read_text(encoding="utf-8").splitlines()
    one = tmp_path / "one.csv"
    one.write_text("\n".join([lines[0], lines[8]]) + "\n", encoding="utf-8")
    printed = good("certify", orchard_model, one, "--eps", 0, "--eps", 1000, "--move-categories")
    assert f"ε and radii are in {DEVIATIONS}." in printed
    assert f"median certified radius {radius[7]:.4g}, minimum {radius[7]:.4g}" in printed
    assert "do not change if each feature changes by up to" in printed
    assert re.search(r"1000 +0\.00%", printed)
    good("predict", orchard_model, one, *options)
    assert float(read_csv(out)[0][column]) == radius[7]


def test_certify_does_not_hold_constant_columns_fixed(write, tmp_path):
    path = tmp_path / "m"
    rows = [f"{k / 2},{k % 3},0.1,{'u' if k < 20 else 'v'}" for k in range(40)]
    table = write("\n".join(["a,b,same,label", *rows, ""]))
    good(*train(table, path, **SMALL))
    model = maxplus.load(path)
    assert model.encoder_.feature_names == ["a", "b"]
    printed = good("certify", path, table, "--eps", 1e9)
    assert "0.00%" in printed
    assert "inf" not in printed
    # A column that is constant in the evaluated file only is not held fixed either.
    table.write_text("a,b,same,label\n5,1,0.1,u\n5,2,0.1,u\n")
    X = np.array([[5.0, 1.0], [5.0, 2.0]])
    expected = model.certified_radius(X, model.encoder_.ranges_.deviations)
    assert np.isfinite(expected).all()
    assert f"minimum {expected.min():.4g}" in good("certify", path, table)


def test_certify_names_raw_units_and_missing_deviations(orchard_model, tmp_path):
    printed = good("certify", orchard_model, ORCHARD, "--raw-units", "--move-categories")
    assert "ε and radii are in raw units." in printed
    samples = opened(IRIS)
    clf = maxplus.SubgradientLMMClassifier(8, max_iter=20, random_state=0).fit(samples.X, samples.y)
    clf.save(tmp_path / "m")
    printed = good("certify", tmp_path / "m", IRIS, "--eps", 0.1)
    assert f"raw units (the model file has no {DEVIATIONS})" in printed
    assert f"{clf.certified_accuracy(samples.X, samples.y, 0.1):.2%}" in printed
    out = tmp_path / "p.csv"
    message = good("predict", tmp_path / "m", IRIS, "--radius", "-o", out)
    assert f"no {DEVIATIONS}" in message
    radius = [float(row["certified radius"]) for row in read_csv(out)]
    assert np.allclose(radius, clf.certified_radius(samples.X), rtol=1e-5)


@pytest.mark.parametrize(("options", "unit"), [((), DEVIATIONS), (("--raw-units",), "raw units")])
def test_report_names_unit_of_radii(orchard_model, tmp_path, options, unit):
    pytest.importorskip("matplotlib")
    page = tmp_path / "r.html"
    good("report", orchard_model, ORCHARD, "-o", page, *options)
    text = html.unescape(page.read_text(encoding="utf-8"))
    words = " ".join(text.split())
    assert f"by up to 0.1 at once, in {unit}." in words
    assert "Held fixed, because categories cannot change by a small amount: variety." in words
    assert f'"radius_unit":"{unit}"' in text.replace("\\u0027", "'")


def test_report_command_accepts_images(digits_model, tmp_path):
    pytest.importorskip("matplotlib")
    good("report", digits_model, "digits", "-o", tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "<!doctype html>" in page.lower()
    assert "Certified robustness" in page


def test_certify_holds_categories_fixed_by_default(orchard_model):
    model = maxplus.load(orchard_model)
    samples = opened(ORCHARD, "goes to")
    is_category = np.array([name.startswith("variety") for name in model.encoder_.feature_names])
    held = np.where(is_category, 0.0, samples.X.std(axis=0))
    correct = model.predict(samples.X) == samples.y
    radius = model.certified_radius(samples.X, held)[correct]
    result = document("certify", orchard_model, ORCHARD, "--eps", 0.1, "--eps", 0.4)
    assert result["held_fixed"] == ["variety"]
    expected = model.certified_accuracy(samples.X, samples.y, [0.1, 0.4], held)
    assert result["certified_accuracy"] == expected.tolist()
    assert result["correct"] == correct.sum()
    # The lower median of the radii of correct rows.
    assert result["median_radius_of_correct_rows"] == np.sort(radius)[(len(radius) - 1) // 2]
    assert result["least_radius_of_correct_rows"] == radius.min()
    deviations = samples.X.std(axis=0)
    result = document("certify", orchard_model, ORCHARD, "--eps", 0.1, "--move-categories")
    expected = model.certified_accuracy(samples.X, samples.y, 0.1, deviations)
    assert result["certified_accuracy"] == [expected]
    moving = model.certified_radius(samples.X, deviations)[correct]
    assert (radius >= moving * (1 - 1e-6)).all()
    assert (radius > 1.1 * moving).any()
    assert "(variety) are held fixed." in good("certify", orchard_model, ORCHARD)
    result = document("certify", orchard_model, ORCHARD, "--eps", 2, "--raw-units")
    scale = np.where(is_category, 0.0, 1.0)
    expected = model.certified_accuracy(samples.X, samples.y, 2.0, scale)
    assert result["certified_accuracy"] == [expected]


def test_certify_covers_joint_changes_of_numbers_and_a_category(orchard_model):
    model = maxplus.load(orchard_model)
    samples = opened(ORCHARD, "goes to")
    scale = model.certificate_scale()
    joint = ("--eps", 0.1, "--change-one-of", "variety")
    result = document("certify", orchard_model, ORCHARD, *joint)
    expected = model.certified_accuracy(samples.X, samples.y, 0.1, scale, change_one_of=["variety"])
    assert result["certified_accuracy"] == [expected]
    assert result["change_one_of"] == ["variety"]
    numbers_only = document("certify", orchard_model, ORCHARD, "--eps", 0.1)
    assert expected < numbers_only["certified_accuracy"][0]
    printed = " ".join(good("certify", orchard_model, ORCHARD, *joint).split())
    assert "deviations of the training data and 'variety' to any value." in printed
    assert "training data. In addition, 'variety' may change to any value." in printed
    assert "held fixed" not in printed
    message = bad("certify", orchard_model, ORCHARD, "--change-one-of", "sugar %")
    assert "--change-one-of contains 'sugar %', which is not a categorical or ordinal" in message
    assert message.endswith("use --eps for other columns")
    message = bad("certify", orchard_model, ORCHARD, *joint, "--radii")
    assert "--radii is not available with --change-one-of" in message


def test_certify_reports_missing_values(orchard_model, write):
    table = write(
        "variety,weight g,sugar %,bruise mm,goes to\n"
        "Gala,157,12.1,1.3,shop\nGala,,12.1,1.3,shop\nElstar,135,,,juice\n"
    )
    assert "2 of the rows have missing values" in good("certify", orchard_model, table)
    assert document("certify", orchard_model, table)["rows_with_missing_values"] == 2


def test_certify_computes_radii_of_large_tables_only_on_request(orchard_model, monkeypatch):
    small = document("certify", orchard_model, ORCHARD)
    monkeypatch.setattr(sys.modules["maxplus.cli.certify"], "ROWS_WITH_RADII", 239)
    large = document("certify", orchard_model, ORCHARD)
    assert large["median_radius_of_correct_rows"] is None
    assert large["certified_accuracy"] == small["certified_accuracy"]
    assert large["correct"] == small["correct"]
    assert "--radii computes the median" in good("certify", orchard_model, ORCHARD)
    assert document("certify", orchard_model, ORCHARD, "--radii") == small


def test_no_certificates_if_every_column_is_held_fixed(write, tmp_path):
    rng = np.random.default_rng(0)
    sex, child = rng.integers(0, 2, (2, 60))
    rows = [f"{s},{c},{'yes' if s else 'no'}" for s, c in zip(sex, child, strict=True)]
    model, page = tmp_path / "m", tmp_path / "p.html"
    table = write("\n".join(["sex,child,survived", *rows, ""]))
    good(*train(table, model, **SMALL))
    printed = good("certify", model, table)
    assert "Every column is held fixed, so there are no certificates." in printed
    assert "median certified radius" not in printed
    assert "inf" not in printed
    assert "median certified radius" in good("certify", model, table, "--move-categories")
    good("report", model, table, "-o", page)
    text = page.read_text(encoding="utf-8")
    assert "so there are no certificates" in text
    assert "provably stay correct" not in text
