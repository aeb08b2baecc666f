"""Demo of the Iris comparison: ``python -m experiments.demo``."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from experiments.__main__ import make_folder
from experiments.comparison import SIDES
from experiments.iris import (
    N_ITERATIONS,
    TYPICAL_SEED,
    IrisComparison,
    compare_on_iris,
    compile_kernels,
    plot_comparison,
    table,
)
from maxplus.estimators import NoEffectWarning
from maxplus.models import LOG2
from maxplus.training.monitor import announce_compilation
from maxplus.training.progress import ProgressBar

FIGURE = "iris.png"
app = typer.Typer(add_completion=False)


@app.command()
def demo(
    seed: Annotated[
        int, typer.Option(min=0, max=2**32 - 1, help="Seed of the split and the initialisation.")
    ] = TYPICAL_SEED,
    iterations: Annotated[
        int, typer.Option(min=1, help="Number of iterations of each model.")
    ] = N_ITERATIONS,
    out: Annotated[
        Path, typer.Option(file_okay=False, writable=True, help="Folder of the figure.")
    ] = Path("demo"),
) -> None:
    """Compare an MLP with Linear-Min-Max networks on Iris, as the paper does.

    Example: python -m experiments.demo --seed 3
    """
    make_folder(out)
    # Some settings of the paper have no effect in short runs.
    warnings.simplefilter("ignore", NoEffectWarning)
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
    for side in SIDES:
        console.print(_table(comparison, side))
    console.print(_certificate(comparison))
    _draw(comparison, out / FIGURE, console)


def _table(comparison: IrisComparison, side: str) -> Table:
    """Return a table of the paper's and the measured results."""
    found = table(side, [comparison])
    # Narrow enough for terminals of 80 columns.
    style: dict[str, Any] = {"box": box.SIMPLE_HEAD, "pad_edge": False, "collapse_padding": True}
    shown = Table(title=found.caption, title_justify="left", **style)
    for name in (*found.columns, "seconds"):
        is_model = name == "model"
        shown.add_column(name, justify="left" if is_model else "right", no_wrap=is_model)
    for row in found.rows:
        seconds = comparison.models[row[0]].seconds
        shown.add_row(*map(str, row), f"{seconds:.1f}")
    return shown


def _certificate(comparison: IrisComparison) -> str:
    """Describe the certificate of LMM (max)."""
    evaluation = comparison.lmm_max.train
    loss, n, n_correct = evaluation.max_loss, evaluation.correct.size, int(evaluation.correct.sum())
    if loss < LOG2:
        return (
            f"[bold]The certificate holds[/]: LMM (max)'s largest training loss, {loss:.3f}, is "
            f"below log 2 = 0.693, which proves that all {n} training flowers are classified "
            "correctly."
        )
    return (
        f"[bold]The certificate does not hold[/]: LMM (max)'s largest training loss, {loss:.3f}, "
        f"is not below log 2 = 0.693; {n_correct} of {n} training flowers are classified correctly."
    )


def _draw(comparison: IrisComparison, path: Path, console: Console) -> None:
    """Save the figure, or print a message if Matplotlib is not installed."""
    try:
        figure = plot_comparison(comparison)
    except ImportError as error:
        console.print(f"No figure: {error}", markup=False, soft_wrap=True)
        return
    figure.savefig(path)
    console.print(f"Figure: {path}", markup=False, soft_wrap=True)


if __name__ == "__main__":
    app(prog_name="python -m experiments.demo")
