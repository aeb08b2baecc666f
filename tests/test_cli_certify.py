"""``maxplus certify`` and ``report``: units, fixed columns and certified rows."""

import html
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import maxplus
import maxplus.cli.certify
from commands import BRIEF, IRIS, ORCHARD, document, good, read_csv
from table_helpers import opened

pytestmark = pytest.mark.slow


def test_certify_unit_is_standard_deviation_of_training_data(orchard_model, tmp_path):
    model = maxplus.load(orchard_model)
    samples = opened(ORCHARD, "goes to")
    deviations = samples.X.std(axis=0)
    assert np.array_equal(model.encoder_.ranges_.deviations, deviations)
    out, unit = tmp_path / "p.csv", "standard deviations of the training data"
    everything = ("--radius", "--move-categories", "-o", out)
    good("predict", orchard_model, ORCHARD, *everything)
    radius = [float(row[f"certified radius in {unit}"]) for row in read_csv(out)]
    assert np.allclose(radius, model.certified_radius(samples.X, deviations), rtol=1e-5)
    # One row of the same table: its own deviations are 0, and must not matter.
    lines = Path(ORCHARD).read_text(encoding="utf-8").splitlines()
    for row in (0, 7):
        one = tmp_path / "one.csv"
        one.write_text("\n".join([lines[0], lines[1 + row]]) + "\n", encoding="utf-8")
        printed = good(
            "certify", orchard_model, one, "--eps", 0, "--eps", 1000, "--move-categories"
        )
        assert f"ε and radii are in {unit}." in printed
        assert f"median certified radius {radius[row]:.4g}, least {radius[row]:.4g}" in printed
        assert re.search(r"1000 +0\.00%", printed)
        good("predict", orchard_model, one, *everything)
        assert float(read_csv(out)[0][f"certified radius in {unit}"]) == radius[row]


@pytest.fixture(scope="module")
def constant(tmp_path_factory):
    """Return a model of a table with a dropped constant column, and the table."""
    folder = tmp_path_factory.mktemp("constant")
    rows = ["a,b,same,label"] + [f"{k / 2},{k % 3},0.1,{'u' if k < 20 else 'v'}" for k in range(40)]
    (folder / "t.csv").write_text("\n".join(rows) + "\n")
    good("train", folder / "t.csv", "-o", folder / "m", *BRIEF)
    return folder / "m", folder / "t.csv"


def test_certify_holds_no_constant_column_fixed(constant, tmp_path):
    path, table = constant
    model = maxplus.load(path)
    assert model.encoder_.feature_names == ["a", "b"]
    printed = good("certify", path, table, "--eps", 1e9)
    assert "0.00%" in printed
    assert "inf" not in printed
    samples = opened(str(table))
    # A column that is constant in the evaluated file only is not held fixed either.
    still = tmp_path / "still.csv"
    still.write_text("a,b,same,label\n5,1,0.1,u\n5,2,0.1,u\n")
    printed = good("certify", path, still)
    expected = model.certified_radius(
        np.array([[5.0, 1.0], [5.0, 2.0]]), model.encoder_.ranges_.deviations
    )
    assert np.isfinite(expected).all()
    assert np.allclose(model.encoder_.ranges_.deviations, samples.X.std(axis=0))
    assert f"least {expected.min():.4g}" in printed


def test_certify_names_raw_units_and_missing_deviations(orchard_model, tmp_path):
    printed = good("certify", orchard_model, ORCHARD, "--raw-units", "--move-categories")
    assert "ε and radii are in raw units." in printed
    samples = opened(IRIS)
    clf = maxplus.SubgradientLMMClassifier(8, max_iter=20, random_state=0).fit(samples.X, samples.y)
    clf.save(tmp_path / "m")
    printed = good("certify", tmp_path / "m", IRIS, "--eps", 0.1)
    assert "raw units (the model file has no standard deviations of the training data)" in printed
    assert f"{clf.certified_accuracy(samples.X, samples.y, 0.1):.2%}" in printed
    out = tmp_path / "p.csv"
    message = good("predict", tmp_path / "m", IRIS, "--radius", "-o", out)
    assert "no standard deviations of the training data" in message
    radius = [float(row["certified radius"]) for row in read_csv(out)]
    assert np.allclose(radius, clf.certified_radius(samples.X), rtol=1e-5)


def test_report_names_unit_of_radii(orchard_model, tmp_path):
    pytest.importorskip("matplotlib")
    page = tmp_path / "r.html"
    for options, unit in (
        ((), "standard deviations of the training data"),
        (("--raw-units",), "raw units"),
    ):
        good("report", orchard_model, ORCHARD, "-o", page, *options)
        text = html.unescape(page.read_text(encoding="utf-8"))
        words = " ".join(text.split())
        assert f"by up to 0.1 at once, in {unit}." in words
        assert "Held fixed, because categories cannot change by a small amount: variety." in words
        assert f'"radius_unit":"{unit}"' in text.replace("\\u0027", "'")


