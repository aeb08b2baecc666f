"""Widths of a regression's intervals, from a fixed number of quantiles of residuals."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

# A fixed number: a quantile for every coverage would give back every training row's residual.
COVERAGES = np.array([*range(50, 1000, 50), 975, 990, 995, 999]) / 1000
# Rounding of a coverage that stands in COVERAGES.
TOLERANCE = 1e-9


def residual_quantiles(residuals: NDArray) -> NDArray:
    """Return the ⌈(n + 1)·c⌉-th of n ascending residuals for each of COVERAGES; inf beyond n."""
    ranks = np.ceil((residuals.size + 1) * COVERAGES - TOLERANCE).astype(int)
    return np.append(residuals, math.inf)[np.minimum(ranks, residuals.size + 1) - 1]


def interval_width(quantiles: NDArray, coverage: float) -> float:
    """Return the quantile of the least of COVERAGES that is not below; inf if there is none."""
    place = int(np.searchsorted(COVERAGES, coverage - TOLERANCE))
    return float(quantiles[place]) if place < len(quantiles) else math.inf
