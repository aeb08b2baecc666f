"""What commands share: errors without tracebacks, models with their columns, arguments."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from maxplus.estimators import LMMClassifier
    from maxplus.tables import Encoding, Samples

BAD_INPUT = 2
INTERRUPTED = 130

DataArgument = Annotated[
    str,
    typer.Argument(
        metavar="DATA", help="A CSV, Parquet or NPZ file, or a built-in data set such as iris."
    ),
]
ModelArgument = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A model file that maxplus train has written.")
]


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
    """A model from a file, and how the columns of a table become its features."""

    classifier: LMMClassifier
    encoding: Encoding | None
    image_shape: tuple[int, int] | None

    @property
    def feature_names(self) -> list[str] | None:
        """Words for the features, if the file has them."""
        return None if self.encoding is None else self.encoding.feature_names

    def feature_range(self, samples: Samples) -> dict[str, Any]:
        """``low`` and ``high`` of what features can be: pixels stay within those of the data."""
        if self.image_shape is not None:
            return {"low": float(samples.X.min()), "high": float(samples.X.max())}
        if self.encoding is None:
            return {}
        low, high = self.encoding.feature_range
        return {"low": low, "high": high}


def open_model(path: Path) -> Trained:
    """Read a model file; ValueError where it is none, or not an LMM classifier's."""
    from maxplus.estimators import LMMClassifier
    from maxplus.io.models import load_with_notes
    from maxplus.tables import Encoding

    classifier, notes = load_with_notes(path)
    if not isinstance(classifier, LMMClassifier):
        raise ValueError(
            f"{path} holds a {type(classifier).__name__}; this command needs an LMMClassifier"
        )
    notes = notes if isinstance(notes, dict) else {}
    encoding = Encoding.from_json(notes["encoding"]) if "encoding" in notes else None
    if encoding is not None and len(encoding.feature_names) != classifier.n_features_in_:
        raise ValueError(f"{path} is damaged: its columns do not fit its model")
    shape = notes.get("image_shape")
    return Trained(classifier, encoding, None if shape is None else (int(shape[0]), int(shape[1])))


def open_samples(data: str, trained: Trained, *, labelled: bool) -> Samples:
    """DATA for a model; with ``labelled``, its labels must be there."""
    from maxplus.tables import open_source

    samples = open_source(data, encoding=trained.encoding)
    if samples.X.shape[1] != trained.classifier.n_features_in_:
        raise ValueError(
            f"{data} has {samples.X.shape[1]} features, but the model needs "
            f"{trained.classifier.n_features_in_}"
        )
    if labelled and samples.y is None:
        assert trained.encoding is not None
        raise ValueError(
            f"{data} has no column {trained.encoding.target!r} with the true labels, which this "
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
