"""Targets of tables: classes, inference of the task, labels unknown to a model."""

import numpy as np
import pytest

from commands import bad, document, good, run, settings
from maxplus.tables import RawTable, TableError, read_batches, read_table
from table_helpers import decided, encoder_of, opened

ARMS = ["None", "placebo", "drug"]


def trial(n=60):
    """Return a CSV file whose target has the class None."""
    grades = ["low", "None", "high"]
    lines = [f"{k % 3 + k / 100},{grades[k % 3]},{ARMS[k % 3]}" for k in range(n)]
    return "\n".join(["size,grade,class", *lines]) + "\n"


@pytest.mark.parametrize("ending", ["csv", "parquet", "xlsx"])
def test_string_none_is_a_class_of_the_target(tmp_path, ending):
    pandas = pytest.importorskip("pandas")
    path = tmp_path / f"trial.{ending}"
    (tmp_path / "trial.csv").write_text(trial())
    frame = pandas.read_csv(tmp_path / "trial.csv", keep_default_na=False)
    if ending == "parquet":
        frame.to_parquet(path)
    elif ending == "xlsx":
        pytest.importorskip("openpyxl")
        frame.to_excel(path, index=False)
    samples = opened(read_table(path))
    assert sorted(set(samples.y)) == sorted(ARMS)
    assert len(samples.y) == 60
    # In a feature, it is a missing value.
    assert "grade is missing" in samples.encoder.feature_names
    assert sum(part.n_rows for part in read_batches(path)) == 60


def test_text_target_of_a_regression_is_rejected_with_a_remedy():
    texts = np.array(["12", "n/a?", "14"] * 20)
    with pytest.raises(TableError, match=r"row 2: 'price' contains 'n/a\?'.*correct it") as error:
        opened(RawTable("t", {"x": np.arange(60.0), "price": texts}), task="regression")
    assert "classification" not in str(error.value)
    texts[texts == "14"] = "dear"
    with pytest.raises(TableError, match=r"40 of 60 values are text.*`task='classification'`"):
        opened(RawTable("t", {"x": np.arange(60.0), "price": texts}), task="regression")


@pytest.mark.parametrize(("unit", "is_advised"), [("", True), (" EUR", False)])
def test_regression_is_not_advised_for_a_text_target(unit, is_advised):
    prices = np.array([f"{k}{unit}" for k in range(38)] + ["dear", "cheap"])
    _, lines = decided(RawTable("t", {"x": np.arange(40) * 0.3, "price": prices}))
    (line,) = [line for line in lines if line.startswith("few rows")]
    assert ("`task='regression'`" in line) == is_advised


def test_none_in_python_is_a_missing_label():
    table = RawTable("t", {"x": np.arange(40) * 0.3, "class": np.array(["a", "b", None, "b"] * 10)})
    samples = opened(table)
    assert sorted(set(samples.y)) == ["a", "b"]
    assert len(samples.y) == 30


def test_none_in_numeric_column_is_missing(write):
    rows = "\n".join(f"{k * 0.3},{'None' if k % 5 == 0 else k / 7}" for k in range(60))
    samples = opened(read_table(write(f"x,price\n{rows}\n")), target="price")
    assert samples.target.task == "regression"
    assert len(samples.y) == 48


def test_none_is_predicted_and_evaluated_as_a_class(tmp_path):
    (tmp_path / "trial.csv").write_text(trial(90))
    options = (*settings("n_hidden=6", "slope=2", "warmup_epochs=2"), "--validate", "none")
    good("train", tmp_path / "trial.csv", "-o", tmp_path / "m", *options)
    found = document("evaluate", tmp_path / "m", tmp_path / "trial.csv")
    assert [one["label"] for one in found["classes"]] == sorted(ARMS)
    assert sum(map(sum, found["confusion"])) == 90


