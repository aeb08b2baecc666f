"""Console output: text, JSON documents and progress bars."""

from __future__ import annotations

import ctypes
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from rich.console import Console as RichConsole
    from rich.text import Text

# Control characters other than tab and line feed.
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")

JsonOption = Annotated[
    bool,
    typer.Option(
        "--json", help="Print the result as one JSON document and nothing else; text by default."
    ),
]
QuietOption = Annotated[
    bool,
    typer.Option(
        "--quiet",
        "-q",
        help="Print only errors and, with --json, the JSON document. By default, messages and "
        "progress bars are printed as well.",
    ),
]


class Console:
    """Console that prints results to standard output and messages to standard error.

    Parameters
    ----------
    as_json : print results as JSON
    quiet : print nothing but errors and JSON
    """

    def __init__(self, as_json: bool = False, quiet: bool = False) -> None:
        self.as_json, self.quiet = as_json, quiet

    @property
    def rich(self) -> RichConsole:
        """Rich console for tables; silent with --json and --quiet."""
        return _rich_console(quiet=self.as_json or self.quiet)

    @property
    def stderr(self) -> RichConsole:
        """Rich console for progress bars."""
        return _rich_console(quiet=self.quiet, stderr=True)

    def print(self, text: str) -> None:
        """Print text to standard output, without control characters."""
        if not (self.as_json or self.quiet):
            typer.echo(printable(text))

    def remark(self, text: str) -> None:
        """Print a message to standard error."""
        if not self.quiet:
            typer.echo(printable(text), err=True)

    def result(self, document: dict[str, Any]) -> None:
        """Print a JSON document if --json is set."""
        if self.as_json:
            sys.stdout.write(as_json(document) + "\n")

    def busy(self, text: str) -> AbstractContextManager[Any]:
        """Show a spinner during work without a progress bar."""
        return self.stderr.status(text)

    @contextmanager
    def bar(self, total: int) -> Iterator[Callable[[str, int], None]]:
        """Show a progress bar; yield a function that sets its text and number of finished fits."""
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=self.stderr, transient=True) as bar:
            task = bar.add_task("", total=total)
            yield lambda text, done: bar.update(task, description=text, completed=done)


def as_json(document: Any) -> str:
    """Return indented JSON; NaN becomes null."""
    from maxplus.metrics import to_jsonable

    text = json.dumps(to_jsonable(document), ensure_ascii=False, indent=1, allow_nan=False)
    # json.dumps does not escape all control characters, and terminals interpret them.
    return CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def printable(text: str) -> str:
    """Remove control characters other than line breaks and tabs.

    Names of columns and classes are read from files and may contain terminal escape sequences.
    """
    return CONTROLS.sub("", text)


def _rich_console(*, quiet: bool, stderr: bool = False) -> RichConsole:
    """Return a Rich console that removes control characters."""
    from rich.console import Console as RichConsole

    class PrintableConsole(RichConsole):
        def render_str(self, text: str, **options: Any) -> Text:
            return super().render_str(printable(text), **options)

    return PrintableConsole(stderr=stderr, highlight=False, quiet=quiet)


@contextmanager
def native_output_discarded() -> Iterator[None]:
    """Discard output that compiled libraries write to file descriptor 1.

    Some solvers cannot be silenced otherwise. This is not thread-safe.
    """
    sys.stdout.flush()
    _flush_c()
    try:
        stdout_copy = os.dup(1)
    except OSError:  # Standard output is closed.
        yield
        return
    try:
        with open(os.devnull, "wb") as null:
            os.dup2(null.fileno(), 1)
        yield
    finally:
        _flush_c()
        os.dup2(stdout_copy, 1)
        os.close(stdout_copy)


def _flush_c() -> None:
    """Flush the buffers of the C standard library."""
    ctypes.CDLL("ucrtbase" if os.name == "nt" else None).fflush(None)
