"""The command-line application."""

from __future__ import annotations

from typing import Annotated

import typer

from maxplus import __version__
from maxplus.cli._common import OneLineErrors, require_one_process
from maxplus.cli.certify import certify
from maxplus.cli.compare import compare
from maxplus.cli.compile import compile_kernels
from maxplus.cli.evaluate import evaluate
from maxplus.cli.explain import explain
from maxplus.cli.export import export
from maxplus.cli.predict import predict
from maxplus.cli.report import report
from maxplus.cli.rules import rules
from maxplus.cli.train import train

# Commands that can run on several MPI ranks.
OVER_RANKS = ("train", "predict")
app = typer.Typer(
    cls=OneLineErrors,
    help="Max-plus neural networks for tables: train, validate, explain and certify.",
    no_args_is_help=True,
    add_completion=False,
)
# In the usual order of use.
for command in (train, predict, evaluate, explain, rules, certify, report, compare, export):
    app.command()(command)
app.command("compile")(compile_kernels)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"maxplus {__version__}")
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Check that the command can run on several ranks, if there are several."""
    command = str(context.invoked_subcommand)
    if command not in OVER_RANKS:
        require_one_process(command)


def main() -> None:
    """Run the command line."""
    app(prog_name="maxplus")
