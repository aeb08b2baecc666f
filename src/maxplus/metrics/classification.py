"""Metrics of class probabilities: log loss, calibration, and metrics by class."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support, roc_auc_score

from maxplus.metrics._readable import to_jsonable

# Tolerance for probabilities above 1 due to rounding.
TOLERANCE = 1e-6
# Smallest probability in the log loss, which would be infinite for a probability of 0.
FLOOR = 1e-15
N_BINS = 15


def check_predictions(codes: ArrayLike, P: ArrayLike) -> tuple[NDArray, NDArray]:
    """Return labels 0..C−1 of shape (N,) and probabilities (N, C) as validated arrays."""
    codes, P = np.asarray(codes), np.asarray(P, float)
    if P.ndim != 2 or not P.size:
        raise ValueError(f"P must have shape (N, C) with a row for each sample, got {P.shape}")
    if not ((P >= 0).all() and (P <= 1 + TOLERANCE).all()):
        bad = int(np.flatnonzero(~((P >= 0) & (P <= 1 + TOLERANCE)).all(axis=1))[0])
        raise ValueError(f"P must hold probabilities from 0 to 1; row {bad} is {P[bad]}")
    if codes.shape != (len(P),) or codes.dtype.kind not in "iu":
        raise ValueError(
            f"codes must be {len(P)} whole numbers, one for each row of P; got shape "
            f"{codes.shape} of {codes.dtype}"
        )
    if codes.min() < 0 or codes.max() >= P.shape[1]:
        raise ValueError(
            f"codes must be from 0 to {P.shape[1] - 1}, the columns of P; got "
            f"{codes.min()} to {codes.max()}"
        )
    return codes, P


def log_losses(codes: ArrayLike, P: ArrayLike) -> NDArray:
    """Return −log P[n, codes[n]] of each sample, with probabilities of at least 1e−15.

    Parameters
    ----------
    codes : array of shape (N,)
        The true classes as columns of P.
    P : array of shape (N, C)
        Probabilities.

    Returns
    -------
    array of shape (N,)

    Examples
    --------
    >>> from maxplus.metrics import log_losses
    >>> log_losses([0, 1], [[0.9, 0.1], [0.5, 0.5]]).round(3).tolist()
    [0.105, 0.693]
    """
    codes, P = check_predictions(codes, P)
    return -np.log(np.clip(P[np.arange(len(P)), codes], FLOOR, 1.0))


@dataclass(frozen=True)
class Reliability:
    """Accuracy of predictions by their probability, in B bins of equal width.

    Attributes
    ----------
    count : array of shape (B,), number of samples whose largest probability is in
        [b / B, (b + 1) / B); the last bin includes 1
    confidence : array of shape (B,), mean of the largest probability; NaN in empty bins
    accuracy : array of shape (B,), share of correct predictions; NaN in empty bins
    """

    count: NDArray
    confidence: NDArray
    accuracy: NDArray

    @property
    def error(self) -> float:
        """Expected calibration error: Σ_b count_b / N · |accuracy_b − confidence_b|."""
        filled = self.count > 0
        gap = np.abs(self.accuracy[filled] - self.confidence[filled])
        return float(self.count[filled] @ gap / self.count.sum())


def reliability(codes: ArrayLike, P: ArrayLike, n_bins: int = N_BINS) -> Reliability:
    """Return the accuracy of predictions by their probability; O(N·C).

    Parameters
    ----------
    codes : array of shape (N,)
        The true classes as columns of P.
    P : array of shape (N, C)
        Probabilities. The prediction is the first class with the largest one.
    n_bins : int, default=15

    Returns
    -------
    Reliability

    Examples
    --------
    >>> from maxplus.metrics import reliability
    >>> found = reliability([0, 1, 1], [[0.9, 0.1], [0.2, 0.8], [0.7, 0.3]], n_bins=2)
    >>> found.count.tolist()
    [0, 3]
    """
    codes, P = check_predictions(codes, P)
    if n_bins < 1:
        raise ValueError(f"n_bins must be at least 1, got {n_bins}")
    top, right = P.max(axis=1), P.argmax(axis=1) == codes
    bin_of = np.minimum((top * n_bins).astype(int), n_bins - 1)
    count = np.bincount(bin_of, minlength=n_bins)
    samples = np.where(count > 0, count, np.nan)
    confidence, accuracy = (np.bincount(bin_of, sums, n_bins) for sums in (top, right))
    return Reliability(count, confidence / samples, accuracy / samples)


def expected_calibration_error(codes: ArrayLike, P: ArrayLike, n_bins: int = N_BINS) -> float:
    """Return the mean difference between the probability and the accuracy of predictions.

    With few samples per bin, it is biased upwards, even for perfectly calibrated probabilities.

    Parameters
    ----------
    codes : array of shape (N,)
        The true classes as columns of P.
    P : array of shape (N, C)
        Probabilities.
    n_bins : int, default=15

    Returns
    -------
    float

    Examples
    --------
    >>> from maxplus.metrics import expected_calibration_error
    >>> round(expected_calibration_error([0, 0, 1], [[0.9, 0.1], [0.9, 0.1], [0.9, 0.1]]), 3)
    0.233
    """
    return reliability(codes, P, n_bins).error


@dataclass(frozen=True)
class ClassMetrics:
    """Metrics of one class against the rest; undefined metrics are NaN.

    Attributes
    ----------
    label : name of the class
    n_rows, n_predicted : number of rows of the class, and of rows with this prediction
    precision, recall, f1 : as in scikit-learn
    auc : area under the ROC curve
    """

    label: str
    n_rows: int
    n_predicted: int
    precision: float
    recall: float
    f1: float
    auc: float


@dataclass(frozen=True)
class ClassificationMetrics:
    """Metrics of a classifier's probabilities on labelled rows.

    Attributes
    ----------
    n_rows : number of rows
    accuracy, accuracy_error : accuracy and its standard error √(a·(1 − a) / n)
    balanced_accuracy : mean recall of the classes that occur
    macro_f1 : mean F1 of the classes that occur or are predicted
    log_loss : mean of −log(probability of the true class)
    auc : area under the ROC curve; with several classes, the mean over the classes, each against
        the rest
    calibration_error : `maxplus.metrics.expected_calibration_error`
    max_loss, worst : largest loss, and the index of the first row with this loss
    classes : metrics of each class
    confusion : array (C, C) of counts; rows are true classes, columns are predictions
    """

    n_rows: int
    accuracy: float
    accuracy_error: float
    balanced_accuracy: float
    macro_f1: float
    log_loss: float
    auc: float
    calibration_error: float
    max_loss: float
    worst: int
    classes: tuple[ClassMetrics, ...]
    confusion: NDArray

    def to_json(self) -> dict[str, Any]:
        """Return JSON data; NaN becomes None, and ``worst`` counts from 1.

        Returns
        -------
        dict
        """
        return to_jsonable(self) | {"worst": self.worst + 1}


def classification_metrics(
    codes: ArrayLike,
    P: ArrayLike,
    labels: Sequence[Any],
    *,
    predicted: ArrayLike | None = None,
    losses: ArrayLike | None = None,
) -> ClassificationMetrics:
    """Return the metrics of class probabilities; O(C·N·log N).

    Parameters
    ----------
    codes : array of shape (N,)
        The true classes as columns of P.
    P : array of shape (N, C)
        Probabilities.
    labels : names of the C classes
    predicted : array of shape (N,), optional
        Predictions as columns of P; by default the first class with the largest probability.
    losses : array of shape (N,), optional
        −log P of the true classes, if known more precisely than from P, which may round to 0.

    Returns
    -------
    ClassificationMetrics

    Examples
    --------
    >>> from maxplus.metrics import classification_metrics
    >>> P = [[0.9, 0.1], [0.6, 0.4], [0.2, 0.8], [0.3, 0.7]]
    >>> figures = classification_metrics([0, 0, 1, 0], P, ["healthy", "ill"])
    >>> figures.accuracy, figures.classes[1].precision, figures.confusion.tolist()
    (0.75, 0.5, [[2, 1], [0, 1]])
    """
    codes, P = check_predictions(codes, P)
    n, C = P.shape
    if len(labels) != C:
        raise ValueError(f"labels must name the {C} columns of P; got {len(labels)} names")
    each = log_losses(codes, P) if losses is None else np.asarray(losses, float)
    predicted = P.argmax(axis=1) if predicted is None else np.asarray(predicted)
    counts = np.bincount(codes, minlength=C)
    n_predicted = np.bincount(predicted, minlength=C)
    precision, recall, f1, _ = precision_recall_fscore_support(
        codes, predicted, labels=range(C), zero_division=np.nan
    )
    # Both areas of two classes are equal, except that 1 − p rounds some ranks away.
    areas = [_area(codes == d, P[:, d]) for d in range(C)]
    if C == 2:
        areas[0] = areas[1]
    known = [area for area in areas if not math.isnan(area)]
    accuracy = float((predicted == codes).mean())
    return ClassificationMetrics(
        n_rows=n,
        accuracy=accuracy,
        accuracy_error=math.sqrt(accuracy * (1.0 - accuracy) / n),
        balanced_accuracy=float(recall[counts > 0].mean()),
        macro_f1=float(f1[(counts > 0) | (n_predicted > 0)].mean()),
        log_loss=float(each.mean()),
        auc=float(np.mean(known)) if known else math.nan,
        calibration_error=reliability(codes, P).error,
        max_loss=float(each.max()),
        worst=int(each.argmax()),
        classes=tuple(
            ClassMetrics(
                str(labels[d]),
                int(counts[d]),
                int(n_predicted[d]),
                float(precision[d]),
                float(recall[d]),
                float(f1[d]),
                areas[d],
            )
            for d in range(C)
        ),
        confusion=confusion_matrix(codes, predicted, labels=range(C)),
    )


def _area(is_class: NDArray, p: NDArray) -> float:
    """Return the area under the ROC curve of a class; NaN if no row, or every row, is of it."""
    return float(roc_auc_score(is_class, p)) if 0 < is_class.sum() < is_class.size else math.nan
