"""Usual models of scikit-learn for tables, with as little tuning as the default here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

# Until convergence. An MLP that is trained for longer becomes more confident, but not better: its
# log loss rises on most small tables.
ITERATIONS, EPOCHS = 2_000, 400


def _scaled(model: Any) -> Any:
    return make_pipeline(StandardScaler(), model)


def _both_scaled(model: Any) -> Any:
    return TransformedTargetRegressor(_scaled(model), transformer=StandardScaler())


# Functions of a seed. Support vector machines have no probabilities: sigmoids of their scores are
# fitted by cross-validation.
PEERS: dict[str, Callable[[int], Any]] = {
    "logistic": lambda seed: _scaled(LogisticRegression(max_iter=ITERATIONS)),
    "kNN": lambda seed: _scaled(KNeighborsClassifier()),
    "forest": lambda seed: _scaled(RandomForestClassifier(random_state=seed)),
    "forest calibrated": lambda seed: _scaled(
        CalibratedClassifierCV(RandomForestClassifier(random_state=seed))
    ),
    "boosting": lambda seed: _scaled(HistGradientBoostingClassifier(random_state=seed)),
    "MLP": lambda seed: _scaled(MLPClassifier(max_iter=EPOCHS, random_state=seed)),
    "SVC": lambda seed: _scaled(CalibratedClassifierCV(SVC(), ensemble=False)),
}
# Regressors; those that depend on the scale of the target get it standardised.
REGRESSION_PEERS: dict[str, Callable[[int], Any]] = {
    "ridge": lambda seed: _scaled(RidgeCV()),
    "kNN": lambda seed: _scaled(KNeighborsRegressor()),
    "forest": lambda seed: _scaled(RandomForestRegressor(random_state=seed)),
    "boosting": lambda seed: _scaled(HistGradientBoostingRegressor(random_state=seed)),
    "MLP": lambda seed: _both_scaled(MLPRegressor(max_iter=EPOCHS, random_state=seed)),
    "SVR": lambda seed: _both_scaled(SVR()),
}
