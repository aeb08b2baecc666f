"""Columns as people edit them: a word, a number or "missing", and the features that it becomes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxplus.explain.domain import number_text
from maxplus.tables import Categorical, Column, Number, RawTable, TableEncoder, UnknownValues


def editable_columns(
    encoder: TableEncoder | None, feature_names: Sequence[str]
) -> list[dict[str, Any]]:
    """What each column may be changed to, with the features that this gives.

    A column has ``name``, its ``first`` feature, and ``missing``: its features where the value is
    missing, None where it may not be. A column of words or of two numbers has ``choices``, each a
    ``text`` and ``values``, its features; another number has ``low`` and ``high``, the least and
    largest in training, None if unknown, ``whole``, and ``rest``: its further features.
    Without an encoder every feature is a number.
    """
    if encoder is None:
        return [
            {"name": name, "first": p, "missing": None, "choices": None,
             "low": None, "high": None, "whole": False, "rest": []}
            for p, name in enumerate(feature_names)
        ]  # fmt: skip
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
            "low": float(ranges.low[first]), "high": float(ranges.high[first]),
            "whole": bool(ranges.whole[first]), "rest": _features(column, np.zeros(1))[0][1:],
        }  # fmt: skip
    return about


def _choices(texts: Sequence[str], rows: list[list[float]]) -> list[dict[str, Any]]:
    return [{"text": text, "values": row} for text, row in zip(texts, rows, strict=True)]


def _features(column: Column, cells: NDArray | Categorical) -> list[list[float]]:
    """What the model's own encoding makes of some cells."""
    if isinstance(column, Number) and column.from_text:
        cells = Categorical.of(cells.tolist())
    out = np.zeros((len(cells), len(column.features)))
    column.encode(RawTable("", {column.name: cells}), out, UnknownValues())
    return out.tolist()


def column_of_features(encoder: TableEncoder | None, feature_names: Sequence[str]) -> list[str]:
    """The name of the column that each feature is made of."""
    if encoder is None:
        return list(feature_names)
    return [column.name for column in encoder.columns_ for _ in column.features]
