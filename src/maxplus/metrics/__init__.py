"""Metrics for classification, regression and robustness."""

from maxplus.metrics._formatting import to_jsonable
from maxplus.metrics.classification import (
    ClassificationMetrics,
    ClassMetrics,
    Reliability,
    classification_metrics,
    expected_calibration_error,
    log_losses,
    reliability,
)
from maxplus.metrics.regression import RegressionMetrics, regression_metrics
from maxplus.metrics.robustness import RobustErrors, attack, robust_errors

__all__ = [
    "ClassMetrics",
    "ClassificationMetrics",
    "RegressionMetrics",
    "Reliability",
    "RobustErrors",
    "attack",
    "classification_metrics",
    "expected_calibration_error",
    "log_losses",
    "regression_metrics",
    "reliability",
    "robust_errors",
    "to_jsonable",
]
