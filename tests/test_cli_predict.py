"""``maxplus predict``: labels and numbers for the rows of a table."""

import json

import numpy as np
import pytest

import maxplus
from commands import IRIS, ORCHARD, bad, good, read_csv, run
from maxplus.tables import ColumnChoices, open_source

pytestmark = pytest.mark.slow


def test_predictions_are_the_models_own(orchard_model, tmp_path):
    out = tmp_path / "p.csv"
    good("predict", orchard_model, ORCHARD, "--probabilities", "--radius", "--raw-units", "-o", out)
    with open(out, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    model = maxplus.load(orchard_model)
    X = open_source(ORCHARD, target="goes to", categorical=["variety"]).X
    assert [row["predicted"] for row in rows] == model.predict(X).tolist()
    p = np.array([[float(row[f"probability of {c}"]) for c in model.classes_] for row in rows])
    assert np.allclose(p, model.predict_proba(X), atol=1e-6)
    radius = np.array([float(row["certified radius"]) for row in rows])
    assert np.allclose(radius, model.certified_radius(X), rtol=1e-5)


def test_prediction_needs_no_labels_and_any_order_of_columns(orchard_model, tmp_path):
    path = tmp_path / "new.csv"
    path.write_text("note,bruise mm,sugar %,weight g,variety\nhi,20,12,150,Gala\n")
    assert good("predict", orchard_model, path).splitlines() == ["row,predicted", "0,compost"]
