"""Fitted estimators as files."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

import maxplus
from maxplus import estimators
from maxplus.distributed import current
from maxplus.estimators import LMMClassifier, LMMRegressor
from maxplus.estimators._intervals import COVERAGES
from maxplus.estimators._lmm import BaseLMMClassifier
from maxplus.estimators._saving import PER_ROW
from maxplus.estimators._subgradient import SubgradientClassifier
from maxplus.estimators._training_summary import training_summary
from maxplus.io.container import FileError, read_container, write_container
from maxplus.io.labels import (
    labels_from_json,
    labels_to_json,
    parameters_from_json,
    parameters_to_json,
)
from maxplus.io.sums import is_sum, sum_arrays, sum_of
from maxplus.io.validations import check_validation
from maxplus.models import AdditiveLMM, Model, Network
from maxplus.tables import Preparation
from maxplus.training import History, Status

KIND = "maxplus-model"
ESTIMATORS = {
    name: found
    for name in estimators.__all__
    if hasattr(found := getattr(estimators, name), "get_params")
}

# Fitted numbers and words, with what each must be; an estimator has some of them.
FACTS: dict[str, Callable[[Any], bool]] = {
    "n_iter_": lambda v: type(v) is int and v >= 0,
    "status_": lambda v: isinstance(v, str),
    "max_loss_": lambda v: isinstance(v, float),
    "mean_loss_": lambda v: isinstance(v, float),
    "slope_": lambda v: isinstance(v, float) and math.isfinite(v) and v >= 0,
    "temperature_": lambda v: isinstance(v, float) and math.isfinite(v) and v > 0,
    "lipschitz_": lambda v: isinstance(v, float) and v >= 0,
    "interpolates_": lambda v: isinstance(v, bool),
}
# Arrays of whole numbers beside the weights, with their axis if they have one of the model's.
INTEGERS: dict[str, str | None] = {
    "prototypes": "H", "suspects": None, "unit_wins": "H", "training_rows": None,
}  # fmt: skip
# Estimators whose model may be a sum of terms.
SUMS = ("LMMClassifier", "LMMEnsembleClassifier", "LMMRegressor")
# Larger weights are refused: inputs may add an eighth of the range, sums add the scores of terms.
LARGEST_WEIGHT = 1e-3
# How the stages of a training went, and how far predictions were off.
COURSES = ("warmup_losses", "validation_scores", "polish_losses", "curve_losses",
           "residual_quantiles", "residuals")  # fmt: skip
# Counts and means of the training rows, of a classifier and of a regressor.
CLASS_SUMMARY: dict[str, Callable[[Any], bool]] = {
    "n_rows": lambda v: type(v) is int and v >= 0,
    "class_counts": lambda v: isinstance(v, list) and all(type(n) is int and n >= 0 for n in v),
    "n_below_log2": lambda v: type(v) is int and v >= 0,
    "mean_loss": lambda v: isinstance(v, float) and v >= 0,
}
TARGET_SUMMARY: dict[str, Callable[[Any], bool]] = {
    "n_rows": CLASS_SUMMARY["n_rows"],
    "mean": lambda v: isinstance(v, float) and math.isfinite(v),
    "deviation": CLASS_SUMMARY["mean_loss"],
}
# Parts of a validation that name single training rows.
NAMED_ROWS = ("least_sure", "most_surprising")


def save(
    estimator: Any,
    path: str | os.PathLike[str],
    *,
    notes: Any = None,
    remember_rows: bool = False,
) -> None:
    """Write a fitted estimator to one file, whole or not at all.

    Parameters
    ----------
    estimator : a fitted maxplus estimator
    path : where; an existing file is replaced
    notes : anything that JSON can hold, kept beside it
    remember_rows : whether to keep what is known of single training rows; this reveals them

    Notes
    -----
    How tables become features (``preparation_``, a `maxplus.tables.Preparation`) and how the model
    did on rows that it had not seen (``validation_``, what `maxplus.evaluation.Validation.to_json`
    gives) are kept with an estimator that has them, and `maxplus.load` gives them back.

    By default nothing per training row is written, only counts and means. ``remember_rows`` keeps
    labels, losses, ``suspects_``, ``residuals_``, the samples in ``history_``, the rows that a
    validation names, and hashes of the rows where ``training_rows_`` has them (from
    `maxplus.tables.row_fingerprints`; ``maxplus train --remember-rows`` sets it). Labels and losses
    can then be read by anyone who has the file, in the order of the training rows, and guesses of
    rows can be tested against the hashes. What a file tells in any case is in SECURITY.md.

    Examples
    --------
    >>> import os, tempfile
    >>> from maxplus.io import load, save
    >>> from sklearn.datasets import load_iris
    >>> from maxplus import LMMClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = LMMClassifier(6, slope=4.0, warmup_epochs=2, random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(clf, os.path.join(folder, "iris.maxplus"), notes={"by": "me"})
    ...     os.listdir(folder)
    ['iris.maxplus']
    """
    name = type(estimator).__name__
    if ESTIMATORS.get(name) is not type(estimator):
        raise TypeError(
            f"only {', '.join(ESTIMATORS)} can be saved, got {name}; "
            "for a pipeline use joblib or skops"
        )
    document, arrays = describe(estimator, remember_rows)
    document["notes"] = notes
    # Of several ranks, one writes.
    if current().is_first:
        write_container(path, KIND, document, arrays)


def load(path: str | os.PathLike[str]) -> Any:
    """A fitted estimator from a file that `maxplus.io.save` has written.

    Nothing in the file is executed; every shape, type and value is checked.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    estimator
        As it was when it was saved, to the last bit, but for what is known of single training
        rows: that is there if it was saved with ``remember_rows=True``.

    Raises
    ------
    FileError (a ValueError)
        When the file is damaged, of another kind or from a later version.
    OSError
        When it cannot be opened.

    Examples
    --------
    >>> import os, tempfile
    >>> import maxplus
    >>> from sklearn.datasets import load_iris
    >>> from maxplus import LMMClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = LMMClassifier(6, slope=4.0, warmup_epochs=2, random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     clf.save(os.path.join(folder, "iris.maxplus"))
    ...     again = maxplus.load(os.path.join(folder, "iris.maxplus"))
    >>> bool((again.decision_function(X) == clf.decision_function(X)).all())
    True
    """
    return load_with_notes(path)[0]


def load_with_notes(path: str | os.PathLike[str]) -> tuple[Any, Any]:
    """`load`, and the notes that were saved beside the estimator."""
    document, arrays = read_container(path, KIND)
    try:
        return rebuild(document, arrays), document.get("notes")
    except FileError as error:
        raise FileError(f"{path} is damaged: {error}") from None


def describe(
    estimator: Any, remember_rows: bool = False
) -> tuple[dict[str, Any], dict[str, NDArray]]:
    """A fitted estimator as a JSON document and named arrays, without training rows by default."""
    check_is_fitted(estimator, "model_")
    model: Network = estimator.model_
    document: dict[str, Any] = {
        "estimator": type(estimator).__name__,
        "library": maxplus.__version__,
        "parameters": parameters_to_json(estimator.get_params(deep=False)),
        "facts": {name: _item(getattr(estimator, name)) for name in FACTS
                  if hasattr(estimator, name)},
        "n_features": model.n_features,
        "n_columns": estimator.n_features_in_,
    }  # fmt: skip
    if isinstance(model, AdditiveLMM):
        arrays = sum_arrays(model)
    else:
        arrays = {f"model.{name}": W for name, W in model.weights_by_name().items()}
    if hasattr(estimator, "feature_names_in_"):
        document["feature_names"] = [str(name) for name in estimator.feature_names_in_]

    def has(name: str) -> bool:
        return hasattr(estimator, name) and (remember_rows or name not in PER_ROW)

    for name in INTEGERS:
        if has(f"{name}_"):
            arrays[name] = np.asarray(getattr(estimator, f"{name}_"), np.int64)
    for name in COURSES:
        if has(f"{name}_"):
            arrays[name] = np.asarray(getattr(estimator, f"{name}_"), np.float64)
    if hasattr(estimator, "scale_"):
        arrays["scale"] = np.asarray(estimator.scale_, np.float64)
    if hasattr(estimator, "feature_importances_"):
        arrays["importances"] = np.asarray(estimator.feature_importances_, np.float64)
    if hasattr(estimator, "term_means_"):
        arrays["term_means"] = np.asarray(estimator.term_means_, np.float64)
    if hasattr(estimator, "bounds_"):
        arrays["bounds"] = np.asarray(estimator.bounds_, model.dtype)
    if hasattr(estimator, "search_"):
        document["search"] = {
            name: np.asarray(value).tolist() for name, value in estimator.search_.items()
        }
    preparation = getattr(estimator, "preparation_", None)
    if preparation is not None:
        document["preparation"] = preparation.to_json()
    if getattr(estimator, "validation_", None) is not None:
        document["validation"] = _validation(estimator.validation_, remember_rows)
    if hasattr(estimator, "classes_"):
        document["classes"] = labels_to_json(estimator.classes_)
    if has("training_losses_"):
        codes = np.searchsorted(estimator.classes_, estimator.training_labels_)
        arrays["training.labels"] = codes.astype(np.int64)
        arrays["training.losses"] = estimator.training_losses_
    else:
        document["training"] = dict(training_summary(estimator))
    if hasattr(estimator, "history_"):
        # A loss of the history is that of its sample: without the row, only the course is told.
        names = [name for name in History.columns if remember_rows or name != "sample"]
        arrays |= {f"history.{name}": estimator.history_[name] for name in names}
    return document, arrays


def _validation(record: dict[str, Any], remember_rows: bool) -> dict[str, Any]:
    """A validation as a file holds it: by default without the rows that it names."""
    if remember_rows:
        return record
    kept = {name: value for name, value in record.items() if name not in NAMED_ROWS}
    if "worst" in record["figures"]:
        kept["figures"] = {**record["figures"], "worst": None}
    return kept


def rebuild(document: dict[str, Any], arrays: dict[str, NDArray]) -> Any:
    """The estimator that `describe` described; FileError where something cannot be."""
    estimator = unfitted(document)
    if is_sum(arrays) and type(estimator).__name__ in SUMS:
        estimator.model_ = sum_of(arrays)
    else:
        estimator.model_ = model_of(type(estimator)._model_class, arrays)
    model = estimator.model_
    n_features = _require(
        document.get("n_features"), lambda v: v == model.n_features, "the number of features"
    )
    # Of a data frame that was encoded, the columns are counted, not the features.
    is_encoded = document.get("preparation") is not None
    estimator.n_features_in_ = _require(
        document.get("n_columns", n_features),
        lambda v: v == n_features or (is_encoded and type(v) is int and v > 0),
        "the number of columns",
    )
    facts = _require(document.get("facts"), lambda v: isinstance(v, dict), "the facts")
    for name, value in facts.items():
        setattr(estimator, name, _require(value, FACTS.get(name, _never), f"the fact {name!r:.40}"))
    if "status_" in facts:
        estimator.status_ = _status(facts["status_"])
    names = document.get("feature_names")
    if names is not None:
        _require(names, lambda v: _are_words(v, estimator.n_features_in_), "the feature names")
        estimator.feature_names_in_ = np.array(names, object)
    H = getattr(model, "n_hidden", 0)
    for name, shape in INTEGERS.items():
        if name in arrays:
            fit = (H,) if shape == "H" else None
            setattr(estimator, f"{name}_", _array(arrays, name, np.int64, fit))
            if (getattr(estimator, f"{name}_") < 0).any():
                raise FileError(f"the array {name!r} has a number below 0")
    for name in COURSES:
        if name in arrays:
            setattr(estimator, f"{name}_", _array(arrays, name, np.float64))
    residuals = getattr(estimator, "residuals_", None)
    if residuals is not None and not (
        residuals.size
        and np.isfinite(residuals).all()
        and residuals[0] >= 0
        and (np.diff(residuals) >= 0).all()
    ):
        raise FileError("the array 'residuals' does not hold finite numbers >= 0 in order")
    if "scale" in arrays:
        estimator.scale_ = _array(arrays, "scale", np.float64, (model.n_features,))
        if not (np.isfinite(estimator.scale_).all() and (estimator.scale_ > 0).all()):
            raise FileError("the array 'scale' is not all positive and finite")
    if "importances" in arrays:
        shares = _array(arrays, "importances", np.float64, (model.n_features,))
        if not ((shares >= 0).all() and shares.sum() <= 1.0 + 1e-9):
            raise FileError("the array 'importances' does not hold shares that sum to 1")
        estimator.feature_importances_ = shares
    _rebuild_sum(estimator, arrays)
    if document.get("search") is not None:
        estimator.search_ = _search(document["search"])
    if document.get("preparation") is not None:
        estimator.preparation_ = _preparation(document["preparation"], model.n_features)
    if is_classifier(estimator):
        _rebuild_classifier(estimator, document, arrays)
    else:
        _rebuild_regressor(estimator, document)
    for name in _needed(estimator):
        if not hasattr(estimator, name):
            raise FileError(f"its {name} is missing")
    if document.get("validation") is not None:
        labels = [str(c) for c in estimator.classes_] if is_classifier(estimator) else None
        estimator.validation_ = check_validation(document["validation"], labels)
    return estimator


def _needed(estimator: Any) -> list[str]:
    """Fitted attributes that an estimator has whatever its training was."""
    names = []
    own = "term_means_" if isinstance(estimator.model_, AdditiveLMM) else "slope_"
    if is_classifier(estimator):
        names += ["n_iter_", "status_", "max_loss_", "mean_loss_"]
    if isinstance(estimator, BaseLMMClassifier):
        names += [own, "scale_", "unit_wins_", "feature_importances_"]
    if isinstance(estimator, LMMClassifier):
        names += ["temperature_"]
    if isinstance(estimator, LMMRegressor):
        learned = not hasattr(estimator, "interpolates_")
        names += [
            "bounds_" if isinstance(estimator.model_, AdditiveLMM) else "slope_",
            *(["n_iter_", "status_", "residual_quantiles_"] if learned else ["lipschitz_"]),
        ]
    return names


def unfitted(document: dict[str, Any]) -> Any:
    """An estimator with the document's hyper-parameters, not fitted yet."""
    cls = ESTIMATORS.get(str(document.get("estimator")))
    if cls is None:
        raise FileError(f"there is no estimator {document.get('estimator')!r:.40}")
    parameters = _require(
        document.get("parameters"), lambda v: isinstance(v, dict), "the parameters"
    )
    try:
        estimator = cls(**parameters_from_json(parameters))
        estimator._check_parameters()
    except (TypeError, ValueError) as error:
        raise FileError(f"its parameters do not fit {cls.__name__}: {error}") from None
    return estimator


def model_of(kind: type[Model], arrays: dict[str, NDArray]) -> Model:
    """A model of a kind from its weights; they must be finite, of one float type, and fit."""
    prefix = "model."
    weights = {
        name.removeprefix(prefix): A for name, A in arrays.items() if name.startswith(prefix)
    }
    try:
        model = kind.of_weights(weights)
    except ValueError as error:
        raise FileError(str(error)) from None
    for name, W in weights.items():
        if np.abs(W).max(initial=0.0) > LARGEST_WEIGHT * np.finfo(model.dtype).max:
            raise FileError(f"the weights {name} are so large that scores overflow")
    return model


def history_of(arrays: dict[str, NDArray]) -> History:
    """The history; FileError if its columns differ in length. Samples that are not kept are −1."""
    if "history.sample" not in arrays and "history.loss" in arrays:
        unknown = np.full(arrays["history.loss"].shape, -1, np.int64)
        arrays = {**arrays, "history.sample": unknown}
    columns = {
        name: _array(arrays, f"history.{name}", kind)
        for name, kind in zip(History.columns, (np.float64, np.int64, np.float64), strict=True)
    }
    if len({len(column) for column in columns.values()}) > 1:
        raise FileError("the history's columns differ in length")
    return History.of(columns)


def _status(words: str) -> str:
    """The code; files from before there were codes have its sentence."""
    try:
        return Status.of(words).value
    except ValueError:
        raise FileError(f"the fact 'status_' cannot be {words!r:.60}") from None


def _preparation(record: Any, n_features: int) -> Preparation:
    try:
        preparation = Preparation.from_json(record)
    except ValueError as error:
        raise FileError(str(error)) from None
    n = len(preparation.feature_names)
    if n != n_features:
        raise FileError(f"its columns make {n} features, but the model has {n_features}")
    return preparation


def _rebuild_classifier(estimator: Any, document: dict, arrays: dict[str, NDArray]) -> None:
    estimator.classes_ = read_classes(document)
    if len(estimator.classes_) != estimator.model_.n_classes:
        raise FileError(f"the classes are not {estimator.model_.n_classes}, as the model's")
    if isinstance(estimator, SubgradientClassifier):
        estimator.history_ = history_of(arrays)
        estimator._began_with = estimator._beginnings()
    if "training.labels" not in arrays:
        estimator.training_summary_ = _training_summary(document, CLASS_SUMMARY)
        counts = estimator.training_summary_["class_counts"]
        n = estimator.training_summary_["n_rows"]
        if len(counts) != len(estimator.classes_) or sum(counts) != n:
            raise FileError("the summary of the training has other classes or rows than the model")
        if estimator.training_summary_["n_below_log2"] > n:
            raise FileError("the summary of the training has more rows below log 2 than rows")
        return
    codes = _array(arrays, "training.labels", np.int64)
    if codes.size and not (codes.min() >= 0 and codes.max() < len(estimator.classes_)):
        raise FileError("a training label is not one of the classes")
    estimator.training_labels_ = estimator.classes_[codes]
    estimator.training_losses_ = _array(arrays, "training.losses", np.float64, codes.shape)
    if (getattr(estimator, "suspects_", codes[:0]) >= codes.size).any():
        raise FileError("a suspect is not one of the training samples")


def _rebuild_regressor(estimator: Any, document: dict) -> None:
    estimator.training_summary_ = _training_summary(document, TARGET_SUMMARY)
    is_sum_of_terms = isinstance(estimator.model_, AdditiveLMM)
    if estimator.model_.n_classes != (2 if is_sum_of_terms else 1):
        raise FileError(f"a regression cannot have {estimator.model_.n_classes} outputs")
    if hasattr(estimator, "interpolates_"):
        if is_sum_of_terms:
            raise FileError("a sum of terms cannot interpolate")
        return
    quantiles = getattr(estimator, "residual_quantiles_", np.empty(0))
    ascending = bool((quantiles[:-1] <= quantiles[1:]).all())
    is_good = ascending and bool((quantiles >= 0).all())
    if quantiles.shape != COVERAGES.shape or not is_good:
        raise FileError("the array 'residual_quantiles' is missing or not ascending")


def _rebuild_sum(estimator: Any, arrays: dict[str, NDArray]) -> None:
    """Mean scores of terms, and the bounds of a regression's predictions."""
    model = estimator.model_
    if isinstance(model, AdditiveLMM) and "term_means" in arrays:
        shape = (len(model.terms), model.n_classes)
        means = arrays["term_means"]
        if means.dtype != np.float64 or means.shape != shape:
            raise FileError(f"the array 'term_means' is not of shape {shape}")
        if not (np.abs(means) <= LARGEST_WEIGHT * np.finfo(np.float64).max / shape[0]).all():
            raise FileError("the array 'term_means' is not finite or too large")
        estimator.term_means_ = means
    if "bounds" in arrays:
        low, high = _array(arrays, "bounds", model.dtype, (2,))
        if not (np.isfinite([low, high]).all() and low <= high):
            raise FileError("the array 'bounds' does not hold two finite numbers in order")
        estimator.bounds_ = arrays["bounds"]


def _search(record: Any) -> dict[str, Any]:
    """Return what was tried before a training; FileError if it cannot be."""
    names = {"candidates", "losses", "chosen"}
    _require(
        record, lambda v: isinstance(v, dict) and names <= {*v} <= {*names, "scores"},
        "what was searched",
    )  # fmt: skip
    K = len(record["candidates"]) if isinstance(record["candidates"], list) else 0
    _require(record["candidates"], lambda v: K > 0 and _are_words(v, K), "the candidates")
    _require(record["chosen"], lambda v: type(v) is int and 0 <= v < K, "the chosen candidate")
    tables = {"candidates": np.array(record["candidates"])}
    for name in ("losses", "scores"):
        if name in record:
            rows = _require(record[name], lambda v: _are_rows(v, K), f"the {name} of candidates")
            tables[name] = np.array(rows, np.float64)
    return {**record, **tables}


def _training_summary(document: dict, checks: dict[str, Callable[[Any], bool]]) -> dict[str, Any]:
    """Counts and means of the training rows; FileError if they cannot be."""
    record = _require(
        document.get("training"), lambda v: isinstance(v, dict) and {*v} == {*checks},
        "the summary of the training",
    )  # fmt: skip
    for name, is_good in checks.items():
        _require(record[name], is_good, f"{name!r} in the summary of the training")
    return record


def read_classes(document: dict[str, Any]) -> NDArray:
    """The class labels: different, in ascending order, at least two."""
    try:
        labels = labels_from_json(document.get("classes"))
        ordered = len(labels) >= 2 and bool((labels[:-1] < labels[1:]).all())
    except (ValueError, TypeError) as error:
        raise FileError(f"the classes cannot be read: {error}") from None
    if not ordered:
        raise FileError("the classes are not two or more different labels in order")
    return labels


def _array(
    arrays: dict[str, NDArray], name: str, dtype: type, shape: tuple[int, ...] | None = None
) -> NDArray:
    array = arrays.get(name)
    if array is None or array.dtype != dtype or array.ndim != 1:
        raise FileError(f"the array {name!r} is missing or of another type")
    if shape is not None and array.shape != shape:
        raise FileError(f"the array {name!r} has shape {array.shape} instead of {shape}")
    return array


def _require(value: Any, is_good: Callable[[Any], bool], what: str) -> Any:
    if not is_good(value):
        raise FileError(f"{what} cannot be {value!r:.60}")
    return value


def _are_words(value: Any, n: int) -> bool:
    return isinstance(value, list) and len(value) == n and all(type(v) is str for v in value)


def _are_rows(value: Any, n: int) -> bool:
    """Whether it is n lists of floats, none of them NaN, of one length >= 1."""
    return (
        isinstance(value, list)
        and len(value) == n
        and all(isinstance(row, list) and 0 < len(row) == len(value[0]) for row in value)
        and all(isinstance(v, float) and not math.isnan(v) for row in value for v in row)
    )


def _never(value: Any) -> bool:
    return False


def _item(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
