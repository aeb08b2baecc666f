"""``maxplus predict``: labels for the rows of a table."""

from __future__ import annotations

import csv
import io
import sys
from pathlib import Path
from typing import Annotated

import typer

from maxplus.cli._common import (
    DataArgument,
    ModelArgument,
    RawUnitsOption,
    open_model,
    open_samples,
    plain_errors,
)


def predict(
    model: ModelArgument,
    data: DataArgument,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="The CSV file to write; the screen by default."),
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
    raw_units: RawUnitsOption = False,
) -> None:
    """Predict a label for each row, as CSV.

    Example: maxplus predict model.maxplus new.csv --probabilities -o predictions.csv
    """
    with plain_errors():
        trained = open_model(model)
        samples = open_samples(data, trained, labelled=False)
        classifier = trained.classifier
        head = ["row", "predicted"]
        columns = [range(len(samples.X)), classifier.predict(samples.X)]
        if probabilities:
            head += [f"probability of {label}" for label in classifier.classes_]
            columns += [p.round(6).tolist() for p in classifier.predict_proba(samples.X).T]
        if radius:
            scale, unit = trained.measure(raw_units)
            if scale is None:
                head.append("certified radius")
                typer.echo(f"certified radius in {unit}", err=True)
            else:
                head.append(f"certified radius in {unit}")
            columns.append([f"{r:.6g}" for r in classifier.certified_radius(samples.X, scale)])
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(head)
        writer.writerows(zip(*columns, strict=True))
        if out is None:
            sys.stdout.write(text.getvalue())
        else:
            from maxplus.io.atomic import write_whole

            write_whole(out, text.getvalue().encode("utf-8"))
            typer.echo(f"{len(samples.X):,} predictions in {out}")
