"""Shared command arguments, error handling and MPI support."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from maxplus.cli._console import printable

if TYPE_CHECKING:
    from maxplus.distributed import Communicator

BAD_INPUT = 2
INTERRUPTED = 130

DataArgument = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A CSV (optionally compressed), Excel, Parquet, NPZ or NPY file, a folder of "
        "Parquet files, - for standard input, or a built-in data set such as iris.",
    ),
]
ModelArgument = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A model file that maxplus train has written.")
]
RawUnitsOption = Annotated[
    bool,
    typer.Option(
        "--raw-units",
        help="Measure changes in the raw units of the features; by default in standard deviations "
        "of the training data.",
    ),
]
MoveCategoriesOption = Annotated[
    bool,
    typer.Option(
        "--move-categories",
        help="Also allow changes of one-hot encoded categories; by default they are held fixed.",
    ),
]
StrictOption = Annotated[
    bool,
    typer.Option(
        "--strict",
        help="Fail if a category is unknown; by default it is encoded as zeros, with a warning.",
    ),
]


@contextmanager
def plain_errors(quiet: bool = False, *, prints: bool = True) -> Iterator[None]:
    """Print user errors without a traceback and exit with code 2, or 130 after Ctrl-C.

    Unless ``quiet``, each distinct warning is printed once, and the compilation of kernels is
    announced. ``prints`` is True on the rank that prints warnings and errors that are raised on all
    ranks. If a single rank fails, all ranks are terminated (`maxplus.distributed.use_mpi`).
    """
    from maxplus.training.monitor import announce_compilation

    shown: set[str] = set()

    def show(message: Warning | str, *rest: object) -> None:
        if str(message) not in shown:
            shown.add(str(message))
            _print_to_stderr(f"Warning: {message}")

    try:
        silent = quiet or not prints
        with (
            warnings.catch_warnings(),
            announce_compilation(_discard if silent else _print_to_stderr),
        ):
            warnings.simplefilter("ignore" if silent else "always", UserWarning)
            warnings.showwarning = show  # type: ignore[assignment]
            yield
    except KeyboardInterrupt:
        typer.echo("Interrupted.", err=True)
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        # The process that reads the output, such as head, has closed the pipe.
        raise
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        remedy = _similar_file(error.filename) if isinstance(error, FileNotFoundError) else ""
        fail_on_all_ranks(error, prints, f"{where}{error.strerror or error}{remedy}")
    # These errors have messages intended for users.
    except (ValueError, TypeError, MemoryError, ImportError) as error:
        fail_on_all_ranks(error, prints)


def _print_to_stderr(text: str) -> None:
    typer.echo(printable(text), err=True)


def _similar_file(name: object) -> str:
    """Suggest an existing file with a similar name."""
    path = Path(str(name))
    folder = path.resolve().parent
    if not folder.is_dir():
        return f"; there is no folder {folder}"
    try:
        names = [file.name for file in folder.iterdir()]
    except OSError:
        names = []
    similar = get_close_matches(path.name, names, n=1)
    return f"; is it {path.with_name(similar[0])}?" if similar else f"; look for it in {folder}"


def _discard(text: str) -> None:
    pass


def fail_on_all_ranks(error: Exception, prints: bool, message: str | None = None) -> NoReturn:
    """Print an error that all ranks raised and exit; reraise an error of a single rank."""
    from maxplus.distributed import current

    if not current().raised_on_all_ranks(error):
        raise error
    if prints:
        fail(message or str(error))
    raise typer.Exit(BAD_INPUT)


def fail(message: str) -> NoReturn:
    """Print an error and exit with code 2."""
    typer.echo(printable(f"Error: {message}"), err=True)
    raise typer.Exit(BAD_INPUT)


def require_folder(path: Path, option: str) -> None:
    """Fail early if the folder of an output file does not exist."""
    if not path.resolve().parent.is_dir():
        fail(f"{option} {path}: the folder {path.resolve().parent} does not exist; make it first")
    if path.is_dir():
        fail(f"{option} {path} is a folder; name a file")


class OneLineErrors(TyperGroup):
    """Command group that prints usage errors on one line."""

    def main(self, args: Any = None, *, standalone_mode: bool = True, **extra: Any) -> Any:  # type: ignore[override]
        """Run a command; print usage errors on one line and exit with code 2."""
        if not standalone_mode:
            return super().main(args, standalone_mode=False, **extra)
        try:
            code = super().main(args, standalone_mode=False, **extra)
        except UsageError as error:
            code = _print_usage_error(error)
        except typer.Abort:
            code = INTERRUPTED
        sys.exit(code)


# click's UsageError, which some versions of typer vendor.
UsageError: Any = typer.BadParameter.__bases__[0]


def _print_usage_error(error: Any) -> int:
    if type(error).show is not UsageError.show:
        error.show()  # Show the help of a command that was run without arguments.
        return BAD_INPUT
    message = " ".join(error.format_message().split()).rstrip(".")
    where = "" if error.ctx is None else f"; see {error.ctx.command_path} --help"
    typer.echo(printable(f"Error: {message}{where}"), err=True)
    return BAD_INPUT


# -- MPI -------------------------------------------------------------------------------------------


@contextmanager
def all_ranks() -> Iterator[Communicator]:
    """Use the MPI communicator if the process was started by a launcher, else `SERIAL`."""
    from maxplus.distributed import SERIAL, use_mpi
    from maxplus.distributed.communicator import is_launched

    if not is_launched():
        yield SERIAL
        return
    exit_code: typer.Exit | None = None
    with use_mpi() as comm:
        try:
            yield comm
        except typer.Exit as error:
            # Exit after use_mpi has finished, so that it does not terminate the ranks.
            exit_code = error
    if exit_code is not None:
        raise exit_code


def require_one_process(command: str) -> None:
    """Fail on rank 0 and exit silently on other ranks if the process was started by a launcher."""
    from maxplus.distributed.communicator import is_launched, launched_rank

    if is_launched():
        if launched_rank() > 0:
            raise typer.Exit
        fail(
            f"maxplus {command} runs in one process; start it without mpiexec (train and predict "
            "run on several ranks)"
        )


def refuse_over_ranks(option: str, remedy: str) -> NoReturn:
    """Raise ValueError on all ranks for an option that needs a single process."""
    from maxplus.distributed.communicator import mark_collective

    raise mark_collective(ValueError(f"{option} is not supported on several MPI ranks; {remedy}"))
