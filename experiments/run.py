"""``python -m experiments NAME…``: run experiments and write their results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maxplus.cli._common import make_folder
from maxplus.cli._console import Console as Output
from maxplus.cli._console import JsonOption, QuietOption

if TYPE_CHECKING:
    from experiments import Experiment


def run(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME…|all|benchmarks]",
            help="Which experiments: names, all of the paper's, or all benchmarks; without any, "
            "they are listed.",
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option(help="Measure at a reduced scale, for a first look.")
    ] = False,
    seeds: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="How often what is random is repeated; each experiment has its own number by "
            "default.",
        ),
    ] = None,
    out: Annotated[
        Path,
        typer.Option(file_okay=False, writable=True, help="The folder to write all results to."),
    ] = Path("results"),
    resume: Annotated[
        bool, typer.Option(help="Keep parts that are finished for the same settings.")
    ] = False,
    list_only: Annotated[
        bool, typer.Option("--list", help="List all experiments and exit.")
    ] = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Measure the paper's experiments again; write tables, figures and a report.

    Example: python -m experiments iris init --quick --out results
    """
    from experiments import Settings
    from experiments.parts import Parts
    from experiments.write import is_finished, write_finding, write_report
    from maxplus.datasets import DamagedFileError, DataNotFoundError

    voice = Output(as_json, quiet)
    console = voice.rich
    if list_only or not names:
        _list(voice)
        return
    wanted = _wanted(names)
    make_folder(out)
    settings = Settings(
        quick=quick, seeds=seeds, track=partial(_track, voice), watch=partial(_watch, voice)
    )
    try:
        for experiment in wanted:
            experiment.require()
        for experiment in wanted:
            name = experiment.name
            if resume and is_finished(out / name, name, settings):
                console.print(f"{name}: finished before")
                continue
            parts = Parts(out / name / f"parts-{'quick' if quick else 'full'}-{seeds}")
            if not resume:
                parts.forget()
            finding = experiment.run(replace(settings, parts=parts))
            write_finding(out / name, name, finding, settings)
            parts.forget()
            # No markup: W[d, p] is not a style.
            console.print(finding.title, style="bold", markup=False)
            console.print(f"{finding.text}\n", markup=False)
    except KeyboardInterrupt:
        write_report(out)
        typer.echo("Interrupted; finished parts are kept: go on with --resume.", err=True)
        raise typer.Exit(130) from None
    except (DataNotFoundError, DamagedFileError, ImportError) as error:
        write_report(out)
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(2) from None
    write_report(out)
    console.print(f"Report: {out / 'REPORT.md'} and {out / 'report.html'}")
    voice.result({
        "out": str(out), "report": str(out / "report.html"),
        "records": {one.name: str(out / one.name / f"{one.name}.json") for one in wanted},
    })  # fmt: skip


def _list(voice: Output) -> None:
    """Names and summaries, the benchmarks under a heading of their own."""
    from experiments import BENCHMARKS, EXPERIMENTS

    console = voice.rich
    voice.result({
        what: {one.name: one.summary for one in group.values()}
        for what, group in (("all", EXPERIMENTS), ("benchmarks", BENCHMARKS))
    })  # fmt: skip
    for heading, group in (("all: the paper's", EXPERIMENTS), ("benchmarks", BENCHMARKS)):
        console.print(heading)
        for experiment in group.values():
            console.print(f"  [bold]{experiment.name:<14}[/] {experiment.summary}")


def _wanted(names: list[str]) -> list[Experiment]:
    """The experiments that names and groups stand for, each once."""
    from experiments import BENCHMARKS, EXPERIMENTS

    groups = {"all": list(EXPERIMENTS), "benchmarks": list(BENCHMARKS)}
    known = EXPERIMENTS | BENCHMARKS
    meant = list(dict.fromkeys(one for name in names for one in groups.get(name, [name])))
    unknown = [name for name in meant if name not in known]
    if unknown:
        raise typer.BadParameter(
            f"there is no experiment {', '.join(map(repr, unknown))}; "
            f"choose from {', '.join((*known, *groups))}",
            param_hint="NAME",
        )
    return [known[name] for name in meant]


def _track(voice: Output, items: Iterable[Any], text: str) -> Iterator[Any]:
    from rich.progress import track

    yield from track(list(items), text, transient=True, console=voice.stderr)


def _watch(voice: Output, name: str) -> AbstractContextManager[Any]:
    from maxplus.training.progress import ProgressBar

    return ProgressBar(name, voice.stderr)
