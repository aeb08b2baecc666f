"""Data frames with words, dates and missing values become numbers at the door, in one way.

`maxplus.tables` is imported when a data frame is passed, not before.
"""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np

from maxplus.estimators._parameters import warn_user

PREPARATION = "preparation_"
# What scikit-learn notes of the columns that `fit` was given.
COLUMNS = ("n_features_in_", "feature_names_in_")


def prepared(
    estimator: Any, X: Any, y: Any, task: str, *, goes_on: bool = False
) -> tuple[Any, dict[str, Any]]:
    """Return X as numbers, and the fitted attributes about its columns.

    Arrays and data frames of numbers without missing values are returned unchanged, with no
    attributes, unless choices come with them (`maxplus.tables.ColumnChoices.on`). Every column
    becomes a feature, but for those that the choices drop by name. A training that goes on from
    an earlier one (``goes_on``) keeps its preparation.

    Parameters
    ----------
    task : "classification" or "regression"
    """
    known = getattr(estimator, PREPARATION, None) if goes_on else None
    if known is not None:
        return as_numbers(estimator, X), {
            name: getattr(estimator, name)
            for name in (PREPARATION, *COLUMNS)
            if hasattr(estimator, name)
        }
    if not _has_columns(X):
        return X, {}
    from maxplus.tables import (
        EVERYTHING,
        ColumnChoices,
        Preparation,
        is_plain,
        label_name,
        table_of,
    )
    from maxplus.tables.leaving_out import NO_VALUES, doubtful

    table = table_of(X)
    chosen = table.choices
    if chosen is None and is_plain(table):
        return X, {}
    chosen = chosen or ColumnChoices()
    target = chosen.target or label_name(y, table)
    choices = chosen._replace(target=target, task=task, keep=(EVERYTHING,))
    preparation = Preparation.of(table, choices, scale=False, labels_apart=True)
    for name, reason in doubtful(table, preparation.encoding.columns):
        if reason == NO_VALUES:
            warn_user(f"the column {name!r} has no values to learn from: later ones are ignored")
        elif name not in (*chosen.categorical, *chosen.keep):
            warn_user(
                f"the column {name!r} holds {reason}, which says little about new rows; its most "
                "frequent values are features, so drop it, or make numbers or categories of it"
            )
    return preparation.encoding.encode(table).X, {PREPARATION: preparation, **_columns_of(X)}


def _columns_of(frame: Any) -> dict[str, Any]:
    """scikit-learn's attributes of a frame's columns; names only if all are strings."""
    names = list(frame.column_names if hasattr(frame, "column_names") else frame.columns)
    columns: dict[str, Any] = {"n_features_in_": len(names)}
    if all(isinstance(name, str) for name in names):
        columns["feature_names_in_"] = np.array(names, object)
    return columns


def of_features(estimator: Any) -> Any:
    """Return the estimator with the encoded features as its columns, for scikit-learn's checks.

    ``n_features_in_`` and ``feature_names_in_`` are about the frame that was given to ``fit``.
    """
    if getattr(estimator, PREPARATION, None) is None:
        return estimator
    encoded = copy(estimator)
    vars(encoded).pop("feature_names_in_", None)
    encoded.n_features_in_ = estimator.model_.n_features
    return encoded


def as_numbers(estimator: Any, X: Any) -> Any:
    """What a fitted estimator is asked about: a data frame as it was prepared in training."""
    preparation = getattr(estimator, PREPARATION, None)
    if preparation is None or not _has_columns(X):
        return X
    return preparation.features(X)


def missing_in(estimator: Any, X: Any) -> Any:
    """Which values a data frame lacks, by columns of the preparation; None of anything else."""
    preparation = getattr(estimator, PREPARATION, None)
    return preparation.missing(X) if preparation is not None and _has_columns(X) else None


def _has_columns(X: Any) -> bool:
    if not (hasattr(X, "columns") or hasattr(X, "column_names")):
        return False
    from maxplus.tables import is_frame

    return is_frame(X)
