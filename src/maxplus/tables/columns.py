"""Encoding of numeric, categorical and ordinal columns."""

from __future__ import annotations

import math
import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from maxplus.distributed import Communicator
from maxplus.tables.table import Categorical, RawTable, TableError, as_text, quoted

OTHER = "other"
# Longer strings are not matched, to bound the run time of regular expressions.
MAX_LENGTH = 100

_DIGITS = r"[-+]?\d+(?:[,\s]\d{3})*(?:\.\d+)?"
# A currency symbol may precede the digits; a unit may follow them.
CURRENCIES = "€$£"
_UNIT = rf"\s*(?:%|[{CURRENCIES}]|[a-zµ]+(?:/[a-z]+)?)?"
_NUMBER = rf"(?:[{CURRENCIES}]\s*)?({_DIGITS}){_UNIT}"
_BELOW = re.compile(rf"(?:<=?|≤|under|below|less than|up to)\s*{_NUMBER}")
_ABOVE = re.compile(rf"(?:>=?|≥|over|above|more than|from)\s*{_NUMBER}")
_AND_MORE = re.compile(rf"{_NUMBER}\s*(?:\+|plus|and over|and above|and more|or more)")
_BETWEEN = re.compile(rf"{_NUMBER}\s*(?:-|–|\.\.|to)\s*{_NUMBER}")
_EXACTLY = re.compile(rf"((?:[{CURRENCIES}]\s*)?)({_DIGITS})({_UNIT})")


# -- numbers in text ------------------------------------------------------------------------------


def parse_number(text: str, *, decimal_comma: bool = False) -> float:
    """Parse a number with a decimal point, or with a decimal comma; return NaN for other text."""
    try:
        if not text.isascii() or "_" in text:
            return math.nan
        return float(text.translate(str.maketrans(",.", ".,")) if decimal_comma else text)
    except ValueError:
        return math.nan


def extract_number(text: str) -> float:
    """Return the number in a string such as "grade 2", the midpoint of a range, or NaN.

    An open range such as ">5" is converted to its bound. The result for any other string is NaN
    unless it contains exactly one number, whose sign is ignored.
    """
    bounds = parse_range(text)
    if bounds is None:
        digits = re.findall(_DIGITS, normalize(text))
        # The hyphen of "grade-2" is not a sign.
        return _to_float(digits[0].lstrip("-")) if len(digits) == 1 else math.nan
    low, high = bounds
    if math.isinf(low) or math.isinf(high):
        return high if math.isinf(low) else low
    return (low + high) / 2.0


def parse_range(text: str) -> tuple[float, float] | None:
    """Return the bounds of a range or number, such as "5-9" or "<5 kg", or None."""
    text = normalize(text)
    if match := _BELOW.fullmatch(text):
        return -math.inf, _to_float(match[1])
    if match := (_ABOVE.fullmatch(text) or _AND_MORE.fullmatch(text)):
        return _to_float(match[1]), math.inf
    if match := _BETWEEN.fullmatch(text):
        low, high = _to_float(match[1]), _to_float(match[2])
        return (low, high) if low < high else None
    if match := _EXACTLY.fullmatch(text):
        return _to_float(match[2]), _to_float(match[2])
    return None


def parse_numbers_with_unit(texts: Sequence[str]) -> tuple[list[float], str] | None:
    """Return numbers such as "70 kg", "$5" or "1,250" and their common unit, or None."""
    matches = [match for text in texts if (match := _EXACTLY.fullmatch(normalize(text)))]
    units = {(match[1] + match[3]).strip() for match in matches}
    if len(matches) < len(texts) or len(units) != 1:
        return None
    return [_to_float(match[2]) for match in matches], units.pop()


def normalize(text: str) -> str:
    """Convert text to lower case with single spaces, or to "" if it is too long."""
    text = " ".join(text.lower().split())
    return text if len(text) <= MAX_LENGTH else ""


