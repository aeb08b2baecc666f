"""Inference of column types and of the target from training data."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxplus.tables.columns import (
    CURRENCIES,
    MAX_LENGTH,
    OTHER,
    Category,
    Column,
    Number,
    Ordinal,
    UnknownValues,
    extract_number,
    normalize,
    parse_number,
    parse_numbers_with_unit,
    parse_range,
)
from maxplus.tables.table import (
    Categorical,
    Cells,
    RawTable,
    TableError,
    as_text,
    check_not_missing,
    is_missing,
    quoted,
    require,
)

TASKS = AUTO, CLASSIFICATION, REGRESSION = ("auto", "classification", "regression")
IMPUTE, ERROR = "impute", "error"
# Default names of the target column.
TARGET_NAMES = ("target", "label", "class", "y")
# Text is an error in a column with at least this number and share of numbers.
MIN_NUMBERS, SHARE_NUMBERS = 10, 0.95
# An integer target is numeric if it has more than MANY_CLASSES distinct values, or more than
# FEW_CLASSES with fewer than ROWS_PER_CLASS rows per value on average.
MANY_CLASSES, FEW_CLASSES, ROWS_PER_CLASS = 20, 10, 10
# Largest integer up to which float64 is exact.
MAX_LABEL = 2**53
# Minimum number of integers to be recognised as ids.
MIN_IDS = 20
# Minimum number of missing values for an indicator, to avoid overfitting, and minimum share of
# missing values in numeric and ordinal columns.
MIN_INDICATED, SHARE_INDICATED = 5, 0.05
# Numbers of distinct values up to which one-hot encoding is always possible, and beyond which
# infrequent values always share one feature (`_has_many_values`).
FEW_VALUES, MANY_VALUES = 10, 30
# Minimum number and share of rows with a frequent value, and maximum number of frequent values.
MIN_FREQUENT, SHARE_FREQUENT, MAX_FREQUENT = 5, 0.01, 20
# Minimum mean number of words per distinct value in a column of free text.
MIN_WORDS = 4
NO_VALUES, SAME_VALUE = "no values", "the same value in all rows"

ID_NAME = re.compile(
    r"(^|.*[\s_.-])(id|idx|index|uuid|guid|key|row|rownum|nr|no)([\s_.-]?(no|nr|number))?"
    r"|id[\s_.-].*|unnamed: ?0",
    re.DOTALL | re.IGNORECASE,
)
CAMEL_ID = re.compile(r".*[a-z](ID|Id)", re.DOTALL)
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_TIME = r"(?:[t ,]+\d{1,2}:\d{2}.*)?"
DATE = re.compile(
    rf"(?:\d{{4}}([-/.])\d{{1,2}}\1\d{{1,2}}|\d{{1,2}}([-/.])\d{{1,2}}\2(?:\d{{4}}|\d{{2}})"
    rf"|\d{{1,2}}\.?[ -]{_MONTH}[ ,-]*\d{{2,4}}|{_MONTH} \d{{1,2}},? \d{{4}}){_TIME}"
    r"|\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?"
)
# Ordinal scales in ascending order. Slashes separate synonyms.
SCALES = [
    [level.split("/") for level in scale.split(", ")]
    for scale in (
        "very low, low, medium/moderate/middle/mid/normal/average, high, very high",
        "tiny, xs/extra small, s/small, m/medium/mid, l/large/big, xl/extra large, xxl/huge",
        "absent/no, mild/slight/minor, moderate, severe/serious/major, critical/very severe",
        "very poor/very bad/terrible, poor/bad, fair/acceptable/satisfactory/average, good, "
        "very good, excellent/outstanding",
        "strongly disagree, disagree, neutral/undecided, agree, strongly agree",
        "never, rarely/seldom, sometimes/occasionally, often/frequently, always",
        "first/1st, second/2nd, third/3rd, fourth/4th, fifth/5th",
        "primary/elementary, secondary, tertiary",
        "i, ii, iii, iv, v",
        "stage i, stage ii, stage iii, stage iv",
        "young, middle-aged/middle aged, old",
    )
]


class Target(NamedTuple):
    """Target column.

    Attributes
    ----------
    name : str
        Name of the column.
    task : {"classification", "regression"}
        Type of the target.
    is_text : bool
        If True, labels are text even if they look like numbers.
    """

    name: str
    task: str = CLASSIFICATION
    is_text: bool = False

    def cells(self, table: RawTable) -> Cells:
        """Return the target column. In classification, the text "none" is a class."""
        require(table, self.name, "target")
        return table.feature(self.name) if self.task == REGRESSION else table.columns[self.name]

    def missing(self, table: RawTable) -> NDArray:
        """Return the mask of rows without a label, all False if there is no target column."""
        if self.name not in table.columns:
            return np.zeros(table.n_rows, bool)
        return is_missing(self.cells(table))

    def labels(self, table: RawTable) -> NDArray:
        """Return y: floats for regression, integers or strings for classification."""
        cells = self.cells(table)
        check_not_missing(table, [(self.name, cells)])
        if self.task == REGRESSION:
            y = np.zeros((table.n_rows, 1))
            Number(self.name).encode(table, y, UnknownValues())
            return y[:, 0]
        if (
            isinstance(cells, Categorical)
            or self.is_text
            or not (np.isfinite(cells) & (cells == np.round(cells))).all()
        ):
            return as_text(cells).strings()
        if np.abs(cells).max(initial=0.0) > MAX_LABEL:
            raise TableError(
                f"{table.name}: the target {self.name!r} contains numbers beyond 2^53, too "
                "large for labels; write them as text"
            )
        return cells.astype(np.int64)

    def no_labels_error(self, name: str) -> TableError:
        """Return the error for a table without labels."""
        return TableError(
            f"{name}: the target {self.name!r} has no values; fill them in, or specify "
            "another column with `target` in training"
        )

    def unlabelled_message(self, n: int, first: str) -> str:
        """Return the log line about n rows without a label."""
        return (
            f"dropped {n:,} row{'s' * (n > 1)} without a value for the target {self.name!r} "
            f"(first: {first})"
        )


def infer_schema(
    table: RawTable, params: Mapping[str, Any], target: str
) -> tuple[tuple[Column, ...], tuple[str, ...]]:
    """Infer the type of each column; return the columns to encode and the log of decisions.

    The ``params`` of a `TableEncoder` override inference. The table does not contain the
    ``target``, whose name is used in messages.
    """
    drop = params["drop"]
    drop = () if drop is None else (drop,) if isinstance(drop, str) else tuple(drop)
    params = {**params, "drop": [name for name in drop if name != AUTO]}
    _check_params(table, params, target)
    # Columns that are used even if they are uninformative.
    kept = {*params["categorical"], *params["numeric"], *params["keep"]}
    if AUTO not in drop:
        kept.update(table.columns)
    if not table.columns:
        raise TableError(f"{table.name} has no columns besides the target {target!r}")
    names = [name for name in table.columns if name not in params["drop"]]
    if params["missing"] == ERROR:
        check_not_missing(table, ((name, table.feature(name)) for name in names))
    columns: list[Column] = []
    categories: list[str] = []
    lines: list[str] = []
    for name in names:
        cells = table.feature(name)
        if isinstance(cells, Categorical) and name not in kept:
            _check_numbers(table, name, cells)
        reason = reason_to_drop(name, cells)
        if reason == NO_VALUES and AUTO in drop:
            lines.append(f"dropped {name!r}: {reason}")
        elif reason == NO_VALUES:
            columns.append(Category(name, "", indicator=True, had_missing=True))
        elif reason is not None and name not in kept:
            lines.append(f"dropped {name!r}: {reason} (`keep=[{name!r}]` to use it)")
        else:
            column = _column(table, name, cells, params, lines)
            columns.append(column)
            if isinstance(column, Category) and not column.other:
                categories.append(f"{name!r} ({len(column.values)})")
    if categories:
        lines.append(
            f"one-hot encoded: {', '.join(categories[:20])}"
            + (", …" if len(categories) > 20 else "")
            + " (`numeric` or `drop` to override)"
        )
    if not columns:
        raise TableError(
            f"{table.name} has no columns left to train on besides the target {target!r}: "
            + ("; ".join(lines[-3:]) or "all are in `drop`")
        )
    return tuple(columns), tuple(lines)


def _check_params(table: RawTable, params: Mapping[str, Any], target: str) -> None:
    """Raise TableError if a column does not exist, or if parameters conflict."""
    if params["missing"] not in (IMPUTE, ERROR):
        raise TableError(
            f"{table.name}: missing must be one of impute, error; got {params['missing']!r:.60}"
        )
    option_of: dict[str, str] = {}
    for option in ("categorical", "numeric", "drop", "keep"):
        if isinstance(params[option], str):
            raise TableError(
                f"{option} must be a list of column names; got {params[option]!r:.60}; write "
                f"[{params[option]!r:.60}]"
            )
        for name in params[option]:
            if name == target:
                raise TableError(
                    f"{table.name}: {name!r} is the target and cannot be in `{option}` as well"
                )
            require(table, name, option, target)
            # "keep" may be combined with "categorical" and "numeric".
            if name in option_of and (option != "keep" or option_of[name] == "drop"):
                raise TableError(
                    f"{table.name}: {name!r} is in `{option_of[name]}` and in `{option}`; "
                    "choose one"
                )
            option_of.setdefault(name, option)


def _column(
    table: RawTable, name: str, cells: Cells, params: Mapping[str, Any], lines: list[str]
) -> Column:
    """Infer the type of a column; decisions are appended to ``lines``."""
    is_categorical = name in params["categorical"]
    is_text = isinstance(cells, Categorical) and not _has_units(name, cells)
    column: Column
    if name in params["numeric"] or not (is_text or is_categorical):
        column = _number(table, name, cells, lines)
        imputed = f"{column.fill:g}, the median"
    else:
        column = _categories(name, as_text(cells), is_categorical, lines)
        statistic = "median" if isinstance(column, Ordinal) else "most frequent"
        imputed = f"{quoted(column.fill, 40)}, the {statistic}"
    missing = is_missing(cells)
    if not missing.any():
        return column
    indicator = _needs_indicator(missing, is_categorical=isinstance(column, Category))
    feature = f"{name + ' is missing'!r}"
    n = np.count_nonzero(missing)
    are = "is" if n == 1 else "are"
    if not indicator:
        encoding = f"imputed with {imputed}"
    elif isinstance(column, Category):
        encoding = f"encoded as {feature}"
    else:
        encoding = f"imputed with {imputed}, and indicated by {feature}"
    lines.append(
        f"{name!r}: {n:,} of {len(missing):,} values {are} missing: {encoding} "
        "(`missing='error'` to reject them)"
    )
    return replace(column, indicator=indicator, had_missing=True)


def _number(table: RawTable, name: str, cells: Cells, lines: list[str]) -> Number:
    from_text = isinstance(cells, Categorical)
    numbers = Number(name, from_text=from_text).numbers(table)
    present = numbers[~np.isnan(numbers)]
    if isinstance(cells, Categorical):
        examples = [f"{quoted(text, 20)} is {extract_number(text):g}" for text in cells.values[:3]]
        lines.append(
            f"{name!r} is encoded as the number in its text: {', '.join(examples)}, … "
            f"(`categorical=[{name!r}]` to one-hot encode it)"
        )
    # The lower median is a value of the column, so the imputed value of integers is an integer.
    middle = (present.size - 1) // 2
    median = float(np.partition(present, middle)[middle])
    return Number(name, median, from_text=from_text)


def _categories(
    name: str, cells: Categorical, keep_all: bool, lines: list[str]
) -> Category | Ordinal:
    """Return an ordinal column if the values are ordered, else a one-hot encoded column."""
    counts = cells.counts
    used = np.flatnonzero(counts)
    known = [cells.values[k] for k in used]
    # Ties are broken alphabetically.
    most_frequent = cells.values[min(used, key=lambda k: (-counts[k], cells.values[k]))]
    if keep_all:
        return Category(name, most_frequent, categories=tuple(sorted(known)))
    order = tuple(known) if cells.ordered and len(known) > 1 else sort_levels(known)
    override_hint = f"(`categorical=[{name!r}]` to one-hot encode it)"
    if order is not None:
        listed = " < ".join(order[:4]) + (" < …" if len(order) > 4 else "")
        lines.append(f"{name!r} is ordinal: {listed} are encoded as 0, 1, … {override_hint}")
        return Ordinal(name, _median(order, cells), categories=order)
    if not _has_many_values(len(known), int(counts.sum())):
        return Category(name, most_frequent, categories=tuple(sorted(known)))
    # A column in ``keep`` may have no frequent values.
    frequent = _frequent_values(cells) or _frequent_values(cells, minimum=1)
    categories = tuple(sorted(set(frequent) - {OTHER}))
    n = len(categories)
    subset = "most frequent" if n == 1 else f"{n} most frequent"
    lines.append(
        f"{name!r}: one-hot encoding of the {subset} of {len(known):,} values, all others as "
        f"{OTHER!r} {override_hint}"
    )
    fill = most_frequent if most_frequent in categories else OTHER
    return Category(name, fill, categories=categories, other=True)


def _median(order: tuple[str, ...], cells: Categorical) -> str:
    """Return the lower median of ordered categories."""
    count = dict(zip(cells.values, cells.counts.tolist(), strict=True))
    cumulative = np.cumsum([count[value] for value in order])
    return order[int(np.searchsorted(cumulative, (cumulative[-1] + 1) // 2))]


def _check_numbers(table: RawTable, name: str, cells: Categorical) -> None:
    """Raise TableError if a numeric column contains a few text cells."""
    is_text, n_text, n = _text_values(table, name, cells)
    if not n_text or n - n_text < max(MIN_NUMBERS, SHARE_NUMBERS * n):
        return
    row = min(map(cells.first, np.flatnonzero(is_text).tolist()))
    raise TableError(
        f"{table.name}, {table.locate(row)}: {name!r} contains {quoted(cells[row])}, but "
        f"{n - n_text:,} of {n:,} values are numbers; correct it or leave it empty, "
        f"or specify `categorical=[{name!r}]`"
    )


def _text_values(table: RawTable, name: str, cells: Categorical) -> tuple[NDArray, int, int]:
    """Return the mask of values that are not numbers, and the counts of their cells and of all."""
    counts, decimal_comma = cells.counts, name in table.commas
    parsed = [parse_number(text, decimal_comma=decimal_comma) for text in cells.values]
    is_text = np.isnan(parsed) & (counts > 0)
    return is_text, int(counts[is_text].sum()), int(counts.sum())


def _is_mostly_text(table: RawTable, name: str, cells: Categorical) -> bool:
    _, n_text, n = _text_values(table, name, cells)
    return 2 * n_text > n


# -- uninformative columns ------------------------------------------------------------------------


def reason_to_drop(name: str, cells: Cells) -> str | None:
    """Return the reason to drop a column of ids, dates, free text or equal values, or None."""
    missing = is_missing(cells)
    if missing.all():
        return NO_VALUES
    if isinstance(cells, Categorical):
        return _reason_to_drop_text(name, cells, _needs_indicator(missing, is_categorical=True))
    present = cells[~missing]
    n = present.size
    low, high = present.min(), present.max()
    if n > 1 and low == high and not _needs_indicator(missing):
        return f"{SAME_VALUE} ({low:g})"
    if n < MIN_IDS or not (present == np.round(present)).all():
        return None
    if high - low == n - 1 and np.unique(present).size == n:
        return f"the integers {low:.0f} to {high:.0f}, each exactly once, like row ids"
    if is_id_name(name) and 2 * (k := np.unique(present).size) > n:
        return f"an id according to its name, with {k:,} different values in {n:,} rows"
    return None


def _reason_to_drop_text(name: str, cells: Categorical, has_indicator: bool) -> str | None:
    counts = cells.counts
    used = np.flatnonzero(counts)
    n, k = int(counts.sum()), used.size
    if k == 1:
        if n < 2 or has_indicator:
            return None
        return f"{SAME_VALUE} ({quoted(cells.values[used[0]], 40)})"
    if _has_units(name, cells):
        return None
    sample = [cells.values[i] for i in used[:1000]]
    if all(map(is_date, sample)):
        return "dates or times"
    if cells.ordered or sort_levels(sample) is not None:
        return None
    if k > FEW_VALUES and np.mean([len(text.split()) for text in sample]) >= MIN_WORDS:
        # Examples are omitted, because model files must not disclose training rows.
        return "free text"
    if k == n and k > 2:
        return f"{k:,} different values in {n:,} rows"
    if _has_many_values(k, n) and not _frequent_values(cells):
        return f"{k:,} different values in {n:,} rows, none of them frequent"
    if is_id_name(name) and 2 * k > n and k > FEW_VALUES:
        return f"an id according to its name, with {k:,} different values in {n:,} rows"
    return None


def _has_units(name: str, cells: Categorical) -> bool:
    """Return whether the values are numbers with units or thousands separators, and not ids."""
    counts = cells.counts
    used = np.flatnonzero(counts)
    if used.size <= FEW_VALUES or is_id_name(name):
        return False
    parsed = parse_numbers_with_unit([cells.values[k] for k in used])
    if parsed is None:
        return False
    numbers, unit = parsed
    if not unit or unit in CURRENCIES:
        return True
    # Distinct integers with another suffix are ids.
    return used.size < counts.sum() or any(number != round(number) for number in numbers)


def _needs_indicator(missing: NDArray, *, is_categorical: bool = False) -> bool:
    """Return whether missing values need an indicator feature."""
    share = 0.0 if is_categorical else SHARE_INDICATED
    return bool(np.count_nonzero(missing) >= max(MIN_INDICATED, share * len(missing)))


def _has_many_values(k: int, n: int) -> bool:
    """Return whether k distinct values in n rows are too many for one-hot encoding."""
    return k > MANY_VALUES or (k > FEW_VALUES and 2 * k > n)


def _frequent_values(cells: Categorical, minimum: int = MIN_FREQUENT) -> list[str]:
    """Return at most ``MAX_FREQUENT`` values, in order of decreasing frequency."""
    counts = cells.counts
    if minimum > 1:
        minimum = max(minimum, math.ceil(SHARE_FREQUENT * counts.sum()))
    order = np.argsort(-counts, kind="stable")[:MAX_FREQUENT]
    return [cells.values[k] for k in order if counts[k] >= minimum]


def is_id_name(name: str) -> bool:
    """Return whether a column name looks like the name of an id."""
    if len(name) > MAX_LENGTH:
        return False
    return bool(ID_NAME.fullmatch(name) or CAMEL_ID.fullmatch(name))


def is_date(text: str) -> bool:
    """Return whether text is a date or a time in a common format."""
    return DATE.fullmatch(normalize(text)) is not None


# -- ordinal scales -------------------------------------------------------------------------------


def sort_levels(texts: Sequence[str]) -> tuple[str, ...] | None:
    """Sort the levels of a scale or disjoint ranges; return None for other strings."""
    if len(texts) < 2:
        return None
    return _by_scale(texts) or _by_range(texts)


def _by_scale(texts: Sequence[str]) -> tuple[str, ...] | None:
    # Two single letters are ambiguous: s and m may mean single and married.
    if len(texts) < 3 and all(len(text) <= 2 for text in texts):
        return None
    for scale in SCALES:
        position = {name: k for k, level in enumerate(scale) for name in level}
        positions = [position.get(text.lower(), -1) for text in texts]
        if min(positions) >= 0 and len(set(positions)) == len(positions):
            return tuple(text for _, text in sorted(zip(positions, texts, strict=True)))
    return None


def _by_range(texts: Sequence[str]) -> tuple[str, ...] | None:
    parsed = [(parse_range(text), text) for text in texts]
    ranges = sorted((bounds, text) for bounds, text in parsed if bounds is not None)
    if len(ranges) < len(texts) or all(low == high for (low, high), _ in ranges):
        return None
    overlaps = any(
        before[1] > after[0] or before == after for (before, _), (after, _) in pairwise(ranges)
    )
    return None if overlaps else tuple(text for _, text in ranges)


# -- target ---------------------------------------------------------------------------------------


def infer_target(
    table: RawTable, name: str | None = None, task: str = AUTO
) -> tuple[Target, tuple[str, ...]]:
    """Infer the target and the task as in `split_target`; return the log of decisions as well."""
    if task not in TASKS:
        raise TableError(
            f"{table.name}: `task` must be one of {', '.join(TASKS)}; got {task!r:.60}"
        )
    if name is None:
        matches = [column for column in table.columns if column.lower() in TARGET_NAMES]
        name = matches[0] if len(matches) == 1 else list(table.columns)[-1]
    require(table, name, "target")
    lines: list[str] = []
    cells = table.columns[name]
    if task == REGRESSION:
        _check_regression_target(table, name)
    task = _infer_task(table, name, task, lines)
    target = Target(name, task, task == CLASSIFICATION and isinstance(cells, Categorical))
    return target, (*lines, *_similar_classes(cells, name))


def _check_regression_target(table: RawTable, name: str) -> None:
    """Raise TableError if most values of the target of a regression are not numbers."""
    cells = table.feature(name)
    if isinstance(cells, Categorical) and _is_mostly_text(table, name, cells):
        is_text, n_text, n = _text_values(table, name, cells)
        row = min(map(cells.first, np.flatnonzero(is_text).tolist()))
        raise TableError(
            f"{table.name}, {table.locate(row)}: the target {name!r} contains "
            f"{quoted(cells[row])}, but numbers are expected; {n_text:,} of {n:,} values are text: "
            "replace them by numbers, or specify `task='classification'`"
        )


def label_name(y: Any, table: RawTable) -> str:
    """Return a name for labels: ``y.name``, or a default that is not the name of a column."""
    name = getattr(y, "name", None)
    if isinstance(name, str) and name and name not in table.columns:
        return name
    free = [text for text in reversed(TARGET_NAMES) if text not in table.columns]
    return free[0] if free else f"label of {table.name}"


def _infer_task(table: RawTable, name: str, task: str, lines: list[str]) -> str:
    if task == REGRESSION:
        return REGRESSION
    cells = table.columns[name]
    if isinstance(cells, Categorical):
        n, n_rows, is_integer = int(np.count_nonzero(cells.counts)), int(cells.counts.sum()), True
    else:
        present = cells[~np.isnan(cells)]
        n, n_rows = np.unique(present).size, len(present)
        is_integer = bool((present == np.round(present)).all())
    few_rows = n > FEW_CLASSES and n * ROWS_PER_CLASS > n_rows
    is_chosen = task == CLASSIFICATION or isinstance(cells, Categorical)
    if is_chosen or (is_integer and n <= MANY_CLASSES and not few_rows):
        if few_rows:
            is_text = isinstance(cells, Categorical) and _is_mostly_text(table, name, cells)
            regression = "" if is_text else ", `task='regression'` for regression"
            lines.append(
                f"few rows: the target {name!r} has {n:,} classes in {n_rows:,} rows, fewer than "
                f"{ROWS_PER_CLASS} per class (`target` for another column{regression})"
            )
        return CLASSIFICATION
    lines.append(
        f"regression: the target {name!r} has {n:,} different "
        f"{'integers' if is_integer else 'numbers that are not all integers'} "
        "(`task='classification'` to use them as classes)"
    )
    return REGRESSION


def _similar_classes(cells: Cells, name: str) -> list[str]:
    """Return a log line if two classes differ only in case."""
    by_lower_case: dict[str, str] = {}
    for value in cells.values if isinstance(cells, Categorical) else ():
        other = by_lower_case.setdefault(value.casefold(), value)
        if other != value:
            return [
                f"{other!r} and {value!r} of the target {name!r} differ only in case: "
                "they are two classes (correct the file if they should be one)"
            ]
    return []
