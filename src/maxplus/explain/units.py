"""Boxes of hidden units, and active paths of scores."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxplus.explain._shared import check_lmm
from maxplus.models import LMM, FeatureMap
from maxplus.models._checks import as_rows, check_number
from maxplus.models._lmm_kernels import forward
from maxplus.models.lmm import TermSum


class Boxes(NamedTuple):
    """Boxes in which unit values are at least a level: low ≤ x_p ≤ high for all features p.

    Attributes
    ----------
    low, high : arrays of shape (H, P), the walls, or ±inf where there is no wall
        If low > high for a feature, the unit is below the level everywhere.
    centre : array of shape (H, P), the value of each feature at which the unit is highest
        NaN if the feature does not have a wall on both sides.
    label : array of shape (H,), the class with the largest output weight W2[h, d]
    height : array of shape (H,), this output weight
    """

    low: NDArray
    high: NDArray
    centre: NDArray
    label: NDArray
    height: NDArray


def unit_boxes(model: LMM, level: float = 0.0) -> Boxes:
    """Return the set {x: g_h(x) ≥ level} of each unit h; O(P·H).

    It is a box because g_h is a minimum over features: g_h(x) ≥ level if and only if
    a·x_p + A ≥ level for each row of W0. Each of these conditions restricts x_p to a half-line that
    ends at (level − A) / a.
    After initialisation at prototypes, the boxes at level 0 are points: the prototypes.

    Parameters
    ----------
    model : LMM
    level : float, default=0.0
        The smallest value of a unit inside its box.

    Returns
    -------
    Boxes

    Examples
    --------
    >>> from maxplus.explain import unit_boxes
    >>> from maxplus.models import LMM
    >>> boxes = unit_boxes(LMM.from_boxes([[2.0]], 0.5, [[0.0, -1.0]], 4.0))
    >>> boxes.low.tolist(), boxes.high.tolist()
    ([[1.5]], [[2.5]])
    """
    check_lmm(model, "unit_boxes", "use term_boxes for sums of terms")
    level = check_number("level", level)
    exact = model.astype(np.float64)
    slope, offset = exact.slopes, exact.offsets
    with np.errstate(divide="ignore", invalid="ignore"):
        wall = (level - offset) / slope
    # A row of W0 with slope 0 is not a wall; if its offset is below the level, the box is empty.
    outside = (slope == 0) & (level > offset)
    from_below = np.where(slope > 0, wall, np.where(outside, np.inf, -np.inf))
    from_above = np.where(slope < 0, wall, np.where(outside, -np.inf, np.inf))
    # The intersection of the two lines of a feature if their slopes have opposite signs.
    (a, b), (A, B) = slope.T, np.moveaxis(offset, -1, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        centre = np.where(a * b < 0, (B - A) / (a - b), np.nan)
    label = model.W2.argmax(axis=1)
    height = model.W2[np.arange(model.n_hidden), label]
    return Boxes(from_below.max(axis=2), from_above.min(axis=2), centre, label, height)


def term_boxes(model: TermSum, level: float = 0.0) -> list[Boxes]:
    """Return the boxes of the units of each term, in raw units; O(Σ_t m_t·H_t).

    The arrays of term t have shape (H_t, m_t), with its features in order. Walls are those of
    `unit_boxes`, mapped back to raw units. They are infinite beyond the range of the feature map.

    Parameters
    ----------
    model : AdditiveLMM, or an LMM, which has one term
    level : float, default=0.0
        The smallest value of a unit inside its box.

    Returns
    -------
    list of T Boxes

    Examples
    --------
    >>> from maxplus.explain import term_boxes
    >>> from maxplus.models import LMM, AdditiveLMM, FeatureMap, Term
    >>> box = LMM.from_boxes([[0.5]], 0.25, [[0.0, -1.0]], 4.0)
    >>> percent = FeatureMap([([0.0, 100.0], [0.0, 1.0])])
    >>> boxes = term_boxes(AdditiveLMM([Term([0], box)], 1, percent))
    >>> boxes[0].low.tolist(), boxes[0].high.tolist()
    ([[25.0]], [[75.0]])
    """
    found = []
    for features, lmm in model.terms:
        boxes = unit_boxes(lmm, level)
        if model.feature_map is not None:
            for j, p in enumerate(features.tolist()):
                x, u = model.feature_map.knots(p)
                mirrored = FeatureMap([(-x[::-1], -u[::-1])])
                boxes.low[:, j] = model.feature_map.inverse(p, boxes.low[:, j])
                boxes.high[:, j] = -mirrored.inverse(0, -boxes.high[:, j])
                centre = model.feature_map.inverse(p, boxes.centre[:, j])
                boxes.centre[:, j] = np.clip(centre, x[0], x[-1])
        found.append(boxes)
    return found


class Paths(NamedTuple):
    """Active path and second-best unit of each score, in arrays of shape (N, C).

    z_d = W0[row]·x[feature] + W1[row, unit] + W2[unit, d].
    """

    score: NDArray
    unit: NDArray  # the active unit
    row: NDArray  # the row of W0 of the active wall
    runner_up: NDArray  # the second-best unit, −1 for a model with a single unit
    margin: NDArray  # the score minus the value of the second-best unit, NaN without one

    @property
    def feature(self) -> NDArray:
        """Feature of the active wall, (N, C)."""
        return self.row // 2


def active_paths(model: LMM, X: NDArray) -> Paths:
    """Return the active path and the second-best unit of each score; O(N·H·(P + C)).

    Parameters
    ----------
    model : LMM
    X : array of shape (N, P)

    Returns
    -------
    Paths

    Examples
    --------
    >>> from maxplus.explain import active_paths
    >>> from sklearn.datasets import load_iris
    >>> from maxplus import LMMClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = LMMClassifier(6, slope=4.0, warmup_epochs=2, random_state=0).fit(X, y)
    >>> model = clf.model_
    >>> path = active_paths(model, X[:1])
    >>> h, i = path.unit[0, 0], path.row[0, 0]
    >>> z = model.W0[i] * X[0, i // 2] + model.W1[i, h] + model.W2[h, 0]
    >>> bool(abs(z - path.score[0, 0]) < 1e-9)
    True
    """
    check_lmm(model, "active_paths", "use contributions for sums of terms")
    X = as_rows(X, model.n_features, model.dtype)
    shape = len(X), model.n_classes
    score, unit, row = np.empty(shape, model.dtype), np.empty(shape, int), np.empty(shape, int)
    path = Paths(score, unit, row, np.full(shape, -1), np.full(shape, np.nan))
    forward(X, model.weights, *path)
    return path