def test_report_command_writes_one_page(digits_model, orchard_model, tmp_path):
    pytest.importorskip("matplotlib")
    for model, data in ((orchard_model, ORCHARD), (digits_model, "digits")):
        good("report", model, data, "-o", tmp_path / "r.html")
        page = (tmp_path / "r.html").read_text(encoding="utf-8")
        assert "<!doctype html>" in page.lower()
        assert not re.search(r'(src|href)="https?:', page)
        for words in (
            "Held-out performance",
            "Error analysis",
            "Single predictions",
            "Certified robustness",
            "Model and training",
        ):
            assert f"<h2>{words}</h2>" in page
        assert "Calibration" in page
        assert "expected calibration error" in page


def test_certify_holds_categories_fixed_by_default(orchard_model, tmp_path):
    model = maxplus.load(orchard_model)
    samples = opened(ORCHARD, "goes to")
    words = np.array([name.startswith("variety") for name in model.encoder_.feature_names])
    held = np.where(words, 0.0, samples.X.std(axis=0))
    right = model.predict(samples.X) == samples.y
    radius = model.certified_radius(samples.X, held)[right]
    result = document("certify", orchard_model, ORCHARD, "--eps", 0.1, "--eps", 0.4)
    assert result["held_fixed"] == ["variety"]
    assert (
        result["certified_accuracy"]
        == model.certified_accuracy(samples.X, samples.y, [0.1, 0.4], held).tolist()
    )
    # Of rows that are right; half of them reach at least the median.
    assert result["right"] == right.sum()
    assert (radius >= result["median_radius_of_right_rows"]).mean() >= 0.5
    assert result["least_radius_of_right_rows"] == radius.min()
    moving = model.certified_radius(samples.X, samples.X.std(axis=0))[right]
    assert (radius >= moving * (1 - 1e-6)).all()
    assert (radius > 1.1 * moving).any()
    printed = good("certify", orchard_model, ORCHARD)
    assert "(variety) are held fixed." in printed
    assert f"{right.sum()} of 240 rows are predicted correctly." in printed
    assert "are not certified." in printed
    raw = document("certify", orchard_model, ORCHARD, "--eps", 2, "--raw-units")
    scale = np.where(words, 0.0, 1.0)
    assert raw["certified_accuracy"] == [model.certified_accuracy(samples.X, samples.y, 2.0, scale)]


def test_certify_reports_missing_values(orchard_model, tmp_path):
    table = tmp_path / "t.csv"
    table.write_text(
        "variety,weight g,sugar %,bruise mm,goes to\n"
        "Gala,157,12.1,1.3,shop\nGala,,12.1,1.3,shop\nElstar,135,,,juice\n"
    )
    printed = good("certify", orchard_model, table)
    assert "2 of the rows have missing values" in printed
    assert document("certify", orchard_model, table)["rows_with_missing_values"] == 2


def test_certify_computes_radii_of_large_tables_only_on_request(orchard_model, monkeypatch):
    small = document("certify", orchard_model, ORCHARD)
    monkeypatch.setattr(sys.modules["maxplus.cli.certify"], "BUFFER_BYTES", 0)
    assert document("certify", orchard_model, ORCHARD) == small
    monkeypatch.setattr(sys.modules["maxplus.cli.certify"], "ROWS_WITH_RADII", 239)
    large = document("certify", orchard_model, ORCHARD)
    assert large["median_radius_of_right_rows"] is None
    assert large["certified_accuracy"] == small["certified_accuracy"]
    assert large["right"] == small["right"]
    assert "--radii gives the median" in good("certify", orchard_model, ORCHARD)
    assert document("certify", orchard_model, ORCHARD, "--radii") == small


def test_certify_claims_nothing_where_every_column_is_held(tmp_path):
    rng = np.random.default_rng(0)
    sex, child = rng.integers(0, 2, (2, 60))
    rows = [f"{s},{c},{'yes' if s else 'no'}" for s, c in zip(sex, child, strict=True)]
    table = tmp_path / "t.csv"
    table.write_text("sex,child,survived\n" + "\n".join(rows) + "\n")
    good("train", table, "-o", tmp_path / "m", *BRIEF)
    printed = good("certify", tmp_path / "m", table)
    assert "Every column is held fixed, so there are no certificates." in printed
    assert "provably" not in printed
    assert "inf" not in printed
    assert "provably" in good("certify", tmp_path / "m", table, "--move-categories")
    good("report", tmp_path / "m", table, "-o", tmp_path / "p.html")
    page = (tmp_path / "p.html").read_text(encoding="utf-8")
    assert "so there are no certificates" in page
    assert "provably stay correct" not in page
