"""What matters overall: how much the lead of predictions hangs on each feature."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxplus.explain.contributions import additive_importances
from maxplus.models import LMM, AdditiveLMM
from maxplus.models._checks import as_rows, feature_values

# Rows that importances are the mean of, evenly taken from more.
ENOUGH = 2_000


def feature_importances(
    model: LMM | AdditiveLMM, X: ArrayLike, scale: ArrayLike | None = None
) -> NDArray:
    """How often each feature decides, and by how much: shares that sum to 1, shape (P,).

    A score of an LMM is one row of one unit, z_d = W0[i]·x[i // 2] + …, so the lead of the
    predicted class over the second changes with the features of two rows i₁ and i₂ alone, by the
    slopes W0[i₁] and −W0[i₂].

    A feature's importance is the mean size of that over the rows, times how much the feature
    varies: how often it has a say in a decision, times how much a typical change of it does
    there. Where both scores hang on it alike, it decides nothing. All zeros if nothing does.
    O(N·P·H), of 2,000 rows at most.

    Of a sum of terms, it is the mean size of the feature's contribution to that lead.

    Parameters
    ----------
    model : LMM or AdditiveLMM
    X : array of shape (N, P), for example the training rows
    scale : array of shape (P,), optional
        How much each feature varies; the deviations of X by default. Contributions of a sum need
        no scale.

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
    if isinstance(model, AdditiveLMM):
        return additive_importances(model, X)
    rows = as_rows(X, model.n_features, model.dtype)
    rows = rows[:: max(1, -(-len(rows) // ENOUGH))]
    if not len(rows):
        raise ValueError("X must have at least one row; got none")
    if scale is None:
        varies = np.std(rows, axis=0, dtype=np.float64)
    else:
        varies = feature_values("scale", scale, model.n_features)
        if not (np.isfinite(varies).all() and (varies >= 0.0).all()):
            raise ValueError(f"scale must be finite and >= 0; got {scale!r:.80}")
    order = np.argsort(-model.scores(rows), axis=1, kind="stable")[:, :2]
    sizes = varies * np.abs(_gradient(model, rows, order)).mean(axis=0)
    total = float(sizes.sum())
    return sizes / total if 0.0 < total < np.inf else np.zeros_like(sizes)


def _gradient(model: LMM, rows: NDArray, order: NDArray) -> NDArray:
    """Of the lead of each row's first class over its second, if there is one; shape (N, P)."""
    decided = np.take_along_axis(model.active_path(rows).row, order, axis=1)
    first = _slopes(model, decided[:, 0])
    return first - _slopes(model, decided[:, 1]) if order.shape[1] > 1 else first


def _slopes(model: LMM, decided: NDArray) -> NDArray:
    """Return ∂z / ∂x where the rows ``decided`` of W0 decide; shape (N, P), no array of (P, P)."""
    slope = model.W0.astype(np.float64)[decided]
    found = np.zeros((len(decided), model.n_features))
    found[np.arange(len(decided)), decided // 2] = slope
    return found
