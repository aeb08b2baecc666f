"""``maxplus evaluate``: metrics, compared with scikit-learn, and text tables."""

import io
import re
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console
from sklearn.metrics import (
    accuracy_score,
    balanced_accuracy_score,
    classification_report,
    confusion_matrix,
    f1_score,
    log_loss,
    roc_auc_score,
)

import maxplus
from commands import ORCHARD, bad, document, good, read_csv, run, train
from maxplus.cli._console import percent
from maxplus.cli._training import validation_table
from maxplus.cli.evaluate import confusion_table
from maxplus.metrics import classification_metrics
from maxplus.tables import stream_dataset
from table_helpers import opened

pytestmark = pytest.mark.slow


def test_evaluate_measures_and_plots_calibration(orchard_model, tmp_path):
    model = maxplus.load(orchard_model)
    samples = opened(ORCHARD, "goes to")
    codes = np.searchsorted(model.classes_, samples.y)
    P = model.predict_proba(samples.X)
    error = maxplus.metrics.expected_calibration_error(codes, P)
    picture = tmp_path / "reliability.svg"
    printed = good("evaluate", orchard_model, ORCHARD, "--plot", picture)
    assert f"calibration    {error:.4f}" in printed
    assert f"log loss       {maxplus.metrics.log_losses(codes, P).mean():.4f}" in printed
    assert "<svg" in picture.read_text(encoding="utf-8")
    message = bad("evaluate", orchard_model, ORCHARD, "--plot", tmp_path / "a.tiger")
    assert "a.tiger must end in one of .png" in message
    # Matplotlib would write a file with another name.
    assert "reliability must end in one of" in bad(
        "evaluate", orchard_model, ORCHARD, "--plot", tmp_path / "reliability"
    )


def test_evaluate_metrics_equal_scikit_learn(orchard_model):
    model = maxplus.load(orchard_model)
    samples = opened(ORCHARD, "goes to")
    y, P, predicted = samples.y, model.predict_proba(samples.X), model.predict(samples.X)
    result = document("evaluate", orchard_model, ORCHARD)
    assert result["accuracy"] == pytest.approx(accuracy_score(y, predicted))
    assert result["balanced_accuracy"] == pytest.approx(balanced_accuracy_score(y, predicted))
    assert result["log_loss"] == pytest.approx(log_loss(y, P))
    assert result["auc"] == pytest.approx(roc_auc_score(y, P, multi_class="ovr"))
    assert result["macro_f1"] == pytest.approx(f1_score(y, predicted, average="macro"))
    assert result["confusion"] == confusion_matrix(y, predicted).tolist()
    report = classification_report(y, predicted, output_dict=True)
    for one in result["classes"]:
        for ours, theirs in (("precision", "precision"), ("recall", "recall"), ("f1", "f1-score")):
            assert one[ours] == pytest.approx(report[one["label"]][theirs])
        assert one["auc"] == pytest.approx(
            roc_auc_score(y == one["label"], P[:, list(model.classes_).index(one["label"])])
        )
    codes = np.searchsorted(model.classes_, y)
    worst = int(np.argmin(P[np.arange(len(y)), codes]))
    assert result["worst"] == worst + 1
    assert f"(row {worst + 1})" in good("evaluate", orchard_model, ORCHARD)


def test_evaluate_reads_table_in_batches_and_keeps_row_numbers(orchard_model, write, monkeypatch):
    whole = document("evaluate", orchard_model, ORCHARD)
    names, first, *lines = Path(ORCHARD).read_text(encoding="utf-8").splitlines()
    assert names.endswith(",goes to")
    unlabelled = first.rpartition(",")[0] + ","
    table = write("\n".join([names, unlabelled, first, *lines, ""]))
    stream = partial(stream_dataset, batch_size=7)
    monkeypatch.setattr("maxplus.tables.stream_dataset", stream)
    result = document("evaluate", orchard_model, table)
    assert result["worst"] == whole["worst"] + 1
    assert result["confusion"] == whole["confusion"]
    assert result["log_loss"] == whole["log_loss"]


def printed(table, width=80):
    """Return the text of a table."""
    screen = io.StringIO()
    Console(file=screen, width=width).print(table)
    return screen.getvalue()


def matrix_of(n_classes, n=400):
    """Return the metrics and the printed confusion matrix of random predictions."""
    rng = np.random.default_rng(n_classes)
    y = rng.integers(n_classes, size=n)
    P = rng.dirichlet(np.full(n_classes, 0.3), n)
    P[np.arange(n), y] += 0.3
    P /= P.sum(axis=1, keepdims=True)
    metrics = classification_metrics(y, P, [f"class {d}" for d in range(n_classes)])
    return metrics, printed(confusion_table(metrics, 80))


@pytest.mark.parametrize("n_classes", [2, 5, 26, 150])
def test_confusion_matrix_shows_diagonal_for_any_number_of_classes(n_classes):
    metrics, text = matrix_of(n_classes)
    assert "…" not in text.replace(", …", "")
    assert max(map(len, text.splitlines())) <= 80
    diagonal = [int(word.replace(",", "")) for word in re.findall(r"\[([\d,]+)\]", text)]
    assert diagonal == np.diag(metrics.confusion).tolist()


def test_confusion_matrix_that_fits_is_printed_whole():
    metrics, text = matrix_of(4)
    lines = re.findall(r"^ *class \d +(\S.*)$", text, re.MULTILINE)
    expected = [[str(n) if n else "·" for n in row] for row in metrics.confusion.tolist()]
    assert [re.findall(r"[\d·]+", line) for line in lines] == expected


