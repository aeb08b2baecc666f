"""Output of commands: text, tables, JSON, warnings and errors."""

from __future__ import annotations

import ast
import json
import math
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console as RichConsole
    from rich.table import Table
    from rich.text import Text

    from maxplus.metrics import RegressionMetrics, RobustErrors

BAD_INPUT = 2
INTERRUPTED = 130
# Minimum similarity of the name of a file that is suggested for a missing file.
MIN_SIMILARITY = 0.75
# Maximum number of characters of a label in a table.
MAX_LABEL_LENGTH = 24
# Control characters other than tab and line feed.
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
# Parameters in messages of `maxplus.tables`, with or without a string or a list of one string.
PARAMETER = re.compile(
    r"`(categorical|numeric|drop|keep|missing|target|task|groups|strict|extra_columns)"
    r"""(?:=\[?('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")\]?)?`"""
)
# Parameters that messages of other packages do not put in backquotes.
UNMARKED_PARAMETER = re.compile(
    r"(?<![\w'-])(?:monotonic_cst|change_one_of|eps and scale)(?![\w'=])|^fixed(?=:)"
)
# Options whose name is not that of the parameter.
OPTION_NAMES = {
    "extra_columns": "--keep-columns",
    "missing": "--set missing",
    "monotonic_cst": "--increasing or --decreasing",
    "change_one_of": "--change-one-of",
    "eps and scale": "--eps",
}


class Console:
    """Console that prints results to standard output and messages to standard error.

    Errors and, with ``as_json``, the JSON document are printed even if ``quiet`` is True.
    """

    def __init__(self, as_json: bool = False, quiet: bool = False) -> None:
        self.as_json, self.quiet = as_json, quiet

    @property
    def rich(self) -> RichConsole:
        """Rich console for tables; silent with --json or --quiet."""
        return _rich_console(quiet=self.as_json or self.quiet)

    @property
    def stderr(self) -> RichConsole:
        """Rich console for progress bars."""
        return _rich_console(quiet=self.quiet, stderr=True)

    def print(self, text: str) -> None:
        """Print text to standard output, without control characters."""
        if not (self.as_json or self.quiet):
            typer.echo(printable(text))

    def print_message(self, text: str) -> None:
        """Print a message to standard error."""
        if not self.quiet:
            typer.echo(printable(with_options(text)), err=True)

    def print_json(self, document: dict[str, Any]) -> None:
        """Print an indented JSON document if --json is set; NaN becomes null."""
        if not self.as_json:
            return
        from maxplus.metrics import to_jsonable

        text = json.dumps(to_jsonable(document), ensure_ascii=False, indent=1, allow_nan=False)
        # json.dumps does not escape all control characters, and terminals interpret them.
        text = CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
        sys.stdout.write(text + "\n")

    @contextmanager
    def bar(self, total: int) -> Iterator[Callable[[str, int], None]]:
        """Show a progress bar; yield a function that sets its text and number of finished fits."""
        from rich.progress import Progress

        with Progress(console=self.stderr, transient=True) as bar:
            task = bar.add_task("", total=total)
            yield lambda text, done: bar.update(
                task, description=f"{text} {done}/{total}", completed=done
            )


def validated_with(description: str) -> str:
    """Return a phrase such as "Validated by 5-fold cross-validation"."""
    return f"Validated {'with' if 'held out' in description else 'by'} {description}"


def print_error(message: str) -> None:
    """Print an error message without control characters."""
    typer.echo(printable(f"Error: {with_options(message)}"), err=True)


def with_options(message: str) -> str:
    """Replace parameters in a message, such as `keep=['id']`, by options, such as --keep id."""

    def option_name(parameter: str) -> str:
        return OPTION_NAMES.get(parameter, f"--{parameter}")

    def option(match: re.Match[str]) -> str:
        name, value = match.groups()
        option = option_name(name)
        if value is None:
            return option
        value = ast.literal_eval(value)
        is_plain = re.fullmatch(r"[\w.-]+", value)
        return f"{option}{'=' if ' ' in option else ' '}" + (value if is_plain else f'"{value}"')

    message = UNMARKED_PARAMETER.sub(lambda match: option_name(match[0]), message)
    return PARAMETER.sub(option, message)


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
def open_console(as_json: bool, quiet: bool) -> Iterator[Console]:
    """Run a command: print warnings once, and user errors without a traceback.

    Exit with code 2 after an error and with 130 after Ctrl-C. If an MPI launcher started the
    process, use MPI and print on rank 0 only. If a single rank fails, all ranks are terminated
    (`maxplus.distributed.use_mpi`).
    """
    from maxplus.distributed import current, use_mpi
    from maxplus.distributed.communicator import is_launched, launched_rank

    code = None
    with ExitStack() as stack:
        if is_launched():
            try:
                stack.enter_context(use_mpi())
            except ImportError as error:
                if launched_rank() == 0:
                    print_error(str(error))
                raise typer.Exit(BAD_INPUT) from None
        is_root = current().is_root
        console = Console(as_json and is_root, quiet or not is_root)
        # Exit after use_mpi has finished, so that it does not terminate the ranks.
        try:
            with _print_warnings(console):
                yield console
        except typer.Exit as error:
            code = error.exit_code
        except KeyboardInterrupt:
            typer.echo("Interrupted.", err=True)
            code = INTERRUPTED
        except BrokenPipeError:
            # The process that reads the output, such as head, has closed the pipe.
            raise
        # These errors have messages intended for users.
        except (OSError, ValueError, TypeError, MemoryError, ImportError) as error:
            if not current().is_collective_error(error):
                raise
            if is_root:
                print_error(_error_message(error))
            code = BAD_INPUT
    if code is not None:
        raise typer.Exit(code)


