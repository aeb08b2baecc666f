"""What models say about rows that they have not been trained on."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning

from maxplus.evaluation.plans import Plan, Split
from maxplus.evaluation.rows import Rows

# How far features move, in deviations of the training rows, where certified accuracy is counted.
CERTIFIED_AT = 0.1
# What intervals of a regression promise.
COVERAGE = 0.9

# Told how many trainings are done, before the first and after each.
Watch = Callable[[int], None]


@dataclass(frozen=True)
class HeldOut:
    """Predictions of n rows by models that have not seen them, in the order of the folds.

    Attributes
    ----------
    rows, names, fold : which row of the data, what users call it, and its fold
    seconds : of each fold, to train and to predict
    y : the rows' classes as columns of ``outcome``, or their numbers
    outcome : probabilities (n, C), or predictions (n,)
    certified : the share of rows that are right and provably stay so while all features move by up
        to 0.1 of their deviation in training; None where the model offers no proof
    interval : lower and upper bounds for 90 %; None where the model has none
    """

    rows: NDArray
    names: NDArray
    fold: NDArray
    seconds: NDArray
    y: NDArray
    outcome: NDArray
    certified: float | None = None
    interval: tuple[NDArray, NDArray] | None = None


def held_out(
    model: Any, rows: Rows, plan: Plan, watch: Watch = lambda done: None,
    callbacks: Sequence[Callable] = (),
) -> HeldOut:  # fmt: skip
    """Train a clone of the model on each split and let it predict what was held out.

    All that is chosen from data, a capacity as well as columns, is chosen again in each split.

    Parameters
    ----------
    model : a classifier or regressor that is not fitted
    rows, plan : the data, and which of them are held out when
    watch : told how many splits are done
    callbacks : for the trainings of models that have a parameter of this name
    """
    classify = is_classifier(model)
    classes = np.unique(rows.y) if classify else None
    parts = []
    watch(0)
    for done, split in enumerate(plan.splits, 1):
        parts.append(_judged(model, rows, split, classes, callbacks))
        watch(done)
    lengths = [len(test) for _, test in plan.splits]
    joined = {
        name: np.concatenate([part[name] for part in parts])
        for name in ("outcome", "lower", "upper")
        if parts[0][name] is not None
    }
    shares = [part["certified"] for part in parts]
    tests = np.concatenate([test for _, test in plan.splits])
    return HeldOut(
        rows=tests,
        names=rows.names[tests],
        fold=np.repeat(np.arange(len(lengths)), lengths),
        seconds=np.array([part["seconds"] for part in parts]),
        y=rows.y[tests] if classes is None else np.searchsorted(classes, rows.y[tests]),
        outcome=joined["outcome"],
        certified=None if None in shares else float(np.average(shares, weights=lengths)),
        interval=(joined["lower"], joined["upper"]) if "lower" in joined else None,
    )


def _judged(
    model: Any, rows: Rows, split: Split, classes: NDArray | None, callbacks: Sequence[Callable]
) -> dict[str, Any]:
    """One split's predictions."""
    training, test = split
    X, X_test, scale = rows.features(training, test)
    began = time.perf_counter()
    fitted = _fitted(model, X, rows.y[training], callbacks)
    outcome = fitted.predict(X_test) if classes is None else fitted.predict_proba(X_test)
    part: dict[str, Any] = dict.fromkeys(("certified", "lower", "upper"))
    part["seconds"] = time.perf_counter() - began
    if classes is None:
        part["outcome"] = outcome
        if hasattr(fitted, "predict_interval"):
            part["lower"], part["upper"] = fitted.predict_interval(X_test, COVERAGE)
        return part
    # A class may have no row in this part: then it has no column there.
    P = np.zeros((len(test), len(classes)))
    P[:, np.searchsorted(classes, fitted.classes_)] = outcome
    part["outcome"] = P
    if hasattr(fitted, "certified_accuracy"):
        part["certified"] = fitted.certified_accuracy(X_test, rows.y[test], CERTIFIED_AT, scale)
    return part


def _fitted(model: Any, X: NDArray, y: NDArray, callbacks: Sequence[Callable]) -> Any:
    """Return a trained clone."""
    fresh = clone(model)
    if "callbacks" in fresh.get_params(deep=False):
        fresh.set_params(callbacks=list(callbacks) or None)
    with warnings.catch_warnings():
        # Others may have a limit to their epochs.
        warnings.simplefilter("ignore", ConvergenceWarning)
        fresh.fit(X, y)
    return fresh
