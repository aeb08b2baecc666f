"""How a training tells how good its model is on rows it has not seen."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxplus.cli._bars import trainings_bar
from maxplus.cli._show import percent, validation_table
from maxplus.evaluation import Validation, as_rows, plan_for, validate
from maxplus.metrics import ClassifierFigures
from maxplus.training.progress import ProgressBar

if TYPE_CHECKING:
    from maxplus.cli._output import Voice
    from maxplus.cli._training import Training


def validation_plan(text: str) -> str | int | float | None:
    """What --validate says; None is "none"."""
    if text == "none":
        return None
    if text in ("auto", "cv"):
        return text
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if 0 < number < 1:
        return number
    if number >= 2 and number.is_integer():
        return int(number)
    raise ValueError(
        f"--validate must be auto, cv, a number of folds from 2 on, a share such as 0.2, or none; "
        f"got {text!r}"
    )


def validate_training(
    training: Training, how: str | int | float, voice: Voice
) -> Validation | None:
    """Validate and print; None, with a remark, where rows are too few or Ctrl-C ends it."""
    model = clone(training.estimator)
    if training.preparation.spread is not None:
        model = make_pipeline(StandardScaler(), model)
    rows = as_rows(training.samples, choices=training.choices)
    try:
        plan = plan_for(rows.y, how, classes=training.is_classifier, groups=rows.groups)
        n_trainings = len(plan.splits)
        with ExitStack() as stack:
            watching: dict[str, Any]
            if n_trainings == 1:
                # One long training is counted in epochs.
                one = stack.enter_context(ProgressBar("validating", voice.aside))
                watching = {"callbacks": [one]}
            else:
                several = stack.enter_context(trainings_bar(n_trainings, voice))
                watching = {"watch": partial(several, "validating")}
            validation = validate(model, rows, how=how, random_state=training.seed, **watching)
    except ValueError as error:
        voice.remark(f"Not validated: {error}")
        return None
    except KeyboardInterrupt:
        voice.remark("Validation was interrupted; the model is complete.")
        return None
    voice.say("")
    voice.console.print(validation_table(validation))
    voice.say(_how(validation))
    return validation


def _how(validation: Validation) -> str:
    text = f"Judged by {validation.words}; the model itself was trained on all rows."
    if isinstance(validation.figures, ClassifierFigures):
        n = validation.figures.n_rows
        low, high = map(percent, validation.score_interval(n))
        text += f" Of other tables with {n:,} rows, 95 % score {low} to {high}."
    if validation.unjudged:
        n = validation.unjudged
        whose = "its class" if n == 1 else "their classes"
        text += f" {n} row{'s' * (n > 1)} could not be held out: no other row or group has {whose}."
    return text
