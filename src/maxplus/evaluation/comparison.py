"""Comparison of models on the same held-out rows."""

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

LMM, ENSEMBLE = "LMM", "ensemble"
# Kind of explanation that a model provides; models that are not listed provide none.
EXPLANATIONS = {
    LMM: "exact",
    ENSEMBLE: "exact",
    "logistic": "weights",
    "ridge": "weights",
    "kNN": "neighbours",
}

# Values of max_iter. With more epochs, the log loss of an MLP increases on most small tables.
LOGISTIC_MAX_ITER, MLP_MAX_ITER = 2_000, 400


def _scaled(model: Any) -> Any:
    return make_pipeline(StandardScaler(), model)


def _scaled_with_target(model: Any) -> Any:
    return TransformedTargetRegressor(_scaled(model), transformer=StandardScaler())


# Factories that take a seed. SVC is calibrated, because it does not estimate probabilities.
SKLEARN_CLASSIFIERS: dict[str, Callable[[int], Any]] = {
    "logistic": lambda seed: _scaled(LogisticRegression(max_iter=LOGISTIC_MAX_ITER)),
    "kNN": lambda seed: _scaled(KNeighborsClassifier()),
    "forest": lambda seed: _scaled(RandomForestClassifier(random_state=seed)),
    "forest calibrated": lambda seed: _scaled(
        CalibratedClassifierCV(RandomForestClassifier(random_state=seed))
    ),
    "boosting": lambda seed: _scaled(HistGradientBoostingClassifier(random_state=seed)),
    "MLP": lambda seed: _scaled(MLPClassifier(max_iter=MLP_MAX_ITER, random_state=seed)),
    "SVC": lambda seed: _scaled(CalibratedClassifierCV(SVC(), ensemble=False)),
}
# Classifiers that are compared only in experiments.
NOT_DEFAULT = ("forest calibrated",)
# The target is standardised for models that are sensitive to its scale.
SKLEARN_REGRESSORS: dict[str, Callable[[int], Any]] = {
    "ridge": lambda seed: _scaled(RidgeCV()),
    "kNN": lambda seed: _scaled(KNeighborsRegressor()),
    "forest": lambda seed: _scaled(RandomForestRegressor(random_state=seed)),
    "boosting": lambda seed: _scaled(HistGradientBoostingRegressor(random_state=seed)),
    "MLP": lambda seed: _scaled_with_target(MLPRegressor(max_iter=MLP_MAX_ITER, random_state=seed)),
    "SVR": lambda seed: _scaled_with_target(SVR()),
}


@dataclass(frozen=True)
class Comparison:
    """Validations of several models on the same splits, by name."""

    validations: dict[str, Validation]

    def to_json(self) -> dict[str, Any]:
        """Return the JSON-compatible validation of each model, with the mean time per split.

        Returns
        -------
        dict
        """
        return {
            name: validation.to_json()
            | {
                "seconds_per_split": validation.seconds_per_split,
                "explanation": EXPLANATIONS.get(name),
            }
            for name, validation in self.validations.items()
        }


def default_models(*, regression: bool = False, seed: int = 0) -> dict[str, Any]:
    """Return the default models of ``maxplus.compare``.

    Parameters
    ----------
    regression : bool, default=False
        Return regressors instead of classifiers.
    seed : int, default=0
        Seed of the models that use random numbers.

    Returns
    -------
    dict of str to estimator
        Models by name.

    Examples
    --------
    >>> from maxplus.evaluation import default_models
    >>> "logistic" in default_models()
    True
    """
    if regression:
        models: dict[str, Any] = {LMM: LMMRegressor(random_state=seed)}
        return models | {name: make(seed) for name, make in SKLEARN_REGRESSORS.items()}
    models = {
        LMM: LMMClassifier(random_state=seed),
        ENSEMBLE: LMMEnsembleClassifier(random_state=seed),
    }
    return models | {
        name: make(seed) for name, make in SKLEARN_CLASSIFIERS.items() if name not in NOT_DEFAULT
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
    """Validate several models on the same splits.

    Parameters
    ----------
    X, y
        As in `validate`.
    models : dict of str to estimator, optional
        Classifiers with ``predict_proba``, or regressors. By default,
        `maxplus.evaluation.default_models`.
    cv, groups, encoder, random_state
        As in `validate`.
    on_progress : callable
        Function of the name of a model and the number of its finished fits.

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
    >>> result = compare(X, y, models, cv=2)
    >>> {name: v.metrics.accuracy > 0.8 for name, v in result.validations.items()}
    {'LMM': True, 'kNN': True}
    """
    data = as_dataset(X, y, groups)
    if models is None:
        models = default_models(regression=data.target.task == REGRESSION, seed=random_state)
    is_dict = isinstance(models, Mapping) and bool(models)
    if not is_dict or not all(hasattr(model, "fit") for model in models.values()):
        raise TypeError(f"models must be a dict that maps names to estimators; got {models!r:.80}")
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
