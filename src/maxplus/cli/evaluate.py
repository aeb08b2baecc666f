"""``maxplus evaluate``: metrics of a model on labelled data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray

from maxplus.cli import _options as opt
from maxplus.cli._console import (
    Console,
    counted,
    label_cell,
    number,
    open_console,
    percent,
    plain_table,
    regression_rows,
    robust_errors_table,
    shorten,
)
from maxplus.cli._model import UnknownLabels, is_classifier, labelled_arrays, open_model

if TYPE_CHECKING:
    from rich.table import Table

    from maxplus.metrics import ClassificationMetrics
    from maxplus.tables import Dataset

# Number of confusions per class that are listed if the matrix is too wide.
MAX_CONFUSIONS = 3
CORNER = "true \\ predicted"


def evaluate(
    model: opt.Model,
    data: opt.Data,
    plot: Annotated[
        Path | None,
        opt.figure_file(help="Write a reliability diagram to this file; none by default."),
    ] = None,
    strict: opt.Strict = False,
    as_json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """Print classification metrics and the confusion matrix, or regression metrics.

    For a model trained with --set robust_eps=…, also print the certified error. Row 1 is the first
    line of data.

    Example: maxplus evaluate model.maxplus test.csv --plot reliability.png
    """
    with open_console(as_json, quiet) as console:
        from maxplus.estimators._base import is_training_table
        from maxplus.tables import row_hashes

        estimator = open_model(model, classifier=False)
        if plot is not None and not is_classifier(estimator):
            raise ValueError(
                "--plot requires a classifier, but this model is a regressor; omit the option"
            )
        predictions = _class_predictions if is_classifier(estimator) else _regression_predictions

        def predicted(rows: Dataset, y: NDArray) -> dict[str, NDArray]:
            columns = {"y": y, "row": rows.rows, **predictions(estimator, rows.X, y)}
            if hasattr(estimator, "training_rows_"):
                columns["equal"] = np.isin(row_hashes(rows.X), estimator.training_rows_)
            return columns

        unknown = UnknownLabels(estimator, strict=strict)
        # Keep predictions in memory, but not the rows.
        columns = labelled_arrays(data, estimator, unknown, predicted)
        unknown.report(console)
        name, n_equal = unknown.name, int(columns["equal"].sum()) if "equal" in columns else None
        is_training = is_training_table(estimator, columns.get("loss", columns["y"]))
        note = _training_note(is_training, n_equal)
        console.print(f"{name}: {counted(len(columns['y']), 'row')}{note}")
        document: dict[str, Any] = {
            "model": str(model),
            "data": name,
            "is_training_table": is_training,
            "rows_equal_to_training_rows": n_equal,
            "rows_with_unknown_labels": unknown.n_unknown,
            "unknown_labels": dict(unknown.counts),
        }
        if is_classifier(estimator):
            document |= _report_classification(estimator.classes_, columns, plot, console)
        else:
            document |= _report_regression(columns, console)
        if unknown.n_unknown:
            n = unknown.n_unknown
            accuracy = document["accuracy"] * len(columns["y"]) / unknown.n_rows
            rows = "row with an unknown label" if n == 1 else "rows with unknown labels"
            console.print(f"Accuracy including {n:,} {rows}: {accuracy:.2%}")
        console.print_json(document)


def _training_note(is_training: bool, n_equal: int | None) -> str:
    """Return a note if rows were used in training."""
    if is_training:
        return ", the training rows of the model: these metrics do not apply to new rows"
    if not n_equal:
        return ""
    return f"; {n_equal:,} {'equals' if n_equal == 1 else 'equal'} a training row"


def _class_predictions(estimator: Any, X: NDArray, y: NDArray) -> dict[str, NDArray]:
    """Return log-probabilities, losses and, after robust training, `robust_outcomes`."""
    log_proba = estimator.predict_log_proba(X)
    columns = {"log_proba": log_proba, "loss": -log_proba[np.arange(len(y)), y]}
    if hasattr(estimator, "robust_eps_"):
        from maxplus.metrics.robustness import robust_outcomes

        columns["robust"] = robust_outcomes(estimator, X, y)
    return columns


def _regression_predictions(estimator: Any, X: NDArray, y: NDArray) -> dict[str, NDArray]:
    lower, upper = estimator.predict_interval(X, 0.9)
    return {"predicted": estimator.predict(X), "lower": lower, "upper": upper}


def _report_classification(
    classes: Any, columns: dict[str, NDArray], plot: Path | None, console: Console
) -> dict[str, Any]:
    """Print the metrics of a classifier and return the JSON document."""
    from maxplus.metrics import RobustErrors, classification_metrics, reliability, to_jsonable

    y, log_proba = columns["y"], columns["log_proba"]
    P = np.exp(log_proba)
    metrics = classification_metrics(
        y, P, classes, predicted=log_proba.argmax(axis=1), losses=columns["loss"]
    )
    # Convert the index to a row number in the file.
    metrics = replace(metrics, worst=int(columns["row"][metrics.worst]))
    document = metrics.to_json()
    _print_metrics(metrics, console)
    console.rich.print(_classes_table(metrics))
    console.rich.print(confusion_table(metrics, console.rich.width))
    if "robust" in columns:
        errors = RobustErrors.from_outcomes(columns["robust"], y)
        console.rich.print(robust_errors_table({"this model": errors}))
        document["robust"] = to_jsonable(errors)
    if plot is not None:
        from maxplus.plots import plot_reliability

        plot_reliability(reliability(y, P)).savefig(plot)
        console.print(f"Figure: {plot}")
        document["figure"] = str(plot)
    return document


def _print_metrics(metrics: ClassificationMetrics, console: Console) -> None:
    from maxplus.models import LOG2

    error = f"{metrics.accuracy_error:.2%}"
    console.print(f"accuracy       {metrics.accuracy:.2%}, standard error {error}")
    console.print(f"balanced       {metrics.balanced_accuracy:.2%}, mean recall")
    console.print(f"macro F1       {metrics.macro_f1:.4f}")
    console.print(f"AUC            {number(metrics.auc)}")
    console.print(f"log loss       {metrics.log_loss:.4f}")
    console.print(f"calibration    {metrics.calibration_error:.4f}, expected calibration error")
    side = "below" if metrics.max_loss < LOG2 else "not below"
    console.print(
        f"maximum loss   {metrics.max_loss:.4f} (row {metrics.worst + 1}), {side} log 2 = 0.693"
    )


def _classes_table(metrics: ClassificationMetrics) -> Table:
    """Return a table of per-class metrics."""
    table = plain_table("class", "rows", "predicted", "precision", "recall", "F1", "AUC")
    for class_metrics in metrics.classes:
        table.add_row(
            label_cell(class_metrics.label),
            f"{class_metrics.n_rows:,}",
            f"{class_metrics.n_predicted:,}",
            percent(class_metrics.precision),
            percent(class_metrics.recall),
            number(class_metrics.f1),
            number(class_metrics.auc),
        )
    return table


def confusion_table(metrics: ClassificationMetrics, width: int) -> Table:
    """Return the confusion matrix if it fits the width, else the largest confusions.

    Counts of correct predictions are in brackets.
    """
    from rich.markup import escape

    labels = [shorten(metrics.label) for metrics in metrics.classes]
    cells = [
        [f"[{n:,}]" if d == k else f"{n:,}" if n else "·" for k, n in enumerate(counts)]
        for d, counts in enumerate(metrics.confusion.tolist())
    ]
    widths = [max(map(len, column)) for column in zip(labels, *cells, strict=True)]
    gaps = 2 * len(labels) + 2
    if max(map(len, [CORNER, *labels])) + sum(widths) + gaps > width:
        return _largest_confusions(metrics)
    table = plain_table(CORNER, *map(escape, labels), title="confusion")
    for label, counts in zip(labels, cells, strict=True):
        table.add_row(*map(escape, [label, *counts]))
    return table


def _largest_confusions(metrics: ClassificationMetrics) -> Table:
    from rich.markup import escape

    table = plain_table("true", "rows", "correct", title="confusion")
    table.add_column("most often predicted as", justify="left")
    for d, class_metrics in enumerate(metrics.classes):
        counts = metrics.confusion[d]
        others = [k for k in (-counts).argsort(kind="stable") if k != d and counts[k]]
        confusions = [f"{shorten(metrics.classes[k].label)} ({counts[k]:,})" for k in others]
        shown = ", ".join(confusions[:MAX_CONFUSIONS])
        if len(confusions) > MAX_CONFUSIONS:
            shown += ", …"
        correct = escape(f"[{counts[d]:,}]")
        label, n_rows = label_cell(class_metrics.label), f"{class_metrics.n_rows:,}"
        table.add_row(label, n_rows, correct, escape(shown) or "–")
    return table


def _report_regression(columns: dict[str, NDArray], console: Console) -> dict[str, Any]:
    """Print the metrics of a regressor and return the JSON document."""
    from maxplus.metrics import regression_metrics
    from maxplus.metrics._formatting import format_number

    metrics = regression_metrics(
        columns["y"], columns["predicted"], columns["lower"], columns["upper"]
    )
    table = plain_table("", "")
    table.show_header = False
    for row in (
        *regression_rows(metrics),
        ("width of the interval", format_number(metrics.mean_width)),
    ):
        table.add_row(*row)
    console.rich.print(table)
    return metrics.to_json()
