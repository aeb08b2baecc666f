"""Initial weights, and the distances and Lipschitz constants that determine their scale.

Initial units are boxes around clusters, pyramids at samples (section 3.4 of the paper) or random.
"""

from __future__ import annotations

import math
import warnings

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from maxplus.models.lmm import LMM

# Maximum number of samples of a class for clustering; further samples have little effect.
MAX_SAMPLES = 6_000
# Maximum number of iterations of k-means.
MAX_ITER = 8
# Number of pairs of samples for a median distance, and size of blocks of pairs.
N_PAIRS = 2_000
BLOCK_PAIRS = 100


def box_lmm(
    X: NDArray,
    y: NDArray,
    n_hidden: int,
    n_classes: int,
    slope: float,
    drop: float,
    rng: np.random.Generator,
) -> LMM:
    """Return an LMM whose unit h is the box centre_h ± deviation_h of a cluster of its class.

    W2[h, d] is 0 for the class of the unit and −drop for other classes. The numbers of units of two
    classes differ by at most one, unless a class has too few samples.
    """
    centres, spreads = [], []
    labels: list[int] = []
    for d, n_units in enumerate(_units_per_class(_available(y, n_classes), n_hidden)):
        if n_units:
            rows = _subsample(np.flatnonzero(y == d), rng)
            centre, spread = _clusters(X[rows], n_units, rng)
            centres.append(centre)
            spreads.append(spread)
            labels += [d] * n_units
    heights = np.full((len(labels), n_classes), -drop)
    heights[np.arange(len(labels)), labels] = 0.0
    return LMM.from_boxes(np.concatenate(centres), np.concatenate(spreads), heights, slope)


