"""``maxplus bench``: how fast engines are on this machine."""

from __future__ import annotations

from typing import Annotated

import typer

from maxplus.cli._common import plain_errors

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

    from maxplus.training.engines import ENGINES as CLASSES

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
                table.add_row(name, *_measure(CLASSES[name], X, y, hidden, classes, seconds))
        console.print(f"{samples:,} samples, {features} features, {hidden} units, float32")
        console.print(table)


def _measure(engine, X, y, hidden: int, classes: int, seconds: float) -> list[str]:  # type: ignore[no-untyped-def]
    """Cells of one line: milliseconds per iteration in both phases, and the memory needed."""
    import numpy as np

    from maxplus.models.starts import choose_prototypes, prototype_lmm
    from maxplus.training import MaxLoss, Task, constant, paper_alpha, polyak
    from maxplus.training.memory import NotEnoughMemoryError, human_bytes

    chosen = choose_prototypes(y, hidden, np.random.default_rng(0))
    cells = []
    for rule in (polyak(), constant(paper_alpha(0.1, classes))):
        model = prototype_lmm(X[chosen], y[chosen], classes, 4.0, 4.0)
        task = Task(X, y, MaxLoss(), rule, linear_every=100)
        needed = human_bytes(engine.bytes_needed(model, task))
        try:
            cells.append(f"{1e3 * _seconds_per_iteration(engine(model, task), seconds):.3g}")
        except NotEnoughMemoryError:
            cells.append("–")
    return [*cells, needed]


def _seconds_per_iteration(engine, budget: float) -> float:  # type: ignore[no-untyped-def]
    import time

    from maxplus.training.result import Block

    engine.advance(Block(1))
    n, spent = 0, 0.0
    while spent < budget:
        block = Block(max(1, min(1000, 2 * n)))
        began = time.perf_counter()
        engine.advance(block)
        spent += time.perf_counter() - began
        n += block.n
        if block.signal:
            break
    return spent / max(n, 1)
