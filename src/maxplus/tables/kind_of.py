"""What a column that is used becomes: a number, a category, ranks; and what fills its holes."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from maxplus.tables.choices import ColumnChoices
from maxplus.tables.encoding import is_missing
from maxplus.tables.kinds import OTHER, Category, Column, Number, Ranks, as_words
from maxplus.tables.leaving_out import frequent_words, holds_measures, is_telling, is_wide
from maxplus.tables.scales import in_order, number_in
from maxplus.tables.table import RawTable
from maxplus.tables.words import Words, in_quotes


def column_of(table: RawTable, name: str, choices: ColumnChoices, lines: list[str]) -> Column:
    """Look at a column of a training table; what is decided about it is added to ``lines``."""
    cells = table.feature(name)
    missing = is_missing(cells)
    is_words = name in choices.categorical or (
        isinstance(cells, Words) and not holds_measures(name, cells)
    )
    column: Column
    if not is_words or name in choices.numeric:
        column = _number(table, name, lines)
        told = f"{column.fill:g}, the median"
    else:
        words = as_words(cells)
        column = _worded(name, words, name in choices.categorical, lines)
        told = f"{in_quotes(column.fill, 40)}, the " + (
            "middle one" if isinstance(column, Ranks) else "most frequent"
        )
    if not missing.any():
        return column
    flagged = is_telling(missing, words=isinstance(column, Category))
    flag = f"{name + ' is missing'!r}"
    n = np.count_nonzero(missing)
    are, become = ("is", "becomes") if n == 1 else ("are", "become")
    if not flagged:
        what = f"{become} {told}"
    elif isinstance(column, Category):
        what = f"are a category of their own, {flag}"
    else:
        what = f"become {told}, and {flag} is a feature"
    lines.append(
        f"{name!r}: {n:,} of {table.n_rows:,} values {are} missing and {what} "
        "(--missing error to refuse them)"
    )
    return replace(column, flagged=flagged, holes=True)


def _number(table: RawTable, name: str, lines: list[str]) -> Number:
    cells = table.feature(name)
    in_words = isinstance(cells, Words)
    numbers = Number(name, in_words=in_words).numbers(table)
    present = numbers[~np.isnan(numbers)]
    if isinstance(cells, Words):
        shown = [f"{in_quotes(word, 20)} is {number_in(word):g}" for word in cells.values[:3]]
        lines.append(
            f"{name!r} is the number in its words: {', '.join(shown)}, … "
            f"(--categorical {in_shell(name)} for a feature each)"
        )
    # A value that occurs, so that whole numbers stay whole.
    middle = (present.size - 1) // 2
    median = float(np.partition(present, middle)[middle])
    return Number(name, median, in_words=in_words)


def _worded(name: str, cells: Words, all_of_them: bool, lines: list[str]) -> Category | Ranks:
    """Ranks, if the words are in order; else a category, of all words or the frequent ones."""
    counts = cells.counts
    used = np.flatnonzero(counts)
    known = [cells.values[k] for k in used]
    # Ties go to the word that comes first in the alphabet.
    common = cells.values[min(used, key=lambda k: (-counts[k], cells.values[k]))]
    if all_of_them:
        return Category(name, common, words=tuple(sorted(known)))
    order = tuple(known) if cells.ordered and len(known) > 1 else in_order(known)
    overruled = f"(--categorical {in_shell(name)} for a feature each)"
    if order is not None:
        listed = " < ".join(order[:4]) + (" < …" if len(order) > 4 else "")
        lines.append(f"{name!r} is in order: {listed} become 0, 1, … {overruled}")
        return Ranks(name, _middle(order, cells), words=order)
    if not is_wide(len(known), int(counts.sum())):
        return Category(name, common, words=tuple(sorted(known)))
    # A column that is kept against advice may have no frequent word at all.
    frequent = frequent_words(cells) or frequent_words(cells, least=1)
    chosen = tuple(sorted(set(frequent) - {OTHER}))
    which = "most frequent is" if len(chosen) == 1 else f"{len(chosen)} most frequent are"
    lines.append(
        f"{name!r}: of {len(known):,} different values the {which} told apart, all others are "
        f"{OTHER!r} {overruled}"
    )
    return Category(name, common if common in chosen else OTHER, words=chosen, other=True)


def _middle(order: tuple[str, ...], cells: Words) -> str:
    """The median of ordered words; the lower one of two."""
    count = dict(zip(cells.values, cells.counts.tolist(), strict=True))
    cumulative = np.cumsum([count[word] for word in order])
    return order[int(np.searchsorted(cumulative, (cumulative[-1] + 1) // 2))]


def in_shell(name: str) -> str:
    """A name as it is typed at a command line."""
    return f'"{name}"' if re.search(r"[^\w.-]", name) else name
