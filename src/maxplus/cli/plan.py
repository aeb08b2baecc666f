"""``maxplus plan``: what a training over ranks takes, before it is begun."""

from __future__ import annotations

from typing import Annotated

import typer

from maxplus.cli._common import plain_errors
from maxplus.cli._output import JsonOption, QuietOption, Voice

Count = float  # so that 1e8 can be written


def plan(
    rows: Annotated[
        Count,
        typer.Option(min=1, help="How many training rows all ranks have together, such as 1e8."),
    ],
    features: Annotated[int, typer.Option(min=1, help="How many features a row has.")],
    units: Annotated[
        int, typer.Option("--units", "-H", min=1, help="How many hidden units.")
    ] = 100,
    classes: Annotated[int, typer.Option(min=2, help="How many classes.")] = 10,
    ranks: Annotated[int, typer.Option(min=1, help="How many processes train together.")] = 1,
    threads: Annotated[int, typer.Option(min=1, help="How many threads each process has.")] = 1,
    machines: Annotated[
        int, typer.Option(min=1, help="Over how many machines they are spread.")
    ] = 1,
    memory: Annotated[
        float | None,
        typer.Option(help="How much memory a machine has, in GB; as this one by default."),
    ] = None,
    double: Annotated[
        bool, typer.Option("--double", help="Count data in float64; by default in float32.")
    ] = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Tell how much memory and time exact iterations over ranks take, and whether they fit.

    Example: maxplus plan --rows 1e8 --features 784 --units 500 --ranks 64 --machines 16
    """
    voice = Voice(as_json, quiet)
    with plain_errors(quiet):
        from maxplus.training.forecast import forecast
        from maxplus.training.memory import available_bytes, human_bytes

        found = forecast(
            round(rows), features, units, classes, ranks, threads=threads, machines=machines,
            dtype="float64" if double else "float32",
        )  # fmt: skip
        per_machine = -(-ranks // machines)
        needed = per_machine * found.memory
        there = available_bytes() if memory is None else round(1e9 * memory)
        fits = None if there is None else needed <= there
        voice.say(f"rows           {found.rows:,} for each of {ranks:,} ranks")
        voice.say(
            f"memory         {human_bytes(found.memory)} for each: {human_bytes(found.data)} of "
            f"data, {human_bytes(found.engine)} of the engine, {human_bytes(found.libraries)} of "
            "libraries"
        )
        voice.say(
            f"iteration      {_time(found.polyak)} (Polyak), {_time(found.constant)} (constant)"
        )
        if there is not None:
            more = -(-needed * machines // there)
            remedy = "" if fits else f"; take {more:,} machines, or fewer units"
            voice.say(
                f"{'fits' if fits else 'does not fit':<14} "
                f"{human_bytes(needed)} on each machine, which has {human_bytes(there)}{remedy}"
            )
        voice.result({
            **found._asdict(), "memory": found.memory, "memory_of_a_machine": needed,
            "available": there, "fits": fits,
        })  # fmt: skip


def _time(seconds: float) -> str:
    return f"{1e6 * seconds:.0f} µs" if seconds < 1e-3 else f"{1e3 * seconds:.3g} ms"
