"""``maxplus evaluate``: metrics of a model on labelled data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maxplus.cli._common import (
    DataArgument,
    ModelArgument,
    StrictOption,
    plain_errors,
    require_folder,
)
from maxplus.cli._console import Console, JsonOption, QuietOption
from maxplus.cli._model import LoadedModel, UnknownLabels, open_model, stream_parts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from maxplus.metrics import ClassificationMetrics
    from maxplus.tables import Dataset


def evaluate(
    model: ModelArgument,
    data: DataArgument,
    plot: Annotated[
        Path | None,
        typer.Option(help="Write a reliability diagram to this file; none by default."),
    ] = None,
    strict: StrictOption = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Print classification metrics and the confusion matrix, or regression metrics.

    For a model trained with --set robust_eps=…, also print the certified error. Row 1 is the first
    line of data.
    Example: maxplus evaluate model.maxplus test.csv --plot reliability.png
    """
    console = Console(as_json, quiet)
    with plain_errors(quiet):
        import numpy as np

        if plot is not None:
            require_folder(plot, "--plot")
        loaded = open_model(model, classifier=False)
        if plot is not None and not loaded.is_classifier:
            raise ValueError(
                "--plot requires a classifier, but this model is a regressor; omit the option"
            )
        predicted = _classes if loaded.is_classifier else _numbers
        unknown = UnknownLabels(loaded, data, strict=strict)
        # Keep predictions in memory, but not the rows.
        found, name = [], data
        for part in stream_parts(data, loaded, labelled=True, strict=strict):
            rows, y = unknown.known(part)
            name = rows.name
            if len(y):
                found.append((_equal_rows(loaded, rows), *predicted(loaded, rows, y)))
        unknown.report(console)
        equal, *columns = map(np.concatenate, zip(*found, strict=True))
        n_equal = int(equal.sum()) if _has_row_hashes(loaded) else None
        is_training = _are_training_rows(loaded, columns)
        console.print(f"{name}: {len(equal):,} rows{_rows_text(is_training, n_equal)}")
        document: dict[str, Any] = {"model": str(model), "data": name}
        document["is_training_table"] = is_training
        document["rows_equal_to_training_rows"] = n_equal
        document["rows_with_unknown_labels"] = unknown.n_unknown
        document["unknown_labels"] = dict(unknown.counts)
        report = _report_classes if loaded.is_classifier else _report_numbers
        document |= report(loaded, plot, console, *columns)
        if unknown.n_unknown:
            right = document["accuracy"] * len(equal) / unknown.n_rows
            console.print(
                f"Accuracy including {unknown.n_unknown:,} rows with unknown labels: {right:.2%}"
            )
        console.result(document)


def _has_row_hashes(model: LoadedModel) -> bool:
    return hasattr(model.estimator, "training_rows_")


def _equal_rows(model: LoadedModel, data: Dataset) -> NDArray:
    """Return a mask of rows that equal a training row; False if no hashes are stored."""
    import numpy as np

    from maxplus.report.performance import equal_to_training
    from maxplus.tables import row_hashes

    if not _has_row_hashes(model):
        return np.zeros(len(data.X), bool)
    found = equal_to_training(model.estimator, row_hashes(data.X))
    assert found is not None
    return found


def _are_training_rows(model: LoadedModel, columns: list[NDArray]) -> bool:
    """Return whether the table is the training table."""
    import numpy as np

    from maxplus.estimators._base import is_training_table

    if not model.is_classifier:
        return is_training_table(model.estimator, columns[0])
    codes, log_proba = columns[1:3]
    return is_training_table(model.estimator, -log_proba[np.arange(len(codes)), codes])


def _rows_text(is_training: bool, n_equal: int | None) -> str:
    """Return a note if rows were used in training."""
    if is_training:
        return ", the training rows of the model: these metrics do not apply to new rows"
    if not n_equal:
        return ""
    return f"; {n_equal:,} {'equals' if n_equal == 1 else 'equal'} a training row"


def _classes(model: LoadedModel, data: Dataset, codes: NDArray) -> tuple[Any, ...]:
    """Return row numbers, classes, log-probabilities and, if available, `robust_outcomes`."""
    columns = data.rows, codes, model.estimator.predict_log_proba(data.X)
    if not hasattr(model.estimator, "robust_reach_"):
        return columns
    from maxplus.metrics.robustness import robust_outcomes

    return *columns, robust_outcomes(model.estimator, data.X, codes)


def _numbers(model: LoadedModel, data: Dataset, y: NDArray) -> tuple[Any, ...]:
    """Return targets, predictions and interval bounds."""
    estimator, X = model.estimator, data.X
    return y, estimator.predict(X), *estimator.predict_interval(X, 0.9)


def _report_classes(
    model: LoadedModel,
    plot: Path | None,
    console: Console,
    rows: NDArray,
    codes: NDArray,
    log_proba: NDArray,
    outcomes: NDArray | None = None,
) -> dict[str, Any]:
    import numpy as np

    from maxplus.cli._text_tables import classes_table, confusion_table, robust_errors_table
    from maxplus.metrics import RobustErrors, classification_metrics, reliability, to_jsonable

    P = np.exp(log_proba)
    figures = classification_metrics(
        codes,
        P,
        model.estimator.classes_,
        predicted=log_proba.argmax(axis=1),
        losses=-log_proba[np.arange(len(codes)), codes],
    )
    # Convert the index to a row number in the file.
    figures = replace(figures, worst=int(rows[figures.worst]))
    document = figures.to_json()
    _print_metrics(figures, console)
    console.rich.print(classes_table(figures))
    console.rich.print(confusion_table(figures, console.rich.width))
    if outcomes is not None:
        errors = RobustErrors.of(outcomes, codes)
        console.rich.print(robust_errors_table({"this model": errors}))
        document["robust"] = to_jsonable(errors)
    if plot is not None:
        from maxplus.plots import plot_reliability

        plot_reliability(reliability(codes, P)).savefig(plot)
        console.print(f"Figure: {plot}")
        document["figure"] = str(plot)
    return document


def _print_metrics(figures: ClassificationMetrics, console: Console) -> None:
    from maxplus.cli._text_tables import number
    from maxplus.models import LOG2

    error = f"{figures.accuracy_error:.2%}"
    console.print(f"accuracy       {figures.accuracy:.2%}, standard error {error}")
    console.print(f"balanced       {figures.balanced_accuracy:.2%}, mean recall")
    console.print(f"macro F1       {figures.macro_f1:.4f}")
    console.print(f"AUC            {number(figures.auc)}")
    console.print(f"log loss       {figures.log_loss:.4f}")
    console.print(f"calibration    {figures.calibration_error:.4f}, expected calibration error")
    side = "below" if figures.max_loss < LOG2 else "not below"
    console.print(
        f"maximum loss   {figures.max_loss:.4f} (row {figures.worst + 1}), {side} log 2 = 0.693"
    )


def _report_numbers(
    model: LoadedModel,
    plot: Path | None,
    console: Console,
    y: NDArray,
    predicted: NDArray,
    lower: NDArray,
    upper: NDArray,
) -> dict[str, Any]:
    from maxplus.cli._text_tables import regression_table
    from maxplus.metrics import regression_metrics

    figures = regression_metrics(y, predicted, lower, upper)
    console.rich.print(regression_table(figures))
    return figures.to_json()
