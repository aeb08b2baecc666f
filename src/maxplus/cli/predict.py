"""``maxplus predict``: labels or numbers for the rows of a table."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maxplus.cli._columns import names
from maxplus.cli._common import (
    DataArgument,
    ModelArgument,
    MoveCategoriesOption,
    RawUnitsOption,
    StrictOption,
    plain_errors,
    require_folder,
)
from maxplus.cli._output import JsonOption, QuietOption, Voice
from maxplus.cli._ranks import all_ranks, in_turns, refuse_over_ranks
from maxplus.cli._trained import DEVIATIONS, Measure, Trained, held_words, open_model, sample_blocks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from maxplus.cli._tables_out import Sink
    from maxplus.tables import Samples


def predict(
    model: ModelArgument,
    data: DataArgument,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="The CSV file to write; the screen by default."),
    ] = None,
    keep_columns: Annotated[
        list[str] | None,
        typer.Option(
            help="Columns of DATA to carry through, such as an id: --keep-columns id,date or "
            "repeated; none by default."
        ),
    ] = None,
    probabilities: Annotated[
        bool,
        typer.Option("--probabilities", help="Add a column for each class; none by default."),
    ] = False,
    radius: Annotated[
        bool,
        typer.Option(
            "--radius",
            help="Add a column with how far all features may move before the prediction could "
            "change; none by default.",
        ),
    ] = False,
    intervals: Annotated[
        bool,
        typer.Option(
            "--intervals",
            help="Add two columns between which 90 % of true numbers lie, for a regression; none "
            "by default.",
        ),
    ] = False,
    spreadsheet_safe: Annotated[
        bool,
        typer.Option(
            "--spreadsheet-safe",
            help="Write an apostrophe before text that a spreadsheet would take for a formula: "
            "what begins with =, +, -, @, a tab or a carriage return and is no number. By default "
            "text is written as it is.",
        ),
    ] = False,
    raw_units: RawUnitsOption = False,
    move_categories: MoveCategoriesOption = False,
    strict: StrictOption = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Predict a label or number for each row, as CSV; tables larger than memory are welcome.

    Rows count from 1, the first line of data.
    Example: maxplus predict model.maxplus new.csv --probabilities -o predictions.csv
    """
    with all_ranks() as comm, plain_errors(quiet, speaks=comm.is_first):
        voice = Voice(as_json and comm.is_first, quiet or not comm.is_first)
        if not comm.is_alone and (data == "-" or out is None):
            refuse_over_ranks("standard input or output", "name a file for DATA and for --out")
        if out is not None:
            require_folder(out, "--out")
        trained = open_model(model, classifier=False)
        _check_options(trained, probabilities, radius, intervals)
        measure = trained.measure(raw_units, move_categories) if radius else None
        if measure is not None and (measure.scale is None or measure.held):
            voice.remark(f"certified radius in {measure.unit}{held_words(measure)}")
        n, carried = 0, names(keep_columns)
        head = {"model": str(model), "data": data}

        def columns_of(samples: Samples) -> dict[str, Any]:
            columns: dict[str, Any] = {"row": samples.rows + 1, **_carried(samples, carried)}
            columns |= _predictions(trained, samples, probabilities, intervals)
            return columns if measure is None else columns | _radii(trained, samples, measure)

        blocks = sample_blocks(data, trained, strict=strict, also=carried)
        with _sink(out, voice, head, spreadsheet_safe) if comm.is_first else nullcontext() as sink:
            for columns in in_turns(comm, blocks, columns_of):
                assert sink is not None
                sink.write(columns)
                n += len(columns["row"])
        if out is not None:
            voice.say(f"{n:,} predictions in {out}")
            voice.result({**head, "rows": n, "out": str(out)})


def _check_options(trained: Trained, probabilities: bool, radius: bool, intervals: bool) -> None:
    if trained.is_classifier and intervals:
        raise ValueError("--intervals is for regressions; this model predicts classes, for which "
                         "there is --probabilities")  # fmt: skip
    if not trained.is_classifier and (probabilities or radius):
        option = "--probabilities" if probabilities else "--radius"
        raise ValueError(f"{option} is for classes; this model predicts numbers, for which there "
                         "is --intervals")  # fmt: skip


def _sink(
    out: Path | None, voice: Voice, head: dict[str, Any], spreadsheet_safe: bool
) -> AbstractContextManager[Sink]:
    from maxplus.cli._tables_out import CsvSink, csv_file, json_list

    if out is not None:
        return csv_file(out, spreadsheet_safe=spreadsheet_safe)
    if voice.as_json:
        return json_list(sys.stdout, head, "predictions")
    return nullcontext(
        CsvSink(
            lambda lines: sys.stdout.write(lines.decode("utf-8")), spreadsheet_safe=spreadsheet_safe
        )
    )


def _carried(samples: Samples, columns: tuple[str, ...]) -> dict[str, Any]:
    """Columns of the table as they are."""
    if not columns:
        return {}
    table = samples.table
    if not table.columns:
        raise ValueError(f"{samples.name} holds images, which have no columns to keep")
    absent = [name for name in columns if name not in table.columns]
    if absent:
        raise ValueError(
            f"{samples.name} has no column {absent[0]!r} (--keep-columns); it has "
            f"{', '.join(map(repr, list(table.columns)[:20]))}"
        )
    from maxplus.cli._tables_out import as_written

    return {name: as_written(table.columns[name]) for name in columns}


def _predictions(
    trained: Trained, samples: Samples, probabilities: bool, intervals: bool
) -> dict[str, Any]:
    estimator, X = trained.estimator, samples.X
    if not trained.is_classifier:
        columns = {"predicted": estimator.predict(X).tolist()}
        if intervals:
            bounds = estimator.predict_interval(X, 0.9)
            columns |= {
                name: b.tolist() for name, b in zip(("lower", "upper"), bounds, strict=True)
            }
        return columns
    if not probabilities:
        return {"predicted": _labels(trained, X)}
    P = estimator.predict_proba(X)
    labels = estimator.classes_
    each = {f"probability of {c}": p.round(6).tolist() for c, p in zip(labels, P.T, strict=True)}
    return {"predicted": _labels(trained, X), **each}


def _labels(trained: Trained, X: NDArray) -> Any:
    """What is predicted; Arrow repeats a few labels sooner than it reads many."""
    import pyarrow as pa

    winners = trained.estimator._scores(X).argmax(axis=1)
    return pa.array(trained.estimator.classes_).take(pa.array(winners))


def _radii(trained: Trained, samples: Samples, measure: Measure) -> dict[str, Any]:
    unit = f" in {measure.unit}" if measure.unit == DEVIATIONS else ""
    radius = trained.estimator.certified_radius(samples.X, measure.scale)
    return {f"certified radius{unit}": _six_digits_down(radius)}


def _six_digits_down(radius: NDArray) -> NDArray:
    """Six digits, never more than the truth: a radius is a promise."""
    import numpy as np

    some = np.isfinite(radius) & (radius > 0)
    power = 10.0 ** (5 - np.floor(np.log10(np.where(some, radius, 1.0))))
    digits = np.floor(np.where(some, radius, 0.0) * power)
    # The product may have been rounded up to the next whole number.
    digits -= digits / power > radius
    return np.where(some, digits / power, radius)
