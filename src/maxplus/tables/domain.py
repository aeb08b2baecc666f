"""What values features can take, so that a change that is proposed can be made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxplus.tables.encoding import Encoding
from maxplus.tables.kinds import Category, Ranks
from maxplus.tables.ranges import Ranges


class Group(NamedTuple):
    """A column of words as 0/1 features; with ``none``, all of them may be 0."""

    name: str
    features: tuple[int, ...]
    words: tuple[str, ...]
    none: bool = False


class FeatureValues(NamedTuple):
    """The fields of `maxplus.explain.Domain`, as plain data: P features.

    Attributes
    ----------
    unit : deviations in training, shape (P,)
    low, high : the least and largest value in training, shape (P,)
    whole : features that take whole numbers only, shape (P,)
    fixed : features that nobody can change, those that tell of missing values; shape (P,)
    names : P words
    values : the two values of a feature that takes no others
    categories : columns of words, which change as a whole
    indicators : for a feature that may be missing, the one that says so
    ranks : for a feature of ordered words, the words, the lowest first
    """

    unit: NDArray
    low: NDArray
    high: NDArray
    whole: NDArray
    fixed: NDArray
    names: tuple[str, ...]
    values: Mapping[int, NDArray]
    categories: tuple[Group, ...]
    indicators: Mapping[int, int]
    ranks: Mapping[int, tuple[str, ...]]


def feature_values(encoding: Encoding, ranges: Ranges) -> FeatureValues:
    """What training has seen of each feature."""
    low, high, whole = ranges.low.copy(), ranges.high.copy(), ranges.whole.copy()
    fixed = np.zeros(encoding.n_features, bool)
    values: dict[int, NDArray] = {}
    categories: list[Group] = []
    indicators: dict[int, int] = {}
    ranks: dict[int, tuple[str, ...]] = {}
    for column, place in zip(encoding.columns, encoding.places, strict=True):
        own = range(place.start, place.stop - column.flagged)
        if column.flagged:
            fixed[place.stop - 1] = True
            indicators |= dict.fromkeys(own, place.stop - 1)
        if isinstance(column, Category) and not own:
            continue
        if isinstance(column, Category):
            categories.append(Group(column.name, tuple(own), column.values))
        elif isinstance(column, Ranks):
            low[place.start], high[place.start] = 0.0, len(column.words) - 1.0
            whole[place.start] = True
            ranks[place.start] = tuple(column.words)
        elif ranges.two_valued[place.start]:
            values[place.start] = np.array([low[place.start], high[place.start]])
    return FeatureValues(
        ranges.deviations, low, high, whole, fixed, tuple(encoding.feature_names), values,
        tuple(categories), indicators, ranks,
    )  # fmt: skip
