"""Columns that predict the target nearly perfectly by themselves, which may be leaks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_score
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from maxplus.tables import Samples

# Accuracy, or R² of a regression, from which on a column is named; no class may be more frequent.
NEARLY_PERFECT, MOST_FREQUENT = 0.99, 0.9
# Fewer rows tell little; of more rows and columns than these a part is looked at.
LEAST_ROWS, MOST_ROWS, MOST_COLUMNS = 30, 1000, 200
FOLDS, DEPTH = 3, 6


class Leak(NamedTuple):
    """A column, and the held-out accuracy or R² of a small decision tree on it alone."""

    column: str
    score: float


def find_leaks(samples: Samples, seed: int = 0) -> list[Leak]:
    """Return the columns on which alone a small decision tree is nearly perfect.

    Costs three small trees for each of at most 200 columns, on at most 1,000 rows.
    """
    if samples.y is None or samples.image_shape is not None or len(samples.y) < LEAST_ROWS:
        return []
    regression = samples.encoding.task == "regression"
    rows = np.random.default_rng(seed).permutation(len(samples.y))[:MOST_ROWS]
    X, y = samples.X[rows], samples.y[rows]
    tree: DecisionTreeClassifier | DecisionTreeRegressor
    if regression:
        tree = DecisionTreeRegressor(max_depth=DEPTH, random_state=seed)
        folds = KFold(FOLDS)
    else:
        counts = np.unique(y, return_counts=True)[1]
        if counts.max() > MOST_FREQUENT * len(y) or counts.max() < FOLDS:
            return []
        # A class with fewer rows than folds cannot be predicted, and is no reason to say nothing.
        kept = np.isin(y, np.unique(y)[counts >= FOLDS])
        X, y = X[kept], y[kept]
        tree = DecisionTreeClassifier(max_depth=DEPTH, random_state=seed)
        folds = StratifiedKFold(FOLDS)
    places = zip(samples.encoding.columns, samples.encoding.places, strict=True)
    found = []
    for column, place in list(places)[:MOST_COLUMNS]:
        scores = cross_val_score(tree, X[:, place], y, cv=folds)
        if scores.mean() >= NEARLY_PERFECT:
            found.append(Leak(column.name, float(scores.mean())))
    return found
