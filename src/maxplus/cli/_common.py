"""What commands share: errors without tracebacks, models with their columns, arguments."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from maxplus.estimators._lmm import BaseLMMClassifier
    from maxplus.tables import Preparation, Samples

BAD_INPUT = 2
INTERRUPTED = 130
DEVIATIONS = "standard deviations of the training data"
RAW_UNITS = "the features' own units"

DataArgument = Annotated[
    str,
    typer.Argument(
        metavar="DATA", help="A CSV, Parquet or NPZ file, or a built-in data set such as iris."
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


class Measure(NamedTuple):
    """How far each feature moves for a change of 1, all by 1 if None, and what that is called."""

    scale: NDArray | None
    unit: str


@contextmanager
def plain_errors() -> Iterator[None]:
    """Turn what a user can cause into one line and exit code 2; Ctrl-C into 130."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("Interrupted.", err=True)
        raise typer.Exit(INTERRUPTED) from None
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        fail(f"{where}{error.strerror or error}")
    # Everything that the library refuses is a ValueError, a TypeError, a MemoryError, or an
    # ImportError that names what to install; each message is written for users.
    except (ValueError, TypeError, MemoryError, ImportError) as error:
        fail(str(error))


def fail(message: str) -> None:
    """Say what is wrong and leave with exit code 2."""
    typer.echo(f"Error: {message}", err=True)
    raise typer.Exit(BAD_INPUT)


@dataclass(frozen=True)
class Trained:
    """A model from a file, and how a table becomes its features, if the file knows."""

    classifier: BaseLMMClassifier
    preparation: Preparation | None

    @property
    def image_shape(self) -> tuple[int, int] | None:
        """Height and width, if the features are pixels."""
        return None if self.preparation is None else self.preparation.image_shape

    @property
    def feature_names(self) -> list[str] | None:
        """Words for the features, if the file has them."""
        return None if self.preparation is None else self.preparation.feature_names

    def feature_range(self, samples: Samples) -> dict[str, Any]:
        """``low`` and ``high`` of what features can be, as far as the file tells."""
        if self.preparation is None:
            return {}
        return dict(zip(("low", "high"), self.preparation.feature_range(samples.X), strict=True))

    def measure(self, raw_units: bool) -> Measure:
        """What a change of 1 means in certificates."""
        if raw_units:
            return Measure(None, RAW_UNITS)
        if self.preparation is None:
            why = "the model file has no deviations of its training data"
            return Measure(None, f"{RAW_UNITS} ({why})")
        return Measure(self.preparation.deviations, DEVIATIONS)


def open_model(path: Path) -> Trained:
    """Read a model file; ValueError where it is none, or not an LMM classifier's."""
    from maxplus.estimators._lmm import BaseLMMClassifier
    from maxplus.io import load

    classifier = load(path)
    if not isinstance(classifier, BaseLMMClassifier):
        raise ValueError(
            f"{path} holds a {type(classifier).__name__}; this command needs an LMMClassifier"
        )
    return Trained(classifier, getattr(classifier, "preparation_", None))


def open_samples(data: str, trained: Trained, *, labelled: bool) -> Samples:
    """DATA for a model; with ``labelled``, its labels must be there."""
    from maxplus.tables import ColumnChoices, open_source

    # A model that knows no columns takes all of them.
    samples = open_source(
        data, ColumnChoices(keep=["*"]), preparation=trained.preparation, labelled=labelled
    )
    if samples.X.shape[1] != trained.classifier.n_features_in_:
        raise ValueError(
            f"{data} has {samples.X.shape[1]} features, but the model needs "
            f"{trained.classifier.n_features_in_}"
        )
    if labelled and samples.y is None:
        raise ValueError(
            f"{data} has no column {samples.encoding.target!r} with the true labels, which this "
            "command needs"
        )
    return samples


def labels_for(trained: Trained, samples: Samples, data: str) -> NDArray:
    """The true labels, as the model's classes; ValueError if one is not among them."""
    import numpy as np

    assert samples.y is not None
    classes = trained.classifier.classes_
    # A column of digits is read as integers, whatever the labels were at training.
    y: Any = samples.y.astype(str) if classes.dtype.kind == "U" else samples.y
    unknown = [str(label) for label in np.unique(y) if label not in classes]
    if unknown:
        raise ValueError(
            f"{data} has the label {unknown[0]!r}, which the model does not know; its classes are "
            f"{', '.join(map(str, classes[:20]))}"
        )
    return y


def make_folder(out: Path) -> None:
    """Make the folder for results, or say which option is at fault."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise typer.BadParameter(
            f"the folder {out} cannot be made: {error.strerror}", param_hint="--out"
        ) from error
