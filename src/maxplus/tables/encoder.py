"""Transformer that encodes tables as numeric features."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import (
    _check_feature_names_in,
    check_is_fitted,
    validate_data,
)

from maxplus.distributed import current
from maxplus.distributed.shared_rows import column_blocks
from maxplus.tables.columns import (
    Category,
    Column,
    Number,
    Ordinal,
    UnknownValues,
    check_fields,
    column_from_json,
    is_bool,
    is_str,
    is_str_list,
    listed_names,
)
from maxplus.tables.files import check_memory
from maxplus.tables.schema import (
    CLASSIFICATION,
    ERROR,
    IMPUTE,
    REGRESSION,
    Target,
    infer_schema,
    label_name,
)
from maxplus.tables.table import (
    RawTable,
    TableError,
    check_not_missing,
    is_frame,
    on_all_rows,
    table_of,
)

if TYPE_CHECKING:
    from maxplus.explain import Domain

# Number of rows per block in the computation of statistics, to limit the size of temporary arrays.
RANGES_ROWS = 4096


Check = Callable[[Any], bool]


class Encoded(NamedTuple):
    """Features (n_rows, n_features), and mask of missing values (n_rows, n_columns)."""

    X: NDArray
    missing: NDArray


class TableEncoder(TransformerMixin, BaseEstimator):
    """Encode the columns of a table as numeric features.

    A numeric column becomes one feature. Categorical columns are one-hot encoded, and infrequent
    categories of columns with many values share one feature. Ordinal text, such as "low", "medium",
    "high", or "<5", "5-9", is encoded by position. Text with units, such as "70 kg", is encoded by
    its number. Missing values are imputed with the median or, in a categorical column, the most
    frequent value. A binary indicator is added if at least 5 values are missing and, in a numeric
    or ordinal column, at least 5 %. In a categorical column, the indicator replaces imputation.
    Unknown categories are encoded by the shared feature of infrequent categories, if there is one.
    Otherwise, they are encoded as zeros (one-hot) or as the imputed value (ordinal), with a
    warning. The estimators of this library fit an encoder (``encoder_``) when `fit` is called with
    a data frame.

    Parameters
    ----------
    categorical : sequence of str, default=()
        Columns to one-hot encode even if they contain numbers.
    numeric : sequence of str, default=()
        Text columns to encode by the number in each text, such as "12 mg", "grade 2" or "5-10".
    drop : None, "auto" or sequence of str, default=None
        Columns to drop. "auto", alone or in the sequence, drops ids, dates, free text, constants
        and columns without values. None drops no columns.
    keep : sequence of str, default=()
        Columns that "auto" does not drop.
    missing : {"impute", "error"}, default="impute"
        Handling of missing values.
    standardize : bool, default=False
        If True, scale features to mean 0 and standard deviation 1.

    Attributes
    ----------
    columns_ : tuple of `maxplus.tables.Column`
        Encoded columns in order.
    ranges_ : `maxplus.tables.Ranges`
        Statistics of each feature in the training data, before standardisation.
    decisions_ : tuple of str
        Log of the inferred properties of columns, which parameters can override.
    n_features_in_ : int
        Number of columns seen during `fit`.
    feature_names_in_ : array of str
        Names of the columns seen during `fit`, if all are strings.

    Examples
    --------
    >>> import pandas as pd
    >>> from maxplus.tables import TableEncoder
    >>> frame = pd.DataFrame({"ward": [1, 2, 3] * 4, "pain": ["low", "high", "medium"] * 4})
    >>> encoder = TableEncoder(categorical=["ward"]).set_output(transform="pandas")
    >>> encoder.fit_transform(frame).head(2)
       ward = 1  ward = 2  ward = 3  pain
    0       1.0       0.0       0.0   0.0
    1       0.0       1.0       0.0   2.0
    """

    columns_: tuple[Column, ...]
    ranges_: Ranges
    decisions_: tuple[str, ...]
    target_: Target
    # Height and width if the features are pixels.
    image_shape_: tuple[int, int] | None
    # Name of the training table.
    data_: str
    n_features_in_: int

    def __init__(
        self,
        *,
        categorical: Sequence[str] = (),
        numeric: Sequence[str] = (),
        drop: str | Sequence[str] | None = None,
        keep: Sequence[str] = (),
        missing: str = IMPUTE,
        standardize: bool = False,
    ) -> None:
        self.categorical = categorical
        self.numeric = numeric
        self.drop = drop
        self.keep = keep
        self.missing = missing
        self.standardize = standardize

    def fit(self, X: Any, y: Any = None) -> TableEncoder:
        """Infer the type of each column.

        Parameters
        ----------
        X : pandas or polars data frame, pyarrow table, or array of shape (n_samples, n_columns)
            Training data.
        y : array-like, default=None
            Labels, which are ignored except for their attribute ``name``.

        Returns
        -------
        self
            Fitted encoder.
        """
        table = self._table(X, reset=True)
        if not table.n_rows and current().is_serial:
            raise TableError(f"{table.name} has no rows")
        self._fit(table, Target(label_name(y, table)))
        return self

    def _fit(
        self,
        table: RawTable,
        target: Target,
        image_shape: tuple[int, int] | None = None,
        all_rows: RawTable | None = None,
    ) -> Encoded:
        """Fit to the rows of all ranks, and return the encoded table before standardisation.

        Types and imputed values are inferred from ``all_rows``, which include rows without a label.
        """
        params = self.get_params(deep=False)
        self.columns_, self.decisions_ = on_all_rows(
            lambda whole: infer_schema(whole, params, target.name), all_rows or table
        )
        self.target_, self.image_shape_, self.data_ = target, image_shape, table.name
        with current().raise_on_all_ranks():
            encoded = self._encode(table, UnknownValues())
        self._set_ranges(encoded.X)
        return encoded

    @classmethod
    def from_images(cls, X: NDArray, name: str, shape: tuple[int, int]) -> TableEncoder:
        """Return an encoder for images X of shape (n_images, height·width)."""
        encoder = cls()
        names = [f"pixel {r},{c}" for r in range(shape[0]) for c in range(shape[1])]
        encoder.columns_, encoder.decisions_ = tuple(map(Number, names)), ()
        encoder.target_, encoder.image_shape_, encoder.data_ = Target("class"), shape, name
        encoder.n_features_in_ = len(names)
        encoder._set_ranges(X)
        return encoder

    def _set_ranges(self, X: NDArray) -> None:
        names, name = self.feature_names, self.data_
        self.ranges_ = current().root_only(lambda rows: Ranges.from_rows(rows, name, names), X)

    def transform(self, X: Any) -> Any:
        """Encode rows.

        Parameters
        ----------
        X : data frame or array of shape (n_samples, n_columns)
            Rows to encode. The columns of a data frame may be in any order.

        Returns
        -------
        array of shape (n_samples, n_features), or a data frame (see ``set_output``)
            Encoded features.
        """
        check_is_fitted(self, "columns_")
        table, unknown = self._table(X, reset=False), UnknownValues()
        features = self.encode(table, unknown).X
        unknown.warn(table.name)
        return features

    def get_feature_names_out(self, input_features: Any = None) -> NDArray:
        """Return the names of the features.

        Parameters
        ----------
        input_features : sequence of str or None, default=None
            Names of the columns seen during `fit`, used for validation only.

        Returns
        -------
        array of str
            Names of the features.
        """
        check_is_fitted(self, "columns_")
        _check_feature_names_in(self, input_features)
        return np.array(self.feature_names, object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags

    def _table(self, X: Any, *, reset: bool) -> RawTable:
        """Return the columns of X; set or check ``n_features_in_`` and ``feature_names_in_``."""
        if is_frame(X):
            table = table_of(X)
            if reset:
                names = list(X.column_names if hasattr(X, "column_names") else X.columns)
                self.n_features_in_ = len(names)
                self.__dict__.pop("feature_names_in_", None)
                if all(isinstance(name, str) for name in names):
                    self.feature_names_in_ = np.array(names, object)
            return table
        X = validate_data(self, X, dtype=None, ensure_all_finite="allow-nan", reset=reset)
        names = getattr(self, "feature_names_in_", [f"x{p}" for p in range(X.shape[1])])
        columns = {str(name): X[:, p] for p, name in enumerate(names)}
        if X.dtype.kind == "O":
            columns = {name: _to_numbers(cells) for name, cells in columns.items()}
        return RawTable("the array", columns)

    def attach(self, frame: Any) -> RawTable:
        """Attach this encoder to a data frame that is passed to `fit` of an estimator.

        `fit` encodes the table with a clone of this encoder.

        Parameters
        ----------
        frame : pandas or polars data frame, or pyarrow table
            Data frame.

        Returns
        -------
        RawTable
            Table with the encoder.

        Examples
        --------
        >>> import pandas as pd
        >>> from maxplus import LMMClassifier
        >>> from maxplus.tables import TableEncoder
        >>> frame = pd.DataFrame({"ward": [1, 2, 3] * 20, "age": [30, 42, 55, 67] * 15})
        >>> ill = frame["age"] + 20 * (frame["ward"] == 2) > 60
        >>> encoder = TableEncoder(categorical=["ward"])
        >>> clf = LMMClassifier(6, slope=2.0, random_state=0).fit(encoder.attach(frame), ill)
        >>> clf.encoder_.feature_names
        ['ward = 1', 'ward = 2', 'ward = 3', 'age']
        >>> clf.predict(frame).shape
        (60,)
        """
        return replace(table_of(frame), encoder=self)

    def encode(self, table: RawTable, unknown: UnknownValues | None = None) -> Encoded:
        """Encode a table.

        Parameters
        ----------
        table : RawTable
            Table to encode.
        unknown : UnknownValues, optional
            Counter of unknown categories and unexpected missing values.

        Returns
        -------
        Encoded
            Features and mask of missing values.
        """
        X, missing = self._encode(table, UnknownValues() if unknown is None else unknown)
        return Encoded(self.standardized(X), missing)

    def standardized(self, X: NDArray) -> NDArray:
        """Return standardised features, or X itself if ``standardize`` is False.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Encoded features before standardisation.

        Returns
        -------
        array of shape (n_samples, n_features)
            Standardised features.
        """
        return (X - self.ranges_.mean) / self.ranges_.deviations if self.standardize else X

    def _encode(self, table: RawTable, unknown: UnknownValues) -> Encoded:
        names = [column.name for column in self.columns_]
        absent = [name for name in names if name not in table.columns]
        if absent:
            # Columns that the model does not use may have been renamed: list them first.
            present = sorted(table.names or table.columns, key=lambda name: name in names)
            raise TableError(
                f"{table.name} lacks column{'s' * (len(absent) > 1)} {listed_names(absent)}, which "
                f"the model needs; it has {listed_names(present)}"
            )
        if self.missing == ERROR:
            check_not_missing(table, ((name, table.feature(name)) for name in names))
        check_memory(table.name, 8 * table.n_rows * self.n_features)
        X = np.zeros((table.n_rows, self.n_features))
        missing = np.zeros((table.n_rows, len(self.columns_)), bool, order="F")
        for k, features in enumerate(self.feature_slices):
            missing[:, k] = self.columns_[k].encode(table, X[:, features], unknown)
        return Encoded(X, missing)

    @property
    def feature_names(self) -> list[str]:
        """Names of the features."""
        return [feature for column in self.columns_ for feature in column.features]

    @property
    def n_features(self) -> int:
        """Number of features."""
        return sum(len(column.features) for column in self.columns_)

    @property
    def feature_slices(self) -> list[slice]:
        """Slice of features of each column."""
        ends = np.cumsum([len(column.features) for column in self.columns_]).tolist()
        return [slice(a, b) for a, b in zip([0, *ends[:-1]], ends, strict=True)]

    @property
    def read_as(self) -> dict[str, bool | None]:
        """Columns to read: True for text, False for numbers, None to infer the type."""
        columns: dict[str, bool | None] = {c.name: c.is_text for c in self.columns_}
        return {**columns, self.target_.name: True if self.target_.is_text else None}

    def domain(self) -> Domain:
        """Return the domain of the features in the training data.

        Returns
        -------
        maxplus.explain.Domain
            Valid values of the features in counterfactuals.
        """
        # Imported lazily, because encoding does not need explanations.
        from maxplus.explain import Domain, OneHotGroup

        ranges = self.ranges_
        low, high, whole = ranges.low.copy(), ranges.high.copy(), ranges.whole.copy()
        fixed = np.zeros(self.n_features, bool)
        values: dict[int, NDArray] = {}
        categories: list[OneHotGroup] = []
        indicators: dict[int, int] = {}
        ordinals: dict[int, tuple[str, ...]] = {}
        for column, part in zip(self.columns_, self.feature_slices, strict=True):
            p, features = part.start, range(part.start, part.stop - column.indicator)
            if column.indicator:
                fixed[part.stop - 1] = True
                indicators |= dict.fromkeys(features, part.stop - 1)
            if isinstance(column, Category):
                if features:
                    categories.append(OneHotGroup(column.name, tuple(features), column.values))
            elif isinstance(column, Ordinal):
                low[p], high[p], whole[p] = 0.0, len(column.categories) - 1.0, True
                ordinals[p] = column.categories
            elif ranges.two_valued[p]:
                values[p] = np.array([low[p], high[p]])
        return Domain(
            ranges.deviations,
            low,
            high,
            whole,
            fixed,
            tuple(self.feature_names),
            values,
            tuple(categories),
            indicators,
            ordinals,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the fitted encoder as JSON data.

        Returns
        -------
        dict
            JSON-compatible data, as stored in a model file.
        """
        check_is_fitted(self, "columns_")
        names = getattr(self, "feature_names_in_", None)
        return {
            "parameters": {
                name: list(value) if isinstance(value, (tuple, list)) else value
                for name, value in self.get_params(deep=False).items()
            },
            "columns": [column.to_json() for column in self.columns_],
            "ranges": self.ranges_.to_json(),
            "target": self.target_._asdict(),
            "n_inputs": self.n_features_in_,
            "inputs": None if names is None else [str(name) for name in names],
            "image_shape": None if self.image_shape_ is None else list(self.image_shape_),
            "data": self.data_,
            "decisions": list(self.decisions_),
        }

    @classmethod
    def from_json(cls, record: Any) -> TableEncoder:
        """Return the encoder of a `to_json` record.

        Parameters
        ----------
        record : dict
            JSON data.

        Returns
        -------
        TableEncoder
            Fitted encoder.

        Raises
        ------
        ValueError
            If the record is invalid.
        """
        check_fields(record, _FIELDS, "the encoder")
        check_fields(record["parameters"], _PARAMETERS, "the encoder's parameters")
        check_fields(record["target"], _TARGET, "the encoder's target")
        encoder = cls(**record["parameters"])
        try:
            encoder.columns_ = tuple(column_from_json(column) for column in record["columns"])
        except (TypeError, KeyError, ValueError, AttributeError) as error:
            raise ValueError(f"the encoder's columns cannot be read: {error!r:.120}") from None
        encoder.target_ = Target(**record["target"])
        names = [*(column.name for column in encoder.columns_), encoder.target_.name]
        if len(set(names)) != len(names):
            raise ValueError(f"the encoder's column names must be unique; got {names!r:.60}")
        P, shape = encoder.n_features, record["image_shape"]
        encoder.ranges_ = Ranges.from_json(record["ranges"], P)
        if shape is not None and shape[0] * shape[1] != P:
            raise ValueError(
                f"the encoder's image_shape must be a height and a width with a product of {P}, "
                f"not {shape!r:.60}"
            )
        encoder.image_shape_ = None if shape is None else (shape[0], shape[1])
        encoder.data_, encoder.decisions_ = record["data"], tuple(record["decisions"])
        n, inputs = record["n_inputs"], record["inputs"]
        if n < len(encoder.columns_) or (inputs is not None and len(inputs) != n):
            raise ValueError(
                f"the encoder's n_inputs, {n}, does not match its columns and inputs {inputs!r:.60}"
            )
        encoder.n_features_in_ = n
        if inputs is not None:
            encoder.feature_names_in_ = np.array(inputs, object)
        return encoder


