"""Confidence intervals for accuracies and ROC AUC scores."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

# 97.5 % quantile of the standard normal distribution.
Z_95 = 1.96


def wilson_interval(proportion: float | None, n: float) -> tuple[float, float] | None:
    """Return the 95 % Wilson score interval; None if the proportion is None or ``n`` is 0."""
    if proportion is None or not n:
        return None
    z2 = Z_95**2
    centre = (proportion + z2 / (2 * n)) / (1 + z2 / n)
    half = Z_95 / (1 + z2 / n) * math.sqrt(proportion * (1 - proportion) / n + z2 / (4 * n * n))
    return max(0.0, centre - half), min(1.0, centre + half)


def score_interval(proportion: float, n: float, n_new: float) -> tuple[float, float]:
    """Return the 95 % prediction interval of a proportion in ``n_new`` new rows.

    The variances of the proportions in both sets of rows add up, which is equivalent to
    1 / (1 / n + 1 / n_new) rows.
    """
    interval = wilson_interval(proportion, 1.0 / (1.0 / n + 1.0 / n_new))
    assert interval is not None
    return interval


def fold_dispersion(correct: ArrayLike, fold: ArrayLike) -> float:
    """Return the overdispersion of the accuracies of K folds, max(1, χ² / (K − 1)).

    It is 1 for a single fold, or if all predictions are correct or all are wrong. The binomial
    variance a·(1 − a) / n ignores the variation between folds. The effective number of rows is
    n / dispersion.

    Parameters
    ----------
    correct : array of bool of shape (n,)
        Mask of correct predictions.
    fold : array of shape (n,)
        Fold of each row.
    """
    correct, fold = np.asarray(correct, bool), np.asarray(fold)
    sizes = np.array([np.count_nonzero(fold == k) for k in np.unique(fold)])
    accuracies = np.array([correct[fold == k].mean() for k in np.unique(fold)])
    accuracy = correct.mean()
    variance = accuracy * (1.0 - accuracy)
    if len(sizes) < 2 or variance == 0.0:
        return 1.0
    chi2 = float((sizes * (accuracies - accuracy) ** 2).sum() / variance)
    return max(1.0, chi2 / (len(sizes) - 1))


def auc_error(auc: float, n_positive: int, n_negative: int) -> float:
    """Return the standard error of a ROC AUC score (Hanley and McNeil, 1982); NaN for one class."""
    if not n_positive or not n_negative:
        return math.nan
    q1, q2 = auc / (2.0 - auc), 2.0 * auc**2 / (1.0 + auc)
    spread = (n_positive - 1) * (q1 - auc**2) + (n_negative - 1) * (q2 - auc**2)
    return math.sqrt(max(0.0, auc * (1.0 - auc) + spread) / (n_positive * n_negative))


def mean_auc_error(areas: Sequence[tuple[float, int]], n: int) -> float:
    """Return an upper bound on the standard error of a macro-averaged ROC AUC score.

    The scores of the classes are not independent, so their errors are averaged.

    Parameters
    ----------
    areas : sequence of (float, int)
        One-vs-rest ROC AUC and number of rows of each class.
    n : int
        Total number of rows.
    """
    errors = [auc_error(area, n_positive, n - n_positive) for area, n_positive in areas]
    return float(np.mean(errors)) if errors else math.nan
