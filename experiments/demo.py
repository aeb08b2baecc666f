"""Demo of the Iris comparison: ``python -m experiments.demo``."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

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


def demo(out: Path, iterations: int = N_ITERATIONS) -> None:
    """Compare an MLP with Linear-Min-Max networks on Iris, as the paper does.

    The figure is written to the folder ``out``.
    """
    # Some settings of the paper have no effect in short runs.
    warnings.simplefilter("ignore", NoEffectWarning)
    console = Console()
    console.print(f"Iris, seed {TYPICAL_SEED}: three models, {iterations:,} iterations each\n")
    with announce_compilation(console.print):
        compile_kernels(iterations)
    models = compare_on_iris(TYPICAL_SEED, iterations)
    for side in SIDES:
        console.print(_table(models, side))
    console.print(_certificate(models[LMM_MAX]))
    out.mkdir(parents=True, exist_ok=True)
    plot_comparison(models).savefig(out / "iris.png")
    console.print(f"Figure: {out / 'iris.png'}", markup=False, soft_wrap=True)


def _table(models: dict[str, TrainedModel], side: str) -> Table:
    """Return a table of the paper's and the measured results."""
    found = table(side, {name: [model] for name, model in models.items()})
    # Narrow enough for terminals of 80 columns.
    style: dict[str, Any] = {"box": box.SIMPLE_HEAD, "pad_edge": False, "padding": 0}
    shown = Table(title=found.caption, title_justify="left", **style)
    for name in (*found.columns, "seconds"):
        is_model = name == "model"
        shown.add_column(name, justify="left" if is_model else "right", no_wrap=is_model)
    for row in found.rows:
        shown.add_row(*row, f"{models[row[0]].seconds:.1f}")
    return shown


def _certificate(model: TrainedModel) -> str:
    """Describe the certificate of LMM (max)."""
    loss, n_correct = model.train.max_loss, (model.train.labels == model.train.predicted).sum()
    holds, position = ("holds", "below") if loss < LOG2 else ("does not hold", "not below")
    return (
        f"[bold]The certificate {holds}[/]: the largest training loss of LMM (max), {loss:.3f}, is "
        f"{position} log 2 = 0.693. {n_correct} of {model.train.labels.size} training flowers are "
        "classified correctly."
    )


if __name__ == "__main__":
    demo(Path("demo"))
