"""``maxplus explain``: why rows got their labels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from maxplus.cli._common import (
    DataArgument,
    ModelArgument,
    Trained,
    open_model,
    open_samples,
    plain_errors,
)

if TYPE_CHECKING:
    import numpy as np

    from maxplus.explain import Explanation


def explain(
    model: ModelArgument,
    data: DataArgument,
    rows: Annotated[
        list[int] | None,
        typer.Option(
            "--row", "-r", help="A row to explain; repeatable, the first three by default."
        ),
    ] = None,
    table: Annotated[
        Path | None,
        typer.Option(
            help="Write a CSV table here with a line for each row and class; none by default."
        ),
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option(
            help="Draw the first row's units and pixels to this file, for images; none by default."
        ),
    ] = None,
) -> None:
    """Say what decided each score, and the smallest change that flips the prediction.

    Example: maxplus explain model.maxplus flowers.csv --row 70
    """
    with plain_errors():
        trained = open_model(model)
        samples = open_samples(data, trained, labelled=False)
        chosen = list(rows) if rows else list(range(min(3, len(samples.X))))
        outside = [row for row in chosen if not 0 <= row < len(samples.X)]
        if outside:
            raise ValueError(
                f"{data} has no row {outside[0]} (--row); its rows are 0 to {len(samples.X) - 1}"
            )
        why = trained.classifier.explain(
            samples.X[chosen],
            feature_names=trained.feature_names,
            row_numbers=chosen,
            **trained.feature_range(samples),
        )
        for n in range(len(chosen)):
            typer.echo(why.text(n) + "\n")
        if table is not None:
            _write_table(why, chosen, table)
        if picture is not None:
            _draw(why, trained, picture)


def _write_table(why: Explanation, chosen: list[int], path: Path) -> None:
    import csv
    import io

    from maxplus._files import write_whole

    records: np.recarray = why.to_records()
    names = records.dtype.names or ()
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    for record in records:
        cells = dict(zip(names, record.tolist(), strict=True))
        writer.writerow({**cells, "row": chosen[cells["row"]]}.values())
    write_whole(path, text.getvalue().encode("utf-8"))
    typer.echo(f"Table: {path}")


def _draw(why: Explanation, trained: Trained, path: Path) -> None:
    from maxplus.plots import plot_explanation

    if trained.image_shape is None:
        raise ValueError(
            "--picture is for models of images (digits, mnist, fashion_mnist); this model's "
            "features have no places in a picture"
        )
    plot_explanation(why, 0, trained.image_shape).savefig(path)
    typer.echo(f"Picture: {path}")