@dataclass(frozen=True, eq=False)
class Ranges:
    """Statistics of the features in the training data.

    Attributes
    ----------
    deviations : ndarray of shape (n_features,)
        Standard deviations, 1 for constant features.
    mean, low, high : ndarray of shape (n_features,)
        Mean, minimum and maximum.
    whole : ndarray of bool of shape (n_features,)
        Mask of features with integer values only.
    two_valued : ndarray of bool of shape (n_features,)
        Mask of features with exactly two values.
    """

    deviations: NDArray
    mean: NDArray
    low: NDArray
    high: NDArray
    whole: NDArray
    two_valued: NDArray

    @classmethod
    def from_rows(cls, X: NDArray, name: str, feature_names: list[str]) -> Ranges:
        """Compute the statistics of features of shape (n_samples, n_features)."""
        low, high = X.min(axis=0), X.max(axis=0)
        integer, two_valued = np.ones(X.shape[1], bool), low < high
        deviations = np.empty(X.shape[1])
        for columns, block in column_blocks(X):
            for k in range(0, len(X), RANGES_ROWS):
                part = block[k : k + RANGES_ROWS]
                integer[columns] &= (part == np.round(part)).all(axis=0)
                is_extreme = (part == low[columns]) | (part == high[columns])
                two_valued[columns] &= is_extreme.all(axis=0)
            deviations[columns] = _deviations(block)
        if not np.isfinite(deviations).all():
            p = int(np.flatnonzero(~np.isfinite(deviations))[0])
            raise TableError(
                f"{name}: {feature_names[p]!r} reaches {max(high[p], -low[p]):g}, too large to "
                "square; divide it by a power of ten"
            )
        # The standard deviation of equal numbers may be nonzero because of rounding.
        deviations = np.where((low == high) | (deviations == 0.0), 1.0, deviations)
        mean = X.mean(axis=0, dtype=np.float64)
        return cls(deviations, mean, low.astype(float), high.astype(float), integer, two_valued)

    def to_json(self) -> dict[str, Any]:
        """Return the statistics as JSON data."""
        return {field.name: getattr(self, field.name).tolist() for field in fields(self)}

    @classmethod
    def from_json(cls, record: Any, n: int) -> Ranges:
        """Return the ranges of a `to_json` record of n features; raise ValueError if invalid."""

        def all_of(is_valid: Check) -> Check:
            return lambda v: isinstance(v, list) and len(v) == n and all(map(is_valid, v))

        flags = ("whole", "two_valued")
        checks = {field.name: all_of(_is_finite) for field in fields(cls)}
        check_fields(record, checks | dict.fromkeys(flags, all_of(is_bool)), "the encoder's ranges")
        ranges = cls(
            **{name: np.array(record[name], bool if name in flags else float) for name in record}
        )
        if not (ranges.deviations > 0).all():
            raise ValueError(
                f"the encoder's deviations must be positive, not {record['deviations']!r:.60}"
            )
        if (ranges.low > ranges.high).any():
            p = int((ranges.low > ranges.high).argmax())
            raise ValueError(
                f"the encoder's ranges have low {ranges.low[p]:g} above high {ranges.high[p]:g}"
            )
        return ranges


