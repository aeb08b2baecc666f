"""``maxplus evaluate``: figures of labelled rows, against scikit-learn."""

import json
import re

import numpy as np
import pytest

import maxplus
from commands import IRIS, ORCHARD, bad, good, run
from maxplus.tables import ColumnChoices, open_source

pytestmark = pytest.mark.slow


def test_evaluating_measures_and_draws_the_calibration(orchard_model, tmp_path):
    model = maxplus.load(orchard_model)
    samples = open_source(ORCHARD, ColumnChoices("goes to"))
    codes = np.searchsorted(model.classes_, samples.y)
    P = model.predict_proba(samples.X)
    error = maxplus.metrics.expected_calibration_error(codes, P)
    picture = tmp_path / "reliability.svg"
    printed = good("evaluate", orchard_model, ORCHARD, "--plot", picture)
    assert f"calibration    {error:.4f}" in printed
    assert f"log loss       {maxplus.metrics.log_losses(codes, P).mean():.4f}" in printed
    assert "<svg" in picture.read_text(encoding="utf-8")
    assert "'tiger' is not supported" in bad(
        "evaluate", orchard_model, ORCHARD, "--plot", tmp_path / "a.tiger"
    )
    assert "no-such" in bad("evaluate", orchard_model, ORCHARD, "--plot", tmp_path / "no-such" / "a.png")
