"""``maxplus reproduce``: the paper's tables and figures, measured again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from maxplus.cli._common import make_folder


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME…|all]", help="Which experiments; without any, a list."),
    ] = None,
    quick: Annotated[bool, typer.Option(help="Reduced scale, for a first look.")] = False,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Random repetitions, where there are any.")
    ] = None,
    out: Annotated[
        Path, typer.Option(file_okay=False, writable=True, help="Folder for all results.")
    ] = Path("results"),
    resume: Annotated[
        bool, typer.Option(help="Keep parts that are finished for the same settings.")
    ] = False,
) -> None:
    """Measure the paper's experiments again; write tables, figures and a report.

    Example: maxplus reproduce iris init --quick --out results
    """
    from rich.console import Console

    from maxplus.datasets import DamagedFileError, DataNotFoundError
    from maxplus.reproduce import EXPERIMENTS, Settings
    from maxplus.reproduce.parts import Parts
    from maxplus.reproduce.write import is_finished, write_finding, write_report

    console = Console(highlight=False)
    if not names:
        for experiment in EXPERIMENTS.values():
            console.print(f"[bold]{experiment.name:<14}[/] {experiment.summary}")
        return
    wanted = list(EXPERIMENTS) if "all" in names else list(dict.fromkeys(names))
    unknown = [name for name in wanted if name not in EXPERIMENTS]
    if unknown:
        raise typer.BadParameter(
            f"there is no experiment {', '.join(map(repr, unknown))}; "
            f"choose from {', '.join(EXPERIMENTS)} or all",
            param_hint="NAME",
        )
    make_folder(out)
    settings = Settings(quick=quick, seeds=seeds, track=_track, watch=_watch)
    try:
        for name in wanted:
            if resume and is_finished(out / name, name, settings):
                console.print(f"{name}: finished before")
                continue
            parts = Parts(out / name / f"parts-{'quick' if quick else 'full'}-{seeds}")
            if not resume:
                parts.forget()
            finding = EXPERIMENTS[name].run(replace(settings, parts=parts))
            write_finding(out / name, name, finding, settings)
            parts.forget()
            console.print(f"[bold]{finding.title}[/] ({finding.seconds:.0f} s)\n{finding.text}\n")
    except KeyboardInterrupt:
        write_report(out)
        typer.echo("Interrupted; finished parts are kept: go on with --resume.", err=True)
        raise typer.Exit(130) from None
    except (DataNotFoundError, DamagedFileError) as error:
        write_report(out)
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(2) from None
    write_report(out)
    console.print(f"Report: {out / 'REPORT.md'} and {out / 'report.html'}")


def _track(items: Iterable[Any], text: str) -> Iterator[Any]:
    from rich.progress import track

    yield from track(list(items), text, transient=True)


def _watch(name: str) -> AbstractContextManager[Any]:
    from maxplus.training.progress import ProgressBar

    return ProgressBar(name)
