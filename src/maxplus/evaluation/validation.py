"""Validation of a model on held-out rows."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_consistent_length

from maxplus.evaluation.splits import Splits, make_splits
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

# Perturbation for the certified accuracy, in standard deviations of the training rows.
CERTIFIED_EPS = 0.1
# Nominal coverage of prediction intervals.
COVERAGE = 0.9
Metrics = ClassificationMetrics | RegressionMetrics
# Baseline metrics in the JSON document.
BASELINE_METRICS = ("accuracy", "balanced_accuracy", "log_loss", "auc", "r2", "mae", "rmse")
# Number of uncertain and of surprising rows in the JSON document.
N_LISTED = 25


class HeldOut(NamedTuple):
    """Predictions for n held-out rows, ordered by fold.

    Attributes
    ----------
    row_numbers, fold : ndarray of shape (n,)
        One-based row number in the file, and fold, of each row.
    seconds : ndarray of shape (n_folds,)
        Fit and predict time of each fold.
    y : ndarray of shape (n,)
        True classes as column indices of ``outcome``, or target values of a regression.
    outcome : ndarray of shape (n, n_classes) or (n,)
        Probabilities, or predictions of a regressor.
    certified : float or None
        Certified accuracy for perturbations up to 0.1 standard deviations. None for models without
        certificates.
    interval : tuple of (ndarray, ndarray) or None
        Bounds of the 90 % prediction intervals. None for models without intervals.
    robust : RobustErrors or None
        Error rates for perturbations up to ``robust_eps``. None for models trained without it.
    """

    row_numbers: NDArray
    fold: NDArray
    seconds: NDArray
    y: NDArray
    outcome: NDArray
    certified: float | None = None
    interval: tuple[NDArray, NDArray] | None = None
    robust: RobustErrors | None = None


@dataclass(frozen=True)
class Validation:
    """Metrics of a model and of a baseline on held-out rows.

    Attributes
    ----------
    description : str
        Description of the splitting method.
    metrics : ClassificationMetrics or RegressionMetrics
        Metrics of the model.
    baseline : ClassificationMetrics or RegressionMetrics
        Metrics of `sklearn.dummy.DummyClassifier` with class frequencies as probabilities, or of
        `sklearn.dummy.DummyRegressor`.
    n_untested : int
        Number of rows that were not tested, because their class has no other row or group.
    held_out : HeldOut
        Predictions for the held-out rows.
    """

    description: str
    metrics: Metrics
    baseline: Metrics
    n_untested: int
    held_out: HeldOut = field(repr=False)

    @property
    def dispersion(self) -> float:
        """Overdispersion of the accuracies of the folds, at least 1."""
        assert isinstance(self.metrics, ClassificationMetrics)
        correct = self.held_out.outcome.argmax(axis=1) == self.held_out.y
        return fold_dispersion(correct, self.held_out.fold)

    @property
    def interval(self) -> tuple[float, float]:
        """95 % Wilson interval of the accuracy, adjusted for overdispersion between folds."""
        assert isinstance(self.metrics, ClassificationMetrics)
        interval = wilson_interval(self.metrics.accuracy, self.metrics.n_rows / self.dispersion)
        assert interval is not None
        return interval

    def score_interval(self, n_rows: int) -> tuple[float, float]:
        """Estimate the 95 % prediction interval of the accuracy on ``n_rows`` new rows.

        Parameters
        ----------
        n_rows : int

        Returns
        -------
        low, high : float
        """
        assert isinstance(self.metrics, ClassificationMetrics)
        n = self.metrics.n_rows / self.dispersion
        return score_interval(self.metrics.accuracy, n, n_rows)

    @property
    def certified(self) -> float | None:
        """Certified accuracy for perturbations up to 0.1 standard deviations, or None."""
        return self.held_out.certified

    @property
    def robust(self) -> RobustErrors | None:
        """Error rates for perturbations up to ``robust_eps``, or None."""
        return self.held_out.robust

    @property
    def seconds_per_split(self) -> float:
        """Mean fit and predict time of a fold, in seconds."""
        return float(self.held_out.seconds.mean())

    @property
    def baseline_label(self) -> str:
        """Class that the baseline predicts, or "the mean" for a regression."""
        if isinstance(self.baseline, RegressionMetrics):
            return "the mean"
        return max(self.baseline.classes, key=lambda metrics: metrics.n_predicted).label

    def to_json(self) -> dict[str, Any]:
        """Return JSON-compatible data.

        Individual predictions are included only for the 25 rows with the lowest confidence and the
        25 rows with the highest loss.

        Returns
        -------
        dict
        """
        baseline = self.baseline.to_json()
        document: dict[str, Any] = {
            "description": self.description,
            "metrics": self.metrics.to_json(),
            "baseline": {name: baseline[name] for name in BASELINE_METRICS if name in baseline},
            "rows_never_held_out": self.n_untested,
            "seconds": float(self.held_out.seconds.sum()),
        }
        if isinstance(self.metrics, RegressionMetrics):
            return document | {"nominal_coverage": COVERAGE}
        # Convert an index into the held-out rows to a row number in the file.
        document["metrics"]["worst"] = int(self.held_out.row_numbers[self.metrics.worst])
        document["baseline"]["label"] = self.baseline_label
        document["dispersion"] = self.dispersion
        document["accuracy_interval"] = list(self.interval)
        document |= self._row_details()
        if self.certified is not None:
            document["certified"] = {"eps": CERTIFIED_EPS, "accuracy": self.certified}
        if self.robust is not None:
            document["robust"] = to_jsonable(self.robust)
        return document

    def _row_details(self) -> dict[str, Any]:
        """Return the reliability bins, and the rows with the lowest confidence and highest loss."""
        assert isinstance(self.metrics, ClassificationMetrics)
        y, P = self.held_out.y, self.held_out.outcome
        labels = [metrics.label for metrics in self.metrics.classes]
        true_probability = P[np.arange(len(y)), y]
        top_probability, predicted = P.max(axis=1), P.argmax(axis=1)

        def describe(order: NDArray) -> list[dict[str, Any]]:
            return [
                {
                    "row": int(self.held_out.row_numbers[n]),
                    "label": labels[y[n]],
                    "predicted": labels[predicted[n]],
                    "probability": float(top_probability[n]),
                    "own_probability": float(true_probability[n]),
                }
                for n in order[:N_LISTED]
            ]

        return {
            "reliability": to_jsonable(reliability(y, P)),
            "least_confident": describe(np.argsort(top_probability, kind="stable")),
            "highest_loss": describe(np.argsort(true_probability, kind="stable")),
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
    """Validate a model on held-out rows.

    All preprocessing, including column types, categories and imputed values, is fitted to the
    training rows of each split.

    Parameters
    ----------
    model : estimator
        Classifier with ``predict_proba``, or regressor. It is cloned.
    X : data frame, `maxplus.tables.RawTable`, `maxplus.tables.Dataset` or array
        Features.
    y : array-like or str, optional
        Labels or target values, or the name of a column of a data frame. By default, the target
        column of a data frame is inferred.
    cv : {"auto", "cv"}, int or float, default="auto"
        "cv" is five folds, or three for more than 2,000 rows. "auto" is "cv" up to 10,000 rows,
        and a single split with 20 % test rows for more. An int is the number of folds, a float in
        (0, 1) the test size of a single split.
    groups : array-like or str, optional
        Group labels, or the name of a column of a data frame. A group is never split.
    encoder : TableEncoder, optional
        Encoder of data frames. By default, the encoder that is attached to X, or
        ``TableEncoder()``. Its parameter ``standardize`` is ignored, with a warning: use a pipeline
        with a scaler.
    random_state : int, default=0
        Seed for shuffling.
    on_progress : callable
        Function of the number of finished fits.
    callbacks : sequence of callable
        Callbacks of ``fit`` of the estimators of this library.

    Returns
    -------
    Validation

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxplus import LMMClassifier, validate
    >>> X, y = load_iris(return_X_y=True)
    >>> result = validate(LMMClassifier(9, slope=5.0, warmup_epochs=5, random_state=0), X, y)
    >>> result.description, result.metrics.accuracy > 0.9, round(result.baseline.accuracy, 2)
    ('5-fold cross-validation', True, 0.33)
    """
    data = as_dataset(X, y, groups)
    if encoder is None:
        encoder = data.encoder or data.table.encoder or TableEncoder()
    if encoder.standardize:
        warnings.warn(
            "validate and compare ignore the parameter standardize=True of the encoder; to "
            "standardise the features in each split, use make_pipeline(StandardScaler(), model)",
            stacklevel=2,
        )
    assert data.y is not None
    is_classification = is_classifier(model)
    splits = make_splits(
        data.y,
        cv,
        classification=is_classification,
        seed=random_state,
        groups=data.groups,
    )
    held_out = _held_out(model, data, encoder, splits, on_progress, callbacks)
    labels = np.unique(data.y) if is_classification else None
    return Validation(
        splits.description,
        _metrics(held_out, labels),
        _baseline(held_out, labels),
        splits.n_untested,
        held_out,
    )


def as_dataset(X: Any, y: Any = None, groups: Any = None) -> Dataset:
    """Return a labelled dataset; raise ValueError if there are no labels."""
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
        if groups is None or isinstance(groups, str):
            return split_target(table, name, groups=groups)
        check_consistent_length(table, groups)
        data = split_target(table, name)
        return replace(data, groups=np.asarray(groups)[data.rows])
    if y is None:
        raise ValueError("y is required if X is an array; got None")
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
    folds: list[dict[str, NDArray]] = []
    on_progress(0)
    for n_done, (training, test) in enumerate(splits.pairs, 1):
        folds.append(_fit_and_predict(model, data, encoder, training, test, classes, callbacks))
        on_progress(n_done)
    joined = {
        name: np.concatenate([fold[name] for fold in folds])
        for name in folds[0]
        if all(name in fold for fold in folds)
    }
    lengths = [len(test) for _, test in splits.pairs]
    rows = np.concatenate([test for _, test in splits.pairs])
    y = data.y[rows] if classes is None else np.searchsorted(classes, data.y[rows])
    certified = joined.get("certified")
    return HeldOut(
        row_numbers=data.rows[rows] + 1,
        fold=np.repeat(np.arange(len(lengths)), lengths),
        seconds=joined["seconds"],
        y=y,
        outcome=joined["outcome"],
        certified=None if certified is None else float(np.average(certified, weights=lengths)),
        interval=(joined["lower"], joined["upper"]) if "lower" in joined else None,
        robust=RobustErrors.from_outcomes(joined["robust"], y) if "robust" in joined else None,
    )


def _fit_and_predict(
    model: Any,
    data: Dataset,
    encoder: TableEncoder,
    training: NDArray,
    test: NDArray,
    classes: NDArray | None,
    callbacks: Sequence[Callable],
) -> dict[str, NDArray]:
    """Fit the model to the training rows and predict the test rows.

    Return arrays by name. ``seconds`` and ``certified`` have one value. ``outcome``, the bounds
    ``lower`` and ``upper`` and the `robust_outcomes` ``robust`` have one row for each test row.
    """
    assert data.y is not None
    X, X_test, scale = _features(data, encoder, training, test)
    start = time.perf_counter()
    fitted = clone(model)
    if "callbacks" in fitted.get_params(deep=False):
        fitted.set_params(callbacks=list(callbacks) or None)
    elif isinstance(X, RawTable):
        X = X.encoded
    with warnings.catch_warnings():
        # scikit-learn models may reach max_iter.
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted.fit(X, data.y[training])
    outcome = fitted.predict(X_test) if classes is None else fitted.predict_proba(X_test)
    results = {"outcome": outcome, "seconds": np.array([time.perf_counter() - start])}
    if classes is None:
        if hasattr(fitted, "predict_interval"):
            results["lower"], results["upper"] = fitted.predict_interval(X_test, COVERAGE)
        return results
    # Classes without training rows in this split have no column.
    results["outcome"] = np.zeros((len(test), len(classes)))
    results["outcome"][:, np.searchsorted(classes, fitted.classes_)] = outcome
    y_test = data.y[test]
    if hasattr(fitted, "certified_accuracy"):
        certified = fitted.certified_accuracy(X_test, y_test, CERTIFIED_EPS, scale)
        results["certified"] = np.array([certified])
    if hasattr(fitted, "robust_eps_"):
        is_known = np.isin(y_test, fitted.classes_)
        codes = np.searchsorted(fitted.classes_, y_test[is_known])
        results["robust"] = np.zeros((len(test), 3), bool)
        results["robust"][is_known] = robust_outcomes(fitted, X_test[is_known], codes)
    return results


def _features(
    data: Dataset, encoder: TableEncoder, training: NDArray, test: NDArray
) -> tuple[Any, NDArray, NDArray]:
    """Return training rows (a table if there are columns), test rows, and the certificate scale."""
    if data.table.columns:
        rows = data.table.take(training)
        fitted = clone(encoder).set_params(standardize=False)
        X = fitted.fit(rows).encode(rows).X
        scale = fitted.domain().certificate_scale()
        frame = replace(rows, encoder=fitted, encoded=X)
        return frame, fitted.encode(data.table.take(test)).X, scale
    X = data.X[training]
    deviation = X.std(axis=0, dtype=np.float64)
    constant = (X.min(axis=0) == X.max(axis=0)) | (deviation == 0.0)
    return X, data.X[test], np.where(constant, 1.0, deviation)


def _metrics(held_out: HeldOut, labels: Any) -> Metrics:
    if labels is None:
        return regression_metrics(held_out.y, held_out.outcome, *(held_out.interval or ()))
    return classification_metrics(held_out.y, held_out.outcome, labels)


def _baseline(held_out: HeldOut, labels: Any) -> Metrics:
    no_features = np.zeros((len(held_out.y), 1))
    if labels is None:
        mean = DummyRegressor().fit(no_features, held_out.y)
        return regression_metrics(held_out.y, mean.predict(no_features))
    prior = DummyClassifier(strategy="prior").fit(no_features, held_out.y)
    P = np.zeros((len(held_out.y), len(labels)))
    P[:, prior.classes_] = prior.predict_proba(no_features)
    return classification_metrics(held_out.y, P, labels)
