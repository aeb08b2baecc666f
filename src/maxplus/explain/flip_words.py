"""Flips in words, and as columns of a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxplus.explain.domain import Domain
from maxplus.explain.flips import Flips


class FlipWords(NamedTuple):
    """The flips of rows X (N, P), for people.

    ``missing`` (N, columns of the domain) tells which values the rows lacked, or is None.
    """

    X: NDArray
    flips: Flips
    domain: Domain
    class_names: Sequence[str]
    missing: NDArray | None = None

    def column(self, n: int) -> str:
        """The column whose change flips row n; empty if nothing does."""
        p = int(self.flips.feature[n])
        return self.domain.column_names[p] if p >= 0 else ""

    def before(self, n: int) -> str:
        """What the column is in row n; empty if nothing flips."""
        p = int(self.flips.feature[n])
        if p < 0:
            return ""
        was_missing = self._was_missing(n, self.column(n))
        return "missing" if was_missing else self.domain.text(self.X[n], p)

    def after(self, n: int) -> str:
        """What the column must become: to be typed in; empty if nothing flips."""
        p = int(self.flips.feature[n])
        if p < 0:
            return ""
        row = self.domain.changed(self.X[n], p, self.flips.shown[n])[0]
        return self.domain.text(row, p, exact=True)

    def becomes(self, n: int) -> str:
        """The class that row n becomes; empty if nothing flips."""
        d = int(self.flips.becomes[n])
        return str(self.class_names[d]) if d >= 0 else ""

    def sentences(self, n: int) -> list[str]:
        """What flips row n, and which of its values were missing."""
        said = "no change of a single feature flips it"
        if self.flips.feature[n] >= 0:
            said = (
                f"flips to {self.becomes(n)} if {self.column(n)} goes from {self.before(n)} to "
                f"{self.after(n)}: no other single feature needs less"
            )
        return [said] + [
            f"{name} was missing, {self._taken_as(n, name)}"
            for name in self.domain.columns
            if self._was_missing(n, name)
        ]

    def columns(self) -> dict[str, NDArray]:
        """Of each row: feature, from, to, value, distance and class of its flip, as arrays."""
        rows = range(len(self.X))
        return {
            "feature": np.array([self.column(n) for n in rows], str),
            "from": np.array([self.before(n) for n in rows], str),
            "to": np.array([self.after(n) for n in rows], str),
            "value": self.flips.value,
            "distance": self.flips.distance,
            "class": np.array([self.becomes(n) for n in rows], str),
        }

    def _taken_as(self, n: int, column: str) -> str:
        """What the model takes the missing value of a column for."""
        p = self.domain.column_names.index(column)
        if self.domain.category_of[p] >= 0 and p in self.domain.indicators:
            return "which is a category of its own"
        return f"and counted as {self.domain.text(self.X[n], p)}"

    def _was_missing(self, n: int, column: str) -> bool:
        if self.missing is None:
            return False
        return bool(self.missing[n, self.domain.columns.index(column)])


def missing_columns(missing: ArrayLike | None, n_rows: int, domain: Domain) -> NDArray | None:
    """Which columns each row lacked, (N, columns), from a mask of columns or of features."""
    if missing is None:
        return None
    mask = np.asarray(missing)
    n_columns = len(domain.columns)
    if mask.dtype != bool or mask.shape not in ((n_rows, n_columns), (n_rows, domain.n_features)):
        raise ValueError(
            f"missing must hold truth values for {n_rows} rows and {n_columns} columns; got dtype "
            f"{mask.dtype} and shape {mask.shape}"
        )
    if mask.shape[1] == n_columns:
        return mask
    names = np.array(domain.column_names)
    return np.stack([mask[:, names == name].any(axis=1) for name in domain.columns], axis=1)
