"""What commands share: arguments, and errors without tracebacks."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from maxplus.cli._output import printable

BAD_INPUT = 2
INTERRUPTED = 130

DataArgument = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A CSV, Parquet, NPZ or NPY file (maybe packed), a folder of Parquet files, - for "
        "standard input, or a built-in data set such as iris.",
    ),
]
ModelArgument = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A model file that maxplus train has written.")
]
RawUnitsOption = Annotated[
    bool,
    typer.Option(
        "--raw-units",
        help="Count changes in the features' own units; by default in each feature's standard "
        "deviation in the training data.",
    ),
]
MoveCategoriesOption = Annotated[
    bool,
    typer.Option(
        "--move-categories",
        help="Let the 0/1 features of words move as well; by default categories are held fixed.",
    ),
]
StrictOption = Annotated[
    bool,
    typer.Option(
        "--strict",
        help="Refuse values that training has never seen; by default they are none of the known "
        "ones, and one warning counts them.",
    ),
]


@contextmanager
def plain_errors(quiet: bool = False, *, speaks: bool = True) -> Iterator[None]:
    """Turn what a user can cause into one line and exit code 2; Ctrl-C into 130.

    A warning is printed as one line, once for all folds and networks that give it, and so is the
    note that kernels are being compiled; nothing is printed if ``quiet``. Of ranks that fail with
    the same error one prints it (``speaks``); if a single rank fails, all are ended
    (`maxplus.distributed.use_mpi`).
    """
    from maxplus.training.monitor import announce_compilation

    told: set[str] = set()

    def tell(message: Warning | str, *rest: object) -> None:
        if str(message) not in told:
            told.add(str(message))
            _remark(f"Warning: {message}")

    try:
        silent = quiet or not speaks
        with warnings.catch_warnings(), announce_compilation(_nothing if silent else _remark):
            warnings.simplefilter("ignore" if silent else "always", UserWarning)
            warnings.showwarning = tell  # type: ignore[assignment]
            yield
    except KeyboardInterrupt:
        typer.echo("Interrupted.", err=True)
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        # Whoever read the output, as head does, has enough of it: no error of the user's.
        raise
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        remedy = _where_to_look(error.filename) if isinstance(error, FileNotFoundError) else ""
        fail_together(error, speaks, f"{where}{error.strerror or error}{remedy}")
    # Everything that the library refuses is a ValueError, a TypeError, a MemoryError, or an
    # ImportError that names what to install; each message is written for users.
    except (ValueError, TypeError, MemoryError, ImportError) as error:
        fail_together(error, speaks)


def _remark(text: str) -> None:
    typer.echo(printable(text), err=True)


def _where_to_look(name: object) -> str:
    """What may have been meant by a file that is not there."""
    path = Path(str(name))
    folder = path.resolve().parent
    if not folder.is_dir():
        return f"; there is no folder {folder}"
    try:
        beside = [file.name for file in folder.iterdir()]
    except OSError:
        beside = []
    alike = get_close_matches(path.name, beside, n=1)
    return f"; is it {path.with_name(alike[0])}?" if alike else f"; look for it in {folder}"


def _nothing(text: str) -> None:
    pass


def fail_together(error: Exception, speaks: bool, message: str | None = None) -> NoReturn:
    """`fail`, once: unless the error is this rank's alone, which ends the others too."""
    from maxplus.distributed import current

    if not current().raised_on_all_ranks(error):
        raise error
    if speaks:
        fail(message or str(error))
    raise typer.Exit(BAD_INPUT)


def fail(message: str) -> NoReturn:
    """Say what is wrong and leave with exit code 2."""
    typer.echo(printable(f"Error: {message}"), err=True)
    raise typer.Exit(BAD_INPUT)


def require_folder(path: Path, option: str) -> None:
    """A training should not be lost because its file cannot be written."""
    if not path.resolve().parent.is_dir():
        fail(f"{option} {path}: the folder {path.resolve().parent} does not exist; make it first")
    if path.is_dir():
        fail(f"{option} {path} is a folder; name a file")


def make_folder(out: Path) -> None:
    """Make the folder for results, or say which option is at fault."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise typer.BadParameter(
            f"the folder {out} cannot be made: {error.strerror}", param_hint="--out"
        ) from error
