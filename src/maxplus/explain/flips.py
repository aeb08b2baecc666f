"""The smallest change of a single feature that flips a prediction."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxplus.explain import _flip_kernels
from maxplus.explain._flip_kernels import Units
from maxplus.models import LMM
from maxplus.models._checks import as_rows, feature_values

# Rounding of a forward pass, in units of the scores' last place, that a flip must get over.
ROUNDINGS = 16
# Leads, in the same units, that another class is given where rounding hides that it wins: the
# largest shows for certain.
LEADS = (1 / 16, 1 / 4, 1, 4, 16)


class Flips(NamedTuple):
    """For each row: which feature (−1: none can), to which value, and the class it becomes."""

    feature: NDArray
    value: NDArray
    becomes: NDArray


def single_feature_flips(
    model: LMM, X: NDArray, low: ArrayLike = -np.inf, high: ArrayLike = np.inf
) -> Flips:
    """The feature that has to change least for another class to win, all others fixed.

    Along one feature every score is piecewise linear, and the nearest crossing with the
    predicted class is found piece by piece, in float64; then the value is moved
    on, by as little as shows in the model's own float type, until the model really
    predicts another class. Costs O(P·H·C) for each of a few steps per feature, 2H at
    most: some hundredths of a second for an image of MNIST with 500 units. Directions keep
    that so: every view is linear along a feature, v_m + D_mp·δ.

    Parameters
    ----------
    model : LMM
    X : array of shape (N, P)
    low, high : number or array of shape (P,)
        The values that features may take.
    """
    X = as_rows(X, model.n_features, np.float64)
    N, P = len(X), model.n_features
    low, high = feature_values("low", low, P), feature_values("high", high, P)
    if (low > high).any():
        p = int((low > high).argmax())
        raise ValueError(
            f"low must not exceed high; got {low[p]:g} and {high[p]:g} for feature {p}"
        )
    exact = model.astype(np.float64)
    y = model.scores(X).argmax(axis=1)
    feature, change, becomes = _nearest(exact, X, y, low, high)
    value = np.full(N, np.nan)
    for n in np.flatnonzero(feature >= 0):
        shown = _show(model, X[n], y[n], feature[n], change[n], low, high)
        if shown is None:
            # Rounding hides the nearest one: take the nearest that shows.
            shown = _nearest_that_shows(model, exact, X[n], y[n], low, high)
        feature[n], value[n], becomes[n] = (-1, np.nan, -1) if shown is None else shown
    return Flips(feature, value, becomes)


def _units(exact: LMM) -> Units:
    return Units(exact.slopes, exact.offsets, exact.weights.W2T)


def _nearest(
    exact: LMM, X: NDArray, y: NDArray, low: NDArray, high: NDArray
) -> tuple[NDArray, NDArray, NDArray]:
    """The feature, the signed change and the class of each row's nearest crossing, or −1."""
    N = len(X)
    found = np.empty(N, int), np.empty(N), np.empty(N, int)
    if exact.directions is None:
        _flip_kernels.nearest_flips(X, y, _units(exact), low, high, *found)
    else:
        _flip_kernels.nearest_view_flips(
            X, exact.views(X), y, _units(exact), exact.directions, low, high, *found
        )
    return found


def _crossings(
    exact: LMM, x: NDArray, y: int, low: NDArray, high: NDArray, lead: float, nearest: bool
) -> list[tuple[float, int]]:
    """The first crossing along each feature, up and down, by distance, or only the nearest.

    Each is a signed change and a feature; another class is to win by the lead.
    """
    change, becomes = np.empty((x.size, 2)), np.empty((x.size, 2), int)
    if exact.directions is None:
        _flip_kernels.all_flips(x, y, _units(exact), low, high, nearest, lead, change, becomes)
    else:
        v = exact.views(x[None])[0]
        _flip_kernels.all_view_flips(
            x, v, y, _units(exact), exact.directions, low, high, nearest, lead, change, becomes
        )
    change[:, 1] *= -1.0
    order = np.argsort(np.abs(change), axis=None, kind="stable")
    order = order[np.isfinite(change.ravel()[order])]
    found = [(float(change.flat[k]), int(k) // 2) for k in order]
    return found[:1] if nearest else found


def _nearest_that_shows(
    model: LMM, exact: LMM, x: NDArray, y: int, low: NDArray, high: NDArray
) -> tuple[int, float, int] | None:
    """The nearest crossing that the model's own float type shows.

    Along a feature the first crossing may be hidden and a later one not. So those with a lead
    are looked for as well, as far as the nearest with the largest lead.
    """
    unit = float(np.finfo(model.dtype).eps) * _size(model, x)
    tries = _crossings(exact, x, y, low, high, LEADS[-1] * unit, True)
    reach = abs(tries[0][0]) if tries else np.inf
    near = np.maximum(low, x - reach), np.minimum(high, x + reach)
    for lead in (0, *LEADS):
        tries += _crossings(exact, x, y, *near, lead * unit, False)
    for change, p in sorted(tries, key=lambda crossing: abs(crossing[0])):
        shown = _show(model, x, y, p, change, low, high)
        if shown is not None:
            return shown
    return None


def _size(model: LMM, x: NDArray) -> float:
    """How large the numbers are that a score of x is the sum of, and rounded with."""
    offsets = float(np.abs(model.W1).max()) + float(np.abs(model.W2).max())
    if model.directions is None:
        return float(np.abs(model.W0).max()) * float(np.abs(x).max()) + offsets
    steep = np.abs(model.slopes.astype(np.float64)).max(axis=1)
    views = np.abs(model.directions.astype(np.float64)) @ np.abs(x)
    # A view is a sum of P numbers, each of which may be rounded.
    return float((steep * views).max()) * (1.0 + model.n_features / ROUNDINGS) + offsets


def _slope(model: LMM, p: int) -> float:
    """The steepest that a score can be along feature p, at least the least number."""
    slopes = np.abs(model.slopes.astype(np.float64))
    if model.directions is None:
        steepest = slopes[p].max()
    else:
        steepest = (slopes.max(axis=1) * np.abs(model.directions[:, p])).max()
    return max(float(steepest), np.finfo(float).tiny)


def _show(
    model: LMM, x: NDArray, y: int, p: int, change: float, low: NDArray, high: NDArray
) -> tuple[int, float, int] | None:
    """The feature, the value at or just past the crossing, and the class predicted there."""
    eps = float(np.finfo(model.dtype).eps)
    least = eps * max(_size(model, x) / _slope(model, p), abs(x[p] + change)) / ROUNDINGS
    past = np.concatenate([[0.0], least * 2.0 ** np.arange(10)])
    tried = np.repeat(x[None], past.size, axis=0)
    tried[:, p] = np.clip(tried[:, p] + change + np.copysign(past, change), low[p], high[p])
    winners = model.scores(tried).argmax(axis=1)
    flipped = np.flatnonzero(winners != y)
    if not flipped.size:
        return None
    first = flipped[0]
    return p, float(tried[first, p]), int(winners[first])
