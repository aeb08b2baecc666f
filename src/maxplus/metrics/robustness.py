"""Error rates under bounded perturbations of the features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxplus.certify import certified_at
from maxplus.models.lmm import TermSum

# Expected fraction of the features that a step of the attack resamples; 1 resamples all of them.
CHANGED_FRACTIONS = (1.0, 0.5, 0.25, 0.1)


@dataclass(frozen=True)
class RobustErrors:
    """Error rates of a classifier under perturbations within a box around each row.

    The worst-case error rate is between ``attack`` and ``certified``.

    Attributes
    ----------
    n_rows : int
        Number of rows.
    clean : float
        Error rate without perturbations.
    attack : float
        Error rate under `attack`, a lower bound on the worst case.
    certified : float
        Fraction of rows that are misclassified or not certified, an upper bound on the worst case.
    constant : float
        Error rate of always predicting the most frequent class.
    """

    n_rows: int
    clean: float
    attack: float
    certified: float
    constant: float

    @classmethod
    def from_outcomes(cls, outcomes: NDArray, y: NDArray) -> RobustErrors:
        """Compute the error rates from ``robust_outcomes`` and the class indices y."""
        clean, attacked, certified = (1.0 - outcomes.mean(axis=0)).tolist()
        return cls(len(y), clean, attacked, certified, 1.0 - float(np.bincount(y).max()) / len(y))


def attack(
    model: TermSum,
    X: ArrayLike,
    y: ArrayLike,
    eps: ArrayLike,
    *,
    n_steps: int = 40,
    random_state: int = 0,
) -> NDArray:
    """Search the box around each row for a misclassified point.

    Random search: each step resamples some features of the point with the smallest margin so far,
    on the boundary or inside the box, and keeps the new point if its margin is smaller. The margin
    is the score of the true class minus the highest other score.

    Parameters
    ----------
    model : LMM or AdditiveLMM
    X : array of shape (N, P)
    y : array of shape (N,)
        True class of each row, from 0 to C − 1.
    eps : array of shape (P,), >= 0
        Largest change of each feature.
    n_steps : int, default=40
        Maximum number of points evaluated per row.
    random_state : int, default=0

    Returns
    -------
    array of bool of shape (N,)
        True if a point with a negative margin was found, or if the margin of the row itself is
        negative. A margin of 0, a tie, does not count.

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
    X, y, eps = np.asarray(X, np.float64), np.asarray(y), np.asarray(eps, np.float64)
    rng = np.random.default_rng(random_state)
    worst, margin = X.copy(), _margins(model, X, y)
    for step in range(n_steps):
        rows = np.flatnonzero(margin >= 0)
        if not rows.size:
            break
        shape = (rows.size, X.shape[1])
        offset = rng.uniform(-1.0, 1.0, shape)
        on_boundary = rng.random(shape) < 0.75
        candidate = X[rows] + eps * np.where(on_boundary, np.sign(offset), offset)
        is_changed = rng.random(shape) < CHANGED_FRACTIONS[step % len(CHANGED_FRACTIONS)]
        candidate = np.where(is_changed, candidate, worst[rows])
        candidate_margin = _margins(model, candidate, y[rows])
        is_smaller = candidate_margin < margin[rows]
        worst[rows[is_smaller]] = candidate[is_smaller]
        margin[rows[is_smaller]] = candidate_margin[is_smaller]
    return margin < 0


def _margins(model: TermSum, X: NDArray, y: NDArray) -> NDArray:
    """Return the score of class ``y`` minus the highest other score."""
    scores = model.scores(X).astype(np.float64)
    rows = np.arange(len(X))
    true_score = scores[rows, y]
    scores[rows, y] = -np.inf
    return true_score - scores.max(axis=1)


def robust_outcomes(classifier: Any, X: ArrayLike, y: ArrayLike) -> NDArray:
    """Return whether each row is correct, correct under attack, and certified.

    The half-widths of the box are ``robust_eps_``. If columns were encoded, the attack does not
    change categorical and binary columns.

    Parameters
    ----------
    classifier : LMMClassifier
        Classifier that was fitted with ``robust_eps``.
    X : array of shape (N, P)
        Encoded features.
    y : array of shape (N,)
        True class of each row, from 0 to C − 1.

    Returns
    -------
    array of bool of shape (N, 3)
    """
    model, eps = classifier.model_, classifier.robust_eps_
    X, y = np.asarray(X, np.float64), np.asarray(y)
    scores = model.scores(X)
    correct = scores.argmax(axis=1) == y
    certified = certified_at(model, X, 1.0, eps, scores=scores, where=correct)
    robust = correct.copy()
    rows = np.flatnonzero(correct & ~certified)
    attack_eps = eps
    if getattr(classifier, "encoder_", None) is not None:
        # Categories are kept fixed, because boxes around one-hot features contain invalid inputs.
        attack_eps = np.where(classifier.certificate_scale() > 0, eps, 0.0)
    robust[rows] = ~attack(model, X[rows], y[rows], attack_eps)
    return np.column_stack([correct, robust, certified])


def robust_errors(classifier: Any, X: ArrayLike, y: ArrayLike) -> RobustErrors:
    """Compute the error rates of a classifier that was trained with ``robust_eps``.

    Parameters
    ----------
    classifier : LMMClassifier
        Classifier that was fitted with ``robust_eps``.
    X : array of shape (N, P), or data frame
        Rows, as for ``classifier.predict``.
    y : array of shape (N,)
        True labels. Labels that are not classes of the classifier count as errors.

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
    >>> errors = robust_errors(clf, X, y)
    >>> errors.clean <= errors.attack <= errors.certified < errors.constant
    True
    """
    rows, labels = classifier._validated(X), np.asarray(y)
    if getattr(classifier, "robust_eps_", None) is None:
        raise ValueError("robust_errors needs a classifier that was fitted with robust_eps")
    if labels.shape != (len(rows),):
        raise ValueError(
            f"y must have shape ({len(rows)},), a label for each row of X; got {labels.shape}"
        )
    is_known = np.isin(labels, classifier.classes_)
    codes = np.searchsorted(classifier.classes_, labels[is_known])
    outcomes = np.zeros((len(rows), 3), bool)
    outcomes[is_known] = robust_outcomes(classifier, rows[is_known], codes)
    return RobustErrors.from_outcomes(outcomes, np.unique(labels, return_inverse=True)[1])
