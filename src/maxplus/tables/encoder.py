"""A scikit-learn transformer that encodes tables as numeric features."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from maxplus.distributed import current
from maxplus.distributed.shared_rows import column_blocks
from maxplus.tables.columns import (
    Category,
    Column,
    Number,
    Ordinal,
    UnknownValues,
    column_from_json,
    listed_names,
)
from maxplus.tables.files import check_memory
from maxplus.tables.frames import is_frame, table_of
from maxplus.tables.partitioned import TableShare
from maxplus.tables.schema import (
    CLASSIFICATION,
    IMPUTE,
    REFUSE,
    REGRESSION,
    Overrides,
    Target,
    infer_schema,
    label_name,
)
from maxplus.tables.table import RawTable, TableError, refuse_missing

# Number of rows in a block, small enough for its features to stay in the CPU cache.
ROWS_AT_ONCE = 1 << 15
# Number of rows that are converted to float64 at a time, to save memory with images.
ROWS_MEASURED = 4096


class Encoded(NamedTuple):
    """Features X, shape (N, P), and the mask of missing values, shape (N, columns)."""

    X: NDArray
    missing: NDArray


class TableEncoder(TransformerMixin, BaseEstimator):
    """Encode the columns of a table as numeric features for any scikit-learn estimator.

    A numeric column is one feature. A categorical column is one-hot encoded; if it has many
    values, the infrequent ones share one feature. Ordinal text ("low", "medium", "high"; "<5",
    "5-9"; ordered categoricals) is encoded by position, and text with units ("70 kg") by the number
    in it. Missing values are imputed with the median or the most frequent value; if a column has
    several, a 0/1 feature indicates them. An unknown category is encoded as zeros (one-hot) or as
    the imputed value (ordinal), and a warning gives the number of such values. The estimators of
    this library fit their own encoder (``encoder_``) when ``fit`` is called with a data frame.

    Parameters
    ----------
    categorical : sequence of str, default=()
        Columns to one-hot encode even if they contain numbers.
    numeric : sequence of str, default=()
        Text columns to encode as the number in each text ("12 mg", "grade 2", "5-10").
    drop : None, "auto" or sequence of str, default=None
        Columns to leave out. "auto", alone or in the sequence, leaves out ids, dates, free text,
        constants and columns without values; by default every column becomes a feature.
    keep : sequence of str, default=()
        Columns that "auto" must not leave out.
    missing : {"impute", "error"}, default="impute"
        Impute missing values, or raise an error.
    standardize : bool, default=False
        Scale features to mean 0 and standard deviation 1.

    Attributes
    ----------
    columns_ : tuple of `maxplus.tables.Column`
        The columns that are used, in order.
    ranges_ : `maxplus.tables.Ranges`
        Statistics of each feature in training, before standardisation.
    decisions_ : tuple of str
        Log of the inferred properties of columns that can be overridden by parameters.
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
    # (height, width) if the features are pixels.
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

    # -- scikit-learn API --------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None) -> TableEncoder:
        """Infer the type of each column.

        Parameters
        ----------
        X : data frame of pandas, polars or pyarrow, or array of shape (n_samples, n_columns)
        y : ignored

        Returns
        -------
        self
        """
        table = self._table(X, reset=True)
        self._fit(table, Target(label_name(y, table)))
        return self

    def fit_encode(
        self,
        table: RawTable,
        target: Target | None = None,
        image_shape: tuple[int, int] | None = None,
        all_rows: RawTable | None = None,
    ) -> Encoded:
        """Infer the column types from the rows of all ranks, and return the encoded table.

        Parameters
        ----------
        table : RawTable
            The table without its target.
        target : Target, optional
            The column to predict, which is stored with the encoder.
        image_shape : (height, width), optional
            The shape of the images if the columns are pixels.
        all_rows : RawTable, optional
            The rows from which types and imputed values are inferred: ``table`` and the rows
            without a label.

        Returns
        -------
        Encoded
        """
        self.n_features_in_ = len(table.columns)
        self.feature_names_in_ = np.array(list(table.columns), object)
        target = target or Target(label_name(None, table))
        X, missing = self._fit(table, target, image_shape, all_rows)
        return Encoded(self.standardized(X), missing)

    def _fit(
        self,
        table: RawTable,
        target: Target,
        image_shape: tuple[int, int] | None = None,
        all_rows: RawTable | None = None,
    ) -> Encoded:
        overrides, comm = Overrides.of(self.get_params(deep=False)), current()
        schema = comm.root_only(
            lambda gathered: infer_schema(gathered, overrides, target.name),
            (all_rows or table) if comm.is_alone else TableShare(all_rows or table),
        )
        self.columns_, self.decisions_ = schema.columns, schema.decisions
        self.target_, self.image_shape_, self.data_ = target, image_shape, table.name
        with comm.raise_on_all_ranks():
            found = self._encode(table, UnknownValues())
        self._set_ranges(found.X)
        return found

    @classmethod
    def of_images(cls, X: NDArray, name: str, shape: tuple[int, int]) -> TableEncoder:
        """Return an encoder whose columns are the pixels of images, shape (N, height·width)."""
        encoder = cls()
        names = [f"pixel {r},{c}" for r in range(shape[0]) for c in range(shape[1])]
        encoder.columns_, encoder.decisions_ = tuple(map(Number, names)), ()
        encoder.target_, encoder.image_shape_, encoder.data_ = Target("class"), shape, name
        encoder.n_features_in_ = len(names)
        encoder._set_ranges(X)
        return encoder

    def _set_ranges(self, X: NDArray) -> None:
        names, name = self.feature_names, self.data_
        self.ranges_ = current().root_only(lambda rows: Ranges.of(rows, name, names), X)

    def transform(self, X: Any) -> Any:
        """Encode rows.

        Parameters
        ----------
        X : data frame, whose columns may be in any order, or array

        Returns
        -------
        array of shape (n_samples, n_features), or a data frame if ``set_output`` requests one
        """
        check_is_fitted(self, "columns_")
        table, unknown = self._table(X, reset=False), UnknownValues()
        found = self.encode(table, unknown).X
        unknown.warn(table.name)
        return found

    def get_feature_names_out(self, input_features: Any = None) -> NDArray:
        """Return the names of the features.

        Parameters
        ----------
        input_features : None or the names of the columns in `fit`

        Returns
        -------
        array of str
        """
        check_is_fitted(self, "columns_")
        if input_features is not None:
            expected = getattr(self, "feature_names_in_", None)
            if len(input_features) != self.n_features_in_:
                raise ValueError(
                    f"input_features should have length equal to number of features "
                    f"({self.n_features_in_}), got {len(input_features)}"
                )
            if expected is not None and list(input_features) != list(expected):
                raise ValueError("input_features is not equal to feature_names_in_")
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

    # -- interface for estimators and commands -----------------------------------------------------

    def attach(self, frame: Any) -> RawTable:
        """Return a data frame with this encoder attached, as input to ``fit`` of an estimator.

        ``fit`` encodes the table with a clone of this encoder.

        Parameters
        ----------
        frame : data frame of pandas, polars or pyarrow

        Returns
        -------
        RawTable

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
        unknown : UnknownValues, optional
            Counter to which the unknown categories and unexpected missing values of this table
            are added. By default, they are not reported.

        Returns
        -------
        Encoded
        """
        X, missing = self._encode(table, UnknownValues() if unknown is None else unknown)
        return Encoded(self.standardized(X), missing)

    def standardized(self, X: NDArray) -> NDArray:
        """Return standardised features, or X itself if ``standardize`` is False.

        Parameters
        ----------
        X : array of shape (N, P)

        Returns
        -------
        array of shape (N, P)
        """
        return (X - self.ranges_.mean) / self.ranges_.deviations if self.standardize else X

    def _encode(self, table: RawTable, unknown: UnknownValues) -> Encoded:
        names = [column.name for column in self.columns_]
        absent = [name for name in names if name not in table.columns]
        if absent:
            raise TableError(
                f"{table.name} lacks column{'s' * (len(absent) > 1)} {listed_names(absent)}, which "
                f"the model needs; it has {listed_names(list(table.columns))}"
            )
        if self.missing == REFUSE:
            refuse_missing(table, {name: table.feature(name) for name in names})
        check_memory(table.name, 8 * table.n_rows * self.n_features)
        X = np.zeros((table.n_rows, self.n_features))
        missing = np.zeros((table.n_rows, len(self.columns_)), bool, order="F")
        slices = list(enumerate(zip(self.columns_, self.feature_slices, strict=True)))
        # Writes to a column of X are strided, so blocks of rows are used that stay in the cache.
        for start in range(0, table.n_rows, ROWS_AT_ONCE):
            rows = slice(start, start + ROWS_AT_ONCE)
            part = table.part(rows.start, rows.stop)
            for k, (column, features) in slices:
                missing[rows, k] = column.encode(part, X[rows, features], unknown)
        return Encoded(X, missing)

    @property
    def feature_names(self) -> list[str]:
        """Names of the features."""
        return [feature for column in self.columns_ for feature in column.features]

    @property
    def n_features(self) -> int:
        """Number of features, P."""
        return sum(len(column.features) for column in self.columns_)

    @property
    def feature_slices(self) -> list[slice]:
        """The slice of features of each column."""
        ends = np.cumsum([len(column.features) for column in self.columns_]).tolist()
        return [slice(a, b) for a, b in zip([0, *ends[:-1]], ends, strict=True)]

    @property
    def read_as(self) -> dict[str, bool | None]:
        """Columns to read: True for text, False for numbers, None to infer the type."""
        columns: dict[str, bool | None] = {c.name: c.is_text for c in self.columns_}
        return {**columns, self.target_.name: True if self.target_.is_text else None}

    def features_of(self, columns: Sequence[str]) -> list[int]:
        """Return the indices of features, given the names of columns or features.

        Parameters
        ----------
        columns : names of columns or features

        Returns
        -------
        list of int
        """
        features = {name: [p] for p, name in enumerate(self.feature_names)}
        of_columns = {
            column.name: range(part.start, part.stop)
            for column, part in zip(self.columns_, self.feature_slices, strict=True)
        }
        for name in columns:
            if name not in features and name not in of_columns:
                raise ValueError(
                    f"the model has no column {name!r}; it has {', '.join(list(of_columns)[:20])}"
                )
        known = {**features, **of_columns}
        return [p for name in columns for p in known[name]]

    def domain(self) -> FeatureValues:
        """Return the feature values seen in training, as the domain of counterfactuals.

        Returns
        -------
        FeatureValues
        """
        ranges = self.ranges_
        low, high, integer = ranges.low.copy(), ranges.high.copy(), ranges.whole.copy()
        fixed = np.zeros(self.n_features, bool)
        values: dict[int, NDArray] = {}
        categories: list[Group] = []
        indicators: dict[int, int] = {}
        ordinals: dict[int, tuple[str, ...]] = {}
        for column, part in zip(self.columns_, self.feature_slices, strict=True):
            p, features = part.start, range(part.start, part.stop - column.indicator)
            if column.indicator:
                fixed[part.stop - 1] = True
                indicators |= dict.fromkeys(features, part.stop - 1)
            if isinstance(column, Category):
                if features:
                    categories.append(Group(column.name, tuple(features), column.values))
            elif isinstance(column, Ordinal):
                low[p], high[p], integer[p] = 0.0, len(column.categories) - 1.0, True
                ordinals[p] = column.categories
            elif ranges.two_valued[p]:
                values[p] = np.array([low[p], high[p]])
        return FeatureValues(
            ranges.deviations,
            low,
            high,
            integer,
            fixed,
            tuple(self.feature_names),
            values,
            tuple(categories),
            indicators,
            ordinals,
        )

    # -- JSON --------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """Return the fitted encoder as JSON data, for a model file.

        Returns
        -------
        dict
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
        """Restore an encoder from a `to_json` record; raise ValueError if it is invalid."""
        _check_fields(record, _FIELDS, "the encoder")
        _check_fields(record["parameters"], _PARAMETERS, "the encoder's parameters")
        _check_fields(record["target"], _TARGET, "the encoder's target")
        encoder = cls(**record["parameters"])
        try:
            encoder.columns_ = tuple(column_from_json(column) for column in record["columns"])
        except (TypeError, KeyError, ValueError, AttributeError) as error:
            raise ValueError(f"the encoder's columns cannot be read: {error!r:.120}") from None
        encoder.target_ = Target(**record["target"])
        names = [*(column.name for column in encoder.columns_), encoder.target_.name]
        if len(set(names)) != len(names):
            raise ValueError(f"the encoder's names cannot be {names!r:.60}")
        P, shape = encoder.n_features, record["image_shape"]
        encoder.ranges_ = Ranges.from_json(record["ranges"], P)
        if shape is not None and shape[0] * shape[1] != P:
            raise ValueError(
                f"the encoder's image_shape must be two sides of {P} pixels, not {shape!r:.60}"
            )
        encoder.image_shape_ = None if shape is None else (shape[0], shape[1])
        encoder.data_, encoder.decisions_ = record["data"], tuple(record["decisions"])
        n, inputs = record["n_inputs"], record["inputs"]
        if n < len(encoder.columns_) or (inputs is not None and len(inputs) != n):
            raise ValueError(f"the encoder's n_inputs cannot be {n}, with inputs {inputs!r:.60}")
        encoder.n_features_in_ = n
        if inputs is not None:
            encoder.feature_names_in_ = np.array(inputs, object)
        return encoder


