"""Loading of models and their input data."""

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
    """Unit in which perturbations are measured.

    Attributes
    ----------
    scale : change of each feature for a perturbation of 1; None for 1 in all features
    unit : name of the unit
    held : columns that are held fixed (categorical and two-valued columns)
    """

    scale: NDArray | None
    unit: str
    held: tuple[str, ...] = ()


def held_text(measure: Measure) -> str:
    """Return a clause that lists the columns that are held fixed."""
    if not measure.held:
        return ""
    shown = ", ".join(measure.held[:5]) + (", …" if len(measure.held) > 5 else "")
    return f"; categories and two-valued columns ({shown}) are held fixed"


@dataclass(frozen=True)
class LoadedModel:
    """A fitted estimator and its encoder, if the model file contains one."""

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
        """Feature names, if the model file contains them."""
        return None if self.encoder is None else self.encoder.feature_names

    def limits(self, data: Dataset) -> dict[str, Any]:
        """Return the limits of pixel values in counterfactuals."""
        if self.image_shape is None:
            return {}
        return {"low": float(data.X.min()), "high": float(data.X.max())}

    def measure(self, raw_units: bool, move_categories: bool = False) -> Measure:
        """Return the unit in which perturbations are measured."""
        from maxplus.explain.domain import Domain, held_columns

        if self.encoder is None:
            reason = "the model file has no standard deviations of the training data"
            return Measure(None, RAW_UNITS if raw_units else f"{RAW_UNITS} ({reason})")
        if self.image_shape is not None:
            scale = self.encoder.ranges_.deviations
        else:
            scale = self.estimator.certificate_scale(categories=move_categories)
        held = tuple(held_columns(Domain.of(self.encoder.domain()).column_names, scale))
        if not raw_units:
            return Measure(scale, DEVIATIONS, held)
        return Measure((scale > 0).astype(float) if held else None, RAW_UNITS, held)


def open_model(path: Path, *, classifier: bool = True) -> LoadedModel:
    """Load a model; raise ValueError if the command does not support it.

    With ``classifier=False``, regressors are accepted as well.
    """
    from maxplus.io import load

    estimator = load(path)
    supported = ["LMMClassifier", "LMMEnsembleClassifier"] + ["LMMRegressor"] * (not classifier)
    is_regressor = hasattr(estimator, "residual_quantiles_")
    is_supported = hasattr(estimator, "certified_accuracy") or (not classifier and is_regressor)
    if classifier and is_regressor:
        raise ValueError(
            f"{path} predicts numbers, and this command is for classifiers; regressors support "
            "predict, evaluate, explain, report and export"
        )
    if not is_supported:
        raise ValueError(
            f"{path} holds a {type(estimator).__name__}; this command needs an "
            f"{' or '.join(supported)}"
        )
    return LoadedModel(estimator, getattr(estimator, "encoder_", None))


def open_dataset(
    data: str, model: LoadedModel, *, labelled: bool, optional: bool = False, strict: bool = False
) -> Dataset:
    """Read and encode data for a model.

    With ``labelled``, the labels are read as well. They are required unless ``optional`` is True.
    """
    from maxplus.tables import TableEncoder, load_dataset, load_training

    if model.encoder is not None:
        dataset = load_dataset(data, model.encoder, labelled=labelled, strict=strict)
    else:
        # Without an encoder, every column is a feature.
        dataset = load_training(data).encoded(TableEncoder())
    return _check_dataset(dataset, data, model, labelled and not optional)


def stream_parts(
    data: str,
    model: LoadedModel,
    *,
    labelled: bool = False,
    strict: bool = False,
    also: tuple[str, ...] = (),
) -> Iterator[Dataset]:
    """Read and encode data for a model in chunks, for tables larger than memory.

    ``also`` lists additional columns to read.
    """
    from maxplus import tables
    from maxplus.tables.csv_files import STDIN
    from maxplus.tables.dataset import prefetch

    if model.encoder is None:
        yield open_dataset(data, model, labelled=labelled)
        return
    parts = tables.stream_dataset(data, model.encoder, labelled=labelled, strict=strict, also=also)
    # A thread that reads standard input cannot be interrupted by Ctrl-C.
    for part in parts if data == STDIN else prefetch(parts):
        yield _check_dataset(part, data, model, labelled)


def _check_dataset(dataset: Dataset, data: str, model: LoadedModel, labelled: bool) -> Dataset:
    if dataset.X.shape[1] != model.estimator.model_.n_features:
        raise ValueError(
            f"{data} has {dataset.X.shape[1]} features, but the model needs "
            f"{model.estimator.model_.n_features}"
        )
    if labelled and dataset.y is None:
        raise ValueError(
            f"{data} has no column {dataset.target.name!r} with the true labels, which this "
            "command needs"
        )
    return dataset


class UnknownLabels:
    """Counter of rows whose label is not a class of the model.

    Parameters
    ----------
    model : the model
    data : name of the table, for messages
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
        """Return the rows with known labels and their class indices; all rows for a regressor."""
        import numpy as np

        assert data.y is not None
        self.n_rows += len(data.y)
        if not self._model.is_classifier:
            return data, data.y
        labels, codes = _distinct_labels(data)
        classes = self._model.estimator.classes_
        index = {label: k for k, label in enumerate(classes.tolist())}
        # Numeric labels are parsed as integers, even if the training labels were strings.
        is_text = classes.dtype.kind == "U"
        label_codes = np.array(
            [index.get(str(label) if is_text else label, -1) for label in labels]
        )
        is_known = label_codes[codes] >= 0
        if not is_known.all():
            for code, n in zip(*np.unique(codes[~is_known], return_counts=True), strict=True):
                self.counts[str(labels[code])] += int(n)
            codes, data = codes[is_known], data.take(np.flatnonzero(is_known))
        return data, label_codes[codes]

    def report(self, console: Console) -> None:
        """Print a warning about unknown labels.

        Raises
        ------
        ValueError
            If no row has a known label; with ``strict``, if any row has an unknown label.
        """
        if not self.counts:
            return
        most_common = [f"{label!r} ({n:,})" for label, n in self.counts.most_common(10)]
        listed = ", ".join(most_common) + (", …" if len(self.counts) > len(most_common) else "")
        classes = ", ".join(map(str, self._model.estimator.classes_[:20]))
        message = (
            f"{self.n_unknown:,} of {self.n_rows:,} rows of {self._data} have labels that the "
            f"model does not know: {listed}; its classes are {classes}"
        )
        if self._strict or self.n_unknown == self.n_rows:
            raise ValueError(f"{message}; correct them, or train with such rows")
        console.remark(
            f"Warning: {message}. These rows are left out; to predict their labels, run "
            "maxplus train on rows that have them."
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
