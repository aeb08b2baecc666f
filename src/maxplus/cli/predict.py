"""``maxplus predict``: predictions for the rows of a table."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from maxplus.cli._common import (
    DataArgument,
    ModelArgument,
    MoveCategoriesOption,
    RawUnitsOption,
    StrictOption,
    all_ranks,
    plain_errors,
    refuse_over_ranks,
    require_folder,
)
from maxplus.cli._console import Console, JsonOption, QuietOption
from maxplus.cli._model import DEVIATIONS, LoadedModel, Measure, held_text, open_model, stream_parts
from maxplus.cli._options import names

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from maxplus.cli._writers import Sink
    from maxplus.distributed import Communicator
    from maxplus.tables import Dataset

B = TypeVar("B")
R = TypeVar("R")


def predict(
    model: ModelArgument,
    data: DataArgument,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="The CSV file to write; standard output by default."),
    ] = None,
    keep_columns: Annotated[
        list[str] | None,
        typer.Option(
            help="Columns of DATA to copy to the output, such as an id, as a comma-separated "
            "list; repeatable. None by default."
        ),
    ] = None,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="Add a column for each class; none by default.")
    ] = False,
    radius: Annotated[
        bool,
        typer.Option(
            "--radius",
            help="Add a column with the certified radius: the prediction provably does not change "
            "if every feature changes by less than this radius. None by default.",
        ),
    ] = False,
    intervals: Annotated[
        bool,
        typer.Option(
            "--intervals",
            help="Add the bounds of 90 % prediction intervals (regressors only). None by default.",
        ),
    ] = False,
    spreadsheet_safe: Annotated[
        bool,
        typer.Option(
            "--spreadsheet-safe",
            help="Prefix text that a spreadsheet would evaluate as a formula with an apostrophe: "
            "text that begins with =, +, -, @, a tab or a carriage return and is not a number. By "
            "default text is unchanged.",
        ),
    ] = False,
    raw_units: RawUnitsOption = False,
    move_categories: MoveCategoriesOption = False,
    strict: StrictOption = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Predict a label or number for each row, as CSV; tables may be larger than memory.

    Row 1 is the first line of data.
    Example: maxplus predict model.maxplus new.csv --probabilities -o predictions.csv
    """
    with all_ranks() as comm, plain_errors(quiet, prints=comm.is_first):
        console = Console(as_json and comm.is_first, quiet or not comm.is_first)
        if not comm.is_alone and (data == "-" or out is None):
            refuse_over_ranks("standard input or output", "specify files for DATA and --out")
        if not comm.is_alone:
            from maxplus.tables.dataset import is_built_in, require_partitionable

            if not is_built_in(data):
                require_partitionable(data)
        if out is not None:
            require_folder(out, "--out")
        loaded = open_model(model, classifier=False)
        _check_options(loaded, probabilities, radius, intervals)
        measure = loaded.measure(raw_units, move_categories) if radius else None
        if measure is not None and (measure.scale is None or measure.held):
            console.remark(f"certified radius in {measure.unit}{held_text(measure)}")
        n, kept_names = 0, names(keep_columns)
        head = {"model": str(model), "data": data}

        def columns_of(part: Dataset) -> dict[str, Any]:
            columns: dict[str, Any] = {"row": part.rows + 1, **_kept_columns(part, kept_names)}
            columns |= _predictions(loaded, part, probabilities, intervals)
            return columns if measure is None else columns | _radii(loaded, part, measure)

        parts = stream_parts(data, loaded, strict=strict, also=kept_names)
        with (
            _sink(out, console, head, spreadsheet_safe) if comm.is_first else nullcontext() as sink
        ):
            for columns in in_rank_order(comm, parts, columns_of):
                assert sink is not None
                sink.write(columns)
                n += len(columns["row"])
        if out is not None:
            console.print(f"{n:,} predictions in {out}")
            console.result({**head, "rows": n, "out": str(out)})


