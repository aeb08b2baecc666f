"""Columns that predict the target nearly perfectly by themselves, which may be leaks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_score
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from maxplus.tables import Dataset
from maxplus.tables.schema import REGRESSION

# Accuracy, or R² of a regression, from which on a column is named; no class may be more frequent.
NEARLY_PERFECT, MOST_FREQUENT = 0.99, 0.9
# Minimum number of rows; of more rows and columns than these a part is used.
LEAST_ROWS, MOST_ROWS, MOST_COLUMNS = 30, 1000, 200
FOLDS, DEPTH = 3, 6


class Leak(NamedTuple):
    """A column, and the held-out accuracy or R² of a small decision tree on it alone."""

    column: str
    score: float


def find_leaks(data: Dataset, seed: int = 0) -> list[Leak]:
    """Return the columns on which alone a small decision tree is nearly perfect.

    Costs three small trees for each of at most 200 columns, on at most 1,000 rows.
    """
    if data.y is None or data.encoder is None or len(data.y) < LEAST_ROWS:
        return []
    if data.image_shape is not None:
        return []
    regression = data.target.task == REGRESSION
    rows = np.random.default_rng(seed).permutation(len(data.y))[:MOST_ROWS]
    X, y = data.X[rows], data.y[rows]
    tree: DecisionTreeClassifier | DecisionTreeRegressor
    if regression:
        tree = DecisionTreeRegressor(max_depth=DEPTH, random_state=seed)
        folds = KFold(FOLDS)
    else:
        counts = np.unique(y, return_counts=True)[1]
        if counts.max() > MOST_FREQUENT * len(y) or counts.max() < FOLDS:
            return []
        # A class with fewer rows than folds cannot be predicted in all of them.
        kept = np.isin(y, np.unique(y)[counts >= FOLDS])
        X, y = X[kept], y[kept]
        tree = DecisionTreeClassifier(max_depth=DEPTH, random_state=seed)
        folds = StratifiedKFold(FOLDS)
    places = zip(data.encoder.columns_, data.encoder.places, strict=True)
    found = []
    for column, place in list(places)[:MOST_COLUMNS]:
        scores = cross_val_score(tree, X[:, place], y, cv=folds)
        if scores.mean() >= NEARLY_PERFECT:
            found.append(Leak(column.name, float(scores.mean())))
    return found
