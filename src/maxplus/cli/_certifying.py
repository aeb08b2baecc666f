"""What is proven about the rows of a table, which comes in parts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from maxplus.certify import CertifiedRows, certified_at
from maxplus.cli._trained import DEVIATIONS, Measure, Trained
from maxplus.metrics._readable import readable
from maxplus.report.unseen import equal_to_training
from maxplus.tables import row_fingerprints

if TYPE_CHECKING:
    from maxplus.distributed import Communicator
    from maxplus.tables import Samples

# Radii of more rows are left out unless they are asked for: each costs several certificates.
ROWS_WITH_RADII = 100_000
# Rows wait for their radii, up to so many bytes of them, until it is known that there are no more.
MOST_WAITING = 50_000_000


def check_eps(eps: Sequence[float]) -> list[float]:
    """In ascending order; ValueError for what is no distance."""
    for step in eps:
        if not (math.isfinite(step) and step >= 0):
            raise ValueError(f"eps must be a finite number >= 0, or several; got {step}")
    return sorted(eps)


class Count:
    """Rows that are right, and of those the ones that provably stay right for each ε.

    Parameters
    ----------
    trained, measure : the model, and what ε is counted in
    steps : ascending
    most_radii : rows from which on single radii are not computed; None is never
    """

    def __init__(
        self, trained: Trained, measure: Measure, steps: list[float], most_radii: int | None
    ) -> None:
        self.steps = steps
        self._trained, self._measure, self._most_radii = trained, measure, most_radii
        self._kept = np.zeros(len(steps), np.int64)
        self._n_right = 0
        self._rights: list[NDArray] = []
        self._radii: list[NDArray] = []
        self._waiting: list[NDArray] = []
        self.rows = self.filled = self.seen = 0

    def add(self, samples: Samples, codes: NDArray) -> None:
        """Count some more rows, whose classes are ``codes``.

        Most cost a forward pass, others two more for each ε that they reach.
        """
        estimator, scale = self._trained.estimator, self._measure.scale
        X = samples.X
        if not len(X):
            return
        scores = estimator._scores(X)
        right = scores.argmax(axis=1) == codes
        self.rows += len(right)
        self._n_right += int(np.count_nonzero(right))
        if samples.missing is not None:
            self.filled += int(samples.missing.any(axis=1).sum())
        kept = right
        for k, step in enumerate(self.steps):
            # What a small change can do, a larger one can too.
            kept = certified_at(estimator.model_, X, step, scale, scores=scores, where=kept)
            self._kept[k] += np.count_nonzero(kept)
        if not self.has_radii:
            self._waiting.clear()
            return
        equal = equal_to_training(estimator, row_fingerprints(X))
        self.seen += 0 if equal is None else int(equal.sum())
        self._rights.append(right)
        self._waiting.append(X)
        if sum(rows.nbytes for rows in self._waiting) > MOST_WAITING:
            self._find_radii()

    def _find_radii(self) -> None:
        estimator, scale = self._trained.estimator, self._measure.scale
        self._radii += [estimator.certified_radius(X, scale) for X in self._waiting]
        self._waiting.clear()

    def unite(self, comm: Communicator) -> None:
        """Count what all ranks have counted, each some of the rows; rank 0 knows it all."""
        if comm.is_alone:
            return
        counts = np.array([self.rows, self._n_right, self.filled, self.seen, *self._kept], np.int64)
        self.rows, self._n_right, self.filled, self.seen, *kept = comm.sum(counts).tolist()
        self._kept = np.array(kept, np.int64)
        if self.has_radii:
            self._find_radii()
            self._rights = [comm.gather(np.concatenate([np.zeros(0, bool), *self._rights]))]
            self._radii = [comm.gather(np.concatenate([np.zeros(0), *self._radii]))]

    @property
    def has_radii(self) -> bool:
        """Whether there is a radius for each row."""
        return self._most_radii is None or self.rows <= self._most_radii

    @property
    def right(self) -> NDArray:
        """Whether each row is right, where each has a radius."""
        return np.concatenate(self._rights)

    @property
    def radius(self) -> NDArray:
        """Each row's."""
        self._find_radii()
        return np.concatenate(self._radii)

    @property
    def shares(self) -> NDArray:
        """Certified accuracy for each ε."""
        return self._kept / self.rows

    def sentences(self) -> Iterator[str]:
        """For whom the certificate holds, in words."""
        unit = self._measure.unit
        words = unit if unit == DEVIATIONS else f"in {unit}"
        if self._measure.scale is not None and not self._measure.scale.any():
            yield (
                "Every column is held fixed: nothing moves, and nothing is certified. "
                "--move-categories lets categories move."
            )
        elif self.has_radii:
            found = CertifiedRows.of(self.radius, self.right)
            if found.right:
                yield (
                    f"median certified radius {readable(found.median)}, least "
                    f"{readable(found.least)}"
                )
            yield found.sentence(words, self._measure.held)
            if self.seen:
                have = "row has" if self.seen == 1 else "rows have"
                yield f"{self.seen:,} {have} the same values as a training row."
        else:
            yield (
                f"{self._kept[-1]:,} of these {self.rows:,} rows are right and provably stay right "
                f"while every number moves by up to {self.steps[-1]:g} {words}. Nothing is said "
                "about other rows. --radii gives the median and the least radius."
            )
        if self.filled:
            has = "has" if self.filled == 1 else "have"
            yield (
                f"{self.filled:,} of the rows {has} missing values: what is proven there is about "
                "the values that were filled in."
            )

    def document(self) -> dict[str, Any]:
        """The same for programs."""
        found = CertifiedRows.of(self.radius, self.right) if self.has_radii else None
        return {
            "rows": self.rows,
            "right": self._n_right,
            "rows_with_missing_values": self.filled,
            "unit": self._measure.unit,
            "held_fixed": self._measure.held,
            "eps": self.steps,
            "certified_accuracy": self.shares,
            "median_radius_of_right_rows": None if found is None else found.median,
            "least_radius_of_right_rows": None if found is None else found.least,
        }
