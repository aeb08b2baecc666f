"""What matters overall: how much the lead of predictions hangs on each feature."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxplus.models import LMM
from maxplus.models._checks import as_rows, feature_values

# Rows that importances are the mean of, evenly taken from more.
ENOUGH = 2_000


def feature_importances(model: LMM, X: ArrayLike, scale: ArrayLike | None = None) -> NDArray:
    """How often each feature decides, and by how much: shares that sum to 1, shape (P,).

    A score comes down to one view of one unit, z_d = W0[i]·v[i // 2] + …, so the lead of the
    predicted class over the second has the slopes of two rows i and nothing else:

        ∂(z₁ − z₂) / ∂x_p = W0[i₁]·D[i₁ // 2, p] − W0[i₂]·D[i₂ // 2, p].

    A feature's importance is the mean size of that over the rows, times how much the feature
    varies: how often it has a say in a decision, times how much a typical change of it does
    there. Where both scores hang on it alike, it decides nothing. All zeros if nothing does.
    O(N·P·H), of 2,000 rows at most.

    Parameters
    ----------
    model : LMM
    X : array of shape (N, P), for example the training rows
    scale : array of shape (P,), optional
        How much each feature varies; the deviations of X by default.
    """
    rows = as_rows(X, model.n_features, model.dtype)
    rows = rows[:: max(1, -(-len(rows) // ENOUGH))]
    if not len(rows):
        raise ValueError("X must have at least one row; got none")
    if scale is None:
        scale = np.std(rows, axis=0, dtype=np.float64)
    varies = feature_values("scale", scale, model.n_features)
    order = np.argsort(-model.scores(rows), axis=1, kind="stable")[:, :2]
    decided = np.take_along_axis(model.active_path(rows).row, order, axis=1)
    D = np.eye(model.n_features) if model.directions is None else model.directions
    rates = model.W0.astype(np.float64)[:, None] * np.repeat(D.astype(np.float64), 2, axis=0)
    # There are few different pairs of deciding rows, however many samples.
    pairs, counts = np.unique(decided, axis=0, return_counts=True)
    gradients = rates[pairs[:, 0]]
    if model.n_classes > 1:
        gradients = gradients - rates[pairs[:, 1]]
    sizes = varies * np.average(np.abs(gradients), axis=0, weights=counts)
    total = float(sizes.sum())
    return sizes / total if 0.0 < total < np.inf else np.zeros_like(sizes)
