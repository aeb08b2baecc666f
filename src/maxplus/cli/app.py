"""Command-line application."""

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

# Commands that support MPI.
MPI_COMMANDS = ("train", "predict")
app = typer.Typer(
    cls=OneLineErrors,
    help="Max-plus neural networks for tables: train, validate, explain and certify.",
    no_args_is_help=True,
    add_completion=False,
)
# The help text lists the commands in this order.
for command in (train, predict, evaluate, explain, rules, certify, report, compare, export):
    app.command()(command)
app.command("compile")(compile_kernels)


def _show_version(is_set: bool) -> None:
    if is_set:
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
    """Fail if the command does not support MPI but runs on several ranks."""
    command = str(context.invoked_subcommand)
    if command not in MPI_COMMANDS:
        require_one_process(command)


def main() -> None:
    """Run the command-line interface."""
    app(prog_name="maxplus")
