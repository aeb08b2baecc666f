"""Functions that save fitted estimators to model files and load them.

The arrays of a sum of terms are concatenated: term t has the features
``features[feature_start[t] : feature_start[t + 1]]`` and the units ``unit_start[t]`` to
``unit_start[t + 1]``. ``W0``, ``W1`` (unit by unit) and ``W2`` contain the weights of all terms, in
order. ``knot_start`` (P + 1,), ``knot_x`` and ``knot_u`` define the feature map; without a map
there are no knots.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

import maxplus
from maxplus import estimators
from maxplus.distributed import current
from maxplus.estimators._base import training_summary
from maxplus.estimators.subgradient_classifiers import BaseSubgradientClassifier
from maxplus.io.container import FileError, read_container, write_container
from maxplus.io.schema import (
    CLASS_SUMMARY,
    FITTED,
    LARGEST_WEIGHT,
    NESTED,
    TARGET_SUMMARY,
    check,
    check_validation,
    is_positive,
    is_text,
    labels_to_json,
    parameters_from_json,
    parameters_to_json,
    read_array,
    read_attributes,
    read_classes,
    read_history,
    read_search,
    write_attributes,
)
from maxplus.models import LMM, AdditiveLMM, FeatureMap, Model, Network, Term
from maxplus.tables import TableEncoder
from maxplus.training import History

KIND = "maxplus-model"
ESTIMATORS = {name: getattr(estimators, name) for name in FITTED}
# Prefix of the names of a model's arrays.
PREFIX = "model."
# Fields of a validation record that list individual training rows.
ROW_LISTS = ("least_confident", "highest_loss")


def save(
    estimator: Any, path: str | os.PathLike[str], *, notes: Any = None, remember_rows: bool = False
) -> None:
    """Save a fitted estimator to a file.

    Parameters
    ----------
    estimator : estimator
        Fitted maxplus estimator.
    path : str or path
        Name of the file. An existing file is replaced atomically.
    notes : JSON value, optional
        Data to store in the file.
    remember_rows : bool, default=False
        If True, also save data about individual training rows, which discloses them.

    Raises
    ------
    TypeError
        If the estimator is not a maxplus estimator.
    ValueError
        If a parameter cannot be stored, or if the notes, names and labels are too large.

    Notes
    -----
    The file includes ``encoder_`` (a `maxplus.tables.TableEncoder`) and ``validation_`` (see
    `maxplus.evaluation.Validation.to_json`), if the estimator has them.

    By default, the labels and losses of the training rows are replaced by counts and means. With
    ``remember_rows``, the file contains the labels and losses, ``suspects_``, ``residuals_``, the
    samples in ``history_``, the rows listed in ``validation_``, and the row hashes in
    ``training_rows_``, which ``maxplus train --remember-rows`` computes. The hashes reveal whether
    a given row was in the training set. SECURITY.md lists the data that every file discloses.

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
            f"estimator must be one of {', '.join(ESTIMATORS)}; got {name}; for a pipeline, use "
            "joblib or skops"
        )
    document, arrays = serialize(estimator, remember_rows)
    document["notes"] = notes
    # Only rank 0 writes.
    if current().is_root:
        write_container(path, KIND, document, arrays)


