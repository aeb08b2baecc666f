"""What a fitted model says about many rows, some of them at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxplus.estimators._data import checked_rows, within_range
from maxplus.estimators._threads import threads
from maxplus.models import Network

# Features and scores of the rows that are looked at together: 8 MB in float64, and many enough
# for every thread.
VALUES_AT_ONCE = 1 << 20

Answer = Callable[[NDArray], NDArray]


def answers(estimator: Any, X: Any, model: Network, slopes: Sequence[str], say: Answer) -> NDArray:
    """What ``say`` makes of the scores (n, C), one entry or row for each of X's; O(N·P·H).

    Beyond the answers, memory does not grow with the number of rows: neither their scores nor
    rows in the model's own type are there all at once.
    """
    X = checked_rows(estimator, X, finite=False)
    n_rows = X.shape[0]
    size = max(1, VALUES_AT_ONCE // (model.n_features + model.n_classes))
    found = None
    with threads(estimator.n_jobs):
        for start in range(0, n_rows, size):
            rows = slice(start, start + size)
            block = within_range(X[rows], model, slopes, estimator)
            part = say(model.scores(block))
            if n_rows <= size:
                return np.ascontiguousarray(part)
            if found is None:
                found = np.empty((n_rows, *part.shape[1:]), part.dtype)
            found[rows] = part
    assert found is not None
    return found
