"""Columns as features and labels: which is what, decided once and kept with the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxplus.tables.table import RawTable, TableError

# A target column is recognised by one of these names, else it is the last one.
TARGET_NAMES = ("target", "label", "class", "y")
# Floats hold all whole numbers up to here, and not all beyond.
LARGEST_LABEL = 2**53


class Column(NamedTuple):
    """A feature: a number, or, with its values listed, a category of 0/1 features."""

    name: str
    values: tuple[str, ...] | None = None

    @property
    def features(self) -> list[str]:
        """The names of what it becomes."""
        if self.values is None:
            return [self.name]
        return [f"{self.name} = {value}" for value in self.values]


@dataclass(frozen=True)
class Encoding:
    """How a table becomes X and y."""

    target: str
    columns: tuple[Column, ...]

    @classmethod
    def of(
        cls, table: RawTable, target: str | None = None, categorical: Sequence[str] = ()
    ) -> Encoding:
        """Decide by a training table; every column but the target is a feature.

        Raises
        ------
        TableError
            Naming columns that are not numbers and not called categorical, columns
            with missing values, and names that are not there.
        """
        target = _choose_target(table, target)
        for name in categorical:
            _require(table, name, "--categorical")
        if target in categorical:
            raise TableError(f"{table.name}: the target {target!r} cannot be categorical as well")
        features = [name for name in table.columns if name != target]
        if not features:
            raise TableError(f"{table.name} has no column besides the target {target!r}")
        words = [
            name
            for name in features
            if table.columns[name].dtype == object and name not in categorical
        ]
        if words:
            verb = "does" if len(words) == 1 else "do"
            raise TableError(
                f"{table.name}: {_list(words)} {verb} not hold numbers (for example "
                f"{_first_word(table, words[0])!r} in {words[0]!r}); encode with "
                + " ".join(f"--categorical {_quoted(name)}" for name in words)
                + ", or remove"
            )
        _check_missing(table, [*features, target])
        columns = tuple(
            Column(name, _values(table.columns[name]) if name in categorical else None)
            for name in features
        )
        return cls(target, columns)

    @property
    def feature_names(self) -> list[str]:
        """Names of X's columns."""
        return [feature for column in self.columns for feature in column.features]

    @property
    def feature_range(self) -> tuple[NDArray, NDArray]:
        """The least and largest value each feature may take: 0 and 1 for a category's."""
        counts = [1 if column.values is None else len(column.values) for column in self.columns]
        free = np.repeat([column.values is None for column in self.columns], counts)
        return np.where(free, -np.inf, 0.0), np.where(free, np.inf, 1.0)

    def features(self, table: RawTable) -> NDArray:
        """X of shape (N, P), float64; the table's columns may come in any order."""
        names = [column.name for column in self.columns]
        absent = [name for name in names if name not in table.columns]
        if absent:
            raise TableError(
                f"{table.name} lacks {_list(absent)}, which the model needs; it has "
                f"{', '.join(map(repr, list(table.columns)[:20]))}"
            )
        _check_missing(table, names)
        parts = []
        for column in self.columns:
            cells = table.columns[column.name]
            if column.values is not None:
                parts.append(_one_hot(table, column, _as_words(cells)))
            elif cells.dtype == object:
                raise TableError(
                    f"{table.name}: {column.name!r} holds {_first_word(table, column.name)!r}, "
                    "but the model was trained on numbers there"
                )
            else:
                parts.append(cells[:, None])
        return np.concatenate(parts, axis=1)

    def labels(self, table: RawTable) -> NDArray:
        """Y of shape (N,): whole numbers as integers, anything else as strings."""
        _require(table, self.target, "--target")
        cells = table.columns[self.target]
        _check_missing(table, [self.target])
        if cells.dtype == object:
            return cells.astype(str)
        if np.array_equal(cells, np.round(cells)):
            if np.abs(cells).max(initial=0.0) > LARGEST_LABEL:
                raise TableError(
                    f"{table.name}: the target {self.target!r} holds numbers beyond 2^53, too "
                    "large for labels; write them as words"
                )
            return cells.astype(np.int64)
        different = np.unique(cells).size
        raise TableError(
            f"{table.name}: the target {self.target!r} holds {different} different numbers that "
            "are not whole, which are measurements and no classes; name another with --target"
        )

    def has_labels(self, table: RawTable) -> bool:
        """Whether the target column is there."""
        return self.target in table.columns

    def to_json(self) -> dict[str, Any]:
        """Plain data for a model file."""
        return {
            "target": self.target,
            "columns": [
                {"name": c.name, "values": None if c.values is None else list(c.values)}
                for c in self.columns
            ],
        }

    @classmethod
    def from_json(cls, record: Any) -> Encoding:
        """What `to_json` gave; ValueError if it is something else."""
        try:
            columns = tuple(_column_from_json(c) for c in record["columns"])
            target = record["target"]
        except (TypeError, KeyError, ValueError) as error:
            raise ValueError(f"the model's columns cannot be read: {error!r}") from None
        if not (isinstance(target, str) and isinstance(record["columns"], list)):
            raise ValueError(f"the model's columns cannot be read: target {target!r:.40}")
        return cls(target, columns)