def _to_float(digits: str) -> float:
    return float(re.sub(r"[,\s]", "", digits))


# -- columns --------------------------------------------------------------------------------------


class UnknownValues:
    """Counter of unknown categories, unexpected missing values and missing labels.

    Parameters
    ----------
    strict : bool, default=False
        If True, raise an error for unknown categories.
    """

    def __init__(self, *, strict: bool = False) -> None:
        self.strict = strict
        self.unknown: Counter[str] = Counter()
        self.missing: Counter[str] = Counter()
        self._unlabelled: Counter[str] = Counter()
        self._examples: dict[str, str] = {}

    def count_unknown(
        self, table: RawTable, column: str, cells: Categorical, known: Container[str]
    ) -> None:
        """Count the rows with a value that is not in ``known``."""
        counts = cells.counts
        new = [k for k, v in enumerate(cells.values) if v not in known and counts[k] > 0]
        if not new:
            return
        if self.strict:
            raise TableError(
                f"{table.name}, {table.locate(cells.first(new[0]))}: {column!r} contains the "
                f"unknown category {quoted(cells.values[new[0]])}, which is not in the training "
                "data; correct it, or omit `strict`"
            )
        self.unknown[column] += int(counts[new].sum())
        self._examples.setdefault(column, cells.values[new[0]])

    def count_missing(self, column: str, missing: NDArray) -> None:
        """Count missing values of a column that had no missing values in the training data."""
        self.missing[column] += int(np.count_nonzero(missing))

    def count_unlabelled(self, target: str, n: int) -> None:
        """Count n rows that are dropped because they have no label."""
        self._unlabelled[target] += n

    def sum_over_ranks(self, comm: Communicator) -> None:
        """Add up the counts of all ranks."""
        parts = comm.allgather((self.unknown, self.missing, self._unlabelled, self._examples))
        unknown, missing, unlabelled, examples = zip(*parts, strict=True)
        self.unknown = sum(unknown, Counter())
        self.missing = sum(missing, Counter())
        self._unlabelled = sum(unlabelled, Counter())
        self._examples = {c: text for texts in reversed(examples) for c, text in texts.items()}

    def warn(self, name: str) -> None:
        """Issue a warning about the table ``name`` if any count is positive."""
        parts = []
        if self.unknown:
            texts = [
                f"{n:,} in {c!r} ({quoted(self._examples[c], 40)})" for c, n in self.unknown.items()
            ]
            parts.append(
                f"unknown categories, which are not in the training data: {_shortened(texts)}"
            )
        if self.missing:
            texts = [f"{n:,} in {column!r}" for column, n in self.missing.items()]
            parts.append(
                "missing values (imputed) in columns that had none in the training data: "
                f"{_shortened(texts)}"
            )
        for target, n in self._unlabelled.items():
            rows, are = ("row", "is") if n == 1 else ("rows", "are")
            parts.append(
                f"{n:,} {rows} without a value for the target {target!r}, which {are} dropped"
            )
        if parts:
            warnings.warn(f"{name} has {'; and '.join(parts)}", stacklevel=3)


