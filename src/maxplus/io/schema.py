"""Schema of model files: fitted attributes, JSON records, labels and parameters.

`FITTED` lists the required and optional fitted attributes of each estimator. `ATTRIBUTES` defines
their types, shapes and valid values.
"""

from __future__ import annotations

import inspect
import math
import re
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

# Maximum absolute weight, as a fraction of the largest float. The products of slopes and inputs add
# up to at most an eighth of the largest float (`TermSum.largest_input`).
LARGEST_WEIGHT = 1e-3
# Maximum size in memory of all labels, or of the candidates of a search. In NumPy, each string
# takes the size of the longest one.
MAX_LABEL_BYTES = 64_000_000
# NumPy types that are converted to JSON: booleans, integers, floats and strings.
_LABEL_TYPE = re.compile(r"[<>|=][biufU][1-9]\d{0,7}")
# Prefix of the parameters of an ensemble's base estimator.
NESTED = "estimator__"

# A predicate, a list with the schema of all items, or a dict with the schemas of required fields;
# an empty list or dict accepts any list or dict.
Schema = Callable[[Any], bool] | list | dict[str, Any]


# -- values of a JSON document ---------------------------------------------------


def check(value: Any, schema: Schema, name: str) -> Any:
    """Return the value; raise FileError if it does not conform to the schema."""
    if not (schema(value) if callable(schema) else isinstance(value, type(schema))):
        raise FileError(f"{name} cannot be {value!r:.60}")
    if isinstance(schema, list) and schema:
        for k, item in enumerate(value):
            check(item, schema[0], f"{name}[{k}]")
    elif isinstance(schema, dict):
        for field, part in schema.items():
            if field not in value:
                raise FileError(f"{name} lacks {field!r}")
            check(value[field], part, f"{name}.{field}")
    return value


def is_text(value: Any) -> bool:
    """Return whether a value is a string."""
    return isinstance(value, str)


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def is_positive(value: Any) -> bool:
    """Return whether a value is an integer > 0."""
    return _is_count(value) and value > 0


