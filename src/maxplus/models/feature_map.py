"""Monotone piecewise-linear maps of features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxplus._compile.jit import njit
from maxplus.models._checks import as_rows, check_affine, check_index

# Columns with at most this number of distinct values are mapped to equally spaced values.
MAX_LEVELS = 5
# Values beyond the quantile OUTLIER_QUANTILE on one side of the median may be outliers. The map is
# constant beyond CLIP_FACTOR times the distance of this quantile from the median.
OUTLIER_QUANTILE, CLIP_FACTOR = 0.98, 1.5
# Tails are compressed if the clipping interval extends further from the median than HEAVY_TAIL
# times the normalised interquartile range, or if more than the fraction MOSTLY_EQUAL of the values
# is equal to the median.
HEAVY_TAIL, MOSTLY_EQUAL = 7.5, 0.5
# Number of knots of a compressed column.
N_KNOTS = 33
# Smallest standard deviation by which features can be divided without overflow.
MIN_DEVIATION = 1e-290
# Standard deviation of mapped features.
DEVIATION = 0.5
# Length of the interval around 0 that clipped features are mapped to.
WIDTH = 1.0


class Segments(NamedTuple):
    """Linear segments of the map of each feature, float64 arrays of shape (P, width).

    Between a knot and the next one, φ is min(values + slopes·(x − knots), ends). Rows are padded
    with knots at infinity.
    """

    knots: NDArray
    values: NDArray
    slopes: NDArray
    ends: NDArray


class FeatureMap:
    """Non-decreasing piecewise-linear map of each feature, u_p = φ_p(x_p).

    Each map is constant below its first knot and above its last knot.

    Maps are also monotone in floating-point arithmetic: in a segment, φ is u + s·(x − knot) with a
    fixed slope s, clipped to the value at the end of the segment. Therefore, all values of φ on an
    interval [low, high] are between φ(low) and φ(high).

    Parameters
    ----------
    knots : sequence of P pairs (x, u) of non-empty arrays of equal length
        Increasing positions and non-decreasing values, all finite.

    Examples
    --------
    >>> from maxplus.models import FeatureMap
    >>> FeatureMap([([0.0, 10.0], [-1.0, 1.0])])([[5.0], [20.0]])
    array([[0.],
           [1.]])
    """

    def __init__(self, knots: Sequence[tuple[ArrayLike, ArrayLike]]) -> None:
        pairs = [(np.asarray(x, np.float64), np.asarray(u, np.float64)) for x, u in knots]
        if not pairs:
            raise ValueError("knots must hold a pair of arrays for each feature; got none")
        for p, (x, u) in enumerate(pairs):
            if x.ndim != 1 or x.shape != u.shape or x.size == 0:
                raise ValueError(
                    f"knots of feature {p} must be two arrays of equal length >= 1; "
                    f"got shapes {x.shape} and {u.shape}"
                )
            if not (np.isfinite(x).all() and np.isfinite(u).all()):
                raise ValueError(f"knots of feature {p} must be finite")
            if (np.diff(x) <= 0).any() or (np.diff(u) < 0).any():
                raise ValueError(
                    f"knots of feature {p} must have increasing positions, and values that do not "
                    "decrease"
                )
        self.starts = np.cumsum([0, *(x.size for x, _ in pairs)])
        self.x = np.concatenate([x for x, _ in pairs])
        self.u = np.concatenate([u for _, u in pairs])
        # Divide by two before taking differences, which could overflow otherwise.
        slopes = [np.append(np.diff(u / 2) / np.diff(x / 2), 0.0) for x, u in pairs]
        self.slopes = np.minimum(np.concatenate(slopes), np.finfo(np.float64).max)

    @classmethod
    def fit(cls, X: NDArray) -> FeatureMap:
        """Return a map fitted to each column of X; O(N·P·log N).

        A column with at most five distinct values is mapped to equally spaced values. Any other
        column is clipped to an interval that excludes outliers, and heavy tails are compressed by
        asinh. All mapped columns have mean 0 and standard deviation 0.5, or are 0 if the column is
        constant. The map does not depend on the magnitude of a single outlier.

        Parameters
        ----------
        X : array of shape (N, P)
            Finite values.

        Returns
        -------
        FeatureMap
        """
        return cls([_column_knots(np.asarray(column, np.float64)) for column in X.T])

    @classmethod
    def clip(cls, X: NDArray, intervals: Any = "range") -> FeatureMap:
        """Return a map that clips each column of X to intervals; O(N·P).

        A map has values in [−0.5, 0.5]. It increases linearly within each interval, by the same
        amount in each, and is constant elsewhere. Scores are therefore constant while a feature
        varies between two adjacent intervals. This increases certified radii for features with few
        typical values, such as the pixels of drawings.

        Parameters
        ----------
        X : array of shape (N, P)
            Finite values.
        intervals : "range", (low, high), or a sequence of such pairs
            "range" is the interval between the minimum and the maximum of each column.
            Several intervals must be in increasing order and must not overlap.

        Returns
        -------
        FeatureMap

        Examples
        --------
        >>> from maxplus.models import FeatureMap
        >>> FeatureMap.clip([[0.0], [8.0]], [(1.0, 2.0), (4.0, 8.0)])([[1.5], [3.0], [9.0]])
        array([[-0.25],
               [ 0.  ],
               [ 0.5 ]])
        """
        rows = np.asarray(X, np.float64)
        ends = clip_ends(intervals, rows)
        values = WIDTH * (np.repeat(np.arange(len(ends) // 2 + 1.0), 2)[1:-1] / (len(ends) // 2))
        knots = []
        for x in ends.T:
            # Adjacent intervals share a knot; a constant column has one knot.
            is_first = np.append(True, np.diff(x) > 0)
            u = values - WIDTH / 2 if is_first[1:].any() else np.zeros(x.size)
            knots.append((x[is_first], u[is_first]))
        return cls(knots)

    @property
    def n_features(self) -> int:
        """Number of features P."""
        return self.starts.size - 1

    def knots(self, p: int) -> tuple[NDArray, NDArray]:
        """Return the positions and values of the knots of feature p.

        Parameters
        ----------
        p : int

        Returns
        -------
        tuple of two arrays
        """
        p = check_index("p", p, self.n_features)
        part = slice(self.starts[p], self.starts[p + 1])
        return self.x[part], self.u[part]

    def __call__(self, X: ArrayLike) -> NDArray:
        """Return φ(X), shape (N, P), in float64; O(N·P·log K) for K knots."""
        rows = as_rows(X, self.n_features, np.float64)
        U = np.empty(rows.shape)
        map_rows(rows, self.starts, self.x, self.u, self.slopes, U)
        return U

    def __eq__(self, other: object) -> bool:
        """Return whether both maps have the same knots."""
        return isinstance(other, FeatureMap) and all(
            np.array_equal(getattr(self, name), getattr(other, name))
            for name in ("starts", "x", "u")
        )

    def segments(self, width: int) -> Segments:
        """Return the segments of all features as arrays with ``width`` columns.

        Parameters
        ----------
        width : int
            At least the number of knots of each feature.

        Returns
        -------
        Segments
        """
        is_segment = np.arange(width) < np.diff(self.starts)[:, None]
        ends = np.append(self.u[1:], 0.0)
        ends[self.starts[1:] - 1] = self.u[self.starts[1:] - 1]
        tables = []
        for values, fill in ((self.x, np.inf), (self.u, 0.0), (self.slopes, 0.0), (ends, 0.0)):
            table = np.full(is_segment.shape, fill)
            table[is_segment] = values
            tables.append(table)
        return Segments(*tables)

    def folded(self, centre: ArrayLike, spread: ArrayLike) -> FeatureMap:
        """Return a map whose values at x are those of this map at (x − centre) / spread.

        Values are equal up to rounding. Knots are moved to centre + spread·knot. If rounding moves
        several knots to one position, the last value is used.

        Parameters
        ----------
        centre : number or array of shape (P,)
        spread : number or array of shape (P,), > 0

        Returns
        -------
        FeatureMap
        """
        c, s = check_affine(centre, spread, self.n_features)
        knots = []
        for p in range(self.n_features):
            x, u = self.knots(p)
            with np.errstate(over="ignore"):
                moved = c[p] + s[p] * x
            is_last = np.append(moved[1:] != moved[:-1], True)
            knots.append((moved[is_last], u[is_last]))
        return FeatureMap(knots)

    def inverse(self, p: int, u: ArrayLike) -> NDArray:
        """Return the smallest x with φ_p(x) >= u, up to rounding.

        It is −inf at and below the minimum of φ_p, and inf above its maximum.

        Parameters
        ----------
        p : int
        u : number or array

        Returns
        -------
        array of the shape of u
        """
        x, values = self.knots(p)
        target = np.asarray(u, np.float64)
        first, rising = np.unique(values, return_index=True)
        # Of knots with equal values, the first is the smallest x, and the last begins the next
        # segment.
        last = np.append(rising[1:], values.size) - 1
        k = np.clip(np.searchsorted(first, target, side="left"), 1, max(1, first.size - 1))
        if first.size == 1:
            found = np.full(target.shape, x[0])
        else:
            fraction = (target - first[k - 1]) / (first[k] - first[k - 1])
            begin, end = x[last[k - 1]], x[rising[k]]
            found = np.clip(begin + fraction * (end - begin), begin, end)
        found = np.where(target <= first[0], -np.inf, found)
        return np.where(target > first[-1], np.inf, found)


def clip_ends(intervals: Any, X: NDArray) -> NDArray:
    """Return the ends of all intervals of `FeatureMap.clip`, of shape (2·intervals, P)."""
    if isinstance(intervals, str) and intervals == "range":
        return np.stack([X.min(axis=0), X.max(axis=0)])
    try:
        ends = np.asarray(intervals, np.float64)
        if ends.size == 0 or ends.shape not in ((2,), (len(ends), 2)):
            raise ValueError
    except (TypeError, ValueError):
        raise ValueError(
            "intervals must be 'range', (low, high), or a sequence of such pairs; "
            f"got {intervals!r:.80}"
        ) from None
    widths = np.diff(ends.ravel())
    if not (np.isfinite(ends).all() and (widths[::2] > 0).all() and (widths[1::2] >= 0).all()):
        raise ValueError(
            "intervals must be finite, with low < high, in increasing order and without overlap; "
            f"got {intervals!r:.80}"
        )
    return np.repeat(ends.reshape(-1, 1), X.shape[1], axis=1)


def _column_knots(column: NDArray) -> tuple[NDArray, NDArray]:
    """Return the knots of the map of one column; see `FeatureMap.fit`."""
    levels, counts = np.unique(column, return_counts=True)
    if levels.size <= MAX_LEVELS:
        return levels, _standardise(np.arange(float(levels.size)), counts)
    median = levels[np.searchsorted(np.cumsum(counts), 0.5 * column.size)]
    low = median - CLIP_FACTOR * _high_quantile(median - column[column < median])
    high = median + CLIP_FACTOR * _high_quantile(column[column > median] - median)
    inside = np.clip(column, low, high)
    spread = float(np.subtract(*np.quantile(inside, (0.75, 0.25)))) / 1.349
    if spread <= 0.0:
        spread = float(np.median(np.abs(inside - median)[inside != median]))
    x = np.array([low, high])
    value = x.copy()
    reach = max(high - median, median - low)
    if reach > HEAVY_TAIL * spread or np.mean(column == median) > MOSTLY_EQUAL:
        ends = np.arcsinh((x - median) / spread)
        x = np.unique(
            np.clip(median + spread * np.sinh(np.linspace(ends[0], ends[1], N_KNOTS)), low, high)
        )
        value = np.arcsinh((x - median) / spread)
    mapped = np.interp(inside, x, value)
    if not mapped.std() > MIN_DEVIATION:
        raise ValueError(
            f"X has a feature whose range {np.ptp(levels):.3g} is too small for float64; "
            "scale the features (for example with StandardScaler)"
        )
    return x, (value - mapped.mean()) * (DEVIATION / mapped.std())


def _high_quantile(distances: NDArray) -> float:
    """Return a high quantile, at most the second-largest distance; 0 for fewer than two."""
    if distances.size < 2:
        return 0.0
    k = min(int(OUTLIER_QUANTILE * (distances.size - 1)), distances.size - 2)
    return float(np.partition(distances, k)[k])


def _standardise(values: NDArray, counts: NDArray) -> NDArray:
    """Return values with mean 0 and standard deviation DEVIATION, or zeros if all are equal."""
    mean = np.average(values, weights=counts)
    deviation = np.sqrt(np.average((values - mean) ** 2, weights=counts))
    return (values - mean) * (DEVIATION / deviation) if deviation > 0.0 else 0.0 * values


@njit(cache=True)
def map_rows(X, starts, knots, values, slopes, U):
    """Compute U[n, p] = φ_p(X[n, p]), and NaN for NaN; O(N·P·log K) for K knots."""
    for p in range(X.shape[1]):
        first, last = starts[p], starts[p + 1] - 1
        for n in range(X.shape[0]):
            x = X[n, p]
            if x != x:
                U[n, p] = x
            elif x <= knots[first]:
                U[n, p] = values[first]
            elif x >= knots[last]:
                U[n, p] = values[last]
            else:
                low, high = first, last
                while high - low > 1:
                    middle = (low + high) // 2
                    if knots[middle] <= x:
                        low = middle
                    else:
                        high = middle
                U[n, p] = min(values[low] + slopes[low] * (x - knots[low]), values[high])