def _deviations(X: NDArray) -> NDArray:
    with np.errstate(over="ignore", invalid="ignore"):
        if X.dtype == np.float64:
            return X.std(axis=0)
        mean = X.mean(axis=0, dtype=np.float64)
        parts = (X[k : k + RANGES_ROWS] - mean for k in range(0, len(X), RANGES_ROWS))
        return np.sqrt(sum(np.square(part).sum(axis=0) for part in parts) / len(X))


def _to_numbers(cells: NDArray) -> NDArray:
    """Convert a column of objects to numbers if possible."""
    try:
        return cells.astype(np.float64)
    except (TypeError, ValueError):
        return cells


def _is_finite(value: Any) -> bool:
    # Integers in JSON may exceed the range of floats.
    return (type(value) is int and abs(value) <= 2**53) or (
        type(value) is float and math.isfinite(value)
    )


def _is_shape(value: Any) -> bool:
    is_pair = isinstance(value, list) and len(value) == 2
    return is_pair and all(type(side) is int and side > 0 for side in value)


_FIELDS: dict[str, Check] = {
    **dict.fromkeys(("parameters", "ranges", "target"), lambda v: isinstance(v, dict)),
    "columns": lambda v: isinstance(v, list),
    "n_inputs": lambda v: type(v) is int,
    "inputs": lambda v: v is None or is_str_list(v),
    "image_shape": lambda v: v is None or _is_shape(v),
    "data": is_str,
    "decisions": is_str_list,
}
_PARAMETERS: dict[str, Check] = {
    **dict.fromkeys(("categorical", "numeric", "keep"), is_str_list),
    "drop": lambda v: v is None or is_str(v) or is_str_list(v),
    "missing": lambda v: v in (IMPUTE, ERROR),
    "standardize": is_bool,
}
_TARGET: dict[str, Check] = {
    "name": is_str,
    "task": lambda v: v in (CLASSIFICATION, REGRESSION),
    "is_text": is_bool,
}
