"""``python -m experiments tables``: data, cross-validation, tables and cache."""

import csv
import gzip
import json
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from typer.testing import CliRunner

from experiments import Settings, tables
from experiments.__main__ import app
from experiments.harness import Cache
from experiments.tables import (
    BOOSTING_BASELINES,
    Results,
    differences_table,
    find_folder,
    held_out,
    installed_baselines,
    metrics_of,
    read_folder,
    structures_table,
)
from maxplus import LMMClassifier
from maxplus.datasets import DataNotFoundError
from maxplus.evaluation.comparison import SKLEARN_CLASSIFIERS
from maxplus.metrics import expected_calibration_error

pytestmark = pytest.mark.slow

QUALITY = dict(zip(tables.METRICS, (80.0, 0.5, 0.03, 0.06, 1.0, 1.0, 0.1), strict=True))


def folds(n, seed):
    return StratifiedKFold(n, shuffle=True, random_state=seed)


def made_table(seed, n, n_classes=2):
    """Return a table of two numbers and a category with overlapping classes."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    X = rng.normal(size=(n, 2)) + 1.5 * y[:, None]
    words = np.where(rng.random(n) < 0.3 + 0.3 * y, "yes", "no")
    lines = [f"{a:.3f},{w},{b:.3f},c{d}" for (a, b), w, d in zip(X, words, y, strict=True)]
    return "a,word,b,class\n" + "\n".join(lines) + "\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Write three tables, one of them compressed, and a file that is not a table."""
    place = tmp_path / "tables"
    place.mkdir()
    (place / "README.md").write_text("no table")
    (place / "long.csv").write_text(made_table(0, 60))
    (place / "short.csv").write_text(made_table(1, 36))
    (place / "three.csv.gz").write_bytes(gzip.compress(made_table(2, 45, 3).encode()))
    monkeypatch.setenv("MAXPLUS_TABLES", str(place))
    return place


def few_epochs(seed):
    return LMMClassifier(4, warmup_epochs=3, polish=None, random_state=seed)


@pytest.fixture
def light(monkeypatch):
    """Replace all models by fast ones."""
    models = {name: (lambda seed: LogisticRegression()) for name in SKLEARN_CLASSIFIERS}
    models["forest"] = lambda seed: RandomForestClassifier(5, random_state=seed)
    monkeypatch.setattr(tables, "MODELS", {"LMM": few_epochs, **models})


# -- reading ----------------------------------------------------------------------------------


def test_tables_are_read_with_one_hot_encoding(folder):
    found = read_folder(find_folder())
    assert [(t.name, t.X.shape, t.y.max()) for t in found] == [
        ("short", (36, 4), 1),
        ("three", (45, 4), 2),
        ("long", (60, 4), 1),
    ]
    rows = list(csv.DictReader((folder / "short.csv").read_text().splitlines()))
    expected = [[float(r["a"]), r["word"] == "no", r["word"] == "yes", float(r["b"])] for r in rows]
    assert found[0].X.tolist() == expected
    assert found[0].y.tolist() == [int(r["class"][1:]) for r in rows]


def test_last_column_is_the_class(tmp_path):
    (tmp_path / "t.csv").write_text("label,y,kind\n1,5,7\n2,6,9\n3,7,7\n")
    (table,) = read_folder(tmp_path)
    assert table.X.tolist() == [[1, 5], [2, 6], [3, 7]]
    assert table.y.tolist() == [0, 1, 0]


def test_missing_folder_error_names_variable(tmp_path, monkeypatch):
    monkeypatch.delenv("MAXPLUS_TABLES", raising=False)
    monkeypatch.delenv("MAXPLUS_DATA", raising=False)
    result = CliRunner().invoke(app, ["tables", "--out", str(tmp_path / "r")])
    assert result.exit_code == 2
    assert "needs a folder of CSV files" in result.output
    assert "MAXPLUS_TABLES" in result.output
    monkeypatch.setenv("MAXPLUS_DATA", str(tmp_path))
    with pytest.raises(DataNotFoundError, match=r"MAXPLUS_DATA=.* is not a folder"):
        find_folder()
    (tmp_path / "tables").mkdir()
    assert find_folder() == tmp_path / "tables"
    with pytest.raises(DataNotFoundError, match=r"contains no file that ends in .csv or .csv.gz"):
        read_folder(find_folder())
    monkeypatch.setenv("MAXPLUS_TABLES", str(tmp_path))
    assert find_folder() == tmp_path


