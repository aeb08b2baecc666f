"""``maxplus explain`` and ``rules``: what decided, and what would change it."""

import json

import pytest

import maxplus
from commands import ORCHARD, bad, good, read_csv, run
from maxplus.tables import ColumnChoices, open_source

pytestmark = pytest.mark.slow


def test_evaluation_explanation_and_certificates_agree_with_python(orchard_model):
    model = maxplus.load(orchard_model)
    samples = open_source(ORCHARD, ColumnChoices("goes to"))
    accuracy = model.score(samples.X, samples.y)
    assert f"right          {accuracy:.2%}" in good("evaluate", orchard_model, ORCHARD)
    why = good("explain", orchard_model, ORCHARD, "--row", 5, "--row", 0)
    assert why.index("Row 5:") < why.index("Row 0:")
    assert "decided by" in why
    assert "like training sample" in why
    printed = good("certify", orchard_model, ORCHARD, "--eps", 0.1, "--raw-units")
    assert f"{model.certify(samples.X, samples.y, 0.1):.2%}" in printed
    scale = samples.X.std(axis=0)
    printed = good("certify", orchard_model, ORCHARD, "--eps", 0.1)
    assert f"{model.certify(samples.X, samples.y, 0.1, scale):.2%}" in printed


def test_a_category_is_never_changed_beyond_yes_and_no(orchard_model, tmp_path):
    rows = [word for n in range(40) for word in ("--row", n)]
    good("explain", orchard_model, ORCHARD, "--table", tmp_path / "t.csv", *rows)
    with open(tmp_path / "t.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 40 * 3
    assert {row["row"] for row in rows} == {str(n) for n in range(40)}
    values = [float(r["flip_value"]) for r in rows if r["flip_feature"].startswith("variety")]
    assert all(0 <= value <= 1 for value in values)


def test_images_get_a_picture_and_tables_do_not(digits_model, orchard_model, tmp_path):
    pytest.importorskip("matplotlib")
    good("explain", digits_model, "digits", "--picture", tmp_path / "p.png")
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    assert "--picture is for models of images" in bad(
        "explain", orchard_model, ORCHARD, "--picture", tmp_path / "q.png"
    )
