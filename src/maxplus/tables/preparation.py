"""From a table to a model's features: decided by the training data, kept with the model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxplus.tables.columns import Encoding
from maxplus.tables.sources import Samples, samples_of
from maxplus.tables.table import RawTable, TableError

# Rows whose deviations are summed together: images are not held in float64 as a whole.
ROWS_AT_ONCE = 4096
FIELDS = ("encoding", "centre", "spread", "deviations", "image_shape", "directions", "data")


@dataclass(frozen=True, eq=False)
class Preparation:
    """Columns and categories, scaling, and what a change of 1 means: P features.

    Parameters
    ----------
    encoding : which column is what
    deviations : array of shape (P,)
        The unit of certificates: each feature's standard deviation in the training data. A
        feature that was constant there has none; its unit is 1 as it is, so that a radius
        never counts it as held fixed.
    centre, spread : arrays of shape (P,), or both None
        Training saw (x − centre) / spread.
    image_shape : (height, width) if the features are an image's pixels
    directions : None; room for linear combinations of features
    data : the training table's name
    """

    encoding: Encoding
    deviations: NDArray
    centre: NDArray | None = None
    spread: NDArray | None = None
    image_shape: tuple[int, int] | None = None
    directions: None = None
    data: str = ""

    @classmethod
    def of(
        cls,
        training: RawTable | Samples,
        target: str | None = None,
        categorical: Sequence[str] = (),
        *,
        scale: bool | None = None,
    ) -> Preparation:
        """Decide by training data.

        Parameters
        ----------
        training : a table, or samples of one, which have their columns decided
        target, categorical : as in `Encoding.of`, for a table
        scale : whether to bring features to mean 0 and deviation 1; all but images by default
        """
        if isinstance(training, RawTable):
            encoding = Encoding.of(training, target, categorical)
            training = samples_of(training, encoding)
        deviations = _deviations(training)
        if scale is None:
            scale = training.image_shape is None
        return cls(
            training.encoding,
            deviations,
            training.X.mean(axis=0, dtype=np.float64) if scale else None,
            deviations if scale else None,
            training.image_shape,
            data=training.name,
        )

    @property
    def feature_names(self) -> list[str]:
        """Words for the features."""
        return self.encoding.feature_names

    def feature_range(self, X: NDArray) -> tuple[Any, Any]:
        """The least and largest value of each feature: pixels stay within those of X."""
        if self.image_shape is not None:
            return float(X.min()), float(X.max())
        return self.encoding.feature_range

    def features(self, table: RawTable) -> NDArray:
        """X of shape (N, P), as they come: a model file's weights have the scaling in them."""
        return self.encoding.features(table)

    def samples(self, table: RawTable) -> Samples:
        """`features` with the labels, if the table has them."""
        return samples_of(table, self.encoding, self.image_shape)

    def scaled(self, X: NDArray) -> NDArray:
        """(X − centre) / spread, or X itself where nothing is scaled."""
        return X if self.centre is None else (X - self.centre) / self.spread

    def to_json(self) -> dict[str, Any]:
        """Plain data for a model file."""
        return {
            "encoding": self.encoding.to_json(),
            "centre": None if self.centre is None else self.centre.tolist(),
            "spread": None if self.spread is None else self.spread.tolist(),
            "deviations": self.deviations.tolist(),
            "image_shape": None if self.image_shape is None else list(self.image_shape),
            "directions": self.directions,
            "data": self.data,
        }

    @classmethod
    def from_json(cls, record: Any) -> Preparation:
        """What `to_json` gave; ValueError naming what cannot be."""
        if not isinstance(record, dict):
            raise ValueError(f"the preparation cannot be {record!r:.60}")
        absent = [name for name in FIELDS if name not in record]
        if absent:
            raise ValueError(f"the preparation lacks {', '.join(absent)}")
        if record["directions"] is not None:
            raise ValueError("the preparation has directions, which a later maxplus can read")
        if not isinstance(record["data"], str):
            raise ValueError(f"the preparation's data cannot be {record['data']!r:.60}")
        encoding = Encoding.from_json(record["encoding"])
        n = len(encoding.feature_names)
        if (record["centre"] is None) != (record["spread"] is None):
            raise ValueError("the preparation has only one of centre and spread")
        scaled = record["centre"] is not None
        return cls(
            encoding,
            _numbers(record, "deviations", n, positive=True),
            _numbers(record, "centre", n) if scaled else None,
            _numbers(record, "spread", n, positive=True) if scaled else None,
            _image_shape(record["image_shape"], n),
            data=record["data"],
        )


def _deviations(training: Samples) -> NDArray:
    """The standard deviation of each feature, 1 where it is constant; O(N·P)."""
    X = training.X
    constant = X.min(axis=0) == X.max(axis=0)
    with np.errstate(over="ignore", invalid="ignore"):
        if X.dtype == np.float64:
            deviations = X.std(axis=0)
        else:
            mean = X.mean(axis=0, dtype=np.float64)
            parts = (X[k : k + ROWS_AT_ONCE] - mean for k in range(0, len(X), ROWS_AT_ONCE))
            deviations = np.sqrt(sum(np.square(part).sum(axis=0) for part in parts) / len(X))
    if not np.isfinite(deviations).all():
        p = int(np.flatnonzero(~np.isfinite(deviations))[0])
        raise TableError(
            f"{training.name}: {training.encoding.feature_names[p]!r} reaches "
            f"{np.abs(X[:, p]).max():g}, too large to square; divide it by a power of ten"
        )
    # The rounded mean of equal numbers may differ from them, and their deviation from 0.
    return np.where(constant | (deviations == 0.0), 1.0, deviations)


def _numbers(record: dict[str, Any], name: str, n: int, positive: bool = False) -> NDArray:
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


def _image_shape(shape: Any, n: int) -> tuple[int, int] | None:
    if shape is None:
        return None
    good = isinstance(shape, list) and len(shape) == 2 and all(type(side) is int for side in shape)
    if not good or min(shape) < 1 or shape[0] * shape[1] != n:
        raise ValueError(
            f"the preparation's image_shape must be two sides of {n} pixels, not {shape!r:.60}"
        )
    return shape[0], shape[1]
