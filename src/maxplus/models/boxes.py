"""A start from boxes: per class, clusters with one standard deviation around their centres."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from maxplus.models.lmm import LMM

# Samples of a class that clusters are found from; more would not move them.
MAX_SAMPLES = 6_000
ROUNDS = 8


def box_lmm(
    X: NDArray,
    y: NDArray,
    n_hidden: int,
    n_classes: int,
    slope: float,
    drop: float,
    rng: np.random.Generator,
) -> LMM:
    """LMM whose unit h is the box centre_h ± deviation_h of a cluster of its class.

    W0 = ±k, W1 = k·(deviation ∓ centre), W2[h, d] = 0 for the unit's class and −drop for
    the others: g_h(x) is k times the distance to the nearest wall, positive inside.
    Each class gets as many units as any other, or one less, but at most as many as it has
    samples.
    """
    centres, spreads = [], []
    labels: list[int] = []
    for d, n_units in enumerate(_shares(np.bincount(y, minlength=n_classes), n_hidden)):
        if n_units:
            centre, spread = _clusters(X[y == d], n_units, rng)
            centres.append(centre)
            spreads.append(spread)
            labels += [d] * n_units
    centre, spread = np.concatenate(centres), np.concatenate(spreads)
    W0 = np.empty(2 * X.shape[1], X.dtype)
    W0[0::2], W0[1::2] = slope, -slope
    W1T = np.empty((len(labels), W0.size), X.dtype)
    W1T[:, 0::2], W1T[:, 1::2] = slope * (spread - centre), slope * (spread + centre)
    W2 = np.full((len(labels), n_classes), -drop, X.dtype)
    W2[np.arange(len(labels)), labels] = 0.0
    return LMM(W0, W1T.T, W2)


def _shares(available: NDArray, n_hidden: int) -> list[int]:
    """Units for each class, dealt out one by one to those that have samples left."""
    shares = [0] * len(available)
    left = min(n_hidden, int(available.sum()))
    while left:
        for d, n in enumerate(available):
            if left and shares[d] < n:
                shares[d] += 1
                left -= 1
    return shares


def _clusters(own: NDArray, n: int, rng: np.random.Generator) -> tuple[NDArray, NDArray]:
    """Centres and standard deviations of n clusters, by k-means; O(rounds·N·n·P)."""
    if len(own) > MAX_SAMPLES:
        own = own[rng.choice(len(own), MAX_SAMPLES, replace=False)]
    start = own[rng.choice(len(own), n, replace=False)]
    with warnings.catch_warnings():
        # Where points coincide there are fewer clusters: the others stay as points.
        warnings.simplefilter("ignore", ConvergenceWarning)
        means = KMeans(n, init=start, n_init=1, max_iter=ROUNDS).fit(own)
    member = np.zeros((len(own), n), own.dtype)
    member[np.arange(len(own)), means.labels_] = 1.0
    count = np.maximum(member.sum(axis=0), 1.0)[:, None]
    centre = member.T @ own / count
    # Squares of deviations from the class's mean: those of large numbers would cancel.
    mean = own.mean(axis=0)
    square = member.T @ ((own - mean) ** 2) / count
    # A cluster that lost all its members keeps its centre, as a point.
    empty = member.sum(axis=0) == 0
    centre[empty] = means.cluster_centers_[empty]
    spread = np.sqrt(np.maximum(square - (centre - mean) ** 2, 0.0))
    spread[empty] = 0.0
    return centre.astype(own.dtype), spread.astype(own.dtype)
