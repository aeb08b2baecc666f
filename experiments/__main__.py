"""Command line of the experiments: ``python -m experiments``, from the root of the repository."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from experiments.demo import demo
from maxplus.cli._common import make_folder
from maxplus.cli._one_line import OneLineErrors
from maxplus.cli._output import JsonOption, QuietOption, Voice
from maxplus.cli._ranks import leave_to_first

if TYPE_CHECKING:
    from experiments import Experiment

DEFAULT = "run"


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
    from experiments.harness import Cache, Settings
    from experiments.records import is_finished, write_report, write_result
    from maxplus.datasets import DamagedFileError, DataNotFoundError

    voice = Voice(as_json, quiet)
    console = voice.console
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
            cache = Cache(out / name / f"parts-{'quick' if quick else 'full'}-{seeds}")
            if not resume:
                cache.clear()
            result = experiment.run(replace(settings, cache=cache))
            write_result(out / name, name, result, settings)
            cache.clear()
            # No markup: W[d, p] is not a style.
            console.print(result.title, style="bold", markup=False)
            console.print(f"{result.text}\n", markup=False)
    except KeyboardInterrupt:
        write_report(out)
        typer.echo("Interrupted; finished parts are kept: go on with --resume.", err=True)
        raise typer.Exit(130) from None
    except (DataNotFoundError, DamagedFileError, ImportError) as error:
        write_report(out)
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(2) from None
    write_report(out)
    console.print(f"Report: {out / 'REPORT.md'}")
    voice.result(
        {
            "out": str(out),
            "report": str(out / "REPORT.md"),
            "records": {one.name: str(out / one.name / f"{one.name}.json") for one in wanted},
        }
    )


def _list(voice: Voice) -> None:
    """Print names and summaries, the benchmarks under a heading of their own."""
    from experiments import BENCHMARKS, EXPERIMENTS

    console = voice.console
    voice.result(
        {
            what: {one.name: one.summary for one in group.values()}
            for what, group in (("all", EXPERIMENTS), ("benchmarks", BENCHMARKS))
        }
    )
    for heading, group in (("all: the paper's", EXPERIMENTS), ("benchmarks", BENCHMARKS)):
        console.print(heading)
        for experiment in group.values():
            console.print(f"  [bold]{experiment.name:<14}[/] {experiment.summary}")


def _wanted(names: list[str]) -> list[Experiment]:
    """Return the experiments that names and groups stand for, each once."""
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


def _track(voice: Voice, items: Iterable[Any], text: str) -> Iterator[Any]:
    from rich.progress import track

    yield from track(list(items), text, transient=True, console=voice.aside)


def _watch(voice: Voice, name: str) -> AbstractContextManager[Any]:
    from maxplus.training.progress import ProgressBar

    return ProgressBar(name, voice.aside)


class DefaultCommand(OneLineErrors):
    """Commands of which ``run`` is the default: its name may be left out."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert the default command before names and options that are not of the group."""
        if not args or args[0] not in (*self.commands, "--help"):
            args = [DEFAULT, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=DefaultCommand,
    help="Experiments: `python -m experiments NAME…` is `python -m experiments run NAME…`.",
    add_completion=False,
)
for command in (run, demo):
    app.command()(command)


@app.callback()
def options() -> None:
    """Run on the first rank only."""
    leave_to_first()


def main() -> None:
    """Run the command line."""
    app(prog_name="python -m experiments")


if __name__ == "__main__":
    main()
