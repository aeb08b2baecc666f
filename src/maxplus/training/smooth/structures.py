"""Structures of sums of LMM terms, and their initialisation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxplus._compile.jit import njit
from maxplus.models import LMM, AdditiveLMM, Term
from maxplus.models._softmax import softmax
from maxplus.models.initialization import box_lmm
from maxplus.training.smooth.soft_terms import TERM_ANNEALING

# Difference between the initial heights of a unit for its own class and for other classes.
HEIGHT_GAP = 0.5
# Maximum number of units of a term over one or two features with more than two classes. If more
# are required, all classes share them.
MAX_UNITS = 24
# Quantile bins per feature in the search for pairs.
N_BINS = 6
# Added to the variance of a cell, so that cells with few samples have little influence.
PRIOR = 0.5

Pair = tuple[int, int]


class Structure(NamedTuple):
    """Kinds and numbers of the terms of a sum.

    Attributes
    ----------
    units : units per class of a term over one or two features
    has_shapes : whether there is a term for each feature
    pairs_per_feature : number of terms over two features, divided by the number of features
    boxes : number of terms over all features
    box_units : units per class of a term over all features
    size : typical change of a score over a distance of 1 between mapped features; that of one of T
        terms is size / √T
    rate : step size of Adam at the beginning, in units of the typical score of a term
    min_steps : minimum number of steps
    """

    units: int = 2
    has_shapes: bool = True
    pairs_per_feature: float = 0.0
    boxes: int = 0
    box_units: int = 2
    size: float = 2.0
    rate: float = TERM_ANNEALING.rate
    min_steps: int = TERM_ANNEALING.min_steps

    def __str__(self) -> str:
        """Return a description of the structure."""
        parts = [f"shapes of {self.units} units per class"] if self.has_shapes else []
        if self.pairs_per_feature:
            parts.append(f"pairs of {self.units}")
        if self.boxes:
            parts.append(f"{self.boxes} box terms of {self.box_units}")
        rate = f", rate {self.rate:g}" if self.rate != TERM_ANNEALING.rate else ""
        return f"{', '.join(parts)}; size {self.size:g}{rate}"

    def n_pairs(self, n_features: int) -> int:
        """Return the number of terms over two features."""
        return min(round(self.pairs_per_feature * n_features), math.comb(n_features, 2))


class InitialSum(NamedTuple):
    """Initial model, and the typical change of the score of a term over a distance of 1."""

    model: AdditiveLMM
    scale: float


def initial_terms(
    structure: Structure,
    U: NDArray,
    y: NDArray,
    n_classes: int,
    pairs: Sequence[Pair],
    rng: np.random.Generator,
    features: Sequence[int] | None = None,
) -> InitialSum:
    """Return the terms of a structure, whose units are boxes around mapped samples U (N, P).

    The half-width of a unit is the standard deviation of its class. The centres of the units are
    quantiles of the class in terms over one feature, and random samples of the class in other
    terms. If there are more than two classes, and a term over one or two features would have more
    than MAX_UNITS units, all classes share its units. Terms use the features ``features``, in
    increasing order; all by default. O(N·Σ_t m_t).
    """
    P = U.shape[1]
    used = range(P) if features is None else features
    subsets: list[tuple[Sequence[int], int]] = []
    if structure.has_shapes:
        subsets += [((p,), structure.units) for p in used]
    subsets += [(sorted(pair), structure.units) for pair in pairs]
    subsets += [(used, structure.box_units)] * structure.boxes
    scale = structure.size / math.sqrt(len(subsets))
    own = [U[y == d] for d in range(n_classes)]
    terms = [
        Term(
            np.array(subset),
            _initial_lmm([rows[:, list(subset)] for rows in own], n_units, rng).scaled(scale),
        )
        for subset, n_units in subsets
    ]
    return InitialSum(AdditiveLMM(terms, P), scale)


def _initial_lmm(classes: Sequence[NDArray], n_units: int, rng: np.random.Generator) -> LMM:
    """Return boxes around the samples (n, m) of each class, with slope 1."""
    C, m = len(classes), classes[0].shape[1]
    if m <= 2 and C > 2 and C * n_units > MAX_UNITS:
        return _shared_units(classes, rng)
    centre, half_width = np.zeros((C, n_units, m)), np.ones((C, n_units, m))
    for d, rows in enumerate(classes):
        if len(rows) == 0:
            continue
        centre[d] = _centres(rows, n_units, rng)
        if len(rows) > 1:
            half_width[d] = rows.std(axis=0)
    heights = np.repeat(HEIGHT_GAP * np.eye(C) - HEIGHT_GAP, n_units, axis=0)
    return LMM.from_boxes(centre.reshape(-1, m), half_width.reshape(-1, m), heights, 1.0)


def _shared_units(classes: Sequence[NDArray], rng: np.random.Generator) -> LMM:
    """Return boxes for all classes; heights increase with the fraction of a class near the box."""
    rows, sizes = np.concatenate(classes), np.array([len(own) for own in classes])
    centre = _centres(rows, MAX_UNITS, rng)
    nearest = np.abs(rows[:, None] - centre).max(axis=2).argmin(axis=1)
    share = np.zeros((MAX_UNITS, sizes.size))
    np.add.at(share, (nearest, np.repeat(np.arange(sizes.size), sizes)), 1.0)
    share = (share + 1e-3) / (sizes + 1e-3)
    half_width = np.broadcast_to(
        rows.std(axis=0) * (0.5 if rows.shape[1] > 1 else 0.1), centre.shape
    )
    heights = HEIGHT_GAP * share / share.max(axis=1, keepdims=True) - HEIGHT_GAP
    return LMM.from_boxes(centre, half_width, heights, 1.0)


def _centres(rows: NDArray, n_units: int, rng: np.random.Generator) -> NDArray:
    """Return quantiles of one feature, or random samples of several features."""
    if rows.shape[1] == 1:
        return np.quantile(rows, (np.arange(n_units) + 0.5) / n_units, axis=0)
    return rows[np.resize(rng.permutation(len(rows)), n_units)]


def image_windows(shape: tuple[int, int], size: int, stride: int) -> list[NDArray]:
    """Return the pixel indices, in ascending order, of each square window of an image.

    ``shape`` is (height, width), ``size`` the side of a window, limited to the side of the image,
    and ``stride`` the distance between windows; the last window ends at the border of the image.
    Windows cover the image if ``stride`` is at most ``size``.
    """
    pixels = np.arange(math.prod(shape)).reshape(shape)
    rows, columns = (
        sorted({*range(0, max(side - size, 0) + 1, stride), max(side - size, 0)}) for side in shape
    )
    return [pixels[r : r + size, c : c + size].ravel() for r in rows for c in columns]


def window_terms(
    windows: Sequence[NDArray],
    U: NDArray,
    y: NDArray,
    n_classes: int,
    n_units: int,
    size: float,
    rng: np.random.Generator,
) -> InitialSum:
    """Return a term for each window, with ``n_units`` units at clusters of each class of U (N, P).

    ``windows`` are the feature indices of each term, and ``size`` is that of a `Structure`.
    """
    scale, n_hidden = size / math.sqrt(len(windows)), n_units * n_classes
    terms = [
        Term(own, box_lmm(U[:, own], y, n_hidden, n_classes, 1.0, HEIGHT_GAP, rng).scaled(scale))
        for own in windows
    ]
    return InitialSum(AdditiveLMM(terms, U.shape[1]), scale)


def select_pairs(U: NDArray, y: NDArray, Z: NDArray, n_pairs: int) -> list[Pair]:
    """Return the `best_pairs` for classes y (N,) and the scores Z (N, C) of a model without pairs.

    The residuals are 1{y = d} − ŷ_d, and their variances ŷ_d·(1 − ŷ_d).
    """
    probabilities = softmax(np.asarray(Z, np.float64))
    residuals = -probabilities
    residuals[np.arange(len(y)), y] += 1.0
    return best_pairs(U, residuals, probabilities * (1.0 - probabilities), n_pairs)


def best_pairs(U: NDArray, residuals: NDArray, variances: NDArray, n_pairs: int) -> list[Pair]:
    """Return at most ``n_pairs`` pairs p < q of features that explain the residuals best.

    Each feature, a column of U (N, P), is divided into up to six quantile bins. The gain of a pair
    is Σ ((Σ r)² − Σ v)/(Σ v + PRIOR) over its 36 cells and all classes, for residuals r and
    variances v, both of shape (N, C). Without PRIOR, this is the score statistic of a constant in
    each cell, as in FAST (Lou et al., 2013), minus its expected value. Pairs are in the order of
    decreasing gains; pairs without a positive gain are omitted. O(N·P²·C).
    """
    cuts = np.linspace(0.0, 1.0, N_BINS + 1)[1:-1]
    bins = np.stack(
        [np.searchsorted(np.unique(np.quantile(u, cuts)), u, side="right") for u in U.T]
    )
    gains = np.zeros((U.shape[1], U.shape[1]))
    pair_gains(bins, residuals, variances, gains)
    first, second = np.triu_indices(U.shape[1], 1)
    best = np.argsort(-gains[first, second], kind="stable")[:n_pairs]
    return [(int(first[k]), int(second[k])) for k in best if gains[first[k], second[k]] > 0.0]


@njit(cache=True, nogil=True)
def pair_gains(bins, residuals, variances, gains):
    """Add the gain of each pair p < q to ``gains[p, q]``; O(N·P²·C).

    ``bins`` is (P, N), ``gains`` (P, P), other arrays (N, C).
    """
    P, C = bins.shape[0], residuals.shape[1]
    r, v = np.empty((N_BINS * N_BINS, C)), np.empty((N_BINS * N_BINS, C))
    for p in range(P):
        for q in range(p + 1, P):
            for cell in range(r.shape[0]):
                for d in range(C):
                    r[cell, d] = v[cell, d] = 0.0
            for n in range(residuals.shape[0]):
                cell = N_BINS * bins[p, n] + bins[q, n]
                for d in range(C):
                    r[cell, d] += residuals[n, d]
                    v[cell, d] += variances[n, d]
            for cell in range(r.shape[0]):
                for d in range(C):
                    gains[p, q] += (r[cell, d] * r[cell, d] - v[cell, d]) / (v[cell, d] + PRIOR)
