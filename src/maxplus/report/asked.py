"""The rows that a page is about, with their labels if there are any, and their names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxplus.distributed import current
from maxplus.tables import row_hashes

# Rules, and importances that a model does not know, are counted on so many rows at most.
MOST_COUNTED = 100_000


def together(answers: NDArray) -> NDArray:
    """What all ranks have answered about their rows, on rank 0; words may be of any length."""
    comm = current()
    if not comm.is_alone and answers.dtype.kind == "U":
        answers = answers.astype(f"U{round(comm.largest(answers.dtype.itemsize)) // 4}")
    return comm.gather(answers)


def answered(ask: Callable[[NDArray], NDArray], X: NDArray) -> NDArray:
    """What is said of the rows of all ranks, on rank 0; each asks about its own."""
    if len(X) or current().is_alone:
        return together(ask(X))
    # A rank without rows has answers of the same kind, and none of them.
    return together(ask(np.zeros((1, X.shape[1]), X.dtype))[:0])


@dataclass(frozen=True)
class Asked:
    """Rows, labelled or not.

    Attributes
    ----------
    X : rows (N, P); only a few are looked at, by their numbers, since ranks may have the others
    y : true labels or numbers (N,), or None
    prints : the rows' hashes (N,)
    name : of the table
    numbers : N row numbers as people count them; from 1 by default
    ids : N words that tell the rows apart, or None
    missing : which columns each row lacked, (N, columns) of bool, or None
    """

    X: Any
    y: NDArray | None
    prints: NDArray
    name: str
    numbers: Sequence[int] | None = None
    ids: Sequence[str] | None = None
    missing: NDArray | None = None

    @classmethod
    def of(
        cls, X: NDArray, y: NDArray | None, name: str, numbers: Sequence[int] | None = None,
        ids: Sequence[str] | None = None, missing: NDArray | None = None,
    ) -> Asked:  # fmt: skip
        """Those of all ranks; X is this rank's own until `seen` says what the others have."""
        comm = current()
        return cls(
            X, None if y is None else together(y), together(row_hashes(X)), name,
            None if numbers is None else together(np.asarray(numbers)).tolist(),
            None if ids is None else [one for own in comm.allgather(ids) for one in own],
            None if missing is None else together(missing),
        )  # fmt: skip

    def seen(self, X: Any) -> Asked:
        """The same, with the rows of all ranks."""
        return replace(self, X=X)

    @property
    def n(self) -> int:
        """How many rows there are."""
        return len(self.prints)

    def some(self, most: int) -> NDArray:
        """The numbers of so many rows at most, at even distances."""
        n = self.n
        return np.arange(n) if n <= most else np.linspace(0, n - 1, most).astype(int)

    def number(self, n: int) -> int:
        """Row n as people count."""
        return n + 1 if self.numbers is None else int(self.numbers[n])

    def name_of(self, n: int) -> dict[str, Any]:
        """What row n is called."""
        return {"row": self.number(n), "id": None if self.ids is None else str(self.ids[n])}

    def lacks(self, n: int) -> list[int]:
        """The columns that row n had no value for."""
        return [] if self.missing is None else np.flatnonzero(self.missing[n]).tolist()
