"""How good predictions are and how far probabilities can be trusted, from labels and those."""

from maxplus.metrics._plain import plain
from maxplus.metrics.calibration import Reliability, expected_calibration_error, reliability
from maxplus.metrics.classification import ClassFigures, ClassifierFigures, judge_classifier
from maxplus.metrics.log_loss import log_losses
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