def in_rank_order(comm: Communicator, blocks: Iterable[B], work: Callable[[B], R]) -> Iterator[R]:
    """Distribute blocks over the ranks and yield ``work(block)`` in order on rank 0.

    Every rank reads all blocks. An error on one rank is raised on all ranks.
    """
    from maxplus.distributed import SERIAL, using

    remaining = iter(blocks)
    while True:
        with using(SERIAL):
            batch = list(islice(remaining, comm.size))
        result = None
        with comm.raise_on_all_ranks(), using(SERIAL):
            result = work(batch[comm.rank]) if comm.rank < len(batch) else None
        results = comm.allgather(result)[: len(batch)]
        if not batch:
            return
        if comm.is_first:
            yield from results  # type: ignore[misc]


def _check_options(model: LoadedModel, probabilities: bool, radius: bool, intervals: bool) -> None:
    if model.is_classifier and intervals:
        raise ValueError(
            "--intervals is for regressions; this model predicts classes, for which "
            "there is --probabilities"
        )
    if not model.is_classifier and (probabilities or radius):
        option = "--probabilities" if probabilities else "--radius"
        raise ValueError(
            f"{option} is for classes; this model predicts numbers, for which there is --intervals"
        )


def _sink(
    out: Path | None, console: Console, head: dict[str, Any], spreadsheet_safe: bool
) -> AbstractContextManager[Sink]:
    from maxplus.cli._writers import CsvSink, csv_file, json_list

    if out is not None:
        return csv_file(out, spreadsheet_safe=spreadsheet_safe)
    if console.as_json:
        return json_list(sys.stdout, head, "predictions")
    return nullcontext(
        CsvSink(
            lambda lines: sys.stdout.write(lines.decode("utf-8")), spreadsheet_safe=spreadsheet_safe
        )
    )


def _kept_columns(data: Dataset, columns: tuple[str, ...]) -> dict[str, Any]:
    """Return the columns of --keep-columns."""
    if not columns:
        return {}
    table = data.table
    if not table.columns:
        raise ValueError(f"{data.name} holds images, which have no columns to keep")
    absent = [name for name in columns if name not in table.columns]
    if absent:
        raise ValueError(
            f"{data.name} has no column {absent[0]!r} (--keep-columns); it has "
            f"{', '.join(map(repr, list(table.columns)[:20]))}"
        )
    from maxplus.cli._writers import output_cells

    return {name: output_cells(table.columns[name]) for name in columns}


def _predictions(
    model: LoadedModel, data: Dataset, probabilities: bool, intervals: bool
) -> dict[str, Any]:
    estimator, X = model.estimator, data.X
    if not model.is_classifier:
        columns = {"predicted": estimator.predict(X).tolist()}
        if intervals:
            bounds = estimator.predict_interval(X, 0.9)
            columns |= {
                name: b.tolist() for name, b in zip(("lower", "upper"), bounds, strict=True)
            }
        return columns
    if not probabilities:
        return {"predicted": _labels(model, X)}
    P = estimator.predict_proba(X)
    labels = estimator.classes_
    each = {f"probability of {c}": p.round(6).tolist() for c, p in zip(labels, P.T, strict=True)}
    return {"predicted": _labels(model, X), **each}


def _labels(model: LoadedModel, X: NDArray) -> Any:
    """Return labels as a pyarrow array, which avoids a Python string per row."""
    import pyarrow as pa

    codes = model.estimator._scores(X).argmax(axis=1)
    return pa.array(model.estimator.classes_).take(pa.array(codes))


def _radii(model: LoadedModel, data: Dataset, measure: Measure) -> dict[str, Any]:
    unit = f" in {measure.unit}" if measure.unit == DEVIATIONS else ""
    radius = model.estimator.certified_radius(data.X, measure.scale)
    return {f"certified radius{unit}": _six_digits_down(radius)}


def _six_digits_down(radius: NDArray) -> NDArray:
    """Round down to six significant digits, so that the result is still certified."""
    import numpy as np

    is_finite = np.isfinite(radius) & (radius > 0)
    power = 10.0 ** (5 - np.floor(np.log10(np.where(is_finite, radius, 1.0))))
    digits = np.floor(np.where(is_finite, radius, 0.0) * power)
    # The multiplication may have rounded up.
    digits -= digits / power > radius
    return np.where(is_finite, digits / power, radius)
