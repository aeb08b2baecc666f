"""Inference of column types and of the target from training data."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxplus.tables.categorical import Categorical, quoted
from maxplus.tables.column_filters import (
    FEW_VALUES,
    NO_VALUES,
    frequent_values,
    has_many_values,
    has_units,
    needs_indicator,
    reason_to_drop,
)
from maxplus.tables.columns import OTHER, Category, Column, Number, Ordinal, UnknownValues
from maxplus.tables.table import (
    Cells,
    RawTable,
    TableError,
    as_text,
    is_missing,
    refuse_missing,
    require,
)
from maxplus.tables.text_patterns import number_in, ordered

TASKS = AUTO, CLASSIFICATION, REGRESSION = ("auto", "classification", "regression")
IMPUTE, REFUSE = "impute", "error"
# Default names of the target column.
TARGET_NAMES = ("target", "label", "class", "y")
# Share of numbers in a column from which text is an error.
MIN_NUMBERS = 0.95
# An integer target is numeric if it has more than MANY_CLASSES distinct values, or more than
# FEW_CLASSES with fewer than ROWS_PER_CLASS rows each.
MANY_CLASSES, FEW_CLASSES, ROWS_PER_CLASS = 20, 10, 10
# Largest integer up to which float64 is exact.
MAX_LABEL = 2**53


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
        require(table, self.name, "--target")
        return table.feature(self.name) if self.task == REGRESSION else table.columns[self.name]

    def missing(self, table: RawTable) -> NDArray:
        """Return the mask of rows without a label, all False if there is no target column."""
        if self.name not in table.columns:
            return np.zeros(table.n_rows, bool)
        return is_missing(self.cells(table))

    def labels(self, table: RawTable) -> NDArray:
        """Return y: floats for regression, integers or strings for classification."""
        cells = self.cells(table)
        refuse_missing(table, {self.name: cells})
        if self.task == REGRESSION:
            y = np.zeros((table.n_rows, 1))
            Number(self.name).encode(table, y, UnknownValues())
            return y[:, 0]
        if isinstance(cells, Categorical) or self.is_text or not _are_integers(cells):
            return as_text(cells).strings()
        if np.abs(cells).max(initial=0.0) > MAX_LABEL:
            raise TableError(
                f"{table.name}: the target {self.name!r} holds numbers beyond 2^53, too "
                "large for labels; write them as words"
            )
        return cells.astype(np.int64)

    def error_without_labels(self, name: str) -> TableError:
        """Return the error for a table without labels."""
        return TableError(
            f"{name}: the target {self.name!r} has no values; fill them in, or name another "
            "column with --target when you train"
        )

    def line_of_unlabelled(self, n: int, first: str) -> str:
        """Return the log line about n rows without a label."""
        return (
            f"left out {n:,} row{'s' * (n > 1)} without a value of the target {self.name!r}, the "
            f"first in {first}"
        )


class Overrides(NamedTuple):
    """Parameters of a `TableEncoder` that override inference."""

    categorical: Sequence[str] = ()
    numeric: Sequence[str] = ()
    drop: Sequence[str] = ()
    keep: Sequence[str] = ()
    missing: str = IMPUTE
    is_auto: bool = False

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> Overrides:
        """Validate the parameters of an encoder."""
        drop = parameters["drop"]
        drop = () if drop is None else (drop,) if isinstance(drop, str) else tuple(drop)
        for name in ("categorical", "numeric", "keep"):
            if isinstance(parameters[name], str):
                raise TableError(
                    f"{name} must be a list of column names; got {parameters[name]!r:.60}; write "
                    f"[{parameters[name]!r:.60}]"
                )
        categorical, numeric, keep = (
            tuple(parameters[name]) for name in ("categorical", "numeric", "keep")
        )
        names = tuple(name for name in drop if name != AUTO)
        return cls(categorical, numeric, names, keep, parameters["missing"], AUTO in drop)

    def check(self, table: RawTable, target: str | None) -> None:
        """Raise TableError if a column does not exist, or if parameters are in conflict."""
        if self.missing not in (IMPUTE, REFUSE):
            raise TableError(
                f"{table.name}: missing must be one of impute, error; got {self.missing!r:.60}"
            )
        others = () if target is None else (target,)
        option_of: dict[str, str] = {}
        for option in ("categorical", "numeric", "drop", "keep"):
            for name in getattr(self, option):
                if name == target:
                    raise TableError(
                        f"{table.name}: the target {name!r} is no feature, so it cannot be in "
                        f"--{option} as well"
                    )
                require(table, name, f"--{option}", *others)
                # "keep" may be combined with "categorical" and "numeric".
                if option != "keep" and name in option_of:
                    raise TableError(
                        f"{table.name}: {name!r} is in --{option_of[name]} and in --{option}; "
                        "choose one"
                    )
                if option == "keep" and name in self.drop:
                    raise TableError(f"{table.name}: {name!r} is in --drop and in --keep; choose")
                option_of.setdefault(name, option)

    def keeps(self, name: str) -> bool:
        """Return whether to use a column even if it is uninformative."""
        return not self.is_auto or name in (*self.categorical, *self.numeric, *self.keep)


class Schema(NamedTuple):
    """Columns to encode, and the log of decisions."""

    columns: tuple[Column, ...]
    decisions: tuple[str, ...]


def infer_schema(table: RawTable, overrides: Overrides, target: str | None = None) -> Schema:
    """Infer the type of each column.

    Parameters
    ----------
    table : RawTable
        Table without the target.
    overrides : Overrides
        Parameters that override inference.
    target : str, optional
        Name of the target, for messages.

    Raises
    ------
    TableError
        For unknown columns, text in a numeric column, or if no columns are left.
    """
    overrides.check(table, target)
    besides_target = "" if target is None else f" besides the target {target!r}"
    if not table.columns:
        raise TableError(f"{table.name} has no column{besides_target}")
    names = [name for name in table.columns if name not in overrides.drop]
    if overrides.missing == REFUSE:
        refuse_missing(table, {name: table.feature(name) for name in names})
    columns: list[Column] = []
    categories: list[str] = []
    lines: list[str] = []
    for name in names:
        cells = table.feature(name)
        if isinstance(cells, Categorical) and not overrides.keeps(name):
            _check_numbers(table, name, cells)
        reason = reason_to_drop(table, name)
        if reason == NO_VALUES and not overrides.is_auto:
            columns.append(Category(name, "", indicator=True, had_missing=True))
            continue
        if reason == NO_VALUES:
            lines.append(f"left out {name!r}: {reason}")
            continue
        if reason is not None and not overrides.keeps(name):
            lines.append(f"left out {name!r}: {reason} (--keep {in_shell(name)} to use it)")
            continue
        column = _column(table, name, overrides, lines)
        columns.append(column)
        if isinstance(column, Category) and not column.other:
            categories.append(f"{name!r} ({len(column.values)})")
    if categories:
        lines.append(
            f"one-hot encoded: {', '.join(categories[:20])}"
            + (", …" if len(categories) > 20 else "")
            + " (--numeric or --drop to override)"
        )
    if not columns:
        raise TableError(
            f"{table.name} has no column left to learn from{besides_target}: "
            + ("; ".join(lines[-3:]) or "all are in --drop")
        )
    return Schema(tuple(columns), tuple(lines))


def _column(table: RawTable, name: str, overrides: Overrides, lines: list[str]) -> Column:
    """Infer the type of a column; decisions are appended to ``lines``."""
    cells = table.feature(name)
    missing = is_missing(cells)
    is_text = name in overrides.categorical or (
        isinstance(cells, Categorical) and not has_units(name, cells)
    )
    column: Column
    if not is_text or name in overrides.numeric:
        column = _number(table, name, lines)
        imputed = f"{column.fill:g}, the median"
    else:
        column = _categories(name, as_text(cells), name in overrides.categorical, lines)
        imputed = f"{quoted(column.fill, 40)}, the " + (
            "middle one" if isinstance(column, Ordinal) else "most frequent"
        )
    if not missing.any():
        return column
    indicator = needs_indicator(missing, categories=isinstance(column, Category))
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
        f"{name!r}: {n:,} of {table.n_rows:,} values {are} missing: {encoding} "
        "(--set missing=error to refuse them)"
    )
    return replace(column, indicator=indicator, had_missing=True)


def _number(table: RawTable, name: str, lines: list[str]) -> Number:
    cells = table.feature(name)
    from_text = isinstance(cells, Categorical)
    numbers = Number(name, from_text=from_text).numbers(table)
    present = numbers[~np.isnan(numbers)]
    if isinstance(cells, Categorical):
        examples = [f"{quoted(text, 20)} is {number_in(text):g}" for text in cells.values[:3]]
        lines.append(
            f"{name!r} is encoded as the number in its text: {', '.join(examples)}, … "
            f"(--categorical {in_shell(name)} to one-hot encode it)"
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
    order = tuple(known) if cells.ordered and len(known) > 1 else ordered(known)
    override_hint = f"(--categorical {in_shell(name)} to one-hot encode it)"
    if order is not None:
        listed = " < ".join(order[:4]) + (" < …" if len(order) > 4 else "")
        lines.append(f"{name!r} is ordinal: {listed} are encoded as 0, 1, … {override_hint}")
        return Ordinal(name, _median(order, cells), categories=order)
    if not has_many_values(len(known), int(counts.sum())):
        return Category(name, most_frequent, categories=tuple(sorted(known)))
    # A column in ``keep`` may have no frequent values.
    frequent = frequent_values(cells) or frequent_values(cells, minimum=1)
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
    counts = cells.counts
    # Points and commas are swapped in columns with decimal commas.
    marks = str.maketrans(",.", ".,") if name in table.commas else {}
    numbers = np.array([_is_number(text.translate(marks)) for text in cells.values])
    n = int(counts.sum())
    if numbers.all() or counts[numbers].sum() < max(MIN_NUMBERS * n, FEW_VALUES):
        return
    rows = [cells.first(int(k)) for k in np.flatnonzero(~numbers & (counts > 0))]
    if rows:
        row = min(rows)
        raise TableError(
            f"{table.name}, {table.where(row)}: {name!r} holds {quoted(cells[row])}, where "
            f"{counts[numbers].sum():,} of {n:,} values are numbers; correct it or leave it empty, "
            f"or name the column with --categorical {in_shell(name)}"
        )


def infer_target(
    table: RawTable, name: str | None = None, task: str = AUTO
) -> tuple[Target, tuple[str, ...]]:
    """Infer the target and the task; return the target and the log of decisions.

    Parameters
    ----------
    table : RawTable
        Table with the target.
    name : str, optional
        Name of the target. By default, the only column named target, label, class or y, or the
        last column.
    task : {"auto", "classification", "regression"}, default="auto"
        Type of the target. "auto" is regression if the target has many distinct numbers.
    """
    if task not in TASKS:
        raise TableError(
            f"{table.name}: --task must be one of {', '.join(TASKS)}; got {task!r:.60}"
        )
    if name is None:
        matches = [column for column in table.columns if column.lower() in TARGET_NAMES]
        name = matches[0] if len(matches) == 1 else list(table.columns)[-1]
    require(table, name, "--target")
    lines: list[str] = []
    task = _infer_task(table, name, task, lines)
    cells = table.columns[name]
    target = Target(name, task, task == CLASSIFICATION and isinstance(cells, Categorical))
    return target, (*lines, *_similar_classes(cells, name))


def label_name(y: Any, table: RawTable) -> str:
    """Return the name of labels that are not in the table, ``y.name`` or a default."""
    name = getattr(y, "name", None)
    # The name must differ from the names of the features.
    if isinstance(name, str) and name and name not in table.columns:
        return name
    free = [text for text in reversed(TARGET_NAMES) if text not in table.columns]
    return free[0] if free else f"label of {table.name}"


def _infer_task(table: RawTable, name: str, task: str, lines: list[str]) -> str:
    cells = table.columns[name]
    if task == REGRESSION:
        return REGRESSION
    if isinstance(cells, Categorical):
        n, n_rows, integers = int(np.count_nonzero(cells.counts)), int(cells.counts.sum()), True
    else:
        present = cells[~np.isnan(cells)]
        n, n_rows = np.unique(present).size, len(present)
        integers = bool((present == np.round(present)).all())
    few_rows = n > FEW_CLASSES and n * ROWS_PER_CLASS > n_rows
    is_chosen = task == CLASSIFICATION or isinstance(cells, Categorical)
    if is_chosen or (integers and n <= MANY_CLASSES and not few_rows):
        if few_rows:
            lines.append(
                f"few rows: the target {name!r} has {n:,} classes in {n_rows:,} rows, fewer than "
                f"{ROWS_PER_CLASS} each, which is little to learn from (--target for another "
                "column, --task regression for numbers)"
            )
        return CLASSIFICATION
    lines.append(
        f"regression: the target {name!r} holds {n:,} different "
        f"{'numbers' if integers else 'numbers that are not all whole'} "
        "(--task classification to take them as classes)"
    )
    return REGRESSION


def _similar_classes(cells: Cells, name: str) -> list[str]:
    """Return a log line if two classes differ only in upper and lower case."""
    by_lower_case: dict[str, str] = {}
    for value in cells.values if isinstance(cells, Categorical) else ():
        other = by_lower_case.setdefault(value.casefold(), value)
        if other != value:
            return [
                f"{other!r} and {value!r} of the target {name!r} differ by upper and lower case "
                "only: they are two classes (correct the file if they should be one)"
            ]
    return []


def in_shell(name: str) -> str:
    """Quote a name for the command line if necessary."""
    return f'"{name}"' if re.search(r"[^\w.-]", name) else name


def _are_integers(cells: NDArray) -> bool:
    return bool(np.isfinite(cells).all() and np.array_equal(cells, np.round(cells)))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
