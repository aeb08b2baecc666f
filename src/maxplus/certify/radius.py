"""Certified radii: sizes of boxes of inputs in which the prediction is proven to be constant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxplus.certify.bounds import check_box
from maxplus.certify.margins import Margins
from maxplus.models._checks import as_rows
from maxplus.models.lmm import TermSum

# Relative tolerance of radii, which are rounded down.
TOLERANCE = 1e-6
# Factor by which eps is increased until the gap is not positive.
GROWTH = 4.0
# Maximum number of values in a block of rows (32 MB).
VALUES_AT_ONCE = 4_000_000
# Maximum number of fixed columns that are listed by name.
N_NAMES = 3


def certified_at(
    model: TermSum,
    X: NDArray,
    eps: ArrayLike,
    scale: ArrayLike | None = None,
    *,
    scores: NDArray | None = None,
    where: NDArray | None = None,
) -> NDArray:
    """Return whether the prediction of each row is certified to be constant on its box.

    The result equals `certified_radius` >= eps. A row is certified if, for every other class,
    the sum of the minimum margins of all terms is positive. The minimum for the terms over one
    feature is exact; for other terms, a lower bound is used, which is at least the difference of
    the `box_bounds`. All rows are certified for eps = 0.

    Without a feature map, no score changes by more than eps·Σ_t max_i |W0[i]|·scale_p. If the
    difference of the two highest scores is more than twice this bound, the row is certified after
    one forward pass. Margins of the other rows cost two or three more passes. Passing ``scores``
    saves one pass. If the margin at eps is almost 0, the radius is computed and compared with eps,
    because it has a relative tolerance of 1e-6.

    Parameters
    ----------
    model : LMM or AdditiveLMM
    X : array of shape (N, P)
    eps : float or array of shape (N,), >= 0
        Size of the box |x'_p − x_p| ≤ eps·scale_p.
    scale : array of shape (P,), >= 0, optional
        The largest change of each feature for eps = 1; all ones by default.
    scores : array of shape (N, C), optional
        Result of ``model.scores(X)``.
    where : array of bool of shape (N,), optional
        Rows to certify; False is returned for all others.

    Returns
    -------
    array of bool of shape (N,)

    Examples
    --------
    >>> from maxplus.certify import certified_at
    >>> from sklearn.datasets import load_iris
    >>> from maxplus import LMMClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = LMMClassifier(6, slope=4.0, warmup_epochs=2, random_state=0).fit(X, y)
    >>> model = clf.model_
    >>> certified_at(model, X[:3], 0.0)
    array([ True,  True,  True])
    """
    X = as_rows(X, model.n_features, np.float64)
    eps, factors = check_box(model, len(X), eps, scale)
    Z = model.scores(X) if scores is None else np.asarray(scores)
    if Z.shape != (len(X), model.n_classes):
        raise ValueError(
            f"scores must have shape {(len(X), model.n_classes)}, that of model.scores(X); "
            f"got {Z.shape}"
        )
    selected = np.ones(len(X), bool) if where is None else np.asarray(where, bool)
    if selected.shape != (len(X),):
        raise ValueError(
            f"where must have shape ({len(X)},), one for each row; got {selected.shape}"
        )
    first, second = _two_highest(Z.astype(np.float64, copy=False))
    y = Z.argmax(axis=1)
    margins = Margins(model, X, y, factors)
    # Allow for the tolerance of the radius and for rounding.
    exceeds = margins.exceeds_lipschitz_bound(first - second, (1.0 + 2.0 * TOLERANCE) * eps)
    certified = selected & ((eps == 0.0) | exceeds)
    for rows in _blocks(model, np.flatnonzero(selected & ~certified)):
        margins = Margins(model, X[rows], y[rows], factors)
        sign = margins.sign(np.arange(rows.size), eps[rows], TOLERANCE)
        certified[rows] = sign > 0
        near = rows[sign == 0]
        if near.size:
            certified[near] = certified_radius(model, X[near], factors) >= eps[near]
    return certified


def _blocks(model: TermSum, rows: NDArray) -> Iterator[NDArray]:
    """Yield the rows in blocks with at most about VALUES_AT_ONCE features and units."""
    size = max(1, VALUES_AT_ONCE // (model.n_features + model.n_hidden))
    for lo in range(0, len(rows), size):
        yield rows[lo : lo + size]


def _two_highest(Z: NDArray) -> tuple[NDArray, NDArray]:
    """Return the two highest scores of each row, (N,) each; O(N·C)."""
    first, second = Z[:, 0], np.full(len(Z), -np.inf)
    for z in Z.T[1:]:
        first, second = np.maximum(first, z), np.maximum(second, np.minimum(first, z))
    return first, second


def certified_radius(model: TermSum, X: NDArray, scale: ArrayLike | None = None) -> NDArray:
    """Return the largest eps for which each row is certified, rounded down by at most 1e-6·eps.

    The sum of the minimum margins of the terms (`certified_at`) decreases with eps by at most
    2·eps·slope, where slope is the sum of max_i |W0[i]|·scale_p over all terms. With a feature map,
    scale_p is multiplied by the largest slope of φ_p. The sum is positive at least up to
    (z₁ − z₂) / (2·slope), where the search starts; z₁ and z₂ are the two highest scores. The search
    evaluates all rows together, usually about twenty times. Each evaluation costs at most two
    forward passes over the rows whose search has not ended, O(N·Σ_t H_t·(m_t + C)).

    Parameters
    ----------
    model : LMM or AdditiveLMM
    X : array of shape (N, P)
    scale : array of shape (P,), >= 0, optional
        The largest change of each feature for a radius of 1; all ones by default.

    Returns
    -------
    array of shape (N,)
        0 if the two highest scores are equal up to rounding; infinity if changes to the features
        with scale_p > 0 have no effect on the scores or, with a feature map, cannot change the
        prediction.

    Examples
    --------
    >>> from maxplus.certify import certified_at, certified_radius
    >>> from sklearn.datasets import load_iris
    >>> from maxplus import LMMClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = LMMClassifier(6, slope=4.0, warmup_epochs=2, random_state=0).fit(X, y)
    >>> model = clf.model_
    >>> bool(certified_at(model, X, certified_radius(model, X)).all())
    True
    """
    X = as_rows(X, model.n_features, np.float64)
    _, factors = check_box(model, len(X), 0.0, scale)
    y = model.scores(X).argmax(axis=1)
    radius = np.full(len(X), np.inf)
    for rows in _blocks(model, np.arange(len(X))):
        margins = Margins(model, X[rows], y[rows], factors)
        bounded = np.flatnonzero(margins.has_finite_radius())
        radius[rows[bounded]] = _search(margins, bounded)
    return radius


def _search(margins: Margins, rows: NDArray) -> NDArray:
    """Return the largest eps with a gap > 0 for some rows, rounded down by at most 1e-6·eps."""
    slope, gap_low = margins.slope, margins.lower_bounds(rows, np.zeros(len(rows))).gap
    if slope == 0.0:
        return np.where(gap_low > 0.0, np.inf, 0.0)
    radius = np.zeros(len(rows))
    index = np.flatnonzero(gap_low > 0.0)
    # Brackets of the rows whose search has not ended, and the gaps at their ends.
    low, high = np.zeros(index.size), np.full(index.size, np.inf)
    gap_low, gap_high = gap_low[index], np.full(index.size, np.nan)
    step = 0
    with np.errstate(over="ignore", invalid="ignore"):
        while index.size:
            eps = _next_eps(step, low, high, gap_low, gap_high, slope)
            gap = margins.lower_bounds(rows[index], eps).gap
            # False if there is no float between the two ends.
            is_inside = (eps > low) & (eps < high)
            is_low = is_inside & (gap > 0.0)
            is_high = is_inside ^ is_low
            low, gap_low = np.where(is_low, eps, low), np.where(is_low, gap, gap_low)
            high, gap_high = np.where(is_high, eps, high), np.where(is_high, gap, gap_high)
            radius[index] = low
            is_open = is_inside & (high > (1.0 + TOLERANCE) * low)
            index, low, high = index[is_open], low[is_open], high[is_open]
            gap_low, gap_high = gap_low[is_open], gap_high[is_open]
            step += 1
    return radius


def _next_eps(
    step: int, low: NDArray, high: NDArray, gap_low: NDArray, gap_high: NDArray, slope: float
) -> NDArray:
    """Return the next eps of each row, larger until the gap is ≤ 0, then inside the bracket.

    The gap is piecewise linear, and often linear in the bracket. Points slightly below and slightly
    above the root of the secant therefore narrow the bracket quickly. Every third step is a
    bisection, which bounds the number of steps.
    """
    if step % 3 == 2:
        inside = 0.5 * (low + high)
    else:
        root = low + (high - low) * gap_low / (gap_low - gap_high)
        offset = (0.4 if step % 3 else -0.4) * TOLERANCE * high
        least, most = low + 0.1 * TOLERANCE * high, high * (1 - 0.1 * TOLERANCE)
        # Faster than np.clip for few rows.
        inside = np.minimum(np.maximum(root + offset, least), most)
    is_unbounded = np.isinf(high)
    if not is_unbounded.any():
        return inside
    larger = np.maximum(GROWTH * low, (1.0 - 0.1 * TOLERANCE) * gap_low / (2.0 * slope))
    return np.where(is_unbounded, np.minimum(larger, np.finfo(np.float64).max), inside)


class CertifiedRows(NamedTuple):
    """Summary of certified radii.

    Attributes
    ----------
    n_rows : number of rows
    n_correct : number of correctly classified rows
    median_radius, min_radius : median and smallest radius of these rows, or NaN without such rows
        For an even number of rows, the median is the smaller of the two middle radii.
    """

    n_rows: int
    n_correct: int
    median_radius: float
    min_radius: float

    @classmethod
    def from_radii(cls, radius: ArrayLike, correct: ArrayLike) -> CertifiedRows:
        """Summarise the radii of rows, given the mask of correct predictions."""
        radii, is_correct = np.asarray(radius, np.float64), np.asarray(correct, bool)
        if radii.ndim != 1 or radii.shape != is_correct.shape:
            raise ValueError(
                "radius and correct must have the same shape (N,); got shapes "
                f"{radii.shape} and {is_correct.shape}"
            )
        kept = np.sort(radii[is_correct])
        if not kept.size:
            return cls(len(radii), 0, np.nan, np.nan)
        # Radii may be infinite, so the two middle radii are not averaged; take the smaller one.
        return cls(len(radii), kept.size, float(kept[(kept.size - 1) // 2]), float(kept[0]))

    def sentence(
        self, unit: str = "standard deviations of the training data", held: Sequence[str] = ()
    ) -> str:
        """Describe the number of correct rows and their certified radii in words.

        Parameters
        ----------
        unit : str
            Unit of the radii.
        held : sequence of str
            Names of columns that were held fixed; the others are called numeric features.

        Returns
        -------
        str
        """
        if not self.n_correct:
            return f"None of the {self.n_rows} rows is predicted correctly: no row is certified."
        return (
            f"Correct predictions: {self.n_correct} of {self.n_rows} rows. "
            f"{self._radii_text(unit, held)}. No other row is certified."
        )

    def _radii_text(self, unit: str, held: Sequence[str]) -> str:
        """Describe the median and the smallest radius of the correct rows."""
        fixed = f" ({_join_names(held)} held fixed)" if held else ""
        feature = "numeric feature" if held else "feature"
        if np.isposinf(self.min_radius):
            return (
                f"The predictions of all {self.n_correct} provably do not change for any change of "
                f"the {feature}s{fixed}"
            )
        half = f"The predictions of at least half of these {self.n_correct} provably do not change"
        every = f"those of all {self.n_correct}"
        if np.isposinf(self.median_radius):
            return (
                f"{half} for any change of the {feature}s{fixed}, {every} if each changes by "
                f"up to {self.min_radius:.3g} {unit}"
            )
        return (
            f"{half} if each {feature} changes by up to {self.median_radius:.3g} "
            f"{unit}{fixed}, {every} up to {self.min_radius:.3g}"
        )


def _join_names(names: Sequence[str]) -> str:
    shown = ", ".join(names[:N_NAMES])
    more = len(names) - N_NAMES
    return f"{shown} and {more} more" if more > 0 else shown
