"""``maxplus evaluate``: how good a model is on labelled data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maxplus.cli._common import (
    DataArgument,
    ModelArgument,
    labels_for,
    open_model,
    open_samples,
    plain_errors,
)

if TYPE_CHECKING:
    from rich.table import Table


def evaluate(
    model: ModelArgument,
    data: DataArgument,
    plot: Annotated[
        Path | None,
        typer.Option(
            help="Draw how far probabilities can be trusted to this file; none by default."
        ),
    ] = None,
) -> None:
    """Accuracy, losses, calibration and confusion on labelled data.

    Example: maxplus evaluate model.maxplus test.csv --plot reliability.png
    """
    import numpy as np
    from rich.console import Console
    from sklearn.metrics import confusion_matrix, f1_score

    from maxplus.metrics import reliability
    from maxplus.models import LOG2

    with plain_errors():
        trained = open_model(model)
        samples = open_samples(data, trained, labelled=True)
        y, classes = labels_for(trained, samples, data), trained.classifier.classes_
        predicted = trained.classifier.predict(samples.X)
        codes = np.searchsorted(classes, y)
        log_proba = trained.classifier.predict_log_proba(samples.X)
        losses = -log_proba[np.arange(len(y)), codes]
        bins = reliability(codes, np.exp(log_proba))
        console = Console(highlight=False)
        console.print(f"{samples.name}: {len(y):,} rows")
        console.print(f"right          {(predicted == y).mean():.2%}")
        console.print(f"macro F1       {f1_score(y, predicted, average='macro'):.4f}")
        console.print(f"log loss       {losses.mean():.4f}, the mean")
        console.print(f"calibration    {bins.error:.4f} expected error")
        worst = int(losses.argmax())
        side = "below" if losses[worst] < LOG2 else "not below"
        console.print(f"maximum loss   {losses[worst]:.4f} (row {worst}), {side} log 2 = 0.693")
        console.print(_confusion(confusion_matrix(y, predicted, labels=classes), classes))
        if plot is not None:
            from maxplus.plots import plot_reliability

            plot_reliability(bins).savefig(plot)
            console.print(f"Figure: {plot}", markup=False, soft_wrap=True)


def _confusion(matrix: Any, classes: Any) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(
        title="rows are true, columns predicted", title_justify="left", box=box.SIMPLE_HEAD
    )
    table.add_column("")
    for label in classes:
        table.add_column(str(label), justify="right")
    for label, row in zip(classes, matrix, strict=True):
        cells = [f"[bold]{n}[/]" if classes[k] == label else str(n) for k, n in enumerate(row)]
        table.add_row(str(label), *cells)
    return table
