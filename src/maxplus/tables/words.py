"""A column of words: a whole number for each row, and the different words once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

# What people write where a value is missing, in lower case.
ALWAYS_MISSING = frozenset(
    ("", "na", "n/a", "n.a.", "<na>", "#n/a", "nan", "nat", "null", "<null>", "missing")
) | frozenset("?-.")
# The word none is a missing value among numbers and features, and a class among labels.
NONE = "none"
MISSING = ALWAYS_MISSING | {NONE}


@dataclass(frozen=True, eq=False)
class Words:
    """N words of which K are different, so that millions of rows are no millions of objects.

    Parameters
    ----------
    codes : int32 array of shape (N,)
        Places in ``values``; −1 where a value is missing.
    values : K different words, without spaces around them and never one of ``ALWAYS_MISSING``
    ordered : whether the order of ``values`` means something
    """

    codes: NDArray
    values: tuple[str, ...]
    ordered: bool = False

    # What it is like as an array: an array of strings.
    dtype = np.dtype(object)

    @classmethod
    def of(cls, cells: Iterable[Any]) -> Words:
        """Any cells, one after the other; None and NaN are names of missing values."""
        place: dict[str, int] = {}
        words = (cell if type(cell) is str else in_words(cell) for cell in cells)
        codes = np.array([place.setdefault(word, len(place)) for word in words], np.int32)
        return cls.tidy(codes, list(place))

    @classmethod
    def of_numbers(cls, cells: NDArray) -> Words:
        """Numbers as words."""
        different, codes = np.unique(cells, return_inverse=True)
        return cls.tidy(codes.astype(np.int32), [in_words(cell) for cell in different.tolist()])

    @classmethod
    def tidy(cls, codes: NDArray, values: Sequence[str], ordered: bool = False) -> Words:
        """Trim the words; names of missing values become −1, equal words one. O(N + K)."""
        place: dict[str, int] = {}
        new = np.full(len(values) + 1, -1, np.int32)  # the last is for −1 itself
        for k, value in enumerate(values):
            word = value.strip()
            if word.lower() not in ALWAYS_MISSING:
                new[k] = place.setdefault(word, len(place))
        if not np.array_equal(new[:-1], np.arange(len(values))):
            codes = new[codes]
        return cls(codes.astype(np.int32, copy=False), tuple(place), ordered)

    @classmethod
    def joined(cls, parts: Sequence[Words]) -> Words:
        """Parts of one column, one after the other."""
        place: dict[str, int] = {}
        codes = []
        for part in parts:
            new = [place.setdefault(value, len(place)) for value in part.values]
            codes.append(np.array([*new, -1], np.int32)[part.codes])
        ordered = all(part.ordered and part.values == parts[0].values for part in parts)
        return cls(np.concatenate(codes), tuple(place), ordered)

    def without_none(self) -> Words:
        """Return the words of a feature, in which the word none is a missing value."""
        values = ["" if value.lower() == NONE else value for value in self.values]
        return Words.tidy(self.codes, values, self.ordered) if "" in values else self

    @property
    def missing(self) -> NDArray:
        """Which rows have no value."""
        return self.codes < 0

    @property
    def counts(self) -> NDArray:
        """How often each of the values occurs."""
        return np.bincount(self.codes[self.codes >= 0], minlength=len(self.values))

    def first(self, value: int) -> int:
        """The first row that holds a value, given by its place."""
        return int((self.codes == value).argmax())

    def tolist(self) -> list[str]:
        """All words, "" where a value is missing."""
        words = (*self.values, "")
        return [words[code] for code in self.codes.tolist()]

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: Any) -> Any:
        codes = self.codes[rows]
        if np.ndim(codes) == 0:
            return self.values[codes] if codes >= 0 else ""
        return Words(codes, self.values, self.ordered)

    def __iter__(self) -> Iterator[str]:
        return iter(self.tolist())

    def strings(self) -> NDArray:
        """All words as an array of strings."""
        return np.array([*self.values, ""])[self.codes]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray:
        return np.array([*self.values, ""], object)[self.codes].astype(dtype or object)


def in_words(cell: Any) -> str:
    """A cell as a person would write it: whole numbers without a decimal point."""
    if cell is None:
        return ""
    if isinstance(cell, (float, np.floating)) and np.isfinite(cell) and cell == round(cell):
        return str(int(cell))
    return str(cell)


def in_quotes(word: str, most: int = 60) -> str:
    """A word of a file in quotes, for messages; a long one ends in dots, inside the quotes."""
    return repr(word if len(word) <= most else word[: most - 1] + "…")
