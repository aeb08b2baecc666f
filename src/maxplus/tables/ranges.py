"""What values features took in training: the units of certificates, the limits of flips."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxplus.distributed.shared_rows import column_blocks
from maxplus.tables.table import TableError

# Rows that are looked at together: images are not held in float64 as a whole.
ROWS_AT_ONCE = 4096


@dataclass(frozen=True, eq=False)
class Ranges:
    """Of each of P features, as arrays of shape (P,).

    Attributes
    ----------
    deviations : standard deviation. A feature that was constant has none; its unit is 1 as it
        is, so that a radius never counts it as held fixed
    low, high : the least and the largest value
    whole : whether all values were whole numbers
    two_valued : whether there were two values only, ``low`` and ``high``
    """

    deviations: NDArray
    low: NDArray
    high: NDArray
    whole: NDArray
    two_valued: NDArray

    @classmethod
    def of(cls, X: NDArray, name: str, feature_names: list[str]) -> Ranges:
        """Measure training data of shape (N, P); O(N·P)."""
        low, high = X.min(axis=0), X.max(axis=0)
        whole, two = np.ones(X.shape[1], bool), low < high
        deviations = np.empty(X.shape[1])
        for columns, block in column_blocks(X):
            for k in range(0, len(X), ROWS_AT_ONCE):
                part = block[k : k + ROWS_AT_ONCE]
                whole[columns] &= (part == np.round(part)).all(axis=0)
                two[columns] &= ((part == low[columns]) | (part == high[columns])).all(axis=0)
            deviations[columns] = _deviations(block)
        if not np.isfinite(deviations).all():
            p = int(np.flatnonzero(~np.isfinite(deviations))[0])
            raise TableError(
                f"{name}: {feature_names[p]!r} reaches {max(high[p], -low[p]):g}, too large to "
                "square; divide it by a power of ten"
            )
        # The rounded mean of equal numbers may differ from them, and their deviation from 0.
        deviations = np.where((low == high) | (deviations == 0.0), 1.0, deviations)
        return cls(deviations, low.astype(np.float64), high.astype(np.float64), whole, two)

    def to_json(self) -> dict[str, Any]:
        """Plain data for a model file."""
        return {field.name: getattr(self, field.name).tolist() for field in fields(self)}

    @classmethod
    def from_json(cls, record: Any, n: int) -> Ranges:
        """What `to_json` gave for n features; ValueError naming what cannot be."""
        names = [field.name for field in fields(cls)]
        if not isinstance(record, dict) or set(record) != set(names):
            raise ValueError(f"the preparation's ranges cannot be {record!r:.60}")
        found = cls(
            numbers_from_json(record, "deviations", n, positive=True),
            numbers_from_json(record, "low", n),
            numbers_from_json(record, "high", n),
            _flags(record, "whole", n),
            _flags(record, "two_valued", n),
        )
        if (found.low > found.high).any():
            p = int((found.low > found.high).argmax())
            raise ValueError(
                f"the preparation's ranges have low {found.low[p]:g} above high {found.high[p]:g}"
            )
        return found


def _deviations(X: NDArray) -> NDArray:
    with np.errstate(over="ignore", invalid="ignore"):
        if X.dtype == np.float64:
            return X.std(axis=0)
        mean = X.mean(axis=0, dtype=np.float64)
        parts = (X[k : k + ROWS_AT_ONCE] - mean for k in range(0, len(X), ROWS_AT_ONCE))
        return np.sqrt(sum(np.square(part).sum(axis=0) for part in parts) / len(X))


def numbers_from_json(
    record: dict[str, Any], name: str, n: int, positive: bool = False
) -> NDArray:  # fmt: skip
    """``record[name]``: n finite numbers; ValueError if it is something else."""
    values = record[name]
    if not isinstance(values, list) or len(values) != n:
        raise ValueError(f"the preparation's {name} must be {n} numbers, not {values!r:.60}")
    for value in values:
        # Whole numbers of JSON may be larger than any float.
        good = type(value) is float or (type(value) is int and abs(value) <= 2**53)
        if not good or not math.isfinite(value) or (positive and value <= 0):
            what = "positive finite" if positive else "finite"
            raise ValueError(f"the preparation's {name} must be {what}, not {value!r:.60}")
    return np.array(values, np.float64)


def _flags(record: dict[str, Any], name: str, n: int) -> NDArray:
    flags = record[name]
    if not (isinstance(flags, list) and len(flags) == n and all(type(f) is bool for f in flags)):
        raise ValueError(f"the preparation's {name} must be {n} truth values, not {flags!r:.60}")
    return np.array(flags, bool)
