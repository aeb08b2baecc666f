"""``maxplus certify``: what small changes of the input cannot do."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from maxplus.cli._common import (
    DataArgument,
    ModelArgument,
    MoveCategoriesOption,
    RawUnitsOption,
    StrictOption,
    plain_errors,
)
from maxplus.cli._output import JsonOption, QuietOption, Voice
from maxplus.cli._trained import DEVIATIONS, held_words, labels_for, open_model, sample_blocks

EPS = (0.0, 0.05, 0.1, 0.2, 0.3)


def certify(
    model: ModelArgument,
    data: DataArgument,
    eps: Annotated[
        list[float] | None,
        typer.Option(
            help="How far every feature may move; repeatable, 0, 0.05, 0.1, 0.2 and 0.3 by default."
        ),
    ] = None,
    raw_units: RawUnitsOption = False,
    move_categories: MoveCategoriesOption = False,
    plot: Annotated[
        Path | None,
        typer.Option(help="Draw certified accuracy against ε to this file; none by default."),
    ] = None,
    strict: StrictOption = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Certified accuracy: rows that are right and provably stay right; larger than memory, too.

    Example: maxplus certify model.maxplus test.csv --eps 0.1 --eps 0.2
    """
    import numpy as np

    voice = Voice(as_json, quiet)
    with plain_errors(quiet):
        from maxplus.certify import CertifiedRows
        from maxplus.cli._show import plain_table

        trained = open_model(model)
        estimator, measure = trained.estimator, trained.measure(raw_units, move_categories)
        scale, unit = measure.scale, measure.unit
        steps = sorted(eps) if eps else list(EPS)
        kept = np.zeros(len(steps))
        radii, rights, n_filled = [], [], 0
        for samples in sample_blocks(data, trained, labelled=True, strict=strict):
            y = labels_for(trained, samples, data)
            shares = np.atleast_1d(estimator.certify(samples.X, y, steps, scale))
            kept += np.rint(shares * len(y))
            radii.append(estimator.certified_radius(samples.X, scale))
            rights.append(estimator.predict(samples.X) == y)
            if samples.missing is not None:
                n_filled += int(samples.missing.any(axis=1).sum())
        radius, right = np.concatenate(radii), np.concatenate(rights)
        found = CertifiedRows.of(radius, right)
        voice.say(f"ε and radii are in {unit}{held_words(measure)}.")
        table = plain_table("ε", "certified accuracy")
        for step, count in zip(steps, kept, strict=True):
            table.add_row(f"{step:g}", f"{count / found.rows:.2%}")
        voice.console.print(table)
        if found.right:
            voice.say(f"median certified radius {found.median:.4g}, least {found.least:.4g}")
        words = unit if unit == DEVIATIONS else f"in {unit}"
        voice.say(found.sentence(words, measure.held))
        if n_filled:
            voice.say(
                f"{n_filled:,} of the rows have missing values: what is proven for them is about "
                "the values that were filled in."
            )
        document = {
            "model": str(model), "data": data, "rows": found.rows, "right": found.right,
            "rows_with_missing_values": n_filled, "unit": unit, "held_fixed": measure.held,
            "eps": steps, "certified_accuracy": kept / found.rows,
            "median_radius_of_right_rows": found.median,
            "least_radius_of_right_rows": found.least,
        }  # fmt: skip
        if plot is not None:
            from maxplus.plots import plot_certified_accuracy

            plot_certified_accuracy(radius, right, unit=unit).savefig(plot)
            voice.say(f"Figure: {plot}")
            document["figure"] = str(plot)
        voice.result(document)