def test_table_with_missing_values_is_rejected(tmp_path):
    (tmp_path / "holes.csv").write_text("a,class\n1,x\n,y\n")
    with pytest.raises(DataNotFoundError, match=r"holes.csv has missing values.*remove the table"):
        read_folder(tmp_path)


# -- judging ----------------------------------------------------------------------------------


def test_held_out_equals_cross_val_predict(folder):
    table = read_folder(folder)[1]
    four = folds(4, 7)
    part = held_out(LogisticRegression(), table.X, table.y, four)
    expected = cross_val_predict(
        LogisticRegression(), table.X, table.y, cv=four, method="predict_proba"
    )
    np.testing.assert_allclose(part["probabilities"], expected, rtol=1e-12)
    for k, (_, test) in enumerate(four.split(table.X, table.y)):
        assert np.array_equal(np.flatnonzero(part["fold"] == k), test)
    figures = metrics_of(part)
    assert figures["accuracy"] == pytest.approx(100 * np.mean(expected.argmax(1) == table.y))
    assert figures["log_loss"] == pytest.approx(log_loss(table.y, expected))
    assert figures["calibration_error"] == expected_calibration_error(table.y, expected)
    within = [
        expected_calibration_error(table.y[test], expected[test])
        for _, test in four.split(table.X, table.y)
    ]
    assert figures["calibration_error_within"] == pytest.approx(np.mean(within))
    assert figures["fit_seconds"] > 0
    assert figures["fit_cpu_seconds"] > 0
    assert figures["predict_seconds"] > 0
    assert part["structures"].size == 0


