"""A model from a file, and data for it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from maxplus.cli._output import Voice
    from maxplus.distributed import Communicator
    from maxplus.tables import Preparation, Samples

DEVIATIONS = "standard deviations of the training data"
RAW_UNITS = "the features' own units"


class Measure(NamedTuple):
    """How far each feature moves for a change of 1, all by 1 if None, and what that is called.

    ``held`` are columns that do not move: words and two-valued numbers.
    """

    scale: NDArray | None
    unit: str
    held: tuple[str, ...] = ()


def held_words(measure: Measure) -> str:
    """Which columns do not move, as the end of a sentence."""
    if not measure.held:
        return ""
    shown = ", ".join(measure.held[:5]) + (", …" if len(measure.held) > 5 else "")
    return f"; categories and two-valued columns ({shown}) are held fixed"


@dataclass(frozen=True)
class Trained:
    """A fitted estimator, and how a table becomes its features, if the file knows."""

    estimator: Any
    preparation: Preparation | None

    @property
    def is_classifier(self) -> bool:
        """Whether it predicts classes, not numbers."""
        return hasattr(self.estimator, "classes_")

    @property
    def image_shape(self) -> tuple[int, int] | None:
        """Height and width, if the features are pixels."""
        return None if self.preparation is None else self.preparation.image_shape

    @property
    def feature_names(self) -> list[str] | None:
        """Words for the features, if the file has them."""
        return None if self.preparation is None else self.preparation.feature_names

    def limits(self, samples: Samples) -> dict[str, Any]:
        """Limits of flips other than the preparation's: pixels stay within those of the data."""
        if self.image_shape is None:
            return {}
        from maxplus.distributed import current

        low, high = float(samples.X.min(initial=math.inf)), float(samples.X.max(initial=-math.inf))
        comm = current()
        return {"low": -comm.largest(-low), "high": comm.largest(high)}

    def measure(self, raw_units: bool, move_categories: bool = False) -> Measure:
        """What a change of 1 means in certificates, and what stays as it is."""
        from maxplus.explain import Domain

        if self.preparation is None:
            why = "the model file has no deviations of its training data"
            return Measure(None, RAW_UNITS if raw_units else f"{RAW_UNITS} ({why})")
        if self.image_shape is not None:
            scale = self.preparation.deviations
        else:
            scale = self.estimator.certificate_scale(categories=move_categories)
        held = tuple(Domain.of(self.preparation.domain()).held(scale))
        if not raw_units:
            return Measure(scale, DEVIATIONS, held)
        return Measure((scale > 0).astype(float) if held else None, RAW_UNITS, held)


def open_model(path: Path, *, classifier: bool = True) -> Trained:
    """Read a model file; ValueError where it is none, or not what a command needs.

    Without ``classifier``, a regressor is welcome too.
    """
    from maxplus.io import load

    estimator = load(path)
    wanted = ["LMMClassifier", "LMMEnsembleClassifier"] + ["LMMRegressor"] * (not classifier)
    learned = hasattr(estimator, "residual_quantiles_")
    fits = hasattr(estimator, "certified_accuracy") or (not classifier and learned)
    if classifier and learned:
        raise ValueError(
            f"{path} predicts numbers, and this command is about classes; for numbers there are "
            "predict, evaluate, explain, report and export"
        )
    if not fits:
        raise ValueError(
            f"{path} holds a {type(estimator).__name__}; this command needs an "
            f"{' or '.join(wanted)}"
        )
    return Trained(estimator, getattr(estimator, "preparation_", None))


def open_samples(
    data: str, trained: Trained, *, labelled: bool, optional: bool = False, strict: bool = False
) -> Samples:
    """DATA for a model; with ``labelled``, its labels must be there, unless they are optional."""
    from maxplus.tables import EVERYTHING, ColumnChoices, open_source

    # A model that knows no columns takes all of them.
    samples = open_source(
        data, ColumnChoices(keep=[EVERYTHING]), preparation=trained.preparation,
        labelled=labelled, strict=strict,
    )  # fmt: skip
    return _checked(samples, data, trained, labelled and not optional)


