"""Mistakes in options are told in one line, as all others are."""

from __future__ import annotations

import sys
from typing import Any

import typer
from typer.core import TyperGroup

from maxplus.cli._common import BAD_INPUT, INTERRUPTED
from maxplus.cli._output import printable

# What all errors about options are; typer has its own copy of it, or click's.
UsageError: Any = typer.BadParameter.__bases__[0]


class OneLineErrors(TyperGroup):
    """Commands without the box that typer draws around an error."""

    def main(self, args: Any = None, *, standalone_mode: bool = True, **extra: Any) -> Any:  # type: ignore[override]
        """Run a command; a mistake is a line and exit code 2."""
        if not standalone_mode:
            return super().main(args, standalone_mode=False, **extra)
        try:
            code = super().main(args, standalone_mode=False, **extra)
        except UsageError as error:
            code = _tell(error)
        except typer.Abort:
            code = INTERRUPTED
        sys.exit(code)


def _tell(error: Any) -> int:
    if type(error).show is not UsageError.show:
        error.show()  # No argument at all: what it shows is the help.
        return BAD_INPUT
    message = " ".join(error.format_message().split()).rstrip(".")
    where = "" if error.ctx is None else f"; see {error.ctx.command_path} --help"
    typer.echo(printable(f"Error: {message}{where}"), err=True)
    return BAD_INPUT
