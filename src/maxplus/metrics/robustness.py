"""Error rates under small changes of the features: certified, attacked, and of a constant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxplus.certify import certified_at
from maxplus.models.lmm import TermSum

# Shares of the features that a step of the attack moves; 1 is a new point of the box.
MOVED = (1.0, 0.5, 0.25, 0.1)


@dataclass(frozen=True)
class RobustErrors:
    """Error rates of a classifier if each feature may change within a box.

    The largest error rate that changes within the boxes can cause is between ``attack`` and
    ``certified``.

    Attributes
    ----------
    n_rows : int
        Number of rows.
    clean : float
        Share of rows that are wrong as they are.
    attack : float
        Share of rows that are wrong as they are or at a point that `attack` has found.
    certified : float
        Share of rows that are not certified: wrong, or not provably right everywhere in their box.
    constant : float
        Error rate of predicting the most frequent class of these rows, which no change affects.
    """

    n_rows: int
    clean: float
    attack: float
    certified: float
    constant: float

    @classmethod
    def of(cls, outcomes: NDArray, y: NDArray) -> RobustErrors:
        """Return the error rates of `robust_outcomes` of rows of classes ``y``."""
        clean, attacked, certified = (1.0 - outcomes.mean(axis=0)).tolist()
        return cls(len(y), clean, attacked, certified, 1.0 - float(np.bincount(y).max()) / len(y))


def attack(
    model: TermSum,
    X: ArrayLike,
    y: ArrayLike,
    reach: ArrayLike,
    *,
    n_steps: int = 40,
    random_state: int = 0,
) -> NDArray:
    """Search the box around each row for a point with another class than ``y``.

    A random search: each step moves some features of the worst point so far to ends of their
    intervals or to points between, and keeps the point if the margin of ``y`` falls.

    Parameters
    ----------
    model : LMM or AdditiveLMM
    X : array of shape (N, P)
    y : array of shape (N,)
        Index of the class of each row.
    reach : array of shape (P,), >= 0
        Largest change of each feature.
    n_steps : int, default=40
        Number of points of each box that are tried.
    random_state : int, default=0

    Returns
    -------
    array of bool of shape (N,)
        True where such a point was found.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxplus import LMMClassifier
    >>> from maxplus.metrics import attack
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = LMMClassifier(6, slope=4.0, warmup_epochs=2, random_state=0).fit(X, y)
    >>> bool(attack(clf.model_, X, y, [5.0, 5.0, 5.0, 5.0]).any())
    True
    """
    X, y, reach = np.asarray(X, np.float64), np.asarray(y), np.asarray(reach, np.float64)
    rng = np.random.default_rng(random_state)
    worst, margin = X.copy(), _margins(model, X, y)
    for step in range(n_steps):
        rows = np.flatnonzero(margin >= 0)
        if not rows.size:
            break
        shape = (rows.size, X.shape[1])
        move = rng.uniform(-1.0, 1.0, shape)
        at_end = rng.random(shape) < 0.75
        tried = X[rows] + reach * np.where(at_end, np.sign(move), move)
        is_moved = rng.random(shape) < MOVED[step % len(MOVED)]
        tried = np.where(is_moved, tried, worst[rows])
        found = _margins(model, tried, y[rows])
        is_worse = found < margin[rows]
        worst[rows[is_worse]], margin[rows[is_worse]] = tried[is_worse], found[is_worse]
    return margin < 0


def _margins(model: TermSum, X: NDArray, y: NDArray) -> NDArray:
    """Return the score of class ``y`` minus the highest other score."""
    scores = model.scores(X).astype(np.float64)
    rows = np.arange(len(X))
    own = scores[rows, y]
    scores[rows, y] = -np.inf
    return own - scores.max(axis=1)


def robust_outcomes(classifier: Any, X: ArrayLike, y: ArrayLike) -> NDArray:
    """Return for each row whether it is right, right under attack, and certified.

    The box of a row is ``robust_reach_`` of the classifier. The attack changes numbers only.

    Parameters
    ----------
    classifier : fitted LMMClassifier with ``robust_reach_``
    X : array of shape (N, P)
    y : array of shape (N,)
        Index of the class of each row.

    Returns
    -------
    array of bool of shape (N, 3)
    """
    model, reach = classifier.model_, classifier.robust_reach_
    X, y = np.asarray(X, np.float64), np.asarray(y)
    scores = model.scores(X)
    right = scores.argmax(axis=1) == y
    certified = certified_at(model, X, 1.0, reach, scores=scores, where=right)
    resists = right.copy()
    open_rows = np.flatnonzero(right & ~certified)
    moves = reach
    if getattr(classifier, "encoder_", None) is not None:
        # The boxes of categories contain invalid inputs, so the attack holds categories fixed.
        moves = np.where(classifier.certificate_scale() > 0, reach, 0.0)
    resists[open_rows] = ~attack(model, X[open_rows], y[open_rows], moves)
    return np.column_stack([right, resists, certified])


def robust_errors(classifier: Any, X: ArrayLike, y: ArrayLike) -> RobustErrors:
    """Return the error rates of a classifier that was trained with ``robust_eps``.

    Parameters
    ----------
    classifier : fitted LMMClassifier with ``robust_reach_``
    X : array of shape (N, P)
    y : true labels of shape (N,)

    Returns
    -------
    RobustErrors

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxplus import LMMClassifier
    >>> from maxplus.metrics import robust_errors
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = LMMClassifier(robust_eps=0.1, structure="shapes", robust_training=1.0,
    ...                     warmup_epochs=5, random_state=0).fit(X, y)
    >>> found = robust_errors(clf, X, y)
    >>> found.clean <= found.attack <= found.certified < found.constant
    True
    """
    codes = np.searchsorted(classifier.classes_, np.asarray(y))
    return RobustErrors.of(robust_outcomes(classifier, X, codes), codes)
