"""Encoding of data frames for `fit` and `predict`.

`maxplus.tables` is imported only if a data frame is passed.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxplus.distributed import SERIAL, Communicator, using
from maxplus.estimators._parameters import warn_user

ENCODER = "encoder_"
# Fitted attributes of scikit-learn about the input columns.
COLUMNS = ("n_features_in_", "feature_names_in_")


def encode_frame(
    estimator: Any, X: Any, y: Any, task: str, *, continues: bool = False
) -> tuple[Any, dict[str, Any]]:
    """Return numeric features, and the fitted attributes about the columns.

    Arrays, and data frames of numbers without missing values, are returned unchanged and without
    attributes, unless they have an encoder (`maxplus.tables.TableEncoder.attach`). An encoder that
    is already fitted, or that of the estimator if training ``continues``, is not fitted again.
    """
    if continues and getattr(estimator, ENCODER, None) is not None:
        names = (ENCODER, *COLUMNS)
        known = {name: getattr(estimator, name) for name in names if hasattr(estimator, name)}
        return numeric_features(estimator, X), known
    if not _has_columns(X):
        _check_no_text(X, "pass a data frame, whose text columns are encoded")
        return X, {}
    from sklearn.base import clone

    from maxplus.tables import TableEncoder, Target, table_of
    from maxplus.tables.schema import label_name

    table = table_of(X)
    if not table.columns and table.encoded is None:
        raise ValueError("the data frame has no columns; a model requires at least one")
    encoder = table.encoder
    if encoder is None and table.is_numeric_and_complete:
        return X, {}
    if encoder is None or not hasattr(encoder, "columns_"):
        encoder = TableEncoder() if encoder is None else clone(encoder)
        # Each rank infers a schema from its own data frame. `fit` compares them later.
        with using(SERIAL):
            encoder.fit(X, y)
        encoder.target_ = Target(label_name(y, table), task)
        _warn_of_uninformative_columns(encoder, table)
    fitted = {ENCODER: encoder, **{n: v for n, v in vars(encoder).items() if n in COLUMNS}}
    return encoder.encode(table).X if table.encoded is None else table.encoded, fitted


def _warn_of_uninformative_columns(encoder: Any, table: Any) -> None:
    """Warn about text columns that ``drop="auto"`` would drop, except constant ones."""
    from maxplus.tables.schema import NO_VALUES, SAME_VALUE, reason_to_drop

    for column in encoder.columns_:
        name, reason = column.name, None
        if column.kind != "number":
            reason = reason_to_drop(name, table.feature(name))
        if reason is None or reason.startswith(SAME_VALUE):
            continue
        if reason == NO_VALUES:
            warn_user(f"the column {name!r} has only missing values and is ignored")
        elif name not in (*encoder.categorical, *encoder.keep):
            warn_user(
                f"the column {name!r} contains {reason}, and is not informative for new samples; "
                "drop it, or convert it to numbers or categories"
            )


def encoders_differ(comm: Communicator, columns: Mapping[str, Any]) -> bool:
    """Return whether the encoders of the ranks differ."""
    encoders = comm.allgather(columns[ENCODER].to_json() if ENCODER in columns else None)
    return any(encoder != encoders[0] for encoder in encoders)


def change_of_features(
    columns: Mapping[str, Any], robust_eps: Mapping[Any, float | str], n_features: int
) -> NDArray:
    """Convert the largest changes of columns in ``robust_eps`` to changes of features.

    The change is a number for a numeric column, and "any" for a categorical or ordinal column.
    """
    encoder = columns.get(ENCODER)
    if encoder is None:
        names = columns.get("feature_names_in_")
        if names is None:
            raise ValueError(
                "robust_eps is a dict, but X has no column names; pass a data frame, or set "
                "robust_eps to an array with a number for each feature"
            )
        features = {name: slice(p, p + 1) for p, name in enumerate(names)}
        largest: dict[Any, float] = {}
    else:
        from maxplus.tables.columns import Number, Ordinal

        parts = list(zip(encoder.columns_, encoder.feature_slices, strict=True))
        # A missing-value indicator, which is the last feature of its column, does not change.
        features = {
            column.name: slice(part.start, part.stop - bool(column.indicator))
            for column, part in parts
        }
        largest = {
            column.name: len(column.values) - 1.0 if isinstance(column, Ordinal) else 1.0
            for column, _ in parts
            if not isinstance(column, Number)
        }
    changes = np.zeros(n_features)
    for name, size in robust_eps.items():
        if name not in features:
            raise ValueError(
                f"robust_eps has the column {name!r}, which does not exist; X has "
                f"the columns {', '.join(list(features)[:20])}"
            )
        if (size == "any") != (name in largest):
            kind, remedy = ("categories", "'any'") if name in largest else ("numbers", "a number")
            raise ValueError(
                f"robust_eps has {size!r} for the column {name!r}, which holds {kind}; set it to "
                f"{remedy}, or remove it to keep the column fixed"
            )
        changes[features[name]] = float(largest.get(name, size))
    return changes


def for_encoded_features(estimator: Any) -> Any:
    """Return an estimator whose attributes about the input describe the encoded features.

    If it has an encoder, a modified copy is returned, because ``n_features_in_`` and
    ``feature_names_in_`` of the estimator itself describe the data frame that was passed to `fit`.
    """
    if getattr(estimator, ENCODER, None) is None:
        return estimator
    encoded = copy(estimator)
    vars(encoded).pop("feature_names_in_", None)
    encoded.n_features_in_ = estimator.model_.n_features
    return encoded


def numeric_features(estimator: Any, X: Any) -> Any:
    """Return numeric features; data frames are encoded by the fitted encoder."""
    encoder = getattr(estimator, ENCODER, None)
    if encoder is None:
        return X
    if not _has_columns(X):
        remedy = "the model was fitted on a data frame; pass one with the same columns"
        _check_no_text(X, f"{remedy}, such as frame.iloc[[0]] for a single row")
        return X
    from maxplus.tables import UnknownValues, table_of

    table, unknown = table_of(X), UnknownValues()
    features = encoder.encode(table, unknown).X
    unknown.warn(table.name)
    return features


def _check_no_text(X: Any, remedy: str) -> None:
    """Raise ValueError if X contains text that is not a number."""
    values = X if hasattr(X, "dtype") else None
    if values is None and isinstance(X, (list, tuple)):
        try:
            values = np.asarray(X)
        except ValueError:  # `validate_data` explains it.
            return
    if getattr(getattr(values, "dtype", None), "kind", "") not in ("O", "S", "U", "T"):
        return
    for value in np.asarray(values).ravel().tolist():
        if isinstance(value, str) and not is_number(value):
            raise ValueError(f"X contains text, such as {value[:40]!r}; {remedy}")


def is_number(text: str) -> bool:
    """Return whether the text can be converted to a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def missing_mask(estimator: Any, X: Any) -> Any:
    """Return the mask of missing values of a data frame, or None without an encoder."""
    encoder = getattr(estimator, ENCODER, None)
    if encoder is None or not _has_columns(X):
        return None
    from maxplus.tables import table_of

    return encoder.encode(table_of(X)).missing


def _has_columns(X: Any) -> bool:
    if not (hasattr(X, "columns") or hasattr(X, "column_names")):
        return False
    from maxplus.tables import is_frame

    return is_frame(X)
