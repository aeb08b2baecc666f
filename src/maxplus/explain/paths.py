"""What decided each score: one unit and, in it, one feature."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxplus.explain._checks import check_lmm
from maxplus.models import LMM
from maxplus.models._checks import as_rows

# Rows whose (H, C) scores of all units are formed together.
ROWS_AT_ONCE = 256


class Paths(NamedTuple):
    """Arrays of shape (N, C): each class score's active path and its runner-up.

    z_d = W0[row]·x[feature] + W1[row, unit] + W2[unit, d]: the rest has no say.
    """

    score: NDArray
    unit: NDArray
    row: NDArray
    runner_up: NDArray  # the second best unit, −1 if there is none
    margin: NDArray  # by how much the unit is ahead of it, NaN if there is none

    @property
    def feature(self) -> NDArray:
        """The deciding feature."""
        return self.row // 2


def decisive_paths(model: LMM, X: NDArray) -> Paths:
    """Active paths and runner-up units of all scores; O(N·H·(P + C)).

    Parameters
    ----------
    model : LMM
    X : array of shape (N, P)

    Returns
    -------
    Paths

    Examples
    --------
    >>> from maxplus.explain import decisive_paths
    >>> from sklearn.datasets import load_iris
    >>> from maxplus import LMMClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = LMMClassifier(6, slope=4.0, warmup_epochs=2, random_state=0).fit(X, y)
    >>> model = clf.model_
    >>> path = decisive_paths(model, X[:1])
    >>> h, i = path.unit[0, 0], path.row[0, 0]
    >>> z = model.W0[i] * X[0, i // 2] + model.W1[i, h] + model.W2[h, 0]
    >>> bool(abs(z - path.score[0, 0]) < 1e-9)
    True
    """
    check_lmm(model, "paths are those of", "contributions explains sums of terms")
    X = as_rows(X, model.n_features, model.dtype)
    unit, row = model.active_path(X)
    runner_up = np.full(unit.shape, -1)
    margin = np.full(unit.shape, np.nan)
    if model.n_hidden > 1:
        for lo in range(0, len(X), ROWS_AT_ONCE):
            part = slice(lo, lo + ROWS_AT_ONCE)
            scores = model.hidden(X[part])[:, :, None] + model.W2
            best = np.take_along_axis(scores, unit[part][:, None], axis=1)[:, 0]
            np.put_along_axis(scores, unit[part][:, None], -np.inf, axis=1)
            runner_up[part] = scores.argmax(axis=1)
            margin[part] = best - scores.max(axis=1)
    return Paths(model.scores(X), unit, row, runner_up, margin)
