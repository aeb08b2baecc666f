"""``maxplus evaluate``: figures of labelled rows, against scikit-learn."""

import io
import re
import subprocess
import sys
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
from commands import ORCHARD, bad, document, good, read_csv, settings
from maxplus.cli._text_tables import confusion_table, percent, validation_table
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
    assert "'tiger' is not supported" in bad(
        "evaluate", orchard_model, ORCHARD, "--plot", tmp_path / "a.tiger"
    )
    assert "no-such" in bad(
        "evaluate", orchard_model, ORCHARD, "--plot", tmp_path / "no-such" / "a.png"
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


def test_evaluate_reads_table_in_batches_and_keeps_row_numbers(
    orchard_model, tmp_path, monkeypatch
):
    whole = document("evaluate", orchard_model, ORCHARD)
    head, *lines = Path(ORCHARD).read_text(encoding="utf-8").splitlines()
    place = head.split(",").index("goes to")
    unknown = lines[0].split(",")
    unknown[place] = ""
    later = tmp_path / "later.csv"
    later.write_text("\n".join([head, ",".join(unknown), *lines]) + "\n", encoding="utf-8")
    sizes = []

    def few(*arguments, **options):
        for part in stream_dataset(*arguments, rows_at_once=7, **options):
            sizes.append(len(part.X))
            yield part

    monkeypatch.setattr("maxplus.tables.stream_dataset", few)
    result = document("evaluate", orchard_model, later)
    assert max(sizes) == 7
    assert result["worst"] == whole["worst"] + 1
    assert result["confusion"] == whole["confusion"]
    assert result["log_loss"] == whole["log_loss"]


def matrix_of(n_classes, n=400, width=80):
    """Return a printed confusion matrix of this number of classes, with its counts."""
    rng = np.random.default_rng(n_classes)
    y = rng.integers(n_classes, size=n)
    P = rng.dirichlet(np.full(n_classes, 0.3), n)
    P[np.arange(n), y] += 0.3
    P /= P.sum(axis=1, keepdims=True)
    figures = classification_metrics(y, P, [f"class {d}" for d in range(n_classes)])
    screen = io.StringIO()
    Console(file=screen, width=width).print(confusion_table(figures, width))
    return figures, screen.getvalue()


@pytest.mark.parametrize("n_classes", [2, 3, 5, 26, 150])
def test_confusion_matrix_shows_diagonal_for_any_number_of_classes(n_classes):
    figures, text = matrix_of(n_classes)
    assert "…" not in text.replace(", …", "")
    assert max(map(len, text.splitlines())) <= 80
    right = [int(word.replace(",", "")) for word in re.findall(r"\[([\d,]+)\]", text)]
    assert right == np.diag(figures.confusion).tolist()


def test_confusion_matrix_that_fits_is_printed_whole():
    figures, text = matrix_of(4)
    for row in figures.confusion:
        assert any(
            re.findall(r"[\d·]+", line.partition("class ")[2])[1:]
            == [str(n) if n else "·" for n in row.tolist()]
            for line in text.splitlines()
        )


def test_wide_confusion_matrix_is_printed_as_largest_confusions():
    figures, text = matrix_of(26)
    counts = figures.confusion.copy()
    np.fill_diagonal(counts, 0)
    lines = re.findall(r"^ *class (\d+) +(.*)$", text, re.MULTILINE)
    assert [int(d) for d, _ in lines] == list(range(26))
    for d, (_, line) in enumerate(lines):
        most = int(counts[d].argmax())
        assert (f"class {most} ({counts[d, most]})" in line) == bool(counts[d, most])


def test_evaluate_separates_training_rows_from_new_rows(orchard_model, tmp_path):
    lines = Path(ORCHARD).read_text(encoding="utf-8").splitlines()
    n = len(lines) - 1
    words = f"{n} rows, the training rows of the model: these metrics do not apply to new rows"
    assert words in good("evaluate", orchard_model, ORCHARD)
    assert f"{n} rows have the same values as a training row." in good(
        "certify", orchard_model, ORCHARD
    )
    found = document("evaluate", orchard_model, ORCHARD)
    assert found["rows_equal_to_training_rows"] == n
    assert found["is_training_table"] is True
    names = lines[0].split(",")
    place = names.index("weight g")
    cells = lines[1].split(",")
    cells[place] = "151.25"
    others = tmp_path / "others.csv"
    others.write_text("\n".join([lines[0], ",".join(cells), lines[2]]), encoding="utf-8")
    assert "2 rows; 1 equals a training row" in good("evaluate", orchard_model, others)
    assert "1 row has the same values as a training row." in good("certify", orchard_model, others)
    found = document("evaluate", orchard_model, others)
    assert found["n_rows"] == 2
    assert found["is_training_table"] is False


def test_evaluate_scores_rows_equal_to_training_rows(tmp_path):
    """Different people with equal values are test data all the same."""
    rng = np.random.default_rng(0)
    header = "sex,child,survived\n"

    def write(name, n):
        sex, child = rng.integers(0, 2, (2, n))
        survived = np.where(rng.random(n) < 0.2 + 0.5 * sex, "yes", "no")
        lines = [f"{s},{c},{y}" for s, c, y in zip(sex, child, survived, strict=True)]
        (tmp_path / name).write_text(header + "\n".join(lines) + "\n")
        return survived

    write("train.csv", 80)
    survived = write("test.csv", 60)
    model = tmp_path / "m"
    options = (*settings("n_hidden=4", "slope=2", "warmup_epochs=3"), "--validate", "none")
    for extra, n_equal in ((("--remember-rows",), 60), ((), None)):
        good("train", tmp_path / "train.csv", "-o", model, *options, *extra)
        found = document("evaluate", model, tmp_path / "test.csv")
        predicted = [row["predicted"] for row in _predictions(model, tmp_path)]
        assert found["rows_equal_to_training_rows"] == n_equal
        assert found["n_rows"] == 60
        assert found["accuracy"] == pytest.approx(np.mean(np.array(predicted) == survived))
        result = document("report", model, tmp_path / "test.csv", "-o", tmp_path / "r.html")
        assert result["sources"][0]["figures"]["n_rows"] == 60
        assert result["sources"][0]["figures"]["accuracy"] == pytest.approx(found["accuracy"])
        assert result["headline"]["holds"] is not None


def _predictions(model, folder):
    out = folder / "p.csv"
    good("predict", model, folder / "test.csv", "-o", out)
    return read_csv(out)


@pytest.mark.parametrize("n_rows", [40, 1])
def test_long_class_names_are_truncated(n_rows):
    names = ["no-recurrence-events", "recurrence-events-of-another-kind"]
    P = np.random.default_rng(0).dirichlet([1.0, 1.0], n_rows)
    codes = np.arange(n_rows) % 2
    figures = classification_metrics(codes, P, names)
    table = validation_table(
        SimpleNamespace(
            figures=figures, baseline=figures, baseline_label=names[0], interval=(0.1, 0.9)
        )
    )
    text = io.StringIO()
    Console(file=text, width=80).print(table)
    assert percent(figures.accuracy) in text.getvalue()
    assert "10.0 % to 90.0 %" in text.getvalue()
    assert all(len(line) <= 80 for line in text.getvalue().splitlines())


def test_classes_with_lowest_recall_are_printed():
    codes = np.repeat(np.arange(15), 3)
    P = np.eye(15)[np.where(np.arange(45) < 4, 14, codes)]
    figures = classification_metrics(codes, P, [str(d) for d in range(15)])
    text = io.StringIO()
    result = SimpleNamespace(
        figures=figures, baseline=figures, baseline_label="0", interval=(0.1, 0.9)
    )
    Console(file=text, width=80).print(validation_table(result))
    assert "recall of 0, 3 rows" in text.getvalue().split("recall of 1,")[0]
    # Some that are shown are as high as can be.
    assert "3 other classes have no lower recall" in text.getvalue()


def test_closed_output_pipe_is_no_error(orchard_model):
    """As in ``maxplus evaluate … | head -1``."""
    command = [sys.executable, "-c", "from maxplus.cli import main; main()"]
    with subprocess.Popen(
        [*command, "evaluate", str(orchard_model), ORCHARD],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        process.stdout.close()
        message = process.stderr.read()
    assert "Error" not in message
    assert "Traceback" not in message
