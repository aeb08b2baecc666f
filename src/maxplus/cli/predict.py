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
    open_model,
    open_samples,
    plain_errors,
)


def predict(
    model: ModelArgument,
    data: DataArgument,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="CSV file to write; the screen by default.")
    ] = None,
    probabilities: Annotated[bool, typer.Option(help="A column for each class.")] = False,
    radius: Annotated[
        bool, typer.Option(help="A column with how far each row may move unharmed.")
    ] = False,
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
            head.append("certified radius")
            columns.append([f"{r:.6g}" for r in classifier.certified_radius(samples.X)])
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(head)
        writer.writerows(zip(*columns, strict=True))
        if out is None:
            sys.stdout.write(text.getvalue())
        else:
            from maxplus._files import write_whole

            write_whole(out, text.getvalue().encode("utf-8"))
            typer.echo(f"{len(samples.X):,} predictions in {out}")
