"""Domains: allowed values of features, units of changes, and formatting of values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from functools import cached_property
from numbers import Integral
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxplus.models._checks import as_rows, feature_values

# A feature is limited to the distinct values in the samples if there are two of them, or at most
# MAX_VALUES in at least MAX_VALUES times as many samples. The first N_FIRST samples usually suffice
# to exclude other features.
MAX_VALUES, N_FIRST = 10, 1000
# The integers within the limits of a feature are candidates if there are at most this number.
MAX_CANDIDATES = 32
# Maximum number of significant digits of rounded values.
MAX_DIGITS = 15
# Integers from this size on are printed as floats.
MAX_INTEGER = 1e15
# Text of a categorical column whose features are all 0.
NO_CATEGORY = "none of the known categories"


class OneHotGroup(NamedTuple):
    """A categorical column as 0/1 features, at most one of which is 1.

    If ``allows_none`` is True, all features may be 0, which stands for an unknown category.
    """

    name: str
    features: tuple[int, ...]
    values: tuple[str, ...]
    allows_none: bool = False


class Candidates(NamedTuple):
    """Changes of columns with few values: feature[k] takes value[k], as in `Domain.changed`."""

    feature: NDArray
    value: NDArray


@dataclass(frozen=True, eq=False)
class Domain:
    """The values that P features may take, and the columns that they belong to.

    A column is either numeric, with one feature, or categorical, with a 0/1 feature for each of its
    values; these features change together. A column can have a further feature, the indicator of
    its missing values. The distance of a change is the largest change of a feature, in units.
    Hence the distance between two values of a binary column does not depend on whether it is
    one-hot encoded, and no change within a certified radius with the same scale changes a
    prediction.

    Attributes
    ----------
    unit : array of shape (P,), > 0
        Units of distances, for example standard deviations of the training samples.
    low, high : arrays of shape (P,)
        Smallest and largest value of numeric features, or ±inf.
    is_integer : bool array of shape (P,)
        Features that take only integers.
    fixed : bool array of shape (P,)
        Features that may not change; a categorical column is fixed if one of its features is.
    names : names of the P features
    values : mapping from a feature to its allowed values, in ascending order
    categories : tuple of OneHotGroup
    indicators : mapping from a feature to the indicator of its missing values
        A change of the feature sets its indicator to 0. Indicators themselves should be fixed.
    ordinals : mapping from an ordinal feature with values 0, 1, … to the names of these values
    """

    unit: NDArray
    low: NDArray
    high: NDArray
    is_integer: NDArray
    fixed: NDArray
    names: tuple[str, ...]
    values: Mapping[int, NDArray] = field(default_factory=dict)
    categories: tuple[OneHotGroup, ...] = ()
    indicators: Mapping[int, int] = field(default_factory=dict)
    ordinals: Mapping[int, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise ValueError for inconsistent fields, and make limits and ``fixed`` consistent."""
        P = self.n_features
        if not (np.isfinite(self.unit).all() and (self.unit > 0).all()):
            raise ValueError(f"unit must be finite and > 0; got {self.unit!r:.80}")
        for name in ("low", "high", "is_integer", "fixed", "names"):
            if len(getattr(self, name)) != P:
                raise ValueError(
                    f"{name} must have {P} entries, one for each feature, as unit has; "
                    f"got {len(getattr(self, name))}"
                )
        wrong = np.flatnonzero(~(self.low <= self.high))
        if wrong.size:
            p = int(wrong[0])
            raise ValueError(
                f"low must not exceed high; got {self.low[p]:g} and {self.high[p]:g} for feature "
                f"{p} ({self.names[p]!r})"
            )
        for category in self.categories:
            if len(category.features) != len(category.values) or not category.values:
                raise ValueError(
                    f"categories: {category.name!r} must have a feature for each entry of values; "
                    f"got {len(category.features)} features and {len(category.values)} values"
                )
        grouped = [p for category in self.categories for p in category.features]
        used = [*grouped, *self.values, *self.indicators, *self.indicators.values(), *self.ordinals]
        outside = [p for p in used if not 0 <= p < P]
        if outside:
            raise ValueError(
                "categories, values, indicators and ordinals must refer to features 0 to "
                f"{P - 1}; there is no feature {outside[0]}"
            )
        if len(set(grouped)) < len(grouped):
            shared = next(p for p in grouped if grouped.count(p) > 1)
            raise ValueError(f"categories must not share features; got feature {shared} twice")
        fixed = self.fixed.copy()
        for category in self.categories:
            fixed[list(category.features)] |= fixed[list(category.features)].any()
        object.__setattr__(self, "fixed", fixed)
        # Limits beyond 0 and 1, for example those of `within`, do not restrict 0/1 features.
        binary = [*grouped, *self.indicators.values()]
        for name in ("low", "high"):
            limits = np.array(getattr(self, name), np.float64)
            limits[binary] = np.clip(limits[binary], 0.0, 1.0)
            object.__setattr__(self, name, limits)

    @classmethod
    def unrestricted(
        cls, n_features: int, unit: ArrayLike = 1.0, names: Sequence[str] | None = None
    ) -> Domain:
        """Return the domain in which every feature may take any real value."""
        P = n_features
        no_feature = np.zeros(P, bool)
        names = [f"feature {p}" for p in range(P)] if names is None else names
        return cls(
            unit=feature_values("unit", unit, P),
            low=np.full(P, -np.inf),
            high=np.full(P, np.inf),
            is_integer=no_feature,
            fixed=no_feature,
            names=tuple(str(name) for name in names),
        )

    @classmethod
    def from_rows(
        cls,
        X: ArrayLike,
        *,
        names: Sequence[str] | None = None,
        categories: Iterable[OneHotGroup] = (),
        fixed: Iterable[str | int] = (),
        indicators: Mapping[int, int] | None = None,
    ) -> Domain:
        """Return the domain of the values in training samples; O(N·P·log N).

        Units are standard deviations (1 for a constant). Limits are the smallest and largest
        values. A numeric feature with two values, or with at most ten values in at least ten times
        as many samples, is limited to these values. A numeric feature whose values are all integers
        takes only integers.
        """
        rows = np.asarray(X)
        if rows.ndim != 2 or not len(rows):
            raise ValueError(f"X must have shape (N, P) and at least one row; got {rows.shape}")
        rows = as_rows(rows, rows.shape[1], np.float64)
        columns = tuple(categories)
        grouped = {p for category in columns for p in category.features}
        low, high = rows.min(axis=0), rows.max(axis=0)
        deviation = np.where(low == high, 0.0, rows.std(axis=0))
        numeric = [p for p in range(rows.shape[1]) if p not in grouped]
        values = {p: seen for p in numeric if (seen := _few_values(rows[:, p])) is not None}
        domain = replace(
            cls.unrestricted(rows.shape[1], np.where(deviation > 0.0, deviation, 1.0), names),
            low=low,
            high=high,
            is_integer=(rows == np.round(rows)).all(axis=0),
            values=values,
            categories=columns,
            indicators=dict(indicators or {}),
        )
        return domain.with_fixed(fixed)

    @property
    def n_features(self) -> int:
        """Number P of features."""
        return len(self.unit)

    def with_fixed(self, columns: Iterable[str | int]) -> Domain:
        """Return the domain with further columns fixed, given by name or feature index."""
        columns = [columns] if isinstance(columns, str) else list(columns)
        if not columns:
            return self
        known = {name: [p] for p, name in enumerate(self.names)}
        known |= {category.name: list(category.features) for category in self.categories}
        fixed = self.fixed.copy()
        for column in columns:
            is_index = isinstance(column, Integral) and 0 <= int(column) < self.n_features
            if not is_index and column not in known:
                listed = ", ".join(map(repr, self.columns[:20]))
                raise ValueError(f"fixed: column {column!r} does not exist; columns are {listed}")
            fixed[int(column) if is_index else known[str(column)]] = True
        return replace(self, fixed=fixed)

    def within(self, low: ArrayLike | None = None, high: ArrayLike | None = None) -> Domain:
        """Return the domain with other limits, a number for all features or one for each."""
        P = self.n_features
        return replace(
            self,
            low=self.low if low is None else feature_values("low", low, P),
            high=self.high if high is None else feature_values("high", high, P),
        )

    @cached_property
    def category_of(self) -> NDArray:
        """Index in ``categories`` of the column of each feature, (P,); −1 for numeric columns."""
        out = np.full(self.n_features, -1)
        for k, category in enumerate(self.categories):
            out[list(category.features)] = k
        return out

    @cached_property
    def column_names(self) -> tuple[str, ...]:
        """Name of the column of each feature; an indicator belongs to the column it describes."""
        names = list(self.names)
        for category in self.categories:
            for p in category.features:
                names[p] = category.name
        for p, indicator in self.indicators.items():
            names[indicator] = names[p]
        return tuple(names)

    @cached_property
    def column_of(self) -> NDArray:
        """First feature of the column of each feature, (P,)."""
        out = np.arange(self.n_features)
        for category in self.categories:
            out[list(category.features)] = min(category.features)
        for p, indicator in self.indicators.items():
            out[indicator] = out[p]
        return out

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Distinct names of columns, in the order of their features."""
        return tuple(dict.fromkeys(self.column_names))

    @cached_property
    def is_continuous(self) -> NDArray:
        """Mask of numeric features that may take any value between their limits, (P,)."""
        listed = np.isin(np.arange(self.n_features), list(self.values))
        return ~self.fixed & ~self.is_integer & ~listed & (self.category_of < 0)

    @cached_property
    def is_unlisted(self) -> NDArray:
        """Mask of integer features with too many values for ``candidates``, (P,)."""
        listed = np.isin(np.arange(self.n_features), [*self.values, *self.candidates.feature])
        return ~self.fixed & self.is_integer & ~listed & (self.category_of < 0)

    @cached_property
    def candidates(self) -> Candidates:
        """All changes of columns that take few values, in the order of features."""
        pairs: list[tuple[int, float]] = []
        for p in np.flatnonzero(~self.fixed).tolist():
            low, high = self.low[p], self.high[p]
            if self.category_of[p] >= 0:
                category = self.categories[self.category_of[p]]
                pairs.append((p, 1.0))
                if category.allows_none and p == category.features[-1]:
                    pairs.append((p, 0.0))
            elif p in self.values:
                pairs += [(p, float(v)) for v in self.values[p] if low <= v <= high]
            elif self.is_integer[p] and np.floor(high) - np.ceil(low) < MAX_CANDIDATES:
                pairs += [(p, v) for v in np.arange(np.ceil(low), np.floor(high) + 1).tolist()]
        feature, value = zip(*pairs, strict=True) if pairs else ((), ())
        return Candidates(np.array(feature, int), np.array(value, float))

    def changed(self, x: NDArray, feature: ArrayLike, value: ArrayLike) -> NDArray:
        """Return sample x with each of K changes, (K, P): ``feature[k]`` takes ``value[k]``.

        x has shape (P,), or (K, P) with a sample for each change. The other features of a
        categorical column become 0, so that the value 1 selects a category and 0 none of the known
        ones. The indicator of an imputed feature becomes 0.
        """
        features = np.atleast_1d(feature)
        out = np.array(np.broadcast_to(x, (len(features), self.n_features)), np.float64)
        for k, category in enumerate(self.categories):
            out[np.ix_(self.category_of[features] == k, category.features)] = 0.0
        for p, indicator in self.indicators.items():
            out[features == p, indicator] = 0.0
        out[np.arange(len(features)), features] = value
        return out

    def distances(self, x: NDArray, rows: NDArray) -> NDArray:
        """Return the distance of each row (K, P) from x, the largest change of a feature in units.

        Indicators of missing values are ignored.
        """
        changes = np.abs(rows - np.asarray(x, np.float64)) / self.unit
        changes[:, list(self.indicators.values())] = 0.0
        return changes.max(axis=1, initial=0.0)

    def text(self, x: NDArray, p: int, *, exact: bool = False) -> str:
        """Format the value of the column of feature p in sample x; categories are quoted.

        Numbers have at most six significant digits, or all digits with ``exact``.
        """
        if self.category_of[p] < 0:
            return self.number(p, x[p]) if exact else self.number(p, float(f"{x[p]:.6g}"))
        category = self.categories[self.category_of[p]]
        pairs = zip(category.features, category.values, strict=True)
        chosen = [value for q, value in pairs if x[q] == 1.0]
        return repr(str(chosen[0])) if len(chosen) == 1 else NO_CATEGORY

    def number(self, p: int, value: float) -> str:
        """Format a value of a numeric feature with all digits, or an ordinal value by its name."""
        levels = self.ordinals.get(p, ())
        is_level = value == round(value) and 0 <= value < len(levels)
        return repr(str(levels[int(value)])) if is_level else number_text(value)

    def phrase(self, p: int, value: float) -> str:
        """Format feature p with a value: "age = 54", "colour being 'red'", "age being missing"."""
        being = "being" if value else "not being"
        if self.category_of[p] >= 0:
            category = self.categories[self.category_of[p]]
            return f"{category.name} {being} {str(category.values[category.features.index(p)])!r}"
        if p in self.indicators.values():
            return f"{self.column_names[p]} {being} missing"
        shown = self.number(p, value) if p in self.ordinals else f"{value:.4g}"
        return f"{self.names[p]} = {shown}"

    def certificate_scale(self, *, categories: bool = False) -> NDArray:
        """Return the largest change of each feature for a certified radius of 1, (P,).

        A feature changes by its unit, and a fixed feature by 0. Categorical columns and numeric
        columns with at most two values also change by 0, because intermediate values have no
        meaning, unless ``categories`` is True.
        """
        fixed = self.fixed.copy()
        if not categories:
            fixed |= self.category_of >= 0
            fixed[[p for p, values in self.values.items() if len(values) <= 2]] = True
        return np.where(fixed, 0.0, self.unit)


def fixed_columns(columns: Sequence[str], scale: NDArray) -> list[str]:
    """Return the columns whose features all have scale 0 in certificates.

    ``columns[p]`` is the column of feature p.
    """
    moving = {name for name, s in zip(columns, scale, strict=True) if s > 0.0}
    return [name for name in dict.fromkeys(columns) if name not in moving]


def _few_values(column: NDArray) -> NDArray | None:
    """Return the distinct values of a feature if it is limited to them, else None."""
    if np.unique(column[:N_FIRST]).size > MAX_VALUES:
        return None
    seen = np.unique(column)
    is_repeated = seen.size <= MAX_VALUES and column.size >= MAX_VALUES * seen.size
    return seen if seen.size == 2 or (seen.size > 2 and is_repeated) else None


def number_text(value: float) -> str:
    """Format a number with all digits; integers below 10^15 have no decimal point."""
    value = float(value)
    if value == round(value, 0) and abs(value) < MAX_INTEGER:
        return str(int(value))
    return repr(value)


def roundings(value: float, upwards: bool) -> list[float]:
    """Return the value rounded up or down to an increasing number of digits, and the value."""
    exact = Decimal(repr(float(value)))
    rounding = ROUND_CEILING if upwards else ROUND_FLOOR
    first = -max(exact.adjusted(), 0)
    last = max(MAX_DIGITS, MAX_DIGITS - exact.adjusted())
    rounded = [
        float(exact.quantize(Decimal(1).scaleb(-decimals), rounding=rounding))
        for decimals in range(first, last)
        if exact.adjusted() + decimals < MAX_DIGITS
    ]
    return list(dict.fromkeys([*rounded, float(value)]))


def rounded_away(value: float, origin: float, exponent: int) -> float:
    """Round a value away from the origin to a multiple of 10^exponent.

    The value is returned unchanged if the result would have more than MAX_DIGITS digits.
    """
    rounding = ROUND_CEILING if value >= origin else ROUND_FLOOR
    exact = Decimal(repr(float(value)))
    if exact.adjusted() - exponent >= MAX_DIGITS:
        return float(value)
    return float(exact.quantize(Decimal(1).scaleb(exponent), rounding=rounding))