def _column_from_json(record: Any) -> Column:
    name, values = record["name"], record["values"]
    words = values is None or (isinstance(values, list) and all(type(v) is str for v in values))
    if not (type(name) is str and words):
        raise ValueError(f"{record!r:.60} is no column")
    return Column(name, None if values is None else tuple(values))


def _choose_target(table: RawTable, target: str | None) -> str:
    if target is not None:
        _require(table, target, "--target")
        return target
    named = [name for name in table.columns if name.lower() in TARGET_NAMES]
    return named[0] if len(named) == 1 else list(table.columns)[-1]


def _require(table: RawTable, name: str, option: str) -> None:
    if name not in table.columns:
        raise TableError(
            f"{table.name} has no column {name!r} ({option}); it has "
            f"{', '.join(map(repr, list(table.columns)[:20]))}"
        )


def _check_missing(table: RawTable, names: Sequence[str]) -> None:
    counts = {}
    for name in names:
        cells = table.columns[name]
        if cells.dtype == object:
            counts[name] = int((cells == "").sum())
        else:
            counts[name] = int(np.isnan(cells).sum())
            if np.isinf(cells).any():
                raise TableError(f"{table.name}: {name!r} holds infinite values; remove such rows")
    bad = {name: n for name, n in counts.items() if n}
    if bad:
        listed = ", ".join(f"{n} in {name!r}" for name, n in list(bad.items())[:10])
        raise TableError(
            f"{table.name} has missing values: {listed}; fill them in or remove such rows"
        )


def _values(cells: NDArray) -> tuple[str, ...]:
    return tuple(sorted(set(_as_words(cells))))


def _as_words(cells: NDArray) -> list[str]:
    """Cells as words; whole numbers without a decimal point, as a person would write them."""
    if cells.dtype == object:
        return [str(cell) for cell in cells]
    return [str(int(cell)) if cell == round(cell) else repr(float(cell)) for cell in cells]


def _one_hot(table: RawTable, column: Column, words: list[str]) -> NDArray:
    assert column.values is not None
    place = {value: k for k, value in enumerate(column.values)}
    unknown = sorted({word for word in words if word not in place})
    if unknown:
        raise TableError(
            f"{table.name}: {column.name!r} holds {unknown[0]!r}, which the model has never seen; "
            f"it knows {', '.join(map(repr, column.values[:20]))}"
        )
    out = np.zeros((len(words), len(column.values)))
    out[np.arange(len(words)), [place[word] for word in words]] = 1.0
    return out


def _first_word(table: RawTable, name: str) -> str:
    return next((str(cell) for cell in table.columns[name] if cell != ""), "")


def _list(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:10])) + (", …" if len(names) > 10 else "")
    return f"column {shown}" if len(names) == 1 else f"columns {shown}"


def _quoted(name: str) -> str:
    return f'"{name}"' if " " in name else name
