"""``python -m experiments bench``: time per iteration of each engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from maxplus.cli._common import plain_errors
from maxplus.cli._console import Console as Output
from maxplus.cli._console import JsonOption, QuietOption

if TYPE_CHECKING:
    from numpy.typing import NDArray

ENGINES = ("dense", "tree", "sparse")


def bench(
    samples: Annotated[int, typer.Option(min=10, help="How many rows of random data.")] = 2_000,
    features: Annotated[int, typer.Option(min=1, help="How many features a row has.")] = 64,
    hidden: Annotated[int, typer.Option(min=2, help="How many hidden units.")] = 100,
    classes: Annotated[int, typer.Option(min=2, help="How many classes.")] = 10,
    seconds: Annotated[
        float, typer.Option(min=0.1, help="How long each engine is timed in each phase.")
    ] = 2.0,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Time an iteration of each engine on random data.

    Example: python -m experiments bench --samples 10000 --features 784 --hidden 500
    """
    import numpy as np

    from experiments.measure import machine_facts
    from maxplus.cli._text_tables import plain_table
    from maxplus.training.memory import human_bytes

    voice = Output(as_json, quiet)
    with plain_errors(quiet):
        rng = np.random.default_rng(0)
        X = rng.random((samples, features), np.float32)
        y = rng.integers(classes, size=samples)
        table = plain_table("engine", "Polyak steps, ms", "constant steps, ms", "memory")
        times: dict[str, Any] = {}
        for name in ENGINES:
            with voice.busy(f"{name} (compiles the first time)"):
                polyak, constant, needed = _measured(name, X, y, hidden, seconds)
            table.add_row(name, _cell(polyak), _cell(constant), human_bytes(needed))
            times[name] = {"polyak_ms": polyak, "constant_ms": constant, "bytes": needed}
        facts = machine_facts()
        console = voice.rich
        console.print(f"{samples:,} samples, {features} features, {hidden} units, float32")
        console.print(f"{facts['cpu']}, {facts['threads']} threads", style="dim", markup=False)
        console.print(table)
        voice.result({
            "samples": samples, "features": features, "hidden": hidden, "classes": classes,
            "engines": times, "machine": facts,
        })  # fmt: skip


def _measured(
    name: str, X: NDArray, y: NDArray, hidden: int, seconds: float
) -> tuple[float | None, float | None, int]:
    """Milliseconds per iteration in both phases, None without memory, and the bytes needed."""
    from experiments import measure, paper
    from maxplus.training import polyak
    from maxplus.training.engines import ENGINES as CLASSES
    from maxplus.training.memory import NotEnoughMemoryError

    times: list[float | None] = []
    for steps in (polyak(), paper.constant_steps(y)):
        model, problem = paper.start_and_problem(X, y, steps, hidden)
        needed = CLASSES[name].bytes_needed(model, problem)
        try:
            engine = CLASSES[name](model, problem)
        except NotEnoughMemoryError:
            times.append(None)
            continue
        measure.warm_up(engine)
        times.append(1e3 * measure.seconds_per_iteration(engine, seconds=seconds))
    return times[0], times[1], needed


def _cell(milliseconds: float | None) -> str:
    return "–" if milliseconds is None else f"{milliseconds:.3g}"
