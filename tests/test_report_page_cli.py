"""``maxplus report`` on a table with ids, text and missing values."""

import csv

import numpy as np
import pytest

from clinics import patients
from commands import BRIEF, document, good, read_csv, settings
from maxplus import load
from maxplus.report.data import editable_columns
from report_pages import Page

pytestmark = pytest.mark.slow
pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def clinic(tmp_path_factory):
    """Write a table with ids, text and missing values, and train a model on most of its rows."""
    folder = tmp_path_factory.mktemp("clinic")
    table = patients(120)
    cells = [column.tolist() for column in table.columns.values()]
    lines = [["" if cell != cell else cell for cell in row] for row in zip(*cells, strict=True)]
    for name, part in (("all", lines), ("most", lines[:90])):
        with open(folder / f"{name}.csv", "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([list(table.columns), *part])
    options = (*settings("n_hidden=8", "slope=2", "warmup_epochs=4"), "--validate", 0.3)
    good("train", folder / "most.csv", "-o", folder / "m.maxplus", *options)
    return folder


def test_report_command_on_messy_table(clinic, tmp_path):
    page = tmp_path / "page.html"
    found = document("report", clinic / "m.maxplus", clinic / "all.csv", "-o", page)
    assert [source["title"] for source in found["sources"]] == [
        "all.csv",
        "30% of the rows held out",
    ]
    assert [source["metrics"]["n_rows"] for source in found["sources"]] == [120, 27]
    assert found["headline"]["text"].startswith("The accuracy on 120 rows of all.csv is ")
    text = page.read_text(encoding="utf-8")
    assert "The model predicts" in text
    assert "whether some of the 120 rows of all.csv were used in training." in text
    data = Page(text).data
    rows = {row["row"]: row for row in data["rows"]}
    assert rows[1]["id"] == "P100"
    assert rows[120]["id"] == "P219"
    clf = load(clinic / "m.maxplus")
    expected = editable_columns(clf.encoder_, clf.encoder_.feature_names)
    assert [column["choices"] for column in data["columns"]] == [c["choices"] for c in expected]
    ages = patients(120).columns["age"]
    assert {n for n, row in rows.items() if 0 in row["missing"]} == {
        n + 1 for n in np.flatnonzero(np.isnan(ages)) if n + 1 in rows
    }


def test_report_of_training_table_shows_validation(clinic, tmp_path):
    output = good("report", clinic / "m.maxplus", clinic / "most.csv", "-o", tmp_path / "p.html")
    assert "The accuracy on 27 rows held out of training is" in output
    good("train", clinic / "most.csv", "-o", tmp_path / "bare.maxplus", *BRIEF)
    output = good(
        "report", tmp_path / "bare.maxplus", clinic / "most.csv", "-o", tmp_path / "p.html"
    )
    assert "Not measured on new rows" in output
    assert "✓" not in (tmp_path / "p.html").read_text(encoding="utf-8")


def test_report_accepts_unlabelled_table(clinic, tmp_path):
    with open(clinic / "all.csv", newline="", encoding="utf-8") as file:
        rows = [row[:-1] for row in csv.reader(file)]
    unlabelled = tmp_path / "new.csv"
    with open(unlabelled, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    page = tmp_path / "p.html"
    found = document("report", clinic / "m.maxplus", unlabelled, "-o", page)
    # Only the stored validation has metrics on new rows.
    assert [source["title"] for source in found["sources"]] == ["30% of the rows held out"]
    text = page.read_text(encoding="utf-8")
    assert "new.csv has no true labels to compare with." in text
    assert "Predicted classes" in text
    data = Page(text).data
    out = tmp_path / "predicted.csv"
    good("predict", clinic / "m.maxplus", unlabelled, "-o", out)
    predicted = [row["predicted"] for row in read_csv(out)]
    assert [row["predicted"] for row in data["rows"]] == predicted
    assert all(row["label"] is None for row in data["rows"])