def box_lmm_bytes(X: NDArray, y: NDArray, n_hidden: int, n_classes: int) -> int:
    """Return the approximate peak memory of `box_lmm` in bytes; O(N)."""
    available = _available(y, n_classes)
    H, item = min(n_hidden, int(available.sum())), X.dtype.itemsize
    # Cluster memberships of the largest class, and about as much memory for k-means.
    largest = int(available.max(initial=0))
    clusters = largest * (2 * min(largest, -(-H // n_classes)) + 6 * X.shape[1])
    # Centres and deviations, their concatenations, and the weights.
    return item * (clusters + H * (8 * X.shape[1] + 2 * n_classes))


def prototype_lmm_bytes(n_points: int, n_features: int, n_classes: int, dtype: np.dtype) -> int:
    """Return the approximate peak memory of `prototype_lmm` in bytes."""
    return n_points * (8 * n_features + 2 * n_classes) * dtype.itemsize


def random_lmm_bytes(shape: tuple[int, int, int], dtype: np.dtype) -> int:
    """Return the approximate peak memory of `random_lmm` in bytes, including float64 draws."""
    P, H, C = shape
    return (2 * P + C) * H * (8 + 2 * dtype.itemsize)


def _available(y: NDArray, n_classes: int) -> NDArray:
    """Return the number of samples of each class for clustering."""
    return np.minimum(np.bincount(y, minlength=n_classes), MAX_SAMPLES)


def _units_per_class(available: NDArray, n_hidden: int) -> list[int]:
    """Return the number of units of each class, assigned round-robin."""
    label = np.nonzero(np.arange(available.max(initial=0))[:, None] < available)[1]
    return np.bincount(label[:n_hidden], minlength=len(available)).tolist()


def _subsample(rows: NDArray, rng: np.random.Generator) -> NDArray:
    """Return the rows for clustering, a random subset if there are many."""
    if len(rows) <= MAX_SAMPLES:
        return rows
    return rows[rng.choice(len(rows), MAX_SAMPLES, replace=False)]


def _clusters(samples: NDArray, n: int, rng: np.random.Generator) -> tuple[NDArray, NDArray]:
    """Return the centres and standard deviations of n k-means clusters; O(MAX_ITER·N·n·P)."""
    start = samples[rng.choice(len(samples), n, replace=False)]
    with warnings.catch_warnings():
        # Duplicate samples result in fewer clusters; the boxes of the empty clusters have width 0.
        warnings.simplefilter("ignore", ConvergenceWarning)
        means = KMeans(n, init=start, n_init=1, max_iter=MAX_ITER).fit(samples)
    member = np.zeros((len(samples), n), samples.dtype)
    member[np.arange(len(samples)), means.labels_] = 1.0
    count = np.maximum(member.sum(axis=0), 1.0)[:, None]
    centre = member.T @ samples / count
    # Squares relative to the mean of the class, to avoid cancellation.
    mean = samples.mean(axis=0)
    square = member.T @ ((samples - mean) ** 2) / count
    empty = member.sum(axis=0) == 0
    centre[empty] = means.cluster_centers_[empty]
    spread = np.sqrt(np.maximum(square - (centre - mean) ** 2, 0.0))
    spread[empty] = 0.0
    return centre.astype(samples.dtype), spread.astype(samples.dtype)


def choose_prototypes(y: NDArray, n_hidden: int, rng: np.random.Generator) -> NDArray:
    """Return indices of ``min(n_hidden, len(y))`` different samples, in ascending order.

    If ``n_hidden`` is at least the number of classes, one sample of each class is drawn first. The
    other samples are drawn uniformly.
    """
    n = min(n_hidden, len(y))
    order = rng.permutation(len(y))
    chosen = order[:0]
    classes, first = np.unique(y[order], return_index=True)
    if n >= classes.size:
        chosen = order[first]
    others = order[~np.isin(order, chosen)]
    return np.sort(np.concatenate([chosen, others[: n - chosen.size]]))


def prototype_lmm(
    points: NDArray, labels: NDArray, n_classes: int, slope: float, init_margin: float
) -> LMM:
    """Return an LMM whose unit h is a pyramid at points[h] (section 3.4 of the paper).

    W0 = ±k, W1 = ∓k·x_h, W2[h, d] = +c if d = y_h else −c, so that
    g_h(x) = −k·‖x − x_h‖∞: a nearest-prototype classifier in the L∞ norm.
    """
    heights = np.full((len(points), n_classes), -init_margin)
    heights[np.arange(len(points)), labels] = init_margin
    return LMM.from_boxes(points, 0.0, heights, slope)


def random_lmm(
    distribution: str,
    shape: tuple[int, int, int],
    slope: float,
    init_margin: float,
    dtype: np.dtype,
    rng: np.random.Generator,
) -> LMM:
    """Return an LMM of ``shape`` (P, H, C) with i.i.d. weights, N(0, k²) or U(−k, k).

    k is ``slope`` for W0 and W1, and ``init_margin`` for W2.
    """
    P, H, C = shape
    sample = {"gaussian": gaussian, "uniform": uniform}[distribution]
    return LMM(
        sample((2 * P,), slope, rng).astype(dtype),
        sample((2 * P, H), slope, rng).astype(dtype),
        sample((H, C), init_margin, rng).astype(dtype),
    )


def gaussian(shape: tuple[int, ...], k: float, rng: np.random.Generator) -> NDArray:
    """Draw i.i.d. N(0, k²)."""
    return rng.normal(0.0, k, shape)


def uniform(shape: tuple[int, ...], k: float, rng: np.random.Generator) -> NDArray:
    """Draw i.i.d. U(−k, k)."""
    return rng.uniform(-k, k, shape)


def glorot_uniform(fan_in: int, fan_out: int, rng: np.random.Generator) -> NDArray:
    """Draw a (fan_in × fan_out) matrix, i.i.d. U(−r, r) with r = √(6 / (fan_in + fan_out))."""
    return uniform((fan_in, fan_out), math.sqrt(6 / (fan_in + fan_out)), rng)


def median_distance(X: NDArray, rng: np.random.Generator) -> float:
    """Return the median L∞ distance between random pairs of different samples.

    It is never 0: if the median is 0, it is the median of the nonzero distances, or 1 if all
    sampled distances are 0. O(N_PAIRS·P).
    """
    n = len(X)
    if n < 2:
        return 1.0
    a = rng.integers(n, size=N_PAIRS)
    b = (a + rng.integers(1, n, size=N_PAIRS)) % n
    distance = _distances(X, a, b).astype(np.float64)
    median = float(np.median(distance))
    if median == 0.0 and (distance > 0).any():
        median = float(np.median(distance[distance > 0]))
    return _divisor(median, X.dtype)


def class_distance(X: NDArray, y: NDArray, rng: np.random.Generator) -> float:
    """Return the median L∞ distance between random samples of different classes; O(N_PAIRS·P).

    It is 1 if the median is 0, or if all sampled pairs have equal classes.
    """
    a = rng.integers(len(X), size=N_PAIRS)
    b = rng.integers(len(X), size=N_PAIRS)
    different = y[a] != y[b]
    if not different.any():
        return 1.0
    return _divisor(float(np.median(_distances(X, a[different], b[different]))), X.dtype)


def _distances(X: NDArray, a: NDArray, b: NDArray) -> NDArray:
    """Return ‖X[a] − X[b]‖∞ in the type of X, clipped to a quarter of the largest float."""
    distance = np.empty(len(a), X.dtype)
    with np.errstate(over="ignore"):
        for lo in range(0, len(a), BLOCK_PAIRS):
            part = slice(lo, lo + BLOCK_PAIRS)
            distance[part] = np.abs(X[a[part]] - X[b[part]]).max(axis=1)
    return np.minimum(distance, np.finfo(X.dtype).max / 4)


def _divisor(distance: float, dtype: np.dtype) -> float:
    """Return the distance, or 1 for 0; ValueError if 1e4 / distance would overflow."""
    least = 1e4 * float(np.finfo(dtype).tiny)
    if 0.0 < distance < least:
        raise ValueError(
            f"the samples of X differ by only {distance:g}, which is too little for weights of "
            f"type {dtype} (at least {least:g}); scale the features first, for example with "
            "StandardScaler"
        )
    return distance or 1.0


def lipschitz_constant(X: NDArray, y: NDArray) -> float:
    """Return max |y_i − y_j| / ‖x_i − x_j‖∞ over all pairs of points; O(N²·P).

    It is 0 for fewer than two points, and inf if equal points have different values.
    """
    points, values = np.asarray(X, np.float64), np.asarray(y, np.float64)
    if points.ndim != 2 or values.shape != (len(points),):
        raise ValueError(
            f"X must have shape (N, P) and y shape (N,); got shapes {points.shape} "
            f"and {values.shape}"
        )
    steepest, columns = 0.0, np.ascontiguousarray(points.T)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for n in range(1, len(points)):
            run = np.zeros(n)
            for column in columns:
                np.maximum(run, np.abs(column[:n] - column[n]), out=run)
            rise = np.abs(values[:n] - values[n])
            # Pairs with equal values are ignored, because 0/0 would be NaN for equal points.
            steepest = max(steepest, float(np.max(rise / run, initial=0.0, where=rise > 0.0)))
    return steepest
