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
from maxplus.cli._console import open_console
from maxplus.cli._model import (
    DEVIATIONS,
    Perturbation,
    UnknownLabels,
    open_model,
    perturbation_of,
    stream_parts,
)
from maxplus.cli._tables import plain_table

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
            help="Largest change of every feature; repeatable. 0, 0.05, 0.1, 0.2, 0.3 by default."
        ),
    ] = None,
    raw_units: opt.RawUnits = False,
    move_categories: opt.MoveCategories = False,
    change_one_of: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAMES",
            help="Categorical or ordinal columns, separated by commas. One of them may also take "
            "any other value; radii are not computed. None by default.",
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
        opt.output_file(
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

        estimator = open_model(model)
        perturbation = perturbation_of(estimator, raw_units, move_categories)
        steps, columns = _sorted_eps(eps or EPS), opt.names(change_one_of)
        needs_radii = radii or plot is not None
        if columns and needs_radii:
            option = "--radii" if radii else "--plot"
            raise ValueError(f"{option} is not available with --change-one-of; omit one of them")
        max_radii = 0 if columns else math.inf if needs_radii else ROWS_WITH_RADII
        count = CertifiedCounts(estimator, perturbation, steps, max_radii, columns)
        unknown = UnknownLabels(estimator, data, strict=strict)
        for part in stream_parts(data, estimator, labelled=True, strict=strict):
            count.add(*unknown.select_known(part))
        unknown.report(console)
        accuracy = count.n_certified / count.n_rows
        found = CertifiedRows.of(count.radius, count.correct) if count.has_radii else None
        console.print(f"ε and radii are in {perturbation}.")
        table = plain_table("ε", "certified accuracy")
        for step, share in zip(steps, accuracy, strict=True):
            table.add_row(f"{step:g}", f"{share:.2%}")
        console.rich.print(table)
        for line in _sentences(count, found):
            console.print(line)
        document = {
            "model": str(model),
            "data": data,
            "rows": count.n_rows,
            "correct": count.n_correct,
            "rows_with_missing_values": count.n_missing,
            "unit": perturbation.unit,
            "held_fixed": perturbation.held,
            "eps": steps,
            "certified_accuracy": accuracy,
            "median_radius_of_correct_rows": None if found is None else found.median,
            "least_radius_of_correct_rows": None if found is None else found.least,
            "rows_with_unknown_labels": unknown.n_unknown,
        }
        if columns:
            document["change_one_of"] = columns
        if plot is not None:
            from maxplus.plots import plot_certified_accuracy

            plot_certified_accuracy(count.radius, count.correct, unit=perturbation.unit).savefig(
                plot
            )
            console.print(f"Figure: {plot}")
            document["figure"] = str(plot)
        console.print_json(document)


def _sorted_eps(eps: Sequence[float]) -> list[float]:
    for step in eps:
        if not (math.isfinite(step) and step >= 0):
            raise ValueError(f"--eps must be a finite number >= 0; got {step}")
    return sorted(eps)


class CertifiedCounts:
    """Counter of correct and certified predictions for each ε.

    Parameters
    ----------
    estimator : fitted classifier
    perturbation : unit of ε
    steps : values of ε, ascending
    max_radii : maximum number of rows for which radii are computed
    change_one_of : columns one of which may also take any other value
    """

    def __init__(
        self,
        estimator: Any,
        perturbation: Perturbation,
        steps: list[float],
        max_radii: float,
        change_one_of: Sequence[str],
    ) -> None:
        self.steps, self.perturbation, self._max_radii = steps, perturbation, max_radii
        self.change_one_of = change_one_of
        self._estimator = estimator
        self.n_certified = np.zeros(len(steps), np.int64)
        self.n_rows = self.n_correct = self.n_missing = self.n_equal = 0
        self._correct: list[NDArray] = []
        self._radii: list[NDArray] = []

    def add(self, data: Dataset, codes: NDArray) -> None:
        """Count the rows of a chunk, with class indices ``codes``."""
        from maxplus.report.performance import equal_to_training
        from maxplus.tables import row_hashes

        if not len(codes):
            return
        X, scale = data.X, self.perturbation.scale
        scores = self._estimator._scores(X)
        correct = certified = scores.argmax(axis=1) == codes
        self.n_rows += len(correct)
        self.n_correct += int(np.count_nonzero(correct))
        if data.missing is not None:
            self.n_missing += int(data.missing.any(axis=1).sum())
        for k, step in enumerate(self.steps):
            # A row that is not certified for ε is not certified for any larger ε.
            certified = self._estimator._certified(
                X, scores, step, scale, certified, self.change_one_of
            )
            self.n_certified[k] += np.count_nonzero(certified)
        if self.has_radii:
            equal = equal_to_training(self._estimator, row_hashes(X))
            self.n_equal += 0 if equal is None else int(equal.sum())
            self._correct.append(correct)
            self._radii.append(self._estimator.certified_radius(X, scale))

    @property
    def has_radii(self) -> bool:
        """True if radii are computed for all rows."""
        return self.n_rows <= self._max_radii

    @property
    def correct(self) -> NDArray:
        """Mask of correct predictions; requires ``has_radii``."""
        return np.concatenate(self._correct)

    @property
    def radius(self) -> NDArray:
        """Certified radius of each row; requires ``has_radii``."""
        return np.concatenate(self._radii)


def _sentences(count: CertifiedCounts, found: CertifiedRows | None) -> Iterator[str]:
    """Yield sentences about the certified rows."""
    from maxplus.metrics._readable import readable

    perturbation = count.perturbation
    unit = perturbation.unit if perturbation.unit == DEVIATIONS else f"in {perturbation.unit}"
    if perturbation.scale is not None and not perturbation.scale.any():
        yield (
            "Every column is held fixed, so there are no certificates. --move-categories lets "
            "categories change."
        )
    elif found is not None:
        if found.n_correct:
            median, minimum = readable(found.median), readable(found.least)
            yield f"median certified radius {median}, minimum {minimum}"
        yield found.sentence(unit, perturbation.held)
        if count.n_equal:
            have = "row has" if count.n_equal == 1 else "rows have"
            yield f"{count.n_equal:,} {have} the same values as a training row."
    else:
        columns = " or ".join(map(repr, count.change_one_of))
        end = (
            f" and {columns} to any value."
            if columns
            else (". --radii computes the median and the minimum radius.")
        )
        yield (
            f"{count.n_certified[-1]:,} of {count.n_rows:,} rows are correct and provably stay "
            f"correct if every numeric feature changes by up to {count.steps[-1]:g} {unit}{end}"
        )
    if count.n_missing:
        has = "has" if count.n_missing == 1 else "have"
        yield (
            f"{count.n_missing:,} of the rows {has} missing values: their certificates are for the "
            "imputed values."
        )
