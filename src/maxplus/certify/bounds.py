"""Bounds of the scores of an LMM, or of a committee, over a box of inputs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxplus._compile.jit import frozen
from maxplus._compile.patience import is_sooner
from maxplus.algebra._kernels import PARALLEL_FROM
from maxplus.certify import _bounds_kernels
from maxplus.certify._bounds_small import bounds_small
from maxplus.models import LMM, Committee, Network
from maxplus.models._checks import as_rows
from maxplus.models._lmm_small import SMALL


class Bounds(NamedTuple):
    """Scores stay within [low, high], both of shape (N, C), wherever the input is in its box."""

    low: NDArray
    high: NDArray


def box_bounds(
    model: LMM | Committee, X: NDArray, eps: ArrayLike, scale: NDArray | None = None
) -> Bounds:
    """Bounds of all scores over the box |x'_p − x_p| ≤ eps·scale_p around each row of X.

    A hidden unit is separable, g_h(x) = min_p φ_ph(x_p), and its features move
    independently in a box. Hence max g_h = min_p max φ_ph and min g_h = min_p min φ_ph
    are exact, where φ_ph(t) = min(a·t + A, b·t + B) has the slopes (a, b) = slopes[p] and
    the offsets (A, B) = offsets[h, p] of the model.

    *Lowest.* A minimum of lines is lowest where one of them is: each row i is lowered by
    |W0[i]|·eps·scale_p on its own.

    *Highest.* Raising each row on its own, by as much, bounds φ_ph from above. It is
    exact unless the slopes have opposite signs and the lines cross inside the
    interval; then φ_ph is highest at the crossing, with the value
    (|b|·A + |a|·B) / (|a| + |b|), which is the highest φ_ph gets anywhere. Therefore
    the exact maximum of g_h is the raised minimum, but at most cap_h, the lowest of
    these peaks over the features with slopes of opposite signs.

    So max_h (max g_h + W2[h, d]) is the exact maximum of z_d, and
    max_h (min g_h + W2[h, d]) is at most its minimum. Two forward passes; O(N·P·H).

    *Directions.* Where the model has views v = D·x, a box of features is inside a box of views:

        |v'_m − v_m| = |Σ_p D_mp·(x'_p − x_p)| ≤ Σ_p |D_mp|·|x'_p − x_p| ≤ eps·Σ_p |D_mp|·scale_p.

    What holds for every v' of the larger box holds for those that some x' has. So the bounds
    are those of a model whose features are the views, with Σ_p |D_mp|·scale_p as the scale of
    view m. The sum is attained, each view at a corner of its own: a unit's lowest value is
    still exact. Views that share features cannot all be highest at once, so that the highest
    may not be attained. A diagonal D loses nothing.

    *Committees.* The bounds are the means of the members'. At every x' of the box
    low^k ≤ z^k(x') ≤ high^k for each member k; adding up and dividing by their number K,
    mean low^k ≤ z(x') ≤ mean high^k. Each member's bounds are as exact as above; but the members
    need not be highest, or lowest, at one and the same x', so that their mean may not be attained.

    Parameters
    ----------
    model : LMM or Committee
    X : array of shape (N, P)
    eps : float or array of shape (N,), >= 0
    scale : array of shape (P,), >= 0, optional
        How far each feature may move for eps = 1; all ones by default.

    Returns
    -------
    Bounds, in float64, of the exact scores and also of those computed in the model's type:
        the rounding of a forward pass is allowed for.

    Examples
    --------
    >>> from maxplus.certify import box_bounds
    >>> from sklearn.datasets import load_iris
    >>> from maxplus import LMMClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = LMMClassifier(6, slope=4.0, warmup_epochs=2, random_state=0).fit(X, y)
    >>> model = clf.model_
    >>> low, high = box_bounds(model, X, 0.1)
    >>> Z = model.scores(X + 0.1)
    >>> bool(((low <= Z) & (Z <= high)).all())
    True
    """
    X = as_rows(X, model.n_features, np.float64)
    box = check_box(model, len(X), eps, scale)
    if isinstance(model, Committee):
        return _mean_bounds(model, [box_bounds(member, X, *box) for member in model.members])
    exact = model.astype(np.float64)
    reach = (np.abs(exact.slopes) * view_scale(model, box.scale)[:, None]).ravel()
    low, high = (np.empty((len(X), model.n_classes)) for _ in range(2))
    size = len(X) * exact.W1.size
    kernel = _bounds_kernels.bounds
    if size < PARALLEL_FROM:
        kernel = kernel.serial
    if size < SMALL and is_sooner(2 * size, kernel):
        kernel = bounds_small
    kernel(exact.views(X), frozen(box.eps), exact.weights, reach, caps(exact), low, high)
    slack = _rounding(model, X, box.eps, float(reach.max()))[:, None]
    return Bounds(low - slack, high + slack)


def _mean_bounds(model: Committee, bounds: list[Bounds]) -> Bounds:
    """Means of the members' bounds, and room for the rounding of their mean score.

    K − 1 rounded sums and a quotient of numbers of at most the size m, the largest in any member's
    bounds, are off by at most K·u·m, up to terms in u², where u = eps / 2 is half a unit in the
    last place; or by half the least number there is, where the quotient underflows. The means
    of the bounds are off by no more, in float64. Twice that is allowed.
    """
    K, info = len(bounds), np.finfo(model.dtype)
    largest = np.max([np.abs(bound).max(axis=1) for member in bounds for bound in member], axis=0)
    slack = 2.0 * K * float(info.eps) * largest + float(info.smallest_subnormal)
    low, high = (Committee.mean(sides) for sides in zip(*bounds, strict=True))
    return Bounds(low - slack[:, None], high + slack[:, None])


class Box(NamedTuple):
    """How far each row may move, (N,), in units of each feature's scale, (P,)."""

    eps: NDArray
    scale: NDArray


def check_box(model: Network, n_rows: int, eps: ArrayLike, scale: ArrayLike | None) -> Box:
    """Both as arrays; ValueError naming the argument that cannot be."""
    try:
        widths = np.asarray(eps, np.float64)
    except (TypeError, ValueError):
        widths = np.array(np.nan)
    if widths.shape not in ((), (n_rows,)) or not (widths >= 0).all():
        raise ValueError(
            f"eps must be a number >= 0, or one for each of the {n_rows} rows; got {eps!r:.80}"
        )
    factors = np.ones(model.n_features)
    if scale is not None:
        factors = np.asarray(scale, np.float64)
        if factors.shape != (model.n_features,) or not (
            np.isfinite(factors).all() and (factors >= 0).all()
        ):
            raise ValueError(
                f"scale must hold {model.n_features} finite numbers >= 0, one for each feature; "
                f"got {scale!r:.80}"
            )
    return Box(np.ascontiguousarray(np.broadcast_to(widths, n_rows)), factors)


def view_scale(model: LMM, scale: NDArray) -> NDArray:
    """How far each view can move for eps = 1, (M,): Σ_p |D_mp|·scale_p, or the features' scale."""
    if model.directions is None:
        return scale
    return np.abs(model.directions.astype(np.float64)) @ scale


def steepest(model: LMM | Committee, scale: NDArray) -> float:
    """max_i |W0[i]|·scale_p of the views: no score changes faster than that with eps.

    A mean score changes at most by the mean of what its members' may.
    """
    if isinstance(model, Committee):
        return float(np.mean([steepest(member, scale) for member in model.members]))
    slopes = np.abs(model.slopes.astype(np.float64))
    return float((slopes * view_scale(model, scale)[:, None]).max())


def caps(model: LMM) -> NDArray:
    """The highest value of each unit, over all inputs; infinite if nothing limits it; O(P·H)."""
    opposite = model.slopes.prod(axis=1) < 0
    if not opposite.any():
        return np.full(model.n_hidden, np.inf)
    a, b = np.abs(model.slopes[opposite]).T
    A, B = np.moveaxis(model.offsets[:, opposite], -1, 0)
    return ((b * A + a * B) / (a + b)).min(axis=1)


def score_rounding(model: LMM | Committee, X: NDArray, box: Box) -> NDArray:
    """The most by which computed scores can be off, for each row and all inputs in its box; O(N·P).

    A committee's mean adds at most K·eps·m, where m is the largest score of a member (see
    `_mean_bounds`), and a member's own rounding is more than eps·m: K + 1 times the largest of
    these is enough.
    """
    if isinstance(model, Committee):
        members = [score_rounding(member, X, box) for member in model.members]
        return (len(members) + 1.0) * np.max(members, axis=0)
    return _rounding(model, X, box.eps, steepest(model, box.scale))


def _rounding(model: LMM, X: NDArray, eps: NDArray, reach: float) -> NDArray:
    """The most by which a score in the model's float type can be off, for inputs in the box.

    A score is a rounded product and two rounded sums; each rounding is at most half
    a unit in the last place of numbers that are no larger than what is added up here,
    or half the least number there is.

    Where the model has directions, each view is off as well. A sum of P rounded products,
    in any order, of inputs that were rounded first is off by at most
    (P + 1)·u·Σ_p |D_mp|·|x_p|, up to terms in u², where u = eps / 2 is half a unit in the last
    place; the views and their scales, which the bounds start from, are off by P·u each, in
    float64. Together that is below (P + 2)·eps; twice as much is allowed. A slope multiplies
    it, and no score moves by more than one of its rows does.
    """
    largest = _largest_product(model, X)
    largest += float(np.abs(model.W1).max()) + float(np.abs(model.W2).max())
    if reach > 0.0:
        largest += eps * reach
    roundings, underflows = 4.0, 16.0
    if model.directions is not None:
        of_views = 2.0 * (model.n_features + 2)
        roundings += of_views
        underflows += of_views * float(np.abs(model.W0).max())
    info = np.finfo(model.dtype)
    return roundings * float(info.eps) * largest + underflows * float(info.smallest_subnormal)


def _largest_product(model: LMM, X: NDArray) -> NDArray:
    """At least |W0[i]·v| of every row i and view v, for each row of X."""
    if model.directions is None:
        return float(np.abs(model.W0).max()) * np.abs(X).max(axis=1, initial=0.0)
    steep = np.abs(model.slopes.astype(np.float64)).max(axis=1)
    sizes = np.abs(X) @ np.abs(model.directions.astype(np.float64)).T
    return (sizes * steep).max(axis=1, initial=0.0)
