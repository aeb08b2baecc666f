"""Command-line options for columns and training, with their help texts."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from maxplus.tables import TableEncoder

# Panels of the help text.
COLUMNS, MODEL, FILES = "Columns", "Model", "Files"
AUTO, NONE = "auto", "none"


def _columns(help_text: str) -> typer.models.OptionInfo:
    return typer.Option(help=help_text, rich_help_panel=COLUMNS)


Target = Annotated[
    str | None,
    _columns(
        "The column to predict. By default one named class, target, label or y, or else the last."
    ),
]
Task = Annotated[
    str, _columns("classification, regression, or auto: many distinct numbers are a regression.")
]
Drop = Annotated[
    list[str] | None,
    _columns(
        "Columns to leave out: --drop a,b or repeated. auto, which is always on unless none is "
        "given, leaves out ids, dates, free text and constants. auto by default."
    ),
]
Keep = Annotated[
    list[str] | None, _columns("Columns that --drop auto does not leave out. None by default.")
]
Categorical = Annotated[
    list[str] | None,
    _columns("Columns whose values are categories, even if they are numbers. None by default."),
]
Numeric = Annotated[
    list[str] | None,
    _columns('Text columns to encode as the number in them, such as "12 mg". None by default.'),
]
Groups = Annotated[
    str | None,
    _columns(
        "A column such as a patient's number: rows of one value are never on both sides of a "
        "validation split, and the column is not a feature. None by default."
    ),
]

ModelOut = Annotated[
    Path, typer.Option("--out", "-o", help="The model file to write.", rich_help_panel=FILES)
]
SuspectsOut = Annotated[
    Path | None,
    typer.Option(
        help="Write the training rows that do not fit to this CSV file, those with the largest "
        "loss first; rows count from 1, the first line of data. None by default.",
        rich_help_panel=FILES,
    ),
]
RememberRows = Annotated[
    bool,
    typer.Option(
        "--remember-rows",
        help="Keep a hash, the label and the loss of every training row in the model file: "
        "evaluate, certify and report then count rows that are equal to training rows, and "
        "suspects_ is kept. Guesses of rows can be tested against such a file. Off by default: a "
        "file holds nothing per row.",
        rich_help_panel=FILES,
    ),
]
CheckpointOut = Annotated[
    Path | None,
    typer.Option(
        help="Write the state of the training here every minute; nowhere by default.",
        rich_help_panel=FILES,
    ),
]
Resume = Annotated[
    Path | None,
    typer.Option(
        help="Continue from this checkpoint, with its options, on the same DATA. A new training by "
        "default.",
        rich_help_panel=FILES,
    ),
]
Validate = Annotated[
    str,
    typer.Option(
        metavar="auto|cv|FOLDS|SHARE|none",
        help="How the model is validated on rows it has not seen: cv for cross-validation, a "
        "number of folds such as 10, or a share such as 0.2 to hold out. By default five folds up "
        "to 2,000 rows, three up to 10,000, a fifth held out beyond. Columns, imputed values and "
        "capacity are chosen anew in each of these trainings, from its own rows alone; the model "
        "that is written is trained on all rows.",
    ),
]
Seed = Annotated[int, typer.Option(help="Seed of training and validation.")]

Algorithm = Annotated[
    str,
    typer.Option(
        metavar="smooth|subgradient",
        help="smooth trains on the mean loss; subgradient is the paper's algorithm, steps on the "
        "worst sample.",
        rich_help_panel=MODEL,
    ),
]
Increasing = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMNS",
        help="Columns that may only raise the prediction: the number, or the probability of the "
        "second class in alphabetical order; names with commas between them, repeatable. None by "
        "default.",
        rich_help_panel=MODEL,
    ),
]
Decreasing = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMNS",
        help="Columns that may only lower the prediction; none by default.",
        rich_help_panel=MODEL,
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Any other parameter of the estimator, such as class_weight=balanced or "
        "robust_eps=0.1; n_hidden=50 trains a single network with 50 units, n_estimators=4 an "
        "ensemble of 4 models, n_jobs=2 uses 2 threads, and missing=error refuses missing values. "
        "Repeatable. The estimator's documentation lists its parameters and their defaults.",
        rich_help_panel=MODEL,
    ),
]


def names(given: Iterable[str] | None) -> tuple[str, ...]:
    """Return the columns of repeated options, each of which may be a comma-separated list.

    Names that contain a comma are written in double quotes.
    """
    return tuple(
        name.strip() for line in csv.reader(given or (), skipinitialspace=True) for name in line
    )


def table_encoder(
    drop: Sequence[str] | None,
    keep: Sequence[str] | None,
    categorical: Sequence[str] | None,
    numeric: Sequence[str] | None,
    settings: dict[str, Any],
) -> TableEncoder:
    """Return the encoder that the options describe; remove its parameters from ``settings``."""
    from maxplus.tables import TableEncoder

    dropped = [name for name in names(drop) if name not in (AUTO, NONE)]
    if NONE not in names(drop):
        dropped = [AUTO, *dropped]
    return TableEncoder(
        categorical=names(categorical),
        numeric=names(numeric),
        drop=dropped,
        keep=names(keep),
        missing=settings.pop("missing", "impute"),
    )


def validation_splits(text: str) -> str | int | float | None:
    """Return the value of --validate; None for "none"."""
    if text == NONE:
        return None
    if text in (AUTO, "cv"):
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
