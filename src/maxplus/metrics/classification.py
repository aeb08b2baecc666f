"""How good a classifier's probabilities are, as plain data: overall, by class, in one matrix."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support, roc_auc_score

from maxplus.metrics._checks import check_predictions
from maxplus.metrics._plain import plain
from maxplus.metrics.calibration import reliability
from maxplus.metrics.log_loss import log_losses


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
    """What is to be told about a classifier's probabilities of labelled rows.

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
    areas = [_area(codes == 1, P[:, 1])] * 2 if C == 2 else _areas(codes, P)
    accuracy = float((predicted == codes).mean())
    return ClassifierFigures(
        n_rows=n,
        accuracy=accuracy,
        accuracy_error=math.sqrt(accuracy * (1.0 - accuracy) / n),
        balanced_accuracy=float(recall[counts > 0].mean()),
        macro_f1=float(f1[(counts > 0) | (taken > 0)].mean()),
        log_loss=float(each.mean()),
        auc=_mean(areas),
        calibration_error=reliability(codes, P).error,
        max_loss=float(each.max()),
        worst=int(each.argmax()),
        classes=tuple(
            ClassFigures(
                str(labels[d]), int(counts[d]), int(taken[d]),
                float(precision[d]), float(recall[d]), float(f1[d]), areas[d],
            )
            for d in range(C)
        ),
        confusion=confusion_matrix(codes, predicted, labels=range(C)),
    )  # fmt: skip


def _areas(codes: NDArray, P: NDArray) -> list[float]:
    return [_area(codes == d, P[:, d]) for d in range(P.shape[1])]


def _area(is_own: NDArray, p: NDArray) -> float:
    """The area under one class's curve; NaN where all rows are of it, or none."""
    return float(roc_auc_score(is_own, p)) if 0 < is_own.sum() < is_own.size else math.nan


def _mean(values: Sequence[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return float(np.mean(known)) if known else math.nan
