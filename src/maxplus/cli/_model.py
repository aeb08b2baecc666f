"""Reading of models and of data for them; counts of unknown labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from maxplus.cli._console import Console
    from maxplus.tables import Dataset, TableEncoder

DEVIATIONS = "standard deviations of the training data"
RAW_UNITS = "raw units"


class Measure(NamedTuple):
    """The scale of certificates, where None is 1 for all features, and the name of its unit.

    ``held`` are the columns that are held fixed: categories and two-valued numbers.
    """

    scale: NDArray | None
    unit: str
    held: tuple[str, ...] = ()


def held_text(measure: Measure) -> str:
    """Return the end of a sentence about the columns that are held fixed."""
    if not measure.held:
        return ""
    shown = ", ".join(measure.held[:5]) + (", …" if len(measure.held) > 5 else "")
    return f"; categories and two-valued columns ({shown}) are held fixed"


@dataclass(frozen=True)
class LoadedModel:
    """A fitted estimator, and the encoder of its tables, if the file has one."""

    estimator: Any
    encoder: TableEncoder | None

    @property
    def is_classifier(self) -> bool:
        """True for a classifier, False for a regressor."""
        return hasattr(self.estimator, "classes_")

    @property
    def image_shape(self) -> tuple[int, int] | None:
        """(height, width) if the features are pixels."""
        return None if self.encoder is None else self.encoder.image_shape_

    @property
    def feature_names(self) -> list[str] | None:
        """Names of the features, if the file has them."""
        return None if self.encoder is None else self.encoder.feature_names

    def limits(self, data: Dataset) -> dict[str, Any]:
        """Return limits of counterfactuals in addition to the encoder's: the range of pixels."""
        if self.image_shape is None:
            return {}
        return {"low": float(data.X.min()), "high": float(data.X.max())}

    def measure(self, raw_units: bool, move_categories: bool = False) -> Measure:
        """Return the scale of certificates."""
        from maxplus.explain import Domain

        if self.encoder is None:
            why = "the model file has no standard deviations of the training data"
            return Measure(None, RAW_UNITS if raw_units else f"{RAW_UNITS} ({why})")
        if self.image_shape is not None:
            scale = self.encoder.ranges_.deviations
        else:
            scale = self.estimator.certificate_scale(categories=move_categories)
        held = tuple(Domain.of(self.encoder.domain()).held(scale))
        if not raw_units:
            return Measure(scale, DEVIATIONS, held)
        return Measure((scale > 0).astype(float) if held else None, RAW_UNITS, held)


def open_model(path: Path, *, classifier: bool = True) -> LoadedModel:
    """Read a model file; raise ValueError for other files and unsuitable models.

    With ``classifier=False``, a regressor is accepted, too.
    """
    from maxplus.io import load

    estimator = load(path)
    wanted = ["LMMClassifier", "LMMEnsembleClassifier"] + ["LMMRegressor"] * (not classifier)
    learned = hasattr(estimator, "residual_quantiles_")
    fits = hasattr(estimator, "certified_accuracy") or (not classifier and learned)
    if classifier and learned:
        raise ValueError(
            f"{path} predicts numbers, and this command is for classifiers; regressors support "
            "predict, evaluate, explain, report and export"
        )
    if not fits:
        raise ValueError(
            f"{path} holds a {type(estimator).__name__}; this command needs an "
            f"{' or '.join(wanted)}"
        )
    return LoadedModel(estimator, getattr(estimator, "encoder_", None))


def open_dataset(
    data: str, model: LoadedModel, *, labelled: bool, optional: bool = False, strict: bool = False
) -> Dataset:
    """Read and encode data for a model; with ``labelled``, labels are required unless optional."""
    from maxplus.tables import TableEncoder, load_dataset, load_training

    if model.encoder is not None:
        found = load_dataset(data, model.encoder, labelled=labelled, strict=strict)
    else:
        # Without an encoder, each column is a feature.
        found = load_training(data).encoded(TableEncoder())
    return _checked(found, data, model, labelled and not optional)


