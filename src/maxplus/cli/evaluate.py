"""``maxplus evaluate``: how good a model is on labelled data."""

from __future__ import annotations

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
from maxplus.cli._ranks import all_ranks, refuse_over_ranks
from maxplus.cli._trained import Trained, labels_for, open_model, open_samples

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
    with all_ranks() as team, plain_errors(quiet, speaks=team.is_first):
        voice = Voice(as_json and team.is_first, quiet or not team.is_first)
        if plot is not None:
            require_folder(plot, "--plot")
        trained = open_model(model, classifier=False)
        samples = open_samples(data, trained, labelled=True, strict=strict)
        y = labels_for(trained, samples, data)
        document: dict[str, Any] = {"model": str(model), "data": samples.name}
        n, n_seen = team.total(len(y)), _n_seen(trained, samples)
        voice.say(f"{samples.name}: {n:,} rows{_seen_words(n, n_seen)}")
        document["rows_equal_to_training_rows"] = n_seen
        if trained.is_classifier:
            document |= _classes(trained, samples, y, plot, voice)
        else:
            document |= _numbers(trained, samples, y, plot, voice)
        voice.result(document)


def _n_seen(trained: Trained, samples: Samples) -> int | None:
    """How many of the rows the model was trained on; None if it does not know."""
    from maxplus.ranks import current
    from maxplus.report.unseen import unseen_rows

    new = unseen_rows(trained.estimator, samples.X)
    return None if new is None else current().total(int((~new).sum()))


def _seen_words(n: int, n_seen: int | None) -> str:
    """A warning where figures are not those of new rows."""
    if not n_seen:
        return ""
    if n_seen == n:
        return ", all of them equal to training rows: this says little about new ones"
    return f", {n_seen:,} of them equal to training rows"


def _classes(
    trained: Trained, samples: Samples, y: NDArray, plot: Path | None, voice: Voice
) -> dict[str, Any]:
    import numpy as np

    from maxplus.cli._show import classes_table, confusion_table
    from maxplus.metrics import judge_classifier, reliability
    from maxplus.ranks import current

    classes = trained.estimator.classes_
    codes = np.searchsorted(classes, y)
    log_proba = trained.estimator.predict_log_proba(samples.X)
    # Each rank has predicted its own rows; rank 0 judges all of them.
    team = current()
    codes, log_proba = team.collect(codes), team.collect(log_proba)
    if not team.is_first:
        return {}
    P = np.exp(log_proba)
    figures = judge_classifier(
        codes, P, classes, predicted=log_proba.argmax(axis=1),
        losses=-log_proba[np.arange(len(codes)), codes],
    )  # fmt: skip
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


def _numbers(
    trained: Trained, samples: Samples, y: NDArray, plot: Path | None, voice: Voice
) -> dict[str, Any]:
    from maxplus.cli._show import regression_table
    from maxplus.metrics import judge_regression
    from maxplus.ranks import current

    if plot is not None:
        raise ValueError("--plot draws probabilities, which a regression has not; leave it out")
    if not current().is_alone:
        refuse_over_ranks("the evaluation of a regression", "start it alone")
    lower, upper = trained.estimator.predict_interval(samples.X, 0.9)
    figures = judge_regression(y, trained.estimator.predict(samples.X), lower, upper)
    voice.console.print(regression_table(figures))
    return figures.to_json()
