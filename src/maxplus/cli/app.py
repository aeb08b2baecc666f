"""Command-line application."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from maxplus import __version__
from maxplus.cli._console import BAD_INPUT, INTERRUPTED, print_error
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
# click's UsageError, which some versions of typer vendor.
UsageError: Any = typer.BadParameter.__bases__[0]


class OneLineErrors(TyperGroup):
    """Command group that prints usage errors on one line."""

    def main(self, args: Any = None, *, standalone_mode: bool = True, **extra: Any) -> Any:  # type: ignore[override]
        """Run a command; print usage errors on one line and exit with code 2."""
        if not standalone_mode:
            return super().main(args, standalone_mode=False, **extra)
        try:
            code = super().main(args, standalone_mode=False, **extra)
        except UsageError as error:
            _print_usage_error(error)
            code = BAD_INPUT
        except typer.Abort:
            code = INTERRUPTED
        sys.exit(code)


def _print_usage_error(error: Any) -> None:
    from maxplus.distributed.communicator import is_launched, launched_rank

    if type(error).show is not UsageError.show:
        error.show()  # Show the help of a command that was run without arguments.
    elif not is_launched() or launched_rank() == 0:
        message = " ".join(error.format_message().split()).rstrip(".")
        if error.ctx is not None:
            see = " See" if message.endswith("?") else "; see"
            message += f"{see} {error.ctx.command_path} --help"
        print_error(message)


def help_text(command: Callable[..., None]) -> str:
    """Return the docstring with each paragraph on one line, which is wrapped to the terminal."""
    paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


app = typer.Typer(
    cls=OneLineErrors,
    help="Max-plus neural networks for tables: train, validate, explain and certify.",
    no_args_is_help=True,
    add_completion=False,
)
# The help text lists the commands in this order.
for command in (train, predict, evaluate, explain, rules, certify, report, compare, export):
    app.command(help=help_text(command))(command)
app.command("compile", help=help_text(compile_kernels))(compile_kernels)


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
    from maxplus.distributed.communicator import is_launched, launched_rank

    command = context.invoked_subcommand
    if command not in MPI_COMMANDS and is_launched():
        if launched_rank() > 0:
            raise typer.Exit
        print_error(
            f"maxplus {command} runs in one process; start it without mpiexec (train and predict "
            "support several ranks)"
        )
        raise typer.Exit(BAD_INPUT)


def main() -> None:
    """Run the command-line interface."""
    app(prog_name="maxplus")