def test_wide_confusion_matrix_is_printed_as_largest_confusions():
    metrics, text = matrix_of(26)
    counts = metrics.confusion.copy()
    np.fill_diagonal(counts, 0)
    lines = re.findall(r"^ *class (\d+) +(.*)$", text, re.MULTILINE)
    assert [int(d) for d, _ in lines] == list(range(26))
    for d, (_, line) in enumerate(lines):
        most = int(counts[d].argmax())
        assert (f"class {most} ({counts[d, most]})" in line) == bool(counts[d, most])


def validation_text(codes, P, labels):
    """Return the printed table of a validation."""
    metrics = classification_metrics(codes, P, labels)
    validation = SimpleNamespace(
        metrics=metrics, baseline=metrics, baseline_label=labels[0], interval=(0.1, 0.9)
    )
    return metrics, printed(validation_table(validation))


@pytest.mark.parametrize("n_rows", [40, 1])
def test_long_class_names_are_truncated(n_rows):
    names = ["no-recurrence-events", "recurrence-events-of-another-kind"]
    P = np.random.default_rng(0).dirichlet([1.0, 1.0], n_rows)
    metrics, text = validation_text(np.arange(n_rows) % 2, P, names)
    assert percent(metrics.accuracy) in text
    assert "10.0 % to 90.0 %" in text
    assert all(len(line) <= 80 for line in text.splitlines())


def test_classes_with_lowest_recall_are_printed():
    codes = np.repeat(np.arange(15), 3)
    P = np.eye(15)[np.where(np.arange(45) < 4, 14, codes)]
    _, text = validation_text(codes, P, [str(d) for d in range(15)])
    assert "recall of 0, 3 rows" in text.split("recall of 1,")[0]
    assert "3 other classes have an equal or higher recall" in text


@pytest.mark.parametrize(
    ("n", "message"),
    [
        (
            1,
            "1 of 240 rows of data.csv has a label that is not a class of the model: 'attic' (1); "
            "its classes are compost, juice, shop. This row is dropped;",
        ),
        (
            2,
            "2 of 240 rows of data.csv have labels that are not classes of the model: 'attic' (2); "
            "its classes are compost, juice, shop. These rows are dropped;",
        ),
    ],
)
def test_evaluate_warns_about_unknown_labels(orchard_model, write, monkeypatch, n, message):
    head, *lines = Path(ORCHARD).read_text(encoding="utf-8").splitlines()
    lines[:n] = [f"{line.rpartition(',')[0]},attic" for line in lines[:n]]
    table = write("\n".join([head, *lines, ""]))
    monkeypatch.chdir(table.parent)
    result = run("evaluate", orchard_model, table.name)
    assert f"Warning: {message}" in result.stderr
    assert f"data.csv: {240 - n} rows" in result.stdout


def test_evaluate_separates_training_rows_from_new_rows(orchard_model, tmp_path):
    names, first, second, *_ = Path(ORCHARD).read_text(encoding="utf-8").splitlines()
    note = "240 rows, the training rows of the model: these metrics do not apply to new rows"
    assert note in good("evaluate", orchard_model, ORCHARD)
    equal = "240 rows have the same values as a training row."
    assert equal in good("certify", orchard_model, ORCHARD)
    found = document("evaluate", orchard_model, ORCHARD)
    assert found["rows_equal_to_training_rows"] == 240
    assert found["is_training_table"] is True
    cells = first.split(",")
    cells[names.split(",").index("weight g")] = "151.25"
    others = tmp_path / "others.csv"
    others.write_text("\n".join([names, ",".join(cells), second]), encoding="utf-8")
    assert "2 rows; 1 equals a training row" in good("evaluate", orchard_model, others)
    assert "1 row has the same values as a training row." in good("certify", orchard_model, others)
    assert document("evaluate", orchard_model, others)["is_training_table"] is False


def test_evaluate_scores_rows_equal_to_training_rows(tmp_path):
    """Rows with the values of a training row are test data nevertheless."""
    rng = np.random.default_rng(0)

    def write(path, n):
        sex, child = rng.integers(0, 2, (2, n))
        survived = np.where(rng.random(n) < 0.2 + 0.5 * sex, "yes", "no")
        lines = [f"{s},{c},{y}" for s, c, y in zip(sex, child, survived, strict=True)]
        path.write_text("\n".join(["sex,child,survived", *lines, ""]))
        return survived

    model, test, out = tmp_path / "m", tmp_path / "test.csv", tmp_path / "p.csv"
    write(tmp_path / "train.csv", 80)
    survived = write(test, 60)
    for options, n_equal in ((("--remember-rows",), 60), ((), None)):
        parameters = {"n_hidden": 4, "slope": 2, "warmup_epochs": 3}
        good(*train(tmp_path / "train.csv", model, *options, **parameters))
        good("predict", model, test, "-o", out)
        predicted = [row["predicted"] for row in read_csv(out)]
        found = document("evaluate", model, test)
        assert found["rows_equal_to_training_rows"] == n_equal
        assert found["n_rows"] == 60
        assert found["accuracy"] == pytest.approx(np.mean(np.array(predicted) == survived))
        report = document("report", model, test, "-o", tmp_path / "r.html")
        assert report["sources"][0]["metrics"]["n_rows"] == 60
        assert report["sources"][0]["metrics"]["accuracy"] == pytest.approx(found["accuracy"])
        assert report["headline"]["holds"] is not None
