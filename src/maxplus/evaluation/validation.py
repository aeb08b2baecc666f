"""How good a model is on rows that it has not seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from maxplus.evaluation.held_out import CERTIFIED_AT, COVERAGE, HeldOut, Watch, held_out
from maxplus.evaluation.plans import plan_for
from maxplus.evaluation.rows import as_rows
from maxplus.metrics import (
    ClassifierFigures,
    RegressionFigures,
    judge_classifier,
    judge_regression,
    plain,
    reliability,
)
from maxplus.metrics._intervals import fold_dispersion, score_interval, wilson_interval
from maxplus.tables import ColumnChoices

Figures = ClassifierFigures | RegressionFigures
# What is worth telling about a guess.
GUESSED = ("accuracy", "balanced_accuracy", "log_loss", "auc", "r2", "mae", "rmse")
# Rows of each kind that a document names.
N_NAMED = 25


@dataclass(frozen=True)
class Validation:
    """Figures of held-out rows, beside those of a guess that looks at no feature.

    Attributes
    ----------
    words : how rows were held out
    figures : of the model
    guess : of the classes' frequencies as probabilities, so that the most frequent class is always
        predicted; in a regression, of the mean
    unjudged : rows that were never held out, because no other row or group has their class
    seconds : of all trainings and predictions
    held_out : the predictions themselves
    """

    words: str
    figures: Figures
    guess: Figures
    unjudged: int
    seconds: float
    held_out: HeldOut

    @property
    def dispersion(self) -> float:
        """How much more the accuracy of folds differs than by chance, at least 1."""
        assert isinstance(self.figures, ClassifierFigures)
        right = self.held_out.outcome.argmax(axis=1) == self.held_out.y
        return fold_dispersion(right, self.held_out.fold)

    @property
    def interval(self) -> tuple[float, float]:
        """Where the accuracy on many new rows lies, 95 times of 100.

        Wilson's interval of the held-out rows, widened where folds differ more than by chance.
        """
        assert isinstance(self.figures, ClassifierFigures)
        found = wilson_interval(self.figures.accuracy, self.figures.n_rows / self.dispersion)
        assert found is not None
        return found

    def score_interval(self, n_rows: int) -> tuple[float, float]:
        """Where the accuracy on a table of so many new rows lies, 95 times of 100.

        Parameters
        ----------
        n_rows : int

        Returns
        -------
        low, high : float
        """
        assert isinstance(self.figures, ClassifierFigures)
        n = self.figures.n_rows / self.dispersion
        return score_interval(self.figures.accuracy, n, n_rows)

    @property
    def certified(self) -> float | None:
        """The share of rows that are right and stay so for changes up to 0.1 deviations."""
        return self.held_out.certified

    @property
    def seconds_each(self) -> float:
        """Of one training and its predictions, the mean."""
        return float(self.held_out.seconds.mean())

    @property
    def guessed(self) -> str:
        """The class that is guessed, or "the mean"."""
        if isinstance(self.guess, RegressionFigures):
            return "the mean"
        return max(self.guess.classes, key=lambda one: one.n_predicted).label

    def to_json(self) -> dict[str, Any]:
        """All but the predictions, as numbers, words, lists and dicts.

        Returns
        -------
        dict
        """
        guess = self.guess.to_json()
        document: dict[str, Any] = {
            "how": self.words,
            "figures": self.figures.to_json(),
            "guess": {name: guess[name] for name in GUESSED if name in guess},
            "rows_never_held_out": self.unjudged,
            "seconds": self.seconds,
        }
        if isinstance(self.figures, RegressionFigures):
            return document | {"coverage_promised": COVERAGE}
        # Rows are in the order of the folds here; the user counts them otherwise.
        document["figures"]["worst"] = int(self.held_out.names[self.figures.worst])
        document["guess"]["label"] = self.guessed
        document["dispersion"] = self.dispersion
        document["accuracy_interval"] = list(self.interval)
        document |= self._told_by_row()
        if self.certified is not None:
            document["certified"] = {"eps": CERTIFIED_AT, "accuracy": self.certified}
        return document

    def _told_by_row(self) -> dict[str, Any]:
        """How far probabilities can be trusted, and the rows that a classifier has trouble with."""
        assert isinstance(self.figures, ClassifierFigures)
        y, P = self.held_out.y, self.held_out.outcome
        labels = [one.label for one in self.figures.classes]
        own, top, best = P[np.arange(len(y)), y], P.max(axis=1), P.argmax(axis=1)

        def named(order: NDArray) -> list[dict[str, Any]]:
            return [
                {
                    "row": int(self.held_out.names[n]), "label": labels[y[n]],
                    "predicted": labels[best[n]], "probability": float(top[n]),
                    "own_probability": float(own[n]),
                }
                for n in order[:N_NAMED]
            ]  # fmt: skip

        return {
            "reliability": plain(reliability(y, P)),
            "least_sure": named(np.argsort(top, kind="stable")),
            "most_surprising": named(np.argsort(own, kind="stable")),
        }


def validate(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    how: str | int | float = "auto",
    choices: ColumnChoices | None = None,
    random_state: int = 0,
    watch: Watch = lambda done: None,
    callbacks: Sequence[Callable] = (),
) -> Validation:
    """Hold rows out, train on the others and judge; everything is chosen again in each training.

    That is: columns, categories, fill-ins and scales as well as a capacity. So a column that
    only serves to know rows again, or a model that only remembers them, looks as bad as it is.

    Parameters
    ----------
    model : a classifier with ``predict_proba``, or a regressor; it is cloned and stays as it is
    X : a data frame with words, holes and the target, a `maxplus.tables.RawTable`, or an array
    y : labels or numbers, if they are no column of X
    how : "auto" (five folds up to 2,000 rows, three up to 10,000, a fifth held out beyond), "cv",
        a number of folds, or a share to hold out
    choices : what is to be overruled about the columns (`maxplus.tables.ColumnChoices`); rows of
        one value of its ``groups`` are held out together
    random_state : of the shuffling
    watch : told how many trainings are done
    callbacks : for trainings of estimators of this library

    Returns
    -------
    Validation

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxplus import LMMClassifier, validate
    >>> X, y = load_iris(return_X_y=True)
    >>> found = validate(LMMClassifier(9, slope=5.0, warmup_epochs=5, random_state=0), X, y)
    >>> found.words, found.figures.accuracy > 0.9, round(found.guess.accuracy, 2)
    ('5-fold cross-validation', True, 0.33)
    """
    rows = as_rows(X, y, choices)
    classify = is_classifier(model)
    plan = plan_for(rows.y, how, classes=classify, seed=random_state, groups=rows.groups)
    found = held_out(model, rows, plan, watch, callbacks)
    labels = np.unique(rows.y) if classify else None
    return Validation(
        plan.words, _judge(found, labels), _judge_guess(found, labels), plan.unjudged,
        float(found.seconds.sum()), found,
    )  # fmt: skip


def _judge(found: HeldOut, labels: Any) -> Figures:
    if labels is None:
        return judge_regression(found.y, found.outcome, *(found.interval or ()))
    return judge_classifier(found.y, found.outcome, labels)


def _judge_guess(found: HeldOut, labels: Any) -> Figures:
    if labels is None:
        return judge_regression(found.y, np.full(len(found.y), found.y.mean()))
    frequencies = np.bincount(found.y, minlength=len(labels)) / len(found.y)
    return judge_classifier(found.y, np.tile(frequencies, (len(found.y), 1)), labels)
