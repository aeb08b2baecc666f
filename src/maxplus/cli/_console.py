"""Output of commands: text, JSON documents and progress bars."""

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

# All control characters but tab and line feed.
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
        help="Print only errors and what --json prints; text and progress bars by default.",
    ),
]


class Console:
    """Results on standard output, as text or JSON; bars and remarks on standard error.

    Parameters
    ----------
    as_json : --json
    quiet : --quiet
    """

    def __init__(self, as_json: bool = False, quiet: bool = False) -> None:
        self.as_json, self.quiet = as_json, quiet

    @property
    def rich(self) -> RichConsole:
        """Console for tables; silent with --json and --quiet."""
        return _rich_console(quiet=self.as_json or self.quiet)

    @property
    def stderr(self) -> RichConsole:
        """Console for bars."""
        return _rich_console(quiet=self.quiet, stderr=True)

    def print(self, text: str) -> None:
        """Print text to standard output, without control characters."""
        if not (self.as_json or self.quiet):
            typer.echo(printable(text))

    def remark(self, text: str) -> None:
        """Print a line to standard error."""
        if not self.quiet:
            typer.echo(printable(text), err=True)

    def result(self, document: dict[str, Any]) -> None:
        """Print the JSON document, with --json."""
        if self.as_json:
            sys.stdout.write(as_json(document) + "\n")

    def busy(self, text: str) -> AbstractContextManager[Any]:
        """Show a spinner during work without a progress bar."""
        return self.stderr.status(text)

    @contextmanager
    def bar(self, total: int) -> Iterator[Callable[[str, int], None]]:
        """Show a bar that counts trainings; yield a function of a text and the number done."""
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
    """Return indented JSON; NaN is null."""
    from maxplus.metrics import to_jsonable

    text = json.dumps(to_jsonable(document), ensure_ascii=False, indent=1, allow_nan=False)
    # json.dumps leaves some control characters unescaped, which terminals interpret.
    return CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def printable(text: str) -> str:
    """Remove control characters other than line breaks and tabs.

    Names of columns and classes come from files; terminals would interpret control characters.
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
    """Discard output of compiled libraries to file descriptor 1, which bypasses ``sys.stdout``.

    For solvers that cannot be silenced. Not thread-safe: only for commands, where no other thread
    prints.
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
    """Flush the buffers of C's standard streams."""
    ctypes.CDLL("ucrtbase" if os.name == "nt" else None).fflush(None)
