"""Detection of uninformative columns: ids, dates, free text and constants."""

from __future__ import annotations

import math
import re

import numpy as np
from numpy.typing import NDArray

from maxplus.tables.categorical import Categorical, quoted
from maxplus.tables.table import RawTable, is_missing
from maxplus.tables.text_patterns import MAX_LENGTH, is_date, ordered, with_unit

ID_NAME = re.compile(
    r"(^|.*[\s_.-])(id|idx|index|uuid|guid|key|row|rownum|nr|no)([\s_.-]?(no|nr|number))?"
    r"|id[\s_.-].*|unnamed: ?0",
    re.DOTALL | re.IGNORECASE,
)
CAMEL_ID = re.compile(r".*[a-z](ID|Id)", re.DOTALL)
# Minimum number of integers to be recognised as ids.
MIN_IDS = 20
# Minimum number of missing values for an indicator, to avoid overfitting, and minimum share of
# missing values in numeric columns.
MIN_INDICATED, SHARE_INDICATED = 5, 0.05
# Limits of `has_many_values`.
FEW_VALUES, MANY_VALUES = 10, 30
# Minimum number and share of rows with a frequent value, and maximum number of frequent values.
MIN_FREQUENT, SHARE_FREQUENT, MAX_FREQUENT = 5, 0.01, 20
# Minimum mean number of words per cell in a column of free text.
MIN_WORDS = 4
NO_VALUES, SAME_VALUE = "no values", "the same value in all rows"


def reason_to_drop(table: RawTable, name: str) -> str | None:
    """Return the reason to drop a column, or None if it should be kept."""
    cells = table.feature(name)
    missing = is_missing(cells)
    if missing.all():
        return NO_VALUES
    if isinstance(cells, Categorical):
        return _reason_to_drop_text(name, cells, needs_indicator(missing, categories=True))
    present = cells[~missing]
    if present.size > 1 and present.min() == present.max() and not needs_indicator(missing):
        return f"{SAME_VALUE} ({present[0]:g})"
    return _reason_to_drop_numbers(name, present)


def _reason_to_drop_numbers(name: str, present: NDArray) -> str | None:
    """Return the reason to drop a numeric column that contains ids, or None."""
    n = present.size
    if n < MIN_IDS or not (present == np.round(present)).all():
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


def _reason_to_drop_text(name: str, cells: Categorical, has_indicator: bool) -> str | None:
    """Return the reason to drop a text column, or None if it should be kept."""
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
    if k > FEW_VALUES and np.mean([len(text.split()) for text in sample]) >= MIN_WORDS:
        # Examples are omitted, because model files must not disclose training rows.
        return "free text"
    if k == n and k > 2:
        return f"{k:,} different values in {n:,} rows"
    if has_many_values(k, n) and not frequent_values(cells):
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
    parsed = with_unit([cells.values[k] for k in used])
    if parsed is None:
        return False
    numbers, unit = parsed
    # Distinct integers with a prefix or suffix are ids.
    is_id = used.size == counts.sum() and all(number == round(number) for number in numbers)
    return unit == "" or not is_id


def needs_indicator(missing: NDArray, *, categories: bool = False) -> bool:
    """Return whether missing values need an indicator feature."""
    share = 0.0 if categories else SHARE_INDICATED
    return bool(np.count_nonzero(missing) >= max(MIN_INDICATED, share * len(missing)))


def has_many_values(k: int, n: int) -> bool:
    """Return whether k distinct values in n rows are too many for one-hot encoding."""
    return k > MANY_VALUES or (k > FEW_VALUES and 2 * k > n)


def frequent_values(cells: Categorical, minimum: int = MIN_FREQUENT) -> list[str]:
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