def stream_parts(
    data: str,
    model: LoadedModel,
    *,
    labelled: bool = False,
    strict: bool = False,
    also: tuple[str, ...] = (),
) -> Iterator[Dataset]:
    """Read and encode data for a model in parts, for tables larger than memory.

    ``also`` are names of further columns to read.
    """
    from maxplus import tables
    from maxplus.tables.csv_files import STDIN
    from maxplus.tables.dataset import prefetch

    if model.encoder is None:
        yield open_dataset(data, model, labelled=labelled)
        return
    parts = tables.stream_dataset(data, model.encoder, labelled=labelled, strict=strict, also=also)
    # A thread that reads standard input would block after Ctrl-C.
    for part in parts if data == STDIN else prefetch(parts):
        yield _checked(part, data, model, labelled)


def _checked(found: Dataset, data: str, model: LoadedModel, labelled: bool) -> Dataset:
    if found.X.shape[1] != model.estimator.model_.n_features:
        raise ValueError(
            f"{data} has {found.X.shape[1]} features, but the model needs "
            f"{model.estimator.model_.n_features}"
        )
    if labelled and found.y is None:
        raise ValueError(
            f"{data} has no column {found.target.name!r} with the true labels, which this "
            "command needs"
        )
    return found


class UnknownLabels:
    """Counts of rows whose label is not a class of the model, over all parts of a table.

    Parameters
    ----------
    model : the model
    data : the table's name, for messages
    strict : whether an unknown label is an error
    """

    def __init__(self, model: LoadedModel, data: str, *, strict: bool) -> None:
        self._model, self._data, self._strict = model, data, strict
        self.counts: Counter[str] = Counter()
        self.n_rows = 0

    @property
    def n_unknown(self) -> int:
        """Number of rows with an unknown label."""
        return self.counts.total()

    def known(self, data: Dataset) -> tuple[Dataset, NDArray]:
        """Return the rows with known labels and their codes; for a regression, all targets."""
        import numpy as np

        assert data.y is not None
        self.n_rows += len(data.y)
        if not self._model.is_classifier:
            return data, data.y
        labels, codes = _distinct_labels(data)
        classes = self._model.estimator.classes_
        place = {label: k for k, label in enumerate(classes.tolist())}
        # A column of digits is read as integers even if the labels were text in training.
        is_text = classes.dtype.kind == "U"
        known = np.array([place.get(str(label) if is_text else label, -1) for label in labels])
        is_known = known[codes] >= 0
        if not is_known.all():
            for code, n in zip(*np.unique(codes[~is_known], return_counts=True), strict=True):
                self.counts[str(labels[code])] += int(n)
            codes, data = codes[is_known], data.take(np.flatnonzero(is_known))
        return data, known[codes]

    def report(self, console: Console) -> None:
        """Report unknown labels in one line.

        Raises
        ------
        ValueError
            If no row has a known label; with ``strict``, if any row has an unknown label.
        """
        if not self.counts:
            return
        most = [f"{label!r} ({n:,})" for label, n in self.counts.most_common(10)]
        listed = ", ".join(most) + (", …" if len(self.counts) > len(most) else "")
        classes = ", ".join(map(str, self._model.estimator.classes_[:20]))
        message = (
            f"{self.n_unknown:,} of {self.n_rows:,} rows of {self._data} have labels that the "
            f"model does not know: {listed}; its classes are {classes}"
        )
        if self._strict or self.n_unknown == self.n_rows:
            raise ValueError(f"{message}; correct them, or train with such rows")
        console.remark(
            f"Warning: {message}. These rows are left out; to predict their labels, use maxplus "
            "train with such rows."
        )


def _distinct_labels(data: Dataset) -> tuple[Any, NDArray]:
    """Return the distinct labels, and the index of each row's label."""
    import numpy as np

    from maxplus.tables import Categorical

    cells = data.table.columns.get(data.target.name)
    if isinstance(cells, Categorical):
        return cells.values, cells.codes
    assert data.y is not None
    return np.unique(data.y, return_inverse=True)
