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
from experiments.comparison import SIDES, TrainedModel
from experiments.iris import (
    LMM_MAX,
    N_ITERATIONS,
    TYPICAL_SEED,
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
        models = compare_on_iris(
            seed, iterations, lambda name: ProgressBar(name.ljust(10), progress)
        )
    except KeyboardInterrupt:
        typer.echo("Interrupted; nothing was saved.", err=True)
        raise typer.Exit(130) from None
    for side in SIDES:
        console.print(_table(models, side))
    console.print(_certificate(models[LMM_MAX]))
    try:
        figure = plot_comparison(models)
    except ImportError as error:
        console.print(f"No figure: {error}", markup=False, soft_wrap=True)
    else:
        figure.savefig(out / FIGURE)
        console.print(f"Figure: {out / FIGURE}", markup=False, soft_wrap=True)


def _table(models: dict[str, TrainedModel], side: str) -> Table:
    """Return a table of the paper's and the measured results."""
    found = table(side, {name: [model] for name, model in models.items()})
    # Narrow enough for terminals of 80 columns.
    style: dict[str, Any] = {"box": box.SIMPLE_HEAD, "pad_edge": False, "collapse_padding": True}
    shown = Table(title=found.caption, title_justify="left", **style)
    for name in (*found.columns, "seconds"):
        is_model = name == "model"
        shown.add_column(name, justify="left" if is_model else "right", no_wrap=is_model)
    for row in found.rows:
        shown.add_row(*row, f"{models[row[0]].seconds:.1f}")
    return shown


def _certificate(model: TrainedModel) -> str:
    """Describe the certificate of LMM (max)."""
    loss, is_correct = model.train.max_loss, model.train.labels == model.train.predicted
    if loss < LOG2:
        return (
            f"[bold]The certificate holds[/]: LMM (max)'s largest training loss, {loss:.3f}, is "
            f"below log 2 = 0.693, which proves that all {is_correct.size} training flowers are "
            "classified correctly."
        )
    return (
        f"[bold]The certificate does not hold[/]: LMM (max)'s largest training loss, {loss:.3f}, "
        f"is not below log 2 = 0.693; {is_correct.sum()} of {is_correct.size} training flowers are "
        "classified correctly."
    )


if __name__ == "__main__":
    app(prog_name="python -m experiments.demo")
