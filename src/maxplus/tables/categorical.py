"""Columns of text: an integer code for each row, and the distinct values once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Spellings of a missing value, in lower case.
ALWAYS_MISSING = frozenset(
    ("", "na", "n/a", "n.a.", "<na>", "#n/a", "nan", "nat", "null", "<null>", "missing")
) | frozenset("?-.")
# The text none is a missing value among numbers and features, and a class among labels.
NONE = "none"
MISSING = ALWAYS_MISSING | {NONE}


@dataclass(frozen=True, eq=False)
class Categorical:
    """N texts of which K are distinct, so that millions of rows are not millions of objects.

    Parameters
    ----------
    codes : int32 array of shape (N,)
        Indices into ``values``; −1 where a value is missing.
    values : K distinct texts, stripped, none of them in ``ALWAYS_MISSING``
    ordered : whether the order of ``values`` has a meaning
    """

    codes: NDArray
    values: tuple[str, ...]
    ordered: bool = False

    # As an array it has the type of strings.
    dtype = np.dtype(object)

    @classmethod
    def of(cls, cells: Iterable[Any]) -> Categorical:
        """Return cells of any type as text; None and NaN are missing values."""
        place: dict[str, int] = {}
        texts = (cell if type(cell) is str else cell_text(cell) for cell in cells)
        codes = np.array([place.setdefault(text, len(place)) for text in texts], np.int32)
        return cls.tidy(codes, list(place))

    @classmethod
    def of_numbers(cls, cells: NDArray) -> Categorical:
        """Return numbers as text."""
        distinct, codes = np.unique(cells, return_inverse=True)
        return cls.tidy(codes.astype(np.int32), [cell_text(cell) for cell in distinct.tolist()])

    @classmethod
    def tidy(cls, codes: NDArray, values: Sequence[str], ordered: bool = False) -> Categorical:
        """Strip the values; spellings of missing values become −1, equal values one. O(N + K)."""
        place: dict[str, int] = {}
        new = np.full(len(values) + 1, -1, np.int32)  # The last entry is for −1 itself.
        for k, value in enumerate(values):
            text = value.strip()
            if text.lower() not in ALWAYS_MISSING:
                new[k] = place.setdefault(text, len(place))
        if not np.array_equal(new[:-1], np.arange(len(values))):
            codes = new[codes]
        return cls(codes.astype(np.int32, copy=False), tuple(place), ordered)

    @classmethod
    def joined(cls, parts: Sequence[Categorical]) -> Categorical:
        """Concatenate parts of one column."""
        place: dict[str, int] = {}
        codes = []
        for part in parts:
            new = [place.setdefault(value, len(place)) for value in part.values]
            codes.append(np.array([*new, -1], np.int32)[part.codes])
        ordered = all(part.ordered and part.values == parts[0].values for part in parts)
        return cls(np.concatenate(codes), tuple(place), ordered)

    def without_none(self) -> Categorical:
        """Return the values of a feature, in which the text none is a missing value."""
        values = ["" if value.lower() == NONE else value for value in self.values]
        return Categorical.tidy(self.codes, values, self.ordered) if "" in values else self

    @property
    def missing(self) -> NDArray:
        """Mask of the rows without a value."""
        return self.codes < 0

    @property
    def counts(self) -> NDArray:
        """Number of rows with each value."""
        return np.bincount(self.codes[self.codes >= 0], minlength=len(self.values))

    def first(self, value: int) -> int:
        """Return the first row that holds a value, given by its index."""
        return int((self.codes == value).argmax())

    def tolist(self) -> list[str]:
        """Return all texts, "" where a value is missing."""
        texts = (*self.values, "")
        return [texts[code] for code in self.codes.tolist()]

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: Any) -> Any:
        codes = self.codes[rows]
        if np.ndim(codes) == 0:
            return self.values[codes] if codes >= 0 else ""
        return Categorical(codes, self.values, self.ordered)

    def __iter__(self) -> Iterator[str]:
        return iter(self.tolist())

    def strings(self) -> NDArray:
        """Return all texts as an array of strings."""
        return np.array([*self.values, ""])[self.codes]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray:
        return np.array([*self.values, ""], object)[self.codes].astype(dtype or object)


def cell_text(cell: Any) -> str:
    """Return a cell as text: integers without a decimal point, "" for None."""
    if cell is None:
        return ""
    if isinstance(cell, (float, np.floating)) and np.isfinite(cell) and cell == round(cell):
        return str(int(cell))
    return str(cell)


def quoted(text: str, most: int = 60) -> str:
    """Return a cell in quotes, for messages; a long one is cut and ends in dots."""
    return repr(text if len(text) <= most else text[: most - 1] + "…")