@dataclass(frozen=True)
class Column:
    """Column of a table that is encoded as one or more features.

    Parameters
    ----------
    name : str
        Name of the column.
    fill : float, str or None, default=None
        Imputed value. If None, missing values raise an error.
    indicator : bool, default=False
        If True, a binary feature indicates missing values.
    had_missing : bool, default=False
        If True, the training data had missing values.
    """

    name: str
    fill: Any = None
    indicator: bool = False
    had_missing: bool = False

    kind: ClassVar[str]

    @property
    def values(self) -> tuple[str, ...] | None:
        """Known categories, or None for numbers."""
        return None

    @property
    def is_text(self) -> bool:
        """True if cells are read as text even if they look like numbers."""
        return True

    @property
    def features(self) -> list[str]:
        """Names of the features."""
        return [self.name, *self._indicator]

    @property
    def _indicator(self) -> list[str]:
        return [f"{self.name} is missing"] if self.indicator else []

    def encode(self, table: RawTable, out: NDArray, unknown: UnknownValues) -> NDArray:
        """Write the features into an array of zeros, and return the mask of missing values."""
        missing = self._encode(table, out, unknown)
        if missing.any():
            if self.fill is None:
                raise TableError(
                    f"{table.name}, {table.locate(int(missing.argmax()))}: {self.name!r} is "
                    "missing, and the encoder has no imputation value for it; fill it in"
                )
            if self.indicator:
                out[missing, -1] = 1.0
            if not self.had_missing:
                unknown.count_missing(self.name, missing)
        return missing

    def _encode(self, table: RawTable, out: NDArray, unknown: UnknownValues) -> NDArray:
        """Write all features but the indicator, and return the mask of missing values."""
        raise NotImplementedError

    def to_json(self) -> dict[str, Any]:
        """Return the column as JSON data."""
        record = {field.name: getattr(self, field.name) for field in fields(self)}
        lists = {name: list(v) for name, v in record.items() if isinstance(v, tuple)}
        return {"kind": self.kind, **record, **lists}


@dataclass(frozen=True)
class Number(Column):
    """Numeric column; ``from_text`` extracts the numbers from text."""

    from_text: bool = False

    kind = "number"

    @property
    def is_text(self) -> bool:
        return self.from_text

    def _encode(self, table: RawTable, out: NDArray, unknown: UnknownValues) -> NDArray:
        numbers = self.numbers(table)
        missing = np.isnan(numbers)
        out[:, 0] = numbers
        if missing.any():
            out[missing, 0] = np.nan if self.fill is None else self.fill
        return missing

    def numbers(self, table: RawTable) -> NDArray:
        """Return the numbers, NaN if missing; raise TableError if a cell is not a number."""
        cells = table.feature(self.name)
        if isinstance(cells, Categorical):
            parse = partial(parse_number, decimal_comma=self.name in table.commas)
            read = extract_number if self.from_text else parse
            numbers = np.array([*map(read, cells.values), np.nan])
            # A value may occur only in other parts of the table.
            bad = np.flatnonzero(np.isnan(numbers[:-1]) & (cells.counts > 0))
            if bad.size:
                row = min(map(cells.first, bad.tolist()))
                raise TableError(
                    f"{table.name}, {table.locate(row)}: {self.name!r} contains "
                    f"{quoted(cells[row])}, but numbers are expected; correct it, or leave it empty"
                )
            cells = numbers[cells.codes]
        if np.isinf(cells).any():
            row = int(np.isinf(cells).argmax())
            raise TableError(
                f"{table.name}, {table.locate(row)}: {self.name!r} contains infinite values "
                f"({cells[row]:g}); leave these cells empty"
            )
        return cells


@dataclass(frozen=True)
class Category(Column):
    """One-hot encoded column; ``other`` adds a feature for all remaining values.

    The only feature of a column without values in the training data is the missing-value indicator.
    """

    categories: tuple[str, ...] = ()
    other: bool = False

    kind = "category"

    @property
    def values(self) -> tuple[str, ...]:
        return (*self.categories, OTHER) if self.other else self.categories

    @property
    def features(self) -> list[str]:
        return [*(f"{self.name} = {value}" for value in self.values), *self._indicator]

    def _encode(self, table: RawTable, out: NDArray, unknown: UnknownValues) -> NDArray:
        cells = as_text(table.feature(self.name))
        other_index = len(self.categories) if self.other else -1
        index = {value: k for k, value in enumerate(self.categories)}
        if not self.other:
            unknown.count_unknown(table, self.name, cells, index)
        fill_code = -1 if self.indicator or self.fill is None else index.get(self.fill, other_index)
        new_codes = [*(index.get(v, other_index) for v in cells.values), fill_code]
        indices = np.array(new_codes)[cells.codes]
        known = np.flatnonzero(indices >= 0)
        out[known, indices[known]] = 1.0
        return cells.missing


