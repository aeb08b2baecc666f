"""Which column is what: decided by a training table, said in words, and overruled by choice."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from maxplus.tables.choices import AUTOMATIC, REFUSE, TASKS, ColumnChoices, require
from maxplus.tables.encoding import CLASSIFICATION, REGRESSION, Encoding, check_missing
from maxplus.tables.kind_of import column_of, in_shell
from maxplus.tables.kinds import Category, Column
from maxplus.tables.leaving_out import FEW_WORDS, NO_VALUES, why_left_out
from maxplus.tables.table import RawTable, TableError
from maxplus.tables.words import Words, in_quotes

# A target column is recognised by one of these names, else it is the last one.
TARGET_NAMES = ("target", "label", "class", "y")
# Cells that are numbers, as a share, from which on the others are mistakes.
SHARE_NUMBERS = 0.95
# More different whole numbers than these are measurements; or fewer, if rows are few as well.
MANY_CLASSES, FEW_CLASSES, ROWS_PER_CLASS = 20, 10, 10


class Decided(NamedTuple):
    """How tables become features, and a line for each decision that may be overruled."""

    encoding: Encoding
    decisions: tuple[str, ...]


def decide(
    table: RawTable, choices: ColumnChoices = AUTOMATIC, *, labels_apart: bool = False
) -> Decided:
    """Look at every column of a training table once; O(N·P), or O(N·log N) for whole numbers.

    With ``labels_apart`` the labels are not in the table: ``choices`` names and describes them. A
    column that is kept and has no values becomes a feature that tells of missing values.

    Parameters
    ----------
    table : RawTable
    choices : ColumnChoices
        What is to be overruled; nothing by default.
    labels_apart : bool, default=False

    Returns
    -------
    Decided

    Raises
    ------
    TableError
        Naming what cannot be: unknown names, no feature left, words among numbers.

    Examples
    --------
    >>> import pandas as pd
    >>> from maxplus.tables import decide, table_of
    >>> frame = pd.DataFrame({"size": [1.0, 2.5, 3.0] * 4, "colour": ["red", "blue", "red"] * 4})
    >>> decide(table_of(frame)).encoding.target
    'colour'
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
        lines += _alike(table, target)
    choices.check(table, target)
    names = [name for name in table.columns if name != target]
    if not names:
        raise TableError(f"{table.name} has no column besides the target {target!r}")
    if choices.missing == REFUSE:
        check_missing(table, [n for n in names if n not in (*choices.drop, choices.groups)])
    columns: list[Column] = []
    categories: list[str] = []
    for name in names:
        if name in choices.drop:
            continue
        if name == choices.groups:
            lines.append(f"left out {name!r}: its rows are held out together (--groups)")
            continue
        cells = table.feature(name)
        if isinstance(cells, Words) and not _is_chosen(name, choices):
            _check_words(table, name, cells)
        reason = why_left_out(table, name)
        if reason == NO_VALUES and labels_apart:
            columns.append(Category(name, "", flagged=True, holes=True))
            continue
        if reason == NO_VALUES:
            lines.append(f"left out {name!r}: {reason}")
            continue
        if reason is not None and not _is_chosen(name, choices):
            lines.append(f"left out {name!r}: {reason} (--keep {in_shell(name)} to use it)")
            continue
        column = column_of(table, name, choices, lines)
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
            + ("; ".join(lines[-3:]) or "all are in --drop")
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
    """What labels that are no column of the table are called: as their series is, or else y.

    Parameters
    ----------
    y : labels, perhaps with a name
    table : RawTable

    Returns
    -------
    str

    Examples
    --------
    >>> import pandas as pd
    >>> from maxplus.tables import label_name, table_of
    >>> label_name(pd.Series([0, 1], name="ill"), table_of(pd.DataFrame({"age": [30, 40]})))
    'ill'
    """
    name = getattr(y, "name", None)
    # A column of the same name is a feature: labels are not looked for in the table.
    if isinstance(name, str) and name and name not in table.columns:
        return name
    free = [word for word in reversed(TARGET_NAMES) if word not in table.columns]
    return free[0] if free else f"label of {table.name}"


def _choose_task(
    table: RawTable, target: str, choices: ColumnChoices, lines: list[str]
) -> str:  # fmt: skip
    cells = table.columns[target]
    if choices.task == REGRESSION:
        return REGRESSION
    if isinstance(cells, Words):
        n, n_rows, whole = int(np.count_nonzero(cells.counts)), int(cells.counts.sum()), True
    else:
        present = cells[~np.isnan(cells)]
        n, n_rows = np.unique(present).size, len(present)
        whole = bool((present == np.round(present)).all())
    few_rows = n > FEW_CLASSES and n * ROWS_PER_CLASS > n_rows
    is_chosen = choices.task == CLASSIFICATION or isinstance(cells, Words)
    if is_chosen or (whole and n <= MANY_CLASSES and not few_rows):
        if few_rows:
            lines.append(
                f"few rows: the target {target!r} has {n:,} classes in {n_rows:,} rows, fewer than "
                f"{ROWS_PER_CLASS} each, which is little to learn from (--target for another "
                "column, --task regression for numbers)"
            )
        return CLASSIFICATION
    lines.append(
        f"regression: the target {target!r} holds {n:,} different "
        f"{'numbers' if whole else 'numbers that are not all whole'} "
        "(--task classification to take them as classes)"
    )
    return REGRESSION


def _alike(table: RawTable, target: str) -> list[str]:
    """A line where two classes differ by upper and lower case only, which may be a slip."""
    cells = table.columns[target]
    seen: dict[str, str] = {}
    for word in cells.values if isinstance(cells, Words) else ():
        other = seen.setdefault(word.casefold(), word)
        if other != word:
            return [
                f"{other!r} and {word!r} of the target {target!r} differ by upper and lower case "
                "only: they are two classes (correct the file if they should be one)"
            ]
    return []


def _is_chosen(name: str, choices: ColumnChoices) -> bool:
    return name in choices.categorical or name in choices.numeric or choices.keeps(name)


def _check_words(table: RawTable, name: str, cells: Words) -> None:
    """Refuse a few words among many numbers: mistakes, which would make words of all numbers."""
    counts = cells.counts
    # A point among decimal commas is as wrong as a comma among points.
    marks = str.maketrans(",.", ".,") if name in table.commas else {}
    numbers = np.array([_is_number(word.translate(marks)) for word in cells.values])
    n = int(counts.sum())
    if numbers.all() or counts[numbers].sum() < max(SHARE_NUMBERS * n, FEW_WORDS):
        return
    rows = [cells.first(int(k)) for k in np.flatnonzero(~numbers & (counts > 0))]
    if rows:
        row = min(rows)
        raise TableError(
            f"{table.name}, {table.where(row)}: {name!r} holds {in_quotes(cells[row])}, where "
            f"{counts[numbers].sum():,} of {n:,} values are numbers; correct it or leave it empty, "
            f"or name the column with --categorical {in_shell(name)}"
        )


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
