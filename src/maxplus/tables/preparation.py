"""From a table to a model's features: decided by the training data, kept with the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxplus.distributed import current
from maxplus.tables.choices import AUTOMATIC, ColumnChoices
from maxplus.tables.deciding import decide
from maxplus.tables.domain import FeatureValues, feature_values
from maxplus.tables.encoding import Encoding
from maxplus.tables.frames import table_of
from maxplus.tables.ranges import Ranges, numbers_from_json
from maxplus.tables.samples import Samples, samples_of
from maxplus.tables.strangers import Strangers

FIELDS = ("encoding", "ranges", "centre", "spread", "image_shape", "data",
          "decisions")  # fmt: skip


@dataclass(frozen=True, eq=False)
class Preparation:
    """Columns and categories, missing values, scaling, and what a change of 1 means: P features.

    Parameters
    ----------
    encoding : which column is what
    ranges : what values features took in training, and their deviations
    centre, spread : arrays of shape (P,), or both None
        Training saw (x − centre) / spread: the paper's recipe, which does not scale by itself.
    image_shape : (height, width) if the features are an image's pixels
    data : the training table's name
    decisions : a line for each decision about the columns that a user may overrule
    """

    encoding: Encoding
    ranges: Ranges
    centre: NDArray | None = None
    spread: NDArray | None = None
    image_shape: tuple[int, int] | None = None
    data: str = ""
    decisions: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        training: Any,
        choices: ColumnChoices = AUTOMATIC,
        *,
        scale: bool | None = None,
        labels_apart: bool = False,
    ) -> Preparation:
        """Decide by training data.

        Parameters
        ----------
        training : a table, a data frame, or samples, which have their columns decided
        choices : what the user overrules, for a table
        scale : whether to bring features to mean 0 and deviation 1; all but images by default
        labels_apart : whether the labels are no column of the table
        """
        if not isinstance(training, Samples):
            training = table_of(training)
            encoding, decisions = decide(training, choices, labels_apart=labels_apart)
            training = samples_of(
                training, encoding, decisions=decisions, strangers=Strangers()
            )  # fmt: skip
        names, title = training.encoding.feature_names, training.name
        if scale is None:
            scale = training.image_shape is None
        # Of the rows of all ranks, if there are several.
        ranges, centre = current().root_only(
            lambda X: (
                Ranges.of(X, title, names), X.mean(axis=0, dtype=np.float64) if scale else None
            ),
            training.X,
        )  # fmt: skip
        return cls(
            training.encoding,
            ranges,
            centre,
            ranges.deviations if scale else None,
            training.image_shape,
            data=training.name,
            decisions=training.decisions,
        )

    @property
    def task(self) -> str:
        """What the target is for: "classification" or "regression"."""
        return self.encoding.task

    @property
    def feature_names(self) -> list[str]:
        """Words for the features."""
        return self.encoding.feature_names

    @property
    def deviations(self) -> NDArray:
        """The unit of certificates: each feature's standard deviation in training, shape (P,)."""
        return self.ranges.deviations

    def domain(self) -> FeatureValues:
        """What values features can take: those of training."""
        return feature_values(self.encoding, self.ranges)

    def feature_range(self, X: NDArray) -> tuple[Any, Any]:
        """The least and largest value of each feature: pixels stay within those of X."""
        if self.image_shape is not None:
            return float(X.min()), float(X.max())
        return self.encoding.feature_range

    def features_of(self, columns: Sequence[str]) -> list[int]:
        """The features that columns, or features themselves, are made into; by name."""
        names = self.feature_names
        places = {c.name: p for c, p in zip(self.encoding.columns, self.encoding.places,
                                            strict=True)}  # fmt: skip
        found: list[int] = []
        for name in columns:
            if name in places:
                found += range(places[name].start, places[name].stop)
            elif name in names:
                found.append(names.index(name))
            else:
                raise ValueError(
                    f"the model has no column {name!r}; it has {', '.join(list(places)[:20])}"
                )
        return found

    def features(self, table: Any, strict: bool = False) -> NDArray:
        """X of shape (N, P), as they come: a model file's weights have the scaling in them.

        Of a `RawTable`, or of any library's data frame.
        Words that training never saw are none of the known ones, and missing values are
        filled in: one warning counts them. With ``strict``, a new word is an error.
        """
        return self.encoding.features(table_of(table), strict)

    def missing(self, table: Any) -> NDArray:
        """Which values were missing and filled in, shape (N, columns of the encoding)."""
        return self.encoding.encode(table_of(table)).missing

    def samples(self, table: Any) -> Samples:
        """`features` with the labels, if the table has them."""
        return samples_of(table_of(table), self.encoding, self.image_shape)

    def scaled(self, X: NDArray) -> NDArray:
        """(X − centre) / spread, or X itself where nothing is scaled."""
        return X if self.centre is None else (X - self.centre) / self.spread

    def to_json(self) -> dict[str, Any]:
        """Plain data for a model file."""
        return {
            "encoding": self.encoding.to_json(),
            "ranges": self.ranges.to_json(),
            "centre": None if self.centre is None else self.centre.tolist(),
            "spread": None if self.spread is None else self.spread.tolist(),
            "image_shape": None if self.image_shape is None else list(self.image_shape),
            "data": self.data,
            "decisions": list(self.decisions),
        }

    @classmethod
    def from_json(cls, record: Any) -> Preparation:
        """What `to_json` gave; ValueError naming what cannot be."""
        if not isinstance(record, dict):
            raise ValueError(f"the preparation cannot be {record!r:.60}")
        absent = [name for name in FIELDS if name not in record]
        if absent:
            raise ValueError(f"the preparation lacks {', '.join(absent)}")
        if not isinstance(record["data"], str):
            raise ValueError(f"the preparation's data cannot be {record['data']!r:.60}")
        lines = record["decisions"]
        if not (isinstance(lines, list) and all(type(line) is str for line in lines)):
            raise ValueError(f"the preparation's decisions cannot be {lines!r:.60}")
        encoding = Encoding.from_json(record["encoding"])
        n = encoding.n_features
        if (record["centre"] is None) != (record["spread"] is None):
            raise ValueError("the preparation has only one of centre and spread")
        scaled = record["centre"] is not None
        return cls(
            encoding,
            Ranges.from_json(record["ranges"], n),
            numbers_from_json(record, "centre", n) if scaled else None,
            numbers_from_json(record, "spread", n, positive=True) if scaled else None,
            _image_shape(record["image_shape"], n),
            data=record["data"],
            decisions=tuple(lines),
        )


def _image_shape(shape: Any, n: int) -> tuple[int, int] | None:
    if shape is None:
        return None
    good = isinstance(shape, list) and len(shape) == 2 and all(type(side) is int for side in shape)
    if not good or min(shape) < 1 or shape[0] * shape[1] != n:
        raise ValueError(
            f"the preparation's image_shape must be two sides of {n} pixels, not {shape!r:.60}"
        )
    return shape[0], shape[1]
