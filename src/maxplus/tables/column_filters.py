"""Detection of columns that do not help prediction: ids, dates, free text and constants."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from maxplus.tables.categorical import Categorical, quoted
from maxplus.tables.columns import Column, Number
from maxplus.tables.table import RawTable, is_missing
from maxplus.tables.text_patterns import LONGEST_TEXT, is_date, ordered, with_unit

ID_NAME = re.compile(
    r"(^|.*[\s_.-])(id|idx|index|uuid|guid|key|row|rownum|nr|no)([\s_.-]?(no|nr|number))?"
    r"|id[\s_.-].*|unnamed: ?0",
    re.DOTALL | re.IGNORECASE,
)
CAMEL_ID = re.compile(r".*[a-z](ID|Id)", re.DOTALL)
# Minimum number of consecutive integers that are recognised as row numbers.
LEAST_IDS = 20
# An indicator requires at least LEAST_INDICATED missing values, to avoid overfitting; in a numeric
# column also at least the share SHARE_INDICATED of the rows, since numbers can be imputed.
LEAST_INDICATED, SHARE_INDICATED = 5, 0.05
# Limits of `is_wide`: columns with more distinct values keep only the frequent ones as categories.
FEW_VALUES, MANY_VALUES = 10, 30
# Minimum number and share of rows with a frequent value; maximum number of frequent values.
LEAST_FREQUENT, SHARE_FREQUENT, MOST_FREQUENT = 5, 0.01, 20
# A column whose cells have at least this many words on average is free text.
TEXT_WORDS = 4
NO_VALUES, SAME_VALUE = "no values", "the same value in all rows"


def why_left_out(table: RawTable, name: str) -> str | None:
    """Return the reason for leaving out a column, or None if it should be used."""
    cells = table.feature(name)
    missing = is_missing(cells)
    if missing.all():
        return NO_VALUES
    if isinstance(cells, Categorical):
        return _why_text_left_out(name, cells, needs_indicator(missing, categories=True))
    present = cells[~missing]
    if present.size > 1 and present.min() == present.max() and not needs_indicator(missing):
        return f"{SAME_VALUE} ({present[0]:g})"
    return _why_numbers_left_out(name, present)


def doubtful_columns(table: RawTable, columns: Iterable[Column]) -> Iterator[tuple[str, str]]:
    """Yield the name of each used text column that should be left out, and the reason."""
    for column in columns:
        reason = None if isinstance(column, Number) else why_left_out(table, column.name)
        if reason is not None and not reason.startswith(SAME_VALUE):
            yield column.name, reason


def _why_numbers_left_out(name: str, present: NDArray) -> str | None:
    """Return the reason for leaving out a numeric column that contains ids, or None."""
    n = present.size
    if n < LEAST_IDS or not (present == np.round(present)).all():
        return None
    if present.max() - present.min() == n - 1 and np.unique(present).size == n:
        return (
            f"the whole numbers {present.min():.0f} to {present.max():.0f}, once each, as ids are"
        )
    if is_id_name(name):
        k = np.unique(present).size
        if 2 * k > n:
            return f"an id by its name, with {k:,} different values in {n:,} rows"
    return None


def _why_text_left_out(name: str, cells: Categorical, has_indicator: bool) -> str | None:
    """Return the reason for leaving out a text column, or None if it should be used."""
    counts = cells.counts
    used = np.flatnonzero(counts)
    n, k = int(counts.sum()), used.size
    if k == 1:
        if n < 2 or has_indicator:
            return None
        return f"{SAME_VALUE} ({quoted(cells.values[used[0]], 40)})"
    if has_units(name, cells):
        return None
    sample = [cells.values[i] for i in used[:1000]]
    if all(map(is_date, sample)):
        return "dates or times"
    if cells.ordered or ordered(sample) is not None:
        return None
    if k > FEW_VALUES and np.mean([len(text.split()) for text in sample]) >= TEXT_WORDS:
        # The reason has no example: it is stored in model files, which must not reveal rows.
        return "free text"
    if k == n and k > 2:
        return f"{k:,} different values in {n:,} rows"
    if is_wide(k, n) and not frequent_values(cells):
        return f"{k:,} different values in {n:,} rows, none of them frequent"
    if is_id_name(name) and 2 * k > n and k > FEW_VALUES:
        return f"an id by its name, with {k:,} different values in {n:,} rows"
    return None


def has_units(name: str, cells: Categorical) -> bool:
    """Return whether the values are numbers with units or thousands separators, and not ids."""
    counts = cells.counts
    used = np.flatnonzero(counts)
    if used.size <= FEW_VALUES or is_id_name(name):
        return False
    found = with_unit([cells.values[k] for k in used])
    if found is None:
        return False
    numbers, unit = found
    # Distinct integers with a prefix or suffix are ids.
    is_id = used.size == counts.sum() and all(number == round(number) for number in numbers)
    return unit == "" or not is_id


def needs_indicator(missing: NDArray, *, categories: bool = False) -> bool:
    """Return whether missing values need an indicator feature."""
    least = LEAST_INDICATED if categories else max(LEAST_INDICATED, SHARE_INDICATED * len(missing))
    return bool(np.count_nonzero(missing) >= least)


def is_wide(k: int, n: int) -> bool:
    """Return whether k distinct values in n rows are too many for one-hot encoding."""
    return k > MANY_VALUES or (k > FEW_VALUES and 2 * k > n)


def frequent_values(cells: Categorical, least: int = LEAST_FREQUENT) -> list[str]:
    """Return at most ``MOST_FREQUENT`` values, in order of decreasing frequency."""
    counts = cells.counts
    if least > 1:
        least = max(least, math.ceil(SHARE_FREQUENT * counts.sum()))
    order = np.argsort(-counts, kind="stable")[:MOST_FREQUENT]
    return [cells.values[k] for k in order if counts[k] >= least]


def is_id_name(name: str) -> bool:
    """Return whether a column name looks like the name of an id."""
    if len(name) > LONGEST_TEXT:
        return False
    return bool(ID_NAME.fullmatch(name) or CAMEL_ID.fullmatch(name))
