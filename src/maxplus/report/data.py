"""Rows of the report, and columns of its what-if form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxplus.explain.domain import number_text
from maxplus.tables import Categorical, Column, Number, RawTable, TableEncoder, UnknownValues

# Maximum number of rows for evaluating rules and computing importances.
MAX_SAMPLED_ROWS = 100_000


@dataclass(frozen=True)
class PageRows:
    """Rows of the report, with optional labels.

    Attributes
    ----------
    X : array of shape (N, P), rows
    y : array of shape (N,), true labels or target values, or None
    name : name of the table
    numbers : N row numbers; 1, 2, … by default
    ids : N identifiers, or None
    missing : bool array of shape (N, number of columns), mask of missing values, or None
    """

    X: NDArray
    y: NDArray | None
    name: str
    numbers: Sequence[int] | None = None
    ids: Sequence[str] | None = None
    missing: NDArray | None = None

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.X)

    def evenly_spaced(self, n_max: int) -> NDArray:
        """Return the indices of at most ``n_max`` evenly spaced rows."""
        n = self.n
        return np.arange(n) if n <= n_max else np.linspace(0, n - 1, n_max).astype(int)

    def number(self, n: int) -> int:
        """Return the row number of the row with index n."""
        return n + 1 if self.numbers is None else int(self.numbers[n])

    def identifiers(self, n: int) -> dict[str, Any]:
        """Return the number and the identifier of the row with index n."""
        return {"row": self.number(n), "id": None if self.ids is None else str(self.ids[n])}


def editable_columns(
    encoder: TableEncoder | None, feature_names: Sequence[str]
) -> list[dict[str, Any]]:
    """Return the allowed values of each column, with their encoded features.

    Each column has the keys ``name``, ``first`` (the index of its first feature) and ``missing``
    (the encoding of a missing value, or None if missing values are not allowed). Categorical and
    two-valued columns have ``choices`` with ``text`` and encoded ``values``. Other numeric columns
    have ``low`` and ``high`` (the range in training, or None), ``whole`` (integers only) and
    ``rest`` (the features after the first, for a value that is not missing). Without an encoder,
    every feature is a numeric column.
    """
    if encoder is None:
        unknown = {"missing": None, "choices": None, "low": None, "high": None}
        return [
            {"name": name, "first": p, **unknown, "whole": False, "rest": []}
            for p, name in enumerate(feature_names)
        ]
    return [
        _column(column, features.start, encoder)
        for column, features in zip(encoder.columns_, encoder.feature_slices, strict=True)
    ]


def _column(column: Column, first: int, encoder: TableEncoder) -> dict[str, Any]:
    """Return the entry of a column whose first feature has the index ``first``."""
    ranges = encoder.ranges_
    entry: dict[str, Any] = {"name": column.name, "first": first, "choices": None}
    empty_cell: Any = (
        np.array([np.nan]) if isinstance(column, Number) else Categorical.from_cells([None])
    )
    entry["missing"] = None if column.fill is None else _features(column, empty_cell)[0]
    if column.values is not None:
        rows = _features(column, Categorical.from_cells(column.values))
        entry["choices"] = _choices(column.values, rows)
    elif ranges.two_valued[first]:
        pair = np.array([ranges.low[first], ranges.high[first]])
        entry["choices"] = _choices([number_text(v) for v in pair], _features(column, pair))
    else:
        entry |= {
            "low": float(ranges.low[first]),
            "high": float(ranges.high[first]),
            "whole": bool(ranges.whole[first]),
            "rest": _features(column, np.zeros(1))[0][1:],
        }
    return entry


def _choices(texts: Sequence[str], rows: list[list[float]]) -> list[dict[str, Any]]:
    return [{"text": text, "values": row} for text, row in zip(texts, rows, strict=True)]


def _features(column: Column, cells: NDArray | Categorical) -> list[list[float]]:
    """Encode cells of a column with the encoder of the model."""
    if isinstance(column, Number) and column.from_text:
        cells = Categorical.from_cells(cells.tolist())
    out = np.zeros((len(cells), len(column.features)))
    column.encode(RawTable("", {column.name: cells}), out, UnknownValues())
    return out.tolist()


def column_of_features(estimator: Any, feature_names: Sequence[str]) -> list[str]:
    """Return the name of the column from which each feature is derived."""
    encoder = getattr(estimator, "encoder_", None)
    if encoder is None:
        return list(feature_names)
    return [column.name for column in encoder.columns_ for _ in column.features]