@dataclass(frozen=True)
class Ordinal(Column):
    """Column of ordered categories, encoded as 0, 1, … in ascending order."""

    categories: tuple[str, ...] = ()

    kind = "ordinal"

    @property
    def values(self) -> tuple[str, ...]:
        return self.categories

    def _encode(self, table: RawTable, out: NDArray, unknown: UnknownValues) -> NDArray:
        cells = as_text(table.feature(self.name))
        index = {value: float(k) for k, value in enumerate(self.categories)}
        unknown.count_unknown(table, self.name, cells, index)
        # Unknown categories are encoded as missing values.
        fill_position = index.get(self.fill, np.nan)
        positions = [*(index.get(value, fill_position) for value in cells.values), fill_position]
        out[:, 0] = np.array(positions)[cells.codes]
        return cells.missing


KINDS: dict[str, type[Column]] = {kind.kind: kind for kind in (Number, Category, Ordinal)}


# -- validation of JSON data ----------------------------------------------------------------------


def is_str(value: Any) -> bool:
    """Return whether a value is a string."""
    return type(value) is str


def is_bool(value: Any) -> bool:
    """Return whether a value is True or False."""
    return type(value) is bool


def is_str_list(value: Any) -> bool:
    """Return whether a value is a list of strings."""
    return isinstance(value, list) and all(map(is_str, value))


def check_fields(record: Any, checks: Mapping[str, Callable[[Any], bool]], title: str) -> None:
    """Raise ValueError unless a record has exactly the fields in ``checks``, with valid values."""
    if not isinstance(record, dict) or not set(record) <= set(checks):
        raise ValueError(f"{title} cannot be {record!r:.60}")
    absent = [name for name in checks if name not in record]
    if absent:
        raise ValueError(f"{title} lacks {', '.join(absent)}")
    for name, is_valid in checks.items():
        if not is_valid(record[name]):
            raise ValueError(f"{title}: {name} cannot be {record[name]!r:.60}")


_CHECKS: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("kind", "name"), is_str),
    **dict.fromkeys(("indicator", "had_missing", "from_text", "other"), is_bool),
    "fill": lambda value: True,
    "categories": is_str_list,
}


def column_from_json(record: Any) -> Column:
    """Return the column of a `Column.to_json` record; raise ValueError if it is invalid."""
    kind = KINDS.get(record["kind"])
    if kind is None:
        raise ValueError(f"{record!r:.60} is not a column")
    names = [field.name for field in fields(kind)]
    check_fields(record, {name: _CHECKS[name] for name in ("kind", *names)}, "a column")
    params = {name: record[name] for name in names}
    if "categories" in params:
        params["categories"] = tuple(params["categories"])
    column = kind(**params)
    values = column.values
    if values is not None:
        # Only a column with an indicator may have no categories.
        may_be_empty = isinstance(column, Category) and column.indicator
        if len(set(values)) != len(values) or not (params["categories"] or may_be_empty):
            raise ValueError(f"{values!r:.60} are not distinct categories")
    if not _is_valid_fill(column):
        raise ValueError(f"{column.name!r:.40} cannot be imputed with {column.fill!r:.40}")
    return column


def _is_valid_fill(column: Column) -> bool:
    fill, known = column.fill, column.values
    if fill is None:
        # The fill value of ordinal columns also replaces unknown categories.
        return not (column.indicator or isinstance(column, Ordinal))
    if known is None:
        # Integers in JSON may exceed the range of floats.
        return type(fill) in (int, float) and abs(fill) <= sys.float_info.max
    return type(fill) is str and (fill in known if known else fill == "")


def listed_names(names: Sequence[str]) -> str:
    """Return at most ten quoted names, separated by commas."""
    return _shortened([repr(name) for name in names])


def _shortened(texts: list[str]) -> str:
    """Return at most ten texts, separated by commas."""
    return ", ".join(texts[:10]) + (", …" if len(texts) > 10 else "")
