"""Rows to learn from and rows to judge by, without a leak from these to those."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from maxplus.tables import Preparation, RawTable


class Features(NamedTuple):
    """Both parts as arrays, and how far each feature moves for a change of 1."""

    training: NDArray
    held_out: NDArray
    scale: NDArray


class Rows(Protocol):
    """Rows and their labels or numbers ``y``."""

    y: NDArray

    def features(self, training: NDArray, held_out: NDArray) -> Features:
        """Prepared by the training rows alone."""


@dataclass(frozen=True)
class ArrayRows:
    """Features that need no preparation."""

    X: NDArray
    y: NDArray

    def features(self, training: NDArray, held_out: NDArray) -> Features:
        """Rows of the array; their scale is the training rows' deviation, 1 where there is none."""
        X = self.X[training]
        deviation = X.std(axis=0, dtype=np.float64)
        constant = (X.min(axis=0) == X.max(axis=0)) | (deviation == 0.0)
        return Features(X, self.X[held_out], np.where(constant, 1.0, deviation))


@dataclass(frozen=True)
class TableRows:
    """A table, whose whole preparation is decided anew by each part that is trained on.

    Attributes
    ----------
    table : with all columns
    y : its labels or numbers
    prepare : from some rows of the table to the `Preparation` that they decide
    """

    table: RawTable
    y: NDArray
    prepare: Callable[[RawTable], Preparation]

    def features(self, training: NDArray, held_out: NDArray) -> Features:
        """Columns, categories and fill-ins are those that the training rows tell."""
        own = part(self.table, training)
        preparation = self.prepare(own)
        return Features(
            preparation.features(own),
            preparation.features(part(self.table, held_out)),
            preparation.deviations,
        )


def part(table: RawTable, rows: NDArray) -> RawTable:
    """Some rows of a table."""
    return RawTable(table.name, {name: cells[rows] for name, cells in table.columns.items()})
