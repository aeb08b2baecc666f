"""Detection of target leakage by single columns."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_score
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from maxplus.tables import Dataset
from maxplus.tables.schema import REGRESSION

# Minimum accuracy or R² of a column that is reported.
MIN_SCORE = 0.99
# Accuracy is not informative if a class has more than this fraction of the rows.
MAX_CLASS_SHARE = 0.9
# Tables with fewer rows are not checked; larger tables are subsampled.
MIN_ROWS, MAX_ROWS, MAX_COLUMNS = 30, 1000, 200
N_FOLDS, MAX_DEPTH = 3, 6


class Leak(NamedTuple):
    """A column and the cross-validated accuracy or R² of a decision tree fitted to it."""

    column: str
    score: float


def find_leaks(data: Dataset) -> list[Leak]:
    """Return the columns that alone predict the target almost perfectly.

    A decision tree is cross-validated on each of the first 200 columns, with up to 1,000 rows.
    Classes with fewer rows than there are folds are ignored.
    """
    if data.y is None or data.encoder is None or data.image_shape is not None:
        return []
    if len(data.y) < MIN_ROWS:
        return []
    regression = data.target.task == REGRESSION
    rows = np.random.default_rng(0).permutation(len(data.y))[:MAX_ROWS]
    X, y = data.X[rows], data.y[rows]
    tree: DecisionTreeClassifier | DecisionTreeRegressor
    if regression:
        tree = DecisionTreeRegressor(max_depth=MAX_DEPTH, random_state=0)
        folds = KFold(N_FOLDS)
    else:
        classes, counts = np.unique(y, return_counts=True)
        # StratifiedKFold warns about classes with fewer rows than there are folds.
        kept = np.isin(y, classes[counts >= N_FOLDS])
        X, y = X[kept], y[kept]
        if not len(y) or counts.max() > MAX_CLASS_SHARE * len(y):
            return []
        tree = DecisionTreeClassifier(max_depth=MAX_DEPTH, random_state=0)
        folds = StratifiedKFold(N_FOLDS)
    columns = list(zip(data.encoder.columns_, data.encoder.feature_slices, strict=True))
    leaks = []
    for column, features in columns[:MAX_COLUMNS]:
        scores = cross_val_score(tree, X[:, features], y, cv=folds)
        if scores.mean() >= MIN_SCORE:
            leaks.append(Leak(column.name, float(scores.mean())))
    return leaks
