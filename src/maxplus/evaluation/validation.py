"""Validation of a model on held-out rows."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.exceptions import ConvergenceWarning

from maxplus.evaluation.splits import Splits, make_splits
from maxplus.explain import Domain
from maxplus.metrics import (
    ClassificationMetrics,
    RegressionMetrics,
    RobustErrors,
    classification_metrics,
    regression_metrics,
    reliability,
    to_jsonable,
)
from maxplus.metrics._intervals import fold_dispersion, score_interval, wilson_interval
from maxplus.metrics.robustness import robust_outcomes
from maxplus.tables import Dataset, RawTable, TableEncoder, Target, is_frame, split_target, table_of
from maxplus.tables.schema import CLASSIFICATION, REGRESSION, label_name

# Change of features, in standard deviations of the training rows, for which accuracy is certified.
CERTIFIED_AT = 0.1
# Nominal coverage of the prediction intervals of a regression.
COVERAGE = 0.9
Figures = ClassificationMetrics | RegressionMetrics
# Metrics of the baseline in the JSON document.
BASELINE = ("accuracy", "balanced_accuracy", "log_loss", "auc", "r2", "mae", "rmse")
# Number of rows of each kind that the JSON document lists.
N_NAMED = 25


class HeldOut(NamedTuple):
    """Predictions of n rows by models that were not trained on them, in the order of the folds.

    Attributes
    ----------
    names, fold : number of each row in the file, from 1, and its fold
    seconds : time of each fold, for fitting and prediction
    y : classes of the rows, as columns of ``outcome``, or targets of a regression
    outcome : probabilities (n, C), or predictions (n,)
    certified : certified accuracy for changes of all features up to 0.1 standard deviations; None
        for models without certificates
    interval : lower and upper bounds of 90 % prediction intervals; None for models without them
    robust : error rates within ``robust_eps``; None for models trained without it
    """

    names: NDArray
    fold: NDArray
    seconds: NDArray
    y: NDArray
    outcome: NDArray
    certified: float | None = None
    interval: tuple[NDArray, NDArray] | None = None
    robust: RobustErrors | None = None


@dataclass(frozen=True)
class Validation:
    """Metrics of held-out rows, and those of a baseline that ignores the features.

    Attributes
    ----------
    description : how rows were held out
    figures : metrics of the model
    baseline : metrics of `sklearn.dummy.DummyClassifier`, whose probabilities are the frequencies
        of the classes, or of the mean in a regression
    n_untested : rows that were never held out, because no other row or group has their class
    held_out : the predictions themselves
    """

    description: str
    figures: Figures
    baseline: Figures
    n_untested: int
    held_out: HeldOut

    @property
    def dispersion(self) -> float:
        """Overdispersion of the accuracies of the folds, at least 1."""
        assert isinstance(self.figures, ClassificationMetrics)
        right = self.held_out.outcome.argmax(axis=1) == self.held_out.y
        return fold_dispersion(right, self.held_out.fold)

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of the accuracy on many new rows.

        Wilson's interval of the held-out rows, widened where folds differ more than by chance.
        """
        assert isinstance(self.figures, ClassificationMetrics)
        found = wilson_interval(self.figures.accuracy, self.figures.n_rows / self.dispersion)
        assert found is not None
        return found

    def score_interval(self, n_rows: int) -> tuple[float, float]:
        """Return the 95 % interval of the accuracy on a table of ``n_rows`` new rows.

        Parameters
        ----------
        n_rows : int

        Returns
        -------
        low, high : float
        """
        assert isinstance(self.figures, ClassificationMetrics)
        n = self.figures.n_rows / self.dispersion
        return score_interval(self.figures.accuracy, n, n_rows)

    @property
    def certified(self) -> float | None:
        """Certified accuracy for changes up to 0.1 deviations; None if it was not computed."""
        return self.held_out.certified

    @property
    def robust(self) -> RobustErrors | None:
        """Error rates within ``robust_eps``; None for models trained without it."""
        return self.held_out.robust

    @property
    def seconds_each(self) -> float:
        """Mean seconds of one fit and its predictions."""
        return float(self.held_out.seconds.mean())

    @property
    def baseline_label(self) -> str:
        """The class that the baseline predicts, or "the mean"."""
        if isinstance(self.baseline, RegressionMetrics):
            return "the mean"
        return max(self.baseline.classes, key=lambda metrics: metrics.n_predicted).label

    def to_json(self) -> dict[str, Any]:
        """Return JSON data without the predictions.

        Returns
        -------
        dict
        """
        baseline = self.baseline.to_json()
        document: dict[str, Any] = {
            "description": self.description,
            "figures": self.figures.to_json(),
            "baseline": {name: baseline[name] for name in BASELINE if name in baseline},
            "rows_never_held_out": self.n_untested,
            "seconds": float(self.held_out.seconds.sum()),
        }
        if isinstance(self.figures, RegressionMetrics):
            return document | {"coverage_promised": COVERAGE}
        # Metrics index rows in the order of the folds; the document has their numbers in the file.
        document["figures"]["worst"] = int(self.held_out.names[self.figures.worst])
        document["baseline"]["label"] = self.baseline_label
        document["dispersion"] = self.dispersion
        document["accuracy_interval"] = list(self.interval)
        document |= self._by_row()
        if self.certified is not None:
            document["certified"] = {"eps": CERTIFIED_AT, "accuracy": self.certified}
        if self.robust is not None:
            document["robust"] = to_jsonable(self.robust)
        return document

    def _by_row(self) -> dict[str, Any]:
        """Return the calibration of probabilities, and uncertain and surprising rows."""
        assert isinstance(self.figures, ClassificationMetrics)
        y, P = self.held_out.y, self.held_out.outcome
        labels = [metrics.label for metrics in self.figures.classes]
        p_true, p_best, best = P[np.arange(len(y)), y], P.max(axis=1), P.argmax(axis=1)

        def named(order: NDArray) -> list[dict[str, Any]]:
            return [
                {
                    "row": int(self.held_out.names[n]),
                    "label": labels[y[n]],
                    "predicted": labels[best[n]],
                    "probability": float(p_best[n]),
                    "own_probability": float(p_true[n]),
                }
                for n in order[:N_NAMED]
            ]

        return {
            "reliability": to_jsonable(reliability(y, P)),
            "least_confident": named(np.argsort(p_best, kind="stable")),
            "highest_loss": named(np.argsort(p_true, kind="stable")),
        }