class Group(NamedTuple):
    """The one-hot features of a categorical column; with ``none``, all of them may be 0."""

    name: str
    features: tuple[int, ...]
    words: tuple[str, ...]
    none: bool = False


class FeatureValues(NamedTuple):
    """The fields of `maxplus.explain.Domain` as plain data, for P features.

    Attributes
    ----------
    unit : standard deviations in training, shape (P,)
    low, high : smallest and largest value in training, shape (P,)
    whole : mask of the features that take only integers, shape (P,)
    fixed : mask of the features that must not change: missing-value indicators; shape (P,)
    names : names of the features
    values : the two values of each two-valued feature
    categories : categorical columns, whose features change together
    indicators : for a feature that may be missing, the feature that indicates it
    ordinals : for an ordinal feature, its categories, the lowest first
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
    ordinals: Mapping[int, tuple[str, ...]]


@dataclass(frozen=True, eq=False)
class Ranges:
    """Statistics of P features in training, as arrays of shape (P,).

    Attributes
    ----------
    deviations : standard deviations; 1 for a constant feature, since 0 in the scale of a
        certificate means that a feature is held fixed
    mean, low, high : mean, smallest and largest value
    whole : whether all values were integers
    two_valued : whether ``low`` and ``high`` were the only values
    """

    deviations: NDArray
    mean: NDArray
    low: NDArray
    high: NDArray
    whole: NDArray
    two_valued: NDArray

    @classmethod
    def of(cls, X: NDArray, name: str, feature_names: list[str]) -> Ranges:
        """Compute the statistics of training data of shape (N, P); O(N·P)."""
        low, high = X.min(axis=0), X.max(axis=0)
        integer, two_valued = np.ones(X.shape[1], bool), low < high
        deviations = np.empty(X.shape[1])
        for columns, block in column_blocks(X):
            for k in range(0, len(X), ROWS_MEASURED):
                part = block[k : k + ROWS_MEASURED]
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
        # Rounding can make the deviation of equal numbers nonzero.
        deviations = np.where((low == high) | (deviations == 0.0), 1.0, deviations)
        mean = X.mean(axis=0, dtype=np.float64)
        return cls(deviations, mean, low.astype(float), high.astype(float), integer, two_valued)

    def to_json(self) -> dict[str, Any]:
        """Return JSON data for a model file."""
        return {field.name: getattr(self, field.name).tolist() for field in fields(self)}

    @classmethod
    def from_json(cls, record: Any, n: int) -> Ranges:
        """Restore the ranges of n features from a `to_json` record; raise ValueError if invalid."""
        checks: dict[str, tuple[str, Callable[[Any], bool]]] = {
            "deviations": ("positive finite numbers", lambda v: _is_finite(v) and v > 0),
            **dict.fromkeys(("mean", "low", "high"), ("finite numbers", _is_finite)),
            **dict.fromkeys(("whole", "two_valued"), ("truth values", _is_bool)),
        }
        is_list = dict.fromkeys(checks, lambda v: isinstance(v, list))
        _check_fields(record, is_list, "the encoder's ranges")
        for name, (kind, is_valid) in checks.items():
            values = record[name]
            if len(values) != n or not all(map(is_valid, values)):
                raise ValueError(f"the encoder's {name} must be {n} {kind}, not {values!r:.60}")
        arrays = {name: np.array(values, np.float64) for name, values in record.items()}
        flags = {name: arrays[name].astype(bool) for name in ("whole", "two_valued")}
        found = cls(**arrays | flags)
        if (found.low > found.high).any():
            p = int((found.low > found.high).argmax())
            raise ValueError(
                f"the encoder's ranges have low {found.low[p]:g} above high {found.high[p]:g}"
            )
        return found


def _deviations(X: NDArray) -> NDArray:
    with np.errstate(over="ignore", invalid="ignore"):
        if X.dtype == np.float64:
            return X.std(axis=0)
        mean = X.mean(axis=0, dtype=np.float64)
        parts = (X[k : k + ROWS_MEASURED] - mean for k in range(0, len(X), ROWS_MEASURED))
        return np.sqrt(sum(np.square(part).sum(axis=0) for part in parts) / len(X))


def _to_numbers(cells: NDArray) -> NDArray:
    """Convert a column of an object array to numbers, if all of its cells are numbers."""
    try:
        return cells.astype(np.float64)
    except (TypeError, ValueError):
        return cells


# -- validation of JSON ----------------------------------------------------------------------------


def _is_str(value: Any) -> bool:
    return type(value) is str


def _is_bool(value: Any) -> bool:
    return type(value) is bool


def _is_finite(value: Any) -> bool:
    # JSON integers may exceed the range of floats.
    return (type(value) is int and abs(value) <= 2**53) or (
        type(value) is float and math.isfinite(value)
    )


def _are_str(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_str, value))


def _is_shape(value: Any) -> bool:
    is_pair = isinstance(value, list) and len(value) == 2
    return is_pair and all(type(side) is int and side > 0 for side in value)


_FIELDS: dict[str, Callable[[Any], bool]] = {
    "parameters": lambda v: isinstance(v, dict),
    "columns": lambda v: isinstance(v, list),
    "ranges": lambda v: isinstance(v, dict),
    "target": lambda v: isinstance(v, dict),
    "n_inputs": lambda v: type(v) is int,
    "inputs": lambda v: v is None or _are_str(v),
    "image_shape": lambda v: v is None or _is_shape(v),
    "data": _is_str,
    "decisions": _are_str,
}
_PARAMETERS: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("categorical", "numeric", "keep"), _are_str),
    "drop": lambda v: v is None or _is_str(v) or _are_str(v),
    "missing": lambda v: v in (IMPUTE, REFUSE),
    "standardize": _is_bool,
}
_TARGET: dict[str, Callable[[Any], bool]] = {
    "name": _is_str,
    "task": lambda v: v in (CLASSIFICATION, REGRESSION),
    "is_text": _is_bool,
}


def _check_fields(record: Any, schema: Mapping[str, Callable[[Any], bool]], what: str) -> None:
    """Raise ValueError unless a record has exactly the fields of a schema, with valid values."""
    if not isinstance(record, dict) or not set(record) <= set(schema):
        raise ValueError(f"{what} cannot be {record!r:.60}")
    absent = [name for name in schema if name not in record]
    if absent:
        raise ValueError(f"{what} lacks {', '.join(absent)}")
    for name, is_valid in schema.items():
        if not is_valid(record[name]):
            raise ValueError(f"{what}: {name} cannot be {record[name]!r:.60}")
