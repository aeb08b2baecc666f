"""What else a user of scikit-learn would take for a table, with as little tuning as our default."""

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

# Until nothing gets better. An MLP that goes on for longer than this gets surer of itself, but not
# better: its log loss rises on most small tables.
ITERATIONS, EPOCHS = 2_000, 400


def _scaled(model: Any) -> Any:
    return make_pipeline(StandardScaler(), model)


def _both_scaled(model: Any) -> Any:
    return TransformedTargetRegressor(_scaled(model), transformer=StandardScaler())


# Given a seed. Support vectors have no probabilities of their own: scikit-learn's are sigmoids of
# scores that five folds have held out.
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
# The same for numbers; what depends on the target's size gets it standardised.
REGRESSION_PEERS: dict[str, Callable[[int], Any]] = {
    "ridge": lambda seed: _scaled(RidgeCV()),
    "kNN": lambda seed: _scaled(KNeighborsRegressor()),
    "forest": lambda seed: _scaled(RandomForestRegressor(random_state=seed)),
    "boosting": lambda seed: _scaled(HistGradientBoostingRegressor(random_state=seed)),
    "MLP": lambda seed: _both_scaled(MLPRegressor(max_iter=EPOCHS, random_state=seed)),
    "SVR": lambda seed: _both_scaled(SVR()),
}
