"""Feature importances."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxplus.explain._shared import check_model
from maxplus.explain.contributions import contributions, groups_of, normalized_weights, term_means
from maxplus.models import LMM
from maxplus.models._checks import as_rows, feature_values
from maxplus.models.lmm import TermSum

# Maximum number of samples over which importances are averaged; they are evenly spaced.
MAX_ROWS = 2_000


def feature_importances(
    model: TermSum,
    X: ArrayLike,
    scale: ArrayLike | None = None,
    weight: ArrayLike | None = None,
) -> NDArray:
    """Return the importance of each feature, normalised to sum to 1.

    *Single networks.* A score is determined by one wall of one unit, z_d = W0[i]·x[i // 2] + ….
    The margin of the predicted class over the runner-up therefore depends only on the features of
    two walls i₁ and i₂, with the slopes W0[i₁] and −W0[i₂]. The importance of a feature is the
    mean magnitude of its slope over the samples, times the variation of the feature. For samples
    where a feature has the same slope in both scores, the slope of the margin is 0. O(N·P·H).

    *Sums of terms.* The importance is the mean magnitude of the feature's contribution to the
    margin, relative to its mean over X. The contribution of a group of several features is divided
    equally among the features of the active walls, two for each term of the group.
    O(N·Σ_t m_t·H_t).

    All importances are zero if no feature has an effect. If X has more than 2,000 samples, at most
    2,000 evenly spaced samples are used, unless their weights are all 0.

    Parameters
    ----------
    model : LMM or AdditiveLMM
    X : array of shape (N, P), for example the training samples
    scale : array of shape (P,), optional
        Variation of each feature; the standard deviations of the samples that are used by default.
        Ignored for a sum of terms.
    weight : array of shape (N,), optional
        Weights of the samples, >= 0; all equal by default.

    Returns
    -------
    array of shape (P,)

    Examples
    --------
    >>> from maxplus.explain import feature_importances
    >>> from sklearn.datasets import load_iris
    >>> from maxplus import LMMClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = LMMClassifier(6, slope=4.0, warmup_epochs=2, random_state=0).fit(X, y)
    >>> model = clf.model_
    >>> round(float(feature_importances(model, X).sum()), 6)
    1.0
    """
    check_model(model)
    rows = as_rows(X, model.n_features, model.dtype)
    weights = normalized_weights(weight, len(rows))
    step = max(1, -(-len(rows) // MAX_ROWS))
    if step > 1 and weights[::step].sum() > 0.0:
        rows = rows[::step]
        weights = normalized_weights(None if weight is None else weights[::step], len(rows))
    if model.is_sum:
        sizes = _mean_contributions(model, rows, weights)
    else:
        sizes = _mean_slopes(model.terms[0].lmm, rows, weights, scale)
    total = float(sizes.sum())
    return sizes / total if 0.0 < total < np.inf else np.zeros_like(sizes)


def _mean_slopes(model: LMM, rows: NDArray, weights: NDArray, scale: ArrayLike | None) -> NDArray:
    """Return the mean |∂(z₁ − z₂) / ∂x| of a network, times the variation of each feature.

    z₁ and z₂ are the two highest scores.
    """
    if scale is None:
        deviation = np.std(rows, axis=0, dtype=np.float64)
    else:
        deviation = feature_values("scale", scale, model.n_features)
        if not (np.isfinite(deviation).all() and (deviation >= 0.0).all()):
            raise ValueError(f"scale must be finite and >= 0; got {scale!r:.80}")
    order = np.argsort(-model.scores(rows), axis=1, kind="stable")[:, :2]
    walls = np.take_along_axis(model.active_path(rows).row, order, axis=1)
    slopes = np.zeros((len(rows), model.n_features))
    # The predicted class and, if the model has several classes, the runner-up.
    for row, sign in zip(walls.T, (1.0, -1.0), strict=False):
        slopes[np.arange(len(rows)), row // 2] += sign * model.W0.astype(np.float64)[row]
    return deviation * (weights @ np.abs(slopes))


def _mean_contributions(model: TermSum, rows: NDArray, weights: NDArray) -> NDArray:
    """Return the mean |contribution| of each feature of a sum of terms to the margin."""
    found = contributions(model, rows, term_means(model, rows, weights))
    magnitude = weights[:, None] * np.abs(found.contribution)
    _, group_of = groups_of(model, np.arange(model.n_features))
    U = model.mapped(rows)
    totals = np.zeros(model.n_features)
    for t, (features, lmm) in enumerate(model.terms):
        g = group_of[t]
        part = magnitude[:, g] / (2 * np.count_nonzero(group_of == g))
        if features.size == 1:
            totals[features[0]] += 2 * part.sum()
            continue
        walls = lmm.active_path(U[:, features]).row // 2
        for classes in (found.predicted, found.rival):
            active = features[np.take_along_axis(walls, classes[:, None], axis=1)[:, 0]]
            totals += np.bincount(active, weights=part, minlength=model.n_features)
    return totals
