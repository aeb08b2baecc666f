"""``maxplus certify``: certified accuracy under perturbations of the input."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from maxplus.cli import _options as opt
from maxplus.cli._console import open_console, plain_table
from maxplus.cli._model import (
    DEVIATIONS,
    Perturbation,
    UnknownLabels,
    labelled_arrays,
    open_model,
    perturbation_of,
)

if TYPE_CHECKING:
    from maxplus.certify import CertifiedRows
    from maxplus.tables import Dataset

EPS = (0.0, 0.05, 0.1, 0.2, 0.3)
# Radii are expensive and by default not computed for larger tables.
ROWS_WITH_RADII = 100_000


def certify(
    model: opt.Model,
    data: opt.Data,
    eps: Annotated[
        list[float] | None,
        typer.Option(
            help="Largest change of every feature, in standard deviations of the training data or "
            "with --raw-units in raw units; repeatable. 0, 0.05, 0.1, 0.2, 0.3 by default."
        ),
    ] = None,
    raw_units: opt.RawUnits = False,
    move_categories: opt.MoveCategories = False,
    change_one_of: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAMES",
            help="Categorical or ordinal columns, as a comma-separated list; repeatable. "
            "Certificates also cover a change of one of them to any other value; radii are not "
            "computed. None by default.",
        ),
    ] = None,
    radii: Annotated[
        bool,
        typer.Option(
            "--radii",
            help="Compute the median and the minimum certified radius even if the table has more "
            "than 100,000 rows. This takes most of the time and is done only for smaller tables by "
            "default.",
        ),
    ] = False,
    plot: Annotated[
        Path | None,
        opt.figure_file(
            help="Write a plot of certified accuracy against ε to this file; none by default."
        ),
    ] = None,
    strict: opt.Strict = False,
    as_json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """Print the certified accuracy for perturbations of the features by up to ε.

    It is the fraction of rows that are classified correctly and whose prediction provably does not
    change if every feature changes by up to ε. Tables may be larger than memory.

    Example: maxplus certify model.maxplus test.csv --eps 0.1 --eps 0.2
    """
    with open_console(as_json, quiet) as console:
        from maxplus.certify import CertifiedRows
        from maxplus.tables import row_hashes

        estimator = open_model(model)
        perturbation = perturbation_of(estimator, raw_units, move_categories)
        eps_values, columns = _sorted_eps(eps or EPS), opt.names(change_one_of)
        needs_radii = radii or plot is not None
        if columns and needs_radii:
            option = "--radii" if radii else "--plot"
            raise ValueError(f"{option} is not available with --change-one-of; omit one of them")
        scale = perturbation.scale
        max_rows = 0 if columns else math.inf if needs_radii else ROWS_WITH_RADII
        unknown = UnknownLabels(estimator, strict=strict)

        def certified(rows: Dataset, codes: NDArray) -> dict[str, NDArray]:
            arrays = _certified(estimator, rows, codes, eps_values, scale, columns)
            if unknown.n_rows <= max_rows:
                arrays["radius"] = estimator.certified_radius(rows.X, scale)
                if hasattr(estimator, "training_rows_"):
                    arrays["equal"] = np.isin(row_hashes(rows.X), estimator.training_rows_)
            return arrays

        arrays = labelled_arrays(data, estimator, unknown, certified)
        unknown.report(console)
        accuracy = arrays["certified"].mean(axis=0)
        has_radii = "radius" in arrays
        summary = (
            CertifiedRows.from_radii(arrays["radius"], arrays["correct"]) if has_radii else None
        )
        held = tuple(name for name in perturbation.held if name not in columns)
        console.print(f"ε and radii are in {perturbation._replace(held=held)}.")
        if columns:
            one_of = "one of " * (len(columns) > 1)
            console.print(f"In addition, {one_of}{_listed(columns)} may change to any value.")
        table = plain_table("ε", "certified accuracy")
        for value, share in zip(eps_values, accuracy, strict=True):
            table.add_row(f"{value:g}", f"{share:.2%}")
        console.rich.print(table)
        for line in _sentences(arrays, summary, perturbation, eps_values[-1], columns):
            console.print(line)
        document = {
            "model": str(model),
            "data": data,
            "rows": len(arrays["correct"]),
            "correct": arrays["correct"].sum(),
            "rows_with_missing_values": arrays["missing"].sum(),
            "unit": perturbation.unit,
            "held_fixed": perturbation.held,
            "eps": eps_values,
            "certified_accuracy": accuracy,
            "median_radius_of_correct_rows": None if summary is None else summary.median_radius,
            "least_radius_of_correct_rows": None if summary is None else summary.min_radius,
            "rows_with_unknown_labels": unknown.n_unknown,
        }
        if columns:
            document["change_one_of"] = columns
        if plot is not None:
            from maxplus.plots import plot_certified_accuracy

            figure = plot_certified_accuracy(
                arrays["radius"], arrays["correct"], unit=perturbation.unit
            )
            figure.savefig(plot)
            console.print(f"Figure: {plot}")
            document["figure"] = str(plot)
        console.print_json(document)


def _sorted_eps(eps: Sequence[float]) -> list[float]:
    for value in eps:
        if not (math.isfinite(value) and value >= 0):
            raise ValueError(f"--eps must be a finite number >= 0; got {value}")
    return sorted(eps)


def _certified(
    estimator: Any,
    data: Dataset,
    codes: NDArray,
    eps_values: list[float],
    scale: NDArray | None,
    change_one_of: Sequence[str],
) -> dict[str, NDArray]:
    """Return which rows are correct, certified for each ε, and incomplete."""
    scores = estimator._scores(data.X)
    correct = scores.argmax(axis=1) == codes
    certified = [correct]
    for eps in eps_values:
        # A row that is not certified for ε is not certified for any larger ε.
        where = certified[-1]
        certified.append(estimator._certified(data.X, scores, eps, scale, where, change_one_of))
    missing = np.zeros((len(codes), 1), bool) if data.missing is None else data.missing
    return {
        "correct": correct,
        "certified": np.stack(certified[1:], axis=1),
        "missing": missing.any(axis=1),
    }


def _listed(columns: Sequence[str]) -> str:
    return " or ".join(map(repr, columns))


def _sentences(
    arrays: dict[str, NDArray],
    summary: CertifiedRows | None,
    perturbation: Perturbation,
    eps: float,
    change_one_of: Sequence[str],
) -> Iterator[str]:
    """Yield sentences about the certified rows; ``eps`` is the largest ε."""
    from maxplus.metrics._formatting import format_number

    unit = perturbation.unit if perturbation.unit == DEVIATIONS else f"in {perturbation.unit}"
    if perturbation.scale is not None and not perturbation.scale.any():
        yield (
            "Every column is held fixed, so there are no certificates. --move-categories lets "
            "categories change."
        )
    elif summary is not None:
        if summary.n_correct:
            median, minimum = (
                format_number(summary.median_radius),
                format_number(summary.min_radius),
            )
            yield f"median certified radius {median}, minimum {minimum}"
        yield summary.sentence(unit, perturbation.held)
        if n_equal := np.count_nonzero(arrays.get("equal", 0)):
            have = "row has" if n_equal == 1 else "rows have"
            yield f"{n_equal:,} {have} the same values as a training row."
    else:
        end = (
            f" and {_listed(change_one_of)} to any value."
            if change_one_of
            else ". --radii computes the median and the minimum radius."
        )
        feature = "numeric feature" if perturbation.held else "feature"
        yield (
            f"{arrays['certified'][:, -1].sum():,} of {len(arrays['correct']):,} rows are correct "
            f"and provably stay correct if every {feature} changes by up to {eps:g} {unit}{end}"
        )
    if n_missing := arrays["missing"].sum():
        has = "has" if n_missing == 1 else "have"
        yield (
            f"{n_missing:,} of the rows {has} missing values: certificates of such rows are for "
            "the imputed values."
        )
