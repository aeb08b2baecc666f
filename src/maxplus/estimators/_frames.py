"""Data frames with words, dates and missing values become numbers at the door, in one way.

The tables' room is loaded when a data frame comes, not before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from maxplus.tables import Preparation

PREPARATION = "preparation_"


def prepared(
    estimator: Any, X: Any, y: Any, task: str, *, goes_on: bool = False
) -> tuple[Any, dict[str, Preparation]]:
    """What a fit is given, as numbers, and how it became so, as a fitted attribute.

    Arrays and data frames of numbers without holes stay as they are, unless choices come with
    them (`maxplus.tables.ColumnChoices.on`). A training that goes on from an earlier one
    (``goes_on``) keeps what that one decided.

    Parameters
    ----------
    task : "classification" or "regression"
    """
    known = getattr(estimator, PREPARATION, None) if goes_on else None
    if known is not None:
        return as_numbers(estimator, X), {PREPARATION: known}
    if not _has_columns(X):
        return X, {}
    from maxplus.tables import ColumnChoices, Preparation, is_plain, label_name, table_of

    table = table_of(X)
    chosen = table.choices
    if chosen is None and is_plain(table):
        return X, {}
    chosen = chosen or ColumnChoices()
    choices = chosen._replace(target=chosen.target or label_name(y, table), task=task)
    preparation = Preparation.of(table, choices, scale=False, labels_apart=True)
    return preparation.encoding.encode(table).X, {PREPARATION: preparation}


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