class Chooser(ClassifierMixin, BaseEstimator):
    """Predicts the first class; chooses the second structure if the first row is positive."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.search_ = {"candidates": np.array(["shapes", "boxes"]), "chosen": int(X[0, 0] > 0)}
        return self

    def predict_proba(self, X):
        return np.tile(np.arange(len(self.classes_)) == 0, (len(X), 1)).astype(float)


def test_held_out_has_chosen_structures():
    y = np.arange(12) % 2
    X = np.random.default_rng(0).normal(size=(12, 1))
    part = held_out(Chooser(), X, y, folds(3, 0))
    expected = [int(X[train[0], 0] > 0) for train, _ in folds(3, 0).split(X, y)]
    assert set(expected) == {0, 1}
    assert part["structures"].tolist() == [("shapes", "boxes")[c] for c in expected]


def test_held_out_accepts_class_with_a_single_row():
    X, y = np.arange(13.0)[:, None], np.array([0] * 6 + [1] * 6 + [2])
    with pytest.warns(UserWarning, match="least populated class"):
        part = held_out(LogisticRegression(), X, y, folds(3, 0))
    assert part["probabilities"].shape == (13, 3)
    assert part["probabilities"][12, 2] == 0.0


@pytest.mark.parametrize("name", SKLEARN_CLASSIFIERS)
def test_baselines_predict_probabilities(name):
    rng = np.random.default_rng(0)
    y = np.arange(120) % 3
    X = 1e4 * (rng.normal(size=(120, 3)) + y[:, None])
    part = held_out(SKLEARN_CLASSIFIERS[name](0), X, y, folds(2, 0))
    np.testing.assert_allclose(part["probabilities"].sum(axis=1), 1.0, atol=1e-6)
    # Features of any size: baselines scale them.
    assert metrics_of(part)["accuracy"] > 50


@pytest.mark.parametrize("name", BOOSTING_BASELINES)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_boosted_baselines_predict_probabilities(name, n_classes):
    pytest.importorskip(BOOSTING_BASELINES[name][0])
    rng = np.random.default_rng(0)
    y = np.arange(120) % n_classes
    X = 2 * y[:, None] + rng.normal(size=(120, 2))
    model = installed_baselines()[name](0)
    if name == "EBM":  # with its defaults it takes half a minute
        model.set_params(outer_bags=2, max_rounds=50)
    part = held_out(model, X, y, folds(2, 0))
    np.testing.assert_allclose(part["probabilities"].sum(axis=1), 1.0, atol=1e-6)
    assert metrics_of(part)["accuracy"] > 70


def test_missing_boosted_baselines_are_left_out(monkeypatch):
    monkeypatch.setattr(tables, "find_spec", lambda name: name == "lightgbm" or None)
    assert list(installed_baselines()) == ["LightGBM"]


# -- tables of results ------------------------------------------------------------------------


def made_results():
    """Two tables on which all models are equal."""
    models = ("LMM", *SKLEARN_CLASSIFIERS)
    keys = pd.MultiIndex.from_product([("small", "large"), models], names=["table", "model"])
    return Results(
        {"small": 100, "large": 6_000},
        pd.DataFrame([QUALITY] * len(keys), index=keys),
    )


def test_differences_table_is_paired():
    results = made_results()
    columns = ["accuracy", "log_loss"]
    results.metrics.loc[("small", "SVC"), columns] = [79.0, 0.6]
    results.metrics.loc[("large", "SVC"), columns] = [83.0, 0.7]
    rows = {row[0]: row[1:] for row in differences_table(results).rows}
    # +1 and −3: mean −1, standard deviation √8, over √2.
    assert rows["SVC"] == ("−1.00 ± 2.00", "1", "1", "−0.1500 ± 0.0500", "2", "0")
    assert rows["kNN"] == ("+0.00 ± 0.00", "0", "0", "+0.0000 ± 0.0000", "0", "0")
    assert "LMM" not in rows


def test_structures_table_counts():
    chosen = {"small": Counter(shapes=3, boxes=2), "large": Counter(shapes=5)}
    results = Results({"small": 100, "large": 6_000}, pd.DataFrame(), chosen)
    assert structures_table(results).rows == [
        ("shapes", "8", "80.0", "small, large"),
        ("boxes", "2", "20.0", "small"),
    ]


# -- the experiment ---------------------------------------------------------------------------


def test_tables_quick_run(folder, light, tmp_path):
    pytest.importorskip("matplotlib")
    (folder / "largest.csv").write_text(made_table(3, 90))
    out = tmp_path / "results"
    # A part that was made before is taken as it is.
    y = read_folder(folder)[0].y
    perfect = {"labels": y, "fold": np.arange(len(y)) % 3, "probabilities": np.eye(2)[y]}
    perfect |= {name: np.ones(3) for name in ("fit", "fit_cpu", "predict", "structures")}
    Cache(out / "tables" / "parts-quick").get("short SVC 0", lambda: perfect)
    arguments = ["tables", "--quick", "--resume", "--out", str(out)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    record = json.loads((out / "tables" / "tables.json").read_text(encoding="utf-8"))
    assert set(record["values"]["rows"]) == {"short", "three", "long"}
    assert list(record["values"]["figures"]) == ["LMM", *SKLEARN_CLASSIFIERS]
    assert record["values"]["figures"]["SVC"]["short"]["accuracy"] == 100.0
    assert record["values"]["figures"]["SVC"]["short"]["log_loss"] == 0.0
    assert "3 small tables, 3 folds, 1 seed" in record["scale"]
    assert (
        "Left out (`pip install 'maxplus[baselines]'` installs them): "
        "XGBoost, LightGBM, CatBoost, EBM."
    ) in record["text"]
    assert (out / "tables" / "tables-models.png").stat().st_size > 1000
    assert not (out / "tables" / "parts-quick").exists()
    with open(out / "tables" / "tables-1.csv", newline="", encoding="utf-8") as file:
        means = {row["model"]: row for row in csv.DictReader(file)}
    figures = record["values"]["figures"]["forest"].values()
    assert float(means["forest"]["accuracy %"]) == pytest.approx(
        np.mean([table["accuracy"] for table in figures]), abs=0.005
    )


def test_measure_averages_over_seeds(folder, light, monkeypatch):
    found = read_folder(folder)[:1]
    monkeypatch.setattr(tables, "QUICK_SEEDS", 3)
    results = tables.measure(found, {"forest": tables.MODELS["forest"]}, Settings(quick=True))
    each = [
        metrics_of(held_out(tables.MODELS["forest"](s), found[0].X, found[0].y, folds(3, s)))
        for s in range(3)
    ]
    figures = results.metrics.loc["short", "forest"]
    assert figures["accuracy"] == pytest.approx(np.mean([f["accuracy"] for f in each]))
    assert len({f["log_loss"] for f in each}) > 1
