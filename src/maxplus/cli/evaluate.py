"""``maxplus evaluate``: how good a model is on labelled data."""

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
from maxplus.cli._output import JsonOption, QuietOption, Voice
from maxplus.cli._ranks import all_ranks, in_turns, require_file
from maxplus.cli._trained import Trained, UnknownLabels, open_model, sample_blocks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from maxplus.metrics import ClassifierFigures
    from maxplus.tables import Samples


def evaluate(
    model: ModelArgument,
    data: DataArgument,
    plot: Annotated[
        Path | None,
        typer.Option(
            help="Draw how far probabilities can be trusted to this file; none by default."
        ),
    ] = None,
    strict: StrictOption = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Accuracy, losses, calibration and confusion on labelled data; R² and errors of a regression.

    Rows count from 1, the first line of data.
    Example: maxplus evaluate model.maxplus test.csv --plot reliability.png
    """
    with all_ranks() as comm, plain_errors(quiet, speaks=comm.is_first):
        import numpy as np

        voice = Voice(as_json and comm.is_first, quiet or not comm.is_first)
        require_file(comm, data)
        if plot is not None:
            require_folder(plot, "--plot")
        trained = open_model(model, classifier=False)
        if plot is not None and not trained.is_classifier:
            raise ValueError("--plot draws probabilities, which a regression has not; leave it out")

        answers = _of_classes if trained.is_classifier else _of_numbers
        blocks = sample_blocks(data, trained, labelled=True, strict=strict)

        unknown = UnknownLabels(trained, data, strict=strict)

        def told_of(samples: Samples) -> tuple[Any, ...] | None:
            samples, y = unknown.known(samples)
            if not len(y):
                return None
            return samples.name, _equal_rows(trained, samples), *answers(trained, samples, y)

        # What is said about rows is kept, in the order of the file; the rows are not.
        told = [part for part in in_turns(comm, blocks, told_of) if part is not None]
        unknown.settle(comm, voice)
        if not comm.is_first:
            return
        equal, *columns = map(np.concatenate, zip(*(block[1:] for block in told), strict=True))
        name, n_equal = told[0][0], int(equal.sum()) if _knows_its_rows(trained) else None
        is_training = _are_training_rows(trained, columns)
        voice.say(f"{name}: {len(equal):,} rows{_row_words(is_training, n_equal)}")
        document: dict[str, Any] = {"model": str(model), "data": name}
        document["is_training_table"] = is_training
        document["rows_equal_to_training_rows"] = n_equal
        document["rows_with_unknown_labels"] = unknown.n_unknown
        document["unknown_labels"] = dict(unknown.counts)
        judge = _judge_classes if trained.is_classifier else _judge_numbers
        document |= judge(trained, plot, voice, *columns)
        if unknown.n_unknown:
            right = document["accuracy"] * len(equal) / unknown.n_rows
            voice.say(f"With the {unknown.n_unknown:,} rows of unknown labels, {right:.2%} right.")
        voice.result(document)


def _knows_its_rows(trained: Trained) -> bool:
    return hasattr(trained.estimator, "training_rows_")


def _equal_rows(trained: Trained, samples: Samples) -> NDArray:
    """Which rows have the values of a training row, if the model keeps those; else none."""
    import numpy as np

    from maxplus.report.unseen import equal_to_training
    from maxplus.tables import row_fingerprints

    if not _knows_its_rows(trained):
        return np.zeros(len(samples.X), bool)
    found = equal_to_training(trained.estimator, row_fingerprints(samples.X))
    assert found is not None
    return found


def _are_training_rows(trained: Trained, columns: list[NDArray]) -> bool:
    """Whether the table as a whole is the one that the model was trained on."""
    import numpy as np

    from maxplus.estimators._base import is_training_table

    if not trained.is_classifier:
        return is_training_table(trained.estimator, columns[0])
    _, codes, log_proba = columns
    return is_training_table(trained.estimator, -log_proba[np.arange(len(codes)), codes])


def _row_words(is_training: bool, n_equal: int | None) -> str:
    """A remark where figures may not be those of new rows."""
    if is_training:
        return ", which the model was trained on: this says nothing about new rows"
    if not n_equal:
        return ""
    return f", {n_equal:,} of them with the same values as a training row"


def _of_classes(trained: Trained, samples: Samples, codes: NDArray) -> tuple[Any, ...]:
    """Numbers of rows, true classes and logarithms of probabilities."""
    return samples.rows, codes, trained.estimator.predict_log_proba(samples.X)


def _of_numbers(trained: Trained, samples: Samples, y: NDArray) -> tuple[Any, ...]:
    """True and predicted numbers, and the bounds of intervals."""
    estimator, X = trained.estimator, samples.X
    return y, estimator.predict(X), *estimator.predict_interval(X, 0.9)


def _judge_classes(
    trained: Trained, plot: Path | None, voice: Voice,
    rows: NDArray, codes: NDArray, log_proba: NDArray,
) -> dict[str, Any]:  # fmt: skip
    import numpy as np

    from maxplus.cli._show import classes_table, confusion_table
    from maxplus.metrics import judge_classifier, reliability

    P = np.exp(log_proba)
    figures = judge_classifier(
        codes, P, trained.estimator.classes_, predicted=log_proba.argmax(axis=1),
        losses=-log_proba[np.arange(len(codes)), codes],
    )  # fmt: skip
    # Rows without a label were left out, and count all the same.
    figures = replace(figures, worst=int(rows[figures.worst]))
    document = figures.to_json()
    console = voice.console
    _tell(figures, voice)
    console.print(classes_table(figures))
    console.print(confusion_table(figures, console.width))
    if plot is not None:
        from maxplus.plots import plot_reliability

        plot_reliability(reliability(codes, P)).savefig(plot)
        voice.say(f"Figure: {plot}")
        document["figure"] = str(plot)
    return document


def _tell(figures: ClassifierFigures, voice: Voice) -> None:
    from maxplus.cli._show import number
    from maxplus.models import LOG2

    error = f"{figures.accuracy_error:.2%}"
    voice.say(f"right          {figures.accuracy:.2%}, standard error {error}")
    voice.say(f"balanced       {figures.balanced_accuracy:.2%}, the mean recall")
    voice.say(f"macro F1       {figures.macro_f1:.4f}")
    voice.say(f"AUC            {number(figures.auc)}")
    voice.say(f"log loss       {figures.log_loss:.4f}, the mean")
    voice.say(f"calibration    {figures.calibration_error:.4f} expected error")
    side = "below" if figures.max_loss < LOG2 else "not below"
    voice.say(
        f"maximum loss   {figures.max_loss:.4f} (row {figures.worst + 1}), {side} log 2 = 0.693"
    )


def _judge_numbers(
    trained: Trained, plot: Path | None, voice: Voice,
    y: NDArray, predicted: NDArray, lower: NDArray, upper: NDArray,
) -> dict[str, Any]:  # fmt: skip
    from maxplus.cli._show import regression_table
    from maxplus.metrics import judge_regression

    figures = judge_regression(y, predicted, lower, upper)
    voice.console.print(regression_table(figures))
    return figures.to_json()
