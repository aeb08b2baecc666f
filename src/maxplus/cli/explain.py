"""``maxplus explain``: explanations of single predictions."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from maxplus.cli import _options as opt
from maxplus.cli._console import open_console
from maxplus.cli._model import (
    encoder_of,
    image_shape,
    is_classifier,
    open_dataset,
    open_model,
    pixel_limits,
)

if TYPE_CHECKING:
    from maxplus.explain import Explanation, PredictionContributions
    from maxplus.tables import Dataset

    Explained = Explanation | PredictionContributions

# Number of rows that are explained by default.
N_SHOWN = 3
# Number of rows of a chunk of --table.
ROWS_AT_ONCE = 5_000
FREE = "free"
# Prefix of the fields of a counterfactual.
COUNTERFACTUAL = "counterfactual_"


def explain(
    model: opt.Model,
    data: opt.Data,
    rows: Annotated[
        list[int] | None,
        typer.Option(
            "--row",
            "-r",
            help="Row to explain; row 1 is the first line of data. Repeatable. The first three "
            "rows by default, all rows for --table.",
        ),
    ] = None,
    fixed: Annotated[
        list[str] | None,
        typer.Option(
            help="Columns that counterfactuals do not change, as a comma-separated list; "
            "repeatable. None by default."
        ),
    ] = None,
    ranges: Annotated[
        list[str] | None,
        typer.Option(
            "--range",
            metavar="COLUMN=LOW:HIGH|free",
            help="Range of a column in counterfactuals; either limit may be empty. Repeatable. The "
            "range in the training data by default; free removes it for all columns.",
        ),
    ] = None,
    max_columns: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Also compute the smallest change of up to this number of columns at once, which "
            "takes longer. None by default.",
        ),
    ] = None,
    table: Annotated[
        Path | None,
        opt.output_file(
            help="CSV file to write, with a line for each contribution to the prediction of each "
            "row or, for a single network, a line for each class of each row. None by default."
        ),
    ] = None,
    picture: Annotated[
        Path | None,
        opt.figure_file(
            help="File for a plot of the first explanation: the contributions or, for a single "
            "network that was trained on images, the units and pixels. None by default."
        ),
    ] = None,
    strict: opt.Strict = False,
    as_json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """Explain predictions: contributions of columns, and the nearest counterfactual.

    Example: maxplus explain model.maxplus flowers.csv --row 70
    """
    with open_console(as_json, quiet) as console:
        estimator = open_model(model, classifier=False)
        if not is_classifier(estimator) and (fixed or ranges or max_columns is not None):
            raise ValueError(
                f"{model} is a regressor, and counterfactuals require a classifier; omit "
                "--fixed, --range and --max-columns"
            )
        dataset = open_dataset(data, estimator, labelled=False, strict=strict)
        chosen = _row_indices(rows, dataset, data)
        options: dict[str, Any] = {}
        if is_classifier(estimator):
            options = {"fixed": opt.names(fixed), **_limits(estimator, dataset, opt.names(ranges))}
        shown = chosen if rows else chosen[:N_SHOWN]
        explanation = _explanation(estimator, dataset, shown, options)
        numbers = (dataset.rows[shown] + 1).tolist()
        heads = [""] * len(shown) if is_classifier(estimator) else [f"Row {n}: " for n in numbers]
        texts = [head + explanation.text(n) for n, head in enumerate(heads)]
        if max_columns is not None:
            for n, row in enumerate(shown):
                # HiGHS prints some messages even if its output is disabled.
                missing = None if dataset.missing is None else dataset.missing[row]
                with _discard_native_output():
                    change = estimator.smallest_change(
                        dataset.X[row], max_columns, missing=missing, **options
                    )
                texts[n] += f"\n  changing up to {max_columns} columns: {change}"
        for text in texts:
            console.print(text + "\n")
        document: dict[str, Any] = {"model": str(model), "data": dataset.name}
        if as_json:
            document["rows"] = _documents(explanation, numbers, texts)
        if table is not None:
            from maxplus.cli._writers import write_csv

            write_csv(table, _table_chunks(estimator, dataset, chosen, options))
            console.print(f"Table: {table}")
            document["table"] = str(table)
        if picture is not None:
            _draw(explanation, estimator, picture)
            console.print(f"Picture: {picture}")
            document["picture"] = str(picture)
        console.print_json(document)


def _row_indices(rows: list[int] | None, dataset: Dataset, data: str) -> NDArray:
    """Return the indices of the rows to explain; all rows by default."""
    positions = np.arange(len(dataset.X))
    if not rows:
        return positions
    outside = [row for row in rows if not 1 <= row <= len(positions)]
    if outside:
        raise ValueError(
            f"{data} has no row {outside[0]} (--row); its rows are 1 to {len(positions)}"
        )
    return np.array(rows) - 1


def _limits(estimator: Any, dataset: Dataset, ranges: Sequence[str]) -> dict[str, Any]:
    """Return the limits given by --range or, by default, the limits of pixels."""
    if not ranges:
        return pixel_limits(estimator, dataset.X)
    encoder = encoder_of(estimator)
    if encoder is None:
        raise ValueError("--range requires column names, but this model file contains none")
    domain = encoder.domain()
    low, high = domain.low.astype(float), domain.high.astype(float)
    for text in ranges:
        if text == FREE:
            low, high = np.full_like(low, -np.inf), np.full_like(high, np.inf)
            continue
        column, _, limits = text.rpartition("=")
        lower, colon, upper = limits.partition(":")
        try:
            bounds = float(lower or "-inf"), float(upper or "inf")
        except ValueError:
            colon = ""
        if not (column and colon and bounds[0] <= bounds[1]):
            raise ValueError(
                f"--range must be {FREE}, or a column with its minimum and maximum, such as "
                f"age=18:90; got {text!r}"
            )
        if column not in domain.columns:
            raise ValueError(
                f"the model has no column {column!r}; it has {', '.join(domain.columns[:20])}"
            )
        feature = domain.column_names.index(column)
        if domain.names[feature] != column or feature in domain.ordinals:
            raise ValueError(
                f"--range requires a numeric column, but {column!r} is categorical; to keep its "
                f"value, use --fixed {column}"
            )
        low[feature], high[feature] = bounds
    return {"low": low, "high": high}


def _explanation(
    estimator: Any, dataset: Dataset, rows: NDArray, options: dict[str, Any]
) -> Explained:
    if not is_classifier(estimator):
        return estimator.explain(dataset.X[rows])
    missing = None if dataset.missing is None else dataset.missing[rows]
    return estimator.explain(
        dataset.X[rows],
        missing=missing,
        row_numbers=(dataset.rows[rows] + 1).tolist(),
        **options,
    )


def _documents(
    explanation: Explained, numbers: list[int], texts: list[str]
) -> list[dict[str, Any]]:
    """Return the JSON document of each row."""
    from maxplus.explain import PredictionContributions
    from maxplus.metrics import to_jsonable

    columns = to_jsonable(_columns(explanation))
    row_index = np.array(columns.pop("row"))
    counterfactuals = {
        name.removeprefix(COUNTERFACTUAL): columns.pop(name)
        for name in list(columns)
        if name.startswith(COUNTERFACTUAL)
    }
    documents = []
    for n, number in enumerate(numbers):
        indices = np.flatnonzero(row_index == n)
        lines = [{name: cells[k] for name, cells in columns.items()} for k in indices]
        document = {"row": number, "lines": lines, "text": texts[n]}
        if isinstance(explanation, PredictionContributions):
            document["predicted"] = explanation.prediction[n]
        else:
            fields = {name: cells[indices[0]] for name, cells in counterfactuals.items()}
            document["predicted"] = str(explanation.class_names[explanation.predicted[n]])
            document["counterfactual"] = fields if fields["feature"] else None
        documents.append(document)
    return documents


def _columns(explanation: Explained) -> dict[str, Any]:
    """Return the records of an explanation by field, with 1-based training rows."""
    records = explanation.to_records()
    columns: dict[str, Any] = {name: records[name] for name in records.dtype.names or ()}
    if "prototype" in columns:
        # None for a unit that was not initialised at a training row.
        columns["prototype"] = [None if row < 0 else row + 1 for row in records.prototype.tolist()]
    return columns


def _table_chunks(
    estimator: Any, dataset: Dataset, rows: NDArray, options: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """Yield the records of all explanations in chunks, with row numbers of the file."""
    for k in range(0, len(rows), ROWS_AT_ONCE):
        part = rows[k : k + ROWS_AT_ONCE]
        columns = _columns(_explanation(estimator, dataset, part, options))
        columns["row"] = dataset.rows[part][columns["row"]] + 1
        yield columns


def _draw(explanation: Explained, estimator: Any, path: Path) -> None:
    from maxplus.explain import Explanation
    from maxplus.plots import plot_explanation

    if (
        isinstance(explanation, Explanation)
        and explanation.paths is not None
        and image_shape(estimator) is None
    ):
        raise ValueError(
            "--picture requires a sum of terms or a model for images (digits, mnist, "
            "fashion_mnist), but this model is a single network for a table"
        )
    plot_explanation(explanation, 0, image_shape(estimator)).savefig(path)


@contextmanager
def _discard_native_output() -> Iterator[None]:
    """Discard output that compiled libraries write to file descriptor 1.

    Some solvers cannot be silenced otherwise. This is not thread-safe.
    """
    libc = ctypes.CDLL("ucrtbase" if os.name == "nt" else None)
    sys.stdout.flush()
    libc.fflush(None)
    try:
        stdout_copy = os.dup(1)
    except OSError:  # Standard output is closed.
        yield
        return
    try:
        with open(os.devnull, "wb") as null:
            os.dup2(null.fileno(), 1)
        yield
    finally:
        libc.fflush(None)
        os.dup2(stdout_copy, 1)
        os.close(stdout_copy)
