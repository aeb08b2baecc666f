"""The measure in which the soft model is trained: the data's own."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxplus.models import LMM
from maxplus.training.smooth._kernels import LIMIT

# The share of a feature's values at either end that may be outliers.
RARE = 0.005
# A value this many times beyond where exponents are cut off is as good as any farther one.
FAR = 4.0
# Differences are taken in float64: of so many rows at a time, to save memory.
ROWS_AT_ONCE = 4_096


class Rescaling(NamedTuple):
    """A model around the middle of its data, a distance of ``reach`` being 1.

    Scores are multiples of ``size``. Only then is everything rounded to float32, so that
    neither the data's offset nor its scale costs digits.
    """

    W0: NDArray
    coldest: float  # below this temperature float32 could not hold the exponentials
    middle: NDArray
    reach: float
    size: float
    offset: NDArray

    @classmethod
    def of(cls, model: LMM, X: NDArray, size: float) -> Rescaling:
        """That of a model and its samples, where scores of ``size`` are typical."""
        W0 = model.W0.astype(np.float64)
        reach = size / max(float(np.abs(W0).max()), np.finfo(np.float64).tiny)
        low, high = _typical_range(X, reach)
        middle = (low + high) / 2
        relative = W0 * (reach / size)
        exponent = np.abs(relative) * np.repeat((high - low) / (2 * reach), 2)
        coldest = float(exponent.max()) / LIMIT
        return cls(relative, coldest, middle, reach, size, np.repeat(middle, 2) * W0)

    def rows(self, X: NDArray) -> NDArray:
        """Samples in this measure; what is far out is brought to where exponents end anyway."""
        far, rows = FAR * LIMIT, np.empty(X.shape, np.float32)
        for lo in range(0, len(X), ROWS_AT_ONCE):
            part = slice(lo, lo + ROWS_AT_ONCE)
            rows[part] = np.clip((X[part] - self.middle) / self.reach, -far, far)
        return rows

    def offsets(self, model: LMM) -> tuple[NDArray, NDArray]:
        """W1 and W2 in this measure."""
        W1 = (model.W1.astype(np.float64) + self.offset[:, None]) / self.size
        return W1.astype(np.float32, order="C"), (model.W2 / self.size).astype(
            np.float32, order="C"
        )

    def hard(self, model: LMM, W1: NDArray, W2: NDArray) -> LMM:
        """The model with these offsets, as it was measured before, in its float type."""
        own = W1.astype(np.float64) * self.size - self.offset[:, None]
        return LMM(
            model.W0.copy(), own.astype(model.dtype),
            (W2.astype(np.float64) * self.size).astype(model.dtype),
        )  # fmt: skip


def _typical_range(X: NDArray, reach: float) -> tuple[NDArray, NDArray]:
    """The lowest and highest value of each feature, single outliers left aside; O(N·P).

    Values within ``reach`` or the range of nearly all values beyond that range are no outliers.
    """
    low, high = X.min(axis=0).astype(np.float64), X.max(axis=0).astype(np.float64)
    sample = X[:: max(1, len(X) // 10_000)].astype(np.float64)
    inner_low, inner_high = np.quantile(sample, (RARE, 1 - RARE), axis=0)
    margin = np.maximum(inner_high - inner_low, reach)
    return np.maximum(low, inner_low - margin), np.minimum(high, inner_high + margin)
