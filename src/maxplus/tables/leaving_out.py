"""Columns that say nothing about rows to come: ids, dates, texts, constants."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from maxplus.tables.encoding import is_missing
from maxplus.tables.kinds import Column, Number
from maxplus.tables.scales import LONGEST_WORD, in_order, is_date, measured
from maxplus.tables.table import RawTable
from maxplus.tables.words import Words, in_quotes

ID_NAME = re.compile(
    r"(^|.*[\s_.-])(id|idx|index|uuid|guid|key|row|rownum|nr|no)([\s_.-]?(no|nr|number))?"
    r"|id[\s_.-].*|unnamed: ?0", re.DOTALL | re.IGNORECASE
)  # fmt: skip
CAMEL_ID = re.compile(r".*[a-z](ID|Id)", re.DOTALL)
# Fewer whole numbers in a row than this are not taken for the numbers of rows.
LEAST_IDS = 20
# A feature that tells of fewer missing values would be learned by heart; and for numbers, which
# can be filled in, less than this share of rows is not worth a feature.
LEAST_FLAGGED, SHARE_FLAGGED = 5, 0.05
# So many different words are all features; of more, those that are frequent.
FEW_WORDS, MANY_WORDS = 10, 30
LEAST_FREQUENT, SHARE_FREQUENT, MOST_FREQUENT = 5, 0.01, 20
# Words in a cell, on average, that make a text.
TEXT_WORDS = 4
NO_VALUES, SAME_VALUE = "no values", "the same value in all rows"


def why_left_out(table: RawTable, name: str) -> str | None:
    """Why a column says nothing about the rows to come; None if it may say something."""
    cells = table.feature(name)
    missing = is_missing(cells)
    if missing.all():
        return NO_VALUES
    if isinstance(cells, Words):
        return _why_no_words(name, cells, is_telling(missing, words=True))
    present = cells[~missing]
    if present.size > 1 and present.min() == present.max() and not is_telling(missing):
        return f"{SAME_VALUE} ({present[0]:g})"
    return _why_no_numbers(name, present)


def doubtful(table: RawTable, columns: Iterable[Column]) -> Iterator[tuple[str, str]]:
    """Yield the name of each column of words that is used against advice, and the reason."""
    for column in columns:
        reason = None if isinstance(column, Number) else why_left_out(table, column.name)
        if reason is not None and not reason.startswith(SAME_VALUE):
            yield column.name, reason


def _why_no_numbers(name: str, present: NDArray) -> str | None:
    """A measurement may differ in all rows; ids are whole numbers, in a row or named so."""
    n = present.size
    if n < LEAST_IDS or not (present == np.round(present)).all():
        return None
    if present.max() - present.min() == n - 1 and np.unique(present).size == n:
        return (
            f"the whole numbers {present.min():.0f} to {present.max():.0f}, once each, as ids are"
        )
    if _is_called_id(name):
        k = np.unique(present).size
        if 2 * k > n:
            return f"an id by its name, with {k:,} different values in {n:,} rows"
    return None


def _why_no_words(name: str, cells: Words, tells_by_holes: bool) -> str | None:
    counts = cells.counts
    used = np.flatnonzero(counts)
    n, k = int(counts.sum()), used.size
    if k == 1:
        if n < 2 or tells_by_holes:
            return None
        return f"{SAME_VALUE} ({in_quotes(cells.values[used[0]], 40)})"
    if holds_measures(name, cells):
        return None
    some = [cells.values[i] for i in used[:1000]]
    if all(map(is_date, some)):
        return "dates or times"
    if cells.ordered or in_order(some) is not None:
        return None
    if k > FEW_WORDS and np.mean([len(word.split()) for word in some]) >= TEXT_WORDS:
        # No example: the line is kept in model files, and a cell is some row's.
        return "free text"
    if k == n and k > 2:
        return f"{k:,} different values in {n:,} rows"
    if is_wide(k, n) and not frequent_words(cells):
        return f"{k:,} different values in {n:,} rows, none of them frequent"
    if _is_called_id(name) and 2 * k > n and k > FEW_WORDS:
        return f"an id by its name, with {k:,} different values in {n:,} rows"
    return None


def holds_measures(name: str, cells: Words) -> bool:
    """Whether words are many numbers with a unit, or with marks between thousands, and no ids."""
    counts = cells.counts
    used = np.flatnonzero(counts)
    if used.size <= FEW_WORDS or _is_called_id(name):
        return False
    found = measured([cells.values[k] for k in used])
    if found is None:
        return False
    numbers, unit = found
    # Whole numbers with a letter, each once, are ids.
    is_id = used.size == counts.sum() and all(number == round(number) for number in numbers)
    return unit == "" or not is_id


def is_telling(missing: NDArray, *, words: bool = False) -> bool:
    """Whether a feature should say that values were missing."""
    least = LEAST_FLAGGED if words else max(LEAST_FLAGGED, SHARE_FLAGGED * len(missing))
    return bool(np.count_nonzero(missing) >= least)


def is_wide(k: int, n: int) -> bool:
    """Whether k different words in n rows are too many to be a feature each."""
    return k > MANY_WORDS or (k > FEW_WORDS and 2 * k > n)


def frequent_words(cells: Words, least: int = LEAST_FREQUENT) -> list[str]:
    """The most frequent words, most frequent first; not very many."""
    counts = cells.counts
    if least > 1:
        least = max(least, math.ceil(SHARE_FREQUENT * counts.sum()))
    order = np.argsort(-counts, kind="stable")[:MOST_FREQUENT]
    return [cells.values[k] for k in order if counts[k] >= least]


def _is_called_id(name: str) -> bool:
    if len(name) > LONGEST_WORD:
        return False
    return bool(ID_NAME.fullmatch(name) or CAMEL_ID.fullmatch(name))
