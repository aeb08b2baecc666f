"""Detection of target leakage: columns that alone predict the target nearly perfectly."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_score
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from maxplus.tables import Dataset
from maxplus.tables.schema import REGRESSION

# Accuracy or R² from which a column is reported.
NEARLY_PERFECT = 0.99
# Largest share of a class for which the accuracy is informative.
MAX_CLASS_SHARE = 0.9
# Minimum number of rows, and the numbers of rows and columns that are used at most.
MIN_ROWS, MAX_ROWS, MAX_COLUMNS = 30, 1000, 200
FOLDS, DEPTH = 3, 6


class Leak(NamedTuple):
    """A column, and the held-out accuracy or R² of a small decision tree on that column."""

    column: str
    score: float


def find_leaks(data: Dataset, seed: int = 0) -> list[Leak]:
    """Return the columns on each of which a small decision tree is nearly perfect.

    Three trees are fitted to each of at most 200 columns, on at most 1,000 rows.
    """
    if data.y is None or data.encoder is None or len(data.y) < MIN_ROWS:
        return []
    if data.image_shape is not None:
        return []
    regression = data.target.task == REGRESSION
    rows = np.random.default_rng(seed).permutation(len(data.y))[:MAX_ROWS]
    X, y = data.X[rows], data.y[rows]
    tree: DecisionTreeClassifier | DecisionTreeRegressor
    if regression:
        tree = DecisionTreeRegressor(max_depth=DEPTH, random_state=seed)
        folds = KFold(FOLDS)
    else:
        counts = np.unique(y, return_counts=True)[1]
        if counts.max() > MAX_CLASS_SHARE * len(y) or counts.max() < FOLDS:
            return []
        # Classes with fewer rows than folds are left out.
        kept = np.isin(y, np.unique(y)[counts >= FOLDS])
        X, y = X[kept], y[kept]
        tree = DecisionTreeClassifier(max_depth=DEPTH, random_state=seed)
        folds = StratifiedKFold(FOLDS)
    columns = list(zip(data.encoder.columns_, data.encoder.feature_slices, strict=True))
    found = []
    for column, features in columns[:MAX_COLUMNS]:
        scores = cross_val_score(tree, X[:, features], y, cv=folds)
        if scores.mean() >= NEARLY_PERFECT:
            found.append(Leak(column.name, float(scores.mean())))
    return found
