"""Schema of model files: fitted attributes of each estimator, JSON records, labels, parameters.

`FITTED` lists for each estimator the fitted attributes that its file may hold, and when it must
hold them; `ATTRIBUTES` gives the type, the shape and the valid values of each.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxplus.estimators._intervals import COVERAGES
from maxplus.estimators._saving import PER_ROW
from maxplus.io.container import FileError
from maxplus.models import AdditiveLMM, Network
from maxplus.training import History, Status

# As much of the float range as all weights together may take: inputs may add an eighth.
LARGEST_WEIGHT = 1e-3
# Memory of all labels together: each string takes as much as the longest.
MAX_LABEL_BYTES = 64_000_000
# Kinds of NumPy types whose values JSON can hold: bools, integers, floats, strings.
_LABEL_KINDS = "biufU"

Check = Callable[[Any], bool]


# -- values of a JSON document ---------------------------------------------------


def require(value: Any, is_valid: Check, what: str) -> Any:
    """Return a value; FileError if it is not valid."""
    if not is_valid(value):
        raise FileError(f"{what} cannot be {value!r:.60}")
    return value


def is_dict(value: Any) -> bool:
    """Return whether it is a JSON object."""
    return isinstance(value, dict)


def is_words(value: Any, n: int) -> bool:
    """Return whether it is a list of n strings."""
    return isinstance(value, list) and len(value) == n and all(type(v) is str for v in value)


def _is_word(value: Any) -> bool:
    return isinstance(value, str)


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_positive_count(value: Any) -> bool:
    return _is_count(value) and value > 0


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def _is_share(value: Any) -> bool:
    return _is_number(value) and 0.0 <= value <= 1.0


def _is_size(value: Any) -> bool:
    return _is_number(value) and value >= 0.0


def _is_float(value: Any) -> bool:
    return isinstance(value, float)


def _is_status(value: Any) -> bool:
    return isinstance(value, str) and any(value == status.value for status in Status)


def _optional(check: Check) -> Check:
    """Return a check that also accepts None, which stands for figures that are not defined."""
    return lambda value: value is None or check(value)


def _list_of(check: Check) -> Check:
    return lambda value: isinstance(value, list) and all(map(check, value))


def _fields(checks: dict[str, Check]) -> Check:
    """Return a check for a dict that has at least these fields."""
    return lambda value: (
        isinstance(value, dict)
        and all(name in value and check(value[name]) for name, check in checks.items())
    )


def _are_rows(value: Any, n: int) -> bool:
    """Return whether it is n lists of floats, none of them NaN, of one length >= 1."""
    return (
        isinstance(value, list)
        and len(value) == n
        and all(isinstance(row, list) and 0 < len(row) == len(value[0]) for row in value)
        and all(isinstance(v, float) and not math.isnan(v) for row in value for v in row)
    )


# -- arrays ----------------------------------------------------------------------


def read_array(
    arrays: dict[str, NDArray],
    name: str,
    dtype: Any,
    n_axes: int = 1,
    shape: tuple[int, ...] | None = None,
) -> NDArray:
    """Return an array of a file; FileError unless it is there with this type and shape."""
    array = arrays.get(name)
    if array is None or array.dtype != dtype or array.ndim != n_axes:
        raise FileError(f"the array {name!r} is missing or of another type")
    if shape is not None and array.shape != shape:
        raise FileError(f"the array {name!r} has shape {array.shape} instead of {shape}")
    return array


def read_history(arrays: dict[str, NDArray]) -> History:
    """Return the history; FileError if its columns differ in length. Unknown samples are −1."""
    if "history.sample" not in arrays and "history.loss" in arrays:
        unknown = np.full(arrays["history.loss"].shape, -1, np.int64)
        arrays = {**arrays, "history.sample": unknown}
    columns = {
        name: read_array(arrays, f"history.{name}", dtype)
        for name, dtype in History.columns.items()
    }
    if len({len(column) for column in columns.values()}) > 1:
        raise FileError("the history's columns differ in length")
    return History.of(columns)


# Each function below returns what is wrong with an array, or an empty text.


def _nothing_wrong(array: NDArray, model: Network) -> str:
    return ""


def _counts_defect(array: NDArray, model: Network) -> str:
    return "has a number below 0" if (array < 0).any() else ""


def _scale_defect(array: NDArray, model: Network) -> str:
    is_valid = np.isfinite(array).all() and (array > 0).all()
    return "" if is_valid else "is not all positive and finite"


def _importances_defect(array: NDArray, model: Network) -> str:
    is_valid = (array >= 0).all() and array.sum() <= 1.0 + 1e-9
    return "" if is_valid else "does not hold shares that sum to 1"


def _term_means_defect(array: NDArray, model: Network) -> str:
    shape = (len(getattr(model, "terms", ())), model.n_classes)
    if array.shape != shape:
        return f"is not of shape {shape}"
    limit = LARGEST_WEIGHT * np.finfo(np.float64).max / shape[0]
    return "" if (np.abs(array) <= limit).all() else "is not finite or too large"


def _bounds_defect(array: NDArray, model: Network) -> str:
    is_valid = np.isfinite(array).all() and array[0] <= array[1]
    return "" if is_valid else "does not hold two finite numbers in order"


def _residuals_defect(array: NDArray, model: Network) -> str:
    is_valid = array.size and np.isfinite(array).all() and array[0] >= 0
    if is_valid and (np.diff(array) >= 0).all():
        return ""
    return "does not hold finite numbers >= 0 in order"


def _quantiles_defect(array: NDArray, model: Network) -> str:
    is_valid = array.shape == COVERAGES.shape and (array >= 0).all()
    if is_valid and (array[:-1] <= array[1:]).all():
        return ""
    return f"does not hold {COVERAGES.size} ascending numbers >= 0"


# -- fitted attributes -----------------------------------------------------------


@dataclass(frozen=True)
class Value:
    """A fitted attribute that is a value of the JSON document."""

    is_valid: Check


@dataclass(frozen=True)
class Array:
    """A fitted attribute that is an array of the file, under its name without the last "_".

    Axes are H hidden units, P features, a number, or any other letter for any length. None for the
    type stands for the float type of the model.
    """

    dtype: type | None
    axes: str
    defect: Callable[[NDArray, Network], str] = _nothing_wrong

    def read(self, arrays: dict[str, NDArray], name: str, model: Network) -> NDArray:
        """Return the array; FileError if it cannot be a fitted attribute of this model."""
        sizes = {"H": getattr(model, "n_hidden", 0), "P": model.n_features, "2": 2}
        axes = self.axes.split()
        shape = tuple(sizes[axis] for axis in axes) if {*axes} <= {*sizes} else None
        array = read_array(arrays, name, self.dtype or model.dtype, len(axes), shape)
        defect = self.defect(array, model)
        if defect:
            raise FileError(f"the array {name!r} {defect}")
        return array


_LOSSES = Array(np.float64, "n")
ATTRIBUTES: dict[str, Value | Array] = {
    "n_iter_": Value(_is_count),
    "status_": Value(_is_status),
    "max_loss_": Value(_is_float),
    "mean_loss_": Value(_is_float),
    "slope_": Value(lambda v: _is_float(v) and 0.0 <= v < math.inf),
    "temperature_": Value(lambda v: _is_float(v) and 0.0 < v < math.inf),
    "lipschitz_": Value(lambda v: _is_float(v) and v >= 0.0),
    "interpolates_": Value(lambda v: isinstance(v, bool)),
    "prototypes_": Array(np.int64, "H", _counts_defect),
    "unit_wins_": Array(np.int64, "H", _counts_defect),
    "suspects_": Array(np.int64, "n", _counts_defect),
    "training_rows_": Array(np.int64, "n", _counts_defect),
    "warmup_losses_": _LOSSES,
    "validation_scores_": _LOSSES,
    "polish_losses_": _LOSSES,
    "curve_losses_": _LOSSES,
    "residuals_": Array(np.float64, "n", _residuals_defect),
    "residual_quantiles_": Array(np.float64, "n", _quantiles_defect),
    "scale_": Array(np.float64, "P", _scale_defect),
    "feature_importances_": Array(np.float64, "P", _importances_defect),
    "term_means_": Array(np.float64, "T C", _term_means_defect),
    "bounds_": Array(None, "2", _bounds_defect),
}


def is_sum(estimator: Any) -> bool:
    """Return whether the model of an estimator is a sum of terms."""
    return isinstance(estimator.model_, AdditiveLMM)


def _always(estimator: Any) -> bool:
    return True


def _sometimes(estimator: Any) -> bool:
    return False


def _is_single(estimator: Any) -> bool:
    return not is_sum(estimator)


def _interpolates(estimator: Any) -> bool:
    return hasattr(estimator, "interpolates_")


def _is_trained(estimator: Any) -> bool:
    return not _interpolates(estimator)


# Which fitted attributes an estimator may have, each with the condition that it must have it.
Table = dict[str, Callable[[Any], bool]]
_CLASSIFIER: Table = {
    "n_iter_": _always,
    "status_": _always,
    "max_loss_": _always,
    "mean_loss_": _always,
    "training_rows_": _sometimes,
}
_NETWORK: Table = {
    **_CLASSIFIER,
    "slope_": _is_single,
    "scale_": _always,
    "unit_wins_": _always,
    "feature_importances_": _always,
    "prototypes_": _sometimes,
    "suspects_": _sometimes,
}
_LMM: Table = {
    **_NETWORK,
    "temperature_": _always,
    "term_means_": is_sum,
    "warmup_losses_": _sometimes,
    "validation_scores_": _sometimes,
    "polish_losses_": _sometimes,
}
_REGRESSOR: Table = {
    "n_iter_": _is_trained,
    "status_": _is_trained,
    "residual_quantiles_": _is_trained,
    "bounds_": is_sum,
    "slope_": _is_single,
    "lipschitz_": _interpolates,
    "interpolates_": _sometimes,
    "prototypes_": _sometimes,
    "term_means_": _sometimes,
    "feature_importances_": _sometimes,
    "curve_losses_": _sometimes,
    "residuals_": _sometimes,
    "training_rows_": _sometimes,
}
FITTED: dict[str, Table] = {
    "LMMClassifier": _LMM,
    "LMMEnsembleClassifier": _LMM,
    "LMMRegressor": _REGRESSOR,
    "LinearMaxPlusClassifier": _CLASSIFIER,
    "MaxPlusClassifier": _CLASSIFIER,
    "SubgradientLMMClassifier": _NETWORK,
}


def write_attributes(
    estimator: Any, remember_rows: bool
) -> tuple[dict[str, Any], dict[str, NDArray]]:
    """Return the fitted attributes of an estimator that a file holds: values and arrays."""
    facts: dict[str, Any] = {}
    arrays: dict[str, NDArray] = {}
    for name in FITTED[type(estimator).__name__]:
        if not hasattr(estimator, name) or (name in PER_ROW and not remember_rows):
            continue
        own, value = ATTRIBUTES[name], getattr(estimator, name)
        if isinstance(own, Array):
            arrays[name.removesuffix("_")] = np.asarray(value, own.dtype or estimator.model_.dtype)
        else:
            facts[name] = value.item() if isinstance(value, np.generic) else value
    return facts, arrays


def read_attributes(estimator: Any, facts: Any, arrays: dict[str, NDArray]) -> None:
    """Set the fitted attributes that a file holds; FileError if one is wrong or missing."""
    table = FITTED[type(estimator).__name__]
    for name, value in require(facts, is_dict, "the facts").items():
        own = ATTRIBUTES[name] if name in table else None
        if not isinstance(own, Value):
            raise FileError(f"{type(estimator).__name__} has no fact {name!r:.40}")
        setattr(estimator, name, require(value, own.is_valid, f"the fact {name!r}"))
    for name in table:
        own, key = ATTRIBUTES[name], name.removesuffix("_")
        if isinstance(own, Array) and key in arrays:
            setattr(estimator, name, own.read(arrays, key, estimator.model_))
    for name, is_needed in table.items():
        if is_needed(estimator) and not hasattr(estimator, name):
            raise FileError(f"its {name} is missing")


# -- records of a JSON document --------------------------------------------------

# Counts and means of the training rows, of a classifier and of a regressor.
CLASS_SUMMARY: dict[str, Check] = {
    "n_rows": _is_count,
    "class_counts": _list_of(_is_count),
    "n_below_log2": _is_count,
    "mean_loss": lambda v: _is_float(v) and v >= 0,
}
TARGET_SUMMARY: dict[str, Check] = {
    "n_rows": _is_count,
    "mean": lambda v: _is_float(v) and math.isfinite(v),
    "deviation": CLASS_SUMMARY["mean_loss"],
}


def check_training_summary(record: Any, checks: dict[str, Check]) -> dict[str, Any]:
    """Return counts and means of the training rows; FileError if they are not valid."""
    what = "the summary of the training"
    require(record, lambda v: isinstance(v, dict) and {*v} == {*checks}, what)
    for name, is_valid in checks.items():
        require(record[name], is_valid, f"{name!r} in {what}")
    return record


def check_search(record: Any) -> dict[str, Any]:
    """Return the candidates tried before a training; FileError if they are not valid."""
    names = {"candidates", "losses", "chosen"}

    def has_names(value: Any) -> bool:
        return isinstance(value, dict) and names <= {*value} <= {*names, "scores"}

    require(record, has_names, "what was searched")
    K = len(record["candidates"]) if isinstance(record["candidates"], list) else 0
    require(record["candidates"], lambda v: K > 0 and is_words(v, K), "the candidates")
    require(record["chosen"], lambda v: type(v) is int and 0 <= v < K, "the chosen candidate")
    tables = {"candidates": np.array(record["candidates"])}
    for name in ("losses", "scores"):
        if name in record:
            rows = require(record[name], lambda v: _are_rows(v, K), f"the {name} of candidates")
            tables[name] = np.array(rows, np.float64)
    return {**record, **tables}


_share, _size = _optional(_is_share), _optional(_is_size)
_GENERAL: dict[str, Check] = {
    "how": _is_word,
    "rows_never_held_out": _is_count,
    "seconds": _is_size,
    "figures": is_dict,
    "guess": is_dict,
}
_CLASS: dict[str, Check] = {
    "label": _is_word,
    "n_rows": _is_count,
    "n_predicted": _is_count,
    "precision": _share,
    "recall": _share,
    "f1": _share,
    "auc": _share,
}
_CLASSIFICATION: dict[str, Check] = {
    "n_rows": _is_positive_count,
    "accuracy": _is_share,
    "accuracy_error": _is_size,
    "balanced_accuracy": _share,
    "macro_f1": _share,
    "log_loss": _size,
    "auc": _share,
    "calibration_error": _share,
    "max_loss": _size,
    "worst": _optional(_is_positive_count),
    "classes": _list_of(_fields(_CLASS)),
    "confusion": _list_of(_list_of(_is_count)),
}
_CLASSIFICATION_BASELINE: dict[str, Check] = {
    "accuracy": _is_share,
    "balanced_accuracy": _share,
    "log_loss": _size,
    "label": _is_word,
}
_REGRESSION: dict[str, Check] = {
    "n_rows": _is_positive_count,
    "r2": _optional(_is_number),
    "mae": _is_size,
    "mae_error": _is_size,
    "rmse": _is_size,
    "covered": _share,
    "width": _size,
}
_REGRESSION_BASELINE: dict[str, Check] = {"mae": _is_size, "rmse": _is_size}
_ROW: dict[str, Check] = {
    "row": _is_positive_count,
    "label": _is_word,
    "predicted": _is_word,
    "probability": _is_share,
    "own_probability": _is_share,
}
_RELIABILITY: dict[str, Check] = {
    "count": _list_of(_is_count),
    "confidence": _list_of(_share),
    "accuracy": _list_of(_share),
}
_OPTIONAL: dict[str, Check] = {
    "dispersion": lambda v: _is_number(v) and v >= 1.0,
    "accuracy_interval": lambda v: _list_of(_is_share)(v) and len(v) == 2,
    "certified": _fields({"eps": _is_size, "accuracy": _is_share}),
    "reliability": _fields(_RELIABILITY),
    "least_sure": _list_of(_fields(_ROW)),
    "most_surprising": _list_of(_fields(_ROW)),
}


def check_validation(record: Any, classes: list[str] | None) -> dict[str, Any]:
    """Return what `maxplus.evaluation.Validation.to_json` gives; FileError if it is not valid.

    ``classes`` are the model's, as text; None for a regression.
    """
    require(record, _fields(_GENERAL), "the validation")
    figures, baseline = _CLASSIFICATION, _CLASSIFICATION_BASELINE
    if classes is None:
        figures, baseline = _REGRESSION, _REGRESSION_BASELINE
    require(record["figures"], _fields(figures), "the validation's figures")
    require(record["guess"], _fields(baseline), "the validation's guess")
    if classes is None:
        return record
    own, C = record["figures"], len(classes)
    labels = [one["label"] for one in own["classes"]]
    require(own["classes"], lambda v: labels == classes, "the validation's classes")
    widths = [len(row) for row in own["confusion"]]
    require(own["confusion"], lambda v: widths == [C] * C, "the validation's confusion")
    for name, is_valid in _OPTIONAL.items():
        if name in record:
            require(record[name], is_valid, f"the validation's {name}")
    return record


# -- labels and parameters -------------------------------------------------------


def labels_to_json(labels: NDArray) -> dict[str, Any]:
    """Return labels with their type, as plain values that need no unpickling."""
    if labels.nbytes > MAX_LABEL_BYTES:
        raise ValueError(
            f"classes that take {labels.nbytes:,} bytes cannot be saved, only {MAX_LABEL_BYTES:,}; "
            "use shorter labels"
        )
    if labels.dtype.kind in _LABEL_KINDS:
        return {"type": labels.dtype.str, "values": labels.tolist()}
    if labels.dtype == object and all(type(label) is str for label in labels):
        return {"type": "object", "values": labels.tolist()}
    raise TypeError(
        f"classes of type {labels.dtype} cannot be saved; use strings, numbers or booleans"
    )


def labels_from_json(record: Any) -> NDArray:
    """Return the labels as they were; ValueError if `labels_to_json` does not write them so."""
    if not (isinstance(record, dict) and isinstance(record.get("values"), list)):
        raise ValueError("labels are not a list with a type")
    values, name = record["values"], record.get("type")
    if name == "object":
        if not all(type(value) is str for value in values):
            raise ValueError("labels of type object are not all strings")
        labels = np.empty(len(values), object)
        labels[:] = values
        return labels
    if not isinstance(name, str) or len(name) > 12:
        raise ValueError(f"labels have no known type: {name!r:.40}")
    try:
        dtype = np.dtype(name)
        n_bytes = dtype.itemsize * max(1, len(values))
        if dtype.kind not in _LABEL_KINDS or n_bytes > MAX_LABEL_BYTES:
            raise ValueError(f"{len(values):,} labels have the type {name!r}")
        labels = np.array(values, dtype)
    except (TypeError, OverflowError) as error:
        raise ValueError(f"labels do not fit their type: {error}") from None
    if labels.ndim != 1 or labels.tolist() != values:
        raise ValueError("labels do not fit their type")
    return labels


def read_classes(record: Any) -> NDArray:
    """Return the class labels; FileError unless they are two or more, different, in order."""
    try:
        labels = labels_from_json(record)
        ordered = len(labels) >= 2 and bool((labels[:-1] < labels[1:]).all())
    except (ValueError, TypeError) as error:
        raise FileError(f"the classes cannot be read: {error}") from None
    if not ordered:
        raise FileError("the classes are not two or more different labels in order")
    return labels


def parameters_to_json(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return parameters as JSON values.

    Plain values stay, a dict becomes pairs; what no file can hold (a callback) becomes None.
    """
    return {name: _plain(value) for name, value in parameters.items()}


def parameters_from_json(record: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters as they were."""
    # Keys of a JSON object are strings, labels need not be.
    return {n: dict(value) if isinstance(value, list) else value for n, value in record.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return [[_plain(key), _plain(item)] for key, item in value.items()]
    if isinstance(value, np.generic):
        value = value.item()
    return value if isinstance(value, (bool, int, float, str)) else None