def load(path: str | os.PathLike[str]) -> Any:
    """Load a fitted estimator from a file written by `maxplus.io.save`.

    Loading executes no code. All shapes, types and values are checked.

    Parameters
    ----------
    path : str or path
        Name of the file.

    Returns
    -------
    estimator
        Estimator with the same predictions, bit for bit. Parameters that a file cannot store, such
        as callbacks, are None. Attributes about individual training rows are available only if it
        was saved with ``remember_rows=True``.

    Raises
    ------
    FileError
        If the file is damaged, of another kind, of a later version or too large.
    OSError
        If the file cannot be opened.

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
    """Return a fitted estimator and the notes that were saved with it."""
    document, arrays = read_container(path, KIND)
    try:
        return deserialize(document, arrays), document.get("notes")
    except FileError as error:
        raise FileError(f"{path} is damaged: {error}") from None


def serialize(
    estimator: Any, remember_rows: bool = False
) -> tuple[dict[str, Any], dict[str, NDArray]]:
    """Return a fitted estimator as a JSON document and named arrays.

    Data about individual training rows are included only with ``remember_rows``.
    """
    check_is_fitted(estimator, "model_")
    model: Network = estimator.model_
    attributes, arrays = write_attributes(estimator, remember_rows)
    document: dict[str, Any] = {
        "estimator": type(estimator).__name__,
        "library": maxplus.__version__,
        "parameters": parameters_to_json(estimator),
        "attributes": attributes,
        "n_features": model.n_features,
        "n_columns": estimator.n_features_in_,
    }
    arrays |= {PREFIX + name: W for name, W in network_to_arrays(model).items()}
    if hasattr(estimator, "feature_names_in_"):
        document["feature_names"] = [str(name) for name in estimator.feature_names_in_]
    if hasattr(estimator, "search_"):
        document["search"] = {
            name: np.asarray(value).tolist() for name, value in estimator.search_.items()
        }
    encoder = getattr(estimator, "encoder_", None)
    if encoder is not None:
        document["encoder"] = encoder.to_json()
    if getattr(estimator, "validation_", None) is not None:
        document["validation"] = _validation(estimator.validation_, remember_rows)
    if hasattr(estimator, "classes_"):
        document["classes"] = labels_to_json(estimator.classes_)
    if remember_rows and hasattr(estimator, "training_losses_"):
        codes = np.searchsorted(estimator.classes_, estimator.training_labels_)
        arrays["training.labels"] = codes.astype(np.int64)
        arrays["training.losses"] = estimator.training_losses_
    else:
        document["training"] = dict(training_summary(estimator))
    if hasattr(estimator, "history_"):
        # Losses without sample indices do not reveal individual rows.
        names = [name for name in History.columns if remember_rows or name != "sample"]
        arrays |= {f"history.{name}": estimator.history_[name] for name in names}
    return document, arrays


def _validation(record: dict[str, Any], remember_rows: bool) -> dict[str, Any]:
    """Return a validation record for a file, without individual rows unless ``remember_rows``."""
    if remember_rows:
        return record
    kept = {name: value for name, value in record.items() if name not in ROW_LISTS}
    if "worst" in record["metrics"]:
        kept["metrics"] = {**record["metrics"], "worst": None}
    return kept


def deserialize(document: dict[str, Any], arrays: dict[str, NDArray]) -> Any:
    """Invert `serialize`; raise FileError if the content is invalid."""
    estimator = unfitted_estimator(document)
    model = estimator.model_ = network_from_arrays(estimator, arrays)
    encoder = document.get("encoder")
    n_features = document.get("n_features")
    n_columns = check(document.get("n_columns"), is_positive, "n_columns")
    # The columns of a data frame may be encoded as a different number of features.
    if n_features != model.n_features or (encoder is None and n_columns != n_features):
        raise FileError(f"the number of features cannot be {n_features!r:.40}")
    estimator.n_features_in_ = n_columns
    read_attributes(estimator, document.get("attributes"), arrays)
    names = document.get("feature_names")
    if names is not None:
        if len(check(names, [is_text], "feature_names")) != n_columns:
            raise FileError(f"feature_names must have {n_columns} names, one for each column")
        estimator.feature_names_in_ = np.array(names, object)
    if document.get("search") is not None:
        estimator.search_ = read_search(document["search"])
    if encoder is not None:
        estimator.encoder_ = _encoder(encoder, model.n_features)
    labels = None
    if is_classifier(estimator):
        _deserialize_classifier(estimator, document, arrays)
        labels = [str(label) for label in estimator.classes_]
    else:
        _deserialize_regressor(estimator, document)
    if document.get("validation") is not None:
        estimator.validation_ = check_validation(document["validation"], labels)
    return estimator


def unfitted_estimator(document: dict[str, Any]) -> Any:
    """Return an unfitted estimator with the parameters of a document."""
    cls = ESTIMATORS.get(str(document.get("estimator")))
    if cls is None:
        raise FileError(f"it has the unknown estimator {document.get('estimator')!r:.40}")
    parameters = check(document.get("parameters"), {}, "parameters")
    try:
        values = parameters_from_json(parameters)
        nested = {
            name.removeprefix(NESTED): values.pop(name)
            for name in list(values)
            if name.startswith(NESTED)
        }
        if nested:
            values["estimator"] = estimators.LMMClassifier(**nested)
        estimator = cls(**values)
        estimator._check_parameters()
    except (TypeError, ValueError) as error:
        raise FileError(f"its parameters are invalid for {cls.__name__}: {error}") from None
    return estimator


def _encoder(record: Any, n_features: int) -> TableEncoder:
    try:
        encoder = TableEncoder.from_json(record)
    except ValueError as error:
        raise FileError(str(error)) from None
    n = len(encoder.feature_names)
    if n != n_features:
        raise FileError(f"its columns are encoded as {n} features, but the model has {n_features}")
    return encoder


def _deserialize_classifier(
    estimator: Any, document: dict[str, Any], arrays: dict[str, NDArray]
) -> None:
    estimator.classes_ = read_classes(document.get("classes"))
    C = len(estimator.classes_)
    if estimator.model_.n_classes != C:
        raise FileError(f"it has {C} classes, but its model has {estimator.model_.n_classes}")
    if isinstance(estimator, BaseSubgradientClassifier):
        estimator.history_ = read_history(arrays)
        estimator._initialized_with = estimator._init_values()
    if "training.labels" not in arrays:
        summary = check(document.get("training"), CLASS_SUMMARY, "training")
        n, counts = summary["n_rows"], summary["class_counts"]
        if len(counts) != C or sum(counts) != n or summary["n_below_log2"] > n:
            raise FileError(f"training is not a summary of {n} rows of {C} classes")
        estimator.training_summary_ = summary
        return
    codes = read_array(arrays, "training.labels", np.int64)
    if codes.size and not (codes.min() >= 0 and codes.max() < C):
        raise FileError("a training label is not one of the classes")
    estimator.training_labels_ = estimator.classes_[codes]
    estimator.training_losses_ = read_array(
        arrays, "training.losses", np.float64, shape=codes.shape
    )
    if (getattr(estimator, "suspects_", codes[:0]) >= codes.size).any():
        raise FileError("a suspect is not one of the training samples")


def _deserialize_regressor(estimator: Any, document: dict[str, Any]) -> None:
    estimator.training_summary_ = check(document.get("training"), TARGET_SUMMARY, "training")
    is_sum, model = isinstance(estimator, estimators.LMMRegressor), estimator.model_
    if model.is_sum != is_sum or model.n_classes != (2 if is_sum else 1):
        kind = type(model).__name__
        raise FileError(f"a regressor cannot have a {kind} with {model.n_classes} outputs")


# -- arrays of a model -----------------------------------------------------------


def network_to_arrays(model: Network) -> dict[str, NDArray]:
    """Return the weights of a model as named arrays."""
    if not isinstance(model, AdditiveLMM):
        return model.weights_by_name()
    features, lmms = zip(*model.terms, strict=True)
    knots = np.zeros(model.n_features + 1, np.int64), np.empty(0), np.empty(0)
    if model.feature_map is not None:
        knots = model.feature_map.starts, model.feature_map.x, model.feature_map.u
    return {
        "feature_start": np.cumsum([0, *(lmm.n_features for lmm in lmms)]).astype(np.int64),
        "features": np.concatenate(features).astype(np.int64),
        "unit_start": np.cumsum([0, *(lmm.n_hidden for lmm in lmms)]).astype(np.int64),
        "knot_start": knots[0].astype(np.int64),
        "knot_x": knots[1],
        "knot_u": knots[2],
        "intercept": model.intercept,
        "W0": np.concatenate([lmm.W0 for lmm in lmms]),
        "W1": np.concatenate([lmm.W1.T.ravel() for lmm in lmms]),
        "W2": np.concatenate([lmm.W2 for lmm in lmms]),
    }


def network_from_arrays(estimator: Any, arrays: dict[str, NDArray]) -> Network:
    """Return the model of an estimator; raise FileError if its weights are not valid."""
    kind: type[Model] = type(estimator)._model_class
    weights = {
        name.removeprefix(PREFIX): A for name, A in arrays.items() if name.startswith(PREFIX)
    }
    # Only estimators with the attribute `term_means_` can have a sum of terms.
    is_sum = "features" in weights and "term_means_" in FITTED[type(estimator).__name__]
    try:
        model: Network = _sum_from_arrays(weights) if is_sum else kind.from_weights(weights)
    except ValueError as error:
        raise FileError(str(error)) from None
    _check_range(model)
    return model


def _sum_from_arrays(weights: dict[str, NDArray]) -> AdditiveLMM:
    """Invert `network_to_arrays` for a sum; raise ValueError if it is not valid."""
    features, feature_start, unit_start, knot_start = (
        read_array(weights, name, np.int64)
        for name in ("features", "feature_start", "unit_start", "knot_start")
    )
    dtype = getattr(weights.get("W0"), "dtype", None)
    W0, W1, intercept = (read_array(weights, name, dtype) for name in ("W0", "W1", "intercept"))
    W2 = read_array(weights, "W2", dtype, n_axes=2)
    term_features = _split("feature_start", feature_start, features)
    term_W2 = _split("unit_start", unit_start, W2)
    if len(term_features) != len(term_W2):
        raise FileError("feature_start and unit_start have different numbers of terms")
    offset_start = np.cumsum([0, *(2 * np.diff(feature_start) * np.diff(unit_start))])
    terms = [
        Term(features_t, LMM(W0_t, W1_t.reshape(-1, W0_t.size).T, W2_t))
        for features_t, W0_t, W1_t, W2_t in zip(
            term_features,
            _split("W0", 2 * feature_start, W0),
            _split("W1", offset_start, W1),
            term_W2,
            strict=True,
        )
    ]
    return AdditiveLMM(terms, knot_start.size - 1, _feature_map(knot_start, weights), intercept)


def _feature_map(starts: NDArray, weights: dict[str, NDArray]) -> FeatureMap | None:
    x, u = (read_array(weights, name, np.float64) for name in ("knot_x", "knot_u"))
    if starts.size and not starts.any() and not x.size:
        return None
    parts = (_split("knot_start", starts, values) for values in (x, u))
    return FeatureMap(list(zip(*parts, strict=True)))


def _split(name: str, starts: NDArray, values: NDArray) -> list[NDArray]:
    """Split an array at ``starts``; raise FileError if a part is empty."""
    is_increasing = starts.size >= 2 and starts[0] == 0 and (starts[1:] > starts[:-1]).all()
    if not is_increasing or starts[-1] != len(values):
        raise FileError(f"the array {name!r} does not divide {len(values)} values into parts")
    return np.split(values, starts[1:-1])


def _check_range(model: Network) -> None:
    """Raise FileError if a weight or knot is not finite or so large that scores could overflow."""
    lmms = [lmm for _, lmm in getattr(model, "terms", ())]
    limit = LARGEST_WEIGHT * float(np.finfo(model.dtype).max) / max(1, len(lmms))
    for name, W in model.weights_by_name().items():
        if not np.isfinite(W).all():
            raise FileError(f"the weights {name} are not all finite")
        if np.abs(W).max() > limit:
            raise FileError(f"the weights {name} are so large that scores could overflow")
    feature_map = getattr(model, "feature_map", None)
    if feature_map is None:
        return
    steepest = max(float(np.abs(lmm.W0).max()) for lmm in lmms)
    x, u = (float(np.abs(A).max()) for A in (feature_map.x, feature_map.u))
    if max(1.0, steepest) * u > limit or x > LARGEST_WEIGHT * np.finfo(np.float64).max:
        raise FileError("the knots of the feature map are so large that scores could overflow")
