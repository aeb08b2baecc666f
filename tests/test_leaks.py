"""Detection of single columns that predict the target nearly perfectly."""

import numpy as np
import pandas as pd
import pytest

from commands import document, run, settings
from maxplus.evaluation.leaks import find_leaks
from maxplus.tables import table_of
from table_helpers import opened

BRIEF = (*settings("n_hidden=4", "slope=1", "warmup_epochs=1"), "--validate", "none")
RNG = np.random.default_rng(0)
N = 300
CLASSES = RNG.choice(["ill", "well"], N, p=[0.3, 0.7])
NUMBERS = RNG.normal(size=N)


def frame_of(**columns):
    """Return a table with two columns of noise and the given columns."""
    return pd.DataFrame(
        {"noise": RNG.normal(size=N), "word": RNG.choice(list("abc"), N), **columns}
    )


LEAKS = {
    "a category for each class": {"code": np.where(CLASSES == "ill", "X1", "X2"), "y": CLASSES},
    "an interval for each class": {
        "code": (CLASSES == "ill") * 5.0 + RNG.uniform(0, 1, N),
        "y": CLASSES,
    },
    "a missing value": {"code": np.where(CLASSES == "ill", NUMBERS, np.nan), "y": CLASSES},
    "a linear function": {"code": 2.54 * NUMBERS + 3.0, "y": NUMBERS},
}
HARMLESS = {
    "an informative column": {"code": (CLASSES == "ill") + RNG.normal(0, 0.35, N), "y": CLASSES},
    "a rare class": {"code": RNG.normal(size=N), "y": np.where(np.arange(N) % 20 == 0, "a", "b")},
    "a correlated number": {"code": NUMBERS + RNG.normal(0, 0.3, N), "y": NUMBERS},
}


def found_in(columns):
    table = table_of(frame_of(**columns))
    return find_leaks(opened(table, "y"))


@pytest.mark.parametrize("columns", LEAKS.values(), ids=LEAKS)
def test_leaking_columns_are_detected(columns):
    (leak,) = found_in(columns)
    assert leak.column == "code"
    assert leak.score >= 0.99


@pytest.mark.parametrize("columns", HARMLESS.values(), ids=HARMLESS)
def test_columns_without_leak_are_not_reported(columns):
    assert found_in(columns) == []


def test_single_repeated_class_is_no_leak():
    """Without the classes of one row, a single class remains."""
    labels = np.array(["a"] * 20 + [f"class {k}" for k in range(10)])
    frame = frame_of(y=CLASSES)[:30].assign(y=labels)
    assert find_leaks(opened(table_of(frame), "y")) == []


@pytest.mark.parametrize("name", ["iris", "wine", "breast_cancer", "digits"])
def test_well_known_tables_have_no_leaks(name):
    assert find_leaks(opened(name)) == []


def test_train_reports_leak_and_remedy(tmp_path):
    path = tmp_path / "t.csv"
    frame_of(**LEAKS["an interval for each class"]).rename(columns={"code": "later code"}).to_csv(
        path, index=False
    )
    result = run("train", path, "-o", tmp_path / "m", *BRIEF)
    assert result.exit_code == 0
    assert "Warning: 'later code' alone predicts 'y' nearly perfectly" in result.stderr
    assert '--drop "later code"' in result.stderr
    found = document("train", path, "-o", tmp_path / "m", *BRIEF)
    assert any("'later code' alone predicts" in line for line in found["decisions"])
    result = run("train", path, "-o", tmp_path / "m", "--drop", "later code", *BRIEF)
    assert "alone predicts" not in result.output