@pytest.mark.parametrize(
    ("n_different", "n_rows", "task"),
    [
        (10, 30, "classification"),
        (11, 100, "regression"),
        (11, 120, "classification"),
        (20, 4000, "classification"),
        (21, 4000, "regression"),
        (28, 4177, "regression"),
    ],
)
def test_integer_target_with_many_values_selects_regression(n_different, n_rows, task):
    cells = np.arange(float(n_rows)) % n_different
    table = RawTable("t", {"x": np.sin(np.arange(n_rows)), "y": cells})
    encoding, lines = decided(table)
    assert encoding.target_.task == task
    assert any("`task='classification'`" in line for line in lines) == (task == "regression")
    for chosen in ("classification", "regression"):
        assert encoder_of(table, task=chosen).target_.task == chosen
    assert encoder_of(table, task="regression").target_.labels(table).dtype == np.float64


@pytest.mark.parametrize("words", [True, False])
def test_many_classes_of_few_rows_warn(words):
    codes = np.arange(60) % 12
    cells = np.array([f"c{k}" for k in codes], object) if words else codes.astype(float)
    table = RawTable("t", {"x": np.sin(np.arange(60)), "y": cells})
    encoding, lines = decided(table, task="classification")
    assert encoding.target_.task == "classification"
    assert any("12 classes in 60 rows" in line and "`target`" in line for line in lines)
    table = RawTable("t", {"x": np.sin(np.arange(600)), "y": np.tile(cells, 10)})
    assert not any("classes in" in line for line in decided(table)[1])
    assert encoder_of(table).target_.task == "classification"


@pytest.fixture(scope="module")
def flowers(tmp_path_factory):
    """Return a model of three classes, and a file with labels that are unknown to it."""
    folder = tmp_path_factory.mktemp("flowers")
    rng = np.random.default_rng(0)
    rows = [(k % 3 + rng.normal(0, 0.1), rng.normal(), "abc"[k % 3]) for k in range(60)]
    unknown = [(size, noise, "new") for size, noise, _ in rows[20:25]]
    tables = {
        "train": rows,
        "known": rows[:20],
        "test": [*rows[:20], *unknown, (*rows[0][:2], "b2")],
        "other": [(1.0, 0.5, "new")],
    }
    for name, cells in tables.items():
        lines = [f"{size:.3f},{noise:.3f},{label}" for size, noise, label in cells]
        (folder / f"{name}.csv").write_text("\n".join(["size,noise,class", *lines]) + "\n")
    options = (*settings("n_hidden=6", "slope=2", "warmup_epochs=3"), "--validate", "none")
    good("train", folder / "train.csv", "-o", folder / "m", *options)
    return folder


@pytest.mark.parametrize("command", ["evaluate", "certify", "report", "rules"])
def test_unknown_labels_are_counted_and_listed(flowers, command):
    out = ["-o", flowers / "page.html"] if command == "report" else []
    result = run(command, flowers / "m", flowers / "test.csv", *out)
    assert result.exit_code == 0, result.output
    printed = result.stderr
    assert "6 of 26 rows" in printed
    assert "'new' (5), 'b2' (1)" in printed
    assert "maxplus train" in printed
    if command == "evaluate":
        assert "Accuracy including 6 rows with unknown labels" in result.stdout
        lines = (flowers / "test.csv").read_text().splitlines()
        (flowers / "one.csv").write_text("\n".join([*lines[:3], lines[-1], ""]))
        one = run(command, flowers / "m", flowers / "one.csv").stdout
        assert "Accuracy including 1 row with an unknown label" in one
    assert "6 of 26" in bad(command, flowers / "m", flowers / "test.csv", *out, "--strict")
    assert "its classes are a, b, c" in bad(command, flowers / "m", flowers / "other.csv", *out)


@pytest.mark.parametrize(
    ("command", "metric"), [("evaluate", "accuracy"), ("certify", "certified_accuracy")]
)
def test_metrics_exclude_rows_with_unknown_labels(flowers, command, metric):
    known, both = (
        document(command, flowers / "m", flowers / name) for name in ("known.csv", "test.csv")
    )
    assert both[metric] == known[metric]
    assert both["rows_with_unknown_labels"] == 6
    if command == "evaluate":
        assert both["unknown_labels"] == {"new": 5, "b2": 1}
        assert known["rows_with_unknown_labels"] == 0
