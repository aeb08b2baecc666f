"""What a classifier says about rows it has not been trained on, and how good that is."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold

from maxplus.lab.measure import timed
from maxplus.lab.parts import Part
from maxplus.metrics import expected_calibration_error, log_losses

# What an automatic choice is about; a fitted estimator has each with an underscore.
CAPACITY = ("n_hidden", "slope", "directions")


def held_out(model: Any, X: NDArray, y: NDArray, n_folds: int, seed: int) -> Part:
    """Probabilities of every row by a model trained on the other folds, and the seconds of each.

    Parameters
    ----------
    model : a classifier that is not fitted; each fold trains a clone
    X, y : features, and classes 0..C−1
    n_folds, seed : of the stratified folds

    Returns
    -------
    Part
        ``labels``, ``fold`` (N,), ``probabilities`` (N, C); ``fit``, ``predict`` and
        ``fit_given`` (n_folds,): seconds, the last ones of a training whose capacity was given,
        NaN where nothing was chosen.
    """
    P, fold = np.zeros((len(y), int(y.max()) + 1)), np.empty(len(y), int)
    seconds = np.full((3, n_folds), np.nan)
    folds = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
    for k, (train, test) in enumerate(folds.split(X, y)):
        with warnings.catch_warnings():
            # A peer may have a limit to its epochs.
            warnings.simplefilter("ignore", ConvergenceWarning)
            seconds[0, k], fitted = timed(clone(model).fit, X[train], y[train])
        seconds[1, k], probabilities = timed(fitted.predict_proba, X[test])
        # A class whose only row is in this fold has no column.
        P[np.ix_(test, fitted.classes_)] = probabilities
        fold[test] = k
        if hasattr(fitted, "search_"):
            seconds[2, k], _ = timed(with_its_capacity(fitted).fit, X[train], y[train])
    return {"labels": y, "fold": fold, "probabilities": P,
            "fit": seconds[0], "predict": seconds[1], "fit_given": seconds[2]}  # fmt: skip


def with_its_capacity(fitted: Any) -> Any:
    """The same classifier, not fitted, given the capacity that this one has chosen."""
    chosen = {name: getattr(fitted, f"{name}_") for name in CAPACITY if hasattr(fitted, f"{name}_")}
    return clone(fitted).set_params(**chosen)


class Figures(NamedTuple):
    """How good the probabilities of one table's rows are, and what they cost."""

    accuracy: float  # in percent
    log_loss: float
    calibration_error: float  # of all rows together
    calibration_error_within: float  # of each fold by itself, the mean
    seconds: float  # to train and to predict, each fold
    times_given: float  # seconds of training over those with the capacity given

    @classmethod
    def of(cls, part: Part) -> Figures:
        """Judge what `held_out` gave."""
        y, P, fold = part["labels"], part["probabilities"], part["fold"]
        within = [expected_calibration_error(y[fold == k], P[fold == k]) for k in np.unique(fold)]
        chosen = np.isfinite(part["fit_given"]).all()
        return cls(
            100 * float((P.argmax(axis=1) == y).mean()),
            float(log_losses(y, P).mean()),
            expected_calibration_error(y, P),
            float(np.mean(within)),
            float((part["fit"] + part["predict"]).mean()),
            float(part["fit"].sum() / part["fit_given"].sum()) if chosen else 1.0,
        )

    @classmethod
    def mean(cls, some: list[Figures]) -> Figures:
        """Of several seeds, or several tables."""
        return cls(*np.mean(some, axis=0).tolist())