def _is_finite(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def _is_fraction(value: Any) -> bool:
    return _is_finite(value) and 0.0 <= value <= 1.0


def _is_nonnegative(value: Any) -> bool:
    return _is_finite(value) and value >= 0.0


def _is_float(value: Any) -> bool:
    return isinstance(value, float)


def _is_nonnegative_float(value: Any) -> bool:
    return isinstance(value, float) and value >= 0.0


def _is_not_nan(value: Any) -> bool:
    return isinstance(value, float) and not math.isnan(value)


def _is_status(value: Any) -> bool:
    return isinstance(value, str) and any(value == status.value for status in Status)


def _optional(is_valid: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Return a predicate that also accepts None, for metrics that are not defined."""
    return lambda value: value is None or is_valid(value)


# -- arrays ----------------------------------------------------------------------


def read_array(
    arrays: dict[str, NDArray],
    name: str,
    dtype: Any,
    n_axes: int = 1,
    shape: tuple[int, ...] | None = None,
) -> NDArray:
    """Return an array of a file; raise FileError if it is missing or has a wrong type or shape."""
    array = arrays.get(name)
    if array is None or array.dtype != dtype or array.ndim != n_axes:
        raise FileError(f"the array {name!r} is missing or has a wrong type")
    if shape is not None and array.shape != shape:
        raise FileError(f"the array {name!r} has shape {array.shape} instead of {shape}")
    return array


def read_history(arrays: dict[str, NDArray]) -> History:
    """Return the history, with −1 for unknown samples; raise FileError if it is invalid."""
    if "history.sample" not in arrays and "history.loss" in arrays:
        unknown = np.full(arrays["history.loss"].shape, -1, np.int64)
        arrays = {**arrays, "history.sample": unknown}
    columns = {
        name: read_array(arrays, f"history.{name}", dtype)
        for name, dtype in History.columns.items()
    }
    if len({len(column) for column in columns.values()}) > 1:
        raise FileError("the columns of the history differ in length")
    return History.from_columns(columns)


# -- fitted attributes -----------------------------------------------------------


@dataclass(frozen=True)
class Array:
    """Fitted attribute that is stored as an array, under its name without trailing underscore.

    ``axes`` contains the length of each axis: H hidden units, P features, T terms, C classes, the
    number 2, or n for any length. If ``dtype`` is None, it is that of the model. ``defect``
    completes the error message "the array … " for invalid arrays.
    """

    dtype: type | None
    axes: str
    is_valid: Callable[[NDArray], Any] = lambda A: True
    defect: str = ""

    def read(self, arrays: dict[str, NDArray], name: str, model: Network) -> NDArray:
        """Return the array; raise FileError if it is invalid for this model."""
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


_FLOATS = Array(np.float64, "n")
_NONNEGATIVE, _NONNEGATIVE_BY_UNIT = (
    Array(np.int64, axes, lambda A: (A >= 0).all(), "has negative values") for axes in ("n", "H")
)
# Arrays, and predicates of values of the JSON document.
ATTRIBUTES: dict[str, Array | Callable[[Any], bool]] = {
    "n_iter_": _is_count,
    "status_": _is_status,
    "max_loss_": _is_float,
    "mean_loss_": _is_float,
    "slope_": lambda v: _is_float(v) and 0.0 <= v < math.inf,
    "inverse_temperature_": lambda v: _is_float(v) and 0.0 < v < math.inf,
    "lipschitz_": _is_nonnegative_float,
    "interpolates_": _is_bool,
    "prototypes_": _NONNEGATIVE_BY_UNIT,
    "unit_activation_counts_": _NONNEGATIVE_BY_UNIT,
    "suspects_": _NONNEGATIVE,
    "training_rows_": _NONNEGATIVE,
    "loss_curve_": _FLOATS,
    "validation_scores_": _FLOATS,
    "polish_losses_": _FLOATS,
    "residuals_": Array(
        np.float64, "n", _are_residuals, "does not contain finite numbers >= 0 in ascending order"
    ),
    "residual_quantiles_": Array(
        np.float64,
        "n",
        _are_quantiles,
        "does not contain a number >= 0 for each coverage, in ascending order",
    ),
    "scale_": Array(
        np.float64,
        "P",
        lambda A: ((A > 0) & np.isfinite(A)).all(),
        "does not contain finite numbers > 0",
    ),
    "robust_eps_": Array(
        np.float64,
        "P",
        lambda A: ((A >= 0) & np.isfinite(A)).all(),
        "does not contain finite numbers >= 0",
    ),
    "feature_importances_": Array(
        np.float64,
        "P",
        lambda A: (A >= 0).all() and A.sum() <= 1.0 + 1e-9,
        "does not contain numbers >= 0 with a sum of at most 1",
    ),
    "term_means_": Array(
        np.float64, "T C", _are_means, "contains values that are not finite or too large"
    ),
    "bounds_": Array(
        None,
        "2",
        lambda A: np.isfinite(A).all() and A[0] <= A[1],
        "does not contain two finite numbers in ascending order",
    ),
}

# Fitted attributes of estimators, by the condition under which they are required.
_CLASSIFIER = {"required": "n_iter_ status_ max_loss_ mean_loss_", "optional": "training_rows_"}
_NETWORK = {
    "required": "scale_ unit_activation_counts_ feature_importances_",
    "single": "slope_",
    "optional": "prototypes_ suspects_",
}
_WARMED_UP = {
    "required": "inverse_temperature_",
    "sum": "term_means_",
    "optional": "loss_curve_ validation_scores_ polish_losses_",
}
_REGRESSOR = {
    "required": "n_iter_ status_ residual_quantiles_ bounds_",
    "optional": "term_means_ feature_importances_ loss_curve_ residuals_ training_rows_",
}
_INTERPOLATOR = {
    "required": "slope_ lipschitz_ interpolates_",
    "optional": "prototypes_ training_rows_",
}


def _conditions(*parts: dict[str, str]) -> dict[str, str]:
    """Return the condition under which each attribute is required."""
    return {
        name: condition
        for part in parts
        for condition, names in part.items()
        for name in names.split()
    }


FITTED = {
    "LMMClassifier": _conditions(_CLASSIFIER, _NETWORK, _WARMED_UP, {"optional": "robust_eps_"}),
    "LMMEnsembleClassifier": _conditions(_CLASSIFIER, _NETWORK, _WARMED_UP),
    "LMMRegressor": _conditions(_REGRESSOR),
    "LinearMaxPlusClassifier": _conditions(_CLASSIFIER),
    "LipschitzInterpolator": _conditions(_INTERPOLATOR),
    "MaxPlusClassifier": _conditions(_CLASSIFIER),
    "SubgradientLMMClassifier": _conditions(_CLASSIFIER, _NETWORK),
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
    """Set the fitted attributes from a file; raise FileError if one is invalid or missing."""
    conditions = FITTED[type(estimator).__name__]
    for name, value in check(attributes, {}, "attributes").items():
        kind = ATTRIBUTES[name] if name in conditions else None
        if kind is None or isinstance(kind, Array):
            raise FileError(f"{type(estimator).__name__} has no attribute {name!r:.40}")
        setattr(estimator, name, check(value, kind, name))
    model = "sum" if getattr(estimator.model_, "is_sum", False) else "single"
    for name, condition in conditions.items():
        kind, key = ATTRIBUTES[name], name.removesuffix("_")
        if isinstance(kind, Array) and key in arrays:
            setattr(estimator, name, kind.read(arrays, key, estimator.model_))
        if condition in ("required", model) and not hasattr(estimator, name):
            raise FileError(f"{name} is missing")


# -- records of a JSON document --------------------------------------------------

# Summaries of the training rows of a classifier and of a regressor.
CLASS_SUMMARY = {
    "n_rows": _is_count,
    "class_counts": [_is_count],
    "n_below_log2": _is_count,
    "mean_loss": _is_nonnegative_float,
}
TARGET_SUMMARY = {
    "n_rows": _is_count,
    "mean": lambda v: _is_float(v) and math.isfinite(v),
    "deviation": _is_nonnegative_float,
}

# A record of `maxplus.evaluation.Validation.to_json`.
_optional_fraction, _optional_nonnegative = _optional(_is_fraction), _optional(_is_nonnegative)
_VALIDATION = {
    "description": is_text,
    "rows_never_held_out": _is_count,
    "seconds": _is_nonnegative,
}
_REGRESSION = {
    "metrics": {
        "n_rows": is_positive,
        "r2": _optional(_is_finite),
        "mae": _is_nonnegative,
        "mae_error": _is_nonnegative,
        "rmse": _is_nonnegative,
        "covered": _optional_fraction,
        "width": _optional_nonnegative,
    },
    "baseline": {"mae": _is_nonnegative, "rmse": _is_nonnegative},
}
_CLASSIFICATION = {
    "metrics": {
        "n_rows": is_positive,
        "accuracy": _is_fraction,
        "accuracy_error": _is_nonnegative,
        **dict.fromkeys(
            ("balanced_accuracy", "macro_f1", "auc", "calibration_error"), _optional_fraction
        ),
        "log_loss": _optional_nonnegative,
        "max_loss": _optional_nonnegative,
        "worst": _optional(is_positive),
        "classes": [
            {"label": is_text, "n_rows": _is_count, "n_predicted": _is_count}
            | dict.fromkeys(("precision", "recall", "f1", "auc"), _optional_fraction)
        ],
        "confusion": [[_is_count]],
    },
    "baseline": {
        "label": is_text,
        "accuracy": _is_fraction,
        "balanced_accuracy": _optional_fraction,
        "log_loss": _optional_nonnegative,
    },
}
_LISTED_ROW = {"row": is_positive, "label": is_text, "predicted": is_text} | dict.fromkeys(
    ("probability", "own_probability"), _is_fraction
)
# Fields of the validation of a classifier that may be missing.
_OPTIONAL_FIELDS: dict[str, Schema] = {
    "dispersion": lambda v: _is_finite(v) and v >= 1.0,
    "accuracy_interval": lambda v: (
        isinstance(v, list) and len(v) == 2 and all(map(_is_fraction, v))
    ),
    "certified": {"eps": _is_nonnegative, "accuracy": _is_fraction},
    "reliability": {
        "count": [_is_count],
        "confidence": [_optional_fraction],
        "accuracy": [_optional_fraction],
    },
    "least_confident": [_LISTED_ROW],
    "highest_loss": [_LISTED_ROW],
}


def check_validation(record: Any, classes: list[str] | None) -> dict[str, Any]:
    """Return a record of `maxplus.evaluation.Validation.to_json`; raise FileError if it is invalid.

    ``classes`` are the classes of the model as text, or None for a regressor.
    """
    check(record, _VALIDATION, "validation")
    if classes is None:
        return check(record, _REGRESSION, "validation")
    optional = {name: part for name, part in _OPTIONAL_FIELDS.items() if name in record}
    metrics = check(record, _CLASSIFICATION | optional, "validation")["metrics"]
    if [entry["label"] for entry in metrics["classes"]] != classes:
        raise FileError("the classes of the validation are not those of the model")
    if {len(metrics["confusion"]), *map(len, metrics["confusion"])} != {len(classes)}:
        raise FileError(f"validation.metrics.confusion does not have {len(classes)} classes")
    return record


def read_search(record: Any) -> dict[str, Any]:
    """Return the results of a candidate search; raise FileError if they are not valid."""
    tables = ["losses", *(["scores"] if "scores" in check(record, {}, "search") else [])]
    lists = {"candidates": [is_text], **{name: [[_is_not_nan]] for name in tables}}
    check(record, {"chosen": _is_count, **lists}, "search")
    candidates = record["candidates"]
    # A character takes 4 bytes.
    if 4 * len(candidates) * max(map(len, candidates), default=0) > MAX_LABEL_BYTES:
        raise FileError("search.candidates take too much memory")
    names = np.array(candidates)
    if record["chosen"] >= names.size:
        raise FileError(f"search.chosen cannot be {record['chosen']}")
    search = {"candidates": names, "chosen": record["chosen"]}
    for name in tables:
        widths = {len(values) for values in record[name]}
        if len(record[name]) != names.size or len(widths) != 1 or 0 in widths:
            raise FileError(
                f"search.{name} does not have the same number of values for each candidate"
            )
        search[name] = np.array(record[name], np.float64)
    return search


# -- labels and parameters -------------------------------------------------------


def labels_to_json(labels: NDArray) -> dict[str, Any]:
    """Return labels as JSON values with their NumPy type.

    Raise ValueError if they are too large, and TypeError for types other than strings, numbers and
    booleans.
    """
    if labels.nbytes > MAX_LABEL_BYTES:
        raise ValueError(
            f"the classes have {labels.nbytes:,} bytes, but at most {MAX_LABEL_BYTES:,} can be "
            "saved; use shorter labels"
        )
    if _LABEL_TYPE.fullmatch(labels.dtype.str):
        return {"type": labels.dtype.str, "values": labels.tolist()}
    if labels.dtype == object and all(type(label) is str for label in labels):
        return {"type": "object", "values": labels.tolist()}
    raise TypeError(
        f"classes of type {labels.dtype} cannot be saved; use strings, numbers or booleans"
    )


def read_classes(record: Any) -> NDArray:
    """Invert `labels_to_json`; raise FileError unless there are ≥ 2 labels in ascending order."""
    check(record, {"type": is_text, "values": []}, "classes")
    name, values = record["type"], record["values"]
    if name == "object":
        check(values, [is_text], "classes.values")
    elif not _LABEL_TYPE.fullmatch(name):
        raise FileError(f"classes.type cannot be {name!r:.40}")
    try:
        dtype = np.dtype(name)
        if dtype.itemsize * len(values) > MAX_LABEL_BYTES:
            raise ValueError(f"{len(values):,} labels take too much memory")
        labels = np.array(values, dtype)
        if labels.ndim != 1 or labels.tolist() != values:
            raise ValueError("a label has a different type")
    except (TypeError, ValueError, OverflowError) as error:
        raise FileError(f"classes cannot have the type {name!r}: {error}") from None
    if len(labels) < 2 or not (labels[:-1] < labels[1:]).all():
        raise FileError("classes are not two or more different labels in ascending order")
    return labels


def parameters_to_json(estimator: Any) -> dict[str, Any]:
    """Return the parameters of an estimator, and those of an ensemble's base estimator, as JSON.

    Dicts are converted to lists of pairs, and sequences of numbers to JSON objects. Values that
    JSON cannot represent, such as callbacks, are replaced by None. Raise ValueError if None is not
    valid for the parameter, for example for an `Objective`.
    """
    parameters = estimator.get_params(deep=False)
    nested = parameters.get("estimator")
    if nested is not None:
        inner = nested.get_params(deep=False)
        parameters |= {NESTED + name: value for name, value in inner.items()}
    values = {name: _value_to_json(value) for name, value in parameters.items()}
    for name, valid in estimator._parameters.items():
        if values[name] is None and None not in valid:
            raise ValueError(
                f"{name}={parameters[name]!r:.80} cannot be stored in a file; save the estimator "
                f"with pickle, or set the parameter to a name first, for example set_params({name}="
                f"{inspect.signature(type(estimator)).parameters[name].default!r})"
            )
    return values


def parameters_from_json(record: dict[str, Any]) -> dict[str, Any]:
    """Invert `parameters_to_json`."""
    return {name: _value_from_json(value) for name, value in record.items()}


def _value_from_json(value: Any) -> Any:
    if isinstance(value, list):
        return dict(value)
    if isinstance(value, dict):
        if {*value} != {"numbers", "is_array"}:
            raise ValueError("a sequence of numbers has an invalid form")
        numbers = np.asarray(value["numbers"], np.float64)
        return (
            numbers if numbers.ndim == 1 and value["is_array"] is True else _nested_tuples(numbers)
        )
    return value


def _nested_tuples(numbers: NDArray) -> tuple:
    return tuple(_nested_tuples(part) if part.ndim else float(part) for part in numbers)


def _value_to_json(value: Any) -> Any:
    if isinstance(value, dict):
        return [[_value_to_json(key), _value_to_json(item)] for key, item in value.items()]
    if isinstance(value, (tuple, list, np.ndarray)):
        try:
            numbers = np.asarray(value, np.float64).tolist()
        except (TypeError, ValueError):
            return None
        return {"numbers": numbers, "is_array": isinstance(value, np.ndarray)}
    if isinstance(value, np.generic):
        value = value.item()
    return value if isinstance(value, (bool, int, float, str)) else None
