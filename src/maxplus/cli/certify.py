"""``maxplus certify``: what small changes of the input cannot do."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from maxplus.cli._common import (
    DataArgument,
    ModelArgument,
    RawUnitsOption,
    labels_for,
    open_model,
    open_samples,
    plain_errors,
)


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
    plot: Annotated[
        Path | None,
        typer.Option(help="Draw certified accuracy against ε to this file; none by default."),
    ] = None,
) -> None:
    """Certified accuracy: rows that are right and provably stay right.

    Example: maxplus certify model.maxplus test.csv --eps 0.1 --eps 0.2
    """
    import numpy as np
    from rich import box
    from rich.console import Console
    from rich.table import Table

    with plain_errors():
        trained = open_model(model)
        samples = open_samples(data, trained, labelled=True)
        y, classifier = labels_for(trained, samples, data), trained.classifier
        scale, unit = trained.measure(raw_units)
        steps = sorted(eps) if eps else [0.0, 0.05, 0.1, 0.2, 0.3]
        shares = np.atleast_1d(classifier.certify(samples.X, y, steps, scale))
        radius = classifier.certified_radius(samples.X, scale)
        table = Table(box=box.SIMPLE_HEAD)
        table.add_column("ε", justify="right")
        table.add_column("certified accuracy", justify="right")
        for step, share in zip(steps, shares, strict=True):
            table.add_row(f"{step:g}", f"{share:.2%}")
        console = Console(highlight=False)
        console.print(f"ε and radii are in {unit}.", soft_wrap=True)
        console.print(table)
        console.print(f"median certified radius {np.median(radius):.4g}, least {radius.min():.4g}")
        if plot is not None:
            from maxplus.plots import plot_certified_accuracy

            right = classifier.predict(samples.X) == y
            plot_certified_accuracy(radius, right, unit=unit).savefig(plot)
            console.print(f"Figure: {plot}", markup=False, soft_wrap=True)
