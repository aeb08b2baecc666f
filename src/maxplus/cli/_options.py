"""Command-line options for columns and training."""

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
    str,
    _columns(
        "classification, regression, or auto: regression if the target has many distinct numbers."
    ),
]
Drop = Annotated[
    list[str] | None,
    _columns(
        "Columns to leave out, as a comma-separated list; repeatable. Ids, dates, free text and "
        "constant columns are left out by default as well; --drop none keeps them."
    ),
]
Keep = Annotated[
    list[str] | None,
    _columns("Columns to keep even if they would be left out automatically. None by default."),
]
Categorical = Annotated[
    list[str] | None,
    _columns("Columns to one-hot encode even if they contain numbers. None by default."),
]
Numeric = Annotated[
    list[str] | None,
    _columns('Text columns to parse as numbers, such as "12 mg". None by default.'),
]
Groups = Annotated[
    str | None,
    _columns(
        "Column of groups, such as a patient number: rows of one group are never on both sides of "
        "a validation split, and the column is not a feature. None by default."
    ),
]

ModelOut = Annotated[
    Path, typer.Option("--out", "-o", help="The model file to write.", rich_help_panel=FILES)
]
SuspectsOut = Annotated[
    Path | None,
    typer.Option(
        help="CSV file for training rows with a high loss, in descending order; rows are numbered "
        "from 1, the first line of data. None by default.",
        rich_help_panel=FILES,
    ),
]
RememberRows = Annotated[
    bool,
    typer.Option(
        "--remember-rows",
        help="Store a hash, the label and the loss of every training row in the model file, so "
        "that evaluate, certify and report can count rows that equal training rows. Anyone who "
        "has the file can then test whether a given row was in the training data. Off by default.",
        rich_help_panel=FILES,
    ),
]
CheckpointOut = Annotated[
    Path | None,
    typer.Option(
        help="Write the state of training to this file every minute. None by default.",
        rich_help_panel=FILES,
    ),
]
Resume = Annotated[
    Path | None,
    typer.Option(
        help="Continue from this checkpoint, with its options, on the same DATA. None by default.",
        rich_help_panel=FILES,
    ),
]
Validate = Annotated[
    str,
    typer.Option(
        metavar="auto|cv|FOLDS|SHARE|none",
        help="Validation on held-out rows: cv for cross-validation, a number of folds such as 10, "
        "or a share such as 0.2 to hold out. By default five folds up to 2,000 rows, three folds "
        "up to 10,000 rows, and a fifth held out for larger tables. Column types, imputed values "
        "and structure are chosen in each split from its training rows. The model that is written "
        "is trained on all rows.",
    ),
]
Seed = Annotated[int, typer.Option(help="Seed of training and validation.")]

Algorithm = Annotated[
    str,
    typer.Option(
        metavar="smooth|subgradient",
        help="smooth minimises the mean loss; subgradient, the algorithm of Enaieh and Fercoq "
        "(arXiv:2603.04133), minimises the maximum loss.",
        rich_help_panel=MODEL,
    ),
]
Increasing = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMNS",
        help="Columns in which the prediction is monotonically increasing. For classification, "
        "the prediction is the probability of the second class in alphabetical order. "
        "Comma-separated names, repeatable. None by default.",
        rich_help_panel=MODEL,
    ),
]
Decreasing = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMNS",
        help="Columns in which the prediction is monotonically decreasing. None by default.",
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
        "ensemble of 4 models, n_jobs=2 uses 2 threads, and missing=error rejects missing values. "
        "Repeatable. The estimator's documentation lists its parameters and their defaults.",
        rich_help_panel=MODEL,
    ),
]


def names(values: Iterable[str] | None) -> tuple[str, ...]:
    """Parse repeated, comma-separated column names.

    Names that contain a comma must be enclosed in double quotes.
    """
    return tuple(
        name.strip() for line in csv.reader(values or (), skipinitialspace=True) for name in line
    )


def table_encoder(
    drop: Sequence[str] | None,
    keep: Sequence[str] | None,
    categorical: Sequence[str] | None,
    numeric: Sequence[str] | None,
    settings: dict[str, Any],
) -> TableEncoder:
    """Return the encoder; remove its parameters from ``settings``."""
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
    """Parse the value of --validate; return None for "none"."""
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
