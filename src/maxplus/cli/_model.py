"""Loading of models and their input data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxplus.cli._console import counted

if TYPE_CHECKING:
    from maxplus.cli._console import Console
    from maxplus.tables import Dataset, TableEncoder

DEVIATIONS = "standard deviations of the training data"
RAW_UNITS = "raw units"


class Perturbation(NamedTuple):
    """Scale and unit of perturbations."""

    # Change of each feature for a perturbation of 1; None for 1 in all features.
    scale: NDArray | None
    unit: str
    # Columns that are held fixed (categorical and two-valued columns).
    held: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.held:
            return self.unit
        shown = ", ".join(self.held[:5]) + (", …" if len(self.held) > 5 else "")
        return f"{self.unit}; categories and two-valued columns ({shown}) are held fixed"


def perturbation_of(estimator: Any, raw_units: bool, move_categories: bool = False) -> Perturbation:
    """Return the scale and the unit of perturbations."""
    from maxplus.explain.domain import fixed_columns

    encoder = encoder_of(estimator)
    if encoder is None:
        reason = "the model file has no standard deviations of the training data"
        return Perturbation(None, RAW_UNITS if raw_units else f"{RAW_UNITS} ({reason})")
    if encoder.image_shape_ is not None:
        scale = encoder.ranges_.deviations
    else:
        scale = estimator.certificate_scale(categories=move_categories)
    held = tuple(fixed_columns(encoder.domain().column_names, scale))
    if not raw_units:
        return Perturbation(scale, DEVIATIONS, held)
    return Perturbation((scale > 0).astype(float) if held else None, RAW_UNITS, held)


def encoder_of(estimator: Any) -> TableEncoder | None:
    """Return the encoder of a fitted estimator, if the model file contains one."""
    return getattr(estimator, "encoder_", None)


def is_classifier(estimator: Any) -> bool:
    """Return whether a fitted estimator is a classifier."""
    return hasattr(estimator, "classes_")


def image_shape(estimator: Any) -> tuple[int, int] | None:
    """Return (height, width) if the features are pixels."""
    return getattr(encoder_of(estimator), "image_shape_", None)


def pixel_limits(estimator: Any, X: NDArray) -> dict[str, Any]:
    """Return the limits of pixel values in counterfactuals; none for tables."""
    if image_shape(estimator) is None:
        return {}
    return {"low": float(X.min()), "high": float(X.max())}


def open_model(path: Path, *, classifier: bool = True) -> Any:
    """Load a model: a classifier or, with ``classifier=False``, also a regressor."""
    from maxplus.io import load

    estimator = load(path)
    is_regressor = hasattr(estimator, "residual_quantiles_")
    if classifier and is_regressor:
        raise ValueError(
            f"{path} is a regressor, and this command is for classifiers; regressors support "
            "predict, evaluate, explain, report and export"
        )
    if not (is_regressor or hasattr(estimator, "certified_accuracy")):
        regressor = "" if classifier else "LMMRegressor, "
        raise ValueError(
            f"{path} contains a {type(estimator).__name__}; this command needs an LMMClassifier, "
            f"LMMEnsembleClassifier, {regressor}or SubgradientLMMClassifier"
        )
    return estimator


def open_dataset(
    data: str, estimator: Any, *, labelled: bool, optional: bool = False, strict: bool = False
) -> Dataset:
    """Read and encode data for a model.

    With ``labelled``, rows without a label are dropped, and a target column is required unless
    ``optional`` is True.
    """
    from maxplus.tables import TableEncoder, load_dataset, load_training

    encoder = encoder_of(estimator)
    if encoder is not None:
        dataset = load_dataset(data, encoder, labelled=labelled, strict=strict)
    else:
        # Without an encoder, every column but the target is a feature.
        dataset = load_training(data).encoded(TableEncoder())
    return _check_dataset(dataset, data, estimator, labelled and not optional)


def stream_parts(
    data: str,
    estimator: Any,
    *,
    labelled: bool = False,
    strict: bool = False,
    extra_columns: tuple[str, ...] = (),
) -> Iterator[Dataset]:
    """Read and encode data and ``extra_columns`` in chunks, for tables larger than memory."""
    from maxplus import tables
    from maxplus.tables.csv_files import STDIN
    from maxplus.tables.dataset import prefetch

    encoder = encoder_of(estimator)
    if encoder is None:
        yield open_dataset(data, estimator, labelled=labelled)
        return
    parts = tables.stream_dataset(
        data, encoder, labelled=labelled, strict=strict, extra_columns=extra_columns
    )
    # A thread that reads standard input cannot be interrupted by Ctrl-C.
    for part in parts if data == STDIN else prefetch(parts):
        yield _check_dataset(part, data, estimator, labelled)


def _check_dataset(dataset: Dataset, data: str, estimator: Any, labelled: bool) -> Dataset:
    n_features = estimator.model_.n_features
    n = dataset.X.shape[1]
    if n != n_features:
        raise ValueError(
            f"{data} has {counted(n, 'feature')} and the target {dataset.target.name!r}, but the "
            f"model needs {counted(n_features, 'feature')} and a target column"
        )
    if labelled and dataset.y is None:
        raise ValueError(
            f"{data} has no column {dataset.target.name!r} with the true labels, which this "
            "command needs"
        )
    return dataset


class UnknownLabels:
    """Counter of rows whose label is not a class of the model; an error if ``strict`` is True."""

    def __init__(self, estimator: Any, *, strict: bool) -> None:
        self._estimator, self.strict = estimator, strict
        self.counts: Counter[str] = Counter()
        # Name of the table, and number of its labelled rows.
        self.name, self.n_rows = "", 0

    @property
    def n_unknown(self) -> int:
        """Number of rows with an unknown label."""
        return self.counts.total()

    def select_known(self, data: Dataset) -> tuple[Dataset, NDArray]:
        """Return the rows with known labels and their class indices; all rows for a regressor."""
        from maxplus.tables import Categorical

        assert data.y is not None
        self.name = data.name
        self.n_rows += len(data.y)
        if not is_classifier(self._estimator):
            return data, data.y
        cells = data.table.columns.get(data.target.name)
        labels: Any
        if isinstance(cells, Categorical):
            labels, codes = cells.values, cells.codes
        else:
            labels, codes = np.unique(data.y, return_inverse=True)
        classes = self._estimator.classes_
        index = {label: k for k, label in enumerate(classes.tolist())}
        # Numeric labels are parsed as integers, even if the training labels were strings.
        is_text = classes.dtype.kind == "U"
        classes_of_labels = [index.get(str(label) if is_text else label, -1) for label in labels]
        class_index = np.array(classes_of_labels, np.intp)[codes]
        known = np.flatnonzero(class_index >= 0)
        if known.size < class_index.size:
            self.counts.update(str(labels[code]) for code in codes[class_index < 0])
            return data.take(known), class_index[known]
        return data, class_index

    def report(self, console: Console) -> None:
        """Print a warning about unknown labels; raise ValueError if all labels are unknown."""
        if not self.counts:
            return
        most_common = [f"{label!r} ({n:,})" for label, n in self.counts.most_common(10)]
        listed = ", ".join(most_common) + (", …" if len(self.counts) > len(most_common) else "")
        classes = ", ".join(map(str, self._estimator.classes_[:20]))
        if self.n_unknown == 1:
            have, these, them = "has a label that is not a class", "This row is", "it"
        else:
            have, these, them = "have labels that are not classes", "These rows are", "them"
        message = (
            f"{self.n_unknown:,} of {counted(self.n_rows, 'row')} of {self.name} "
            f"{have} of the model: {listed}; its classes are {classes}"
        )
        if self.strict or self.n_unknown == self.n_rows:
            raise ValueError(f"{message}; correct {them}, or train with such rows")
        console.print_message(
            f"Warning: {message}. {these} dropped; to predict such labels, run maxplus train on "
            "rows that have them."
        )


def labelled_arrays(
    data: str,
    estimator: Any,
    unknown: UnknownLabels,
    work: Callable[[Dataset, NDArray], dict[str, NDArray]],
) -> dict[str, NDArray]:
    """Return the concatenated results of ``work(rows, y)`` for all chunks of labelled rows.

    Only arrays that are returned for the last chunk are included.
    """
    chunks = []
    for part in stream_parts(data, estimator, labelled=True, strict=unknown.strict):
        rows, y = unknown.select_known(part)
        if len(y):
            chunks.append(work(rows, y))
    return {
        name: np.concatenate([chunk[name] for chunk in chunks])
        for name in (chunks[-1] if chunks else ())
    }
