"""Rows that a page is about, and columns as a reader edits them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxplus.explain.domain import number_text
from maxplus.tables import Categorical, Column, Number, RawTable, TableEncoder, UnknownValues

# Most rows on which rules, and importances that are not stored, are counted.
MOST_COUNTED = 100_000


@dataclass(frozen=True)
class PageRows:
    """Rows that a page is about, labelled or not.

    Attributes
    ----------
    X : rows (N, P)
    y : true labels or numbers (N,), or None
    name : of the table
    numbers : N row numbers as people count them; from 1 by default
    ids : N identifiers, or None
    missing : which columns each row lacked, (N, columns) of bool, or None
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

    def some(self, most: int) -> NDArray:
        """Return the indices of at most ``most`` rows, at even distances."""
        n = self.n
        return np.arange(n) if n <= most else np.linspace(0, n - 1, most).astype(int)

    def number(self, n: int) -> int:
        """Return the number of row n as people count."""
        return n + 1 if self.numbers is None else int(self.numbers[n])

    def name_of(self, n: int) -> dict[str, Any]:
        """Return the number and the identifier of row n."""
        return {"row": self.number(n), "id": None if self.ids is None else str(self.ids[n])}

    def lacks(self, n: int) -> list[int]:
        """Return the columns that row n had no value for."""
        return [] if self.missing is None else np.flatnonzero(self.missing[n]).tolist()


def editable_columns(
    encoder: TableEncoder | None, feature_names: Sequence[str]
) -> list[dict[str, Any]]:
    """Return what each column may be changed to, with the features that this gives.

    A column has ``name``, its ``first`` feature, and ``missing``: its features where the value is
    missing, None where it may not be. A column of words or of two numbers has ``choices``, each a
    ``text`` and ``values``, its features; another number has ``low`` and ``high``, the least and
    largest in training, None if unknown, ``whole``, and ``rest``: its further features.
    Without an encoder every feature is a number.
    """
    if encoder is None:
        return [
            {
                "name": name,
                "first": p,
                "missing": None,
                "choices": None,
                "low": None,
                "high": None,
                "whole": False,
                "rest": [],
            }
            for p, name in enumerate(feature_names)
        ]
    return [
        _column(column, place.start, encoder)
        for column, place in zip(encoder.columns_, encoder.places, strict=True)
    ]


def _column(column: Column, first: int, encoder: TableEncoder) -> dict[str, Any]:
    ranges = encoder.ranges_
    about: dict[str, Any] = {"name": column.name, "first": first, "choices": None}
    lacking: Any = np.array([np.nan]) if isinstance(column, Number) else Categorical.of([None])
    about["missing"] = None if column.fill is None else _features(column, lacking)[0]
    if column.values is not None:
        rows = _features(column, Categorical.of(column.values))
        about["choices"] = _choices(column.values, rows)
    elif ranges.two_valued[first]:
        pair = np.array([ranges.low[first], ranges.high[first]])
        about["choices"] = _choices([number_text(v) for v in pair], _features(column, pair))
    else:
        about |= {
            "low": float(ranges.low[first]),
            "high": float(ranges.high[first]),
            "whole": bool(ranges.whole[first]),
            "rest": _features(column, np.zeros(1))[0][1:],
        }
    return about


def _choices(texts: Sequence[str], rows: list[list[float]]) -> list[dict[str, Any]]:
    return [{"text": text, "values": row} for text, row in zip(texts, rows, strict=True)]


def _features(column: Column, cells: NDArray | Categorical) -> list[list[float]]:
    """Return the features of some cells by the model's own encoding."""
    if isinstance(column, Number) and column.from_text:
        cells = Categorical.of(cells.tolist())
    out = np.zeros((len(cells), len(column.features)))
    column.encode(RawTable("", {column.name: cells}), out, UnknownValues())
    return out.tolist()


def column_of_features(encoder: TableEncoder | None, feature_names: Sequence[str]) -> list[str]:
    """Return the name of the column that each feature is made of."""
    if encoder is None:
        return list(feature_names)
    return [column.name for column in encoder.columns_ for _ in column.features]
