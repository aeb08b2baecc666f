"""Classification metrics: log loss, calibration and per-class metrics."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support, roc_auc_score

from maxplus.metrics._formatting import to_jsonable

# Tolerance for probabilities that exceed 1 because of rounding.
TOLERANCE = 1e-6
# Lower bound of probabilities in the log loss, which is infinite at 0.
FLOOR = 1e-15
N_BINS = 15


def check_predictions(
    codes: ArrayLike, P: ArrayLike, name: str = "codes"
) -> tuple[NDArray, NDArray]:
    """Validate class indices (N,) and probabilities (N, C), and return them as arrays."""
    codes, P = np.asarray(codes), np.asarray(P, float)
    if P.ndim != 2 or not P.size:
        raise ValueError(f"P must be a non-empty array of shape (N, C); got shape {P.shape}")
    if not ((P >= 0).all() and (P <= 1 + TOLERANCE).all()):
        bad = int(np.flatnonzero(~((P >= 0) & (P <= 1 + TOLERANCE)).all(axis=1))[0])
        raise ValueError(f"P must hold probabilities from 0 to 1; row {bad} is {P[bad]}")
    if codes.shape != (len(P),) or codes.dtype.kind not in "iu":
        raise ValueError(
            f"{name} must be {len(P)} integers, one for each row of P; got shape "
            f"{codes.shape} of {codes.dtype}"
        )
    if codes.min() < 0 or codes.max() >= P.shape[1]:
        raise ValueError(
            f"{name} must be column indices of P, from 0 to {P.shape[1] - 1}; got "
            f"{codes.min()} to {codes.max()}"
        )
    return codes, P


def log_losses(codes: ArrayLike, P: ArrayLike) -> NDArray:
    """Return the log loss of each sample, with probabilities clipped below at 1e−15.

    Parameters
    ----------
    codes : array of shape (N,)
        True classes as column indices of P.
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
    """Accuracy and mean confidence of predictions in B bins of equal width.

    The confidence of a prediction is the largest probability. Bin b contains confidences in
    [b / B, (b + 1) / B), and the last bin also 1.

    Attributes
    ----------
    count : array of shape (B,), number of samples
    confidence : array of shape (B,), mean confidence; NaN in empty bins
    accuracy : array of shape (B,), fraction of correct predictions; NaN in empty bins
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
    """Compute the accuracy and the mean confidence of predictions, binned by confidence.

    Parameters
    ----------
    codes : array of shape (N,)
        True classes as column indices of P.
    P : array of shape (N, C)
        Probabilities. Ties are broken by the lowest index.
    n_bins : int, default=15
        Number of bins.

    Returns
    -------
    Reliability

    Examples
    --------
    >>> from maxplus.metrics import reliability
    >>> bins = reliability([0, 1, 1], [[0.9, 0.1], [0.2, 0.8], [0.7, 0.3]], n_bins=2)
    >>> bins.count.tolist()
    [0, 3]
    """
    codes, P = check_predictions(codes, P)
    if n_bins < 1:
        raise ValueError(f"n_bins must be at least 1, got {n_bins}")
    confidences, correct = P.max(axis=1), P.argmax(axis=1) == codes
    bin_index = np.minimum((confidences * n_bins).astype(int), n_bins - 1)
    count = np.bincount(bin_index, minlength=n_bins)
    n_samples = np.where(count > 0, count, np.nan)
    confidence, accuracy = (
        np.bincount(bin_index, weights, n_bins) for weights in (confidences, correct)
    )
    return Reliability(count, confidence / n_samples, accuracy / n_samples)


def expected_calibration_error(codes: ArrayLike, P: ArrayLike, n_bins: int = N_BINS) -> float:
    """Return the mean absolute difference between confidence and accuracy over bins.

    Bins are weighted by their number of samples. The estimate is biased upwards if bins contain few
    samples.

    Parameters
    ----------
    codes : array of shape (N,)
        True classes as column indices of P.
    P : array of shape (N, C)
        Probabilities.
    n_bins : int, default=15
        Number of bins.

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
    """One-vs-rest metrics of a class; undefined metrics are NaN.

    Attributes
    ----------
    label : name of the class
    n_rows, n_predicted : number of true and of predicted rows of the class
    precision, recall, f1 : as in scikit-learn
    auc : area under the one-vs-rest ROC curve; for two classes, that of the second class
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
    balanced_accuracy : mean recall over the classes in the data
    macro_f1 : mean F1 score over the classes in the data or in the predictions
    log_loss : mean negative log-likelihood of the true class
    auc : area under the ROC curve; for more than two classes, the one-vs-rest macro average over
        the classes for which it is defined
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
        """Return JSON-compatible data; NaN becomes None, and ``worst`` becomes 1-based.

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
    """Compute the metrics of class probabilities.

    Parameters
    ----------
    codes : array of shape (N,)
        True classes as column indices of P.
    P : array of shape (N, C)
        Probabilities.
    labels : sequence of length C
        Names of the classes.
    predicted : array of shape (N,), optional
        Predicted classes as column indices of P. By default, the argmax of each row.
    losses : array of shape (N,), optional
        Log losses of the samples, if they are available with a higher precision than from P.

    Returns
    -------
    ClassificationMetrics

    Examples
    --------
    >>> from maxplus.metrics import classification_metrics
    >>> P = [[0.9, 0.1], [0.6, 0.4], [0.2, 0.8], [0.3, 0.7]]
    >>> metrics = classification_metrics([0, 0, 1, 0], P, ["healthy", "ill"])
    >>> metrics.accuracy, metrics.classes[1].precision, metrics.confusion.tolist()
    (0.75, 0.5, [[2, 1], [0, 1]])
    """
    codes, P = check_predictions(codes, P)
    n, C = P.shape
    if len(labels) != C:
        raise ValueError(f"labels must name the {C} columns of P; got {len(labels)} names")
    sample_losses = log_losses(codes, P) if losses is None else np.asarray(losses, float)
    if sample_losses.shape != (n,):
        raise ValueError(f"losses must have shape ({n},), like codes; got {sample_losses.shape}")
    predicted = P.argmax(axis=1) if predicted is None else predicted
    predicted, _ = check_predictions(predicted, P, "predicted")
    counts = np.bincount(codes, minlength=C)
    n_predicted = np.bincount(predicted, minlength=C)
    precision, recall, f1, _ = precision_recall_fscore_support(
        codes, predicted, labels=range(C), zero_division=np.nan
    )
    # For two classes, both values are equal, except that rounding in 1 − p may create ties.
    auc = [_one_vs_rest_auc(codes == d, P[:, d]) for d in range(C)]
    if C == 2:
        auc[0] = auc[1]
    defined = [value for value in auc if not math.isnan(value)]
    accuracy = float((predicted == codes).mean())
    return ClassificationMetrics(
        n_rows=n,
        accuracy=accuracy,
        accuracy_error=math.sqrt(accuracy * (1.0 - accuracy) / n),
        balanced_accuracy=float(recall[counts > 0].mean()),
        macro_f1=float(f1[(counts > 0) | (n_predicted > 0)].mean()),
        log_loss=float(sample_losses.mean()),
        auc=float(np.mean(defined)) if defined else math.nan,
        calibration_error=reliability(codes, P).error,
        max_loss=float(sample_losses.max()),
        worst=int(sample_losses.argmax()),
        classes=tuple(
            ClassMetrics(
                str(labels[d]),
                int(counts[d]),
                int(n_predicted[d]),
                float(precision[d]),
                float(recall[d]),
                float(f1[d]),
                auc[d],
            )
            for d in range(C)
        ),
        confusion=confusion_matrix(codes, predicted, labels=range(C)),
    )


def _one_vs_rest_auc(is_class: NDArray, p: NDArray) -> float:
    """Return the one-vs-rest ROC AUC of a class; NaN if it is undefined."""
    return float(roc_auc_score(is_class, p)) if 0 < is_class.sum() < is_class.size else math.nan
