"""Features in units of their spread."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxplus.distributed import SharedRows
from maxplus.distributed.shared_rows import count_nonzero
from maxplus.models import LMM
from maxplus.training.result import StateError, TrainingState

CENTRE, SPREAD = "centre", "spread"
# Quantiles between which values are ordinary; farther than 1.5 times their distance is far out.
ORDINARY, REACH = (0.05, 0.95), 1.5
# A feature whose deviation is this small a part of its size does not vary, but for rounding.
ROUNDING = 1e-12
# More features than this of one range, this share of whose values is 0, are an image's pixels.
MANY, EMPTY = 50, 0.25
# Numbers that are brought into float64 at once.
AT_ONCE = 4_000_000


class Scaling(NamedTuple):
    """z = (x − centre) / spread; arrays of shape (P,)."""

    centre: NDArray
    spread: NDArray

    @classmethod
    def none(cls, n_features: int) -> Scaling:
        """Features as they are."""
        return cls(np.zeros(n_features), np.ones(n_features))

    @classmethod
    def of(cls, X: NDArray) -> Scaling:
        """Mean and standard deviation of each feature, far values brought in; O(N·P).

        Far is beyond the 5 % and 95 % quantiles by more than 1.5 times their distance. A
        feature whose quantiles coincide (a rare word) has no far values; a constant one has
        the spread 1. Features that share one unit (`share_a_unit`) keep it.
        """
        N, P = X.shape
        if share_a_unit(X):
            return cls.none(P)
        centre, spread = np.empty(P), np.empty(P)
        step = max(1, AT_ONCE // N)
        for lo in range(0, P, step):
            part = slice(lo, lo + step)
            Z = X[:, part].astype(np.float64)
            low, high = np.quantile(Z, ORDINARY, axis=0)
            width = np.where(high > low, REACH * (high - low), np.inf)
            Z = np.clip(Z, low - width, high + width)
            centre[part], spread[part] = Z.mean(axis=0), Z.std(axis=0)
        least = np.maximum(ROUNDING * np.abs(centre), 1e4 * float(np.finfo(X.dtype).tiny))
        return cls(centre, np.where(spread > least, spread, 1.0))

    @classmethod
    def of_facts(cls, facts: Mapping[str, NDArray]) -> Scaling:
        """Return the one that `facts` describes."""
        return cls(facts[CENTRE], facts[SPREAD])

    @property
    def facts(self) -> dict[str, NDArray]:
        """Both arrays by the names that checkpoints keep them under."""
        return {CENTRE: self.centre, SPREAD: self.spread}

    @property
    def is_none(self) -> bool:
        """Whether it changes nothing."""
        return not self.centre.any() and bool((self.spread == 1.0).all())

    def __call__(self, X: NDArray) -> NDArray:
        """The features in units of their spread, in X's type; X itself where nothing changes."""
        if isinstance(X, SharedRows):
            return X.seen(self)
        if self.is_none:
            return X
        return in_parts(X, lambda rows: (rows - self.centre) / self.spread, X.shape[1])

    def inverse(self, Z: NDArray) -> NDArray:
        """Return the features, up to rounding, in Z's type."""
        return Z if self.is_none else (Z * self.spread + self.centre).astype(Z.dtype)

    def folded(self, model: LMM) -> LMM:
        """Return the model that takes x where this one takes z."""
        return model if self.is_none else model.folded(self.centre, self.spread)


def check_scaling(state: TrainingState, n_features: int) -> None:
    """StateError if the scaling that a state knows cannot be."""
    n = state.array(f"before.{CENTRE}", np.float64, (None,)).size
    if n != n_features:
        raise StateError(f"its weights are for {n} features, but X has {n_features}")
    if not (state.array(f"before.{SPREAD}", np.float64, (n_features,)) > 0).all():
        raise StateError("its spread is not above 0 everywhere")


def in_parts(X: NDArray, see: Callable[[NDArray], NDArray], width: int) -> NDArray:
    """``see`` of some rows at a time in float64, the results in X's type."""
    seen = np.empty((len(X), width), X.dtype)
    step = max(1, AT_ONCE // max(X.shape[1], 1))
    for lo in range(0, len(X), step):
        part = slice(lo, lo + step)
        seen[part] = see(X[part].astype(np.float64))
    return seen


def share_a_unit(X: NDArray) -> bool:
    """Whether the features look like pixels on an empty ground; O(N·P).

    That is: more than 50 features, none below 0, a quarter of all values or more exactly 0, and one
    range for all: within [0, 1], or most features come halfway to the largest value. A pixel
    at the border that is hardly ever used would be blown up by its own spread.
    """
    if X.shape[1] <= MANY or X.min() < 0 or count_nonzero(X) > (1.0 - EMPTY) * X.size:
        return False
    highest = X.max(axis=0)
    return bool(highest.max() <= 1.0 or np.median(highest) >= 0.5 * highest.max())
