"""Quality of predictions and probabilities, from labels and predictions, as plain data."""

from maxplus.metrics._readable import plain
from maxplus.metrics.classification import (
    ClassFigures,
    ClassifierFigures,
    Reliability,
    expected_calibration_error,
    judge_classifier,
    log_losses,
    reliability,
)
from maxplus.metrics.regression import RegressionFigures, judge_regression

__all__ = [
    "ClassFigures",
    "ClassifierFigures",
    "RegressionFigures",
    "Reliability",
    "expected_calibration_error",
    "judge_classifier",
    "judge_regression",
    "log_losses",
    "plain",
    "reliability",
]
