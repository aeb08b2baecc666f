"""Counterfactuals: the smallest change of a single column that flips a prediction."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxplus.explain._shared import check_domain, check_model
from maxplus.explain.boundary import ROUNDINGS, DecisionBoundary, FeatureBounds
from maxplus.explain.domain import Domain, roundings
from maxplus.models._checks import as_rows
from maxplus.models.lmm import TermSum

# If the model, due to rounding, does not predict another class at a crossing of two scores, points
# at which another class leads by these multiples of an ulp of the scores are tried as well. The
# largest exceeds all rounding errors.
LEADS = (1 / 16, 1 / 4, 1, 4, 16)
# Maximum number of integers within rounding error of the boundary that are tried one by one.
MAX_TRIED = 64
# Maximum rounding of a value for printing, away from the original value, relative to the unit.
MAX_ROUNDING = 0.1


class Counterfactuals(NamedTuple):
    """The smallest change of one column that flips the class, for each row.

    ``feature`` takes ``value``; it is −1 if no change flips the class. In a categorical column, the
    value 1 selects the category of the feature, and 0 none of the known categories, as in
    `Domain.changed`. The new class is ``becomes``, and the change is ``distance`` units. ``shown``
    is ``value`` for printing: rounded to few digits, away from the original value, such that the
    model still predicts ``becomes``.
    """

    feature: NDArray
    value: NDArray
    becomes: NDArray
    distance: NDArray
    shown: NDArray


class Flip(NamedTuple):
    """A change of one column that flips the class; flips are ordered by distance, then feature."""

    distance: float
    feature: int
    value: float
    becomes: int


NO_FLIP = Flip(np.inf, -1, np.nan, -1)


def nearest_counterfactuals(
    model: TermSum, X: ArrayLike, domain: Domain | None = None
) -> Counterfactuals:
    """Return the smallest change of one column, in units, that makes another class win.

    Exact up to rounding: no smaller change that the domain allows flips the class.

    *Continuous numbers.* Along one feature every score is piecewise linear, and the nearest
    crossing with the predicted class is found piece by piece, in float64. Then the value is moved
    beyond the crossing, by steps close to the resolution of the model's float type, until the model
    predicts another class. O(H·C) for each piece and term with the feature.

    *Categories and listed values* are all tried, with a forward pass for each.

    *Integers* of a column with many values are tried only near crossings, with a forward pass and
    a search along the feature for each. If more than 64 integers are within rounding error
    of the boundary, the first one that flips the class regardless of rounding is returned.

    Values of a row may be outside of the domain. A changed value is always inside.

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
    >>> bool(model.scores(x[None])[0].argmax() == flips.becomes[0])
    True
    """
    check_model(model)
    X = as_rows(X, model.n_features, np.float64)
    domain = Domain.free(model.n_features) if domain is None else domain
    check_domain(domain, model.n_features)
    y = model.scores(X).argmax(axis=1)
    boundary = DecisionBoundary(model)
    moves = np.repeat(domain.is_continuous[None], len(X), axis=0)
    for p, indicator in domain.indicators.items():
        moves[:, p] &= X[:, indicator] == 0.0
    feature, change = boundary.nearest(X, y, _bounds(domain, moves))
    flips, shown = [], []
    for n, x in enumerate(X):
        row = _Row(model, boundary, domain, x, int(y[n]))
        flip = NO_FLIP
        if feature[n] >= 0:
            flip = row.beyond(int(feature[n]), float(change[n]))
            if flip is NO_FLIP:
                flip = row.continuous(x, moves[n])
        for p in np.flatnonzero(domain.is_continuous & ~moves[n]).tolist():
            flip = min(flip, row.imputed(p))
        flip = min(flip, row.listed(flip.distance))
        flips.append(min(flip, row.integers(flip.distance)))
        shown.append(row.shown(flips[-1]))
    return Counterfactuals(
        np.array([flip.feature for flip in flips], int),
        np.array([flip.value for flip in flips], float),
        np.array([flip.becomes for flip in flips], int),
        np.array([flip.distance for flip in flips], float),
        np.array(shown, float),
    )


class _Row(NamedTuple):
    """Search for the nearest flip of one row x of class y."""

    model: TermSum
    boundary: DecisionBoundary
    domain: Domain
    x: NDArray
    y: int

    def _winners(self, p: int, values: ArrayLike) -> NDArray:
        """Return the predicted classes if feature p takes these values."""
        tried = np.atleast_1d(np.asarray(values, np.float64))
        rows = self.domain.changed(self.x, np.full(tried.size, p), tried)
        return self.model.scores(rows).argmax(axis=1)

    def _flip(self, p: int, value: float, becomes: int) -> Flip:
        return Flip(abs(value - float(self.x[p])) / float(self.domain.unit[p]), p, value, becomes)

    def imputed(self, p: int) -> Flip:
        """Return the nearest flip of an imputed number, whose indicator becomes 0."""
        base = self.domain.changed(self.x, p, self.x[p])[0]
        now = int(self._winners(p, self.x[p])[0])
        if now != self.y and self.domain.low[p] <= self.x[p] <= self.domain.high[p]:
            return self._flip(p, float(self.x[p]), now)
        return self.continuous(base, np.arange(base.size) == p)

    def listed(self, reach: float) -> Flip:
        """Return the nearest flip among the domain's candidates, within distance ``reach``."""
        feature, value = self.domain.candidates
        if not feature.size:
            return NO_FLIP
        rows = self.domain.changed(self.x, feature, value)
        distance = self.domain.distances(self.x, rows)
        winners = self.model.scores(rows).argmax(axis=1)
        is_flip = (winners != self.y) & (distance <= reach) & (rows != self.x).any(axis=1)
        if not is_flip.any():
            return NO_FLIP
        k = int(np.where(is_flip, distance, np.inf).argmin())
        return Flip(float(distance[k]), int(feature[k]), float(value[k]), int(winners[k]))

    def integers(self, reach: float) -> Flip:
        """Return the nearest flip to one of many integers, within distance ``reach``."""
        domain, x, best = self.domain, self.x, NO_FLIP
        if not domain.is_unlisted.any():
            return best
        ends = np.stack([np.abs(x), np.abs(domain.low), np.abs(domain.high)])
        ends[1:, ~domain.is_unlisted] = 0.0
        # A class whose score is lower by more than this cannot win due to rounding.
        slack = ROUNDINGS * self.boundary.rounding(
            np.where(np.isfinite(ends), ends, 0.0).max(axis=0)
        )
        missing = [p for p, i in domain.indicators.items() if domain.is_unlisted[p] and x[i] != 0.0]
        moves = domain.is_unlisted.copy()
        moves[missing] = False
        first = self.boundary.along(x, self.y, _bounds(domain, moves), -slack)
        for k in np.argsort(first / domain.unit[:, None], axis=None, kind="stable").tolist():
            p, side = divmod(k, 2)
            nearest = min(reach, best.distance)
            if not first[p, side] / domain.unit[p] <= nearest:
                break
            best = min(
                best, self._integers_along(x, p, side, float(first[p, side]), slack, nearest)
            )
        for p in missing:
            base = domain.changed(x, p, x[p])[0]
            for side in range(2):
                nearest = min(reach, best.distance)
                best = min(best, self._integers_along(base, p, side, 0.0, slack, nearest))
        return best

    def _integers_along(
        self, base: NDArray, p: int, side: int, change: float, slack: float, reach: float
    ) -> Flip:
        """Return the first integer that flips the class as feature p rises (side 0) or falls (1).

        The search starts ``change`` away from the row ``base``, where p is not missing. If p was
        imputed, its imputed value is tried as well.
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
        while low <= k <= high and self._flip(p, k, -1).distance <= reach:
            winner = int(self._winners(p, k)[0])
            if winner != self.y:
                return self._flip(p, k, winner)
            ahead = (k, high) if side == 0 else (low, k)
            tried += 1
            lead = -slack if tried < MAX_TRIED else slack
            only = _bounds(self.domain, np.arange(base.size) == p)
            only.low[p], only.high[p] = ahead
            change = float(self.boundary.along(base, self.y, only, lead)[p, side])
            if change == np.inf:
                break
            k = sign * max(sign * k + 1.0, np.ceil(sign * at + change))
        return NO_FLIP

    def shown(self, flip: Flip) -> float:
        """Return the value of a flip with few digits, rounded away from the original value."""
        p, value = flip.feature, flip.value
        if p < 0 or not self.domain.is_continuous[p]:
            return value
        at, limit = float(self.x[p]), MAX_ROUNDING * float(self.domain.unit[p])
        if value != at:
            limit = min(limit, abs(value - at))
        tried = np.array([v for v in roundings(value, value >= at) if abs(v - value) <= limit])
        inside = (tried >= self.domain.low[p]) & (tried <= self.domain.high[p])
        good = tried[inside & (self._winners(p, tried) == flip.becomes)]
        return float(good[0]) if good.size else value

    def continuous(self, base: NDArray, moves: NDArray) -> Flip:
        """Return the nearest flip of continuous features that the model predicts in its float type.

        At the first crossing along a feature, the prediction may be unchanged due to rounding.
        Points at which another class leads by one of LEADS are therefore tried as well, up to the
        nearest one with the largest lead.
        """
        unit, ulp = self.domain.unit, self.boundary.rounding(base)
        bounds = _bounds(self.domain, moves)
        certain = self.boundary.along(base, self.y, bounds, LEADS[-1] * ulp, only_nearest=True)
        reach = (certain / unit[:, None]).min(initial=np.inf) * unit
        if np.isfinite(reach).all():
            near = np.maximum(bounds.low, base - reach), np.minimum(bounds.high, base + reach)
            possible = (near[0] <= near[1]) & moves
            bounds = FeatureBounds(*near, unit, possible)
        tries = [self.boundary.along(base, self.y, bounds, lead * ulp) for lead in (0.0, *LEADS)]
        changes = np.stack([certain, *tries]) * np.array([1.0, -1.0])
        distance = np.abs(changes) / unit[:, None]
        for k in np.argsort(distance, axis=None, kind="stable"):
            if not np.isfinite(distance.flat[k]):
                break
            p = int(k) // 2 % unit.size
            flip = self.beyond(p, float(changes.flat[k]))
            if flip is not NO_FLIP:
                return flip
        return NO_FLIP

    def beyond(self, p: int, change: float) -> Flip:
        """Return the flip at or just beyond a crossing, or NO_FLIP if rounding prevents it."""
        ulp, crossing = self.boundary.rounding(self.x), float(self.x[p]) + change
        eps = float(np.finfo(self.model.dtype).eps)
        step = max(ulp / self.boundary.steepest(p, crossing), eps * abs(crossing)) / ROUNDINGS
        steps = np.concatenate([[0.0], step * 2.0 ** np.arange(10)])
        tried = np.clip(
            crossing + np.copysign(steps, change), self.domain.low[p], self.domain.high[p]
        )
        winners = self._winners(p, tried)
        flipped = np.flatnonzero(winners != self.y)
        if not flipped.size:
            return NO_FLIP
        return self._flip(p, float(tried[flipped[0]]), int(winners[flipped[0]]))


def _bounds(domain: Domain, moves: NDArray) -> FeatureBounds:
    return FeatureBounds(domain.low.copy(), domain.high.copy(), domain.unit, moves)