def validate(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    cv: str | int | float = "auto",
    groups: Any = None,
    encoder: TableEncoder | None = None,
    random_state: int = 0,
    on_progress: Callable[[int], None] = lambda done: None,
    callbacks: Sequence[Callable] = (),
) -> Validation:
    """Fit a model to some rows and predict the held-out ones; encoding is part of each fit.

    Columns, categories, imputed values, scales and the capacity of the model are chosen from the
    training rows of each split. The metrics are therefore those of new rows, even for a model that
    memorises rows or ids.

    Parameters
    ----------
    model : a classifier with ``predict_proba``, or a regressor; it is cloned
    X : a data frame, a `maxplus.tables.RawTable` or `maxplus.tables.Dataset`, or an array
    y : labels or numbers; for a data frame also the name of a column, or None to infer it
    cv : "auto" (five folds up to 2,000 rows, three up to 10,000, a fifth held out beyond), "cv",
        a number of folds, or a share to hold out
    groups : name of a column of the data frame; rows with equal values are held out together
    encoder : how a data frame is encoded; a `maxplus.tables.TableEncoder` that drops no column by
        default
    random_state : seed of the shuffling
    on_progress : called with the number of finished fits
    callbacks : passed to ``fit`` of estimators of this library

    Returns
    -------
    Validation

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxplus import LMMClassifier, validate
    >>> X, y = load_iris(return_X_y=True)
    >>> found = validate(LMMClassifier(9, slope=5.0, warmup_epochs=5, random_state=0), X, y)
    >>> found.description, found.figures.accuracy > 0.9, round(found.baseline.accuracy, 2)
    ('5-fold cross-validation', True, 0.33)
    """
    data = as_dataset(X, y, groups)
    if encoder is None:
        encoder = data.encoder or data.table.encoder or TableEncoder()
    assert data.y is not None
    classify = is_classifier(model)
    splits = make_splits(data.y, cv, classes=classify, seed=random_state, groups=data.groups)
    found = _held_out(model, data, encoder, splits, on_progress, callbacks)
    labels = np.unique(data.y) if classify else None
    return Validation(
        splits.description,
        _metrics(found, labels),
        _baseline(found, labels),
        splits.n_untested,
        found,
    )


def as_dataset(X: Any, y: Any = None, groups: Any = None) -> Dataset:
    """Return rows with labels; raise ValueError if there are no labels."""
    if isinstance(X, Dataset):
        if X.y is None:
            raise ValueError(f"{X.name} has no labels in {X.target.name!r}")
        return X
    if is_frame(X):
        table, name = table_of(X), y
        if y is not None and not isinstance(y, str):
            name = label_name(y, table)
            columns = {**table.columns, name: np.asarray(y)}
            table = RawTable(table.name, columns, encoder=table.encoder)
        return split_target(table, name, groups=groups)
    if y is None:
        raise ValueError("an array needs its labels: y is None")
    X, y = np.asarray(X), np.asarray(y)
    is_number = y.dtype.kind == "f" and (y != np.round(y)).any()
    target = Target("y", REGRESSION if is_number else CLASSIFICATION)
    return Dataset(RawTable("the array", {}, encoded=X), target, y, np.arange(len(y)), groups, X=X)


