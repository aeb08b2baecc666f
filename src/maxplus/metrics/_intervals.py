"""Confidence intervals of accuracies and areas under the ROC curve."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

# Half-width of a 95 % interval in standard errors.
ERRORS = 1.96


def wilson_interval(share: float | None, n: float) -> tuple[float, float] | None:
    """Return Wilson's 95 % interval of a share of n rows; None without rows."""
    if share is None or not n:
        return None
    z2 = ERRORS**2
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = ERRORS / (1 + z2 / n) * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    return max(0.0, middle - half), min(1.0, middle + half)


def score_interval(share: float, n: float, n_new: float) -> tuple[float, float]:
    """Return the 95 % interval of the share of n_new new rows, from the share of n rows.

    The variances of both shares add up, as for a share of 1 / (1 / n + 1 / n_new) rows.
    """
    found = wilson_interval(share, 1.0 / (1.0 / n + 1.0 / n_new))
    assert found is not None
    return found


def fold_dispersion(right: ArrayLike, fold: ArrayLike) -> float:
    """Return the overdispersion of the accuracies of K folds: χ² / (K − 1), at least 1.

    The binomial variance a·(1 − a) / n ignores that the models of the folds differ in accuracy.
    The effective number of rows is n / dispersion.

    Parameters
    ----------
    right : array of shape (n,), whether each prediction is correct
    fold : array of shape (n,), the fold of each row
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
    """Return the standard error of an area under the ROC curve (Hanley and McNeil, 1982)."""
    if not n_own or not n_others:
        return math.nan
    q1, q2 = auc / (2.0 - auc), 2.0 * auc**2 / (1.0 + auc)
    spread = (n_own - 1) * (q1 - auc**2) + (n_others - 1) * (q2 - auc**2)
    return math.sqrt(max(0.0, auc * (1.0 - auc) + spread) / (n_own * n_others))


def mean_auc_error(areas: Sequence[tuple[float, int]], n: int) -> float:
    """Return an upper bound of the standard error of the mean area of several classes.

    ``areas`` are pairs of an area and the number of rows of its class, of n rows in total. The
    areas are not independent.
    """
    errors = [auc_error(area, n_own, n - n_own) for area, n_own in areas]
    return float(np.mean(errors)) if errors else math.nan