def sample_blocks(
    data: str,
    trained: Trained,
    *,
    labelled: bool = False,
    strict: bool = False,
    also: tuple[str, ...] = (),
) -> Iterator[Samples]:
    """`open_samples` in parts, so that memory does not grow with the table.

    ``also`` names columns to be read beside those that the model needs.
    """
    from maxplus.tables import stream_source
    from maxplus.tables.ahead import ahead
    from maxplus.tables.bytes_of import STDIN

    if trained.preparation is None:
        yield open_samples(data, trained, labelled=labelled)
        return
    parts = stream_source(data, trained.preparation, labelled=labelled, strict=strict, also=also)
    # Who presses Ctrl-C would have to wait for what is typed, or never comes.
    for samples in parts if data == STDIN else ahead(parts):
        yield _checked(samples, data, trained, labelled)


def _checked(samples: Samples, data: str, trained: Trained, labelled: bool) -> Samples:
    if samples.X.shape[1] != trained.estimator.model_.n_features:
        raise ValueError(
            f"{data} has {samples.X.shape[1]} features, but the model needs "
            f"{trained.estimator.model_.n_features}"
        )
    if labelled and samples.y is None:
        raise ValueError(
            f"{data} has no column {samples.encoding.target!r} with the true labels, which this "
            "command needs"
        )
    return samples


class UnknownLabels:
    """Rows whose labels are no classes of the model, counted over all parts of a table.

    Parameters
    ----------
    trained : the model
    data : the table's name, for messages
    strict : whether an unknown label is an error
    """

    def __init__(self, trained: Trained, data: str, *, strict: bool) -> None:
        self._trained, self._data, self._strict = trained, data, strict
        self.counts: Counter[str] = Counter()
        self.n_rows = 0

    @property
    def n_unknown(self) -> int:
        """Rows with an unknown label."""
        return self.counts.total()

    def known(self, samples: Samples) -> tuple[Samples, NDArray]:
        """Return the rows with known labels, and the codes of these; numbers of a regression."""
        import numpy as np

        assert samples.y is not None
        self.n_rows += len(samples.y)
        if not self._trained.is_classifier:
            return samples, samples.y
        labels, codes = _different_labels(samples)
        classes = self._trained.estimator.classes_
        place = {label: k for k, label in enumerate(classes.tolist())}
        # A column of digits is read as integers, whatever the labels were at training.
        words = classes.dtype.kind == "U"
        places = np.array([place.get(str(label) if words else label, -1) for label in labels])
        is_known = places[codes] >= 0
        if not is_known.all():
            for code, n in zip(*np.unique(codes[~is_known], return_counts=True), strict=True):
                self.counts[str(labels[code])] += int(n)
            codes, samples = codes[is_known], samples.take(np.flatnonzero(is_known))
        return samples, places[codes]

    def settle(self, comm: Communicator, voice: Voice) -> None:
        """Count the rows of all ranks, and name unknown labels in one line.

        Raises
        ------
        ValueError
            If no row has a known label, or one has not and this is ``strict``.
        """
        from maxplus.distributed.communicator import mark_collective

        parts = comm.allgather((self.counts, self.n_rows))
        self.counts = sum((counts for counts, _ in parts), Counter())
        self.n_rows = sum(n_rows for _, n_rows in parts)
        if not self.counts:
            return
        most = [f"{label!r} ({n:,})" for label, n in self.counts.most_common(10)]
        listed = ", ".join(most) + (", …" if len(self.counts) > len(most) else "")
        classes = ", ".join(map(str, self._trained.estimator.classes_[:20]))
        message = (
            f"{self.n_unknown:,} of {self.n_rows:,} rows of {self._data} have labels that the "
            f"model does not know: {listed}; its classes are {classes}"
        )
        if self._strict or self.n_unknown == self.n_rows:
            raise mark_collective(ValueError(f"{message}; correct them, or train with such rows"))
        voice.remark(
            f"Warning: {message}. These rows are left out: no prediction can be right for them "
            "before maxplus train has seen such labels."
        )


def _different_labels(samples: Samples) -> tuple[Any, NDArray]:
    """The different labels of rows, and the place of each row's label among them."""
    import numpy as np

    from maxplus.tables.words import Words

    cells = samples.table.columns.get(samples.encoding.target)
    # Of words the different ones are known: looking at those is enough.
    if isinstance(cells, Words):
        return cells.values, cells.codes
    assert samples.y is not None
    return np.unique(samples.y, return_inverse=True)
