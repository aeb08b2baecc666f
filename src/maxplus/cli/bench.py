"""``maxplus bench``: how fast engines are on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from maxplus.cli._common import plain_errors

if TYPE_CHECKING:
    from numpy.typing import NDArray

ENGINES = ("dense", "tree", "sparse")


def bench(
    samples: Annotated[int, typer.Option(min=10, help="Rows of random data.")] = 2_000,
    features: Annotated[int, typer.Option(min=1)] = 64,
    hidden: Annotated[int, typer.Option(min=2)] = 100,
    classes: Annotated[int, typer.Option(min=2)] = 10,
    seconds: Annotated[float, typer.Option(min=0.1, help="For each engine and phase.")] = 2.0,
) -> None:
    """Time an iteration of each engine on random data.

    Example: maxplus bench --samples 10000 --features 784 --hidden 500
    """
    import numpy as np
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from maxplus.lab.measure import machine_facts

    with plain_errors():
        console = Console(highlight=False)
        rng = np.random.default_rng(0)
        X = rng.random((samples, features), np.float32)
        y = rng.integers(classes, size=samples)
        table = Table(box=box.SIMPLE_HEAD)
        for head in ("engine", "Polyak steps, ms", "constant steps, ms", "memory"):
            table.add_column(head, justify="left" if head == "engine" else "right")
        for name in ENGINES:
            with console.status(f"{name} (compiles the first time)"):
                table.add_row(name, *_cells(name, X, y, hidden, seconds))
        facts = machine_facts()
        console.print(f"{samples:,} samples, {features} features, {hidden} units, float32")
        console.print(f"{facts['cpu']}, {facts['threads']} threads", style="dim", markup=False)
        console.print(table)


def _cells(name: str, X: NDArray, y: NDArray, hidden: int, seconds: float) -> list[str]:
    """Milliseconds per iteration in both phases, and the memory needed, of one engine."""
    from maxplus.lab import measure, paper
    from maxplus.training import polyak
    from maxplus.training.engines import ENGINES as CLASSES
    from maxplus.training.memory import NotEnoughMemoryError, human_bytes

    cells = []
    for steps in (polyak(), paper.constant_steps(y)):
        model, task = paper.start_and_task(X, y, steps, hidden)
        needed = human_bytes(CLASSES[name].bytes_needed(model, task))
        try:
            engine = CLASSES[name](model, task)
        except NotEnoughMemoryError:
            cells.append("–")
            continue
        measure.warm_up(engine)
        cells.append(f"{1e3 * measure.seconds_per_iteration(engine, seconds=seconds):.3g}")
    return [*cells, needed]
