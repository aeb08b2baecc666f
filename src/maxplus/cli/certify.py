"""``maxplus certify``: certified accuracy under perturbations of the input."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maxplus.cli._common import (
    DataArgument,
    ModelArgument,
    MoveCategoriesOption,
    RawUnitsOption,
    StrictOption,
    plain_errors,
    require_folder,
)
from maxplus.cli._console import Console, JsonOption, QuietOption
from maxplus.cli._model import (
    DEVIATIONS,
    LoadedModel,
    Measure,
    UnknownLabels,
    held_text,
    open_model,
    stream_parts,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from maxplus.tables import Dataset

EPS = (0.0, 0.05, 0.1, 0.2, 0.3)
# Radii are expensive and by default not computed for larger tables.
ROWS_WITH_RADII = 100_000
# Computing radii is delayed until the buffer is full, because it is skipped for large tables.
BUFFER_BYTES = 50_000_000


def certify(
    model: ModelArgument,
    data: DataArgument,
    eps: Annotated[
        list[float] | None,
        typer.Option(
            help="Largest change of every feature; repeatable. 0, 0.05, 0.1, 0.2, 0.3 by default."
        ),
    ] = None,
    raw_units: RawUnitsOption = False,
    move_categories: MoveCategoriesOption = False,
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
        typer.Option(help="Plot certified accuracy against ε to this file; none by default."),
    ] = None,
    strict: StrictOption = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Print the certified accuracy for perturbations of the features by up to ε.

    It is the fraction of rows that are classified correctly and whose prediction provably does not
    change if every feature changes by up to ε. Tables may be larger than memory.

    Example: maxplus certify model.maxplus test.csv --eps 0.1 --eps 0.2
    """
    console = Console(as_json, quiet)
    with plain_errors(quiet):
        if plot is not None:
            require_folder(plot, "--plot")
        from maxplus.cli._text_tables import plain_table

        loaded = open_model(model)
        measure = loaded.measure(raw_units, move_categories)
        steps = check_eps(eps or EPS)
        wants_radii = radii or plot is not None
        count = CertifiedCounts(loaded, measure, steps, None if wants_radii else ROWS_WITH_RADII)
        unknown = UnknownLabels(loaded, data, strict=strict)
        for part in stream_parts(data, loaded, labelled=True, strict=strict):
            count.add(*unknown.known(part))
        unknown.report(console)
        console.print(f"ε and radii are in {measure.unit}{held_text(measure)}.")
        table = plain_table("ε", "certified accuracy")
        for step, share in zip(steps, count.shares, strict=True):
            table.add_row(f"{step:g}", f"{share:.2%}")
        console.rich.print(table)
        for line in count.sentences():
            console.print(line)
        document = {"model": str(model), "data": data, **count.document()}
        document["rows_with_unknown_labels"] = unknown.n_unknown
        if plot is not None:
            from maxplus.plots import plot_certified_accuracy

            plot_certified_accuracy(count.radius, count.right, unit=measure.unit).savefig(plot)
            console.print(f"Figure: {plot}")
            document["figure"] = str(plot)
        console.result(document)


def check_eps(eps: Sequence[float]) -> list[float]:
    """Return the values of ε in ascending order; raise ValueError for invalid values."""
    for step in eps:
        if not (math.isfinite(step) and step >= 0):
            raise ValueError(f"eps must be a finite number >= 0, or several; got {step}")
    return sorted(eps)


