"""Where training starts: prototypes (the paper's construction) or random weights."""

import math

import numpy as np
from numpy.typing import NDArray

from maxplus.models.lmm import LMM
from maxplus.models.pyramids import pyramid_lmm

# Pairs of samples that a median distance is taken over.
N_PAIRS = 2_000


def median_distance(X: NDArray, rng: np.random.Generator) -> float:
    """Median L∞ distance between random pairs of different samples.

    Where more than half of the pairs coincide, the median of the others; 1 when
    all samples are equal, so that it can always be divided by.
    """
    n = len(X)
    if n < 2:
        return 1.0
    a = rng.integers(n, size=N_PAIRS)
    b = (a + rng.integers(1, n, size=N_PAIRS)) % n
    distance = np.empty(N_PAIRS)
    for lo in range(0, N_PAIRS, 100):
        part = slice(lo, lo + 100)
        distance[part] = np.abs(X[a[part]] - X[b[part]]).max(axis=1)
    median = float(np.median(distance))
    if median == 0.0 and (distance > 0).any():
        median = float(np.median(distance[distance > 0]))
    return median or 1.0


def class_distance(X: NDArray, y: NDArray, rng: np.random.Generator) -> float:
    """Median L∞ distance between random samples of different classes; 1 if they coincide."""
    a = rng.integers(len(X), size=N_PAIRS)
    b = rng.integers(len(X), size=N_PAIRS)
    different = y[a] != y[b]
    distance = [np.abs(X[i] - X[j]).max() for i, j in zip(a[different], b[different], strict=True)]
    median = float(np.median(distance)) if distance else 0.0
    return median or 1.0


def choose_prototypes(y: NDArray, n_hidden: int, rng: np.random.Generator) -> NDArray:
    """Indices of ``min(n_hidden, len(y))`` different samples, in ascending order.

    Each class gets at least one when there are enough; the rest is uniform.
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
    points: NDArray, labels: NDArray, n_classes: int, slope: float, confidence: float
) -> LMM:
    """LMM whose unit h is a pyramid at points[h] (the paper's section 3.4).

    W0 = ±k, W1 = ∓k·x_h, W2[h, d] = +c if d = y_h else −c, so that
    g_h(x) = −k·‖x − x_h‖∞: a nearest-prototype classifier in the L∞ norm.
    """
    W2 = np.full((len(points), n_classes), -confidence)
    W2[np.arange(len(points)), labels] = confidence
    return pyramid_lmm(points, W2, slope)


def random_lmm(
    draw: str, shape: tuple[int, int, int], slope: float, confidence: float,
    dtype: np.dtype, rng: np.random.Generator,
) -> LMM:  # fmt: skip
    """LMM of ``shape`` (P, H, C) with i.i.d. weights: "gaussian" N(0, k²) or "uniform" U(−k, k)."""
    P, H, C = shape
    sample = {"gaussian": gaussian, "uniform": uniform}[draw]
    return LMM(
        sample((2 * P,), slope, rng).astype(dtype),
        sample((2 * P, H), slope, rng).astype(dtype),
        sample((H, C), confidence, rng).astype(dtype),
    )


def gaussian(shape: tuple[int, ...], k: float, rng: np.random.Generator) -> NDArray:
    """I.i.d. N(0, k²)."""
    return rng.normal(0.0, k, shape)


def uniform(shape: tuple[int, ...], k: float, rng: np.random.Generator) -> NDArray:
    """I.i.d. U(−k, k)."""
    return rng.uniform(-k, k, shape)


def glorot_uniform(fan_in: int, fan_out: int, rng: np.random.Generator) -> NDArray:
    """A (fan_in × fan_out) matrix, i.i.d. U(−r, r) with r = √(6 / (fan_in + fan_out))."""
    return uniform((fan_in, fan_out), math.sqrt(6 / (fan_in + fan_out)), rng)
