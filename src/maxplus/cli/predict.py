"""``maxplus predict``: predictions for the rows of a table."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import numpy as np
import typer
from numpy.typing import NDArray

from maxplus.cli import _options as opt
from maxplus.cli._console import counted, open_console
from maxplus.cli._model import (
    DEVIATIONS,
    Perturbation,
    is_classifier,
    open_model,
    perturbation_of,
    stream_parts,
)

if TYPE_CHECKING:
    from maxplus.distributed import Communicator
    from maxplus.tables import Dataset

B = TypeVar("B")
R = TypeVar("R")


def predict(
    model: opt.Model,
    data: opt.Data,
    out: Annotated[
        Path | None,
        opt.output_file("--out", "-o", help="The CSV file to write; standard output by default."),
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
    raw_units: opt.RawUnits = False,
    move_categories: opt.MoveCategories = False,
    strict: opt.Strict = False,
    as_json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """Predict the class or target value of each row, as CSV; tables may be larger than memory.

    Row 1 is the first line of data.

    Example: maxplus predict model.maxplus new.csv --probabilities -o predictions.csv
    """
    with open_console(as_json, quiet) as console:
        from maxplus.cli._writers import stream_csv, stream_json, write_csv
        from maxplus.distributed import current

        opt.check_not_input(out, data, model)
        comm = current()
        if not comm.is_serial:
            _check_distributed(data, out)
        estimator = open_model(model, classifier=False)
        _check_options(estimator, probabilities, radius, intervals)
        perturbation = perturbation_of(estimator, raw_units, move_categories) if radius else None
        if perturbation is not None and (perturbation.scale is None or perturbation.held):
            console.print_message(f"certified radius in {perturbation}")
        kept = opt.names(keep_columns)

        def columns_of(part: Dataset) -> dict[str, Any]:
            columns: dict[str, Any] = {"row": part.rows + 1}
            if kept:
                columns |= _kept_columns(part, kept)
            columns |= _predictions(estimator, part.X, probabilities, intervals)
            if perturbation is not None:
                columns |= _radii(estimator, part.X, perturbation)
            return columns

        parts = stream_parts(data, estimator, strict=strict, extra_columns=kept)
        chunks = in_rank_order(comm, parts, columns_of)
        head = {"model": str(model), "data": data}
        if not comm.is_root:
            list(chunks)
        elif out is not None:
            n = write_csv(out, chunks, spreadsheet_safe=spreadsheet_safe)
            console.print(f"{counted(n, 'prediction')} in {out}")
            console.print_json({**head, "rows": n, "out": str(out)})
        elif as_json:
            stream_json(sys.stdout, head, "predictions", chunks)
        else:
            stream_csv(
                lambda lines: sys.stdout.write(lines.decode("utf-8")),
                chunks,
                spreadsheet_safe=spreadsheet_safe,
            )


def _check_distributed(data: str, out: Path | None) -> None:
    """Raise ValueError on all ranks if several ranks cannot read or write the files."""
    from maxplus.tables.dataset import is_built_in, require_partitionable

    if data == "-" or out is None:
        raise ValueError(
            "standard input or output is not supported on several MPI ranks; specify files for "
            "DATA and --out"
        )
    if not is_built_in(data):
        require_partitionable(data)


def _check_options(estimator: Any, probabilities: bool, radius: bool, intervals: bool) -> None:
    if is_classifier(estimator) and intervals:
        raise ValueError(
            "--intervals requires a regressor, but this model is a classifier; use --probabilities"
        )
    if not is_classifier(estimator) and (probabilities or radius):
        option = "--probabilities" if probabilities else "--radius"
        raise ValueError(
            f"{option} requires a classifier, but this model is a regressor; use --intervals"
        )


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
        if comm.is_root:
            yield from results  # type: ignore[misc]


def _kept_columns(data: Dataset, columns: tuple[str, ...]) -> dict[str, Any]:
    """Return the columns of --keep-columns; integral floats become int, NaN becomes None."""
    from maxplus.tables.table import require

    table = data.table
    if not table.columns:
        raise ValueError(f"{data.name} contains images, which have no columns to keep")
    for name in columns:
        require(table, name, "extra_columns")
    return {name: [_cell(cell) for cell in table.columns[name].tolist()] for name in columns}


def _cell(cell: Any) -> Any:
    if not isinstance(cell, float):
        return cell
    if not np.isfinite(cell):
        return None
    return int(cell) if cell.is_integer() else cell


def _predictions(
    estimator: Any, X: NDArray, probabilities: bool, intervals: bool
) -> dict[str, Any]:
    import pyarrow as pa

    if not is_classifier(estimator):
        columns = {"predicted": estimator.predict(X)}
        if intervals:
            columns["lower"], columns["upper"] = estimator.predict_interval(X, 0.9)
        return columns
    codes = estimator._scores(X).argmax(axis=1)
    # pyarrow does not create a Python string for each row.
    labels = {"predicted": pa.array(estimator.classes_).take(pa.array(codes))}
    if not probabilities:
        return labels
    P = estimator.predict_proba(X).round(6)
    return labels | {
        f"probability of {label}": p for label, p in zip(estimator.classes_, P.T, strict=True)
    }


def _radii(estimator: Any, X: NDArray, perturbation: Perturbation) -> dict[str, Any]:
    unit = f" in {perturbation.unit}" if perturbation.unit == DEVIATIONS else ""
    radius = estimator.certified_radius(X, perturbation.scale)
    return {f"certified radius{unit}": _round_down(radius)}


def _round_down(radius: NDArray) -> NDArray:
    """Round down to six significant digits, so that the result is still certified."""
    is_finite = np.isfinite(radius) & (radius > 0)
    power = 10.0 ** (5 - np.floor(np.log10(np.where(is_finite, radius, 1.0))))
    digits = np.floor(np.where(is_finite, radius, 0.0) * power)
    # The multiplication may have rounded up.
    digits -= digits / power > radius
    return np.where(is_finite, digits / power, radius)
