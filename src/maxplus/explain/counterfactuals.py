"""Counterfactuals: the smallest change of a single column that changes a prediction."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxplus.explain._shared import check_domain, check_model
from maxplus.explain.boundary import ERROR_ULPS, DecisionBoundary, FeatureBounds
from maxplus.explain.domain import Domain, roundings
from maxplus.models._checks import as_rows
from maxplus.models.lmm import TermSum

# If the model, due to rounding, does not predict another class at a crossing of two scores, points
# at which another class leads by these multiples of an ulp of the scores are tried as well. The
# largest multiple is an upper bound of the rounding error of a forward pass.
LEADS = (1 / 16, 1 / 4, 1, 4, 16)
# Maximum number of integers within rounding error of the boundary that are tried one by one.
MAX_TRIED = 64
# Maximum rounding of a value for printing, away from the original value, relative to the unit.
MAX_ROUNDING = 0.1


class Counterfactuals(NamedTuple):
    """The smallest change of one column that changes the predicted class, for each sample.

    If there is no such change, the entry of ``feature`` and ``new_class`` is −1, that of
    ``distance`` infinite, and that of ``value`` and ``shown`` NaN.
    """

    feature: NDArray  # the feature that takes another value, (N,)
    value: NDArray  # its new value; for a category 1, or 0 for none of the known categories
    new_class: NDArray  # the new class
    distance: NDArray  # the distance of the change in units, as in `Domain.distances`
    shown: NDArray  # the value rounded to few digits for printing; it has the same new class


class Flip(NamedTuple):
    """A change of one column that changes the predicted class, ordered by distance and feature."""

    distance: float
    feature: int
    value: float
    new_class: int


NO_FLIP = Flip(np.inf, -1, np.nan, -1)


def nearest_counterfactuals(
    model: TermSum, X: ArrayLike, domain: Domain | None = None
) -> Counterfactuals:
    """Return the smallest change of one column, in units, that changes each prediction.

    The result is exact up to rounding: no smaller change in the domain changes the class.

    *Continuous features.* Along one feature, every score is piecewise linear, and the nearest
    crossing of another score with that of the predicted class is found piece by piece, in float64.
    Then the value is moved beyond the crossing, by steps close to the resolution of the model's
    float type, until the model predicts another class. O(H·C) for each piece and term with the
    feature.

    *Categories and listed values.* All are tried, with a forward pass for each.

    *Integers.* Integers of a feature with many values are tried only near crossings, with a forward
    pass and a search along the feature for each. If more than 64 integers are within rounding error
    of the boundary, the first one whose class differs regardless of rounding is returned.

    Values of X may be outside of the domain. A changed value is always inside.

    Parameters
    ----------
    model : LMM or AdditiveLMM
    X : array of shape (N, P)
    domain : Domain, optional
        Values that features may take; any by default, with distances in raw units.

    Returns
    -------
    Counterfactuals

    Examples
    --------
    >>> from maxplus.explain import nearest_counterfactuals
    >>> from sklearn.datasets import load_iris
    >>> from maxplus import LMMClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = LMMClassifier(6, slope=4.0, warmup_epochs=2, random_state=0).fit(X, y)
    >>> model = clf.model_
    >>> flips = nearest_counterfactuals(model, X[:1])
    >>> x = X[0].copy()
    >>> x[flips.feature[0]] = flips.value[0]
    >>> bool(model.scores(x[None])[0].argmax() == flips.new_class[0])
    True
    """
    check_model(model)
    X = as_rows(X, model.n_features, np.float64)
    domain = Domain.unrestricted(model.n_features) if domain is None else domain
    check_domain(domain, model.n_features)
    y = model.scores(X).argmax(axis=1)
    boundary = DecisionBoundary(model)
    # Continuous features that were not imputed.
    may_change = np.repeat(domain.is_continuous[None], len(X), axis=0)
    for p, indicator in domain.indicators.items():
        may_change[:, p] &= X[:, indicator] == 0.0
    feature, change = boundary.nearest(X, y, _bounds(domain, may_change))
    flips, shown = [], []
    for n, x in enumerate(X):
        search = _FlipSearch(model, boundary, domain, x, int(y[n]))
        flip = NO_FLIP
        if feature[n] >= 0:
            flip = search.at_crossing(int(feature[n]), float(change[n]))
            if flip is NO_FLIP:
                flip = search.nearest_continuous(x, may_change[n])
        for p in np.flatnonzero(domain.is_continuous & ~may_change[n]).tolist():
            flip = min(flip, search.nearest_imputed(p))
        flip = min(flip, search.nearest_candidate(flip.distance))
        flips.append(min(flip, search.nearest_integer(flip.distance)))
        shown.append(search.rounded_value(flips[-1]))
    return Counterfactuals(
        np.array([flip.feature for flip in flips], int),
        np.array([flip.value for flip in flips], float),
        np.array([flip.new_class for flip in flips], int),
        np.array([flip.distance for flip in flips], float),
        np.array(shown, float),
    )


class _FlipSearch(NamedTuple):
    """Search for the nearest flip of one sample x with predicted class y."""

    model: TermSum
    boundary: DecisionBoundary
    domain: Domain
    x: NDArray
    y: int

    def _predict_changed(self, p: int, values: ArrayLike) -> NDArray:
        """Return the predicted classes if feature p takes these values."""
        tried = np.atleast_1d(np.asarray(values, np.float64))
        rows = self.domain.changed(self.x, np.full(tried.size, p), tried)
        return self.model.scores(rows).argmax(axis=1)

    def _flip(self, p: int, value: float, new_class: int) -> Flip:
        return Flip(abs(value - float(self.x[p])) / float(self.domain.unit[p]), p, value, new_class)

    def nearest_imputed(self, p: int) -> Flip:
        """Return the nearest flip of an imputed continuous feature, whose indicator becomes 0."""
        base = self.domain.changed(self.x, p, self.x[p])[0]
        new_class = int(self._predict_changed(p, self.x[p])[0])
        if new_class != self.y and self.domain.low[p] <= self.x[p] <= self.domain.high[p]:
            return self._flip(p, float(self.x[p]), new_class)
        return self.nearest_continuous(base, np.arange(base.size) == p)

    def nearest_candidate(self, max_distance: float) -> Flip:
        """Return the nearest flip among the candidates, within ``max_distance``."""
        feature, value = self.domain.candidates
        if not feature.size:
            return NO_FLIP
        rows = self.domain.changed(self.x, feature, value)
        distance = self.domain.distances(self.x, rows)
        predicted = self.model.scores(rows).argmax(axis=1)
        is_flip = (predicted != self.y) & (distance <= max_distance) & (rows != self.x).any(axis=1)
        if not is_flip.any():
            return NO_FLIP
        k = int(np.where(is_flip, distance, np.inf).argmin())
        return Flip(float(distance[k]), int(feature[k]), float(value[k]), int(predicted[k]))

    def nearest_integer(self, max_distance: float) -> Flip:
        """Return the nearest flip of features with many integers, within ``max_distance``."""
        domain, x, best = self.domain, self.x, NO_FLIP
        if not domain.is_unlisted.any():
            return best
        ends = np.stack([np.abs(x), np.abs(domain.low), np.abs(domain.high)])
        ends[1:, ~domain.is_unlisted] = 0.0
        # Rounding cannot change the prediction to a class whose score is lower by more than this.
        slack = ERROR_ULPS * self.boundary.score_ulp(
            np.where(np.isfinite(ends), ends, 0.0).max(axis=0)
        )
        missing = [p for p, i in domain.indicators.items() if domain.is_unlisted[p] and x[i] != 0.0]
        may_change = domain.is_unlisted.copy()
        may_change[missing] = False
        first = self.boundary.along(x, self.y, _bounds(domain, may_change), -slack)
        for k in np.argsort(first / domain.unit[:, None], axis=None, kind="stable").tolist():
            p, side = divmod(k, 2)
            nearest = min(max_distance, best.distance)
            if not first[p, side] / domain.unit[p] <= nearest:
                break
            best = min(
                best, self._nearest_integer_along(x, p, side, float(first[p, side]), slack, nearest)
            )
        for p in missing:
            base = domain.changed(x, p, x[p])[0]
            for side in range(2):
                nearest = min(max_distance, best.distance)
                best = min(best, self._nearest_integer_along(base, p, side, 0.0, slack, nearest))
        return best

    def _nearest_integer_along(
        self, base: NDArray, p: int, side: int, change: float, slack: float, max_distance: float
    ) -> Flip:
        """Return the flip at the first integer that changes the prediction.

        Feature p increases (side 0) or decreases (side 1). The search starts ``change`` away from
        the sample ``base``, where p is not missing. If p was imputed, its imputed value is tried as
        well.
        """
        if change == np.inf:
            return NO_FLIP
        at, sign = float(base[p]), 1.0 - 2.0 * side
        low, high = float(np.ceil(self.domain.low[p])), float(np.floor(self.domain.high[p]))
        k = sign * np.ceil(sign * at + change)
        k = max(k, low) if side == 0 else min(k, high)
        if k == at and base is self.x:
            k += sign
        tried = 0
        while low <= k <= high and self._flip(p, k, -1).distance <= max_distance:
            new_class = int(self._predict_changed(p, k)[0])
            if new_class != self.y:
                return self._flip(p, k, new_class)
            tried += 1
            lead = -slack if tried < MAX_TRIED else slack
            bounds = _bounds(self.domain, np.arange(base.size) == p)
            bounds.low[p], bounds.high[p] = (k, high) if side == 0 else (low, k)
            change = float(self.boundary.along(base, self.y, bounds, lead)[p, side])
            if change == np.inf:
                break
            k = sign * max(sign * k + 1.0, np.ceil(sign * at + change))
        return NO_FLIP

    def rounded_value(self, flip: Flip) -> float:
        """Return the value of a flip, rounded to few digits away from the original value.

        Only values that have the same new class are used.
        """
        p, value = flip.feature, flip.value
        if p < 0 or not self.domain.is_continuous[p]:
            return value
        at, limit = float(self.x[p]), MAX_ROUNDING * float(self.domain.unit[p])
        if value != at:
            limit = min(limit, abs(value - at))
        tried = np.array([v for v in roundings(value, value >= at) if abs(v - value) <= limit])
        inside = (tried >= self.domain.low[p]) & (tried <= self.domain.high[p])
        good = tried[inside & (self._predict_changed(p, tried) == flip.new_class)]
        return float(good[0]) if good.size else value

    def nearest_continuous(self, base: NDArray, may_change: NDArray) -> Flip:
        """Return the nearest flip of the continuous features ``may_change``.

        At the first crossing along a feature, the prediction may be unchanged due to rounding.
        Points at which another class leads by one of LEADS are therefore tried as well, up to the
        nearest one with the largest lead.
        """
        unit, ulp = self.domain.unit, self.boundary.score_ulp(base)
        bounds = _bounds(self.domain, may_change)
        certain = self.boundary.along(base, self.y, bounds, LEADS[-1] * ulp, only_nearest=True)
        max_change = (certain / unit[:, None]).min(initial=np.inf) * unit
        if np.isfinite(max_change).all():
            near = (
                np.maximum(bounds.low, base - max_change),
                np.minimum(bounds.high, base + max_change),
            )
            possible = (near[0] <= near[1]) & may_change
            bounds = FeatureBounds(*near, unit, possible)
        tries = [self.boundary.along(base, self.y, bounds, lead * ulp) for lead in (0.0, *LEADS)]
        changes = np.stack([certain, *tries]) * np.array([1.0, -1.0])
        distance = np.abs(changes) / unit[:, None]
        for k in np.argsort(distance, axis=None, kind="stable"):
            if not np.isfinite(distance.flat[k]):
                break
            p = int(k) // 2 % unit.size
            flip = self.at_crossing(p, float(changes.flat[k]))
            if flip is not NO_FLIP:
                return flip
        return NO_FLIP

    def at_crossing(self, p: int, change: float) -> Flip:
        """Return the flip at or just beyond a crossing, or NO_FLIP if rounding prevents it."""
        ulp, crossing = self.boundary.score_ulp(self.x), float(self.x[p]) + change
        eps = float(np.finfo(self.model.dtype).eps)
        step = max(ulp / self.boundary.steepest(p, crossing), eps * abs(crossing)) / ERROR_ULPS
        steps = np.concatenate([[0.0], step * 2.0 ** np.arange(10)])
        tried = np.clip(
            crossing + np.copysign(steps, change), self.domain.low[p], self.domain.high[p]
        )
        predicted = self._predict_changed(p, tried)
        flipped = np.flatnonzero(predicted != self.y)
        if not flipped.size:
            return NO_FLIP
        return self._flip(p, float(tried[flipped[0]]), int(predicted[flipped[0]]))


def _bounds(domain: Domain, may_change: NDArray) -> FeatureBounds:
    """Return the limits of the domain, as arrays that may be changed."""
    return FeatureBounds(domain.low.copy(), domain.high.copy(), domain.unit, may_change)
