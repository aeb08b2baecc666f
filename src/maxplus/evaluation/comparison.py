"""Comparison of several models on the same held-out rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from maxplus.estimators import LMMClassifier, LMMEnsembleClassifier, LMMRegressor
from maxplus.evaluation.sklearn_models import SKLEARN_CLASSIFIERS, SKLEARN_REGRESSORS
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


@dataclass(frozen=True)
class Comparison:
    """Validations of several models, by name, all with the same rows held out."""

    validations: dict[str, Validation]

    def to_json(self) -> dict[str, Any]:
        """Return plain data by model, with the seconds of one training and its predictions.

        Returns
        -------
        dict
        """
        return {
            name: one.to_json()
            | {"seconds_per_training": one.seconds_each, "explainable": EXPLAINED.get(name)}
            for name, one in self.validations.items()
        }


def usual_models(*, regression: bool = False, seed: int = 0) -> dict[str, Any]:
    """Return models of this library and common ones of scikit-learn, with their defaults.

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
    on_progress : called with the name of a model and the number of its finished trainings

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
