"""The paper's Iris comparison in seconds: ``python -m experiments.demo``."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from experiments.__main__ import make_folder
from experiments.iris import (
    N_ITERATIONS,
    PAPER,
    TYPICAL_SEED,
    IrisComparison,
    compare_on_iris,
    compile_kernels,
    plot_comparison,
)
from maxplus.training.monitor import announce_compilation
from maxplus.training.progress import ProgressBar

FIGURE = "iris.png"
app = typer.Typer(add_completion=False)


@app.command()
def demo(
    seed: Annotated[
        int, typer.Option(min=0, max=2**32 - 1, help="Decides the split and the initialisation.")
    ] = TYPICAL_SEED,
    iterations: Annotated[
        int, typer.Option(min=1, help="Iterations of each training.")
    ] = N_ITERATIONS,
    out: Annotated[
        Path, typer.Option(file_okay=False, writable=True, help="Folder of the figure.")
    ] = Path("demo"),
) -> None:
    """Compare an MLP with Linear-Min-Max networks on Iris, as the paper does.

    Example: python -m experiments.demo --seed 3
    """
    make_folder(out)
    console, progress = Console(), Console(stderr=True)
    try:
        with announce_compilation(progress.print):
            compile_kernels(iterations)
        console.print(f"Iris, seed {seed}: three models, {iterations:,} iterations each\n")
        comparison = compare_on_iris(
            seed, iterations, lambda name: ProgressBar(name.ljust(10), progress)
        )
    except KeyboardInterrupt:
        typer.echo("Interrupted; nothing was saved.", err=True)
        raise typer.Exit(130) from None
    console.print(_table(comparison))
    console.print(_certificate(comparison))
    _draw(comparison, out / FIGURE, console)


def _table(comparison: IrisComparison) -> Table:
    """Return a table of the measured figures and those of the paper."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 0, 0, 1), pad_edge=False)
    table.add_column("\nmodel", no_wrap=True)
    for head in (
        "train\nmax loss",
        "\nmean loss",
        "\naccuracy",
        "test\nmax loss",
        "\nmean loss",
        "\naccuracy",
        "\nseconds",
    ):
        table.add_column(head, justify="right", no_wrap=True)
    for model in comparison.models:
        paper = PAPER[model.name]
        ours = [(e.max_loss, e.mean_loss, e.accuracy) for e in (model.train, model.test)]
        theirs = [paper.train, paper.test]
        table.add_row(model.name, *_cells(ours, model.seconds), style="bold")
        table.add_row("  the paper", *_cells(theirs, paper.seconds), style="dim", end_section=True)
    return table


def _cells(outcomes: Iterable[tuple[float, float, float]], seconds: float) -> list[str]:
    cells = [
        text
        for max_loss, mean_loss, accuracy in outcomes
        for text in (_loss(max_loss), _loss(mean_loss), f"{accuracy:.1%}")
    ]
    return [*cells, "" if math.isnan(seconds) else f"{seconds:.1f}"]


def _loss(value: float) -> str:
    """Format with three decimals, or in scientific notation below 0.0005."""
    return f"{value:.3f}" if value >= 0.0005 else f"{value:.0e}"


def _certificate(comparison: IrisComparison) -> str:
    """Return a sentence about the maximum training loss of LMM (max)."""
    flowers = comparison.lmm_max.train
    loss, n, right = flowers.max_loss, flowers.correct.size, int(flowers.correct.sum())
    if flowers.certified:
        return (
            f"[bold]The certificate holds[/]: LMM (max)'s largest training loss, {loss:.3f}, is "
            f"below log 2 = 0.693, which proves that all {n} training flowers are classified "
            "correctly."
        )
    return (
        f"[bold]The certificate does not hold[/]: LMM (max)'s largest training loss, {loss:.3f}, "
        f"is not below log 2 = 0.693; {right} of {n} training flowers are classified correctly."
    )


def _draw(comparison: IrisComparison, path: Path, console: Console) -> None:
    """Save the figure; without matplotlib, print a message."""
    try:
        figure = plot_comparison(comparison)
    except ImportError as error:
        console.print(f"No figure: {error}", markup=False, soft_wrap=True)
        return
    figure.savefig(path)
    console.print(f"Figure: {path}", markup=False, soft_wrap=True)


if __name__ == "__main__":
    app(prog_name="python -m experiments.demo")
