"""What the command line offers."""

from __future__ import annotations

from typing import Annotated

import typer

from maxplus import __version__
from maxplus.cli._one_line import OneLineErrors
from maxplus.cli._ranks import leave_to_first
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

# What several ranks share; of all else the first one takes care.
OVER_RANKS = ("train", "predict", "evaluate", "certify", "report")
app = typer.Typer(
    cls=OneLineErrors,
    help="Max-Plus neural networks, trained by exploiting the sparsity of their subgradients.",
    no_args_is_help=True,
    add_completion=False,
)
# In the order in which they are used.
for command in (train, compare, predict, evaluate, explain, rules, certify, report, export):
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
    """Options of the command itself."""
    if context.invoked_subcommand not in OVER_RANKS:
        leave_to_first()


def main() -> None:
    """Run the command line."""
    app(prog_name="maxplus")
