"""Recognition of columns that carry no information about new rows: ids, dates, text, constants."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from maxplus.tables.categorical import Categorical, quoted
from maxplus.tables.columns import Column, Number
from maxplus.tables.scales import LONGEST_TEXT, is_date, ordered, with_unit
from maxplus.tables.table import RawTable, is_missing

ID_NAME = re.compile(
    r"(^|.*[\s_.-])(id|idx|index|uuid|guid|key|row|rownum|nr|no)([\s_.-]?(no|nr|number))?"
    r"|id[\s_.-].*|unnamed: ?0",
    re.DOTALL | re.IGNORECASE,
)
CAMEL_ID = re.compile(r".*[a-z](ID|Id)", re.DOTALL)
# Fewer consecutive integers than this are not taken for the numbers of rows.
LEAST_IDS = 20
# An indicator of fewer missing values would be overfitted; and numbers, which can be imputed, need
# none below this share of rows.
LEAST_INDICATED, SHARE_INDICATED = 5, 0.05
# Up to so many distinct values are all categories; of more, those that are frequent.
FEW_VALUES, MANY_VALUES = 10, 30
LEAST_FREQUENT, SHARE_FREQUENT, MOST_FREQUENT = 5, 0.01, 20
# Words in a cell, on average, from which on cells are free text.
TEXT_WORDS = 4
NO_VALUES, SAME_VALUE = "no values", "the same value in all rows"


def why_left_out(table: RawTable, name: str) -> str | None:
    """Return why a column carries no information about new rows; None if it may."""
    cells = table.feature(name)
    missing = is_missing(cells)
    if missing.all():
        return NO_VALUES
    if isinstance(cells, Categorical):
        return _why_no_categories(name, cells, needs_indicator(missing, categories=True))
    present = cells[~missing]
    if present.size > 1 and present.min() == present.max() and not needs_indicator(missing):
        return f"{SAME_VALUE} ({present[0]:g})"
    return _why_no_numbers(name, present)


def doubtful_columns(table: RawTable, columns: Iterable[Column]) -> Iterator[tuple[str, str]]:
    """Yield the name of each text column that should be left out and is used, and the reason."""
    for column in columns:
        reason = None if isinstance(column, Number) else why_left_out(table, column.name)
        if reason is not None and not reason.startswith(SAME_VALUE):
            yield column.name, reason


def _why_no_numbers(name: str, present: NDArray) -> str | None:
    """Return the reason for ids: consecutive integers, or integers in a column named so."""
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


def _why_no_categories(name: str, cells: Categorical, has_indicator: bool) -> str | None:
    counts = cells.counts
    used = np.flatnonzero(counts)
    n, k = int(counts.sum()), used.size
    if k == 1:
        if n < 2 or has_indicator:
            return None
        return f"{SAME_VALUE} ({quoted(cells.values[used[0]], 40)})"
    if has_units(name, cells):
        return None
    some = [cells.values[i] for i in used[:1000]]
    if all(map(is_date, some)):
        return "dates or times"
    if cells.ordered or ordered(some) is not None:
        return None
    if k > FEW_VALUES and np.mean([len(text.split()) for text in some]) >= TEXT_WORDS:
        # No example: the line is kept in model files, and a cell belongs to a training row.
        return "free text"
    if k == n and k > 2:
        return f"{k:,} different values in {n:,} rows"
    if is_wide(k, n) and not frequent_values(cells):
        return f"{k:,} different values in {n:,} rows, none of them frequent"
    if is_id_name(name) and 2 * k > n and k > FEW_VALUES:
        return f"an id by its name, with {k:,} different values in {n:,} rows"
    return None


def has_units(name: str, cells: Categorical) -> bool:
    """Return whether text is numbers with a unit or thousands separators, and not ids."""
    counts = cells.counts
    used = np.flatnonzero(counts)
    if used.size <= FEW_VALUES or is_id_name(name):
        return False
    found = with_unit([cells.values[k] for k in used])
    if found is None:
        return False
    numbers, unit = found
    # Integers with a letter, each once, are ids.
    is_id = used.size == counts.sum() and all(number == round(number) for number in numbers)
    return unit == "" or not is_id


def needs_indicator(missing: NDArray, *, categories: bool = False) -> bool:
    """Return whether a feature should indicate missing values."""
    least = LEAST_INDICATED if categories else max(LEAST_INDICATED, SHARE_INDICATED * len(missing))
    return bool(np.count_nonzero(missing) >= least)


def is_wide(k: int, n: int) -> bool:
    """Return whether k distinct values in n rows are too many to be a feature each."""
    return k > MANY_VALUES or (k > FEW_VALUES and 2 * k > n)


def frequent_values(cells: Categorical, least: int = LEAST_FREQUENT) -> list[str]:
    """Return the most frequent values, at most 20, most frequent first."""
    counts = cells.counts
    if least > 1:
        least = max(least, math.ceil(SHARE_FREQUENT * counts.sum()))
    order = np.argsort(-counts, kind="stable")[:MOST_FREQUENT]
    return [cells.values[k] for k in order if counts[k] >= least]


def is_id_name(name: str) -> bool:
    if len(name) > LONGEST_TEXT:
        return False
    return bool(ID_NAME.fullmatch(name) or CAMEL_ID.fullmatch(name))
