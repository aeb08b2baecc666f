"""Comparison of several models on the same held-out rows.

Models of scikit-learn have their default parameters, like those of this library.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
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

from maxplus.estimators import LMMClassifier, LMMEnsembleClassifier, LMMRegressor
from maxplus.evaluation.validation import Validation, as_dataset, validate
from maxplus.tables import TableEncoder
from maxplus.tables.schema import REGRESSION

OURS, ENSEMBLE = "LMM", "ensemble"
# Kinds of explanation that models of this library provide; other models have none.
EXPLAINED = {
    OURS: "exactly",
    ENSEMBLE: "exactly",
    "logistic": "weights",
    "ridge": "weights",
    "kNN": "neighbours",
}


# Maximum numbers of iterations. With more epochs, the log loss of an MLP increases on most small
# tables.
ITERATIONS, EPOCHS = 2_000, 400


def _scaled(model: Any) -> Any:
    return make_pipeline(StandardScaler(), model)


def _both_scaled(model: Any) -> Any:
    return TransformedTargetRegressor(_scaled(model), transformer=StandardScaler())


# Functions of a seed. Support vector machines, which have no probabilities, are calibrated by
# cross-validation.
SKLEARN_CLASSIFIERS: dict[str, Callable[[int], Any]] = {
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
# For models that depend on the scale of the target, it is standardised.
SKLEARN_REGRESSORS: dict[str, Callable[[int], Any]] = {
    "ridge": lambda seed: _scaled(RidgeCV()),
    "kNN": lambda seed: _scaled(KNeighborsRegressor()),
    "forest": lambda seed: _scaled(RandomForestRegressor(random_state=seed)),
    "boosting": lambda seed: _scaled(HistGradientBoostingRegressor(random_state=seed)),
    "MLP": lambda seed: _both_scaled(MLPRegressor(max_iter=EPOCHS, random_state=seed)),
    "SVR": lambda seed: _both_scaled(SVR()),
}


@dataclass(frozen=True)
class Comparison:
    """Validations of several models, by name, all with the same rows held out."""

    validations: dict[str, Validation]

    def to_json(self) -> dict[str, Any]:
        """Return JSON data by model, with the mean seconds of one fit and its predictions.

        Returns
        -------
        dict
        """
        return {
            name: found.to_json()
            | {"seconds_per_training": found.seconds_each, "explainable": EXPLAINED.get(name)}
            for name, found in self.validations.items()
        }


def usual_models(*, regression: bool = False, seed: int = 0) -> dict[str, Any]:
    """Return models of this library and of scikit-learn, with default parameters.

    Parameters
    ----------
    regression : bool, default=False
        Return regressors instead of classifiers.
    seed : int, default=0

    Returns
    -------
    dict of estimators by name

    Examples
    --------
    >>> from maxplus.evaluation import usual_models
    >>> "logistic" in usual_models()
    True
    """
    if regression:
        ours: dict[str, Any] = {OURS: LMMRegressor(random_state=seed)}
        return ours | {name: make(seed) for name, make in SKLEARN_REGRESSORS.items()}
    ours = {
        OURS: LMMClassifier(random_state=seed),
        ENSEMBLE: LMMEnsembleClassifier(random_state=seed),
    }
    return ours | {
        name: make(seed) for name, make in SKLEARN_CLASSIFIERS.items() if " " not in name
    }


def compare(
    X: Any,
    y: Any = None,
    models: Mapping[str, Any] | None = None,
    *,
    cv: str | int | float = "auto",
    groups: Any = None,
    encoder: TableEncoder | None = None,
    random_state: int = 0,
    on_progress: Callable[[str, int], None] = lambda name, done: None,
) -> Comparison:
    """Validate each model with the same rows held out.

    Parameters
    ----------
    X, y : as in `validate`
    models : mapping of names and estimators, optional
        Classifiers with ``predict_proba``, or regressors; those of
        `maxplus.evaluation.usual_models` by default.
    cv, groups, encoder, random_state : as in `validate`
    on_progress : called with the name of a model and the number of its finished fits

    Returns
    -------
    Comparison

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from maxplus import LMMClassifier, compare
    >>> X, y = load_iris(return_X_y=True)
    >>> models = {"LMM": LMMClassifier(6, slope=4.0, warmup_epochs=2, random_state=0),
    ...           "kNN": KNeighborsClassifier()}
    >>> found = compare(X, y, models, cv=2)
    >>> {name: one.figures.accuracy > 0.8 for name, one in found.validations.items()}
    {'LMM': True, 'kNN': True}
    """
    data = as_dataset(X, y, groups)
    if models is None:
        models = usual_models(regression=data.target.task == REGRESSION, seed=random_state)
    return Comparison(
        {
            name: validate(
                model,
                data,
                cv=cv,
                encoder=encoder,
                random_state=random_state,
                on_progress=partial(on_progress, name),
            )
            for name, model in models.items()
        }
    )
