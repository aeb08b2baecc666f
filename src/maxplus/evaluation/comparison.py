"""Several models on the same held-out rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from maxplus.estimators import LMMClassifier, LMMEnsembleClassifier, LMMRegressor
from maxplus.evaluation.peers import PEERS, REGRESSION_PEERS
from maxplus.evaluation.rows import as_rows
from maxplus.evaluation.validation import Validation, validate
from maxplus.tables import ColumnChoices

OURS, ENSEMBLE = "LMM", "ensemble"
# How a prediction can be told from the model itself; of the others it cannot.
EXPLAINED = {
    OURS: "exactly", ENSEMBLE: "exactly", "logistic": "weights", "ridge": "weights",
    "kNN": "neighbours",
}  # fmt: skip
# Told which model is at work, and how many of its trainings are done.
CompareWatch = Callable[[str, int], None]


@dataclass(frozen=True)
class Comparison:
    """A validation by model, all with the same rows held out."""

    validations: dict[str, Validation]

    def to_json(self) -> dict[str, Any]:
        """Numbers and words by model, with the seconds of one training and its predictions.

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
    """Those of this library, and what else a user of scikit-learn would take.

    Parameters
    ----------
    regression : bool, default=False
        Whether numbers are to be predicted.
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
        return ours | {name: make(seed) for name, make in REGRESSION_PEERS.items()}
    ours = {
        OURS: LMMClassifier(random_state=seed), ENSEMBLE: LMMEnsembleClassifier(random_state=seed),
    }  # fmt: skip
    return ours | {name: make(seed) for name, make in PEERS.items() if " " not in name}


def compare(
    X: Any,
    y: Any = None,
    models: Mapping[str, Any] | None = None,
    *,
    how: str | int | float = "auto",
    choices: ColumnChoices | None = None,
    random_state: int = 0,
    watch: CompareWatch = lambda name, done: None,
) -> Comparison:
    """Validate each model with the same rows held out.

    Parameters
    ----------
    X, y : as in `validate`
    models : mapping of names and estimators, optional
        Classifiers with ``predict_proba``, or regressors; those of
        `maxplus.evaluation.usual_models` by default.
    how, choices, random_state : as in `validate`
    watch : told the model at work, and how many of its trainings are done

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
    >>> found = compare(X, y, models, how=2)
    >>> {name: one.figures.accuracy > 0.8 for name, one in found.validations.items()}
    {'LMM': True, 'kNN': True}
    """
    rows = as_rows(X, y, choices)
    if models is None:
        models = usual_models(regression=rows.regression, seed=random_state)
    return Comparison({
        name: validate(
            model, rows, how=how, random_state=random_state, watch=partial(watch, name)
        )
        for name, model in models.items()
    })  # fmt: skip
