"""``python -m experiments demo``: the paper's Iris comparison in seconds."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from maxplus.cli._common import make_folder
from maxplus.cli._console import Console as Output
from maxplus.cli._console import JsonOption, QuietOption

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from experiments.iris import IrisComparison

# Those of `compare_on_iris`, whose module is too heavy for `--help`; a test compares them.
SEED, ITERATIONS = 8, 50_000
FIGURE = "iris.png"


def demo(
    seed: Annotated[
        int, typer.Option(min=0, max=2**32 - 1, help="Decides the split and where training starts.")
    ] = SEED,
    iterations: Annotated[
        int, typer.Option(min=1, help="How many iterations each training has.")
    ] = ITERATIONS,
    out: Annotated[
        Path,
        typer.Option(file_okay=False, writable=True, help="The folder to write the figure to."),
    ] = Path("demo"),
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Compare an MLP with Linear-Min-Max networks on Iris, as the paper does.

    Example: python -m experiments demo --seed 3
    """
    # A folder that cannot be made should not cost anyone a training.
    make_folder(out)
    try:
        _run(seed, iterations, out, Output(as_json, quiet))
    except KeyboardInterrupt:
        typer.echo("Interrupted; nothing was saved.", err=True)
        raise typer.Exit(130) from None


def _run(seed: int, iterations: int, out: Path, voice: Output) -> None:
    from experiments.iris import compare_on_iris, compile_kernels
    from maxplus.training.monitor import announce_compilation
    from maxplus.training.progress import ProgressBar

    console = voice.rich
    with announce_compilation(voice.remark):
        compile_kernels(iterations)
    console.print(f"Iris, seed {seed}: three models, {iterations:,} iterations each\n")
    comparison = compare_on_iris(
        seed, iterations, lambda name: ProgressBar(name.ljust(10), voice.stderr)
    )
    console.print(_table(comparison))
    console.print(_certificate(comparison))
    drawn = _draw(comparison, out / FIGURE, console)
    voice.result({
        "seed": seed, "iterations": iterations, "figure": str(out / FIGURE) if drawn else None,
        "models": {model.name: model.values() for model in comparison.models},
    })  # fmt: skip


def _table(comparison: IrisComparison) -> Table:
    """Each model's figures and, dimmed below them, the paper's."""
    from rich import box
    from rich.table import Table

    from experiments.iris import PAPER

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 0, 0, 1), pad_edge=False)
    table.add_column("\nmodel", no_wrap=True)
    for head in (
        "train\nmax loss", "\nmean loss", "\nright", "test\nmax loss", "\nmean loss", "\nright",
        "\nseconds",
    ):  # fmt: skip
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
    """Three decimals, or a power of ten for what they would show as zero."""
    return f"{value:.3f}" if value >= 0.0005 else f"{value:.0e}"


def _certificate(comparison: IrisComparison) -> str:
    """Whether the LMM (max) is below log 2, in one sentence."""
    flowers = comparison.lmm_max.train
    loss, n, right = flowers.max_loss, flowers.correct.size, int(flowers.correct.sum())
    if flowers.certified:
        return (
            f"[bold]The certificate holds[/]: LMM (max)'s largest training loss, {loss:.3f}, is "
            f"below log 2 = 0.693, which proves that it gets all {n} training flowers right."
        )
    return (
        f"[bold]The certificate does not hold[/]: LMM (max)'s largest training loss, {loss:.3f}, "
        f"is not below log 2 = 0.693, which proves nothing; it gets {right} of {n} training "
        "flowers right."
    )


def _draw(comparison: IrisComparison, path: Path, console: Console) -> bool:
    """Save the figure, or say what it needs; whether it is there."""
    from maxplus.plots import plot_comparison

    try:
        figure = plot_comparison(
            comparison.lmm_max.loss_curve,
            comparison.models,
            comparison.n_classes,
            switch=comparison.switch,
            sample="flower",
        )
    except ImportError as error:
        console.print(f"No figure: {error}", markup=False, soft_wrap=True)
        return False
    figure.savefig(path)
    console.print(f"Figure: {path}", markup=False, soft_wrap=True)
    return True