@contextmanager
def _print_warnings(console: Console) -> Iterator[None]:
    """Print each distinct warning once, and announce the compilation of kernels."""
    from maxplus.training.monitor import announce_compilation

    printed: set[str] = set()

    def show(message: Warning | str, *rest: object) -> None:
        if str(message) not in printed:
            printed.add(str(message))
            console.print_message(f"Warning: {message}")

    with warnings.catch_warnings(), announce_compilation(console.print_message):
        warnings.simplefilter("ignore" if console.quiet else "always", UserWarning)
        warnings.showwarning = show  # type: ignore[assignment]
        yield


def _error_message(error: Exception) -> str:
    """Return the message of an error; for a missing file, with a suggestion."""
    if not isinstance(error, OSError) or error.filename is None:
        return str(error)
    remedy = _similar_file(error.filename) if isinstance(error, FileNotFoundError) else ""
    return f"{error.filename}: {error.strerror}{remedy}"


def _similar_file(name: object) -> str:
    """Suggest an existing file with a similar name."""
    path = Path(str(name))
    folder = path.resolve().parent
    if not folder.is_dir():
        return f"; the folder {folder} does not exist"
    try:
        names = [file.name for file in folder.iterdir()]
        similar = get_close_matches(path.name, names, n=1, cutoff=MIN_SIMILARITY)
    except OSError:
        similar = []
    if similar:
        return f"; did you mean {path.with_name(similar[0])}?"
    return f"; no file in the folder {folder} has a similar name"


# -- tables ----------------------------------------------------------------------------------------


def percent(share: float | None) -> str:
    """Format a share as a percentage with one decimal; NaN and None as a dash."""
    return "–" if share is None or math.isnan(share) else f"{share:.1%}".replace("%", " %")


def counted(n: int, noun: str) -> str:
    """Return a number and a noun, such as "1 row" or "1,200 rows"."""
    return f"{n:,} {noun}{'s' * (n != 1)}"


def number(value: float) -> str:
    """Format a number with four decimals; NaN as a dash."""
    return "–" if math.isnan(value) else f"{value:.4f}"


def label_cell(label: str) -> str:
    """Truncate a label to 24 characters and escape Rich markup."""
    from rich.markup import escape

    return escape(shorten(label))


def shorten(label: str) -> str:
    """Truncate a label to 24 characters."""
    return label if len(label) <= MAX_LABEL_LENGTH else label[: MAX_LABEL_LENGTH - 1] + "…"


def plain_table(*headers: str, title: str | None = None) -> Table:
    """Return an empty table; columns other than the first are right-aligned."""
    from rich import box
    from rich.table import Table

    table = Table(
        title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0)
    )
    for k, header in enumerate(headers):
        table.add_column(header, justify="right" if k else "left", no_wrap=k > 0)
    return table


def regression_rows(metrics: RegressionMetrics) -> list[tuple[str, str]]:
    """Return the names and values of the metrics of a regression."""
    from maxplus.metrics._formatting import format_number, format_with_error
    from maxplus.metrics._intervals import Z_95

    error = format_with_error(metrics.mae, Z_95 * metrics.mae_error)
    rows = [
        ("R²", number(metrics.r2)),
        ("mean absolute error, 95 % interval", error),
        ("root mean square error", format_number(metrics.rmse)),
    ]
    if not math.isnan(metrics.coverage):
        rows.append(("inside the 90 % interval", percent(metrics.coverage)))
    return rows


def robust_errors_table(errors: Mapping[str, RobustErrors]) -> Table:
    """Return a table of clean, attack and certified error rates by model."""
    table = plain_table(
        "error within robust_eps", "clean", "attack\n(at least)", "certified\n(at most)", "constant"
    )
    for name, rates in errors.items():
        cells = map(percent, (rates.clean, rates.attack, rates.certified, rates.constant))
        table.add_row(name, *cells)
    return table
