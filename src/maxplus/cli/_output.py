"""What a command says: to people, to programs, or nothing."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from rich.console import Console

JsonOption = Annotated[
    bool,
    typer.Option(
        "--json",
        help="Print the outcome as one JSON document, and nothing else there. By default "
        "it is told in words.",
    ),
]
QuietOption = Annotated[
    bool,
    typer.Option(
        "--quiet",
        "-q",
        help="Print nothing but what --json prints, and errors. By "
        "default remarks and bars are shown.",
    ),
]


class Voice:
    """Results go to standard output, in words or as JSON; bars and remarks to standard error.

    Parameters
    ----------
    as_json : --json
    quiet : --quiet
    """

    def __init__(self, as_json: bool = False, quiet: bool = False) -> None:
        self.as_json, self.quiet = as_json, quiet

    @property
    def console(self) -> Console:
        """For results in words; silent where they are not wanted."""
        from rich.console import Console

        return Console(highlight=False, quiet=self.as_json or self.quiet)

    @property
    def aside(self) -> Console:
        """For bars and remarks."""
        from rich.console import Console

        return Console(stderr=True, highlight=False, quiet=self.quiet)

    def say(self, text: str) -> None:
        """One line for people, as it is."""
        if not (self.as_json or self.quiet):
            typer.echo(text)

    def remark(self, text: str) -> None:
        """One line beside the results."""
        if not self.quiet:
            typer.echo(text, err=True)

    def result(self, document: dict[str, Any]) -> None:
        """The one JSON document, if it is wanted."""
        if self.as_json:
            sys.stdout.write(as_json(document) + "\n")

    def busy(self, text: str) -> AbstractContextManager[Any]:
        """A sign of life while something takes its time."""
        return self.aside.status(text)


def as_json(document: Any) -> str:
    """JSON as people read it; NaN, which it has not got, is null."""
    from maxplus.metrics import plain

    return json.dumps(plain(document), ensure_ascii=False, indent=1, allow_nan=False)
