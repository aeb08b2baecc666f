"""What certified radii say about some rows, in numbers and in a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

# Names of what is held that a sentence lists.
N_NAMES = 3


class CertifiedRows(NamedTuple):
    """How many rows there are and are right; of the right ones, the median and least radius.

    Both are NaN where no row is right. Rows that are wrong have no say: what keeps a wrong
    prediction as it is certifies nothing.
    """

    rows: int
    right: int
    median: float
    least: float

    @classmethod
    def of(cls, radius: ArrayLike, right: ArrayLike) -> CertifiedRows:
        """From the radius of each row, and whether its prediction is right."""
        radii, is_right = np.asarray(radius, np.float64), np.asarray(right, bool)
        if radii.ndim != 1 or radii.shape != is_right.shape:
            raise ValueError(
                f"radius and right must be one number and one truth value for each row; got shapes "
                f"{radii.shape} and {is_right.shape}"
            )
        own = radii[is_right]
        if not own.size:
            return cls(len(radii), 0, np.nan, np.nan)
        # Half of the rows reach at least the lower median: no mean of two, which no row has.
        return cls(len(radii), own.size, float(np.sort(own)[(own.size - 1) // 2]), float(own.min()))

    def sentence(self, unit: str = "training deviations", held: Sequence[str] = ()) -> str:
        """For whom the certificate holds, and for how far.

        Parameters
        ----------
        unit : what radii are counted in
        held : names of columns that were held fixed

        Returns
        -------
        str
        """
        if not self.right:
            return f"None of the {self.rows} rows is right, so nothing is certified."
        fixed = f" ({_listed(held)} held fixed)" if held else ""
        wrong = self.rows - self.right
        others = f"the {wrong} rows that are wrong, nor about " if wrong else ""
        return (
            f"{self.right} of {self.rows} rows are right. {self._reach(unit, fixed)}. Nothing is "
            f"said about {others}rows that are not here."
        )

    def _reach(self, unit: str, fixed: str) -> str:
        """How far half of the right rows may move, and all of them."""
        if np.isposinf(self.least):
            return (
                f"All of those {self.right} provably stay right however far every number moves"
                f"{fixed}"
            )
        half = f"At least half of those {self.right} provably stay right"
        if np.isposinf(self.median):
            return (
                f"{half} however far every number moves{fixed}; all of them while every number "
                f"moves by up to {self.least:.3g} {unit}"
            )
        return (
            f"{half} while every number moves by up to {self.median:.3g} {unit}{fixed}; all of "
            f"them up to {self.least:.3g}"
        )


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:N_NAMES])
    more = len(names) - N_NAMES
    return f"{shown} and {more} more" if more > 0 else shown