class CertifiedCounts:
    """Counter of correct and certified predictions for each ε.

    Parameters
    ----------
    model, measure : the model, and the unit of ε
    steps : values of ε, ascending
    max_radii : maximum number of rows whose radii are computed; None for no limit
    """

    def __init__(
        self, model: LoadedModel, measure: Measure, steps: list[float], max_radii: int | None
    ) -> None:
        import numpy as np

        self.steps = steps
        self._model, self._measure, self._max_radii = model, measure, max_radii
        self._n_certified = np.zeros(len(steps), np.int64)
        self._n_correct = 0
        self._rights: list[NDArray] = []
        self._radii: list[NDArray] = []
        self._buffered: list[NDArray] = []
        self.rows = self.filled = self.seen = 0

    def add(self, data: Dataset, codes: NDArray) -> None:
        """Count the rows of a chunk, with class indices ``codes``."""
        import numpy as np

        from maxplus.certify import certified_at
        from maxplus.report.performance import equal_to_training
        from maxplus.tables import row_hashes

        estimator, scale = self._model.estimator, self._measure.scale
        X = data.X
        if not len(X):
            return
        scores = estimator._scores(X)
        correct = scores.argmax(axis=1) == codes
        self.rows += len(correct)
        self._n_correct += int(np.count_nonzero(correct))
        if data.missing is not None:
            self.filled += int(data.missing.any(axis=1).sum())
        certified = correct
        for k, step in enumerate(self.steps):
            # Certificates are monotone in ε.
            certified = certified_at(
                estimator.model_, X, step, scale, scores=scores, where=certified
            )
            self._n_certified[k] += np.count_nonzero(certified)
        if not self.has_radii:
            self._buffered.clear()
            return
        equal = equal_to_training(estimator, row_hashes(X))
        self.seen += 0 if equal is None else int(equal.sum())
        self._rights.append(correct)
        self._buffered.append(X)
        if sum(rows.nbytes for rows in self._buffered) > BUFFER_BYTES:
            self._compute_radii()

    def _compute_radii(self) -> None:
        estimator, scale = self._model.estimator, self._measure.scale
        self._radii += [estimator.certified_radius(X, scale) for X in self._buffered]
        self._buffered.clear()

    @property
    def has_radii(self) -> bool:
        """True if radii are computed for all rows."""
        return self._max_radii is None or self.rows <= self._max_radii

    @property
    def right(self) -> NDArray:
        """Mask of correct predictions; requires ``has_radii``."""
        import numpy as np

        return np.concatenate(self._rights)

    @property
    def radius(self) -> NDArray:
        """Certified radius of each row; requires ``has_radii``."""
        import numpy as np

        self._compute_radii()
        return np.concatenate(self._radii)

    @property
    def shares(self) -> NDArray:
        """Certified accuracy for each ε."""
        return self._n_certified / self.rows

    def sentences(self) -> Iterator[str]:
        """Yield sentences about the certified rows."""
        from maxplus.certify import CertifiedRows
        from maxplus.metrics._readable import readable

        unit = self._measure.unit
        unit_text = unit if unit == DEVIATIONS else f"in {unit}"
        if self._measure.scale is not None and not self._measure.scale.any():
            yield (
                "Every column is held fixed, so there are no certificates. --move-categories lets "
                "categories change."
            )
        elif self.has_radii:
            found = CertifiedRows.of(self.radius, self.right)
            if found.right:
                yield (
                    f"median certified radius {readable(found.median)}, least "
                    f"{readable(found.least)}"
                )
            yield found.sentence(unit_text, self._measure.held)
            if self.seen:
                have = "row has" if self.seen == 1 else "rows have"
                yield f"{self.seen:,} {have} the same values as a training row."
        else:
            yield (
                f"{self._n_certified[-1]:,} of {self.rows:,} rows are correct and provably stay "
                f"correct if every number changes by up to {self.steps[-1]:g} {unit_text}. --radii "
                "gives the median and the least radius."
            )
        if self.filled:
            has = "has" if self.filled == 1 else "have"
            yield (
                f"{self.filled:,} of the rows {has} missing values: their certificates are for the "
                "imputed values."
            )

    def document(self) -> dict[str, Any]:
        """Return the JSON document."""
        from maxplus.certify import CertifiedRows

        found = CertifiedRows.of(self.radius, self.right) if self.has_radii else None
        return {
            "rows": self.rows,
            "right": self._n_correct,
            "rows_with_missing_values": self.filled,
            "unit": self._measure.unit,
            "held_fixed": self._measure.held,
            "eps": self.steps,
            "certified_accuracy": self.shares,
            "median_radius_of_right_rows": None if found is None else found.median,
            "least_radius_of_right_rows": None if found is None else found.least,
        }
