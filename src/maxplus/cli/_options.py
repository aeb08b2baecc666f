"""Arguments and options that several commands share."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from maxplus.tables import TableEncoder

COLUMNS = "Columns"  # Panel of the help text.
AUTO, NONE = "auto", "none"
# Suffixes of image formats that matplotlib writes.
FIGURES = (".png", ".svg", ".pdf", ".jpg", ".jpeg", ".webp", ".tif", ".tiff", ".eps", ".ps")

Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A CSV (optionally compressed), Excel, Parquet, NPZ or NPY file, a folder of "
        "Parquet files, - for standard input, or a built-in dataset such as iris.",
    ),
]
Model = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A model file written by maxplus train.")
]
Json = Annotated[
    bool,
    typer.Option(
        "--json",
        help="Print the result as one JSON document to standard output; text by default.",
    ),
]
Quiet = Annotated[
    bool,
    typer.Option(
        "--quiet",
        "-q",
        help="Print only errors and, with --json, the JSON document. By default, results, "
        "messages and progress bars are printed.",
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of training and validation.")]
RawUnits = Annotated[
    bool,
    typer.Option(
        "--raw-units",
        help="Measure changes in the raw units of the features; by default in standard deviations "
        "of the training data.",
    ),
]
MoveCategories = Annotated[
    bool,
    typer.Option(
        "--move-categories",
        help="Also allow changes of one-hot encoded categories; by default they are held fixed.",
    ),
]
Strict = Annotated[
    bool,
    typer.Option(
        "--strict",
        help="Fail if a category or label is unknown. By default, unknown categories are encoded "
        "as zeros (one-hot) or imputed (ordinal), and rows with unknown labels are dropped, with a "
        "warning.",
    ),
]


def _columns(help_text: str) -> typer.models.OptionInfo:
    return typer.Option(help=help_text, rich_help_panel=COLUMNS)


Target = Annotated[
    str | None,
    _columns(
        "The column to predict. By default the column named class, target, label or y, or else "
        "the last column."
    ),
]
Task = Annotated[
    str,
    _columns(
        "classification, regression, or auto: regression for fractional or many distinct numbers."
    ),
]
Drop = Annotated[
    list[str] | None,
    _columns(
        "Columns to drop, as a comma-separated list; repeatable. Ids, dates, free text and "
        "constant columns are dropped by default as well; --drop none keeps them."
    ),
]
Keep = Annotated[
    list[str] | None,
    _columns("Columns to keep even if they would be dropped automatically. None by default."),
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


def output_file(*names: str, help: str, panel: str | None = None) -> typer.models.OptionInfo:
    """Return an option for an output file, which fails early if the file cannot be written."""
    return typer.Option(*names, help=help, rich_help_panel=panel, callback=check_output_file)


def check_output_file(path: Path | None) -> Path | None:
    """Raise BadParameter if a file cannot be written to this path."""
    if path is None:
        return None
    folder = path.resolve().parent
    if not folder.is_dir():
        raise typer.BadParameter(f"{path}: the folder {folder} does not exist; create it first")
    if path.is_dir():
        raise typer.BadParameter(f"{path} is a folder; specify a file")
    if not os.access(folder, os.W_OK):
        raise typer.BadParameter(
            f"{path}: the folder {folder} is not writable; choose another folder"
        )
    return path


def check_not_input(out: Path | None, *inputs: str | Path) -> None:
    """Raise ValueError if an output file is one of the input files."""
    for path in map(Path, inputs):
        if out is not None and out.exists() and path.exists() and out.samefile(path):
            raise ValueError(f"{out} is an input and would be replaced; choose another output file")


def given_options(context: typer.Context, parameters: Iterable[str]) -> list[str]:
    """Return the options of a command line that set one of the parameters of a command."""
    return [
        param.opts[0]
        for param in context.command.params
        if param.name in parameters
        and getattr(context.get_parameter_source(param.name), "name", "") == "COMMANDLINE"
    ]


def figure_file(*, help: str) -> typer.models.OptionInfo:
    """Return an option for a figure, which fails early if the file cannot be written."""
    return typer.Option(help=help, callback=_check_figure_file)


def _check_figure_file(path: Path | None) -> Path | None:
    if path is not None and path.suffix.lower() not in FIGURES:
        raise typer.BadParameter(f"{path} must end in one of {', '.join(FIGURES)}")
    return check_output_file(path)


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
        "--validate must be auto, cv, a number of folds (at least 2), a fraction such as 0.2, or "
        f"none; got {text!r}"
    )
