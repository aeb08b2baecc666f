"""What a page is asked to be about: rows with their labels, and how people call them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Asked:
    """Labelled rows.

    Attributes
    ----------
    X, y : rows (N, P) and their true labels or numbers (N,)
    name : of the table
    numbers : N row numbers as people count them; from 1 by default
    ids : N words that tell the rows apart, or None
    missing : which columns each row lacked, (N, columns) of bool, or None
    """

    X: NDArray
    y: NDArray
    name: str
    numbers: Sequence[int] | None = None
    ids: Sequence[str] | None = None
    missing: NDArray | None = None

    def number(self, n: int) -> int:
        """Row n as people count."""
        return n + 1 if self.numbers is None else int(self.numbers[n])

    def name_of(self, n: int) -> dict[str, Any]:
        """What row n is called."""
        return {"row": self.number(n), "id": None if self.ids is None else str(self.ids[n])}

    def lacks(self, n: int) -> list[int]:
        """The columns that row n had no value for."""
        return [] if self.missing is None else np.flatnonzero(self.missing[n]).tolist()
