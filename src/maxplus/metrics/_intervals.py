"""Confidence intervals of shares and areas under the curve."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

# Standard errors of a 95 % interval.
ERRORS = 1.96


def wilson_interval(share: float | None, n: float) -> tuple[float, float] | None:
    """Return Wilson's 95 % interval of a share that was counted on n rows; None without rows."""
    if share is None or not n:
        return None
    z2 = ERRORS**2
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = ERRORS / (1 + z2 / n) * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    return max(0.0, middle - half), min(1.0, middle + half)


def score_interval(share: float, n: float, n_new: float) -> tuple[float, float]:
    """Return where 95 % of the scores of tables with n_new rows lie, by a share of n rows.

    Both the share and the new score scatter: the variances add up, as if it had been counted on
    1 / (1 / n + 1 / n_new) rows.
    """
    found = wilson_interval(share, 1.0 / (1.0 / n + 1.0 / n_new))
    assert found is not None
    return found


def fold_dispersion(right: ArrayLike, fold: ArrayLike) -> float:
    """Return how much more folds differ than by chance: χ² / (K − 1) of K folds, at least 1.

    Models of different folds are not equally good, which rows that are counted together do not
    show. A variance √(a·(1 − a) / n) times this covers both; n / dispersion rows tell as much.

    Parameters
    ----------
    right : whether each of n rows is right, shape (n,)
    fold : the fold of each row, shape (n,)
    """
    right, fold = np.asarray(right, bool), np.asarray(fold)
    sizes = np.array([np.count_nonzero(fold == k) for k in np.unique(fold)])
    shares = np.array([right[fold == k].mean() for k in np.unique(fold)])
    accuracy = right.mean()
    variance = accuracy * (1.0 - accuracy)
    if len(sizes) < 2 or variance == 0.0:
        return 1.0
    chi2 = float((sizes * (shares - accuracy) ** 2).sum() / variance)
    return max(1.0, chi2 / (len(sizes) - 1))


def auc_error(auc: float, n_own: int, n_others: int) -> float:
    """Return the standard error of an area under the curve (Hanley and McNeil, 1982)."""
    if not n_own or not n_others:
        return math.nan
    q1, q2 = auc / (2.0 - auc), 2.0 * auc**2 / (1.0 + auc)
    spread = (n_own - 1) * (q1 - auc**2) + (n_others - 1) * (q2 - auc**2)
    return math.sqrt(max(0.0, auc * (1.0 - auc) + spread) / (n_own * n_others))


def mean_auc_error(areas: Sequence[tuple[float, int]], n: int) -> float:
    """Return a standard error of the mean of classes' areas, at most: they are not independent.

    ``areas`` are pairs of an area and the rows of its class, of n rows in all.
    """
    errors = [auc_error(area, n_own, n - n_own) for area, n_own in areas]
    return float(np.mean(errors)) if errors else math.nan
