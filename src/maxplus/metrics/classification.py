"""Quality of class probabilities: log loss, calibration, and metrics overall and by class."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support, roc_auc_score

from maxplus.metrics._readable import plain

# Sums of many exponentials may end a little above 1.
TOLERANCE = 1e-6
# Nearest neighbours and forests give 0 and 1; without a floor one mistake would cost infinity.
FLOOR = 1e-15
N_BINS = 15


def check_predictions(codes: ArrayLike, P: ArrayLike) -> tuple[NDArray, NDArray]:
    """Return labels 0..C−1 of shape (N,) and probabilities (N, C) as arrays, or raise."""
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
    """Return −log P[n, codes[n]] of each sample; probabilities below 1e−15 count as that.

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
    """Top probabilities and how often they are right, in B bins of equal width.

    ``confidence`` and ``accuracy`` are NaN in bins without samples.
    """

    count: NDArray  # (B,) samples whose top probability lies in [b / B, (b + 1) / B)
    confidence: NDArray  # (B,) their mean top probability
    accuracy: NDArray  # (B,) the share of them whose top class is right

    @property
    def error(self) -> float:
        """The expected calibration error: Σ_b count_b / N · |accuracy_b − confidence_b|."""
        filled = self.count > 0
        gap = np.abs(self.accuracy[filled] - self.confidence[filled])
        return float(self.count[filled] @ gap / self.count.sum())


def reliability(codes: ArrayLike, P: ArrayLike, n_bins: int = N_BINS) -> Reliability:
    """Return how often the most probable class is right, by its probability; O(N·C).

    Parameters
    ----------
    codes : the true classes as columns of P, shape (N,)
    P : probabilities of shape (N, C); of equal ones the first counts as the top
    n_bins : B; the last bin holds 1 as well

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
    """Return the mean gap between top probabilities and how often they are right.

    Few samples per bin make it too large: even of perfect probabilities some gap is chance.

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
class ClassFigures:
    """One class against all others; a figure is NaN where the rows do not tell it."""

    label: str
    n_rows: int  # rows of this class
    n_predicted: int  # rows that were taken for it
    precision: float  # the share of rows taken for it that are of it
    recall: float  # the share of its rows that were taken for it
    f1: float  # the harmonic mean of both
    auc: float  # how often one of its rows gets a higher probability of it than another's


@dataclass(frozen=True)
class ClassifierFigures:
    """Quality of a classifier's probabilities on labelled rows.

    Attributes
    ----------
    n_rows : how many rows
    accuracy, accuracy_error : the share that is right, and its standard error √(a·(1 − a) / n)
    balanced_accuracy : the mean recall of the classes that there are rows of
    macro_f1 : the mean F1 of the classes that there are rows of, or that rows were taken for
    log_loss : the mean of −log(probability of the true class)
    auc : the area under the curve of two classes; of several, their mean, each against the others
    calibration_error : see `maxplus.metrics.expected_calibration_error`
    max_loss, worst : the largest loss, and the first row that has it, from 0
    classes : figures of each class
    confusion : array (C, C) of counts; rows are true classes, columns predicted ones
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
    classes: tuple[ClassFigures, ...]
    confusion: NDArray

    def to_json(self) -> dict[str, Any]:
        """Numbers, words, lists and dicts; NaN is None, and the worst row counts from 1.

        Returns
        -------
        dict
        """
        return plain(self) | {"worst": self.worst + 1}


def judge_classifier(
    codes: ArrayLike,
    P: ArrayLike,
    labels: Sequence[Any],
    *,
    predicted: ArrayLike | None = None,
    losses: ArrayLike | None = None,
) -> ClassifierFigures:
    """Judge probabilities by the true classes; O(N·C + N·log N·C).

    Parameters
    ----------
    codes : the true classes as columns of P, shape (N,)
    P : probabilities of shape (N, C)
    labels : C names
    predicted : what was predicted, as columns of P; the first of the most probable by default
    losses : −log P of the true classes, where they are known more precisely than from P, which
        may have rounded to 0

    Returns
    -------
    ClassifierFigures

    Examples
    --------
    >>> from maxplus.metrics import judge_classifier
    >>> P = [[0.9, 0.1], [0.6, 0.4], [0.2, 0.8], [0.3, 0.7]]
    >>> figures = judge_classifier([0, 0, 1, 0], P, ["healthy", "ill"])
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
    taken = np.bincount(predicted, minlength=C)
    precision, recall, f1, _ = precision_recall_fscore_support(
        codes, predicted, labels=range(C), zero_division=np.nan
    )
    # Of two classes one curve is the other's mirror image; 1 − p would round some ranks away.
    areas = (
        [_area(codes == 1, P[:, 1])] * 2
        if C == 2
        else [_area(codes == d, P[:, d]) for d in range(C)]
    )
    known = [area for area in areas if not math.isnan(area)]
    accuracy = float((predicted == codes).mean())
    return ClassifierFigures(
        n_rows=n,
        accuracy=accuracy,
        accuracy_error=math.sqrt(accuracy * (1.0 - accuracy) / n),
        balanced_accuracy=float(recall[counts > 0].mean()),
        macro_f1=float(f1[(counts > 0) | (taken > 0)].mean()),
        log_loss=float(each.mean()),
        auc=float(np.mean(known)) if known else math.nan,
        calibration_error=reliability(codes, P).error,
        max_loss=float(each.max()),
        worst=int(each.argmax()),
        classes=tuple(
            ClassFigures(
                str(labels[d]),
                int(counts[d]),
                int(taken[d]),
                float(precision[d]),
                float(recall[d]),
                float(f1[d]),
                areas[d],
            )
            for d in range(C)
        ),
        confusion=confusion_matrix(codes, predicted, labels=range(C)),
    )


def _area(is_own: NDArray, p: NDArray) -> float:
    """Return the area under one class's curve; NaN where all rows are of it, or none."""
    return float(roc_auc_score(is_own, p)) if 0 < is_own.sum() < is_own.size else math.nan
