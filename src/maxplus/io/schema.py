"""Schema of model files: fitted attributes of each estimator, JSON records, labels, parameters.

`FITTED` lists for each estimator the fitted attributes that its file may hold, and when it must
hold them; `ATTRIBUTES` gives the type, the shape and the valid values of each.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxplus.estimators._base import PER_ROW
from maxplus.estimators.lmm_regressor import COVERAGES
from maxplus.io.container import FileError
from maxplus.models import Network
from maxplus.training import History, Status

# Share of the float range that all weights together may take; inputs may add an eighth.
LARGEST_WEIGHT = 1e-3
# Maximum memory of all labels; each string takes as many bytes as the longest one.
MAX_LABEL_BYTES = 64_000_000
# Kinds of NumPy types whose values JSON can hold: bools, integers, floats, strings.
_LABEL_KINDS = "biufU"
# Prefix of the parameters of an ensemble's base estimator.
NESTED = "estimator__"

Check = Callable[[Any], bool]
Fields = dict[Check, str]


# -- values of a JSON document ---------------------------------------------------


def require(value: Any, is_valid: Check, what: str) -> Any:
    """Return the value; raise FileError if it is not valid."""
    if not is_valid(value):
        raise FileError(f"{what} cannot be {value!r:.60}")
    return value


def is_dict(value: Any) -> bool:
    """Return whether a value is a JSON object."""
    return isinstance(value, dict)


def is_text_list(value: Any, n: int) -> bool:
    """Return whether a value is a list of n strings."""
    return isinstance(value, list) and len(value) == n and all(type(v) is str for v in value)


def _is_text(value: Any) -> bool:
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
    """Return a check that also accepts None, for metrics that are not defined."""
    return lambda value: value is None or check(value)


def _list_of(check: Check) -> Check:
    return lambda value: isinstance(value, list) and all(map(check, value))


def _record(fields: Fields) -> Check:
    """Return a check of a dict with at least these fields."""
    checks = [(name, check) for check, names in fields.items() for name in names.split()]
    return lambda value: (
        isinstance(value, dict)
        and all(name in value and check(value[name]) for name, check in checks)
    )


def _are_rows(value: Any, n: int) -> bool:
    """Return whether a value is n lists of floats that are not NaN, all of one length >= 1."""
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
    """Return an array of a file; raise FileError if it is missing or has another type or shape."""
    array = arrays.get(name)
    if array is None or array.dtype != dtype or array.ndim != n_axes:
        raise FileError(f"the array {name!r} is missing or of another type")
    if shape is not None and array.shape != shape:
        found = f"has shape {array.shape} instead of" if n_axes == 1 else "is not of shape"
        raise FileError(f"the array {name!r} {found} {shape}")
    return array


def read_history(arrays: dict[str, NDArray]) -> History:
    """Return the history, with −1 for unknown samples; raise FileError for unequal columns."""
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


# -- fitted attributes -----------------------------------------------------------


@dataclass(frozen=True)
class JsonValue:
    """A fitted attribute that is a value of the JSON document."""

    is_valid: Check


@dataclass(frozen=True)
class Array:
    """A fitted attribute that is an array of the file, under its name without the last "_".

    Axes are H hidden units, P features, T terms, C classes, a number, or n for any length. None
    for the type stands for the float type of the model. ``defect`` describes the error of an
    invalid array.
    """

    dtype: type | None
    axes: str
    is_valid: Callable[[NDArray], Any] = lambda A: True
    defect: str = ""

    def read(self, arrays: dict[str, NDArray], name: str, model: Network) -> NDArray:
        """Return the array; raise FileError if it cannot be an attribute of this model."""
        n_terms = len(getattr(model, "terms", ()))
        sizes = {"P": model.n_features, "T": n_terms, "C": model.n_classes, "2": 2}
        sizes["H"] = getattr(model, "n_hidden", 0)
        axes = self.axes.split()
        shape = None if axes == ["n"] else tuple(sizes[axis] for axis in axes)
        array = read_array(arrays, name, self.dtype or model.dtype, len(axes), shape)
        if not self.is_valid(array):
            raise FileError(f"the array {name!r} {self.defect}")
        return array


def _are_means(A: NDArray) -> bool:
    limit = LARGEST_WEIGHT * np.finfo(np.float64).max / len(A)
    return bool((np.abs(A) <= limit).all())


def _are_residuals(A: NDArray) -> bool:
    return A.size > 0 and A[0] >= 0 and bool(np.isfinite(A).all() and (np.diff(A) >= 0).all())


def _are_quantiles(A: NDArray) -> bool:
    is_ascending = (A[:-1] <= A[1:]).all() and (A >= 0).all()
    return A.shape == COVERAGES.shape and bool(is_ascending)


_LOSSES = Array(np.float64, "n")
_BELOW_0 = "has a number below 0"
_COUNTS = Array(np.int64, "n", lambda A: (A >= 0).all(), _BELOW_0)
_UNITS = Array(np.int64, "H", lambda A: (A >= 0).all(), _BELOW_0)
ATTRIBUTES: dict[str, JsonValue | Array] = {
    "n_iter_": JsonValue(_is_count),
    "status_": JsonValue(_is_status),
    "max_loss_": JsonValue(_is_float),
    "mean_loss_": JsonValue(_is_float),
    "slope_": JsonValue(lambda v: _is_float(v) and 0.0 <= v < math.inf),
    "temperature_": JsonValue(lambda v: _is_float(v) and 0.0 < v < math.inf),
    "lipschitz_": JsonValue(lambda v: _is_float(v) and v >= 0.0),
    "interpolates_": JsonValue(lambda v: isinstance(v, bool)),
    "prototypes_": _UNITS,
    "unit_activation_counts_": _UNITS,
    "suspects_": _COUNTS,
    "training_rows_": _COUNTS,
    "loss_curve_": _LOSSES,
    "validation_scores_": _LOSSES,
    "polish_losses_": _LOSSES,
    "residuals_": Array(
        np.float64, "n", _are_residuals, "does not hold finite numbers >= 0 in order"
    ),
    "residual_quantiles_": Array(
        np.float64, "n", _are_quantiles, "does not hold ascending numbers >= 0 of all coverages"
    ),
    "scale_": Array(
        np.float64,
        "P",
        lambda A: ((A > 0) & np.isfinite(A)).all(),
        "is not all positive and finite",
    ),
    "robust_reach_": Array(
        np.float64,
        "P",
        lambda A: ((A >= 0) & np.isfinite(A)).all(),
        "does not hold finite numbers >= 0",
    ),
    "feature_importances_": Array(
        np.float64,
        "P",
        lambda A: (A >= 0).all() and A.sum() <= 1.0 + 1e-9,
        "does not hold shares that sum to 1",
    ),
    "term_means_": Array(np.float64, "T C", _are_means, "is not finite or too large"),
    "bounds_": Array(
        None,
        "2",
        lambda A: np.isfinite(A).all() and A[0] <= A[1],
        "does not hold two finite numbers in order",
    ),
}

# Fitted attributes of estimators, by the condition under which they are required.
_CLASSIFIER = {"always": "n_iter_ status_ max_loss_ mean_loss_", "sometimes": "training_rows_"}
_NETWORK = {
    "always": "scale_ unit_activation_counts_ feature_importances_",
    "single": "slope_",
    "sometimes": "prototypes_ suspects_",
}
_WARMED_UP = {
    "always": "temperature_",
    "sum": "term_means_",
    "sometimes": "loss_curve_ validation_scores_ polish_losses_",
}
_REGRESSOR = {
    "always": "n_iter_ status_ residual_quantiles_ bounds_",
    "sometimes": "term_means_ feature_importances_ loss_curve_ residuals_ training_rows_",
}
_INTERPOLATOR = {
    "always": "slope_ lipschitz_ interpolates_",
    "sometimes": "prototypes_ training_rows_",
}


def _table(*parts: dict[str, str]) -> dict[str, str]:
    """Return the condition of each attribute."""
    return {
        name: condition
        for part in parts
        for condition, names in part.items()
        for name in names.split()
    }


FITTED = {
    "LMMClassifier": _table(_CLASSIFIER, _NETWORK, _WARMED_UP, {"sometimes": "robust_reach_"}),
    "LMMEnsembleClassifier": _table(_CLASSIFIER, _NETWORK, _WARMED_UP),
    "LMMRegressor": _table(_REGRESSOR),
    "LinearMaxPlusClassifier": _table(_CLASSIFIER),
    "LipschitzInterpolator": _table(_INTERPOLATOR),
    "MaxPlusClassifier": _table(_CLASSIFIER),
    "SubgradientLMMClassifier": _table(_CLASSIFIER, _NETWORK),
}


def write_attributes(
    estimator: Any, remember_rows: bool
) -> tuple[dict[str, Any], dict[str, NDArray]]:
    """Return the fitted attributes that a file stores: JSON values and arrays."""
    attributes: dict[str, Any] = {}
    arrays: dict[str, NDArray] = {}
    for name in FITTED[type(estimator).__name__]:
        if not hasattr(estimator, name) or (name in PER_ROW and not remember_rows):
            continue
        kind, value = ATTRIBUTES[name], getattr(estimator, name)
        if isinstance(kind, Array):
            arrays[name.removesuffix("_")] = np.asarray(value, kind.dtype or estimator.model_.dtype)
        else:
            attributes[name] = value.item() if isinstance(value, np.generic) else value
    return attributes, arrays


def read_attributes(estimator: Any, attributes: Any, arrays: dict[str, NDArray]) -> None:
    """Set the fitted attributes of a file; raise FileError if one is invalid or missing."""
    table = FITTED[type(estimator).__name__]
    for name, value in require(attributes, is_dict, "the attributes").items():
        kind = ATTRIBUTES[name] if name in table else None
        if not isinstance(kind, JsonValue):
            raise FileError(f"{type(estimator).__name__} has no fact {name!r:.40}")
        setattr(estimator, name, require(value, kind.is_valid, f"the fact {name!r}"))
    for name in table:
        kind, key = ATTRIBUTES[name], name.removesuffix("_")
        if isinstance(kind, Array) and key in arrays:
            setattr(estimator, name, kind.read(arrays, key, estimator.model_))
    model = "sum" if getattr(estimator.model_, "is_sum", False) else "single"
    for name, condition in table.items():
        if condition in ("always", model) and not hasattr(estimator, name):
            raise FileError(f"its {name} is missing")


# -- records of a JSON document --------------------------------------------------

# Summaries of the training rows of a classifier and of a regressor.
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
    """Return the summary of the training rows; raise FileError if it is not valid."""
    what = "the summary of the training"
    require(record, lambda v: isinstance(v, dict) and {*v} == {*checks}, what)
    for name, is_valid in checks.items():
        require(record[name], is_valid, f"{name!r} in {what}")
    return record


def check_search(record: Any) -> dict[str, Any]:
    """Return the results of a candidate search; raise FileError if they are not valid."""
    names = {"candidates", "losses", "chosen"}

    def has_names(value: Any) -> bool:
        return isinstance(value, dict) and names <= {*value} <= {*names, "scores"}

    require(record, has_names, "what was searched")
    K = len(record["candidates"]) if isinstance(record["candidates"], list) else 0
    require(record["candidates"], lambda v: K > 0 and is_text_list(v, K), "the candidates")
    require(record["chosen"], lambda v: type(v) is int and 0 <= v < K, "the chosen candidate")
    tables = {"candidates": np.array(record["candidates"])}
    for name in ("losses", "scores"):
        if name in record:
            rows = require(record[name], lambda v: _are_rows(v, K), f"the {name} of candidates")
            tables[name] = np.array(rows, np.float64)
    return {**record, **tables}


# Fields of a validation, by check.
_share, _size = _optional(_is_share), _optional(_is_size)
_VALIDATION: Fields = {
    _is_text: "description",
    _is_count: "rows_never_held_out",
    _is_size: "seconds",
    is_dict: "figures baseline",
}
_CLASS: Fields = {
    _is_text: "label",
    _is_count: "n_rows n_predicted",
    _share: "precision recall f1 auc",
}
_CLASSIFICATION: Fields = {
    _is_positive_count: "n_rows",
    _is_share: "accuracy",
    _is_size: "accuracy_error",
    _share: "balanced_accuracy macro_f1 auc calibration_error",
    _size: "log_loss max_loss",
    _optional(_is_positive_count): "worst",
    _list_of(_record(_CLASS)): "classes",
    _list_of(_list_of(_is_count)): "confusion",
}
_CLASSIFICATION_BASELINE: Fields = {
    _is_text: "label",
    _is_share: "accuracy",
    _share: "balanced_accuracy",
    _size: "log_loss",
}
_REGRESSION: Fields = {
    _is_positive_count: "n_rows",
    _optional(_is_number): "r2",
    _is_size: "mae mae_error rmse",
    _share: "covered",
    _size: "width",
}
_REGRESSION_BASELINE: Fields = {_is_size: "mae rmse"}
_ROW: Fields = {
    _is_positive_count: "row",
    _is_text: "label predicted",
    _is_share: "probability own_probability",
}
# Optional fields of the validation of a classifier.
_PARTS: dict[str, Check] = {
    "dispersion": lambda v: _is_number(v) and v >= 1.0,
    "accuracy_interval": lambda v: _list_of(_is_share)(v) and len(v) == 2,
    "certified": _record({_is_size: "eps", _is_share: "accuracy"}),
    "reliability": _record({_list_of(_is_count): "count", _list_of(_share): "confidence accuracy"}),
    "least_confident": _list_of(_record(_ROW)),
    "highest_loss": _list_of(_record(_ROW)),
}


def check_validation(record: Any, classes: list[str] | None) -> dict[str, Any]:
    """Return a record of `maxplus.evaluation.Validation.to_json`; raise FileError if not valid.

    ``classes`` are the classes of the model as text, or None for a regression.
    """
    require(record, _record(_VALIDATION), "the validation")
    figures, baseline = record["figures"], record["baseline"]
    if classes is None:
        require(figures, _record(_REGRESSION), "the validation's figures")
        require(baseline, _record(_REGRESSION_BASELINE), "the validation's baseline")
        return record
    require(figures, _record(_CLASSIFICATION), "the validation's figures")
    require(baseline, _record(_CLASSIFICATION_BASELINE), "the validation's baseline")
    labels = [entry["label"] for entry in figures["classes"]]
    require(figures["classes"], lambda v: labels == classes, "the validation's classes")
    widths = {len(figures["confusion"]), *map(len, figures["confusion"])}
    require(figures["confusion"], lambda v: widths == {len(classes)}, "the validation's confusion")
    for name, is_valid in _PARTS.items():
        if name in record:
            require(record[name], is_valid, f"the validation's {name}")
    return record


# -- labels and parameters -------------------------------------------------------


def labels_to_json(labels: NDArray) -> dict[str, Any]:
    """Return labels as JSON values with their NumPy type."""
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
    """Invert `labels_to_json`; raise ValueError for a record that it does not write."""
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
    """Return the class labels; raise FileError unless they are at least two in ascending order."""
    try:
        labels = labels_from_json(record)
        ordered = len(labels) >= 2 and bool((labels[:-1] < labels[1:]).all())
    except (ValueError, TypeError) as error:
        raise FileError(f"the classes cannot be read: {error}") from None
    if not ordered:
        raise FileError("the classes are not two or more different labels in order")
    return labels


def parameters_to_json(estimator: Any) -> dict[str, Any]:
    """Return the parameters of an estimator, and those of an ensemble's base estimator, as JSON.

    A dict becomes a list of pairs, and a sequence of numbers an object. Values that JSON cannot
    represent, such as callbacks, become None; ValueError if None is not valid (an `Objective`).
    """
    parameters = estimator.get_params(deep=False)
    nested = parameters.get("estimator")
    if nested is not None:
        inner = nested.get_params(deep=False)
        parameters |= {NESTED + name: value for name, value in inner.items()}
    plain = {name: _plain(value) for name, value in parameters.items()}
    for name, valid in estimator._parameters.items():
        if plain[name] is None and None not in valid:
            raise ValueError(
                f"{name}={parameters[name]!r:.80} cannot be stored in a file; save the estimator "
                f"with pickle, or set a name first, for example set_params({name}="
                f"{inspect.signature(type(estimator)).parameters[name].default!r})"
            )
    return plain


def parameters_from_json(record: dict[str, Any]) -> dict[str, Any]:
    """Invert `parameters_to_json`."""
    return {name: _restored(value) for name, value in record.items()}


def _restored(value: Any) -> Any:
    if isinstance(value, list):
        return dict(value)
    if isinstance(value, dict):
        if {*value} != {"numbers", "is_array"}:
            raise ValueError("a sequence of numbers is not in its form")
        numbers = np.asarray(value["numbers"], np.float64)
        return numbers if numbers.ndim == 1 and value["is_array"] is True else _tuples(numbers)
    return value


def _tuples(numbers: NDArray) -> tuple:
    return tuple(_tuples(part) if part.ndim else float(part) for part in numbers)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return [[_plain(key), _plain(item)] for key, item in value.items()]
    if isinstance(value, (tuple, list, np.ndarray)):
        try:
            numbers = np.asarray(value, np.float64).tolist()
        except (TypeError, ValueError):
            return None
        return {"numbers": numbers, "is_array": isinstance(value, np.ndarray)}
    if isinstance(value, np.generic):
        value = value.item()
    return value if isinstance(value, (bool, int, float, str)) else None
