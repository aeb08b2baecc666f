"""What every file becomes: named columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


class TableError(ValueError):
    """Data that cannot be used; the message names the file, the column and the remedy."""


@dataclass(frozen=True)
class RawTable:
    """Columns by name: float64 with NaN for missing values, or strings with "" for them."""

    name: str
    columns: dict[str, NDArray]

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(next(iter(self.columns.values()))) if self.columns else 0


def join(batches: list[dict[str, NDArray]]) -> dict[str, NDArray]:
    """Parts of the same columns as one."""
    return {name: np.concatenate([part[name] for part in batches]) for name in batches[0]}


def check_different(path: Path, names: Sequence[str]) -> None:
    """TableError if a name comes twice."""
    twice = sorted(name for name, n in Counter(names).items() if n > 1)
    if twice:
        raise TableError(f"{path} has several columns named {', '.join(map(repr, twice))}; rename")
