"""Text columns as integer codes and distinct values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Lower-case strings that are read as missing values.
ALWAYS_MISSING = frozenset(
    ("", "na", "n/a", "n.a.", "<na>", "#n/a", "nan", "nat", "null", "<null>", "missing")
) | frozenset("?-.")
# The text "none" is a missing value in a feature, and a class in the target.
NONE = "none"
MISSING = ALWAYS_MISSING | {NONE}


@dataclass(frozen=True, eq=False)
class Categorical:
    """Text column stored as integer codes and distinct strings.

    Parameters
    ----------
    codes : ndarray of int32 of shape (n_rows,)
        Indices into ``values``, −1 for missing values.
    values : tuple of str
        Distinct strings without surrounding whitespace.
    ordered : bool, default=False
        If True, ``values`` are in ascending order.
    """

    codes: NDArray
    values: tuple[str, ...]
    ordered: bool = False

    # Default dtype of `__array__`.
    dtype = np.dtype(object)

    @classmethod
    def of(cls, cells: Iterable[Any]) -> Categorical:
        """Convert cells of any type to text; None and NaN are missing values."""
        index: dict[str, int] = {}
        texts = (cell if type(cell) is str else cell_text(cell) for cell in cells)
        codes = np.array([index.setdefault(text, len(index)) for text in texts], np.int32)
        return cls.tidy(codes, list(index))

    @classmethod
    def of_numbers(cls, cells: NDArray) -> Categorical:
        """Convert numbers to text."""
        distinct, codes = np.unique(cells, return_inverse=True)
        return cls.tidy(codes.astype(np.int32), [cell_text(cell) for cell in distinct.tolist()])

    @classmethod
    def tidy(cls, codes: NDArray, values: Sequence[str], ordered: bool = False) -> Categorical:
        """Strip and merge values, and replace codes of missing-value strings by −1."""
        index: dict[str, int] = {}
        # The last entry is the new code of −1.
        new_codes = np.full(len(values) + 1, -1, np.int32)
        for k, value in enumerate(values):
            text = value.strip()
            if text.lower() not in ALWAYS_MISSING:
                new_codes[k] = index.setdefault(text, len(index))
        if not np.array_equal(new_codes[:-1], np.arange(len(values))):
            codes = new_codes[codes]
        return cls(codes.astype(np.int32, copy=False), tuple(index), ordered)

    @classmethod
    def joined(cls, parts: Sequence[Categorical]) -> Categorical:
        """Concatenate parts of a column."""
        index: dict[str, int] = {}
        codes = []
        for part in parts:
            new_codes = [index.setdefault(value, len(index)) for value in part.values]
            codes.append(np.array([*new_codes, -1], np.int32)[part.codes])
        ordered = all(part.ordered and part.values == parts[0].values for part in parts)
        return cls(np.concatenate(codes), tuple(index), ordered)

    def without_none(self) -> Categorical:
        """Return the column with the text "none" as a missing value."""
        values = ["" if value.lower() == NONE else value for value in self.values]
        return Categorical.tidy(self.codes, values, self.ordered) if "" in values else self

    @property
    def missing(self) -> NDArray:
        """Mask of missing values."""
        return self.codes < 0

    @property
    def counts(self) -> NDArray:
        """Number of rows with each value."""
        return np.bincount(self.codes[self.codes >= 0], minlength=len(self.values))

    def first(self, value: int) -> int:
        """Return the index of the first row with the code ``value``."""
        return int((self.codes == value).argmax())

    def tolist(self) -> list[str]:
        """Return the column as a list of strings, with "" for missing values."""
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
        """Return the column as an array of strings, with "" for missing values."""
        return np.array([*self.values, ""])[self.codes]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray:
        return np.array([*self.values, ""], object)[self.codes].astype(dtype or object)


def cell_text(cell: Any) -> str:
    """Convert a cell to text; integers have no decimal point, and None is ""."""
    if cell is None:
        return ""
    if isinstance(cell, (float, np.floating)) and np.isfinite(cell) and cell == round(cell):
        return str(int(cell))
    return str(cell)


def quoted(text: str, max_length: int = 60) -> str:
    """Return quoted text for messages, truncated with an ellipsis."""
    return repr(text if len(text) <= max_length else text[: max_length - 1] + "…")