def _held_out(
    model: Any,
    data: Dataset,
    encoder: TableEncoder,
    splits: Splits,
    on_progress: Callable[[int], None],
    callbacks: Sequence[Callable],
) -> HeldOut:
    """Fit a clone of the model to each split and predict the held-out rows."""
    assert data.y is not None
    classes = np.unique(data.y) if is_classifier(model) else None
    parts = []
    on_progress(0)
    for done, (training, test) in enumerate(splits.pairs, 1):
        parts.append(_predicted(model, data, encoder, training, test, classes, callbacks))
        on_progress(done)
    lengths = [len(test) for _, test in splits.pairs]
    tests = np.concatenate([test for _, test in splits.pairs])
    shares: list[Any] = [part.certified for part in parts]
    interval = None
    if parts[0].interval is not None:
        low, high = zip(*(part.interval for part in parts), strict=True)
        interval = np.concatenate(low), np.concatenate(high)
    y = data.y[tests] if classes is None else np.searchsorted(classes, data.y[tests])
    robust = None
    if all(part.outcomes is not None for part in parts):
        robust = RobustErrors.of(np.concatenate([part.outcomes for part in parts]), y)
    return HeldOut(
        names=data.rows[tests] + 1,
        fold=np.repeat(np.arange(len(lengths)), lengths),
        seconds=np.array([part.seconds for part in parts]),
        y=y,
        outcome=np.concatenate([part.outcome for part in parts]),
        certified=None if None in shares else float(np.average(shares, weights=lengths)),
        interval=interval,
        robust=robust,
    )


class _Fold(NamedTuple):
    outcome: NDArray
    seconds: float
    certified: float | None = None
    interval: Any = None
    outcomes: Any = None


def _predicted(
    model: Any,
    data: Dataset,
    encoder: TableEncoder,
    training: NDArray,
    test: NDArray,
    classes: NDArray | None,
    callbacks: Sequence[Callable],
) -> _Fold:
    """Fit the model to the training rows and predict the test rows."""
    assert data.y is not None
    X, X_test, scale = _features(data, encoder, training, test)
    began = time.perf_counter()
    fitted = clone(model)
    if "callbacks" in fitted.get_params(deep=False):
        fitted.set_params(callbacks=list(callbacks) or None)
    elif isinstance(X, RawTable):
        X = X.encoded
    with warnings.catch_warnings():
        # Models of scikit-learn may reach their maximum number of epochs.
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted.fit(X, data.y[training])
    outcome = fitted.predict(X_test) if classes is None else fitted.predict_proba(X_test)
    seconds = time.perf_counter() - began
    if classes is None:
        interval = None
        if hasattr(fitted, "predict_interval"):
            interval = fitted.predict_interval(X_test, COVERAGE)
        return _Fold(outcome, seconds, interval=interval)
    # The model has no column for a class without a training row in this split.
    P = np.zeros((len(test), len(classes)))
    P[:, np.searchsorted(classes, fitted.classes_)] = outcome
    certified = None
    if hasattr(fitted, "certified_accuracy"):
        certified = fitted.certified_accuracy(X_test, data.y[test], CERTIFIED_AT, scale)
    outcomes = None
    if hasattr(fitted, "robust_reach_"):
        y_test = data.y[test]
        is_known = np.isin(y_test, fitted.classes_)
        codes = np.searchsorted(fitted.classes_, y_test[is_known])
        outcomes = np.zeros((len(test), 3), bool)
        outcomes[is_known] = robust_outcomes(fitted, X_test[is_known], codes)
    return _Fold(P, seconds, certified, outcomes=outcomes)


def _features(
    data: Dataset, encoder: TableEncoder, training: NDArray, test: NDArray
) -> tuple[Any, NDArray, NDArray]:
    """Return training rows (a table if there are columns), test rows, and certificate scale."""
    if data.table.columns:
        rows = data.table.take(training)
        fitted = clone(encoder).set_params(standardize=False)
        X = fitted.fit_encode(rows).X
        scale = Domain.of(fitted.domain()).certificate_scale()
        # An unknown category is expected here and needs no warning.
        frame = replace(rows, encoder=fitted, encoded=X)
        return frame, fitted.encode(data.table.take(test)).X, scale
    X = data.X[training]
    deviation = X.std(axis=0, dtype=np.float64)
    constant = (X.min(axis=0) == X.max(axis=0)) | (deviation == 0.0)
    return X, data.X[test], np.where(constant, 1.0, deviation)


def _metrics(found: HeldOut, labels: Any) -> Figures:
    if labels is None:
        return regression_metrics(found.y, found.outcome, *(found.interval or ()))
    return classification_metrics(found.y, found.outcome, labels)


def _baseline(found: HeldOut, labels: Any) -> Figures:
    no_features = np.zeros((len(found.y), 1))
    if labels is None:
        mean = DummyRegressor().fit(no_features, found.y)
        return regression_metrics(found.y, mean.predict(no_features))
    prior = DummyClassifier(strategy="prior").fit(no_features, found.y)
    P = np.zeros((len(found.y), len(labels)))
    P[:, prior.classes_] = prior.predict_proba(no_features)
    return classification_metrics(found.y, P, labels)
