"""What a command says: to people, to programs, or nothing."""

from __future__ import annotations

import ctypes
import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from rich.console import Console
    from rich.text import Text

# All control characters but tab and line feed.
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")

JsonOption = Annotated[
    bool,
    typer.Option(
        "--json",
        help="Print the outcome as one JSON document and nothing else; by default it is told in "
        "words.",
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
        return _console(quiet=self.as_json or self.quiet)

    @property
    def aside(self) -> Console:
        """For bars and remarks."""
        return _console(quiet=self.quiet, stderr=True)

    def say(self, text: str) -> None:
        """Print text to standard output, without control characters."""
        if not (self.as_json or self.quiet):
            typer.echo(printable(text))

    def remark(self, text: str) -> None:
        """One line beside the results."""
        if not self.quiet:
            typer.echo(printable(text), err=True)

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

    text = json.dumps(plain(document), ensure_ascii=False, indent=1, allow_nan=False)
    # JSON leaves some control characters as they are, and terminals obey them.
    return CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def printable(text: str) -> str:
    """Return the text without control characters, but for line breaks and tabs.

    Names of columns and classes come from files; terminals would obey what is in them.
    """
    return CONTROLS.sub("", text)


def _console(*, quiet: bool, stderr: bool = False) -> Console:
    """Return a console that prints texts without control characters."""
    from rich.console import Console

    class PrintableConsole(Console):
        def render_str(self, text: str, **options: Any) -> Text:
            return super().render_str(printable(text), **options)

    return PrintableConsole(stderr=stderr, highlight=False, quiet=quiet)


@contextmanager
def native_output_discarded() -> Iterator[None]:
    """Discard what compiled libraries print to file descriptor 1, around Python's ``sys.stdout``.

    For calls that have no option for it, in commands, where no other thread prints.
    """
    sys.stdout.flush()
    _flush_c()
    try:
        saved = os.dup(1)
    except OSError:  # Standard output is closed.
        yield
        return
    try:
        with open(os.devnull, "wb") as sink:
            os.dup2(sink.fileno(), 1)
        yield
    finally:
        _flush_c()
        os.dup2(saved, 1)
        os.close(saved)


def _flush_c() -> None:
    """Write out the buffers of C's standard streams."""
    ctypes.CDLL("ucrtbase" if os.name == "nt" else None).fflush(None)
