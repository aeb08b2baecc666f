"""Whether a probability of 80 % is right in 80 % of the cases."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxplus.metrics._checks import check_predictions

N_BINS = 15


@dataclass(frozen=True)
class Reliability:
    """What was promised and what was kept, in B bins of equal width of the top probability.

    ``confidence`` and ``accuracy`` are NaN in bins without samples.
    """

    count: NDArray  # (B,) samples whose top probability lies in [b / B, (b + 1) / B)
    confidence: NDArray  # (B,) their mean top probability
    accuracy: NDArray  # (B,) the share of them whose top class is right

    @property
    def error(self) -> float:
        """The expected calibration error: Σ_b count_b / N · |accuracy_b − confidence_b|."""
        filled = self.count > 0
        gap = np.abs(self.accuracy[filled] - self.confidence[filled])
        return float(self.count[filled] @ gap / self.count.sum())


def reliability(codes: ArrayLike, P: ArrayLike, n_bins: int = N_BINS) -> Reliability:
    """How often the most probable class is right, by its probability; O(N·C).

    Parameters
    ----------
    codes : the true classes as columns of P, shape (N,)
    P : probabilities of shape (N, C); of equal ones the first counts as the top
    n_bins : B; the last bin holds 1 as well

    Returns
    -------
    Reliability

    Examples
    --------
    >>> from maxplus.metrics import reliability
    >>> found = reliability([0, 1, 1], [[0.9, 0.1], [0.2, 0.8], [0.7, 0.3]], n_bins=2)
    >>> found.count.tolist()
    [0, 3]
    """
    codes, P = check_predictions(codes, P)
    if n_bins < 1:
        raise ValueError(f"n_bins must be at least 1, got {n_bins}")
    top, right = P.max(axis=1), P.argmax(axis=1) == codes
    bin_of = np.minimum((top * n_bins).astype(int), n_bins - 1)
    count = np.bincount(bin_of, minlength=n_bins)
    samples = np.where(count > 0, count, np.nan)
    promised, kept = (np.bincount(bin_of, sums, n_bins) for sums in (top, right))
    return Reliability(count, promised / samples, kept / samples)


def expected_calibration_error(codes: ArrayLike, P: ArrayLike, n_bins: int = N_BINS) -> float:
    """The mean gap between the top probability and how often it is right (`Reliability.error`).

    Few samples per bin make it too large: even of perfect probabilities some gap is chance.

    Parameters
    ----------
    codes : array of shape (N,)
        The true classes as columns of P.
    P : array of shape (N, C)
        Probabilities.
    n_bins : int, default=15

    Returns
    -------
    float

    Examples
    --------
    >>> from maxplus.metrics import expected_calibration_error
    >>> round(expected_calibration_error([0, 0, 1], [[0.9, 0.1], [0.9, 0.1], [0.9, 0.1]]), 3)
    0.233
    """
    return reliability(codes, P, n_bins).error
