"""Predictions of a classifier for rows it was not trained on, and their quality."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from experiments.harness import Part
from experiments.measure import timed, timed_cpu
from maxplus.metrics import expected_calibration_error, log_losses


def held_out(model: Any, X: NDArray, y: NDArray, splitter: Any) -> Part:
    """Return the probabilities of held-out rows, and the seconds of each training.

    Parameters
    ----------
    model : a classifier that is not fitted; each split trains a clone
    X, y : features, and classes 0..C−1
    splitter : scikit-learn's splitter; no row may be held out twice

    Returns
    -------
    Part
        Of the N rows that were held out: ``labels``, ``fold`` (N,), ``probabilities`` (N, C). Of
        the S splits: ``fit`` and ``predict``, seconds, and ``fit_cpu``, seconds of all threads;
        if the model has chosen among candidates, ``chosen``, their numbers, and ``structures``,
        the same in words.
    """
    P, fold = np.zeros((len(y), int(y.max()) + 1)), np.full(len(y), -1)
    seconds = np.empty((3, splitter.get_n_splits(X, y)))
    chosen, structures = [], []
    for k, (train, test) in enumerate(splitter.split(X, y)):
        with warnings.catch_warnings():
            # A peer may have a limit to its epochs; EBM cannot draw all that it has trained.
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.filterwarnings("ignore", "For multiclass we cannot currently visualize pairs")
            seconds[0, k], (seconds[1, k], fitted) = timed(
                timed_cpu, clone(model).fit, X[train], y[train]
            )
        seconds[2, k], probabilities = timed(fitted.predict_proba, X[test])
        # A class whose only row is in this fold has no column.
        P[np.ix_(test, fitted.classes_)] = probabilities
        fold[test] = k
        if hasattr(fitted, "search_"):
            chosen.append(fitted.search_["chosen"])
            structures.append(str(fitted.search_["candidates"][chosen[-1]]))
    known = fold >= 0
    part = {
        "labels": y[known],
        "fold": fold[known],
        "probabilities": P[known],
        "fit": seconds[0],
        "fit_cpu": seconds[1],
        "predict": seconds[2],
    }
    choices = {"chosen": np.array(chosen), "structures": np.array(structures)}
    return part | (choices if chosen else {})


class Figures(NamedTuple):
    """Quality of the probabilities of one table's rows, and their cost."""

    accuracy: float  # in percent
    log_loss: float
    calibration_error: float  # of all rows together
    calibration_error_within: float  # of each fold by itself, the mean
    fit_seconds: float  # of one fold, as are the following
    fit_cpu_seconds: float  # of all threads
    predict_seconds: float

    @classmethod
    def of(cls, part: Part) -> Figures:
        """Judge what `held_out` returned."""
        y, P, fold = part["labels"], part["probabilities"], part["fold"]
        within = [expected_calibration_error(y[fold == k], P[fold == k]) for k in np.unique(fold)]
        return cls(
            100 * float((P.argmax(axis=1) == y).mean()),
            float(log_losses(y, P).mean()),
            expected_calibration_error(y, P),
            float(np.mean(within)),
            *(float(part[name].mean()) for name in ("fit", "fit_cpu", "predict")),
        )

    @classmethod
    def mean(cls, some: list[Figures]) -> Figures:
        """Average over several seeds, or several tables."""
        return cls(*np.mean(some, axis=0).tolist())
