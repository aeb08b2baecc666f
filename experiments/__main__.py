"""Command-line interface of the experiments."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track

from experiments.harness import BENCHMARKS, EXPERIMENTS, Cache, Experiment, Settings
from experiments.records import is_finished, write_report, write_result
from maxplus.datasets import DamagedFileError, DataNotFoundError

app = typer.Typer(add_completion=False)


@app.command()
def run(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME…|all|benchmarks]",
            help="Names of experiments, all (those of the paper) or benchmarks. Without a name, "
            "all experiments are listed.",
        ),
    ] = None,
    quick: Annotated[bool, typer.Option(help="Measure at a reduced scale.")] = False,
    out: Annotated[
        Path, typer.Option(file_okay=False, writable=True, help="Folder of all results.")
    ] = Path("results"),
    resume: Annotated[
        bool, typer.Option(help="Reuse finished parts of a run at the same scale.")
    ] = False,
) -> None:
    """Run experiments; write tables, figures and a report.

    Example: python -m experiments iris init --quick --out results
    """
    console, progress = Console(), Console(stderr=True)
    if not names:
        for heading, group in (("all", EXPERIMENTS), ("benchmarks", BENCHMARKS)):
            console.print(heading)
            for experiment in group.values():
                console.print(f"  [bold]{experiment.name:<14}[/] {experiment.summary}")
        return
    selected = _select(names)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise typer.BadParameter(
            f"the folder {out} cannot be created: {error.strerror}", param_hint="--out"
        ) from error
    settings = Settings(quick=quick, track=partial(track, transient=True, console=progress))
    try:
        for experiment in selected:
            experiment.require()
        for experiment in selected:
            name = experiment.name
            if resume and is_finished(out / name, name, settings):
                console.print(f"{name}: finished before")
                continue
            cache = Cache(out / name / f"parts-{'quick' if quick else 'full'}")
            if not resume:
                cache.clear()
            result = experiment.run(replace(settings, cache=cache))
            write_result(out / name, name, result, settings)
            cache.clear()
            # Disable markup, because brackets as in W[d, p] are not styles.
            console.print(result.title, style="bold", markup=False)
            console.print(f"{result.text}\n", markup=False)
    except KeyboardInterrupt:
        typer.echo("Interrupted; finished parts are kept: continue with --resume.", err=True)
        raise typer.Exit(130) from None
    except (DataNotFoundError, DamagedFileError, ImportError) as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(2) from None
    finally:
        write_report(out)
    console.print(f"Report: {out / 'REPORT.md'}")


def _select(names: list[str]) -> list[Experiment]:
    """Return the experiments with the given names or groups, without duplicates."""
    groups = {"all": list(EXPERIMENTS), "benchmarks": list(BENCHMARKS)}
    known = EXPERIMENTS | BENCHMARKS
    selected = list(dict.fromkeys(member for name in names for member in groups.get(name, [name])))
    unknown = [name for name in selected if name not in known]
    if unknown:
        raise typer.BadParameter(
            f"there is no experiment {', '.join(map(repr, unknown))}; "
            f"choose from {', '.join((*known, *groups))}",
            param_hint="NAME",
        )
    return [known[name] for name in selected]


if __name__ == "__main__":
    app(prog_name="python -m experiments")
