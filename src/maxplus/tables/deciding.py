"""Which column is what: decided by a training table, said in words, and overruled by choice."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from maxplus.tables.choices import AUTOMATIC, REFUSE, TASKS, ColumnChoices, require
from maxplus.tables.encoding import (
    CLASSIFICATION,
    REGRESSION,
    Encoding,
    check_missing,
    is_missing,
)
from maxplus.tables.kinds import OTHER, Category, Column, Number, Ranks, as_words
from maxplus.tables.leaving_out import (
    FEW_WORDS,
    LEAST_FLAGGED,
    NO_VALUES,
    frequent_words,
    is_wide,
    why_left_out,
)
from maxplus.tables.scales import in_order, number_in
from maxplus.tables.table import RawTable, TableError
from maxplus.tables.words import Words

# A target column is recognised by one of these names, else it is the last one.
TARGET_NAMES = ("target", "label", "class", "y")
# Cells that are numbers, as a share, from which on the others are mistakes.
SHARE_NUMBERS = 0.95
# More different whole numbers than these are measurements; or fewer, if rows are few as well.
MANY_CLASSES, FEW_CLASSES, ROWS_PER_CLASS = 30, 10, 5


class Decided(NamedTuple):
    """How tables become features, and a line for each decision that may be overruled."""

    encoding: Encoding
    decisions: tuple[str, ...]


def decide(
    table: RawTable, choices: ColumnChoices = AUTOMATIC, *, labels_apart: bool = False
) -> Decided:
    """Look at every column of a training table once; O(N·P), or O(N·log N) for whole numbers.

    With ``labels_apart`` the labels are not in the table: ``choices`` names and describes them.

    Raises
    ------
    TableError
        Naming what cannot be: unknown names, no feature left, words among numbers.
    """
    lines = list(table.notes)
    if labels_apart:
        target = label_name(None, table) if choices.target is None else choices.target
        task = CLASSIFICATION if choices.task == TASKS[0] else choices.task
        if target in table.columns:
            lines.append(f"left out {target!r}: it is the target")
    else:
        target = choose_target(table, choices.target)
        task = _choose_task(table, target, choices, lines)
    choices.check(table, target)
    names = [name for name in table.columns if name != target]
    if not names:
        raise TableError(f"{table.name} has no column besides the target {target!r}")
    if choices.missing == REFUSE:
        check_missing(table, [name for name in names if name not in choices.drop])
    columns: list[Column] = []
    categories: list[str] = []
    for name in names:
        if name in choices.drop:
            continue
        cells = table.columns[name]
        if isinstance(cells, Words) and not _is_chosen(name, choices):
            _check_words(table, name, cells)
        reason = why_left_out(table, name)
        if reason == NO_VALUES:
            lines.append(f"left out {name!r}: {reason}")
            continue
        if reason is not None and not _is_chosen(name, choices):
            lines.append(f"left out {name!r}: {reason} (--keep {_shell(name)} to use it)")
            continue
        column = _column(table, name, choices, lines)
        columns.append(column)
        if isinstance(column, Category) and not column.other:
            categories.append(f"{name!r} ({len(column.values)})")
    if categories:
        lines.append(
            f"a feature of 0 and 1 for each word of {', '.join(categories[:20])}"
            + (", …" if len(categories) > 20 else "")
            + " (--numeric or --drop to overrule)"
        )
    if not columns:
        raise TableError(
            f"{table.name} has no column left to learn from besides the target {target!r}: "
            + "; ".join(lines[-3:])
        )
    in_words = task == CLASSIFICATION and isinstance(table.columns.get(target), Words)
    encoding = Encoding(target, tuple(columns), task, choices.missing, in_words)
    return Decided(encoding, tuple(lines))


def choose_target(table: RawTable, target: str | None) -> str:
    """The column with the labels."""
    if target is not None:
        require(table, target, "--target")
        return target
    named = [name for name in table.columns if name.lower() in TARGET_NAMES]
    return named[0] if len(named) == 1 else list(table.columns)[-1]


def label_name(y: Any, table: RawTable) -> str:
    """What labels that are no column of the table are called: as their series is, or else y."""
    name = getattr(y, "name", None)
    if isinstance(name, str) and name:
        return name
    free = [word for word in reversed(TARGET_NAMES) if word not in table.columns]
    return free[0] if free else f"label of {table.name}"


def _choose_task(
    table: RawTable, target: str, choices: ColumnChoices, lines: list[str]
) -> str:  # fmt: skip
    cells = table.columns[target]
    if choices.task != TASKS[0] or isinstance(cells, Words):
        return CLASSIFICATION if choices.task == TASKS[0] else choices.task
    present = cells[~np.isnan(cells)]
    n = np.unique(present).size
    whole = bool((present == np.round(present)).all())
    if whole and not (n > MANY_CLASSES or (n > FEW_CLASSES and n * ROWS_PER_CLASS > len(present))):
        return CLASSIFICATION
    lines.append(
        f"regression: the target {target!r} holds {n:,} different "
        f"{'numbers' if whole else 'numbers that are not all whole'} "
        "(--task classification to take them as classes)"
    )
    return REGRESSION


def _is_chosen(name: str, choices: ColumnChoices) -> bool:
    return name in choices.categorical or name in choices.numeric or choices.keeps(name)


def _column(table: RawTable, name: str, choices: ColumnChoices, lines: list[str]) -> Column:
    """A column that is used, and the lines about it."""
    cells = table.columns[name]
    n_missing = int(np.count_nonzero(is_missing(table, name)))
    flagged = n_missing >= LEAST_FLAGGED
    is_words = isinstance(cells, Words) or name in choices.categorical
    column: Column
    if not is_words or name in choices.numeric:
        column = _number(table, name, lines)
        told = f"{column.fill:g}, the median"
    else:
        words = as_words(cells)
        column = _worded(name, words, name in choices.categorical, lines)
        told = f"{column.fill!r:.40}, the " + (
            "middle one" if isinstance(column, Ranks) else "most frequent"
        )
    if not n_missing:
        return column
    flag = f"{name + ' is missing'!r}"
    if not flagged:
        what = f"become {told}"
    elif isinstance(column, Category):
        what = f"are a category of their own, {flag}"
    else:
        what = f"become {told}, and {flag} is a feature"
    lines.append(
        f"{name!r}: {n_missing:,} of {table.n_rows:,} values are missing and {what} "
        "(--missing error to refuse them)"
    )
    return replace(column, flagged=flagged, holes=True)


def _number(table: RawTable, name: str, lines: list[str]) -> Number:
    cells = table.columns[name]
    in_words = isinstance(cells, Words)
    numbers = Number(name, in_words=in_words).numbers(table)
    present = numbers[~np.isnan(numbers)]
    if isinstance(cells, Words):
        shown = [f"{word!r:.20} is {number_in(word):g}" for word in cells.values[:3]]
        lines.append(f"{name!r} is the number in its words: {', '.join(shown)}, …")
    # A value that occurs, so that whole numbers stay whole.
    middle = (present.size - 1) // 2
    median = float(np.partition(present, middle)[middle])
    return Number(name, median, in_words=in_words)


def _worded(name: str, cells: Words, all_of_them: bool, lines: list[str]) -> Category | Ranks:
    counts = cells.counts
    used = np.flatnonzero(counts)
    known = [cells.values[k] for k in used]
    # Ties go to the word that comes first in the alphabet.
    common = min(used, key=lambda k: (-counts[k], cells.values[k]))
    if not all_of_them:
        order = tuple(known) if cells.ordered and len(known) > 1 else in_order(known)
        if order is not None:
            listed = " < ".join(order[:4]) + (" < …" if len(order) > 4 else "")
            lines.append(
                f"{name!r} is in order: {listed} become 0, 1, … "
                f"(--categorical {_shell(name)} for a feature each)"
            )
            return Ranks(name, _middle(order, cells), words=order)
        if is_wide(len(known), int(counts.sum())):
            frequent = frequent_words(cells)
            if frequent.size:
                chosen = tuple(sorted({cells.values[k] for k in frequent} - {OTHER}))
                which = (
                    "most frequent is" if len(chosen) == 1 else f"{len(chosen)} most frequent are"
                )
                lines.append(
                    f"{name!r}: of {len(known):,} different values the {which} told apart, all "
                    f"others are 'other' (--categorical {_shell(name)} for a feature each)"
                )
                return Category(name, cells.values[common], words=chosen, other=True)
    return Category(name, cells.values[common], words=tuple(sorted(known)))


def _middle(order: tuple[str, ...], cells: Words) -> str:
    """The median of ordered words; the lower one of two."""
    count = dict(zip(cells.values, cells.counts.tolist(), strict=True))
    cumulative = np.cumsum([count[word] for word in order])
    return order[int(np.searchsorted(cumulative, (cumulative[-1] + 1) // 2))]


def _check_words(table: RawTable, name: str, cells: Words) -> None:
    """Refuse a few words among many numbers: mistakes, which would make words of all numbers."""
    counts = cells.counts
    numbers = np.array([_is_number(word, table.decimal) for word in cells.values])
    n = int(counts.sum())
    if numbers.all() or counts[numbers].sum() < max(SHARE_NUMBERS * n, FEW_WORDS):
        return
    rows = [cells.first(int(k)) for k in np.flatnonzero(~numbers & (counts > 0))]
    if rows:
        row = min(rows)
        raise TableError(
            f"{table.name}, {table.where(row)}: {name!r} holds {cells[row]!r:.60}, where "
            f"{counts[numbers].sum():,} of {n:,} values are numbers; correct it or leave it empty, "
            f"or name the column with --categorical {_shell(name)}"
        )


def _is_number(word: str, decimal: str) -> bool:
    try:
        float(word if decimal == "." else word.replace(decimal, "."))
    except ValueError:
        return False
    return True


def _shell(name: str) -> str:
    return f'"{name}"' if re.search(r"[^\w.-]", name) else name
